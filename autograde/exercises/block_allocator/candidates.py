"""Wrong and right ways to keep a pool of blocks. Each mistake changes one thing in `Base`."""

from __future__ import annotations

import heapq
from collections import deque

import numpy as np

from autograde.exercise import Mistake, Variant


class Base:
    def __init__(self, num_blocks):
        self.num_blocks = num_blocks
        self.pool = list(range(num_blocks))
        self.held = set()

    @property
    def num_free(self):
        return len(self.pool)

    def can_allocate(self, n):
        return n <= len(self.pool)

    def allocate(self, n):
        self.refuse(n)
        blocks = self.take(n)
        self.held.update(blocks)
        return blocks

    def refuse(self, n):
        if not 0 <= n <= len(self.pool):
            raise ValueError(f"{n} blocks asked, {len(self.pool)} are free")

    def take(self, n):
        blocks, self.pool = self.pool[:n], self.pool[n:]
        return blocks

    def free(self, blocks):
        self.check(blocks)
        for block in blocks:
            self.give_back(block)

    def check(self, blocks):
        if len(set(blocks)) < len(blocks):
            raise ValueError("twice")
        for block in blocks:
            self.insist(block)

    def insist(self, block):
        if block not in self.held:
            raise ValueError(f"block {block} is not held")

    def give_back(self, block):
        self.held.discard(block)
        self.pool.append(block)


# What is given out.


class SameAgain(Base):
    def take(self, n):
        return self.pool[:n]


class FromOne(Base):
    def __init__(self, num_blocks):
        super().__init__(num_blocks)
        self.pool = list(range(1, num_blocks + 1))


class OneShort(Base):
    def __init__(self, num_blocks):
        super().__init__(num_blocks)
        self.pool = list(range(num_blocks - 1))


class OneTooMany(Base):
    def __init__(self, num_blocks):
        super().__init__(num_blocks)
        self.pool = list(range(num_blocks + 1))


class CountsHeld(Base):
    @property
    def num_free(self):
        return len(self.held)


class NeverCounts(Base):
    """A number set once."""

    num_free = None

    def __init__(self, num_blocks):
        super().__init__(num_blocks)
        self.num_free = num_blocks


class CountsCalls(Base):
    """One less for each call, however many blocks it took."""

    num_free = None

    def __init__(self, num_blocks):
        super().__init__(num_blocks)
        self.num_free = num_blocks

    def allocate(self, n):
        blocks = super().allocate(n)
        self.num_free -= 1
        return blocks

    def give_back(self, block):
        super().give_back(block)
        self.num_free += 1


class ForgotReturn(Base):
    def allocate(self, n):
        super().allocate(n)


class BareNumber(Base):
    """One block asked: the number itself, not a list of it."""

    def allocate(self, n):
        blocks = super().allocate(n)
        return blocks[0] if n == 1 else blocks


class AllForZero(Base):
    """pool[-0:] is the whole list."""

    def take(self, n):
        blocks, self.pool = self.pool[-n:], self.pool[: len(self.pool) - n]
        return blocks


class ZeroRefused(Base):
    def refuse(self, n):
        super().refuse(n)
        if n < 1:
            raise ValueError("nothing asked")


class OneTooFew(Base):
    def take(self, n):
        blocks = super().take(n)
        return blocks[:-1]


class LastNeverGiven(Base):
    def refuse(self, n):
        if not 0 <= n < max(len(self.pool), 1):
            raise ValueError("no room")


class ByNumber(Base):
    """Always the blocks 0 to n - 1."""

    def take(self, n):
        super().take(n)
        return list(range(n))


# What fits.


class StrictRoom(Base):
    def can_allocate(self, n):
        return n < len(self.pool)


class RoomOfThePool(Base):
    def can_allocate(self, n):
        return n <= self.num_blocks


class AskingTakes(Base):
    """Sets the blocks aside for the `allocate` that is to come."""

    def can_allocate(self, n):
        fits = super().can_allocate(n)
        if fits:
            self.take(n)
        return fits


class RoomAsNumber(Base):
    def can_allocate(self, n):
        return max(len(self.pool) - n, 0)


class NothingNeverFits(Base):
    """Whether there is room for none depends on whether there is any."""

    def can_allocate(self, n):
        return bool(self.pool) and n <= len(self.pool)


