"""Exercise 5.7: a cache for sliding-window attention."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from autograde.compare import first_difference, shown
from autograde.exercise import Exercise, stage
from autograde.exercises.positions import (
    NO_TOKEN,
    NOT_WHOLE,
    at_position,
    columns_of,
    named_when,
    shapes_of,
    three_parts,
    unchanged,
    whole_positions,
)
from autograde.exercises.ring_cache.candidates import MISTAKES, VARIANTS
from autograde.expect import agrees, equals
from autograde.finding import Finding, held
from autograde.lazy import Later
from autograde.subject import Subject
from autograde.value import Handle

B, HKV, D = 2, 3, 5


class Run:
    """One cache of the learner's, a history of tokens, and how much of it has been appended."""

    def __init__(
        self,
        subject: Subject,
        rng: np.random.Generator,
        window: int,
        tokens: int,
        sizes: tuple[int, int, int] = (B, HKV, D),
    ) -> None:
        self.subject, self.window, self.start = subject, window, 0
        self.sizes = B, HKV, D = sizes
        self.K, self.V = rng.normal(size=(2, B, HKV, tokens, D))
        self.cache: Handle = subject.new(window, B, HKV, D)

    def append(self, T: int) -> Iterable[Finding]:
        """The next T tokens in one chunk."""
        end = self.start + T
        k, v = self.K[:, :, self.start : end], self.V[:, :, self.start : end]
        with named_when(f"with window {self.window}, at tokens {self.start} to {end - 1}"):
            got = self.subject.call(self.cache, "append", k, v)
        yield from self.judge(got, T)

    def judge(self, got: Any, T: int) -> Iterable[Finding]:
        """Whether all that the T new tokens may see came back once, wherever it stands, and `len` counts them."""
        subject, end, (B, HKV, D) = self.subject, self.start + T, self.sizes
        new = f"token {self.start}" if T == 1 else f"tokens {self.start} to {end - 1}"
        where = f"window {self.window}, after {new}"
        parts = three_parts(got, (B, HKV, D), rows=())
        if parts is None:
            fact = f"append() returns K and V of shape ({B}, {HKV}, S, {D}) and k_positions of (S,)"
            given, events = shapes_of(got), len(subject.record)
            yield Finding(False, "parts", fact, where=where, expected="three tensors", got=given, events=events)
            return
        needed = range(max(0, self.start - self.window + 1), end)
        positions = whole_positions(parts[2])
        self.start = end
        yield needed_once(subject, positions, needed, where)
        columns = columns_of(positions, needed)
        for name, part, rows in (("K", parts[0], self.K), ("V", parts[1], self.V)):
            fact = f"the {name} at each position is that of its token"
            kept = rows[:, :, needed.start : end].transpose(2, 0, 1, 3)
            finding = agrees(subject, part[:, :, columns].transpose(2, 0, 1, 3), kept, key=name, fact=fact)
            yield at_position(finding, where, ("position", "row", "KV head"), first=needed.start)
        yield self.older_are_true(parts, positions, needed, where)
        fact = "len(cache) is the number of tokens seen"
        yield equals(subject, subject.length(self.cache), end, key="length", fact=fact, what=where)

    def older_are_true(self, parts: Sequence[np.ndarray], positions: list[int], needed: range, where: str) -> Finding:
        """Whether older tokens that came too are those of their positions."""
        fact = "what comes back of older tokens is at its true position"
        for column, p in enumerate(positions):
            if 0 <= p < needed.start:
                pairs = ((parts[0], self.K), (parts[1], self.V))
                if any(first_difference(part[:, :, column], rows[:, :, p]) for part, rows in pairs):
                    where, events = f"{where}, position {p}", len(self.subject.record)
                    return Finding(False, "older", f"does not hold: {fact}", where=where, events=events)
        return held("older", fact)

    def memory(self) -> Finding:
        """Whether the cache holds no more than twice what `window` tokens take, positions and counters apart."""
        most = 2 * self.window * 2 * int(np.prod(self.sizes)) * self.K.itemsize
        size = self.subject.storage(self.cache)
        fact = f"between calls it holds at most twice what {self.window} tokens take"
        if type(size) is int and 0 <= size <= most + 32 * self.window + 64:
            return held("memory", fact)
        where, wanted = f"window {self.window}, {self.start} tokens seen", f"{most} bytes at most"
        given = f"{size} bytes" if type(size) is int else shown(size)
        fact, events = f"does not hold: {fact}", len(self.subject.record)
        return Finding(False, "memory", fact, where=where, expected=wanted, got=given, events=events)


def needed_once(subject: Subject, positions: list[int], needed: range, where: str) -> Finding:
    """Whether each needed position is there once. What is older than all windows may be there too: nobody sees it."""
    fact = "the chunk, and the window - 1 tokens before it, come back once each"
    clue = ""
    for p in needed:
        if positions.count(p) != 1:
            clue = f"position {p} {'is missing' if p not in positions else 'is there more than once'}"
            break
    if not clue and any(p >= needed.stop for p in positions):
        clue = f"there is a position from {needed.stop} on, which has not been yet"
    if not clue and NOT_WHOLE in positions:
        clue = "there is a position that is neither a token's nor -1"
    if not clue:
        return held("positions", fact)
    given = str([p if p > NOT_WHOLE else "?" for p in positions if p != NO_TOKEN])[:60]
    wanted = f"{needed.start} to {needed.stop - 1}"
    events = len(subject.record)
    return Finding(
        False, "positions", f"does not hold: {fact}; {clue}", where=where, expected=wanted, got=given, events=events
    )


