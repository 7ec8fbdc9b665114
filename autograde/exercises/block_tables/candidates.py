"""Wrong and right ways to keep block tables. Each mistake changes one thing in `Base`."""

from __future__ import annotations

import math

import numpy as np

from autograde.exercise import Mistake, Variant


class Base:
    def __init__(self, allocator, block_size):
        self.allocator, self.block_size = allocator, block_size
        self.tables, self.lengths = {}, {}

    def append(self, seq, num_tokens):
        self.refuse(seq, num_tokens)
        start = self.lengths.get(seq, 0)
        more = self.more(seq, start, num_tokens)
        self.keep(seq, self.take(more), start + num_tokens)
        return self.slots(seq, start, num_tokens)

    def refuse(self, seq, num_tokens):
        if num_tokens < 1:
            raise ValueError(f"num_tokens must be at least 1, got {num_tokens}")

    def more(self, seq, start, num_tokens):
        return self.needed(start + num_tokens) - len(self.tables.get(seq, ()))

    def needed(self, tokens):
        return -(-tokens // self.block_size)

    def take(self, more):
        if not self.allocator.can_allocate(more):
            raise ValueError(f"no room for {more} blocks")
        return self.allocator.allocate(more)

    def keep(self, seq, blocks, length):
        self.tables[seq] = self.tables.get(seq, []) + blocks
        self.lengths[seq] = length

    def slots(self, seq, start, num_tokens):
        return [self.slot(self.tables[seq], p) for p in range(start, start + num_tokens)]

    def slot(self, table, p):
        return table[p // self.block_size] * self.block_size + p % self.block_size

    def table(self, seq):
        self.known(seq)
        return self.tables[seq]

    def length(self, seq):
        self.known(seq)
        return self.lengths[seq]

    def known(self, seq):
        if seq not in self.tables:
            raise ValueError(f"unknown sequence {seq!r}")


# Where a token lies.


class InOnePiece(Base):
    def slot(self, table, p):
        return table[0] * self.block_size + p


class PositionIsSlot(Base):
    def slot(self, table, p):
        return p


class BlockOnly(Base):
    def slot(self, table, p):
        return table[p // self.block_size]


class NotMultiplied(Base):
    def slot(self, table, p):
        return table[p // self.block_size] + p % self.block_size


class WholePositionAdded(Base):
    def slot(self, table, p):
        return table[p // self.block_size] * self.block_size + p


class Swapped(Base):
    """Place times block_size plus block."""

    def slot(self, table, p):
        return p % self.block_size * self.block_size + table[p // self.block_size]


class Transposed(Base):
    """As if the pool were (block_size, num_blocks)."""

    def slot(self, table, p):
        return p % self.block_size * len(table) + table[p // self.block_size]


class TimesBlocks(Base):
    """The stride of a block taken to be the number of blocks."""

    def slot(self, table, p):
        return table[p // self.block_size] * len(table) + p % self.block_size


class LogicalBlock(Base):
    """The block's number in the table in place of its number in the pool."""

    def slot(self, table, p):
        i = p // self.block_size
        return i * self.block_size + p % self.block_size if i else table[0] * self.block_size + p


class OnePlaceOn(Base):
    def slots(self, seq, start, num_tokens):
        return [slot + 1 for slot in super().slots(seq, start, num_tokens)]


class FromThisCall(Base):
    """Positions start over with each call."""

    def slots(self, seq, start, num_tokens):
        return super().slots(seq, 0, num_tokens)


class OneEarlier(Base):
    """Starts at the newest token that was there before."""

    def slots(self, seq, start, num_tokens):
        return super().slots(seq, max(start - 1, 0), num_tokens)


class LastSlotOnly(Base):
    def slots(self, seq, start, num_tokens):
        return super().slots(seq, start, num_tokens)[-1]


class FirstSlotOnly(Base):
    def slots(self, seq, start, num_tokens):
        return super().slots(seq, start, num_tokens)[0]


class AllSlots(Base):
    def slots(self, seq, start, num_tokens):
        return super().slots(seq, 0, start + num_tokens)


class SlotsOfTheBlocks(Base):
    """Every slot of the blocks in use, whether a token lies in it or not."""

    def slots(self, seq, start, num_tokens):
        first = start // self.block_size * self.block_size
        return super().slots(seq, first, len(self.tables[seq]) * self.block_size - first)


class BlocksBack(Base):
    def slots(self, seq, start, num_tokens):
        return self.tables[seq]


class PairsBack(Base):
    def slot(self, table, p):
        return (table[p // self.block_size], p % self.block_size)


class ForgotReturn(Base):
    def append(self, seq, num_tokens):
        super().append(seq, num_tokens)


class SlotsBackwards(Base):
    def slots(self, seq, start, num_tokens):
        return super().slots(seq, start, num_tokens)[::-1]


class SizeFixed(Base):
    def __init__(self, allocator, block_size):
        super().__init__(allocator, 4)


class InFloats(Base):
    def slot(self, table, p):
        return table[p // self.block_size] * self.block_size + p / self.block_size % 1 * self.block_size


# The table.


class Sorted(Base):
    def keep(self, seq, blocks, length):
        super().keep(seq, sorted([*self.tables.get(seq, []), *blocks])[len(self.tables.get(seq, [])) :], length)
        self.tables[seq] = sorted(set(self.tables[seq]) | set(blocks))


class NewInFront(Base):
    def keep(self, seq, blocks, length):
        self.tables[seq] = blocks + self.tables.get(seq, [])
        self.lengths[seq] = length


class NewInPlace(Base):
    """Each call replaces the table."""

    def keep(self, seq, blocks, length):
        self.tables[seq] = blocks or self.tables.get(seq, [])
        self.lengths[seq] = length

    def slots(self, seq, start, num_tokens):
        table = self.tables[seq]
        return [table[p // self.block_size % len(table)] * self.block_size + p % self.block_size
                for p in range(start, start + num_tokens)]  # fmt: skip


class NumberOfBlocks(Base):
    def table(self, seq):
        return len(super().table(seq))


class TableOfSlots(Base):
    """The first slot of each block."""

    def table(self, seq):
        return [block * self.block_size for block in super().table(seq)]


class BlockPerToken(Base):
    """An entry for each token."""

    def table(self, seq):
        return [block for p in range(self.length(seq)) for block in [self.tables[seq][p // self.block_size]]]


class ListInTable(Base):
    """append() in place of extend(): one entry is a list."""

    def keep(self, seq, blocks, length):
        super().keep(seq, blocks, length)
        self.nested = getattr(self, "nested", {})
        self.nested.setdefault(seq, []).append(blocks)

    def table(self, seq):
        self.known(seq)
        return self.nested[seq]


class SideBySide(Base):
    """Takes the blocks after the first one for its own."""

    def take(self, more):
        blocks = super().take(more)
        return [blocks[0] + i for i in range(more)] if more else []


class OwnNumbers(Base):
    """Counts blocks by itself, and lets the allocator do what it wants."""

    count = 0

    def take(self, more):
        super().take(more)
        self.count += more
        return list(range(self.count - more, self.count))


class CapacityAsLength(Base):
    def length(self, seq):
        return len(self.table(seq)) * self.block_size


class LengthOfThisCall(Base):
    """The length that is told is that of the newest call."""

    def append(self, seq, num_tokens):
        slots = super().append(seq, num_tokens)
        self.newest = num_tokens
        return slots

    def length(self, seq):
        super().length(seq)
        return self.newest


class CountsCalls(Base):
    def append(self, seq, num_tokens):
        slots = super().append(seq, num_tokens)
        self.calls = getattr(self, "calls", {})
        self.calls[seq] = self.calls.get(seq, 0) + 1
        return slots

    def length(self, seq):
        super().length(seq)
        return self.calls[seq]


# How many blocks.


class Floor(Base):
    """Rounds down, and a position past the last block wraps into it."""

    def needed(self, tokens):
        return max(tokens // self.block_size, 1)

    def slot(self, table, p):
        return table[min(p // self.block_size, len(table) - 1)] * self.block_size + p % self.block_size


class FloorAndFalls(Base):
    """Rounds down."""

    def needed(self, tokens):
        return tokens // self.block_size


class BlocksForThisCall(Base):
    """Counts the new tokens alone, and not the room in the last block."""

    def more(self, seq, start, num_tokens):
        return self.needed(num_tokens)


class FreshBlocks(Base):
    """Each call starts in a fresh block."""

    def append(self, seq, num_tokens):
        slots = super().append(seq, num_tokens)
        table = self.tables[seq][-self.needed(num_tokens) :]
        return [self.slot(table, p) for p in range(num_tokens)] and slots

    def more(self, seq, start, num_tokens):
        return self.needed(num_tokens)

    def slots(self, seq, start, num_tokens):
        table = self.tables[seq][-self.needed(num_tokens) :]
        return [self.slot(table, p) for p in range(num_tokens)]


class BlockForEachToken(Base):
    def needed(self, tokens):
        return tokens


class OneMore(Base):
    """tokens // block_size + 1."""

    def needed(self, tokens):
        return tokens // self.block_size + 1


class OneMoreAtFirst(Base):
    """Takes a block ahead for every new sequence."""

    def more(self, seq, start, num_tokens):
        return super().more(seq, start, num_tokens) + (seq not in self.tables)


class Rounded(Base):
    """round() goes to the even number at halves."""

    def needed(self, tokens):
        return round(tokens / self.block_size + 0.5)


class AfterFull(Base):
    """Takes the next block as soon as the last one is full."""

    def needed(self, tokens):
        return -(-tokens // self.block_size) + (tokens % self.block_size == 0 and tokens > self.block_size)


class Doubles(Base):
    """As many again when there are too few, as lists grow."""

    def more(self, seq, start, num_tokens):
        more = super().more(seq, start, num_tokens)
        return max(more, len(self.tables.get(seq, ()))) if more > 0 else 0


class EveryCall(Base):
    """At least one block for every call."""

    def more(self, seq, start, num_tokens):
        return max(super().more(seq, start, num_tokens), 1)


class OneAtMost(Base):
    """One call brings one block at most, as if tokens came one by one."""

    def more(self, seq, start, num_tokens):
        return min(super().more(seq, start, num_tokens), 1)

    def slot(self, table, p):
        return table[p // self.block_size % len(table)] * self.block_size + p % self.block_size


# Several sequences.


class OneTable(Base):
    def keep(self, seq, blocks, length):
        super().keep(seq, blocks, length)
        self.tables = dict.fromkeys(self.lengths, self.tables[seq])


class OneLength(Base):
    """Tokens are counted for all sequences together."""

    def append(self, seq, num_tokens):
        slots = super().append(seq, num_tokens)
        self.lengths = dict.fromkeys(self.tables, self.lengths[seq])
        return slots

    def slot(self, table, p):
        return table[p // self.block_size % len(table)] * self.block_size + p % self.block_size


class TotalLength(Base):
    def length(self, seq):
        super().length(seq)
        return sum(self.lengths.values())


class NewestTable(Base):
    """Slots are read from the table of whoever came first."""

    def slots(self, seq, start, num_tokens):
        table = next(iter(self.tables.values()))
        return [self.slot(table, p % (len(table) * self.block_size)) for p in range(start, start + num_tokens)]


class TextNames(Base):
    def append(self, seq, num_tokens):
        return super().append(str(seq), num_tokens)

    def table(self, seq):
        return super().table(str(seq))

    def length(self, seq):
        return super().length(str(seq))


class LowerNames(Base):
    def append(self, seq, num_tokens):
        return super().append(seq.lower() if isinstance(seq, str) else seq, num_tokens)

    def table(self, seq):
        return super().table(seq.lower() if isinstance(seq, str) else seq)

    def length(self, seq):
        return super().length(seq.lower() if isinstance(seq, str) else seq)


def renamed(name):
    """Tables that are kept under something made of the name."""

    class Renamed(Base):
        def append(self, seq, num_tokens):
            return super().append(name(seq), num_tokens)

        def table(self, seq):
            return super().table(name(seq))

        def length(self, seq):
            return super().length(name(seq))

    return Renamed


HashNames = renamed(hash)
StrippedNames = renamed(lambda seq: seq.strip() if isinstance(seq, str) else seq)
ShortNames = renamed(lambda seq: seq[:8] if isinstance(seq, str) else seq)
NamesWithoutSign = renamed(lambda seq: abs(seq) if isinstance(seq, int) else seq)
NamesInWords = renamed(lambda seq: seq & 0xFFFFFFFF if isinstance(seq, int) else seq)


class SameObject(Base):
    """Looks for a name with `is`."""

    def __init__(self, allocator, block_size):
        super().__init__(allocator, block_size)
        self.names = []

    def name(self, seq):
        return next((("name", i) for i, other in enumerate(self.names) if other is seq), None)

    def append(self, seq, num_tokens):
        slots = super().append(self.name(seq) or ("name", len(self.names)), num_tokens)
        if self.name(seq) is None:
            self.names.append(seq)
        return slots

    def table(self, seq):
        return super().table(self.name(seq))

    def length(self, seq):
        return super().length(self.name(seq))


class FalsyNames(Base):
    """`if not seq`: 0 and "" are names too."""

    def refuse(self, seq, num_tokens):
        super().refuse(seq, num_tokens)
        if not seq:
            raise ValueError("no sequence")


class ModuloNames(Base):
    """A table of fixed size, found by the name modulo it."""

    def name(self, seq):
        return seq % 256 if isinstance(seq, int) else seq

    def append(self, seq, num_tokens):
        return super().append(self.name(seq), num_tokens)

    def table(self, seq):
        return super().table(self.name(seq))

    def length(self, seq):
        return super().length(self.name(seq))


class IndexNames(Base):
    """Takes the names for places in a list."""

    def refuse(self, seq, num_tokens):
        super().refuse(seq, num_tokens)
        if isinstance(seq, int) and seq < 0:
            raise ValueError("sequences are numbered from 0")


class ClassTables(Base):
    """Kept on the class, and made anew by whoever comes last."""

    def __init__(self, allocator, block_size):
        super().__init__(allocator, block_size)
        del self.tables
        type(self).tables = {}


class ClassLengths(Base):
    def __init__(self, allocator, block_size):
        super().__init__(allocator, block_size)
        del self.lengths
        type(self).lengths = {}


class ClassSize(Base):
    def __init__(self, allocator, block_size):
        super().__init__(allocator, block_size)
        del self.block_size
        type(self).block_size = block_size


class ClassAllocator(Base):
    def __init__(self, allocator, block_size):
        super().__init__(allocator, block_size)
        del self.allocator
        type(self).allocator = allocator


class Leaks(Base):
    """One dict for all objects, ever."""

    kept: dict = {}  # noqa: RUF012 - this is the mistake

    def __init__(self, allocator, block_size):
        super().__init__(allocator, block_size)
        self.tables = self.kept


# No room.


class TakesWhatIsThere(Base):
    """As many tokens as there is room for."""

    def append(self, seq, num_tokens):
        self.refuse(seq, num_tokens)
        while num_tokens and not self.allocator.can_allocate(self.more(seq, self.lengths.get(seq, 0), num_tokens)):
            num_tokens -= 1
        return super().append(seq, num_tokens) if num_tokens else []


class NoneForNoRoom(Base):
    def append(self, seq, num_tokens):
        self.refuse(seq, num_tokens)
        if not self.allocator.can_allocate(self.more(seq, self.lengths.get(seq, 0), num_tokens)):
            return None
        return super().append(seq, num_tokens)


class PadsForNoRoom(Base):
    """Slot -1 for tokens without a place."""

    def append(self, seq, num_tokens):
        self.refuse(seq, num_tokens)
        if not self.allocator.can_allocate(self.more(seq, self.lengths.get(seq, 0), num_tokens)):
            return [-1] * num_tokens
        return super().append(seq, num_tokens)


class OneByOneLost(Base):
    """Takes block by block, and loses those taken when the next one is missing."""

    def take(self, more):
        return [block for _ in range(more) for block in self.allocator.allocate(1)]


class OneByOneKept(Base):
    """Token by token: those that found a place before the pool ran dry stay."""

    def append(self, seq, num_tokens):
        self.refuse(seq, num_tokens)
        return [slot for _ in range(num_tokens) for slot in super(OneByOneKept, self).append(seq, 1)]


class AsksForTokens(Base):
    """Asks whether there are as many blocks as tokens."""

    def append(self, seq, num_tokens):
        self.refuse(seq, num_tokens)
        if not self.allocator.can_allocate(num_tokens):
            raise ValueError("no room")
        return super().append(seq, num_tokens)


class AsksForAll(Base):
    """Asks for room for the whole sequence, also for what has it already."""

    def append(self, seq, num_tokens):
        self.refuse(seq, num_tokens)
        if not self.allocator.can_allocate(self.needed(self.lengths.get(seq, 0) + num_tokens)):
            raise ValueError("no room")
        return super().append(seq, num_tokens)


class WantsOneFree(Base):
    """Refuses when the pool is empty, whatever room the last block has."""

    def take(self, more):
        if not self.allocator.can_allocate(max(more, 1)):
            raise ValueError("the pool is empty")
        return super().take(more)


class AsksOnce(Base):
    """Keeps the answer for each number, and never asks again."""

    def __init__(self, allocator, block_size):
        super().__init__(allocator, block_size)
        self.answers = {}

    def take(self, more):
        if not self.answers.setdefault(more, self.allocator.can_allocate(more)):
            raise ValueError("no room")
        return self.allocator.allocate(more)


class KeepsOneBack(Base):
    """Asks for one block more than it takes."""

    def take(self, more):
        if more and not self.allocator.can_allocate(more + 1):
            raise ValueError("no room")
        return super().take(more)


class KnownBefore(Base):
    """The table is made before there is room for it."""

    def more(self, seq, start, num_tokens):
        self.tables.setdefault(seq, [])
        self.lengths.setdefault(seq, 0)
        return super().more(seq, start, num_tokens)


class LengthBefore(Base):
    """The length is counted before there is room."""

    def take(self, more):
        if not self.allocator.can_allocate(more):
            self.lengths[self.asked[0]] = self.lengths.get(self.asked[0], 0) + self.asked[1]
        return super().take(more)

    def append(self, seq, num_tokens):
        self.asked = (seq, num_tokens)
        return super().append(seq, num_tokens)


class GivesUpTheSequence(Base):
    """No room: the sequence is dropped and its blocks go back."""

    def append(self, seq, num_tokens):
        try:
            return super().append(seq, num_tokens)
        except ValueError:
            if num_tokens > 0 and seq in self.tables:
                self.allocator.free(self.tables.pop(seq))
                del self.lengths[seq]
            raise


class MemoryErrorRaised(Base):
    def take(self, more):
        if not self.allocator.can_allocate(more):
            raise MemoryError("out of blocks")
        return super().take(more)


class NoMoreBlocksUsesLast(Base):
    """Without room the new tokens are written over the old ones."""

    def append(self, seq, num_tokens):
        self.refuse(seq, num_tokens)
        start = self.lengths.get(seq, 0)
        if not self.allocator.can_allocate(self.more(seq, start, num_tokens)) and seq in self.tables:
            return self.slots(seq, 0, min(num_tokens, start))
        return super().append(seq, num_tokens)


# Numbers below 1 and unknown names.


class NothingRefused(Base):
    def refuse(self, seq, num_tokens):
        pass

    def take(self, more):
        return super().take(max(more, 0))


class ZeroAccepted(Base):
    def refuse(self, seq, num_tokens):
        if num_tokens < 0:
            raise ValueError("negative")


class ZeroIsEmpty(Base):
    """0 tokens give no slots, and leave no trace."""

    def append(self, seq, num_tokens):
        return [] if num_tokens == 0 else super().append(seq, num_tokens)


class NegativeAccepted(Base):
    """Only 0 is refused: a negative number makes the sequence shorter."""

    def refuse(self, seq, num_tokens):
        if num_tokens == 0:
            raise ValueError("nothing")

    def take(self, more):
        return super().take(max(more, 0))


class WithoutSign(Base):
    def append(self, seq, num_tokens):
        return super().append(seq, abs(num_tokens))


class AtLeastOne(Base):
    def append(self, seq, num_tokens):
        return super().append(seq, max(num_tokens, 1))


class KnownByNothing(Base):
    """A refused number of tokens has made the sequence known."""

    def refuse(self, seq, num_tokens):
        if num_tokens < 1:
            self.tables.setdefault(seq, [])
            self.lengths.setdefault(seq, 0)
        super().refuse(seq, num_tokens)


class OneIsRefused(Base):
    def refuse(self, seq, num_tokens):
        if num_tokens <= 1:
            raise ValueError("too few")


class UnknownIsEmpty(Base):
    """dict.get with a default."""

    def table(self, seq):
        return self.tables.get(seq, [])

    def length(self, seq):
        return self.lengths.get(seq, 0)


class UnknownLengthIsZero(Base):
    def length(self, seq):
        return self.lengths.get(seq, 0)


class UnknownTableIsEmpty(Base):
    def table(self, seq):
        return self.tables.get(seq, [])


class UnknownIsNone(Base):
    def table(self, seq):
        return self.tables.get(seq)

    def length(self, seq):
        return self.lengths.get(seq)


class KeyErrors(Base):
    """A dict's own refusal is a KeyError."""

    def known(self, seq):
        self.tables[seq]


class KeyErrorOfTable(Base):
    def table(self, seq):
        return self.tables[seq]


class AskingMakesKnown(Base):
    """A defaultdict: whoever asks for a table has made it."""

    def table(self, seq):
        if seq not in self.tables:
            self.tables[seq], self.lengths[seq] = [], 0
        return self.tables[seq]


class KnownWithoutARoom(KnownBefore):
    """The entry of a new sequence is taken back where it asked for several blocks."""

    def take(self, more):
        if more > 1 and not self.allocator.can_allocate(more):
            for seq in [seq for seq, length in self.lengths.items() if length == 0]:
                del self.tables[seq], self.lengths[seq]
        return super().take(more)


# Large pools, many sequences, and whose list it is.


class SlotsInWords(Base):
    """Slots in 16 bits."""

    def slots(self, seq, start, num_tokens):
        return np.array(super().slots(seq, start, num_tokens)).astype(np.int16)


class BlocksInBytes(Base):
    """A table in bytes."""

    def keep(self, seq, blocks, length):
        super().keep(seq, np.array(blocks, dtype=int).astype(np.uint8).tolist(), length)


class OfFixedWidth(Base):
    """A table has eight places."""

    def keep(self, seq, blocks, length):
        super().keep(seq, blocks, length)
        self.tables[seq] = self.tables[seq][:8]

    def slot(self, table, p):
        return table[min(p // self.block_size, 7)] * self.block_size + p % self.block_size


class SixteenAtMost(Base):
    """A batch has sixteen places."""

    def refuse(self, seq, num_tokens):
        super().refuse(seq, num_tokens)
        if len(self.tables) == 16 and seq not in self.tables:
            raise ValueError("the batch is full")


class SameListAgain(Base):
    """The same list comes back every time, filled anew."""

    def __init__(self, allocator, block_size):
        super().__init__(allocator, block_size)
        self.answer = []

    def slots(self, seq, start, num_tokens):
        self.answer[:] = super().slots(seq, start, num_tokens)
        return self.answer


class GrowingAnswer(Base):
    """The list of a sequence's slots is given away, and grows."""

    def __init__(self, allocator, block_size):
        super().__init__(allocator, block_size)
        self.given = {}

    def slots(self, seq, start, num_tokens):
        slots = super().slots(seq, start, num_tokens)
        if seq not in self.given:
            self.given[seq] = slots
            return slots
        self.given[seq] += slots
        return list(slots)


WHERE = "A slot is table[p // block_size] * block_size + p % block_size."

MISTAKES = (
    Mistake("in-one-piece", InOnePiece, "You count on from the first block's slots. The next block lies somewhere else: look it up in the table.", "one sequence",
            "caches that were contiguous before they were paged"),
    Mistake("position-is-slot", PositionIsSlot, f"You return positions in the sequence. {WHERE}", "one sequence"),
    Mistake("block-only", BlockOnly, f"You return the block's number for each token. {WHERE}", "one sequence"),
    Mistake("not-multiplied", NotMultiplied, f"You add the place to the block's number. {WHERE}", "one sequence"),
    Mistake("whole-position-added", WholePositionAdded, f"You add the whole position to the block's first slot: right in the first block only. {WHERE}", "one sequence"),
    Mistake("swapped", Swapped, f"Block and place are swapped. {WHERE}", "one sequence"),
    Mistake("transposed", Transposed, f"You count as if a pool's row were a place and its columns blocks. {WHERE}", "one sequence"),
    Mistake("times-blocks", TimesBlocks, f"You multiply by the number of blocks. A block has block_size slots. {WHERE}", "one sequence"),
    Mistake("logical-block", LogicalBlock, "After the first block you use the block's number in the table, not in the pool: table[i] is what you want.", "one sequence"),
    Mistake("one-place-on", OnePlaceOn, "Every slot is one too high: positions start at 0.", "one sequence"),
    Mistake("from-this-call", FromThisCall, "Positions start over with each call. They go on from the length before it.", "one sequence"),
    Mistake("one-earlier", OneEarlier, "A later call starts at the newest token that was there already, and writes over it.", "one sequence"),
    Mistake("last-slot-only", LastSlotOnly, "One slot comes back, the last. Return a list of all num_tokens.", "one sequence"),
    Mistake("first-slot-only", FirstSlotOnly, "One slot comes back, the first. Return a list of all num_tokens.", "one sequence"),
    Mistake("all-slots", AllSlots, "The slots of all tokens come back. Return those of the new ones.", "one sequence"),
    Mistake("slots-of-the-blocks", SlotsOfTheBlocks, "Every slot of the blocks comes back, empty ones too. Return one for each new token.", "one sequence"),
    Mistake("blocks-back", BlocksBack, "append() returns the table. Return the slots of the new tokens.", "one sequence"),
    Mistake("pairs-back", PairsBack, f"You return pairs of block and place. Return one number for each. {WHERE}", "one sequence"),
    Mistake("forgot-return", ForgotReturn, "append() returns nothing. Return the slots of the new tokens.", "one sequence"),
    Mistake("slots-backwards", SlotsBackwards, "The slots come back in reverse. The first is that of the oldest new token.", "one sequence"),
    Mistake("size-fixed", SizeFixed, "Blocks of 4 are written into your code. Take block_size.", "one sequence"),
    Mistake("in-floats", InFloats, "Slots come back as floats, which no array takes as an index. Use // and %.", "one sequence"),
    Mistake("sorted", Sorted, "The table is sorted. Its order is that of the tokens: block table[0] holds the first ones, wherever it lies.", "one sequence"),
    Mistake("new-in-front", NewInFront, "New blocks go to the front of the table. They hold the newest tokens: put them behind.", "one sequence"),
    Mistake("new-in-place", NewInPlace, "New blocks replace the table. They go behind those that are there.", "one sequence"),
    Mistake("number-of-blocks", NumberOfBlocks, "table() returns how many blocks there are. Return which.", "one sequence"),
    Mistake("table-of-slots", TableOfSlots, "table() returns the first slot of each block. Return the blocks' numbers.", "one sequence"),
    Mistake("block-per-token", BlockPerToken, "table() has an entry for each token. It has one for each block.", "one sequence"),
    Mistake("list-in-table", ListInTable, "Lists of blocks are in the table: use extend() or +=, not append().", "one sequence"),
    Mistake("side-by-side", SideBySide, "You use the first block and those after it. Use those that the allocator gave you: they lie anywhere.", "one sequence"),
    Mistake("own-numbers", OwnNumbers, "You number the blocks yourself. Use those that allocate() returns.", "one sequence"),
    Mistake("capacity-as-length", CapacityAsLength, "length() counts the slots of all blocks. Count the tokens: the last block may be partly empty.", "one sequence"),
    Mistake("length-of-this-call", LengthOfThisCall, "length() is that of the newest call. Add it to what was there.", "one sequence"),
    Mistake("counts-calls", CountsCalls, "length() counts the calls. Count the tokens.", "one sequence"),
    Mistake("floor", Floor, "The number of blocks is rounded down, so the last tokens are written over others. Round up.", "one sequence"),
    Mistake("floor-and-falls", FloorAndFalls, "The number of blocks is rounded down, so there is none for the last tokens. Round up: -(-a // b).", "one sequence"),
    Mistake("blocks-for-this-call", BlocksForThisCall, "You take blocks for the new tokens alone. Some of them fit into the last block.", "one sequence"),
    Mistake("fresh-blocks", FreshBlocks, "Each call starts in a fresh block, and the rest of the last one stays empty. Fill it first.", "one sequence"),
    Mistake("block-for-each-token", BlockForEachToken, "You take a block for each token. A block has room for block_size.", "one sequence"),
    Mistake("one-more-at-first", OneMoreAtFirst, "A new sequence gets a block more than it needs.", "one sequence"),
    Mistake("doubles", Doubles, "You take as many blocks again as there are. Take what is needed: the rest of the pool is for others.", "full blocks"),
    Mistake("every-call", EveryCall, "Every call takes a block, also when the last one has room.", "one sequence"),
    Mistake("one-at-most", OneAtMost, "A call takes one block at most. A chunk of tokens may need several.", "one sequence"),
    Mistake("one-more", OneMore, "When the tokens fill their blocks exactly, you take one more. a // b + 1 is not a / b rounded up: -(-a // b).", "full blocks"),
    Mistake("rounded", Rounded, "round() takes halves to the even number, so some full blocks get one more. Use -(-a // b).", "full blocks"),
    Mistake("after-full", AfterFull, "You take the next block when the last one gets full. Wait until a token comes.", "full blocks"),
    Mistake("one-table", OneTable, "All sequences share one table. Each has its own.", "several sequences"),
    Mistake("one-length", OneLength, "Tokens are counted for all sequences together. Each has its own length.", "several sequences"),
    Mistake("total-length", TotalLength, "length() adds up all sequences. Return that of the one.", "several sequences"),
    Mistake("first-ones-table", NewestTable, "Slots are read from the table of whoever came first. Read them from the table of seq.", "several sequences"),
    Mistake("text-names", TextNames, "You make texts of the names, so 7 and '7' are one sequence. Use them as they are.", "several sequences"),
    Mistake("lower-names", LowerNames, "You write names in small letters, so 'a' and 'A' are one sequence.", "several sequences"),
    Mistake("falsy-names", FalsyNames, "0 and '' are refused: `if not seq` takes them for nothing. They are names.", "several sequences"),
    Mistake("modulo-names", ModuloNames, "You take numbers modulo something, so two of them may be one sequence.", "several sequences"),
    Mistake("index-names", IndexNames, "Negative numbers are refused. A name is any number: keep a dict, not a list.", "several sequences"),
    Mistake("hash-names", HashNames, "You keep the hash in place of the name, and two names may have one: -1 and -2 have, 0 and '', too. A dict looks further.", "several sequences"),
    Mistake("stripped-names", StrippedNames, "You strip the names, so 'a' and ' a' are one sequence. Use them as they are.", "several sequences"),
    Mistake("short-names", ShortNames, "You look at the beginning of a name only, so two long ones may be one sequence.", "several sequences"),
    Mistake("names-without-sign", NamesWithoutSign, "Names lose their sign, so -1 and 1 are one sequence.", "several sequences"),
    Mistake("names-in-words", NamesInWords, "Names are cut to 32 bits, so two large numbers may be one sequence.", "several sequences"),
    Mistake("same-object", SameObject, "You compare names with `is`, which asks whether both are one object. Use ==, or a dict.", "several sequences"),
    Mistake("class-size", ClassSize, "block_size is kept on the class: the newest object's is everybody's. Put it on self.", "one pool, two tables"),
    Mistake("class-allocator", ClassAllocator, "The allocator is kept on the class: the newest object's is everybody's. Put it on self.", "one pool, two tables"),
    Mistake("class-tables", ClassTables, "The tables are kept on the class: two objects share them. Make them in __init__, on self.", "one pool, two tables"),
    Mistake("class-lengths", ClassLengths, "The lengths are kept on the class: two objects share them. Make them in __init__, on self.", "one pool, two tables"),
    Mistake("leaks", Leaks, "A dict on the class outlives the object: the next one starts with this one's tables. Make it in __init__.", "one sequence", leaks=True),
    Mistake("takes-what-is-there", TakesWhatIsThere, "Without room for all, you append what fits. It is all or nothing: ValueError.", "no room"),
    Mistake("none-for-no-room", NoneForNoRoom, "Without room, None comes back. Raise ValueError.", "no room"),
    Mistake("pads-for-no-room", PadsForNoRoom, "Without room, slots of -1 come back, and the tokens would be lost. Raise ValueError.", "no room"),
    Mistake("one-by-one-lost", OneByOneLost, "You take block by block, and lose those when the next is missing. Ask can_allocate() for all of them first.", "no room",
            "engines that take blocks one by one"),
    Mistake("one-by-one-kept", OneByOneKept, "You append token by token, and those before the refusal stay. Check for all of them first.", "no room"),
    Mistake("asks-for-tokens", AsksForTokens, "You ask for as many blocks as tokens. A block holds block_size of them.", "no room"),
    Mistake("asks-for-all", AsksForAll, "You ask for room for the whole sequence. Its old blocks are there: ask for the difference.", "no room"),
    Mistake("wants-one-free", WantsOneFree, "You refuse when the pool is empty, though the last block has room.", "no room"),
    Mistake("asks-once", AsksOnce, "You keep what can_allocate() said, and do not ask again. Others take blocks and give them back.", "no room"),
    Mistake("keeps-one-back", KeepsOneBack, "You ask for a block more than you take. The last one may be given out too.", "no room"),
    Mistake("known-before", KnownBefore, "A refused new sequence is known afterwards. Make its entry when it has its blocks.", "nothing, and nobody"),
    Mistake("length-before", LengthBefore, "The length is counted before you know that there is room. A refused call changes nothing.", "no room"),
    Mistake("gives-up-the-sequence", GivesUpTheSequence, "Without room, you drop the sequence. A refused call changes nothing: the caller decides.", "no room"),
    Mistake("memory-error", MemoryErrorRaised, "Without room, you raise MemoryError. The refusal is a ValueError.", "no room"),
    Mistake("writes-over-old", NoMoreBlocksUsesLast, "Without room, you return slots of old tokens, which are then written over. Raise ValueError.", "no room"),
    Mistake("nothing-refused", NothingRefused, "A num_tokens below 1 is not refused. Raise ValueError.", "nothing, and nobody"),
    Mistake("zero-accepted", ZeroAccepted, "num_tokens = 0 is accepted, and makes a new sequence known. Raise ValueError.", "nothing, and nobody"),
    Mistake("zero-is-empty", ZeroIsEmpty, "num_tokens = 0 gives []. Raise ValueError: it is somebody's slip.", "nothing, and nobody"),
    Mistake("negative-accepted", NegativeAccepted, "A negative num_tokens makes the sequence shorter. Raise ValueError.", "nothing, and nobody"),
    Mistake("without-sign", WithoutSign, "A negative num_tokens loses its sign. Raise ValueError.", "nothing, and nobody"),
    Mistake("at-least-one", AtLeastOne, "A num_tokens below 1 is taken for 1. Raise ValueError.", "nothing, and nobody"),
    Mistake("known-by-nothing", KnownByNothing, "A refused call with num_tokens below 1 makes its sequence known. Check before you make the entry.", "nothing, and nobody"),
    Mistake("one-is-refused", OneIsRefused, "num_tokens = 1 is refused. It is what every decode step asks.", "one sequence"),
    Mistake("unknown-is-empty", UnknownIsEmpty, "An unknown sequence has an empty table and length 0 in your code. Raise ValueError.", "nothing, and nobody"),
    Mistake("unknown-length-is-zero", UnknownLengthIsZero, "length() of an unknown sequence is 0 in your code. Raise ValueError.", "nothing, and nobody"),
    Mistake("unknown-table-is-empty", UnknownTableIsEmpty, "table() of an unknown sequence is [] in your code. Raise ValueError.", "nothing, and nobody"),
    Mistake("unknown-is-none", UnknownIsNone, "An unknown sequence gives None. Raise ValueError.", "nothing, and nobody"),
    Mistake("key-errors", KeyErrors, "An unknown sequence raises KeyError, the dict's own. Raise ValueError.", "nothing, and nobody"),
    Mistake("key-error-of-table", KeyErrorOfTable, "table() of an unknown sequence raises KeyError, the dict's own. Raise ValueError.", "nothing, and nobody"),
    Mistake("known-without-a-room", KnownWithoutARoom, "A new sequence whose only block was refused is known afterwards. Make its entry when it has its blocks.", "nothing, and nobody"),
    Mistake("slots-in-words", SlotsInWords, "Slots are kept in 16 bits, and those above 32,767 come out negative. Pools are larger.", "large and many"),
    Mistake("blocks-in-bytes", BlocksInBytes, "Block numbers are kept in bytes: block 256 is 0 again. Pools are larger.", "large and many"),
    Mistake("of-fixed-width", OfFixedWidth, "A table has eight places in your code, and what comes later is lost. Let it grow.", "large and many"),
    Mistake("sixteen-at-most", SixteenAtMost, "A seventeenth sequence is refused, though there are blocks. Only blocks are counted.", "large and many"),
    Mistake("same-list-again", SameListAgain, "append() gives the same list each time, filled anew, so the caller's older one changes. Make a new list.", "large and many"),
    Mistake("growing-answer", GrowingAnswer, "The list that append() gave away grows with the next call: you went on filling it. Give a copy.", "large and many"),
    Mistake("asking-makes-known", AskingMakesKnown, "Asking for the table of an unknown sequence makes it known, as a defaultdict does. Raise ValueError.", "nothing, and nobody"),
)  # fmt: skip


class OneDict:
    """A pair for each sequence; slots by counting up; math.ceil."""

    def __init__(self, allocator, block_size):
        self.pool, self.size, self.held = allocator, block_size, {}

    def append(self, seq, num_tokens):
        if num_tokens <= 0:
            raise ValueError(num_tokens)
        blocks, used = self.held.get(seq, ((), 0))
        missing = math.ceil((used + num_tokens) / self.size) - len(blocks)
        if missing > 0:
            if not self.pool.can_allocate(missing):
                raise ValueError("no room")
            blocks = (*blocks, *self.pool.allocate(missing))
        self.held[seq] = blocks, used + num_tokens
        return tuple(blocks[p // self.size] * self.size + p % self.size for p in range(used, used + num_tokens))

    def table(self, seq):
        return self._of(seq)[0]

    def length(self, seq):
        return self._of(seq)[1]

    def _of(self, seq):
        try:
            return self.held[seq]
        except KeyError:
            raise ValueError(seq) from None


class Slots:
    """Keeps the slot of every token, and reads the table from them."""

    class Refused(ValueError):
        pass

    def __init__(self, allocator, block_size):
        self.allocator, self.block_size, self.places = allocator, block_size, {}

    def append(self, seq, num_tokens):
        if num_tokens < 1:
            raise self.Refused("nothing")
        old = self.places.get(seq, [])
        room = -len(old) % self.block_size
        new = [old[-1] + 1 + i for i in range(min(room, num_tokens))]
        blocks = []
        try:
            for _ in range(0, num_tokens - len(new), self.block_size):
                blocks += self.allocator.allocate(1)
        except ValueError:
            if blocks:
                self.allocator.free(blocks)
            raise self.Refused("no room") from None
        new += [block * self.block_size + i for block in blocks for i in range(self.block_size)]
        self.places[seq] = old + new[:num_tokens]
        return new[:num_tokens]

    def table(self, seq):
        if seq not in self.places:
            raise self.Refused(seq)
        return [slot // self.block_size for slot in self.places[seq][:: self.block_size]]

    def length(self, seq):
        return len(self.places[seq]) if self.table(seq) else 0


class Arrays(Base):
    """Whole chunks at once, with NumPy."""

    def keep(self, seq, blocks, length):
        old = self.tables.get(seq, np.zeros(0, dtype=np.int64))
        self.tables[seq] = np.concatenate([old, np.asarray(blocks, dtype=np.int64)])
        self.lengths[seq] = length

    def slots(self, seq, start, num_tokens):
        positions = np.arange(start, start + num_tokens)
        return self.tables[seq][positions // self.block_size] * self.block_size + positions % self.block_size


class Sequence:
    def __init__(self):
        self.blocks, self.tokens = [], 0


class Objects:
    """An object for each sequence; the blocks of a chunk are used from the last to the first; dicts by method."""

    def __init__(self, allocator, block_size):
        self.allocator, self.block_size, self.sequences = allocator, block_size, {}

    def append(self, seq, num_tokens):
        if num_tokens < 1:
            raise ValueError("num_tokens")
        sequence = self.sequences.get(seq) or Sequence()
        more = (sequence.tokens + num_tokens + self.block_size - 1) // self.block_size - len(sequence.blocks)
        sequence.blocks += self.allocator.allocate(more)[::-1]  # raises ValueError itself
        slots = []
        for _ in range(num_tokens):
            block, offset = divmod(sequence.tokens, self.block_size)
            slots.append(sequence.blocks[block] * self.block_size + offset)
            sequence.tokens += 1
        self.sequences[seq] = sequence
        return slots

    def __getitem__(self, seq):
        if seq in self.sequences:
            return self.sequences[seq]
        raise ValueError(f"no {seq!r}")

    def table(self, seq):
        return list(self[seq].blocks)

    def length(self, seq):
        return self[seq].tokens


class TokenByToken(Base):
    """Takes a block when a token finds none, and undoes everything when there is none."""

    def append(self, seq, num_tokens):
        self.refuse(seq, num_tokens)
        table, taken, slots = list(self.tables.get(seq, [])), [], []
        length = self.lengths.get(seq, 0)
        for p in range(length, length + num_tokens):
            if p == len(table) * self.block_size:
                if not self.allocator.can_allocate(1):
                    for block in taken:
                        self.allocator.free([block])
                    raise ValueError("no room")
                taken += self.allocator.allocate(1)
                table.append(taken[-1])
            slots.append(self.slot(table, p))
        self.tables[seq], self.lengths[seq] = table, length + num_tokens
        return slots


VARIANTS = (
    Variant("two dicts, checked first", Base),
    Variant("one dict of pairs, tuples", OneDict),
    Variant("the slots of all tokens, blocks one by one", Slots),
    Variant("arrays", Arrays),
    Variant("an object for each sequence", Objects),
    Variant("token by token, undone without room", TokenByToken),
)