class AnyRoom(Base):
    def can_allocate(self, n):
        return n == 0 or len(self.pool) > 0


class RoomRefused(Base):
    """Raises where it should say False."""

    def can_allocate(self, n):
        self.refuse(n)
        return True


class RoomOfHeld(Base):
    def can_allocate(self, n):
        return n <= len(self.held)


# What comes back.


class NeverBack(Base):
    def free(self, blocks):
        self.check(blocks)
        self.held -= set(blocks)


class FirstOnly(Base):
    def free(self, blocks):
        super().free(blocks[:1])


class AllBack(Base):
    """Any free() empties everything."""

    def free(self, blocks):
        self.check(blocks)
        super().__init__(self.num_blocks)


class NumberGoesDownOnly(Base):
    num_free = None

    def __init__(self, num_blocks):
        super().__init__(num_blocks)
        self.num_free = num_blocks

    def allocate(self, n):
        blocks = super().allocate(n)
        self.num_free -= n
        return blocks


class NumberOnly(Base):
    """The number goes up, the blocks themselves stay lost."""

    @property
    def num_free(self):
        return self.num_blocks - len(self.held)

    def give_back(self, block):
        self.held.discard(block)


class Stack(Base):
    """A pointer into the pool: right as long as what came last goes first."""

    def take(self, n):
        start = self.num_blocks - len(self.pool)
        del self.pool[:n]
        return list(range(start, start + n))


class Ring(Base):
    """Goes round and round, whether the next block is free or not."""

    def __init__(self, num_blocks):
        super().__init__(num_blocks)
        self.next = 0

    def take(self, n):
        del self.pool[:n]
        self.next += n
        return [i % self.num_blocks for i in range(self.next - n, self.next)]


class EverNew(Base):
    """Numbers that go up for ever."""

    def __init__(self, num_blocks):
        super().__init__(num_blocks)
        self.next = 0

    def take(self, n):
        del self.pool[:n]
        self.next += n
        return list(range(self.next - n, self.next))


class InOnePiece(Base):
    """Wants blocks that lie side by side."""

    def take(self, n):
        free = sorted(self.pool)
        for i in range(len(free) - n + 1):
            if n == 0 or free[i + n - 1] - free[i] == n - 1:
                self.pool = free[:i] + free[i + n :]
                return free[i : i + n]
        raise ValueError("no piece that long")


class WholeAllocations(Base):
    """Takes back only what one call gave out."""

    def __init__(self, num_blocks):
        super().__init__(num_blocks)
        self.given = []

    def allocate(self, n):
        blocks = super().allocate(n)
        self.given.append(set(blocks))
        return blocks

    def check(self, blocks):
        super().check(blocks)
        if set(blocks) not in self.given:
            raise ValueError("not what was given out")


class BackOnceForEver(Base):
    """Keeps a list of what came back, and never takes anything off it."""

    def __init__(self, num_blocks):
        super().__init__(num_blocks)
        self.back = set()

    def insist(self, block):
        super().insist(block)
        if block in self.back:
            raise ValueError("back already")

    def give_back(self, block):
        super().give_back(block)
        self.back.add(block)


class NewestOnly(Base):
    """Takes back the blocks of the newest call only, as a stack would."""

    def __init__(self, num_blocks):
        super().__init__(num_blocks)
        self.order = []

    def allocate(self, n):
        blocks = super().allocate(n)
        self.order += blocks
        return blocks

    def free(self, blocks):
        self.check(blocks)
        for _ in blocks:
            self.give_back(self.order.pop())


class OneByOne(Base):
    """free() of a list removes from it while it walks over it."""

    def free(self, blocks):
        self.check(blocks)
        for block in blocks:
            self.give_back(block)
            blocks.remove(block)


class ListInThePool(Base):
    """append() in place of extend(): the list itself goes into the pool."""

    def free(self, blocks):
        self.check(blocks)
        self.held -= set(blocks)
        self.pool.append(list(blocks))


# More than there is.


class WhatIsLeft(Base):
    def refuse(self, n):
        if n < 0:
            raise ValueError("negative")


class NoneForNoRoom(Base):
    def allocate(self, n):
        if n > len(self.pool):
            return None
        return super().allocate(n)


class EmptyForNoRoom(Base):
    def allocate(self, n):
        if n > len(self.pool):
            return []
        return super().allocate(n)


