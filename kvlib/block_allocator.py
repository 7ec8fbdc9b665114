"""A pool of blocks, and who holds them. No memory is in here, only numbers: the pools of keys and values are elsewhere.

A block is room for `block_size` tokens. Whoever needs room takes blocks, and gives them back later. Nobody has to say
in advance how long a sequence will get. Source: Kwon et al. 2023 (PagedAttention), who have it from virtual memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from operator import index


def blocks_needed(num_tokens: int, block_size: int) -> int:
    """Blocks that hold num_tokens tokens: the last one may be partly empty. Raises ValueError for sizes that are none.

    Whole numbers only: 4 / 4 + 1 would take a block too many.

    >>> [blocks_needed(tokens, 4) for tokens in (0, 4, 5)]
    [0, 1, 2]
    """
    if num_tokens < 0 or block_size < 1:
        raise ValueError(f"num_tokens must be 0 or more and block_size 1 or more, got {num_tokens} and {block_size}")
    return -(-num_tokens // block_size)


class BlockAllocator:
    """Gives out the blocks 0 to num_blocks - 1, and counts how many hold each of them.

    A block that was given out has one holder; `share` adds one, `free` takes one away. It goes back to the pool when
    nobody holds it any more. What was freed last is given out first: it may still be warm in a processor's cache.

    >>> pool = BlockAllocator(3)
    >>> pool.allocate(2), pool.num_free
    ([0, 1], 1)
    >>> pool.share([0])
    >>> pool.free([0, 1])  # block 0 has a holder left
    >>> pool.ref_count(0), pool.num_free
    (1, 2)
    """

    def __init__(self, num_blocks: int) -> None:
        """Raises ValueError for a pool of fewer than one block."""
        if num_blocks < 1:
            raise ValueError(f"num_blocks must be at least 1, got {num_blocks}")
        self.num_blocks = num_blocks
        self._free = list(range(num_blocks))[::-1]  # given out from the end
        self._holders: dict[int, int] = {}  # of each block in use, never 0

    @property
    def num_free(self) -> int:
        """Blocks that nobody holds."""
        return len(self._free)

    def can_allocate(self, n: int) -> bool:
        """Whether `allocate(n)` would be carried out."""
        return 0 <= n <= len(self._free)

    def allocate(self, n: int) -> list[int]:
        """Take n blocks, all or none. Raises ValueError when fewer are free; nothing has changed then."""
        if not self.can_allocate(n):
            raise ValueError(f"{n} blocks asked, {len(self._free)} of {self.num_blocks} are free")
        blocks = [self._free.pop() for _ in range(n)]
        self._holders.update(dict.fromkeys(blocks, 1))
        return blocks

    def share(self, blocks: Iterable[int]) -> None:
        """One more holder of each. Raises ValueError when one is not in use; nothing has changed then."""
        counts = self._counted(blocks)
        for block in counts:
            self._insist_on_holders(block, 1)
        for block, times in counts.items():
            self._holders[block] += times

    def free(self, blocks: Iterable[int]) -> None:
        """One holder less of each; a block goes back to the pool when nobody is left.

        Raises ValueError when one is not held as often as it is named here: given back already, named twice, never
        given out, no block at all. Nothing has changed then, also for the others.
        """
        counts = self._counted(blocks)
        for block, times in counts.items():
            self._insist_on_holders(block, times)
        for block, times in counts.items():
            self._holders[block] -= times
            if not self._holders[block]:
                del self._holders[block]
                self._free.append(block)

    def ref_count(self, block: int) -> int:
        """How many hold a block, 0 for one in the pool. Raises ValueError for a number that is no block's."""
        if not 0 <= block < self.num_blocks:
            raise ValueError(f"block must be 0 to {self.num_blocks - 1}, got {block}")
        return self._holders.get(block, 0)

    def _counted(self, blocks: Iterable[int]) -> Counter[int]:
        return Counter(map(index, blocks))  # plain ints: what comes back is given out again

    def _insist_on_holders(self, block: int, wanted: int) -> None:
        held = self._holders.get(block, 0)
        if held < wanted:
            raise ValueError(f"block {block} is held {held} times, {wanted} asked")
