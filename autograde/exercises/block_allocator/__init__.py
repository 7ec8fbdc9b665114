"""Exercise 6.1: who holds which block."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from autograde.exercise import Exercise, stage
from autograde.exercises.block_allocator.candidates import MISTAKES, VARIANTS
from autograde.exercises.block_allocator.numbers import listed, shortened, whole_numbers
from autograde.exercises.positions import named_when
from autograde.expect import equals, refuses
from autograde.finding import Finding, held
from autograde.subject import LearnerRaised, Subject
from autograde.value import Handle
from kvlib.block_allocator import BlockAllocator

NEW = "allocate(n) gives n different blocks of the pool that nobody holds"


class Pool:
    """One allocator of the learner's, and the blocks that it has given out, oldest first."""

    def __init__(self, subject: Subject, num_blocks: int, name: str = "") -> None:
        self.subject, self.num_blocks, self.name = subject, num_blocks, name or f"a pool of {num_blocks}"
        self.held: list[int] = []
        self.allocator = subject.new(num_blocks)

    @property
    def left(self) -> list[int]:
        """The blocks that nobody holds, as they should be."""
        held = set(self.held)
        return [block for block in range(self.num_blocks) if block not in held]

    def counted(self, when: str) -> Finding:
        """Whether `num_free` is right."""
        got, fact = self.subject.get(self.allocator, "num_free"), "num_free counts the blocks that nobody holds"
        where = f"{self.name}, {when}"
        return self.judged(equals(self.subject, got, len(self.left), key="num_free", fact=fact, what=where))

    def allocate(self, n: int) -> Iterable[Finding]:
        """Take n blocks, of which there are enough."""
        what = f"allocate({n})"
        with named_when(f"with {len(self.left)} blocks free in {self.name}"):
            got = self.subject.call(self.allocator, "allocate", n)
        yield from self._given(got, n, what)

    def _given(self, got: Any, n: int, what: str) -> Iterable[Finding]:
        blocks = self._without_numbers()
        yield self.judged(self._new(got, blocks, n, f"{self.name}, {what}"))
        self.held += blocks or []
        yield self.counted(f"after {what}")

    def _without_numbers(self) -> list[int] | None:
        """The blocks that came last. The record tells their kinds: which free block goes out is anybody's choice."""
        record = self.subject.record
        blocks = whole_numbers(record[-1].value)
        if blocks is not None:
            record[-1] = replace(record[-1], value=[self._kind(blocks, i) for i in range(len(blocks))])
        return blocks

    def _kind(self, blocks: list[int], i: int) -> str:
        if blocks[i] in self.held:
            return f"held, number {self.held.index(blocks[i])}"
        kind = "free" if 0 <= blocks[i] < self.num_blocks else "none of the pool"
        return f"{kind}, the same as {blocks.index(blocks[i])}" if blocks[i] in blocks[:i] else kind

    def _new(self, got: Any, blocks: list[int] | None, n: int, where: str) -> Finding:
        clue = ""
        if blocks is not None and len(blocks) == n:
            kinds = [self._kind(blocks, i) for i in range(n)]
            wrong = next((i for i, kind in enumerate(kinds) if kind != "free"), None)
            if wrong is None:
                return held("blocks", NEW)
            says = {"held": "is held already", "none": "is none of this pool"}
            clue = f"; block {blocks[wrong]} {says.get(kinds[wrong][:4], 'is there twice')}"
        wanted = f"a list of {n} of {shortened(self.left)}" if n else "[]"
        fact, given, events = f"does not hold: {NEW}{clue}", listed(got), len(self.subject.record)
        return Finding(False, "blocks", fact, where=where, expected=wanted, got=given, events=events)

    def free(self, blocks: Sequence[int]) -> Iterable[Finding]:
        """Give back blocks that are held."""
        yield from self._take_back(blocks, np.array(blocks).tolist())  # numbers of its own, not the learner's objects

    def _take_back(self, blocks: Sequence[int], argument: Any) -> Iterable[Finding]:
        with named_when(f"with {shortened(self.held)} held in {self.name}"):
            self.subject.call(self.allocator, "free", argument)
        self.held = [block for block in self.held if block not in blocks]
        yield self.counted(f"after free({shortened(blocks)})")

    # Lists that stay on the learner's side, where both have them in hand.

    def allocate_kept(self, n: int) -> Generator[Finding, None, tuple[Handle, list[int]]]:
        """Take n blocks. The list that came back, and what is in it."""
        with named_when(f"with {len(self.left)} blocks free in {self.name}"):
            kept = self.subject.call(self.allocator, "allocate", n, keep=True)
        got = self.subject.read(kept)
        yield from self._given(got, n, f"allocate({n})")
        return kept, self.held[-n:]

    def free_kept(self, blocks: Sequence[int]) -> Generator[Finding, None, tuple[Handle, list[int]]]:
        """Give back blocks in a list that the caller still has."""
        kept = self.subject.call(self.subject.put(np.array(blocks)), "tolist", keep=True)
        yield from self._take_back(blocks, kept)
        return kept, list(blocks)

    def still(self, kept: tuple[Handle, list[int]], whose: str, when: str) -> Finding:
        """Whether a list is as it was."""
        got = self.subject.read(kept[0])
        self._without_numbers()
        fact = f"the list that {whose} stays as it is"
        if whole_numbers(got) == kept[1]:
            return held(whose, fact)
        events, fact = len(self.subject.record), f"does not hold: {fact}"
        return self.judged(Finding(False, whose, fact, when, shortened(kept[1]), listed(got), events=events))

    def spoil(self, kept: tuple[Handle, list[int]]) -> None:
        """What a caller may do with a list of its own."""
        for spoil in (lambda: self.subject.call(kept[0], "clear"), lambda: self.subject.fill(kept[0], 0)):
            with contextlib.suppress(LearnerRaised):  # a list has the one, an array the other, and a tuple none
                spoil()

    # Refusals.

    def no_room(self, n: int) -> Iterable[Finding]:
        """Ask for what there is not."""
        what = f"allocate({n}) of {self.name} with {len(self.left)} free"
        finding = refuses(self.subject, self.allocator, "allocate", n, key=f"allocate {n}", what=what)
        self._without_numbers()
        yield self.judged(finding)
        yield self.counted(f"after refusing allocate({n})")

    def not_held(self, blocks: Sequence[int], why: str) -> Iterable[Finding]:
        """Give back what nobody can."""
        what, key = f"free({list(blocks)}), {why},", f"free, {why}"
        yield self.judged(refuses(self.subject, self.allocator, "free", list(blocks), key=key, what=what))
        yield self.counted(f"after refusing free({list(blocks)})")

    def judged(self, finding: Finding) -> Finding:
        """The finding. Where it does not hold, a few more calls tell one wrong way from another, in the record."""
        if finding.ok:
            return finding
        mine, rest = self.held[:2], list(range(self.num_blocks))
        lists = (mine[:1], mine[:1], [self.num_blocks, *mine[1:]], rest, rest)
        asked = [("allocate", n) for n in (1, 2, -1, self.num_blocks + 1)] + [("free", blocks) for blocks in lists]
        for method, argument in asked:
            with contextlib.suppress(LearnerRaised):
                self.subject.get(self.allocator, "num_free")
                self.subject.call(self.allocator, method, argument)
                self._without_numbers()
        return finding