class PopsOn(Base):
    """pop() from an empty list raises IndexError, and what was popped is gone."""

    def refuse(self, n):
        if n < 0:
            raise ValueError("negative")

    def take(self, n):
        return [self.pool.pop(0) for _ in range(n)]


class HalfTaken(Base):
    """Looks before each single block, and leaves those that it has when the next one is missing."""

    def refuse(self, n):
        if n < 0:
            raise ValueError("negative")

    def take(self, n):
        blocks = []
        for _ in range(n):
            if not self.pool:
                raise ValueError("no more blocks")
            blocks.append(self.pool.pop(0))
        return blocks


class CountsRefused(Base):
    """The number goes down before the check."""

    num_free = None

    def __init__(self, num_blocks):
        super().__init__(num_blocks)
        self.num_free = num_blocks

    def allocate(self, n):
        self.num_free -= n
        return super().allocate(n)

    def give_back(self, block):
        super().give_back(block)
        self.num_free += 1


class OutOfMemory(Base):
    def refuse(self, n):
        if n > len(self.pool):
            raise MemoryError("out of blocks")
        super().refuse(n)


class Steals(Base):
    """Takes blocks from whoever has held them longest."""

    def allocate(self, n):
        while 0 <= len(self.pool) < n <= self.num_blocks and self.held:
            self.give_back(min(self.held))
        return super().allocate(n)


class Grows(Base):
    def refuse(self, n):
        if n < 0:
            raise ValueError("negative")
        while len(self.pool) < n:
            self.pool.append(self.num_blocks)
            self.num_blocks += 1


class ComparesWithThePool(Base):
    """Refuses only what is more than the whole pool."""

    def refuse(self, n):
        if not 0 <= n <= self.num_blocks:
            raise ValueError("too many")


class NegativeIsNothing(Base):
    def refuse(self, n):
        super().refuse(max(n, 0))

    def take(self, n):
        return [self.pool.pop(0) for _ in range(n)]


class NegativeSlice(Base):
    """pool[:-2] is all but two."""

    def refuse(self, n):
        super().refuse(max(n, 0))


class WithoutSign(Base):
    def allocate(self, n):
        return super().allocate(abs(n))


# What nobody holds.


class NoCheck(Base):
    def check(self, blocks):
        pass


class PassesOver(Base):
    """What is not held is passed over without a word."""

    def free(self, blocks):
        super().free([block for block in dict.fromkeys(blocks) if block in self.held])


class HalfFreed(Base):
    """Checks each block right before it goes back."""

    def free(self, blocks):
        for block in blocks:
            self.insist(block)
            self.give_back(block)


class FreesTheGoodOnes(Base):
    """Frees what can be freed, and complains afterwards."""

    def free(self, blocks):
        good = [block for block in dict.fromkeys(blocks) if block in self.held]
        super().free(good)
        if len(good) < len(blocks):
            raise ValueError("not all of them are held")


class TwiceInTheList(Base):
    def check(self, blocks):
        for block in blocks:
            self.insist(block)


class TwiceIsOnce(Base):
    def free(self, blocks):
        super().free(list(set(blocks)))


class OnlyDoubles(Base):
    """Refuses what is in the pool, and takes any other number."""

    def insist(self, block):
        if block in self.pool:
            raise ValueError("free already")


class InRangeOnly(Base):
    """Any number of the pool's will do, held or not."""

    def insist(self, block):
        if not 0 <= block < self.num_blocks:
            raise ValueError("no such block")


class NegativeIndex(Base):
    """A list of flags: index -1 is its last entry."""

    def __init__(self, num_blocks):
        super().__init__(num_blocks)
        self.used = [False] * num_blocks

    def take(self, n):
        blocks = super().take(n)
        for block in blocks:
            self.used[block] = True
        return blocks

    def insist(self, block):
        if block >= self.num_blocks or not self.used[block]:
            raise ValueError("not held")

    def give_back(self, block):
        super().give_back(block)
        self.used[block] = False


class IndexErrorBeyond(NegativeIndex):
    """Flags again, with no look at the upper end."""

    def insist(self, block):
        if block < 0 or not self.used[block]:
            raise ValueError("not held")


