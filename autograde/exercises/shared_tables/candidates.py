"""Wrong and right ways to share blocks. Each mistake changes one thing in `Base`."""

from __future__ import annotations

from collections import Counter

from autograde.exercise import Mistake, Variant


class Base:
    """Free blocks in a list, given out from the front, and a count of holders for each block."""

    def __init__(self, num_blocks, block_size):
        self.num_blocks, self.block_size = num_blocks, block_size
        self.free_blocks, self.refs = list(range(num_blocks)), [0] * num_blocks
        self.tables, self.lengths = {}, {}

    @property
    def num_free(self):
        return len(self.free_blocks)

    def ref_count(self, block):
        return self.refs[block]

    def known(self, seq):
        if seq not in self.tables:
            raise ValueError(f"nobody knows {seq!r}")

    def table(self, seq):
        self.known(seq)
        return list(self.tables[seq])

    def length(self, seq):
        self.known(seq)
        return self.lengths[seq]

    def take(self):
        block = self.free_blocks.pop(0)
        self.refs[block] = 1
        return block

    def drop(self, block):
        self.refs[block] -= 1
        if self.refs[block] == 0:
            self.free_blocks.append(block)

    def must_copy(self, seq, table, start, num_tokens):
        return start % self.block_size > 0 and self.refs[table[-1]] > 1

    def copy_last(self, seq, table):
        old = table[-1]
        table[-1] = self.take()
        self.drop(old)
        return [(old, table[-1])]

    def more(self, table, start, num_tokens):
        return -(-(start + num_tokens) // self.block_size) - len(table)

    def insist_on_room(self, seq, table, start, num_tokens):
        copy = self.must_copy(seq, table, start, num_tokens)
        if self.more(table, start, num_tokens) + copy > len(self.free_blocks):
            raise ValueError("no room")

    def slots(self, table, start, num_tokens):
        size = self.block_size
        return [table[p // size] * size + p % size for p in range(start, start + num_tokens)]

    def insist_on_tokens(self, num_tokens):
        if num_tokens < 1:
            raise ValueError(f"num_tokens must be at least 1, got {num_tokens}")

    def append(self, seq, num_tokens):
        self.insist_on_tokens(num_tokens)
        table, start = self.tables.get(seq, []), self.lengths.get(seq, 0)
        self.insist_on_room(seq, table, start, num_tokens)
        return self.carry_out(seq, table, start, num_tokens)

    def carry_out(self, seq, table, start, num_tokens):
        copies = self.copy_last(seq, table) if self.must_copy(seq, table, start, num_tokens) else []
        table += [self.take() for _ in range(self.more(table, start, num_tokens))]
        self.tables[seq], self.lengths[seq] = table, start + num_tokens
        return self.slots(table, start, num_tokens), copies

    def insist_on_fork(self, seq, new):
        self.known(seq)
        if new in self.tables:
            raise ValueError(f"{new!r} is there already")

    def fork(self, seq, new):
        self.insist_on_fork(seq, new)
        self.tables[new], self.lengths[new] = self.shared(self.tables[seq]), self.lengths[seq]

    def shared(self, table):
        for block in table:
            self.refs[block] += 1
        return list(table)

    def free(self, seq):
        self.known(seq)
        for block in self.tables.pop(seq):
            self.drop(block)
        del self.lengths[seq]


# Without forks.


class OneTooMany(Base):
    def more(self, table, start, num_tokens):
        return (start + num_tokens) // self.block_size + 1 - len(table)


class OneTooFew(Base):
    def more(self, table, start, num_tokens):
        return (start + num_tokens) // self.block_size - len(table)


class Contiguous(Base):
    def slots(self, table, start, num_tokens):
        return [table[0] * self.block_size + p for p in range(start, start + num_tokens)]


class TimesTheBlocks(Base):
    def slots(self, table, start, num_tokens):
        size = self.block_size
        return [table[p // size] * self.num_blocks + p % size for p in range(start, start + num_tokens)]


class FromZero(Base):
    def slots(self, table, start, num_tokens):
        return super().slots(table, 0, num_tokens)


class PositionsAsSlots(Base):
    def slots(self, table, start, num_tokens):
        return list(range(start, start + num_tokens))


class BlockForEachCall(Base):
    def more(self, table, start, num_tokens):
        return -(-num_tokens // self.block_size)


class CountsCalls(Base):
    def carry_out(self, seq, table, start, num_tokens):
        got = super().carry_out(seq, table, start, num_tokens)
        self.lengths[seq] = start + 1
        return got


class SlotsOnly(Base):
    def append(self, seq, num_tokens):
        return super().append(seq, num_tokens)[0]


class CopiesFirst(Base):
    def append(self, seq, num_tokens):
        return super().append(seq, num_tokens)[::-1]


class AlwaysCopies(Base):
    def must_copy(self, seq, table, start, num_tokens):
        return start % self.block_size > 0


class NeverFrees(Base):
    def free(self, seq):
        self.known(seq)
        del self.tables[seq], self.lengths[seq]


class FreesTheLast(Base):
    def free(self, seq):
        self.known(seq)
        self.drop(self.tables.pop(seq)[-1])
        del self.lengths[seq]


class KeepsTheLength(Base):
    def free(self, seq):
        self.known(seq)
        for block in self.tables.pop(seq):
            self.drop(block)


class SpareBlock(Base):
    def insist_on_room(self, seq, table, start, num_tokens):
        copy = self.must_copy(seq, table, start, num_tokens)
        needed = self.more(table, start, num_tokens) + copy
        if needed and needed >= len(self.free_blocks):
            raise ValueError("no room")


# Forks.


class NotCounted(Base):
    def shared(self, table):
        return list(table)


class FreeIgnoresHolders(Base):
    def free(self, seq):
        self.known(seq)
        for block in self.tables.pop(seq):
            self.refs[block] = 0
            self.free_blocks.append(block)
        del self.lengths[seq]


class TakesBlocks(Base):
    def shared(self, table):
        return [self.take() for _ in table]


class StartsEmpty(Base):
    def fork(self, seq, new):
        super().fork(seq, new)
        self.lengths[new] = 0


class FullBlocksOnly(Base):
    def fork(self, seq, new):
        self.insist_on_fork(seq, new)
        full = self.lengths[seq] // self.block_size
        self.tables[new], self.lengths[new] = self.shared(self.tables[seq][:full]), full * self.block_size


class RoundsUp(Base):
    def fork(self, seq, new):
        super().fork(seq, new)
        self.lengths[new] = len(self.tables[new]) * self.block_size


class Moves(Base):
    def fork(self, seq, new):
        self.insist_on_fork(seq, new)
        self.tables[new], self.lengths[new] = self.tables.pop(seq), self.lengths.pop(seq)


class CountsTheLastOnly(Base):
    def shared(self, table):
        self.refs[table[-1]] += 1
        return list(table)


class CountsAllButTheLast(Base):
    def shared(self, table):
        for block in table[:-1]:
            self.refs[block] += 1
        return list(table)


class TwoAtMost(Base):
    def shared(self, table):
        for block in table:
            self.refs[block] = 2
        return list(table)


class CountsTwice(Base):
    def shared(self, table):
        for block in table:
            self.refs[block] += 2
        return list(table)


class FreeReversed(Base):
    """Free looks at the count before it takes its own away."""

    def drop(self, block):
        if self.refs[block] == 0:
            self.free_blocks.append(block)
        self.refs[block] -= 1


# Copy on write.


class SameList(Base):
    def shared(self, table):
        super().shared(table)
        return table


class NeverCopies(Base):
    def must_copy(self, seq, table, start, num_tokens):
        return False


class Silent(Base):
    def copy_last(self, seq, table):
        super().copy_last(seq, table)
        return []


class Backwards(Base):
    def copy_last(self, seq, table):
        return [pair[::-1] for pair in super().copy_last(seq, table)]


class OnlyForksCopy(Base):
    def __init__(self, num_blocks, block_size):
        super().__init__(num_blocks, block_size)
        self.forks = set()

    def fork(self, seq, new):
        super().fork(seq, new)
        self.forks.add(new)

    def must_copy(self, seq, table, start, num_tokens):
        return seq in self.forks and super().must_copy(seq, table, start, num_tokens)


class OnlyParentsCopy(Base):
    def __init__(self, num_blocks, block_size):
        super().__init__(num_blocks, block_size)
        self.parents = set()

    def fork(self, seq, new):
        super().fork(seq, new)
        self.parents.add(seq)

    def must_copy(self, seq, table, start, num_tokens):
        return seq in self.parents and super().must_copy(seq, table, start, num_tokens)


class AsksTheFamily(Base):
    """Looks at the one it was forked from and at its own forks, and not at those of the same parent."""

    def __init__(self, num_blocks, block_size):
        super().__init__(num_blocks, block_size)
        self.parent = {}

    def fork(self, seq, new):
        super().fork(seq, new)
        self.parent[new] = seq

    def must_copy(self, seq, table, start, num_tokens):
        family = [other for other in self.tables if self.parent.get(other) == seq or self.parent.get(seq) == other]
        return start % self.block_size > 0 and any(table[-1] in self.tables[other] for other in family)


class KeepsTheOld(Base):
    """The copy takes a block; the count of the old one stays."""

    def copy_last(self, seq, table):
        old = table[-1]
        table[-1] = self.take()
        return [(old, table[-1])]


class FreesTheOld(Base):
    def copy_last(self, seq, table):
        old = table[-1]
        table[-1] = self.take()
        self.refs[old] = 0
        self.free_blocks.append(old)
        return [(old, table[-1])]


class LastHolderCopies(Base):
    """Everybody who ever shared a block copies it once."""

    def __init__(self, num_blocks, block_size):
        super().__init__(num_blocks, block_size)
        self.sharing = set()

    def fork(self, seq, new):
        super().fork(seq, new)
        self.sharing |= {seq, new}

    def free(self, seq):
        super().free(seq)
        self.sharing.discard(seq)

    def must_copy(self, seq, table, start, num_tokens):
        return start % self.block_size > 0 and seq in self.sharing

    def copy_last(self, seq, table):
        self.sharing.discard(seq)
        return super().copy_last(seq, table)


class LooksAtTheFirst(Base):
    def must_copy(self, seq, table, start, num_tokens):
        return start % self.block_size > 0 and self.refs[table[0]] > 1


class CopiesThemAll(Base):
    def copy_last(self, seq, table):
        pairs = []
        for i, old in enumerate(table):
            if self.refs[old] > 1:
                table[i] = self.take()
                self.drop(old)
                pairs.append((old, table[i]))
        return pairs

    def insist_on_room(self, seq, table, start, num_tokens):
        copies = len(table) if self.must_copy(seq, table, start, num_tokens) else 0
        if self.more(table, start, num_tokens) + copies > len(self.free_blocks):
            raise ValueError("no room")


class SlotsOfTheOld(Base):
    def carry_out(self, seq, table, start, num_tokens):
        before = list(table)
        _, copies = super().carry_out(seq, table, start, num_tokens)
        return self.slots(before + table[len(before) :], start, num_tokens), copies


class TableKeepsTheOld(Base):
    def carry_out(self, seq, table, start, num_tokens):
        before = list(table)
        got = super().carry_out(seq, table, start, num_tokens)
        self.tables[seq] = before + table[len(before) :]
        return got


class StartsTheCopyAtZero(Base):
    def carry_out(self, seq, table, start, num_tokens):
        slots, copies = super().carry_out(seq, table, start, num_tokens)
        if copies:
            first = copies[0][1] * self.block_size
            slots[0] = first
        return slots, copies


class NotAcrossTheEdge(Base):
    def must_copy(self, seq, table, start, num_tokens):
        return super().must_copy(seq, table, start, num_tokens) and not self.more(table, start, num_tokens)


class OnlyAcrossOne(Base):
    """Copies when the chunk leaves the block, and not when it stays in it."""

    def must_copy(self, seq, table, start, num_tokens):
        return super().must_copy(seq, table, start, num_tokens) and self.more(table, start, num_tokens) > 0


class AppendsTheCopy(Base):
    """The copy stands behind the old block, not in its place."""

    def copy_last(self, seq, table):
        old = table[-1]
        table.append(self.take())
        self.drop(old)
        return [(old, table[-1])]


class CopyOfTwo(Base):
    """The copy gets as many holders as the block that it was made of."""

    def copy_last(self, seq, table):
        holders = self.refs[table[-1]]
        pairs = super().copy_last(seq, table)
        self.refs[table[-1]] = holders
        return pairs


class MovesTheOthers(Base):
    """Whoever holds the old block moves over to the copy."""

    def copy_last(self, seq, table):
        pairs = super().copy_last(seq, table)
        old, new = pairs[0]
        for other in self.tables.values():
            other[:] = [new if block == old else block for block in other]
        return pairs


class LastTwoHolders(Base):
    def must_copy(self, seq, table, start, num_tokens):
        return start % self.block_size > 0 and self.refs[table[-1]] > 2


# Aligned forks.


class CopiesFullBlocks(Base):
    def must_copy(self, seq, table, start, num_tokens):
        return bool(table) and self.refs[table[-1]] > 1


class RoomAtTheEdge(Base):
    """Counts a block for a copy that is not made."""

    def insist_on_room(self, seq, table, start, num_tokens):
        copy = bool(table) and self.refs[table[-1]] > 1
        if self.more(table, start, num_tokens) + copy > len(self.free_blocks):
            raise ValueError("no room")


# A full pool.


class CopyNotCounted(Base):
    def insist_on_room(self, seq, table, start, num_tokens):
        if self.more(table, start, num_tokens) > len(self.free_blocks):
            raise ValueError("no room")


class CopyOrMore(Base):
    """Looks for room for the copy, and for room for the new tokens, but not for both."""

    def insist_on_room(self, seq, table, start, num_tokens):
        copy = self.must_copy(seq, table, start, num_tokens)
        if max(self.more(table, start, num_tokens), copy) > len(self.free_blocks):
            raise ValueError("no room")

    def carry_out(self, seq, table, start, num_tokens):
        copies = self.copy_last(seq, table) if self.must_copy(seq, table, start, num_tokens) else []
        if self.more(table, start, num_tokens) > len(self.free_blocks):
            raise ValueError("no room")
        table += [self.take() for _ in range(self.more(table, start, num_tokens))]
        self.tables[seq], self.lengths[seq] = table, start + num_tokens
        return self.slots(table, start, num_tokens), copies


class InPlaceWhenFull(Base):
    def must_copy(self, seq, table, start, num_tokens):
        return bool(self.free_blocks) and super().must_copy(seq, table, start, num_tokens)


class KnownThoughRefused(Base):
    def append(self, seq, num_tokens):
        self.insist_on_tokens(num_tokens)
        self.tables.setdefault(seq, [])
        self.lengths.setdefault(seq, 0)
        return super().append(seq, num_tokens)


class TakesUntilEmpty(Base):
    """Takes block by block, and refuses when there is none left."""

    def insist_on_room(self, seq, table, start, num_tokens):
        if self.more(table, start, num_tokens) + self.must_copy(seq, table, start, num_tokens) > len(self.free_blocks):
            while self.free_blocks:
                self.take()
            raise ValueError("no room")


class LengthThoughRefused(Base):
    def append(self, seq, num_tokens):
        self.insist_on_tokens(num_tokens)
        if seq in self.tables:
            self.lengths[seq] += num_tokens
        table, start = self.tables.get(seq, []), self.lengths.get(seq, num_tokens) - num_tokens
        self.insist_on_room(seq, table, start, num_tokens)
        return self.carry_out(seq, table, start, num_tokens)


class DroppedThoughRefused(Base):
    """Lets go of the shared block before it looks for room."""

    def insist_on_room(self, seq, table, start, num_tokens):
        try:
            super().insist_on_room(seq, table, start, num_tokens)
        except ValueError:
            if self.must_copy(seq, table, start, num_tokens):
                self.drop(table[-1])
            raise


# Refusals.


class OverwritesNames(Base):
    def insist_on_fork(self, seq, new):
        self.known(seq)


class CountsThoughRefused(Base):
    def fork(self, seq, new):
        self.known(seq)
        table = self.shared(self.tables[seq])
        self.insist_on_fork(seq, new)
        self.tables[new], self.lengths[new] = table, self.lengths[seq]


class ForksNobody(Base):
    def fork(self, seq, new):
        if seq not in self.tables:
            self.tables[new], self.lengths[new] = [], 0
            return
        super().fork(seq, new)


class ForkPassesOver(Base):
    """A fork of somebody unknown is passed over."""

    def fork(self, seq, new):
        if seq in self.tables:
            super().fork(seq, new)


class FreePassesOver(Base):
    def free(self, seq):
        if seq in self.tables:
            super().free(seq)


class EmptyTable(Base):
    def table(self, seq):
        return list(self.tables.get(seq, []))


class ZeroLength(Base):
    def length(self, seq):
        return self.lengths.get(seq, 0)


class OtherErrors(Base):
    def known(self, seq):
        if seq not in self.tables:
            raise KeyError(seq)


class AnyNumber(Base):
    def insist_on_tokens(self, num_tokens):
        pass


class ZeroTokens(Base):
    def insist_on_tokens(self, num_tokens):
        if num_tokens < 0:
            raise ValueError("negative")


class NamesOnce(Base):
    """A name that was freed cannot come again."""

    def __init__(self, num_blocks, block_size):
        super().__init__(num_blocks, block_size)
        self.seen = set()

    def carry_out(self, seq, table, start, num_tokens):
        self.seen.add(seq)
        return super().carry_out(seq, table, start, num_tokens)

    def fork(self, seq, new):
        if new in self.seen:
            raise ValueError("was there before")
        super().fork(seq, new)
        self.seen.add(new)


# What ref_count says.


class SaysShared(Base):
    def ref_count(self, block):
        return int(self.refs[block] > 1)


class SaysOthers(Base):
    def ref_count(self, block):
        return self.refs[block] - 1


class SaysFrees(Base):
    """A block that is free says 1, as if the pool held it."""

    def ref_count(self, block):
        return max(1, self.refs[block])


class SaysTwo(Base):
    def ref_count(self, block):
        return min(2, self.refs[block])


class SaysEver(Base):
    """Counts all who ever held the block."""

    def __init__(self, num_blocks, block_size):
        super().__init__(num_blocks, block_size)
        self.ever = [0] * num_blocks

    def take(self):
        block = super().take()
        self.ever[block] = 1
        return block

    def shared(self, table):
        for block in table:
            self.ever[block] += 1
        return super().shared(table)

    def ref_count(self, block):
        return self.ever[block]


class SaysNothingOfFree(Base):
    def ref_count(self, block):
        if not self.refs[block]:
            raise ValueError("nobody holds it")
        return self.refs[block]


MISTAKES = (
    Mistake(
        "block-too-many",
        OneTooMany,
        "At exact multiples of block_size there is a block too many. n tokens need ceil(n / block_size).",
        killed_by="append",
    ),
    Mistake(
        "block-too-few",
        OneTooFew,
        "The number of blocks is rounded down: the last, partly filled one is missing. Round up.",
        killed_by="append",
    ),
    Mistake(
        "blocks-in-a-row",
        Contiguous,
        "Slots count on from the first block, as if the blocks stood in a row. Look up each token's own block.",
        killed_by="append",
    ),
    Mistake(
        "times-the-number-of-blocks",
        TimesTheBlocks,
        "A block has block_size slots: slot = block * block_size + offset. You multiply by num_blocks.",
        killed_by="append",
    ),
    Mistake(
        "slots-from-zero",
        FromZero,
        "Each call's slots start at the sequence's first token. They go on from its length.",
        killed_by="append",
    ),
    Mistake(
        "positions-as-slots",
        PositionsAsSlots,
        "The slots are the positions: every sequence writes to the same place. Look the block up in its table.",
        killed_by="append",
    ),
    Mistake(
        "block-for-each-call",
        BlockForEachCall,
        "Every call takes new blocks. Fill the last block first.",
        killed_by="append",
    ),
    Mistake("length-counts-calls", CountsCalls, "The length moves on by 1 in each call, not by num_tokens.", "append"),
    Mistake("slots-only", SlotsOnly, "append() gives the slots alone. It returns the pair (slots, copies).", "append"),
    Mistake("copies-first", CopiesFirst, "append() gives (copies, slots). The slots come first.", "append"),
    Mistake(
        "always-copies",
        AlwaysCopies,
        "A partly filled block is copied although nobody else holds it. Then write in place.",
        killed_by="append",
    ),
    Mistake("never-frees", NeverFrees, "free() forgets the table, but its blocks do not come back.", "append"),
    Mistake(
        "frees-the-last-block",
        FreesTheLast,
        "free() gives back the last block only. Go through all of the table.",
        killed_by="append",
    ),
    Mistake(
        "length-outlives-free",
        KeepsTheLength,
        "free() keeps the length: when the name comes again, it does not start empty.",
        killed_by="append",
    ),
    Mistake(
        "one-block-always-spare",
        SpareBlock,
        "The last free block is never given out: compare with >, not >=.",
        killed_by="append",
    ),
    Mistake(
        "fork-not-counted",
        NotCounted,
        "fork() adds no holder: when the parent is freed, its blocks are given to others while the fork reads them.",
        killed_by="fork",
        seen_in="forks that were tried with many free blocks, where nobody comes to take them",
    ),
    Mistake(
        "free-ignores-holders",
        FreeIgnoresHolders,
        "free() gives all blocks back, though others hold them. Take one holder away; at 0 the block is free.",
        killed_by="fork",
    ),
    Mistake(
        "fork-takes-blocks",
        TakesBlocks,
        "fork() takes new blocks, and nobody has copied anything into them. It takes the same blocks.",
        killed_by="fork",
    ),
    Mistake("fork-is-empty", StartsEmpty, "The fork's length is 0. It goes on from all tokens of seq.", "fork"),
    Mistake(
        "fork-of-full-blocks",
        FullBlocksOnly,
        "The fork has the full blocks only: the tokens in the last, partly filled one are lost to it.",
        killed_by="fork",
    ),
    Mistake(
        "fork-rounds-up",
        RoundsUp,
        "The fork's length is that of its blocks, not that of seq: it reads places that nobody wrote.",
        killed_by="fork",
    ),
    Mistake("fork-moves", Moves, "After fork() the old sequence is gone. Both go on.", "fork"),
    Mistake(
        "counts-the-last-block",
        CountsTheLastOnly,
        "fork() adds a holder to the last block only. All blocks of the table are shared.",
        killed_by="fork",
    ),
    Mistake(
        "counts-all-but-the-last",
        CountsAllButTheLast,
        "fork() adds no holder to the last block. It is shared as well.",
        killed_by="fork",
    ),
    Mistake(
        "two-holders-at-most",
        TwoAtMost,
        "fork() sets the count to 2. A fork of a fork makes it 3: add 1.",
        killed_by="fork",
    ),
    Mistake("fork-counts-twice", CountsTwice, "fork() adds 2 holders. It adds one: `new`.", "fork"),
    Mistake(
        "looks-before-it-counts",
        FreeReversed,
        "free() asks whether nobody is left before it takes its own share away: no block ever comes back.",
        killed_by="append",
    ),
    Mistake(
        "one-list-for-both",
        SameList,
        "The fork has the very same list, not a copy of it: when one goes on, the other's table changes.",
        killed_by="copy on write",
        seen_in="Python, where assignment never copies",
    ),
    Mistake(
        "never-copies",
        NeverCopies,
        "Both write into the block that they share. Before the first write it must be copied.",
        killed_by="copy on write",
    ),
    Mistake(
        "copy-not-told",
        Silent,
        "The table gets a new block, but copies is empty: the caller copies nothing, and old rows are missing.",
        killed_by="copy on write",
    ),
    Mistake(
        "copy-backwards",
        Backwards,
        "The pair is (target, source): the empty block is copied over the full one. Source first.",
        killed_by="copy on write",
    ),
    Mistake(
        "only-the-fork-copies",
        OnlyForksCopy,
        "Only the fork copies. When the one it comes from writes first, that one must copy.",
        killed_by="copy on write",
    ),
    Mistake(
        "only-the-parent-copies",
        OnlyParentsCopy,
        "Only the one that was forked copies. When the fork writes first, the fork must copy.",
        killed_by="copy on write",
    ),
    Mistake(
        "asks-the-family-only",
        AsksTheFamily,
        "You look for holders in the parent and in the forks of a sequence. Two forks of one parent share as well.",
        killed_by="copy on write",
    ),
    Mistake(
        "old-block-still-counted",
        KeepsTheOld,
        "Whoever copies still counts as a holder of the old block: the last holder copies too, and the block is lost.",
        killed_by="copy on write",
    ),
    Mistake(
        "old-block-freed",
        FreesTheOld,
        "The old block is given back at the copy, though others hold it. Take one holder away.",
        killed_by="copy on write",
    ),
    Mistake(
        "last-holder-copies",
        LastHolderCopies,
        "The last holder of a block copies it too. Nobody else reads it: write in place.",
        killed_by="fork",
    ),
    Mistake(
        "looks-at-the-first-block",
        LooksAtTheFirst,
        "Whether to copy is decided by the holders of the first block. Ask about the last, which is written.",
        killed_by="copy on write",
    ),
    Mistake(
        "copies-the-whole-table",
        CopiesThemAll,
        "All shared blocks are copied. Only the last is written; full ones stay shared.",
        killed_by="copy on write",
    ),
    Mistake(
        "slots-of-the-old-block",
        SlotsOfTheOld,
        "The slots are worked out before the copy takes the old block's place: they lie in the shared block.",
        killed_by="copy on write",
    ),
    Mistake(
        "table-keeps-the-old-block",
        TableKeepsTheOld,
        "The rows go to the copy, but the table still names the old block.",
        killed_by="copy on write",
    ),
    Mistake(
        "copy-written-from-its-start",
        StartsTheCopyAtZero,
        "The new token goes to the start of the copy, over an old one. Its offset is length % block_size.",
        killed_by="copy on write",
    ),
    Mistake(
        "no-copy-for-long-chunks",
        NotAcrossTheEdge,
        "A chunk that goes past the end of the shared block is written without a copy. Its first tokens lie in there.",
        killed_by="copy on write",
    ),
    Mistake(
        "copy-for-long-chunks-only",
        OnlyAcrossOne,
        "The copy is made only when a new block is needed too. A token that stays in the shared block needs it as well.",
        killed_by="copy on write",
    ),
    Mistake(
        "copy-behind-the-old-block",
        AppendsTheCopy,
        "The copy stands behind the old block in the table. It takes its place.",
        killed_by="copy on write",
    ),
    Mistake(
        "copy-counts-the-old-holders",
        CopyOfTwo,
        "The copy starts with the old block's number of holders. It has one: its sequence.",
        killed_by="copy on write",
    ),
    Mistake(
        "others-follow-to-the-copy",
        MovesTheOthers,
        "Everybody's table moves to the copy, so it is shared again. Only the one that writes moves.",
        killed_by="copy on write",
    ),
    Mistake(
        "three-holders-before-a-copy",
        LastTwoHolders,
        "A block with two holders is written in place. Copy whenever anybody else holds it.",
        killed_by="copy on write",
    ),
    Mistake(
        "copies-full-blocks",
        CopiesFullBlocks,
        "A full last block is copied. Nobody writes into it: the next token starts a new block.",
        killed_by="aligned forks",
    ),
    Mistake(
        "room-for-no-copy",
        RoomAtTheEdge,
        "At the edge of a block there is nothing to copy, but a block for it is counted: what fits is refused.",
        killed_by="full pool",
    ),
    Mistake(
        "copy-not-counted",
        CopyNotCounted,
        "The copy's block is not counted when you look for room. New blocks plus the copy must be free.",
        killed_by="full pool",
    ),
    Mistake(
        "copy-or-new-blocks",
        CopyOrMore,
        "There is room for the copy, and for the new blocks, but not for both; the copy is made before you notice.",
        killed_by="full pool",
        seen_in="caches that look for room once for each block that they take",
    ),
    Mistake(
        "in-place-when-full",
        InPlaceWhenFull,
        "Without a free block for the copy the shared block is written. Refuse: the other would read a wrong row.",
        killed_by="full pool",
    ),
    Mistake(
        "refused-but-known",
        KnownThoughRefused,
        "A new sequence that is refused stays known. Note it only when there is room.",
        killed_by="full pool",
    ),
    Mistake(
        "refused-but-taken",
        TakesUntilEmpty,
        "The free blocks are taken before you see that they are too few, and are lost. Count first.",
        killed_by="full pool",
    ),
    Mistake(
        "refused-but-counted",
        LengthThoughRefused,
        "The length moves on though the tokens are refused. Count only what was taken in.",
        killed_by="full pool",
    ),
    Mistake(
        "refused-but-dropped",
        DroppedThoughRefused,
        "A refused copy has already let go of the shared block: one holder too few. Look for room first.",
        killed_by="full pool",
    ),
    Mistake(
        "refused-fork-counts",
        CountsThoughRefused,
        "A refused fork has counted holders all the same: the blocks never come back. Look at the name first.",
        killed_by="refusals",
    ),
    Mistake(
        "fork-onto-a-known-name",
        OverwritesNames,
        "fork() writes over a sequence that is there: its blocks are lost. Refuse with ValueError.",
        killed_by="refusals",
    ),
    Mistake(
        "fork-of-nobody",
        ForksNobody,
        "A fork of an unknown sequence makes an empty one. Refuse with ValueError.",
        killed_by="refusals",
    ),
    Mistake(
        "fork-of-nobody-passed-over",
        ForkPassesOver,
        "A fork of an unknown sequence is passed over in silence. Refuse with ValueError.",
        killed_by="refusals",
    ),
    Mistake(
        "free-of-nobody",
        FreePassesOver,
        "free() of an unknown sequence is passed over in silence. It is a bug of the caller's: refuse.",
        killed_by="refusals",
    ),
    Mistake("table-of-nobody", EmptyTable, "An unknown sequence has no table, not an empty one: refuse.", "refusals"),
    Mistake("length-of-nobody", ZeroLength, "An unknown sequence has no length, not 0: refuse.", "refusals"),
    Mistake("other-errors", OtherErrors, "What is unknown raises KeyError. The text asks for ValueError.", "refusals"),
    Mistake("any-number-of-tokens", AnyNumber, "num_tokens below 1 is accepted. Refuse with ValueError.", "refusals"),
    Mistake("no-tokens", ZeroTokens, "0 new tokens are accepted. num_tokens is 1 or more: refuse.", "refusals"),
    Mistake("a-name-only-once", NamesOnce, "A freed name cannot be used again. free() forgets it.", "fork"),
    Mistake(
        "says-whether-shared", SaysShared, "ref_count() says whether a block is shared, not by how many.", "holders"
    ),
    Mistake("says-the-others", SaysOthers, "ref_count() is one too small: the first holder counts too.", "holders"),
    Mistake("a-free-block-has-a-holder", SaysFrees, "A free block has 0 holders, not 1.", "holders"),
    Mistake("says-two-at-most", SaysTwo, "ref_count() stops at 2. Three sequences make it 3.", "holders"),
    Mistake(
        "says-all-who-ever-held",
        SaysEver,
        "ref_count() counts all who ever held the block. Whoever is freed, or has copied it, no longer does.",
        killed_by="holders",
    ),
    Mistake("refuses-free-blocks", SaysNothingOfFree, "ref_count() of a free block is 0. You refuse it.", "holders"),
)


class ByTables:
    """No counts at all: who holds a block is looked up in the tables; the lowest free block is given out."""

    def __init__(self, num_blocks, block_size):
        self.num_blocks, self.size, self.tables = num_blocks, block_size, {}

    def ref_count(self, block):
        return sum(block in blocks for blocks, _ in self.tables.values())

    def free_list(self):
        return [block for block in range(self.num_blocks) if self.ref_count(block) == 0]

    @property
    def num_free(self):
        return len(self.free_list())

    def of(self, seq):
        if seq not in self.tables:
            raise ValueError(f"unknown: {seq!r}")
        return self.tables[seq]

    def table(self, seq):
        return self.of(seq)[0]

    def length(self, seq):
        return self.of(seq)[1]

    def append(self, seq, num_tokens):
        blocks, n = self.tables.get(seq, ([], 0))
        if num_tokens <= 0:
            raise ValueError("no tokens")
        free, blocks, copies = self.free_list(), list(blocks), []
        places = []
        try:
            for p in range(n, n + num_tokens):
                if p % self.size == 0:
                    blocks.append(free.pop(0))
                elif self.ref_count(blocks[-1]) > 1:
                    copies.append([blocks[-1], free[0]])
                    blocks[-1] = free.pop(0)
                places.append(blocks[-1] * self.size + p % self.size)
        except IndexError:
            raise ValueError("no room") from None
        self.tables[seq] = (blocks, n + num_tokens)
        return places, copies

    def fork(self, seq, new):
        if new in self.tables:
            raise ValueError(f"known: {new!r}")
        self.tables[new] = self.of(seq)

    def free(self, seq):
        self.of(seq)
        del self.tables[seq]


class Block:
    """A block as an object, shared by reference."""

    def __init__(self, number):
        self.number, self.holders = number, 0


class Objects:
    """Block objects on a stack, what was freed last given out first."""

    def __init__(self, num_blocks, block_size):
        self.blocks = [Block(number) for number in range(num_blocks)]
        self.stack, self.size, self.seqs = list(self.blocks), block_size, {}
        self.num_free = num_blocks

    def ref_count(self, block):
        return self.blocks[block].holders

    def find(self, seq):
        try:
            return self.seqs[seq]
        except KeyError:
            raise ValueError(f"no sequence {seq}") from None

    def table(self, seq):
        return tuple(block.number for block in self.find(seq)["blocks"])

    def length(self, seq):
        return self.find(seq)["length"]

    def append(self, seq, num_tokens):
        one = self.seqs.get(seq, {"blocks": [], "length": 0})
        blocks, length = one["blocks"], one["length"]
        room = len(blocks) * self.size - length
        shared = room > 0 and blocks[-1].holders > 1
        new = max(0, num_tokens - room + self.size - 1) // self.size
        if num_tokens < 1 or new + shared > self.num_free:
            raise ValueError("refused")
        copies = []
        if shared:
            blocks[-1].holders -= 1
            copies = [(blocks[-1].number, self.stack[-1].number)]
            blocks[-1] = self.pop()
        blocks.extend(self.pop() for _ in range(new))
        one["length"] += num_tokens
        self.seqs[seq] = one
        places = [divmod(p, self.size) for p in range(length, length + num_tokens)]
        return [blocks[i].number * self.size + offset for i, offset in places], copies

    def pop(self):
        block = self.stack.pop()
        block.holders = 1
        self.num_free -= 1
        return block

    def fork(self, seq, new):
        one = self.find(seq)
        if new in self.seqs:
            raise ValueError("name taken")
        for block in one["blocks"]:
            block.holders += 1
        self.seqs[new] = {"blocks": one["blocks"][:], "length": one["length"]}

    def free(self, seq):
        for block in self.find(seq)["blocks"]:
            block.holders -= 1
            if block.holders == 0:
                self.stack.append(block)
                self.num_free += 1
        del self.seqs[seq]


class Counts:
    """A Counter of holders and a set of free blocks, of which the highest is given out; undone when refused."""

    def __init__(self, num_blocks, block_size):
        self.count, self.unused, self.bs = Counter(), set(range(num_blocks)), block_size
        self.state = {}

    num_free = property(lambda self: len(self.unused))

    def ref_count(self, block):
        return self.count[block]

    def get(self, seq):
        if seq in self.state:
            return self.state[seq]
        raise ValueError("unknown")

    def table(self, seq):
        return list(self.get(seq)[1])

    def length(self, seq):
        return self.get(seq)[0]

    def grab(self):
        block = max(self.unused)
        self.unused.remove(block)
        self.count[block] += 1
        return block

    def append(self, seq, num_tokens):
        if num_tokens < 1:
            raise ValueError("at least one token")
        length, table = self.state.get(seq, (0, ()))
        before = Counter(self.count), set(self.unused)
        table, copies, slots = list(table), [], []
        try:
            for p in range(length, length + num_tokens):
                if p // self.bs == len(table):
                    table.append(self.grab())
                elif self.count[table[-1]] > 1:
                    copies.append((table[-1], self.grab()))
                    self.count[table[-1]] -= 1
                    table[-1] = copies[-1][1]
                slots.append(table[p // self.bs] * self.bs + p % self.bs)
        except ValueError:  # max() of an empty set
            self.count, self.unused = before
            raise
        self.state[seq] = (length + num_tokens, tuple(table))
        return slots, copies

    def fork(self, seq, new):
        if new in self.state:
            raise ValueError("known")
        self.state[new] = self.get(seq)
        self.count.update(self.state[new][1])

    def free(self, seq):
        self.count.subtract(self.get(seq)[1])
        self.unused |= {block for block in self.state.pop(seq)[1] if not self.count[block]}


class Holders:
    """For each block the set of names that hold it."""

    def __init__(self, num_blocks, block_size):
        self.holders, self.size = [set() for _ in range(num_blocks)], block_size
        self.blocks_of, self.n = {}, {}
        self.turn = 0

    @property
    def num_free(self):
        return sum(not names for names in self.holders)

    def ref_count(self, block):
        return len(self.holders[block])

    def check(self, seq):
        if seq not in self.n:
            raise ValueError(seq)

    def table(self, seq):
        self.check(seq)
        return self.blocks_of[seq]

    def length(self, seq):
        self.check(seq)
        return self.n[seq]

    def next_free(self):
        """Goes round the pool."""
        while self.holders[self.turn]:
            self.turn = (self.turn + 1) % len(self.holders)
        return self.turn

    def append(self, seq, num_tokens):
        start, blocks = self.n.get(seq, 0), self.blocks_of.get(seq, [])
        inside = start % self.size
        alone = not inside or self.holders[blocks[-1]] == {seq}
        wanted = (inside + num_tokens + self.size - 1) // self.size - (1 if inside else 0) + (0 if alone else 1)
        if num_tokens < 1 or wanted > self.num_free:
            raise ValueError(f"{num_tokens} more tokens of {seq!r} do not fit")
        self.blocks_of[seq], self.n[seq] = blocks, start + num_tokens
        copies = []
        if not alone:
            old, new = blocks[-1], self.next_free()
            self.holders[old].remove(seq)
            self.holders[new].add(seq)
            blocks[-1] = new
            copies = [(old, new)]
        while len(blocks) * self.size < start + num_tokens:
            blocks.append(self.next_free())
            self.holders[blocks[-1]].add(seq)
        every = [block * self.size + i for block in blocks for i in range(self.size)]
        return every[start : start + num_tokens], copies

    def fork(self, seq, new):
        self.check(seq)
        if new in self.n:
            raise ValueError(new)
        self.blocks_of[new], self.n[new] = [*self.blocks_of[seq]], self.n[seq]
        for block in self.blocks_of[new]:
            self.holders[block].add(new)

    def free(self, seq):
        self.check(seq)
        for block in self.blocks_of.pop(seq):
            self.holders[block].discard(seq)
        del self.n[seq]


VARIANTS = (
    Variant("counts in a list, a queue of free blocks", Base),
    Variant("holders looked up in the tables, lowest block first", ByTables),
    Variant("block objects on a stack", Objects),
    Variant("a Counter and a set, undone when refused", Counts),
    Variant("a set of holders for each block, round the pool", Holders),
)
