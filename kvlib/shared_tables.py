"""Block tables whose blocks may be shared: sequences are forked without a copy, and copied on write.

This is bookkeeping only: it says which slots the caller writes and which blocks it copies first. The pools are its own.
"""

from __future__ import annotations

from collections.abc import Hashable

from kvlib.block_allocator import BlockAllocator, blocks_needed

Copies = list[tuple[int, int]]  # (source block, target block)


class SharedTables:
    """The block tables of sequences that hold some of their blocks together.

    A block that several sequences hold is never written. Only one write could hit such a block: that into a last block
    which is partly filled. Whoever writes there first gets a copy of it; the last holder writes in place. Full blocks
    are shared for as long as anybody holds them.

    The caller first copies each (source, target), in every layer, then writes the new rows to their slots.

    >>> tables = SharedTables(num_blocks=4, block_size=2)
    >>> tables.append("a", 3)
    ([0, 1, 2], [])
    >>> tables.fork("a", "b")
    >>> tables.append("b", 1)  # into block 1, which "a" holds too: slot 1 of its copy, block 2
    ([5], [(1, 2)])
    >>> tables.table("a"), tables.table("b"), tables.ref_count(0)
    ([0, 1], [0, 2], 2)
    """

    def __init__(self, num_blocks: int, block_size: int) -> None:
        """Raises ValueError for a block_size below 1, and for what `BlockAllocator` refuses."""
        if block_size < 1:
            raise ValueError(f"block_size must be at least 1, got {block_size}")
        self.allocator, self.block_size = BlockAllocator(num_blocks), block_size
        self._tables: dict[Hashable, list[int]] = {}
        self._lengths: dict[Hashable, int] = {}

    @property
    def num_free(self) -> int:
        """Blocks that no sequence holds."""
        return self.allocator.num_free

    @property
    def sequences(self) -> list[Hashable]:
        """The ids of all known sequences."""
        return list(self._tables)

    def ref_count(self, block: int) -> int:
        """How many sequences hold a block; 0 = it is free."""
        return self.allocator.ref_count(block)

    def table(self, seq: Hashable) -> list[int]:
        """The blocks of a sequence, in order: ceil(length / block_size) of them. Raises ValueError if it is unknown."""
        return list(self._tables[self._known(seq)])

    def length(self, seq: Hashable) -> int:
        """Tokens of a sequence. Raises ValueError if it is unknown."""
        return self._lengths[self._known(seq)]

    def blocks_to_append(self, seq: Hashable, num_tokens: int) -> int:
        """Free blocks that appending takes now: those of the new tokens, and one for a copy. seq may be new."""
        held = len(self._tables.get(seq, ()))
        more = blocks_needed(self._lengths.get(seq, 0) + num_tokens, self.block_size) - held
        return more + self._writes_shared(seq, num_tokens)

    def can_append(self, seq: Hashable, num_tokens: int) -> bool:
        """Whether `append` would find room for all of that many tokens. seq may be new."""
        return num_tokens >= 1 and self.allocator.can_allocate(self.blocks_to_append(seq, num_tokens))

    def append(self, seq: Hashable, num_tokens: int) -> tuple[list[int], Copies]:
        """Make room for more tokens of one sequence; one not seen before starts empty.

        Returns the slots of the new tokens, block * block_size + offset, and the (source, target) blocks that the
        caller must copy before it writes them: one pair at most. Raises ValueError for num_tokens below 1, and when
        there is no room for all tokens and the copy; nothing has changed then.
        """
        if num_tokens < 1:
            raise ValueError(f"num_tokens must be at least 1, got {num_tokens}")
        taken = self.allocator.allocate(self.blocks_to_append(seq, num_tokens))  # refuses before anything has changed
        table, start = self._tables.setdefault(seq, []), self._lengths.get(seq, 0)
        copies: Copies = []
        if self._writes_shared(seq, num_tokens):
            source, table[-1] = table[-1], taken.pop(0)
            self.allocator.free([source])  # one holder less: the others keep it
            copies.append((source, table[-1]))
        table += taken
        self._lengths[seq] = start + num_tokens
        size = self.block_size
        return [table[p // size] * size + p % size for p in range(start, start + num_tokens)], copies

    def fork(self, seq: Hashable, new: Hashable) -> None:
        """Let `new` go on from all tokens of `seq`: it holds the same blocks, and none is taken or copied.

        Raises ValueError when seq is unknown or new is known already.
        """
        table = self._tables[self._known(seq)]
        if new in self._tables:
            raise ValueError(f"sequence {new!r} is there already")
        self.allocator.share(table)
        self._tables[new], self._lengths[new] = list(table), self._lengths[seq]

    def truncate(self, seq: Hashable, length: int) -> None:
        """Keep the first `length` tokens of a sequence. It no longer holds the blocks behind them.

        The sequence stays known, if empty. Raises ValueError if it is unknown, and for a length below 0 or above the
        one it has.
        """
        held = self.length(seq)
        if not 0 <= length <= held:
            raise ValueError(f"sequence {seq!r} can be cut to 0 to {held} tokens, not to {length}")
        keep = blocks_needed(length, self.block_size)
        table = self._tables[seq]
        self.allocator.free(table[keep:])
        del table[keep:]
        self._lengths[seq] = length

    def free(self, seq: Hashable) -> None:
        """Forget a sequence. Blocks that nobody else holds are free again. Raises ValueError if it is unknown."""
        self.allocator.free(self._tables.pop(self._known(seq)))
        del self._lengths[seq]

    def _known(self, seq: Hashable) -> Hashable:
        if seq not in self._tables:
            raise ValueError(f"sequence {seq!r} is not known")
        return seq

    def _writes_shared(self, seq: Hashable, num_tokens: int) -> bool:
        """Whether the next token goes into a block that somebody else holds too."""
        partly_filled = self._lengths.get(seq, 0) % self.block_size > 0
        return num_tokens > 0 and partly_filled and self.ref_count(self._tables[seq][-1]) > 1