class KeyErrorFromSet(Base):
    def check(self, blocks):
        if len(set(blocks)) < len(blocks):
            raise ValueError("twice")

    def free(self, blocks):
        self.check(blocks)
        held = set(self.held)
        for block in blocks:
            held.remove(block)
        super().free(blocks)


class AssertionFails(Base):
    def insist(self, block):
        assert block in self.held


class LooksAtTheFirst(Base):
    def check(self, blocks):
        super().check(blocks[:1])
        if len(set(blocks)) < len(blocks):
            raise ValueError("twice")


class AnyIsEnough(Base):
    """Refuses only when none of them is held."""

    def check(self, blocks):
        if len(set(blocks)) < len(blocks) or not any(block in self.held for block in blocks):
            raise ValueError("not held")


class EverGiven(Base):
    """Remembers what was given out, and never forgets it."""

    def give_back(self, block):
        self.pool.append(block)


class CountsOnly(Base):
    """Asks whether so many blocks are held, not which."""

    def check(self, blocks):
        if len(blocks) > len(self.held) or not all(0 <= block < self.num_blocks for block in blocks):
            raise ValueError("too many")
        if len(set(blocks)) < len(blocks):
            raise ValueError("twice")


class FirstTwice(Base):
    """Looks whether the first block comes again."""

    def check(self, blocks):
        if blocks[0] in blocks[1:]:
            raise ValueError("twice")
        for block in blocks:
            self.insist(block)


class LooksAtTwo(Base):
    def check(self, blocks):
        super().check(blocks[:2])
        if len(set(blocks)) < len(blocks):
            raise ValueError("twice")


class LowestAndHighest(Base):
    """If both are held, so it is thought is what lies between them."""

    def check(self, blocks):
        super().check([min(blocks), max(blocks)] if len(set(blocks)) > 1 else blocks)
        if len(set(blocks)) < len(blocks):
            raise ValueError("twice")


# Whose list it is.


class OneListForAll(Base):
    """The same list comes back every time, filled anew."""

    def __init__(self, num_blocks):
        super().__init__(num_blocks)
        self.answer = []

    def allocate(self, n):
        self.answer[:] = super().allocate(n)
        return self.answer


class KeepsWhatItGave(Base):
    """The very lists that were given out say who is held."""

    def __init__(self, num_blocks):
        super().__init__(num_blocks)
        self.given = []

    def allocate(self, n):
        self.given.append(super().allocate(n))
        return self.given[-1]

    def insist(self, block):
        if not any(block in blocks for blocks in self.given):
            raise ValueError("not held")

    def give_back(self, block):
        super().give_back(block)
        next(blocks for blocks in self.given if block in blocks).remove(block)


class EmptiesTheList(Base):
    def free(self, blocks):
        self.check(blocks)
        while blocks:
            self.give_back(blocks.pop())


class SortsTheList(Base):
    """Sorted, so that doubles lie side by side."""

    def check(self, blocks):
        super().check(blocks)
        blocks.sort()


class TheListIsThePool(Base):
    """When nothing is free, the caller's list becomes the pool."""

    def take(self, n):
        return [self.pool.pop() for _ in range(n)]

    def free(self, blocks):
        self.check(blocks)
        self.held -= set(blocks)
        self.pool = self.pool + blocks if self.pool else blocks


# Two pools, and a large one.


class OnePoolForAll(Base):
    """The list of free blocks is kept on the class, and made anew by whoever comes last."""

    def __init__(self, num_blocks):
        super().__init__(num_blocks)
        del self.pool
        type(self).pool = list(range(num_blocks))

    def take(self, n):
        blocks = self.pool[:n]
        del self.pool[:n]
        return blocks


class OneSetForAll(Base):
    """Free blocks are each pool's own, held ones are kept on the class."""

    def __init__(self, num_blocks):
        super().__init__(num_blocks)
        del self.held
        type(self).held = set()


class LeaksIntoTheNext(Base):
    """A list on the class that every new pool adds its blocks to."""

    shared: list = []  # noqa: RUF012 - this is the mistake

    def __init__(self, num_blocks):
        super().__init__(num_blocks)
        self.shared += self.pool
        self.pool = self.shared

    def take(self, n):
        blocks = self.pool[:n]
        del self.pool[:n]
        return blocks


class InBytes(Base):
    """Numbers kept in bytes: 256 is 0 again."""

    def __init__(self, num_blocks):
        super().__init__(num_blocks)
        self.pool = np.arange(num_blocks).astype(np.uint8).tolist()


