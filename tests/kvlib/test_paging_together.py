"""Long lives: 200 operations in a row on each of the allocator, the shared tables and the prefix index, against lists.

Each has its own tests of short histories. Here blocks come round many times, so that what leaks or goes stale adds up.
"""

from __future__ import annotations

from random import Random

import pytest

from kvlib.block_allocator import BlockAllocator
from kvlib.prefix_index import PrefixIndex
from kvlib.shared_tables import SharedTables

POISON = "poison"


class Allocator:
    """A list with the holders of each block."""

    def __init__(self) -> None:
        self.pool, self.holders = BlockAllocator(7), [0] * 7

    def step(self, rng: Random) -> None:
        if rng.random() < 0.4:
            self.allocate(rng.randint(0, 4))
        else:
            self.share_or_free(rng.choices(range(7), k=rng.randint(0, 3)), is_share=rng.random() < 0.3)

    def allocate(self, n: int) -> None:
        if n > self.holders.count(0):
            with pytest.raises(ValueError, match="asked"):
                self.pool.allocate(n)
            return
        for block in self.pool.allocate(n):
            assert self.holders[block] == 0
            self.holders[block] = 1

    def share_or_free(self, blocks: list[int], is_share: bool) -> None:
        change, call = (1, self.pool.share) if is_share else (-1, self.pool.free)
        if any(self.holders[block] < (1 if is_share else blocks.count(block)) for block in blocks):
            with pytest.raises(ValueError, match="held"):
                call(blocks)
            return
        call(blocks)
        for block in blocks:
            self.holders[block] += change

    def check(self) -> None:
        assert [self.pool.ref_count(block) for block in range(7)] == self.holders
        assert self.pool.num_free == self.holders.count(0)


class Shared:
    """A list of rows for each sequence, and the memory that a caller keeps."""

    size = 3

    def __init__(self) -> None:
        self.tables, self.rows, self.written = SharedTables(6, self.size), {}, 0
        self.memory: list[list[object]] = [[POISON] * self.size for _ in range(6)]

    def step(self, rng: Random) -> None:
        if rng.random() < 0.6 or not self.rows:
            self.append(rng.randint(0, 3), rng.randint(1, 5))
        else:
            kind = rng.choice(["fork", "fork", "truncate", "free"])
            self.change(kind, rng.choice(sorted(self.rows)), rng.randint(0, 3), rng.randint(0, 9))

    def append(self, seq: int, n: int) -> None:
        fits = self.tables.can_append(seq, n)
        if not fits:
            with pytest.raises(ValueError, match="free"):
                self.tables.append(seq, n)
            return
        slots, copies = self.tables.append(seq, n)
        for source, target in copies:
            self.memory[target] = list(self.memory[source])
        for slot in slots:
            self.written += 1
            self.memory[slot // self.size][slot % self.size] = self.written
            self.rows.setdefault(seq, []).append(self.written)

    def change(self, kind: str, seq: int, new: int, length: int) -> None:
        if kind == "fork" and new not in self.rows:
            self.tables.fork(seq, new)
            self.rows[new] = list(self.rows[seq])
        elif kind == "truncate" and length <= len(self.rows[seq]):
            self.tables.truncate(seq, length)
            del self.rows[seq][length:]
        elif kind == "free":
            self.tables.free(seq)
            del self.rows[seq]

    def check(self) -> None:
        tables = {seq: self.tables.table(seq) for seq in self.rows}
        used = {block for table in tables.values() for block in table}
        assert self.tables.num_free == 6 - len(used)
        for block in set(range(6)) - used:
            self.memory[block] = [POISON] * self.size
        for seq, rows in self.rows.items():
            there = [self.memory[block][i] for block in tables[seq] for i in range(self.size)]
            assert there[: len(rows)] == rows
            assert len(tables[seq]) == -(-len(rows) // self.size)


class Prefixes:
    """A list of what lies in each block. Most requests are computed at once, the others never."""

    size = 2

    def __init__(self) -> None:
        self.index, self.memory = PrefixIndex(8, self.size), [POISON] * 8
        self.live: dict[int, tuple[tuple[int, ...], bool]] = {}
        self.names = 0

    def step(self, rng: Random) -> None:
        if rng.random() < 0.6 or not self.live:
            self.admit(rng.choices([1, 1, 1, 1, 2], k=rng.randint(1, 11)), is_computed=rng.random() < 0.8)
        else:
            name = rng.choice(sorted(self.live))
            self.index.release(name)
            del self.live[name]

    def admit(self, tokens: list[int], is_computed: bool) -> None:
        self.names += 1
        if not self.index.can_admit(tokens, ("m", "a", "t")):
            with pytest.raises(ValueError, match="more blocks"):
                self.index.admit(self.names, tokens, ("m", "a", "t"))
            return
        cached = self.index.admit(self.names, tokens, ("m", "a", "t"))
        assert cached % self.size == 0
        assert cached < len(tokens)
        contents = [tuple(tokens[: i + self.size]) for i in range(0, len(tokens), self.size)]
        table = self.index.table(self.names)
        assert [self.memory[block] for block in table[: cached // self.size]] == contents[: cached // self.size]
        for block, content in list(zip(table, contents, strict=True))[cached // self.size :]:
            self.memory[block] = content if is_computed else POISON
        if is_computed:
            self.index.computed(self.names)
        self.live[self.names] = tuple(tokens), is_computed

    def check(self) -> None:
        tables = {name: self.index.table(name) for name in self.live}
        assert self.index.num_free == 8 - len({block for table in tables.values() for block in table})
        for name, (tokens, is_computed) in self.live.items():
            if is_computed:
                contents = [tokens[: i + self.size] for i in range(0, len(tokens), self.size)]
                assert [self.memory[block] for block in tables[name]] == contents


@pytest.mark.parametrize("seed", range(7))
@pytest.mark.parametrize("kind", [Allocator, Shared, Prefixes])
def test_200_operations(kind, seed):
    life, rng = kind(), Random(seed)
    for _ in range(200):
        life.step(rng)
        life.check()
