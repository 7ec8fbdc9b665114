"""Block tables: the worked figures, refusals that change nothing, and any order of calls against plain lists."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kvlib.block_allocator import BlockAllocator, blocks_needed
from kvlib.block_tables import BlockTables

FACTS = Path(__file__).parents[1] / "data" / "facts_h.json"


@pytest.fixture(scope="module")
def figures() -> dict[str, Any]:
    """Figure by id. Every one says what it is of and where it comes from."""
    rows = json.loads(FACTS.read_text(encoding="utf-8"))
    for row in rows:
        assert set(row) == {"id", "setting", "figure", "source"}, row
        assert row["source"] == "course fact sheet"
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: row["figure"] for row in rows}


class Given(BlockAllocator):
    """Gives out these blocks first, in this order."""

    def __init__(self, num_blocks: int, order: list[int]) -> None:
        super().__init__(num_blocks)
        rest = [block for block in range(num_blocks) if block not in order]
        self._free = [*rest, *order[::-1]]


def reserved(tables: BlockTables) -> int:
    """Slots of all blocks in use."""
    return sum(len(tables.table(seq)) for seq in tables.sequences) * tables.block_size


def test_two_sequences_between_each_other(figures):
    fact = figures["H1.held"]
    order = [fact["tables"]["A"][0], *fact["tables"]["B"], fact["tables"]["A"][1]]
    tables = BlockTables(Given(11, order), fact["block_size"])
    assert tables.append("A", 3) == [28, 29, 30]
    assert tables.append("B", fact["lengths"]["B"]) == [36, 37, 38]
    assert tables.append("A", fact["lengths"]["A"] - 3) == [31, 8]
    assert {seq: tables.table(seq) for seq in "AB"} == fact["tables"]
    assert {seq: tables.length(seq) for seq in "AB"} == fact["lengths"]
    assert reserved(tables) == fact["slots"]
    assert sum(fact["lengths"].values()) == fact["tokens"]
    assert reserved(tables) - fact["tokens"] == fact["wasted"]


def test_one_of_them_grows(figures):
    held, grown = figures["H1.held"], figures["H1.grown"]
    tables = BlockTables(BlockAllocator(11), grown["block_size"])
    for seq, length in held["lengths"].items():
        tables.append(seq, length)
    for step in grown["steps"]:
        tables.append("A", step["A"] - tables.length("A"))
        assert tables.length("B") == step["B"]
        assert reserved(tables) == step["slots"]
        assert tables.length("A") + tables.length("B") == step["tokens"]


def test_a_small_pool_cannot_promise_it(figures):
    fact = figures["H1.pool"]
    tables = BlockTables(BlockAllocator(fact["pool_slots"] // fact["block_size"]), fact["block_size"])
    for seq, length in fact["fits"].items():
        tables.append(seq, length)
    more = fact["too_many"]["A"] - fact["fits"]["A"]
    assert not tables.can_append("A", more)
    with pytest.raises(ValueError, match="4 tokens more of 'A' need 1 more blocks"):
        tables.append("A", more)
    assert tables.can_append("A", more - 1)


def test_what_the_last_block_wastes(figures):
    fact = figures["H2"]
    slots = blocks_needed(fact["tokens"], fact["block_size"]) * fact["block_size"]
    assert (slots, slots - fact["tokens"]) == (fact["slots"], fact["wasted"])
    assert fact["block_size"] == fact["vllm_default_block_size"]


@pytest.mark.parametrize("block_size", [0, -4])
def test_no_tables_without_room_in_a_block(block_size):
    with pytest.raises(ValueError, match=f"got {block_size}"):
        BlockTables(BlockAllocator(3), block_size)


def test_a_block_is_taken_when_a_token_comes_not_before():
    pool = BlockAllocator(5)
    tables = BlockTables(pool, 4)
    in_use = []
    for _ in range(9):
        tables.append("A", 1)
        in_use.append(5 - pool.num_free)
    assert in_use == [1, 1, 1, 1, 2, 2, 2, 2, 3]


def state(tables: BlockTables) -> tuple:
    """All that can be seen, without changing it."""
    seqs = tables.sequences
    return tables.allocator.num_free, seqs, [tables.table(seq) for seq in seqs], [tables.length(seq) for seq in seqs]


@pytest.mark.parametrize(("seq", "n"), [("A", 0), ("A", -1), ("B", 0), ("A", 12), ("B", 9)])
def test_a_refused_append_changes_nothing(seq, n):
    tables = BlockTables(BlockAllocator(4), 4)
    tables.append("A", 5)
    before = state(tables)
    assert not tables.can_append(seq, n)
    with pytest.raises(ValueError, match=f"{n}"):
        tables.append(seq, n)
    assert state(tables) == before
    assert tables.append("A", 11)


@pytest.mark.parametrize("call", [lambda t: t.table("B"), lambda t: t.length("B"), lambda t: t.free("B"),
                                  lambda t: t.truncate("B", 0)])  # fmt: skip
def test_nobody_is_known_by_being_asked_for(call):
    tables = BlockTables(BlockAllocator(4), 4)
    tables.append("A", 5)
    before = state(tables)
    with pytest.raises(ValueError, match="no sequence 'B'; known are \\['A'\\]"):
        call(tables)
    assert state(tables) == before


@pytest.mark.parametrize("length", [-1, 6])
def test_truncation_to_what_was_never_there(length):
    tables = BlockTables(BlockAllocator(4), 4)
    tables.append("A", 5)
    before = state(tables)
    with pytest.raises(ValueError, match=f"0 to 5, got {length}"):
        tables.truncate("A", length)
    assert state(tables) == before


def test_truncation_gives_back_whole_blocks():
    pool = BlockAllocator(4)
    tables = BlockTables(pool, 4)
    tables.append("A", 9)
    table = tables.table("A")
    tables.truncate("A", 5)
    assert tables.table("A") == table[:2] and pool.num_free == 2
    tables.truncate("A", 0)
    assert tables.table("A") == [] and tables.length("A") == 0 and tables.sequences == ["A"] and pool.num_free == 4
    tables.free("A")
    assert tables.sequences == []


def test_what_is_told_is_a_copy():
    tables = BlockTables(BlockAllocator(4), 4)
    tables.append("A", 5)
    tables.table("A").append(3)
    assert len(tables.table("A")) == 2


class Sequences(RuleBasedStateMachine):
    """Tokens are written to the slots that `append` gives, and read by the table: they must be a plain list."""

    names = st.sampled_from(["A", "B", 0, 7])

    @initialize(num_blocks=st.integers(1, 6), block_size=st.integers(1, 4), elsewhere=st.integers(0, 2))
    def start(self, num_blocks, block_size, elsewhere):
        self.pool = BlockAllocator(num_blocks)
        self.elsewhere = self.pool.allocate(min(elsewhere, num_blocks))
        self.tables, self.block_size = BlockTables(self.pool, block_size), block_size
        self.lists: dict[str | int, list[int]] = {}
        self.memory = [-1] * (num_blocks * block_size)
        self.token = 0

    def room(self, seq) -> int:
        """Tokens that fit: the rest of its last block, and all free blocks."""
        return -len(self.lists.get(seq, [])) % self.block_size + self.pool.num_free * self.block_size

    @rule(seq=names, n=st.integers(-1, 9))
    def append(self, seq, n):
        before, fits = self.seen(), 1 <= n <= self.room(seq)
        assert self.tables.can_append(seq, n) == fits
        if not fits:
            with pytest.raises(ValueError, match="tokens"):
                self.tables.append(seq, n)
            assert self.seen() == before
            return
        new = list(range(self.token, self.token + n))
        self.token += n
        for slot, token in zip(self.tables.append(seq, n), new, strict=True):
            self.memory[slot] = token
        self.lists.setdefault(seq, []).extend(new)

    @rule(seq=names, length=st.integers(-1, 9))
    def truncate(self, seq, length):
        before = self.seen()
        if seq in self.lists and 0 <= length <= len(self.lists[seq]):
            self.tables.truncate(seq, length)
            del self.lists[seq][length:]
        else:
            with pytest.raises(ValueError, match="length must be|no sequence"):
                self.tables.truncate(seq, length)
            assert self.seen() == before

    @rule(seq=names)
    def free(self, seq):
        if seq in self.lists:
            self.tables.free(seq)
            del self.lists[seq]
        else:
            with pytest.raises(ValueError, match="no sequence"):
                self.tables.free(seq)

    def seen(self) -> tuple:
        return state(self.tables)

    @invariant()
    def tables_read_as_lists(self):
        assert set(self.tables.sequences) == set(self.lists)
        for seq, tokens in self.lists.items():
            size, table = self.block_size, self.tables.table(seq)
            rows = [block * size + place for block in table for place in range(size)]
            assert self.tables.length(seq) == len(tokens)
            assert [self.memory[row] for row in rows[: len(tokens)]] == tokens
            assert len(rows) - len(tokens) < size

    @invariant()
    def free_and_used_partition_the_pool(self):
        used = [block for seq in self.lists for block in self.tables.table(seq)] + self.elsewhere
        assert sorted([*used, *self.pool._free]) == list(range(self.pool.num_blocks))


TestSequences = Sequences.TestCase
TestSequences.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None, derandomize=True, database=None
)