class OneWord(Base):
    """A bit for each block, in one word of 64."""

    def __init__(self, num_blocks):
        super().__init__(num_blocks)
        self.word = 0

    def take(self, n):
        blocks = super().take(n)
        for block in blocks:
            self.word |= 1 << block % 64
        return blocks

    def insist(self, block):
        if not 0 <= block < self.num_blocks or not self.word >> block % 64 & 1:
            raise ValueError("not held")

    def give_back(self, block):
        super().give_back(block)
        self.word &= ~(1 << block % 64)


class SameObject(Base):
    """`is` in place of ==: the same for small numbers only."""

    def insist(self, block):
        if not any(block is other for other in self.held):
            raise ValueError("not held")


MISTAKES = (
    Mistake("same-blocks-again", SameAgain, "What you give out stays in the pool, and the next call gets it too. Take it out.", "give out"),
    Mistake("numbers-from-one", FromOne, "Your blocks are numbered from 1. They are 0 to num_blocks - 1: the numbers are places in an array.", "give out"),
    Mistake("one-block-short", OneShort, "The pool has a block too few: range(num_blocks) has num_blocks numbers.", "give out"),
    Mistake("one-block-too-many", OneTooMany, "The pool has a block too many: range(num_blocks) ends at num_blocks - 1.", "give out"),
    Mistake("counts-held", CountsHeld, "num_free counts the blocks that are held. It is to count those that nobody holds.", "give out"),
    Mistake("never-counts", NeverCounts, "num_free is set once and never changes. Make it a property that counts.", "give out"),
    Mistake("counts-calls", CountsCalls, "num_free goes down by 1 for each call. It goes down by n.", "give out"),
    Mistake("forgot-return", ForgotReturn, "allocate() takes the blocks, but returns nothing.", "give out"),
    Mistake("bare-number", BareNumber, "For n = 1 a bare number comes back. It is a list of one.", "give out"),
    Mistake("all-for-zero", AllForZero, "For n = 0 you give out all: pool[-0:] is pool[0:], the whole list.", "give out"),
    Mistake("zero-refused", ZeroRefused, "n = 0 is refused. Nothing asked, nothing given: return [].", "give out"),
    Mistake("one-too-few", OneTooFew, "One block fewer comes back than was taken out of the pool.", "give out"),
    Mistake("last-never-given", LastNeverGiven, "The last free block is never given out: n may be as many as are free. Use <=.", "give out"),
    Mistake("by-number", ByNumber, "Every call gets the blocks 0 to n - 1, held or not.", "give out"),
    Mistake("strict-room", StrictRoom, "can_allocate() says no to exactly as many as are free. Use <=.", "what fits"),
    Mistake("room-of-the-pool", RoomOfThePool, "can_allocate() compares with the size of the pool. Compare with what is free.", "what fits"),
    Mistake("asking-takes", AskingTakes, "can_allocate() takes the blocks. It only tells; whoever asks may not come back.", "what fits"),
    Mistake("room-as-number", RoomAsNumber, "can_allocate() returns a number. It returns True or False.", "what fits"),
    Mistake("nothing-never-fits", NothingNeverFits, "An empty pool has room for none: can_allocate(0) is True.", "what fits"),
    Mistake("any-room", AnyRoom, "can_allocate() says yes as soon as one block is free, however many are asked.", "what fits"),
    Mistake("room-refused", RoomRefused, "can_allocate() raises when there is no room. It returns False.", "what fits"),
    Mistake("room-of-held", RoomOfHeld, "can_allocate() compares with the blocks that are held. Compare with those that are free.", "what fits"),
    Mistake("never-back", NeverBack, "free() puts nothing back into the pool, which runs dry.", "give back",
            "engines that leak blocks when a request is cancelled"),
    Mistake("first-only", FirstOnly, "free() gives back the first block of the list only.", "give back"),
    Mistake("all-back", AllBack, "free() empties the whole pool. Only the blocks of the list go back.", "give back"),
    Mistake("number-goes-down-only", NumberGoesDownOnly, "num_free goes down in allocate(), and does not go up in free().", "give back"),
    Mistake("number-only", NumberOnly, "num_free goes up in free(), but the blocks are not put back where allocate() takes them from.", "give back"),
    Mistake("stack", Stack, "You give out the next numbers after those in use. That works only if what came last goes first.", "give back"),
    Mistake("ring", Ring, "You go round the pool and give out the next block, whether it is free or not.", "give back"),
    Mistake("ever-new", EverNew, "You give out ever higher numbers. What came back must be given out again.", "give back"),
    Mistake("in-one-piece", InOnePiece, "You want blocks that lie side by side. Any free blocks will do: that is what they are for.", "give back"),
    Mistake("whole-allocations", WholeAllocations, "You take back only whole lists, as they were given out. Any blocks that are held may come back.", "give back"),
    Mistake("back-once-for-ever", BackOnceForEver, "A block that came back once is refused for ever. When it is given out again, it may come back again.", "give back"),
    Mistake("newest-only", NewestOnly, "You free the blocks that were given out last, not those of the list.", "give back"),
    Mistake("every-second", OneByOne, "You remove from the list that you walk over, which skips every second block.", "give back"),
    Mistake("list-in-the-pool", ListInThePool, "append() puts the list itself into the pool, as one entry. Use extend() or +=.", "give back"),
    Mistake("what-is-left", WhatIsLeft, "When there are too few, you give what is left. It is all or nothing: ValueError.", "more than there is"),
    Mistake("none-for-no-room", NoneForNoRoom, "When there are too few, None comes back. Raise ValueError.", "more than there is"),
    Mistake("empty-for-no-room", EmptyForNoRoom, "When there are too few, [] comes back. Raise ValueError.", "more than there is"),
    Mistake("pops-on", PopsOn, "You pop until the pool is empty, and pop raises IndexError. Check before the first, and raise ValueError.", "more than there is"),
    Mistake("half-taken", HalfTaken, "You take block by block, and those taken before the pool ran dry are lost. Check for all n first.", "more than there is",
            "engines that take blocks one by one without giving them back"),
    Mistake("counts-refused", CountsRefused, "num_free goes down before you check. A refused call changes nothing.", "more than there is"),
    Mistake("out-of-memory", OutOfMemory, "When there are too few, you raise MemoryError. The refusal is a ValueError.", "more than there is"),
    Mistake("steals", Steals, "When there are too few, you take blocks from their holders. Refuse with ValueError.", "more than there is"),
    Mistake("grows", Grows, "When there are too few, you make more. The pool is an array of fixed size: refuse.", "more than there is"),
    Mistake("compares-with-the-pool", ComparesWithThePool, "You refuse only what is more than the whole pool. Compare with what is free.", "more than there is"),
    Mistake("negative-is-nothing", NegativeIsNothing, "A negative n gets []. Refuse it with ValueError.", "more than there is"),
    Mistake("negative-slice", NegativeSlice, "With a negative n, pool[:n] is all but -n blocks. Refuse it with ValueError.", "more than there is"),
    Mistake("without-sign", WithoutSign, "A negative n loses its sign. Refuse it with ValueError.", "more than there is"),
    Mistake("no-check", NoCheck, "free() takes any number. A block that nobody holds must be refused with ValueError.", "what nobody holds"),
    Mistake("passes-over", PassesOver, "free() passes over what nobody holds. Refuse it: somebody's books are wrong.", "what nobody holds"),
    Mistake("half-freed", HalfFreed, "You free block by block, and stop at a bad one. Check all of them before you free any.", "what nobody holds"),
    Mistake("frees-the-good-ones", FreesTheGoodOnes, "You refuse the list, but the good blocks of it are freed. A refused call changes nothing.", "what nobody holds"),
    Mistake("twice-in-the-list", TwiceInTheList, "A block that is in the list twice is freed twice, and will be given out twice.", "what nobody holds"),
    Mistake("twice-is-once", TwiceIsOnce, "A block that is in the list twice is freed once. Refuse such a list with ValueError.", "what nobody holds"),
    Mistake("only-doubles", OnlyDoubles, "You refuse what is in the pool, and take numbers that are no block's. Ask whether it is held.", "what nobody holds"),
    Mistake("in-range-only", InRangeOnly, "Any number of the pool's will do. Ask whether the block is held.", "what nobody holds"),
    Mistake("negative-index", NegativeIndex, "Index -1 of a list is its last entry: block -1 is taken for the last block. Refuse it.", "what nobody holds"),
    Mistake("index-error-beyond", IndexErrorBeyond, "A number beyond the pool raises IndexError. Refuse it with ValueError.", "what nobody holds"),
    Mistake("key-error-from-set", KeyErrorFromSet, "What is not held raises KeyError, set.remove's own. Refuse it with ValueError.", "what nobody holds"),
    Mistake("assertion-fails", AssertionFails, "What is not held fails an assert, which goes away with python -O. Raise ValueError.", "what nobody holds"),
    Mistake("looks-at-the-first", LooksAtTheFirst, "You look at the first block of the list only. Check every one.", "what nobody holds"),
    Mistake("any-is-enough", AnyIsEnough, "You refuse a list only if none of it is held. One bad block is enough.", "what nobody holds"),
    Mistake("ever-given", EverGiven, "A block that came back still counts as held, so it can come back twice.", "what nobody holds"),
    Mistake("counts-only", CountsOnly, "You ask whether so many blocks are held. Ask whether these are.", "what nobody holds"),
    Mistake("first-twice", FirstTwice, "You look whether the first block comes twice. Any block may: len(set(blocks)) < len(blocks).", "what nobody holds"),
    Mistake("looks-at-two", LooksAtTwo, "You look at the first two blocks of the list. Check every one.", "what nobody holds"),
    Mistake("lowest-and-highest", LowestAndHighest, "You look at the lowest and the highest block of the list. Check those between, too.", "what nobody holds"),
    Mistake("one-list-for-all", OneListForAll, "allocate() gives the same list each time, filled anew, so the caller's older one changes. Make a new list.", "the caller's lists"),
    Mistake("keeps-what-it-gave", KeepsWhatItGave, "You keep the lists that you gave out, and look into them later. They are the caller's, who changes them: keep a copy.", "the caller's lists"),
    Mistake("empties-the-list", EmptiesTheList, "free() takes the blocks out of the caller's list. Leave it as it is.", "the caller's lists"),
    Mistake("sorts-the-list", SortsTheList, "free() sorts the caller's list. Its order is that of the tokens: use sorted(), which makes a new one.", "the caller's lists"),
    Mistake("the-list-is-the-pool", TheListIsThePool, "The caller's list becomes your pool, and both of you change it. Copy what is in it.", "the caller's lists"),
    Mistake("one-pool-for-all", OnePoolForAll, "The free blocks are kept on the class, so the newest pool's are everybody's. Make them in __init__, on self.", "two pools, many calls"),
    Mistake("one-set-for-all", OneSetForAll, "The held blocks are kept on the class: two pools mix them up. Make them in __init__, on self.", "two pools, many calls"),
    Mistake("in-bytes", InBytes, "The numbers are kept in bytes: block 256 is 0 again. Pools have many thousands of blocks.", "two pools, many calls"),
    Mistake("one-word", OneWord, "You keep a bit for each block in one word of 64, and larger pools do not fit.", "two pools, many calls"),
    Mistake("same-object", SameObject, "You compare numbers with `is`. It asks whether both are one object, which only small numbers are. Use ==.", "two pools, many calls"),
    Mistake("leaks-into-the-next", LeaksIntoTheNext, "A list on the class outlives the object: the next pool has this one's blocks too. Make it in __init__.", "give out", leaks=True),
)  # fmt: skip


