"""Which blocks each sequence has, and where each of its tokens lies.

Token p of a sequence lies in block table[p // block_size], at offset p % block_size. Blocks lie anywhere in the pool:
a writer is told one number for each new token, its slot, block * block_size + offset.
Source: Kwon et al. 2023 (PagedAttention).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

from kvlib.block_allocator import blocks_needed


class Allocator(Protocol):
    """Whoever gives out blocks, such as `BlockAllocator`."""

    def can_allocate(self, n: int) -> bool:
        """Whether n blocks are free."""

    def allocate(self, n: int) -> list[int]:
        """Take n blocks, all or none."""

    def free(self, blocks: list[int]) -> None:
        """Give blocks back."""


class BlockTables:
    """The block tables of many sequences over one pool. A block is taken only when the last one is full.

    A sequence is known from its first tokens to `free`. Its name is a text or a number, anything that a dict takes.

    >>> from kvlib.block_allocator import BlockAllocator
    >>> tables = BlockTables(BlockAllocator(4), block_size=4)
    >>> tables.append("A", 5), tables.append("B", 1), tables.append("A", 1)
    ([0, 1, 2, 3, 4], [8], [5])
    >>> tables.table("A"), tables.length("A")
    ([0, 1], 6)
    """

    def __init__(self, allocator: Allocator, block_size: int) -> None:
        """Raises ValueError for blocks of fewer than one token."""
        if block_size < 1:
            raise ValueError(f"block_size must be at least 1, got {block_size}")
        self.allocator, self.block_size = allocator, block_size
        self._tables: dict[Hashable, list[int]] = {}
        self._lengths: dict[Hashable, int] = {}

    @property
    def sequences(self) -> list[Hashable]:
        """The sequences that are known, oldest first."""
        return list(self._tables)

    def can_append(self, seq: Hashable, num_tokens: int) -> bool:
        """Whether `append` would be carried out. A sequence that is not known yet starts empty."""
        return num_tokens >= 1 and self.allocator.can_allocate(self._more_blocks(seq, num_tokens))

    def append(self, seq: Hashable, num_tokens: int) -> list[int]:
        """Make room for num_tokens more tokens. Returns their slots, in order.

        Raises ValueError when the pool has no room for all of them, or for num_tokens below 1. Nothing has changed
        then: no block is taken, and a new sequence is still unknown.
        """
        if num_tokens < 1:
            raise ValueError(f"num_tokens must be at least 1, got {num_tokens}")
        more = self._more_blocks(seq, num_tokens)
        if not self.allocator.can_allocate(more):
            raise ValueError(f"{num_tokens} tokens more of {seq!r} need {more} more blocks, and fewer are free")
        taken = self.allocator.allocate(more) if more else []
        table = self._tables.setdefault(seq, [])
        table += taken
        start = self._lengths.get(seq, 0)
        self._lengths[seq] = start + num_tokens
        return [self._slot(table, position) for position in range(start, start + num_tokens)]

    def table(self, seq: Hashable) -> list[int]:
        """Its blocks, in the order of its tokens: ceil(length / block_size) of them. ValueError if not known."""
        self._insist_on(seq)
        return list(self._tables[seq])

    def length(self, seq: Hashable) -> int:
        """Tokens of a sequence. Raises ValueError if it is not known."""
        self._insist_on(seq)
        return self._lengths[seq]

    def truncate(self, seq: Hashable, length: int) -> None:
        """Keep the first `length` tokens, and give back the blocks that none of them lies in.

        With length 0 the sequence is empty, but known. Raises ValueError if it is not known, and for a length below 0
        or above the one it has; nothing has changed then.
        """
        held = self.length(seq)
        if not 0 <= length <= held:
            raise ValueError(f"{seq!r} holds {held} tokens: length must be 0 to {held}, got {length}")
        table, kept = self._tables[seq], blocks_needed(length, self.block_size)
        if table[kept:]:
            self.allocator.free(table[kept:])
        del table[kept:]
        self._lengths[seq] = length

    def free(self, seq: Hashable) -> None:
        """Give back all blocks of a sequence, and forget it. Raises ValueError if it is not known."""
        self.truncate(seq, 0)
        del self._tables[seq], self._lengths[seq]

    def _more_blocks(self, seq: Hashable, num_tokens: int) -> int:
        """Blocks that num_tokens more tokens need besides those it has."""
        length = self._lengths.get(seq, 0)
        return blocks_needed(length + num_tokens, self.block_size) - len(self._tables.get(seq, ()))

    def _slot(self, table: list[int], position: int) -> int:
        return table[position // self.block_size] * self.block_size + position % self.block_size

    def _insist_on(self, seq: Hashable) -> None:
        if seq not in self._tables:
            raise ValueError(f"no sequence {seq!r}; known are {self.sequences}")