def every(
    subject: Subject, rng: np.random.Generator, window: int, chunks: Sequence[int], *sizes: tuple[int, int, int]
) -> Iterable[Finding]:
    """A run of these chunks."""
    run = Run(subject, rng, window, sum(chunks), *sizes)
    fact = "len(cache) is the number of tokens seen, 0 before the first"
    yield equals(subject, subject.length(run.cache), 0, key="length", fact=fact, what=f"window {window}")
    for T in chunks:
        yield from run.append(T)


@stage("one by one", why="In decode each new token sees the window - 1 before it. Older ones are never needed again.")
def one_by_one(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    yield from every(subject, rng, 4, [1] * 11)


@stage("chunks", weight=2, why="A chunk's first query still needs old tokens that the chunk's own would overwrite.")
def chunks(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for sizes in ([3, 2, 2, 2, 2], [4, 4, 3], [2, 3, 1, 4, 1]):
        yield from every(subject, rng, 4, sizes)


@stage("chunks longer than the window", why="A prompt is often longer than the window: its tokens share slots.")
def long_chunks(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for sizes in ([11, 1, 1], [2, 7, 3], [5, 6, 1], [8, 1, 3], [3, 12, 1]):
        yield from every(subject, rng, 4, sizes)


@stage("other windows", why="A window of 1 sees the token itself only; one larger than the text sees all of it.")
def other_windows(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for window, sizes in ((7, [3, 2, 2, 4, 1]), (13, [1, 4, 3, 2]), (1, [1, 1, 3, 1]), (2, [1, 1, 1, 3, 1])):
        yield from every(subject, rng, window, sizes)
    yield from every(subject, rng, 40, [30, 20, 5, 70, 1], (1, 2, 3))


@stage("memory", weight=2, why="The point of a window: memory stays what it is, however long the text grows.")
def memory(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for window, sizes in ((4, [1] * 13), (5, [3] * 13), (4, [23, 1, 1]), (1, [1] * 5), (3, [50] * 6)):
        run = Run(subject, rng, window, sum(sizes))
        for T in sizes:
            yield from run.append(T)
            yield run.memory()


@stage("reused tensors", why="A real decoder writes the next keys into the same memory, and serves other texts too.")
def reused_tensors(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    run, other, small = Run(subject, rng, 4, 12), Run(subject, rng, 4, 8), Run(subject, rng, 2, 4)
    yield from other.append(3)
    yield from reused(run, 3, 3)
    yield from run.append(3)
    yield from other.append(5)
    yield from small.append(4)
    for window, T in ((4, 4), (4, 7), (1, 1)):  # a chunk that fills the window may be kept as it came
        run = Run(subject, rng, window, 3 * T)
        yield from reused(run, T, 2)
        yield from run.append(T)


def reused(run: Run, T: int, times: int) -> Iterable[Finding]:
    """Chunks of T tokens, all in the same two tensors of the caller's."""
    subject = run.subject
    k, v = subject.put(run.K[:, :, :T]), subject.put(run.V[:, :, :T])
    for start in range(0, times * T, T):
        part = slice(start, start + T)
        subject.fill(k, run.K[:, :, part])
        subject.fill(v, run.V[:, :, part])
        yield from run.judge(subject.call(run.cache, "append", k, v), T)
        for name, kept, rows in (("k", k, run.K), ("v", v, run.V)):
            yield unchanged(subject, kept, rows[:, :, part], name)
        subject.fill(k, np.nan)
        subject.fill(v, np.nan)


EXERCISE = Exercise(
    id="5.7",
    name="RingCache",
    title="A window that slides",
    goal="Hold the last `window` tokens in memory that never grows, right for chunks of every size.",
    points=6,
    minutes=25,
    difficulty=4,
    hints=(
        "Token `i` goes to slot `i % window`. Keep next to the slots which position each one holds. With one new token "
        "you may write and then read. With a chunk that is too early: its first query needs what you overwrite.",
        "So read first: what comes back is the old slots, as they are, and the chunk behind them (`torch.cat`), with "
        "their positions. Write afterwards, and of a chunk longer than the window only its last `window` tokens.",
        "`positions = torch.arange(seen, seen + T)`. Return `cat((ring, chunk))` and `cat((ring_positions, "
        "positions))`. Then `slots = positions[-window:] % window` and `ring[:, :, slots] = chunk[:, :, -window:]`. If "
        "you keep a slice of a `cat` in place of a ring, `.clone()` it: a slice keeps the whole tensor alive.",
    ),
    stages=(one_by_one, chunks, long_chunks, other_windows, memory, reused_tensors),
    reference=Later("kvlib.rolling_cache", "RingCache"),
    mistakes=MISTAKES,
    variants=VARIANTS,
    tensors=True,
)