class FirstInFirstOut:
    def __init__(self, num_blocks):
        self.queue, self.out = deque(range(num_blocks)), [False] * num_blocks

    num_free = property(lambda self: len(self.queue))

    def can_allocate(self, n):
        return len(self.queue) >= n

    def allocate(self, n):
        if n < 0 or not self.can_allocate(n):
            raise ValueError("no")
        blocks = tuple(self.queue.popleft() for _ in range(n))
        for block in blocks:
            self.out[block] = True
        return blocks

    def free(self, blocks):
        for i, block in enumerate(blocks):
            if not 0 <= block < len(self.out) or not self.out[block] or block in blocks[:i]:
                raise ValueError(f"block {block}")
        for block in blocks:
            self.out[block] = False
        self.queue.extend(blocks)


class LastInFirstOut(Base):
    def take(self, n):
        return [self.pool.pop() for _ in range(n)]


class Heap(Base):
    """The lowest number first; num_free is a plain attribute."""

    num_free = None

    def __init__(self, num_blocks):
        super().__init__(num_blocks)
        self.num_free = num_blocks

    def take(self, n):
        self.num_free -= n
        return [heapq.heappop(self.pool) for _ in range(n)]

    def give_back(self, block):
        self.held.discard(block)
        heapq.heappush(self.pool, block)
        self.num_free += 1