@stage("give out", why="Two sequences in one block would write over each other's tokens.")
def give_out(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for num_blocks, asked in ((11, (2, 4)), (7, (3, 1, 0, 2, 1, 0)), (1, (0, 1))):
        pool = Pool(subject, num_blocks)
        yield pool.counted("new")
        for n in asked:
            yield from pool.allocate(n)


@stage("what fits", why="Whoever admits a request asks first. Asking must not take anything.")
def what_fits(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for num_blocks, asked in ((5, (2, 3)), (3, (3,))):
        pool = Pool(subject, num_blocks)
        for n in (0, *asked):
            yield from pool.allocate(n)
            for wanted in (0, 1, len(pool.left), len(pool.left) + 1, num_blocks, num_blocks + 1):
                got = subject.call(pool.allocator, "can_allocate", wanted)
                where = f"{pool.name} with {len(pool.left)} free, can_allocate({wanted})"
                fact, want = "can_allocate(n) tells whether n blocks are free", wanted <= len(pool.left)
                yield pool.judged(equals(subject, got, want, key="can_allocate", fact=fact, what=where))
            yield pool.counted("after can_allocate()")


@stage("give back", weight=2, why="What came back must be given out again, wherever it lies, or the pool runs dry.")
def give_back(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    pool = Pool(subject, 7)
    yield from pool.allocate(4)
    yield from pool.allocate(3)
    yield from pool.free([pool.held[i] for i in (1, 3, 5)])  # no two of them next to each other
    yield from pool.allocate(3)
    yield from pool.free([pool.held[i] for i in (6, 0, 2, 4)])  # of several calls, in no order
    yield from pool.allocate(1)
    yield from pool.free(pool.held[-1:])
    for _ in range(3):
        yield from pool.allocate(len(pool.left))
        shuffled = [pool.held[i] for i in rng.permutation(7)]
        yield from pool.free(shuffled[:5])
        yield from pool.free(shuffled[5:])


@stage("more than there is", why="Half of what was asked is of no use to anybody, and lost if nobody gives it back.")
def more_than_there_is(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    pool = Pool(subject, 7)
    yield from pool.allocate(3)
    for n in (5, 7, 11):
        yield from pool.no_room(n)
    yield from pool.allocate(2)
    for n in (-1, -2, -7):
        yield from pool.no_room(n)
    yield from pool.no_room(3)
    yield from pool.allocate(2)
    yield from pool.no_room(1)
    yield from pool.free(pool.held[2:5])
    yield from pool.no_room(4)
    yield from pool.allocate(3)


@stage("what nobody holds", weight=2, why="A block given back twice is given out twice: two sequences then share it.")
def what_nobody_holds(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    full = Pool(subject, 7)
    yield from full.allocate(7)
    for bad, why in ((7, "beyond the pool"), (-1, "below 0"), (-7, "below 0"), (19, "beyond the pool")):
        yield from full.not_held([bad], why)
    pool = Pool(subject, 7)
    yield from pool.allocate(5)
    never = pool.left
    back = [pool.held[i] for i in rng.permutation(5)[:2]]
    yield from pool.free(back)
    a, b, c = pool.held
    yield from pool.not_held(never[:1], "never given out")
    yield from pool.not_held(back[:1], "back already")
    yield from pool.not_held([a, a], "twice in the list")
    yield from pool.not_held([b, c, b], "twice in the list")
    yield from pool.not_held([b, c, a, c], "twice in the list")
    yield from pool.not_held([a, back[1]], "one of them back already")
    yield from pool.not_held([never[1], b], "one of them never given out")
    yield from pool.not_held([c, 7, a], "one of them beyond the pool")
    yield from pool.allocate(4)
    yield from pool.free([b, a])
    yield from pool.not_held([b], "back already")
    yield from pool.allocate(2)
    yield from full.free([3])  # all others are held, those below it and those above
    yield from full.not_held([1, 3, 5], "one of them back already")
    yield from full.not_held([5, 2, 3, 0], "one of them back already")


@stage("the caller's lists", why="Whoever has a list goes on with it: a block table grows, and is thrown away.")
def callers_lists(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    pool = Pool(subject, 11)
    first = yield from pool.allocate_kept(4)
    second = yield from pool.allocate_kept(3)
    yield pool.still(first, "allocate() gave first", "after the second call")
    pool.spoil(first)
    pool.spoil(second)
    yield from pool.free([first[1][2], second[1][0]])
    yield from pool.allocate(len(pool.left))
    low, *_, high = ordered = sorted(pool.held)
    mine = yield from pool.free_kept([ordered[5], high, ordered[2], low])
    yield pool.still(mine, "free() was given", "after the call")
    yield from pool.allocate(2)
    yield pool.still(mine, "free() was given", "after the next allocate(2)")
    pool.spoil(mine)
    yield from pool.allocate(len(pool.left))
    yield from pool.free(pool.held[3:])


@stage(
    "two pools, many calls",
    why="Pools know nothing of each other, and after many calls every block is still there.",
)
def two_pools(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    pools = Pool(subject, 13, "pool A of 13"), Pool(subject, 5, "pool B of 5")
    for _ in range(40):
        pool = pools[int(rng.integers(2))]
        if pool.held and rng.random() < 0.5:
            chosen = rng.permutation(len(pool.held))[: int(rng.integers(1, 6))]
            yield from pool.free([pool.held[i] for i in chosen])
        else:
            n = int(rng.integers(0, 6))
            yield from pool.allocate(n) if n <= len(pool.left) else pool.no_room(n)
    for pool in pools:
        yield from pool.allocate(len(pool.left))
        yield from pool.free(pool.held[::-1])
    large = Pool(subject, 311)
    yield from large.allocate(300)
    for n in (90, 61):
        yield from large.free([large.held[i] for i in rng.permutation(len(large.held))[:n]])
    yield from large.allocate(len(large.left))
    yield from large.no_room(1)
    yield from large.free(large.held[::-1])


EXERCISE = Exercise(
    id="6.1",
    name="BlockAllocator",
    title="Who holds which block",
    goal="Give out blocks of a pool and take them back, so that none is ever held twice and none is lost.",
    points=4,
    minutes=15,
    difficulty=2,
    hints=(
        "Two collections are enough: the blocks that are free, and those that are held. Every block is in exactly one "
        "of them. `num_free` can be a `@property` that counts the first.",
        "Check first, change afterwards. In `allocate`: enough there, and n not negative? In `free`: is every block of "
        "the list held, and is none there twice (`len(set(blocks)) < len(blocks)`)? Only then move anything.",
        "`self.pool = list(range(num_blocks))`, `self.held = set()`. `allocate`: `blocks = [self.pool.pop() for _ in "
        "range(n)]`, then `self.held.update(blocks)`. `free`: `self.held -= set(blocks)`, then `self.pool += blocks`.",
    ),
    stages=(give_out, what_fits, give_back, more_than_there_is, what_nobody_holds, callers_lists, two_pools),
    reference=BlockAllocator,
    mistakes=MISTAKES,
    variants=VARIANTS,
)
