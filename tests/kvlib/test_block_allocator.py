"""The pool of blocks: who holds what, refusals that change nothing, and any order of calls against plain counting."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kvlib.block_allocator import BlockAllocator, blocks_needed

SIZES = (1, 3, 4, 16)


@pytest.mark.parametrize("block_size", SIZES)
def test_blocks_needed_against_filling_them(block_size):
    for tokens in range(50):
        filled = [list(range(tokens))[i : i + block_size] for i in range(0, tokens, block_size)]
        assert blocks_needed(tokens, block_size) == len(filled)


@pytest.mark.parametrize(("tokens", "block_size"), [(-1, 4), (5, 0), (5, -4)])
def test_no_blocks_for_sizes_that_are_none(tokens, block_size):
    with pytest.raises(ValueError, match=f"{tokens} and {block_size}"):
        blocks_needed(tokens, block_size)


def state(pool: BlockAllocator) -> tuple:
    """All that can be seen of it without changing it."""
    return pool.num_free, *(pool.ref_count(block) for block in range(pool.num_blocks))


def test_all_blocks_go_out_once():
    pool = BlockAllocator(7)
    blocks = [*pool.allocate(3), *pool.allocate(0), *pool.allocate(1), *pool.allocate(3)]
    assert sorted(blocks) == list(range(7))
    assert pool.num_free == 0 and pool.can_allocate(0) and not pool.can_allocate(1)


def test_a_pool_is_never_empty_from_the_start():
    with pytest.raises(ValueError, match="got 0"):
        BlockAllocator(0)


@pytest.mark.parametrize("n", [3, 8, -1])
def test_what_cannot_be_had_is_not_taken(n):
    pool = BlockAllocator(7)
    pool.allocate(5)
    before = state(pool)
    assert not pool.can_allocate(n)
    with pytest.raises(ValueError, match=f"{n} blocks asked, 2 of 7"):
        pool.allocate(n)
    assert state(pool) == before
    assert len(set(pool.allocate(2))) == 2


@pytest.mark.parametrize("bad", [[7], [-1], [-7], [6], [0, 6], [6, 0], [0, 0], [1, 2, 1]])
def test_what_nobody_holds_is_not_freed(bad):
    pool = BlockAllocator(7)
    assert sorted(pool.allocate(5)) == [0, 1, 2, 3, 4]
    before = state(pool)
    with pytest.raises(ValueError, match="is held"):
        pool.free(bad)
    assert state(pool) == before


def test_a_block_comes_back_once():
    pool = BlockAllocator(3)
    [block] = pool.allocate(1)
    pool.free([block])
    with pytest.raises(ValueError, match=f"block {block} is held 0 times"):
        pool.free([block])
    assert sorted(pool.allocate(3)) == [0, 1, 2]


def test_a_shared_block_goes_back_with_its_last_holder():
    pool = BlockAllocator(3)
    a, b = pool.allocate(2)
    pool.share([a])
    assert (pool.ref_count(a), pool.ref_count(b), pool.num_free) == (2, 1, 1)
    pool.free([a, b])
    assert (pool.ref_count(a), pool.ref_count(b), pool.num_free) == (1, 0, 2)
    pool.free([a])
    assert pool.num_free == 3


@pytest.mark.parametrize("bad", [[2], [0, 2], [3], [-1]])
def test_what_nobody_holds_is_not_shared(bad):
    pool = BlockAllocator(3)
    pool.allocate(2)
    before = state(pool)
    with pytest.raises(ValueError, match="is held 0 times"):
        pool.share(bad)
    assert state(pool) == before


def test_a_holder_of_two_may_give_both_back_at_once():
    pool = BlockAllocator(3)
    [block] = pool.allocate(1)
    pool.share([block, block])
    pool.free([block, block])
    assert pool.ref_count(block) == 1
    with pytest.raises(ValueError, match="is held 1 times, 2 asked"):
        pool.free([block, block])


@pytest.mark.parametrize("block", [-1, 3])
def test_holders_of_no_block(block):
    with pytest.raises(ValueError, match=f"0 to 2, got {block}"):
        BlockAllocator(3).ref_count(block)


class Pools(RuleBasedStateMachine):
    """Any calls in any order, good and bad ones, against a plain count of holders."""

    @initialize(num_blocks=st.integers(1, 7))
    def start(self, num_blocks):
        self.pool = BlockAllocator(num_blocks)
        self.holders: Counter[int] = Counter()

    @property
    def free_blocks(self) -> set[int]:
        return {block for block in range(self.pool.num_blocks) if not self.holders[block]}

    @rule(n=st.integers(-2, 9))
    def allocate(self, n):
        before = self.free_blocks
        if not 0 <= n <= len(before):
            with pytest.raises(ValueError, match=f"{n} blocks asked"):
                self.pool.allocate(n)
            return
        blocks = self.pool.allocate(n)
        assert len(blocks) == len(set(blocks)) == n and before.issuperset(blocks)
        self.holders.update(blocks)

    @precondition(lambda self: +self.holders)
    @rule(data=st.data())
    def free_some(self, data):
        blocks = data.draw(st.lists(st.sampled_from(sorted((+self.holders).elements())), max_size=4))
        if Counter(blocks) <= self.holders:
            self.pool.free(blocks)
            self.holders.subtract(blocks)
        else:
            with pytest.raises(ValueError, match="is held"):
                self.pool.free(blocks)

    @rule(blocks=st.lists(st.integers(-2, 9), min_size=1, max_size=4))
    def free_anything(self, blocks):
        if Counter(blocks) <= self.holders:
            self.pool.free(blocks)
            self.holders.subtract(blocks)
        else:
            with pytest.raises(ValueError, match="is held"):
                self.pool.free(blocks)

    @rule(blocks=st.lists(st.integers(-1, 7), max_size=3))
    def share(self, blocks):
        if all(self.holders[block] > 0 for block in blocks):
            self.pool.share(blocks)
            self.holders.update(blocks)
        else:
            with pytest.raises(ValueError, match="is held 0 times"):
                self.pool.share(blocks)

    @invariant()
    def free_and_used_partition_the_pool(self):
        blocks = range(self.pool.num_blocks)
        assert [self.pool.ref_count(block) for block in blocks] == [self.holders[block] for block in blocks]
        assert self.pool.num_free == len(self.free_blocks)
        assert [self.pool.can_allocate(n) for n in range(9)] == [n <= len(self.free_blocks) for n in range(9)]
        assert set(self.pool._free) == self.free_blocks and len(self.pool._free) == len(self.free_blocks)


TestPools = Pools.TestCase
TestPools.settings = settings(max_examples=60, stateful_step_count=30, deadline=None, derandomize=True, database=None)