class Sets:
    """Two sets; every change is worked out before it is kept."""

    class Refused(ValueError):
        pass

    def __init__(self, num_blocks):
        self.everything = frozenset(range(num_blocks))
        self.held = frozenset()

    @property
    def num_free(self):
        return len(self.everything - self.held)

    def can_allocate(self, n):
        return not n > self.num_free

    def allocate(self, n):
        if n not in range(self.num_free + 1):
            raise self.Refused(n)
        new = sorted(self.everything - self.held, key=lambda block: block * 7 % 11)[:n]
        self.held |= set(new)
        return new

    def free(self, blocks):
        rest = self.held - set(blocks)
        if len(self.held) - len(rest) != len(blocks):
            raise self.Refused(blocks)
        self.held = rest


class Flags:
    """One array of bools, looked through from the end."""

    def __init__(self, num_blocks):
        self.is_free = np.ones(num_blocks, dtype=bool)

    @property
    def num_free(self):
        return int(self.is_free.sum())

    def can_allocate(self, n):
        return n <= self.is_free.sum()

    def allocate(self, n):
        if n < 0 or n > self.num_free:
            raise ValueError(n)
        blocks = np.flatnonzero(self.is_free)[::-1][:n]
        self.is_free[blocks] = False
        return blocks

    def free(self, blocks):
        counts = np.zeros(len(self.is_free) + 1, dtype=int)
        for block in blocks:
            counts[block if 0 <= block < len(self.is_free) else -1] += 1
        if counts[-1] or (counts > 1).any() or (self.is_free & (counts[:-1] > 0)).any():
            raise ValueError("not held")
        self.is_free[np.asarray(blocks, dtype=int)] = True


