"""Wrong and right ways to write the paged cache. Each mistake changes one thing in `Base`."""

from __future__ import annotations

from collections import deque

from autograde.exercise import Mistake, Variant
from autograde.lazy import torch


class Base:
    """Free blocks in a list, given out from the front; a table and a length for each sequence."""

    def __init__(self, K, V):
        self.K, self.V = K, V
        self.num_blocks, self.block_size = K.shape[:2]
        self.free_blocks = list(range(self.num_blocks))
        self.tables, self.lengths = {}, {}

    @property
    def num_free(self):
        return len(self.free_blocks)

    def known(self, seq):
        if seq not in self.tables:
            raise ValueError(f"nobody knows {seq!r}")

    def table(self, seq):
        self.known(seq)
        return list(self.tables[seq])

    def length(self, seq):
        self.known(seq)
        return self.lengths[seq]

    def check(self, k, v):
        for rows in (k, v):
            if rows.ndim != 3 or rows.shape != (len(k), *self.K.shape[2:]):
                raise ValueError("wrong shape")

    def needed(self, length):
        return -(-length // self.block_size)

    def more(self, table, start, T):
        return self.needed(start + T) - len(table)

    def insist_on_room(self, table, start, T):
        if self.more(table, start, T) > len(self.free_blocks):
            raise ValueError("no room")

    def append(self, seq, k, v):
        self.check(k, v)
        table, start = self.tables.get(seq, []), self.lengths.get(seq, 0)
        self.insist_on_room(table, start, len(k))
        table += self.take(self.more(table, start, len(k)))
        self.tables[seq] = table
        self.write(table, start, k, v)
        self.lengths[seq] = start + len(k)

    def take(self, n):
        taken, self.free_blocks = self.free_blocks[:n], self.free_blocks[n:]
        return taken

    def give_back(self, blocks):
        self.free_blocks += blocks

    def places(self, table, start, end):
        size = self.block_size
        return [table[p // size] for p in range(start, end)], [p % size for p in range(start, end)]

    def write(self, table, start, k, v):
        blocks, offsets = self.places(table, start, start + len(k))
        self.K[blocks, offsets] = k
        self.V[blocks, offsets] = v

    def read(self, seq):
        self.known(seq)
        blocks, offsets = self.places(self.tables[seq], 0, self.lengths[seq])
        return self.K[blocks, offsets], self.V[blocks, offsets]

    def insist_on_length(self, seq, length):
        if not 0 <= length <= self.lengths[seq]:
            raise ValueError("wrong length")

    def truncate(self, seq, length):
        self.known(seq)
        self.insist_on_length(seq, length)
        self.cut(seq, self.needed(length))
        self.lengths[seq] = length

    def cut(self, seq, keep):
        self.give_back(self.tables[seq][keep:])
        del self.tables[seq][keep:]

    def free(self, seq):
        self.known(seq)
        self.give_back(self.tables.pop(seq))
        del self.lengths[seq]


# Where the rows stand.


class OneTooFew(Base):
    def more(self, table, start, T):
        return (start + T) // self.block_size - len(table)


class Contiguous(Base):
    def places(self, table, start, end):
        first, size = table[0] * self.block_size if table else 0, self.block_size
        every = [(first + p) % (self.num_blocks * size) for p in range(start, end)]
        return [slot // size for slot in every], [slot % size for slot in every]


class PositionsAsSlots(Base):
    def places(self, table, start, end):
        size = self.block_size
        return [p // size for p in range(start, end)], [p % size for p in range(start, end)]


class WritesFromZero(Base):
    def write(self, table, start, k, v):
        super().write(table, 0, k, v)


class BlockForEachCall(Base):
    def more(self, table, start, T):
        return self.needed(T)


class CountsCalls(Base):
    def append(self, seq, k, v):
        start = self.lengths.get(seq, 0)
        super().append(seq, k, v)
        self.lengths[seq] = start + 1


class ValuesAreKeys(Base):
    def write(self, table, start, k, v):
        super().write(table, start, k, k)


class OnePool(Base):
    """The values go into the pool of the keys."""

    def __init__(self, K, V):
        super().__init__(K, V)
        self.V = K


class ValuesOtherOrder(Base):
    """V is paged by the table in another order, there and back."""

    def write(self, table, start, k, v):
        super().write(table, start, k, k)
        blocks, offsets = self.places(table, start, start + len(k))
        self.V[blocks, [self.block_size - 1 - offset for offset in offsets]] = v

    def read(self, seq):
        K, _ = super().read(seq)
        blocks, offsets = self.places(self.tables[seq], 0, self.lengths[seq])
        return K, self.V[blocks, [self.block_size - 1 - offset for offset in offsets]]


class Swapped(Base):
    def read(self, seq):
        return super().read(seq)[::-1]


class BlockAndOffsetSwapped(Base):
    def places(self, table, start, end):
        blocks, offsets = super().places(table, start, end)
        return [min(offset, self.num_blocks - 1) for offset in offsets], [b % self.block_size for b in blocks]


class FirstTokenOnly(Base):
    def write(self, table, start, k, v):
        super().write(table, start, k[:1], v[:1])


class OneRowForTheChunk(Base):
    def write(self, table, start, k, v):
        super().write(table, start, k[-1:].expand_as(k), v[-1:].expand_as(v))


class ChunkBackwards(Base):
    def write(self, table, start, k, v):
        super().write(table, start, k.flip(0), v.flip(0))


class UpToTheEdge(Base):
    """Writes what goes into the first block, and drops the rest of the chunk."""

    def write(self, table, start, k, v):
        room = self.block_size - start % self.block_size
        super().write(table, start, k[:room], v[:room])


class TwoBlocksAtMost(Base):
    """Writes into the block at hand and the next one: a longer chunk's rest is dropped."""

    def write(self, table, start, k, v):
        room = 2 * self.block_size - start % self.block_size
        super().write(table, start, k[:room], v[:room])


class OneTable(Base):
    """One table for all sequences: lengths are their own, blocks are not."""

    def __init__(self, K, V):
        super().__init__(K, V)
        self.only = []

    def append(self, seq, k, v):
        self.tables[seq] = self.only
        super().append(seq, k, v)


class WholeBlocks(Base):
    def read(self, seq):
        self.known(seq)
        blocks, offsets = self.places(self.tables[seq], 0, len(self.tables[seq]) * self.block_size)
        return self.K[blocks, offsets], self.V[blocks, offsets]


class NewestFirst(Base):
    def read(self, seq):
        K, V = super().read(seq)
        return K.flip(0), V.flip(0)


class LastBlockOnly(Base):
    def read(self, seq):
        K, V = super().read(seq)
        start = (len(K) - 1) // self.block_size * self.block_size if len(K) else 0
        return K[start:], V[start:]


class HeadsFirst(Base):
    def read(self, seq):
        K, V = super().read(seq)
        return K.transpose(0, 1), V.transpose(0, 1)


class PoolsOfItsOwn(Base):
    def __init__(self, K, V):
        super().__init__(K.clone(), V.clone())


# Edges of blocks.


class OneTooMany(Base):
    def more(self, table, start, T):
        return (start + T) // self.block_size + 1 - len(table)


class FullBlockOverwritten(Base):
    """The token behind a full block goes back to that block's start."""

    def places(self, table, start, end):
        size = self.block_size
        inside = [p - 1 if p % size == 0 and p == start and p > 0 else p for p in range(start, end)]
        return [table[p // size] for p in inside], [p % size for p in range(start, end)]


class NoneForOne(Base):
    """With a block size of 1 every token is taken for the last of its block."""

    def more(self, table, start, T):
        return super().more(table, start, T) + (self.block_size == 1)


# Free and reuse.


class NeverFrees(Base):
    def free(self, seq):
        self.known(seq)
        del self.tables[seq], self.lengths[seq]


class FreesOne(Base):
    def free(self, seq):
        self.known(seq)
        self.give_back(self.tables.pop(seq)[-1:])
        del self.lengths[seq]


class KeepsTheLength(Base):
    def free(self, seq):
        self.known(seq)
        self.give_back(self.tables.pop(seq))


class FreesTwice(Base):
    def free(self, seq):
        self.known(seq)
        self.give_back(self.tables[seq])
        self.give_back(self.tables.pop(seq))
        del self.lengths[seq]


class FreesEveryThing(Base):
    """Starts the whole pool anew: the others' blocks are given out again."""

    def free(self, seq):
        super().free(seq)
        self.free_blocks = list(range(self.num_blocks))


class NumbersAscend(Base):
    """Reads the blocks in the order of their numbers: right as long as they come in that order."""

    def read(self, seq):
        self.known(seq)
        blocks, offsets = self.places(sorted(self.tables[seq]), 0, self.lengths[seq])
        return self.K[blocks, offsets], self.V[blocks, offsets]


class SpareBlock(Base):
    def insist_on_room(self, table, start, T):
        needed = self.more(table, start, T)
        if needed and needed >= len(self.free_blocks):
            raise ValueError("no room")


# Truncate.


class LengthOnly(Base):
    def cut(self, seq, keep):
        pass


class BlocksOnly(Base):
    """The blocks go back, and the length is that of the blocks kept."""

    def truncate(self, seq, length):
        super().truncate(seq, length)
        self.lengths[seq] = min(self.lengths[seq], len(self.tables[seq]) * self.block_size)
        if length % self.block_size:
            self.lengths[seq] = length // self.block_size * self.block_size + self.block_size


class RoundsDown(Base):
    def cut(self, seq, keep):
        raise NotImplementedError

    def truncate(self, seq, length):
        self.known(seq)
        self.insist_on_length(seq, length)
        Base.cut(self, seq, length // self.block_size)
        self.lengths[seq] = length


class KeepsOneMore(Base):
    def truncate(self, seq, length):
        self.known(seq)
        self.insist_on_length(seq, length)
        self.cut(seq, length // self.block_size + 1)
        self.lengths[seq] = length


class CutsTheFront(Base):
    def cut(self, seq, keep):
        gone = len(self.tables[seq]) - keep
        self.give_back(self.tables[seq][:gone])
        del self.tables[seq][:gone]


class KeepsTheTable(Base):
    """The blocks go back, and the list that is written by still has them."""

    def cut(self, seq, keep):
        self.give_back(self.tables[seq][keep:])

    def table(self, seq):
        return super().table(seq)[: self.needed(self.lengths[seq])]


class LosesBlocks(Base):
    def cut(self, seq, keep):
        del self.tables[seq][keep:]


class ByNotTo(Base):
    def truncate(self, seq, length):
        self.known(seq)
        self.insist_on_length(seq, length)
        super().truncate(seq, self.lengths[seq] - length)


class ZeroForgets(Base):
    def truncate(self, seq, length):
        super().truncate(seq, length)
        if length == 0:
            del self.tables[seq], self.lengths[seq]


class ZeroRefused(Base):
    def insist_on_length(self, seq, length):
        super().insist_on_length(seq, length)
        if length == 0:
            raise ValueError("nothing would be left")


class AllRefused(Base):
    def insist_on_length(self, seq, length):
        super().insist_on_length(seq, length)
        if length == self.lengths[seq]:
            raise ValueError("nothing to take back")


class WritesOnAfter(Base):
    """A place to write of its own, which truncate does not move."""

    def __init__(self, K, V):
        super().__init__(K, V)
        self.ends = {}

    def write(self, table, start, k, v):
        end = self.ends.get(table[0], start)
        if (end + len(k) - 1) // self.block_size >= len(table):
            end = start
        super().write(table, end, k, v)
        self.ends[table[0]] = end + len(k)

    def free(self, seq):
        self.known(seq)
        for block in self.tables[seq]:
            self.ends.pop(block, None)
        super().free(seq)

    def cut(self, seq, keep):
        if keep == 0:
            for block in self.tables[seq]:
                self.ends.pop(block, None)
        super().cut(seq, keep)


class OneBlockAtMost(Base):
    def cut(self, seq, keep):
        if len(self.tables[seq]) > keep:
            self.give_back([self.tables[seq].pop()])


class SortsTheTable(Base):
    def cut(self, seq, keep):
        self.tables[seq].sort()
        super().cut(seq, keep)


class WipesTheBlock(Base):
    """Clears the whole block into which it cuts, with what was kept of it."""

    def truncate(self, seq, length):
        super().truncate(seq, length)
        if length % self.block_size:
            self.K[self.tables[seq][-1]] = 0.0
            self.V[self.tables[seq][-1]] = 0.0


# A full pool.


class SilentlyDrops(Base):
    def append(self, seq, k, v):
        room = (len(self.tables.get(seq, ())) + len(self.free_blocks)) * self.block_size - self.lengths.get(seq, 0)
        if room:
            super().append(seq, k[:room], v[:room])


class WritesWhatFits(Base):
    """Writes what fits, and refuses the rest."""

    def append(self, seq, k, v):
        room = (len(self.tables.get(seq, ())) + len(self.free_blocks)) * self.block_size - self.lengths.get(seq, 0)
        if room:
            super().append(seq, k[:room], v[:room])
        if len(k) > room:
            raise ValueError("no room")


class TakesFirst(Base):
    """Takes the free blocks, sees that they are too few, and does not give them back."""

    def insist_on_room(self, table, start, T):
        if self.more(table, start, T) > len(self.free_blocks):
            self.free_blocks = []
            raise ValueError("no room")


class TableGrowsFirst(Base):
    """The blocks are in the table before it is seen that they are too few."""

    def insist_on_room(self, table, start, T):
        if self.more(table, start, T) > len(self.free_blocks):
            table += self.take(len(self.free_blocks))
            raise ValueError("no room")


class KnownFirst(Base):
    def append(self, seq, k, v):
        self.check(k, v)
        self.tables.setdefault(seq, [])
        self.lengths.setdefault(seq, 0)
        super().append(seq, k, v)


class CountsFirst(Base):
    def append(self, seq, k, v):
        self.check(k, v)
        if seq in self.lengths:
            self.lengths[seq] += len(k)
            start = self.lengths[seq] - len(k)
            self.insist_on_room(self.tables[seq], start, len(k))
            self.lengths[seq] = start
        super().append(seq, k, v)


class RunsOut(Base):
    """Does not look for room: the list of free blocks gives fewer, and a place outside the table is asked for."""

    def insist_on_room(self, table, start, T):
        pass


class LastRoomForgotten(Base):
    """Counts whole blocks for the new tokens, and forgets the room in the last one."""

    def insist_on_room(self, table, start, T):
        if self.needed(T) > len(self.free_blocks):
            raise ValueError("no room")


class OneBlockIsEnough(Base):
    """Any free block will do, however many tokens come."""

    def insist_on_room(self, table, start, T):
        if self.more(table, start, T) > 0 and not self.free_blocks:
            raise ValueError("no room")


class FullIsFull(Base):
    """Refuses everything once no block is free, though the last block of the sequence has room."""

    def insist_on_room(self, table, start, T):
        super().insist_on_room(table, start, T)
        if not self.free_blocks:
            raise ValueError("no block is free")


class StartsAgain(Base):
    """When the pool is full, takes the block that the sequence itself had first."""

    def append(self, seq, k, v):
        table, start = self.tables.get(seq, []), self.lengths.get(seq, 0)
        if table and self.more(table, start, len(k)) > len(self.free_blocks):
            self.free(seq)
        super().append(seq, k, v)


# Refusals.


class EmptyRead(Base):
    def read(self, seq):
        if seq not in self.tables:
            return self.K[:0, 0], self.V[:0, 0]
        return super().read(seq)


class EmptyTable(Base):
    def table(self, seq):
        return list(self.tables.get(seq, []))


class ZeroLength(Base):
    def length(self, seq):
        return self.lengths.get(seq, 0)


class FreePassesOver(Base):
    def free(self, seq):
        if seq in self.tables:
            super().free(seq)


class TruncatePassesOver(Base):
    def truncate(self, seq, length):
        if seq in self.tables:
            super().truncate(seq, length)


class TruncateMakes(Base):
    def truncate(self, seq, length):
        self.tables.setdefault(seq, [])
        self.lengths.setdefault(seq, 0)
        super().truncate(seq, length)


class OtherErrors(Base):
    def known(self, seq):
        if seq not in self.tables:
            raise KeyError(seq)


class Lengthens(Base):
    def insist_on_length(self, seq, length):
        if length < 0:
            raise ValueError("negative")


class ClampsTheLength(Base):
    def truncate(self, seq, length):
        self.known(seq)
        super().truncate(seq, min(length, self.lengths[seq]))


class NegativeCuts(Base):
    """A length below 0 counts from the end, as in a slice."""

    def truncate(self, seq, length):
        self.known(seq)
        super().truncate(seq, length if length >= 0 else self.lengths[seq] + length)


class NegativeIsZero(Base):
    def truncate(self, seq, length):
        super().truncate(seq, max(0, length))


class Broadcasts(Base):
    def check(self, k, v):
        pass


class ChecksKeysOnly(Base):
    def check(self, k, v):
        super().check(k, k)


class ChecksTokensOnly(Base):
    def check(self, k, v):
        if len(k) != len(v):
            raise ValueError("not alike")


class ChecksAlike(Base):
    def check(self, k, v):
        if k.shape != v.shape:
            raise ValueError("not alike")


class ChecksNumbersOnly(Base):
    """Any shape with the right number of numbers will do."""

    def check(self, k, v):
        row = self.K[0, 0].numel()
        if k.numel() != v.numel() or k.numel() % row:
            raise ValueError("wrong size")

    def append(self, seq, k, v):
        self.check(k, v)
        row = self.K.shape[2:]
        super().append(seq, k.reshape(-1, *row), v.reshape(-1, *row))


class TakesBeforeShapes(Base):
    """The blocks are taken and the name is noted before the shapes are compared."""

    def append(self, seq, k, v):
        table = self.tables.setdefault(seq, [])
        self.lengths.setdefault(seq, 0)
        self.check(k, v)
        self.insist_on_room(table, self.lengths[seq], len(k))
        super().append(seq, k, v)

    def insist_on_room(self, table, start, T):
        if self.more(table, start, T) > len(self.free_blocks):
            for seq in [seq for seq, blocks in self.tables.items() if blocks is table and not table]:
                del self.tables[seq], self.lengths[seq]
            raise ValueError("no room")


# Whose memory.


class RowsOfItsOwn(Base):
    """All rows are kept a second time, and read from there."""

    def __init__(self, K, V):
        super().__init__(K, V)
        self.rows = {}

    def append(self, seq, k, v):
        super().append(seq, k, v)
        self.rows.setdefault(seq, []).extend(zip(k.clone(), v.clone(), strict=True))

    def read(self, seq):
        K, V = super().read(seq)
        if not len(K):
            return K, V
        k, v = zip(*self.rows[seq], strict=True)
        return torch.stack(k), torch.stack(v)

    def truncate(self, seq, length):
        super().truncate(seq, length)
        del self.rows[seq][length:]

    def free(self, seq):
        super().free(seq)
        del self.rows[seq]


class RowsByReference(RowsOfItsOwn):
    """The same, with the caller's own tensors."""

    def append(self, seq, k, v):
        Base.append(self, seq, k, v)
        self.rows.setdefault(seq, []).extend(zip(k, v, strict=True))


class KeepsTheNewest(Base):
    """The newest chunks are kept besides, for nothing."""

    def __init__(self, K, V):
        super().__init__(K, V)
        self.newest = {}

    def append(self, seq, k, v):
        super().append(seq, k, v)
        self.newest.setdefault(seq, []).append((k.clone(), v.clone()))


class UsesUpTheCallers(Base):
    """Clears the caller's tensors when their rows are in the pool."""

    def append(self, seq, k, v):
        super().append(seq, k, v)
        k.zero_()
        v.zero_()


class PoolsOfTheNewest(Base):
    """The pools are kept in the class: the cache made last sets them for all."""

    def __init__(self, K, V):
        super().__init__(K, V)
        type(self).pools = (K, V)

    def write(self, table, start, k, v):
        blocks, offsets = self.places(table, start, start + len(k))
        for pool, rows in zip(self.pools, (k, v), strict=True):
            pool[[b % pool.shape[0] for b in blocks], offsets] = rows


MISTAKES = (
    Mistake(
        "block-too-few",
        OneTooFew,
        "The number of blocks is rounded down: the last, partly filled one is missing. Round up.",
        killed_by="append and read",
    ),
    Mistake(
        "blocks-in-a-row",
        Contiguous,
        "Rows go on behind the first block, as if the blocks stood in a row. Look up each token's own block.",
        killed_by="append and read",
        seen_in="paged caches that were tried with one sequence",
    ),
    Mistake(
        "positions-as-slots",
        PositionsAsSlots,
        "Token p goes to block p // block_size of the pool, in every sequence. That is the place in its table.",
        killed_by="append and read",
    ),
    Mistake(
        "writes-from-zero",
        WritesFromZero,
        "Every chunk is written from the sequence's first token. It goes on from its length.",
        killed_by="append and read",
    ),
    Mistake(
        "block-for-each-call",
        BlockForEachCall,
        "Every call takes new blocks. Fill the last block first.",
        killed_by="append and read",
    ),
    Mistake("length-counts-calls", CountsCalls, "The length moves on by 1 in each call, not by T.", "append and read"),
    Mistake("values-are-keys", ValuesAreKeys, "The keys are written into both pools.", "append and read"),
    Mistake("one-pool", OnePool, "The values are written into the pool of the keys, over them.", "append and read"),
    Mistake(
        "values-in-another-order",
        ValuesOtherOrder,
        "The values stand in another order in their blocks than the keys. Both have one table and one offset.",
        killed_by="append and read",
    ),
    Mistake("halves-swapped", Swapped, "read() gives (V, K): the two have changed places.", "append and read"),
    Mistake(
        "block-and-offset-swapped",
        BlockAndOffsetSwapped,
        "Block and offset have changed places: the pool is indexed [block, offset].",
        killed_by="append and read",
    ),
    Mistake(
        "first-token-only",
        FirstTokenOnly,
        "Only the first token of a chunk is written. There are T of them.",
        killed_by="append and read",
    ),
    Mistake(
        "one-row-for-the-chunk",
        OneRowForTheChunk,
        "All tokens of a chunk get the rows of its last one.",
        killed_by="append and read",
    ),
    Mistake("chunk-backwards", ChunkBackwards, "A chunk is written in the wrong order, last first.", "append and read"),
    Mistake(
        "up-to-the-edge",
        UpToTheEdge,
        "A chunk is written up to the edge of the first block. The rest goes into the next ones.",
        killed_by="append and read",
    ),
    Mistake(
        "two-blocks-at-most",
        TwoBlocksAtMost,
        "A chunk is written into two blocks at most. It may fill many.",
        killed_by="append and read",
    ),
    Mistake(
        "one-table-for-all",
        OneTable,
        "All sequences have one and the same table. Make a list for each.",
        killed_by="append and read",
    ),
    Mistake(
        "whole-blocks",
        WholeBlocks,
        "read() gives whole blocks, with places that nobody wrote. Stop at the length.",
        killed_by="append and read",
    ),
    Mistake("newest-first", NewestFirst, "read() gives the newest token first.", "append and read"),
    Mistake(
        "last-block-only",
        LastBlockOnly,
        "read() gives the last block only. All blocks of the table hold tokens.",
        killed_by="append and read",
    ),
    Mistake("heads-first", HeadsFirst, "read() gives (Hkv, S, D). Tokens come first: (S, Hkv, D).", "append and read"),
    Mistake(
        "pools-of-its-own",
        PoolsOfItsOwn,
        "The rows go into copies of the pools. Write into the tensors that you were given.",
        killed_by="append and read",
    ),
    Mistake(
        "block-too-many",
        OneTooMany,
        "At an exact multiple of block_size there is a block too many. Take it with the next token.",
        killed_by="edges of blocks",
    ),
    Mistake(
        "full-block-overwritten",
        FullBlockOverwritten,
        "The token behind a full block is written over that block's first one. Its block is p // block_size.",
        killed_by="edges of blocks",
    ),
    Mistake(
        "blocks-of-one-token",
        NoneForOne,
        "Blocks of one token get one too many. The rule is the same for every size: ceil(length / block_size).",
        killed_by="edges of blocks",
    ),
    Mistake(
        "never-frees",
        NeverFrees,
        "free() forgets the table, but its blocks do not come back, or are not counted.",
        "free and reuse",
    ),
    Mistake("frees-one-block", FreesOne, "free() gives back one block. Give back all.", "free and reuse"),
    Mistake(
        "length-outlives-free",
        KeepsTheLength,
        "free() keeps the length: when the name comes again, it does not start empty.",
        killed_by="free and reuse",
    ),
    Mistake("frees-twice", FreesTwice, "free() gives each block back twice: two will get it.", "free and reuse"),
    Mistake(
        "frees-everything",
        FreesEveryThing,
        "free() makes all blocks free, those of other sequences too. Give back its own.",
        killed_by="free and reuse",
    ),
    Mistake(
        "blocks-by-number",
        NumbersAscend,
        "read() goes through the blocks by their numbers. Go through them in the order of the table.",
        killed_by="free and reuse",
    ),
    Mistake(
        "one-block-always-spare",
        SpareBlock,
        "The last free block is never given out: compare with >, not >=.",
        killed_by="free and reuse",
    ),
    Mistake(
        "truncate-keeps-blocks",
        LengthOnly,
        "truncate() only sets the length: blocks that hold no token any more stay in the table.",
        killed_by="truncate",
    ),
    Mistake(
        "truncate-to-whole-blocks",
        BlocksOnly,
        "After truncate() into a block its other tokens are still counted. The length is exactly `length`.",
        killed_by="truncate",
    ),
    Mistake(
        "truncate-rounds-down",
        RoundsDown,
        "truncate() into a block gives that block back too, with tokens that stay. Round up.",
        killed_by="truncate",
    ),
    Mistake(
        "truncate-keeps-one-more",
        KeepsOneMore,
        "truncate() to the edge of a block keeps the next one. ceil(length / block_size) blocks stay.",
        killed_by="truncate",
    ),
    Mistake(
        "truncate-cuts-the-front",
        CutsTheFront,
        "truncate() gives the first blocks back. The first tokens stay: cut at the end.",
        killed_by="truncate",
    ),
    Mistake(
        "truncate-keeps-the-table",
        KeepsTheTable,
        "truncate() gives blocks back, and the sequence goes on to write into them: they are another's by then.",
        killed_by="truncate",
    ),
    Mistake(
        "truncate-loses-blocks",
        LosesBlocks,
        "truncate() cuts the table, but the blocks do not come back.",
        killed_by="truncate",
    ),
    Mistake(
        "truncate-by",
        ByNotTo,
        "truncate(seq, n) takes n tokens away. n is the number that stays.",
        killed_by="truncate",
    ),
    Mistake(
        "truncate-to-zero-forgets",
        ZeroForgets,
        "After truncate(seq, 0) the sequence is unknown. It is empty; only free() forgets it.",
        killed_by="truncate",
    ),
    Mistake("truncate-to-zero-refused", ZeroRefused, "truncate(seq, 0) is refused. It is allowed.", "truncate"),
    Mistake(
        "truncate-to-all-refused", AllRefused, "truncate() to the length held is refused. Nothing goes.", "truncate"
    ),
    Mistake(
        "writes-on-behind-the-cut",
        WritesOnAfter,
        "After truncate() the next token is written where it would have gone before. Its place is the new length.",
        killed_by="truncate",
    ),
    Mistake(
        "truncate-gives-one-back",
        OneBlockAtMost,
        "truncate() gives back one block at most. All behind the last token go.",
        killed_by="truncate",
    ),
    Mistake(
        "truncate-sorts-the-table",
        SortsTheTable,
        "truncate() sorts the table. Its order is that of the tokens, not that of the blocks' numbers.",
        killed_by="truncate",
    ),
    Mistake(
        "truncate-wipes-the-block",
        WipesTheBlock,
        "truncate() clears the block that it cuts into, with tokens that stay.",
        killed_by="truncate",
    ),
    Mistake(
        "drops-when-full",
        SilentlyDrops,
        "Tokens for which there is no room are dropped in silence. Refuse the whole chunk with ValueError.",
        killed_by="full pool",
    ),
    Mistake(
        "writes-what-fits",
        WritesWhatFits,
        "What fits is written before the rest is refused. All or nothing: look for room first.",
        killed_by="full pool",
    ),
    Mistake(
        "refused-but-taken",
        TakesFirst,
        "Blocks are taken before you see that they are too few, and are lost. Count first.",
        killed_by="full pool",
    ),
    Mistake(
        "refused-but-in-the-table",
        TableGrowsFirst,
        "A refused chunk leaves blocks in the table. Count first, and take only when there are enough.",
        killed_by="full pool",
    ),
    Mistake(
        "refused-but-known",
        KnownFirst,
        "A new sequence that is refused stays known. Note it only when there is room.",
        killed_by="refusals",
    ),
    Mistake("refused-but-counted", CountsFirst, "The length moves on though the chunk is refused.", "full pool"),
    Mistake(
        "runs-out-of-blocks",
        RunsOut,
        "Nobody looks whether there is room: it fails half-way, with blocks taken. Look first, raise ValueError.",
        killed_by="full pool",
    ),
    Mistake(
        "room-in-the-last-block-forgotten",
        LastRoomForgotten,
        "You count blocks for the new tokens alone. The last block of the sequence still has room.",
        killed_by="free and reuse",
    ),
    Mistake(
        "one-free-block-is-enough",
        OneBlockIsEnough,
        "One free block is taken for enough. Count how many the chunk needs.",
        killed_by="full pool",
    ),
    Mistake(
        "full-is-full",
        FullIsFull,
        "With no block free everything is refused. The last block of a sequence may have room.",
        killed_by="free and reuse",
    ),
    Mistake(
        "starts-again-when-full",
        StartsAgain,
        "When the pool is full, the sequence's own old tokens are thrown away. Refuse; the caller decides who goes.",
        killed_by="full pool",
    ),
    Mistake("read-of-nobody", EmptyRead, "An unknown sequence has no rows, not empty ones: refuse.", "refusals"),
    Mistake("table-of-nobody", EmptyTable, "An unknown sequence has no table, not an empty one: refuse.", "refusals"),
    Mistake("length-of-nobody", ZeroLength, "An unknown sequence has no length, not 0: refuse.", "refusals"),
    Mistake("free-of-nobody", FreePassesOver, "free() of an unknown sequence is passed over: refuse.", "refusals"),
    Mistake(
        "truncate-of-nobody",
        TruncatePassesOver,
        "truncate() of an unknown sequence is passed over: refuse.",
        killed_by="refusals",
    ),
    Mistake(
        "truncate-makes-it-known",
        TruncateMakes,
        "truncate() of an unknown sequence makes it known, and empty: refuse.",
        killed_by="refusals",
    ),
    Mistake("other-errors", OtherErrors, "What is unknown raises KeyError. The text asks for ValueError.", "refusals"),
    Mistake(
        "truncate-lengthens",
        Lengthens,
        "truncate() to more tokens than there are makes some that nobody wrote. Refuse.",
        killed_by="refusals",
    ),
    Mistake(
        "truncate-clamps",
        ClampsTheLength,
        "truncate() to more tokens than there are is passed over. Refuse.",
        killed_by="refusals",
    ),
    Mistake(
        "truncate-from-the-end",
        NegativeCuts,
        "A length below 0 counts from the end, as in a slice. Refuse it.",
        killed_by="refusals",
    ),
    Mistake(
        "negative-is-zero",
        NegativeIsZero,
        "A length below 0 is taken for 0: all tokens are gone. Refuse it.",
        "refusals",
    ),
    Mistake(
        "shapes-not-checked",
        Broadcasts,
        "Shapes are not compared, and torch spreads one row over many places. Compare before you write.",
        killed_by="refusals",
    ),
    Mistake("only-k-checked", ChecksKeysOnly, "Only the shape of k is compared, not that of v.", "refusals"),
    Mistake("only-tokens-checked", ChecksTokensOnly, "Only the number of tokens is compared.", "refusals"),
    Mistake(
        "only-alike-checked",
        ChecksAlike,
        "k and v are compared with each other, but not with the pools: one KV head is spread over all.",
        killed_by="refusals",
    ),
    Mistake(
        "any-shape-of-that-size",
        ChecksNumbersOnly,
        "Any shape with the right number of numbers is taken, heads and features in each other's place too.",
        killed_by="refusals",
    ),
    Mistake(
        "known-before-the-shapes",
        TakesBeforeShapes,
        "A new sequence is noted before its shapes are compared: refused, it is known all the same.",
        killed_by="refusals",
    ),
    Mistake(
        "rows-of-its-own",
        RowsOfItsOwn,
        "The rows are kept a second time, and read() gives those, though the pools hold others by now. Read the pools.",
        killed_by="whose memory",
    ),
    Mistake(
        "rows-by-reference",
        RowsByReference,
        "You keep the caller's own tensors and read from them: when the caller reuses them, the rows change.",
        killed_by="whose memory",
    ),
    Mistake(
        "newest-kept-besides",
        KeepsTheNewest,
        "The chunks are kept besides the pools: memory grows with the text. Nothing else may hold rows.",
        killed_by="whose memory",
    ),
    Mistake("callers-cleared", UsesUpTheCallers, "append() changes the caller's k and v. Leave them.", "whose memory"),
    Mistake(
        "pools-of-the-newest-cache",
        PoolsOfTheNewest,
        "The pools are kept in the class, so that the cache made last sets them for all. Keep them in `self`.",
        killed_by="whose memory",
    ),
)


class TokenByToken:
    """A queue of free blocks; tokens are written and read one by one; a block is taken when a token needs it."""

    def __init__(self, K, V):
        self.pools, self.size, self.unused, self.seqs = (K, V), K.shape[1], deque(range(len(K))), {}

    @property
    def num_free(self):
        return len(self.unused)

    def find(self, seq):
        if seq not in self.seqs:
            raise ValueError(seq)
        return self.seqs[seq]

    def table(self, seq):
        return self.find(seq)["blocks"]

    def length(self, seq):
        return self.find(seq)["n"]

    def append(self, seq, k, v):
        row = self.pools[0].shape[2:]
        if k.shape != v.shape or k.dim() != 3 or k.shape[1:] != row:
            raise ValueError(f"{k.shape}, {v.shape}")
        one = self.seqs.get(seq) or {"blocks": [], "n": 0}
        if one["n"] + len(k) > self.size * (len(one["blocks"]) + self.num_free):
            raise ValueError("full")
        for rows in zip(k, v, strict=True):
            block, offset = divmod(one["n"], self.size)
            if block == len(one["blocks"]):
                one["blocks"].append(self.unused.popleft())
            for pool, row in zip(self.pools, rows, strict=True):
                pool[one["blocks"][block], offset].copy_(row)
            one["n"] += 1
        self.seqs[seq] = one

    def read(self, seq):
        blocks, n = self.find(seq)["blocks"], self.length(seq)
        return tuple(torch.cat([pool[block] for block in blocks] + [pool[0, :0]])[:n] for pool in self.pools)

    def truncate(self, seq, length):
        one = self.find(seq)
        if length < 0 or length > one["n"]:
            raise ValueError(length)
        while (len(one["blocks"]) - 1) * self.size >= length and one["blocks"]:
            self.unused.append(one["blocks"].pop())
        one["n"] = length

    def free(self, seq):
        self.truncate(seq, 0)
        del self.seqs[seq]


class FlatSlots:
    """Flat views of the pools; a list of slots for each sequence; the lowest free block first."""

    def __init__(self, K, V):
        self.num_blocks, self.bs = K.shape[:2]
        self.flat = [pool.view(-1, *pool.shape[2:]) for pool in (K, V)]
        self.slots, self.blocks = {}, {}

    @property
    def num_free(self):
        return self.num_blocks - sum(map(len, self.blocks.values()))

    def table(self, seq):
        if seq not in self.blocks:
            raise ValueError("unknown sequence")
        return tuple(self.blocks[seq])

    def length(self, seq):
        self.table(seq)
        return len(self.slots[seq])

    def append(self, seq, k, v):
        want = [k.shape[0], *self.flat[0].shape[1:]]
        if list(k.shape) != want or list(v.shape) != want:
            raise ValueError(f"wanted {want}")
        blocks, slots = list(self.blocks.get(seq, [])), list(self.slots.get(seq, []))
        taken = {block for others in self.blocks.values() for block in others}
        free = sorted(set(range(self.num_blocks)) - taken)
        for _ in range(len(k)):
            if len(slots) == len(blocks) * self.bs:
                if not free:
                    raise ValueError("no block is left")
                blocks.append(free.pop(0))
            slots.append(blocks[-1] * self.bs + len(slots) % self.bs)
        self.blocks[seq], self.slots[seq] = blocks, slots
        index = torch.tensor(slots[len(slots) - len(k) :])
        for pool, rows in zip(self.flat, (k, v), strict=True):
            pool.index_copy_(0, index, rows)

    def read(self, seq):
        self.table(seq)
        return [pool[self.slots[seq]] for pool in self.flat]

    def truncate(self, seq, length):
        if not 0 <= length <= self.length(seq):
            raise ValueError(f"cannot keep {length}")
        self.slots[seq] = self.slots[seq][:length]
        self.blocks[seq] = list(dict.fromkeys(slot // self.bs for slot in self.slots[seq]))

    def free(self, seq):
        self.table(seq)
        del self.blocks[seq], self.slots[seq]


class TensorTables:
    """Tables as tensors, an array of owners instead of a list of free blocks, the highest first."""

    def __init__(self, K, V):
        self.K, self.V, self.bs = K, V, K.size(1)
        self.busy = torch.zeros(K.size(0), dtype=torch.bool)
        self.of = {}

    num_free = property(lambda self: int((~self.busy).sum()))

    def get(self, seq):
        try:
            return self.of[seq]
        except KeyError:
            raise ValueError("unknown") from None

    def table(self, seq):
        return self.get(seq)[0].tolist()

    def length(self, seq):
        return self.get(seq)[1]

    def append(self, seq, k, v):
        if k.shape[1:] != self.K.shape[2:] or k.shape != v.shape:
            raise ValueError("shapes")
        table, n = self.of.get(seq, (torch.zeros(0, dtype=torch.long), 0))
        lacking = (n + len(k) + self.bs - 1) // self.bs - len(table)
        free = (~self.busy).nonzero().flatten().flip(0)
        if lacking > len(free):
            raise ValueError("too few blocks")
        table = torch.cat((table, free[:lacking]))
        self.busy[table] = True
        p = torch.arange(n, n + len(k))
        self.K.index_put_((table[p // self.bs], p % self.bs), k)
        self.V.index_put_((table[p // self.bs], p % self.bs), v)
        self.of[seq] = (table, n + len(k))

    def read(self, seq):
        table, n = self.get(seq)
        return self.K[table].flatten(0, 1)[:n], self.V[table].flatten(0, 1)[:n]

    def truncate(self, seq, length):
        table, n = self.get(seq)
        if length < 0 or n < length:
            raise ValueError("length")
        keep = (length + self.bs - 1) // self.bs
        self.busy[table[keep:]] = False
        self.of[seq] = (table[:keep], length)

    def free(self, seq):
        self.truncate(seq, 0)
        del self.of[seq]


def closures(K, V):
    """No class at all: functions over shared lists; whole blocks are copied where they can be."""

    class Cache:
        pass

    cache, size, stack, tables = Cache(), K.shape[1], list(range(K.shape[0])), {}
    cache.num_free = len(stack)

    def known(seq):
        if seq not in tables:
            raise ValueError(f"{seq} is unknown")
        return tables[seq]

    def append(seq, k, v):
        if {tuple(k.shape), tuple(v.shape)} != {(len(k), *K.shape[2:])}:
            raise ValueError("shape")
        blocks, n = tables.get(seq, ([], 0))
        room = len(blocks) * size - n
        new = max(0, -((room - len(k)) // size))
        if new > len(stack):
            raise ValueError("room")
        blocks = blocks + [stack.pop() for _ in range(new)]
        t = 0
        while t < len(k):
            block, offset = blocks[(n + t) // size], (n + t) % size
            part = min(size - offset, len(k) - t)
            K[block, offset : offset + part] = k[t : t + part]
            V[block, offset : offset + part] = v[t : t + part]
            t += part
        tables[seq] = (blocks, n + len(k))
        cache.num_free = len(stack)

    def read(seq):
        blocks, n = known(seq)
        K_all, V_all = K.new_empty(n, *K.shape[2:]), V.new_empty(n, *V.shape[2:])
        for i, block in enumerate(blocks):
            part = min(size, n - i * size)
            K_all[i * size : i * size + part] = K[block, :part]
            V_all[i * size : i * size + part] = V[block, :part]
        return K_all, V_all

    def truncate(seq, length):
        blocks, n = known(seq)
        if not 0 <= length <= n:
            raise ValueError("length")
        keep = -(-length // size)
        stack.extend(blocks[keep:])
        tables[seq] = (blocks[:keep], length)
        cache.num_free = len(stack)

    def free(seq):
        truncate(seq, 0)
        del tables[seq]

    cache.append, cache.read, cache.truncate, cache.free = append, read, truncate, free
    cache.table, cache.length = lambda seq: known(seq)[0], lambda seq: known(seq)[1]
    return cache


class InNumPy:
    """The pools as NumPy arrays that share their memory, and float32 on the way in."""

    def __init__(self, K, V):
        self.arrays, self.bs = (K.numpy(), V.numpy()), K.shape[1]
        self.unused, self.held = set(range(K.shape[0])), {}

    @property
    def num_free(self):
        return len(self.unused)

    def table(self, seq):
        if seq not in self.held:
            raise ValueError("not held")
        return self.held[seq][0]

    def length(self, seq):
        self.table(seq)
        return self.held[seq][1]

    def append(self, seq, k, v):
        for rows in (k, v):
            if rows.shape[1:] != self.arrays[0].shape[2:] or len(rows) != len(k):
                raise ValueError("bad rows")
        blocks, n = self.held.get(seq, ([], 0))
        total = n + len(k)
        if (total - 1) // self.bs + 1 - len(blocks) > len(self.unused):
            raise ValueError("no room")
        blocks = list(blocks)
        while len(blocks) * self.bs < total:
            blocks.append(self.unused.pop())
        for array, rows in zip(self.arrays, (k, v), strict=True):
            for t, row in enumerate(rows.float().numpy()):
                array[blocks[(n + t) // self.bs], (n + t) % self.bs] = row
        self.held[seq] = (blocks, total)

    def read(self, seq):
        blocks, n = self.table(seq), self.length(seq)
        return [array[blocks].reshape(-1, *array.shape[2:])[:n].copy() for array in self.arrays]

    def truncate(self, seq, length):
        if length not in range(self.length(seq) + 1):
            raise ValueError("not that many")
        blocks = self.table(seq)
        keep = [block for i, block in enumerate(blocks) if i * self.bs < length]
        self.unused |= set(blocks) - set(keep)
        self.held[seq] = (keep, length)

    def free(self, seq):
        self.unused |= set(self.table(seq))
        del self.held[seq]


VARIANTS = (
    Variant("lists, and one indexed assignment", Base),
    Variant("token by token, a queue of free blocks", TokenByToken),
    Variant("flat views and a list of slots for each sequence", FlatSlots),
    Variant("tables as tensors, blocks found by a mask", TensorTables),
    Variant("closures that copy piece by piece, a stack of free blocks", closures),
    Variant("NumPy over the same memory, float32 on the way in", InNumPy),
)
