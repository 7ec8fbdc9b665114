"""A paged cache of the learner's over pools of the stage's: every call is followed by a look at everything."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from autograde.compare import as_array, shown
from autograde.exercises.block_allocator.numbers import too_many
from autograde.exercises.positions import at_position, named_when
from autograde.expect import agrees, equals, half, is_pair, refuses
from autograde.finding import Finding, held
from autograde.subject import Event, Subject

Seq = str | int
HKV, D = 2, 5
AXES = ("token", "KV head", "feature")


def blocks_of(value: Any, num_blocks: int) -> list[int] | None:
    """A list of different whole numbers from 0 to num_blocks - 1, or None."""
    if too_many(value):
        return None
    if isinstance(value, np.ndarray):
        value = value.tolist()
    right = isinstance(value, list) and all(type(item) is int and 0 <= item < num_blocks for item in value)
    return value if right and len(set(value)) == len(value) else None


class Run:
    """One cache, its two pools, and for each sequence plain arrays of the rows that it must give back."""

    def __init__(
        self,
        subject: Subject,
        rng: np.random.Generator,
        num_blocks: int,
        block_size: int,
        row: tuple[int, int] = (HKV, D),
    ) -> None:
        self.subject, self.rng, self.num_blocks, self.block_size = subject, rng, num_blocks, block_size
        self.row = row  # KV heads, head dim
        nothing = np.full((num_blocks, block_size, *row), np.nan)
        self.pools = [subject.put(nothing) for _ in range(2)]
        self.cache = subject.new(*self.pools)
        self.rows: dict[Seq, np.ndarray] = {}  # (2, S, *row) each
        self.tables: dict[Seq, list[int]] = {}  # as the learner told them last
        self.arrays = [nothing, nothing]  # the pools as they were seen last
        self.calls = 0

    def draw(self, num_tokens: int) -> np.ndarray:
        """Rows of new tokens: k and v."""
        return self.rng.normal(size=(2, num_tokens, *self.row))

    def append(self, seq: Seq, num_tokens: int) -> Iterable[Finding]:
        """Append new tokens, and look at everything."""
        kv = self.draw(num_tokens)
        yield from self.after(f"append({seq!r}, T = {num_tokens})", "append", seq, *kv, keep=(seq, kv))

    def append_kept(self, seq: Seq, kv: np.ndarray, kept: list[Any]) -> Iterable[Finding]:
        """Append rows that stand in tensors of the caller's."""
        for handle, rows in zip(kept, kv, strict=True):
            self.subject.fill(handle, rows)
        yield from self.after(f"append({seq!r}, {kv.shape[1]} tokens)", "append", seq, *kept, keep=(seq, kv))

    def truncate(self, seq: Seq, length: int) -> Iterable[Finding]:
        """Truncate, and look at everything."""
        self.rows[seq] = self.rows[seq][:, :length]
        yield from self.after(f"truncate({seq!r}, {length})", "truncate", seq, length)

    def free(self, seq: Seq) -> Iterable[Finding]:
        """Free, and look at those that are left."""
        del self.rows[seq], self.tables[seq]
        yield from self.after(f"free({seq!r})", "free", seq)

    def after(
        self, what: str, method: str, *args: Any, keep: tuple[Seq, np.ndarray] | None = None
    ) -> Iterable[Finding]:
        """Make a call, and look at everything. keep: the rows that a sequence has from then on."""
        when = self.named(what)
        with named_when(f"at {when}"):
            self.subject.call(self.cache, method, *args)
        if keep is not None:
            seq, kv = keep
            self.rows[seq] = np.concatenate((self.rows.get(seq, kv[:, :0]), kv), axis=1)
        yield from self.look(when)

    def refused(self, what: str, method: str, *args: Any, after: str = "") -> Iterable[Finding]:
        """A call that must be refused, and change nothing. after: what to ask when it was not."""
        when = self.named(what)

        def look() -> None:
            if method == "table" and (table := blocks_of(self.subject.record[-1].value, self.num_blocks)):
                self.rename(list(range(len(table))))
            if after:
                self.subject.call(self.cache, after, args[0])

        yield refuses(self.subject, self.cache, method, *args, key=when, what=when, after=look)
        yield from self.look(f"after {when}, was refused")

    def named(self, what: str) -> str:
        """A call with its number."""
        self.calls += 1
        return f"call {self.calls}, {what}"

    def look(self, when: str) -> Iterable[Finding]:
        """Whether lengths, tables, rows and pools are right, with NaN in all blocks that are in no table."""
        subject, size = self.subject, self.block_size
        numbers: dict[int, int] = {}
        for seq, rows in self.rows.items():
            where, length = f"blocks of {size}, {when}: {seq!r}", rows.shape[1]
            got, fact = subject.call(self.cache, "length", seq), "length(seq) is the number of its tokens"
            yield equals(subject, got, length, key="length", fact=fact, what=where)
            got, need = subject.call(self.cache, "table", seq), -(-length // size)
            table = blocks_of(got, self.num_blocks)
            if table is not None:
                self.rename([numbers.setdefault(block, len(numbers)) for block in table])
            fact = f"table(seq) is a list of ceil(length / {size}) different blocks, 0 to {self.num_blocks - 1}"
            right = table is not None and len(table) == need
            yield self.said(right, "table", fact, where, f"{need} block{'' if need == 1 else 's'}", shown(got)[:80])
            assert table is not None  # a finding that fails ends the stage
            self.tables[seq] = table
        held_blocks = [block for table in self.tables.values() for block in table]
        fact = "no block is in two tables"
        twice = [block for block in held_blocks if held_blocks.count(block) > 1]
        yield self.said(not twice, "shared", fact, when, "blocks of its own", f"block {(twice or [0])[0]} in two")
        yield from self.poison(held_blocks, when)
        for seq, rows in self.rows.items():
            yield from self.reads(seq, rows, f"blocks of {size}, {when}: {seq!r}")
        got, fact = subject.get(self.cache, "num_free"), "num_free is the number of blocks that are in no table"
        yield equals(subject, got, self.num_blocks - len(held_blocks), key="num_free", fact=fact, what=when)

    def poison(self, held_blocks: list[int], when: str) -> Iterable[Finding]:
        """NaN into all blocks that are in no table."""
        free = [block for block in range(self.num_blocks) if block not in held_blocks]
        for part, name in enumerate("KV"):
            array = as_array(self.subject.read(self.pools[part]), self.arrays[part].shape)[0]
            if array is not None:
                self.rename(array[held_blocks])
            fact = "the pool keeps its shape"
            yield self.said(array is not None, f"pool {name}", fact, when, str(self.arrays[part].shape), "another")
            assert array is not None  # a finding that fails ends the stage
            self.arrays[part] = array
            if not np.isnan(array[free]).all():
                array[free] = np.nan
                self.subject.fill(self.pools[part], array)

    def reads(self, seq: Seq, rows: np.ndarray, where: str) -> Iterable[Finding]:
        """Whether a sequence's rows come back, and stand in the pools where they belong."""
        subject = self.subject
        with named_when(f"with {where}"):
            got = subject.call(self.cache, "read", seq)
        yield is_pair(subject, got, key="pair", what="read() must return the pair (K, V)", where=where)
        table, size = self.tables[seq], self.block_size
        p = np.arange(rows.shape[1])
        blocks = np.array(table, dtype=int)[p // size]
        for part, name in enumerate("KV"):
            fact = f"read() gives the {name} rows of all tokens, in order"
            if np.array_equal(half(got, part), rows[part]):
                continue
            others = {"the other half of the pair": rows[1 - part]}
            others |= {f"{other!r}": kv[part] for other, kv in self.rows.items() if other != seq}
            rows_got = half(got, part)
            finding = agrees(subject, rows_got, rows[part], key=name, fact=fact, others=others, exact=True)
            yield at_position(finding, where, AXES)
        for part, name in enumerate("KV"):
            stands, fact = (
                self.arrays[part][blocks, p % size],
                f"token p stands at [table[p // {size}], p % {size}] in {name}",
            )
            if np.array_equal(stands, rows[part]):
                continue
            yield at_position(agrees(subject, stands, rows[part], key=f"{name} in the pool", fact=fact), where, AXES)

    def change_pools(self) -> Iterable[Finding]:
        """Other numbers in all live rows: whoever owns the pools may do that, and read() shows it."""
        for seq in self.rows:
            self.rows[seq] = self.draw(self.rows[seq].shape[1])
            for part in range(2):
                for p, row in enumerate(self.rows[seq][part]):
                    self.arrays[part][self.tables[seq][p // self.block_size], p % self.block_size] = row
        for handle, array in zip(self.pools, self.arrays, strict=True):
            self.subject.fill(handle, array)
        yield from self.look("after other numbers were written into the pools")

    def memory(self) -> Finding:
        """Whether the cache holds the two pools, and next to nothing besides."""
        want = sum(array.nbytes for array in self.arrays)
        size, fact = self.subject.storage(self.cache), "the rows are in the pools and nowhere else"
        right = type(size) is int and 0 <= size <= want + 32 * self.num_blocks * (self.block_size + 2)
        return self.said(right, "memory", fact, "", f"{want} bytes of pools", f"{shown(size)} bytes held")

    def rename(self, value: Any) -> None:
        """Which free block is given out is nobody's business: in the record, blocks are numbered as they turn up."""
        self.subject.record[-1] = Event(self.subject.record[-1].op, value)

    def said(self, right: bool, key: str, fact: str, where: str, expected: str = "", given: str = "") -> Finding:
        """A finding on this fact."""
        if right:
            return held(key, fact)
        return Finding(False, key, f"does not hold: {fact}", where, expected, given, events=len(self.subject.record))