class RollsBack:
    """Linked free list; takes first, and puts everything back where it was when it cannot go on."""

    def __init__(self, num_blocks):
        self.after, self.first = [*range(1, num_blocks), None], 0
        self.num_free = num_blocks

    def can_allocate(self, n):
        return self.num_free >= n

    def allocate(self, n):
        before = list(self.after), self.first, self.num_free
        blocks = []
        while len(blocks) != n:
            if self.first is None or n < 0:
                self.after, self.first, self.num_free = before
                raise ValueError(n)
            blocks.append(self.first)
            self.first, self.after[blocks[-1]] = self.after[blocks[-1]], "held"
            self.num_free -= 1
        return blocks

    def free(self, blocks):
        before = list(self.after), self.first, self.num_free
        for block in blocks:
            if not 0 <= block < len(self.after) or self.after[block] != "held":
                self.after, self.first, self.num_free = before
                raise ValueError(block)
            self.after[block], self.first = self.first, block
            self.num_free += 1


class Bits:
    """One int of any size; the lowest bit first."""

    def __init__(self, num_blocks):
        self.num_blocks, self.bits = num_blocks, (1 << num_blocks) - 1

    num_free = property(lambda self: self.bits.bit_count())

    def can_allocate(self, n):
        return self.bits.bit_count() >= n

    def allocate(self, n):
        if n < 0 or not self.can_allocate(n):
            raise ValueError(n)
        blocks = []
        for _ in range(n):
            blocks.append((self.bits & -self.bits).bit_length() - 1)
            self.bits &= self.bits - 1
        return np.array(blocks)  # of floats, where it is empty

    def free(self, blocks):
        back = 0
        for block in blocks:
            if block not in range(self.num_blocks) or (self.bits | back) >> block & 1:
                raise ValueError(block)
            back |= 1 << block
        self.bits |= back


VARIANTS = (
    Variant("a list, cut in front", Base),
    Variant("a queue and flags, tuples come back", FirstInFirstOut),
    Variant("a stack", LastInFirstOut),
    Variant("a heap and a plain number", Heap),
    Variant("two frozen sets", Sets),
    Variant("one array of bools", Flags),
    Variant("a linked list that rolls back", RollsBack),
    Variant("the bits of one number, arrays come back", Bits),
)
