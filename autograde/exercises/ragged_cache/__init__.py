"""Exercise 5.5: a cache whose rows differ in length."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

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
from autograde.exercises.ragged_cache.candidates import MISTAKES, VARIANTS
from autograde.expect import agrees, refuses
from autograde.finding import Finding, held
from autograde.lazy import Later
from autograde.subject import Subject
from autograde.value import Handle

B, HKV, D = 3, 2, 5
NONE = ((0,), (0,), (0,))  # padding only: stores nothing, and shows what is held


class Rows:
    """What a right cache holds: each row's real tokens, in order."""

    def __init__(self, rng: np.random.Generator, B: int = B, HKV: int = HKV, D: int = D) -> None:
        self.rng, self.sizes = rng, (B, HKV, D)
        self.k: list[list[np.ndarray]] = [[] for _ in range(B)]
        self.v: list[list[np.ndarray]] = [[] for _ in range(B)]

    def chunk(self, real: Sequence[Sequence[int]]) -> list[np.ndarray]:
        """k, v, real of the next call. Padding holds NaN: stored or returned, it cannot pass for a token."""
        mask = np.array(real, dtype=bool)
        B, HKV, D = self.sizes
        k, v = self.rng.normal(size=(2, B, HKV, mask.shape[1], D))
        for rows in (k, v):
            rows.transpose(0, 2, 1, 3)[~mask] = np.nan
        return [k, v, mask]

    def keep(self, k: np.ndarray, v: np.ndarray, mask: np.ndarray) -> None:
        """The chunk has been appended."""
        for b, t in np.argwhere(mask):
            self.k[b].append(k[b, :, t].copy())
            self.v[b].append(v[b, :, t].copy())


def append(subject: Subject, cache: Handle, rows: Rows, real: Sequence[Sequence[int]], when: str) -> Iterable[Finding]:
    """Append one chunk, and ask whether all that the rows hold came back."""
    chunk = rows.chunk(real)
    with named_when(when):
        got = subject.call(cache, "append", *chunk)
    rows.keep(*chunk)
    yield from holds(subject, cache, rows, got, when)


def holds(subject: Subject, cache: Handle, rows: Rows, got: Any, when: str) -> Iterable[Finding]:
    """Whether (K, V, k_positions) are the rows' tokens, wherever they stand, and `lengths` is their number."""
    B, HKV, D = rows.sizes
    parts = three_parts(got, (B, HKV, D), rows=(B,))
    if parts is None:
        fact = f"append() returns K and V of shape ({B}, {HKV}, S, {D}) and k_positions of ({B}, S)"
        given, events = shapes_of(got), len(subject.record)
        yield Finding(False, "parts", fact, where=when, expected="three tensors", got=given, events=events)
        return
    K, V, positions = parts
    for b in range(B):
        where, want, seen = f"{when}, row {b}", range(len(rows.k[b])), whole_positions(positions[b])
        if sorted(p for p in seen if p != NO_TOKEN) != list(want):
            fact = "does not hold: each token's position comes back once in its row, and -1 where there is no token"
            wanted, given = f"{list(want)}, else -1", str([p if p > NOT_WHOLE else "?" for p in seen])[:60]
            events = len(subject.record)
            yield Finding(False, "positions", fact, where=where, expected=wanted, got=given, events=events)
            return
        columns = columns_of(seen, want)
        for name, part, kept in (("K", K, rows.k[b]), ("V", V, rows.v[b])):
            fact = f"the {name} of each position is that of the row's own token"
            tokens = np.array(kept).reshape(len(want), HKV, D)
            finding = agrees(subject, part[b][:, columns].transpose(1, 0, 2), tokens, key=name, fact=fact)
            yield at_position(finding, where, ("position", "KV head"))
    yield lengths(subject, cache, rows, when)


def lengths(subject: Subject, cache: Handle, rows: Rows, when: str) -> Finding:
    """Whether `lengths` is the number of tokens of each row."""
    counts = np.array([len(row) for row in rows.k], dtype=float)
    fact = f"lengths holds the number of real tokens of each row, {when}"
    return agrees(subject, subject.get(cache, "lengths"), counts, key="lengths", fact=fact, columns="row")


@stage("equal rows", why="Without padding it is the cache you know: all tokens come back, at positions 0, 1, 2, ...")
def equal_rows(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    cache, rows = subject.new(B, HKV, 13, D), Rows(rng)
    yield lengths(subject, cache, rows, "before the first call")
    for call, T in enumerate((4, 1, 2), start=1):
        yield from append(subject, cache, rows, [[1] * T] * B, f"after call {call}")


@stage("padding", why="Padding is no token, on whichever side it stands: stored, it takes room and gets weight.")
def padding(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for side, real in (
        ("on the left", ((0, 0, 0, 1, 1), (0, 1, 1, 1, 1), (0, 0, 0, 0, 1))),
        ("on the right", ((1, 1, 1, 0), (1, 0, 0, 0), (1, 1, 1, 1))),
        ("all of one row", ((0, 0, 0, 0), (0, 1, 1, 1), (1, 1, 0, 0))),
    ):
        yield from append(subject, subject.new(B, HKV, 13, D), Rows(rng), real, f"padding {side}")


@stage("rows go on", weight=2, why="In decode each row goes on from its own length; a finished one stays as it is.")
def rows_go_on(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    cache, rows = subject.new(B, HKV, 13, D), Rows(rng)
    steps = (
        ((0, 1, 1), (1, 1, 1), (0, 0, 1)),
        ((1,), (1,), (1,)),
        ((1,), (0,), (1,)),
        ((0,), (0,), (1,)),
        ((1, 1), (0, 1), (0, 0)),
        NONE,
    )
    for call, real in enumerate(steps, start=1):
        yield from append(subject, cache, rows, real, f"after call {call}")


@stage("full", why="Room is counted row by row, in real tokens. What does not fit is refused, and no row changes.")
def full(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    cache, rows = subject.new(B, HKV, 7, D), Rows(rng)
    yield from append(subject, cache, rows, ((1, 1, 1, 1), (0, 0, 1, 1), (0, 0, 0, 1)), "after call 1")
    yield from append(subject, cache, rows, ((0,) * 4,) * 3, "after four columns of padding")
    yield from append(subject, cache, rows, ((0,) * 4, (1,) * 4, (0,) * 4), "when row 1 holds 6 of 7")
    yield from append(subject, cache, rows, ((1, 1, 1), (0, 0, 0), (0, 1, 1)), "when row 0 is exactly full")
    yield from append(subject, cache, rows, ((0, 0), (0, 0), (1, 1)), "when row 0 is full and gets padding")
    for what, real in (
        ("one token more for row 0, which is full", ((1,), (1,), (1,))),
        ("3 tokens for row 2, which has room for 2", ((0, 0, 0), (0, 0, 1), (1, 1, 1))),
        ("6 tokens for row 1, which has room for 1", ((0,) * 6, (1,) * 6, (0,) * 6)),
    ):

        def look() -> None:
            subject.get(cache, "lengths")
            subject.call(cache, "append", *rows.chunk(NONE))

        yield refuses(subject, cache, "append", *rows.chunk(real), key=what, what=what, after=look)
        yield lengths(subject, cache, rows, f"after the refusal of {what}")
        yield from append(subject, cache, rows, NONE, f"after the refusal of {what}")
    yield from append(subject, cache, rows, ((0, 0, 0), (1, 0, 0), (0, 1, 1)), "when all rows are exactly full")
    yield from append(subject, cache, rows, ((0, 0), (0, 0), (0, 0)), "when all rows are full and get padding")
    cache, rows = subject.new(B, HKV, 2, D), Rows(rng)
    wide = ((0, 0, 0, 1, 1), (1, 0, 0, 0, 0), (0, 0, 0, 0, 0))
    yield from append(subject, cache, rows, wide, "after a chunk wider than max_len, most of it padding")
    cache, rows = subject.new(4, 1, 140, 3), Rows(rng, 4, 1, 3)
    long = [[int(t < end) for t in range(131)] for end in (131, 2, 64, 0)]
    yield from append(subject, cache, rows, long, "after 131 tokens in row 0")
    yield from append(subject, cache, rows, [[0, 1, 1], [1, 1, 1], [0, 0, 0], [0, 0, 1]], "when row 0 holds 133 tokens")
    cache, rows = subject.new(1, 3, 4, 2), Rows(rng, 1, 3, 2)
    yield from append(subject, cache, rows, [[0, 0, 1, 1]], "in a batch of one row")
    yield from append(subject, cache, rows, [[1, 0]], "in a batch of one row, later")


@stage("memory", why="A row that has finished gets padding for as long as the others go on. It must cost nothing.")
def memory(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    cache, rows = subject.new(B, HKV, 7, D), Rows(rng)
    yield from append(subject, cache, rows, ((1, 1), (0, 1), (0, 0)), "after call 1")
    before = subject.storage(cache)
    for number in range(20):
        yield from append(subject, cache, rows, ((0,) * 6,) * B, f"after chunk {number + 1} of padding")
    after = subject.storage(cache)
    fact = "20 chunks of nothing but padding leave the cache as large as it was"
    limit = 1024  # a counter may become a tensor; the padding itself would be a hundred times as much
    if type(before) is type(after) is int and 0 <= after <= before + limit:
        yield held("grown", fact)
    else:
        expected, given = f"at most {limit:,} bytes more", f"{before} bytes before, {after} after"
        events = len(subject.record)
        yield Finding(False, "grown", f"does not hold: {fact}", expected=expected, got=given[:80], events=events)
    yield from append(subject, cache, rows, ((0, 1), (0, 0), (1, 1)), "after that padding")


@stage("reused tensors", why="A real decoder writes the next keys into the same memory, and serves other batches too.")
def reused_tensors(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    cache, rows = subject.new(B, HKV, 7, D), Rows(rng)
    other, others = subject.new(B, HKV, 7, D), Rows(rng)
    small, fews = subject.new(B, HKV, 2, D), Rows(rng)  # made last: what caches share is its
    yield from append(subject, other, others, ((1, 1), (0, 1), (0, 0)), "in another cache")
    kept: list[Handle] = []
    for call, real in enumerate((((0, 1), (1, 1), (1, 0)), ((1, 1), (0, 0), (0, 1))), start=1):
        chunk = rows.chunk(real)
        kept = kept or [subject.put(part) for part in chunk]
        for handle, part in zip(kept, chunk, strict=True):
            subject.fill(handle, part)
        got = subject.call(cache, "append", *kept)
        rows.keep(*chunk)
        yield from holds(subject, cache, rows, got, f"after call {call}")
        for name, handle, part in zip(("k", "v", "real"), kept, chunk, strict=True):
            yield unchanged(subject, handle, part, name)
        for handle in kept[:2]:
            subject.fill(handle, np.nan)
        subject.fill(kept[2], False)
    yield from append(subject, cache, rows, NONE, "after the caller reused its tensors")
    yield from append(subject, other, others, ((1,), (0,), (1,)), "in another cache, later")
    whole = [[1, 1]] * B  # without any padding
    chunk = fews.chunk(whole)
    kept = [subject.put(part) for part in chunk]
    got = subject.call(small, "append", *kept)
    fews.keep(*chunk)
    yield from holds(subject, small, fews, got, "after a chunk without padding")
    for handle in kept[:2]:
        subject.fill(handle, np.nan)
    yield from append(subject, small, fews, NONE, "after the caller reused the tensors of a chunk without padding")
    chunk, what = fews.chunk(whole), "2 tokens more where no row has room"
    for handle, part in zip(kept, chunk, strict=True):
        subject.fill(handle, part)
    yield refuses(subject, small, "append", *kept, key=what, what=what)
    for name, handle, part in zip(("k", "v", "real"), kept, chunk, strict=True):
        yield unchanged(subject, handle, part, name)


EXERCISE = Exercise(
    id="5.5",
    name="RaggedCache",
    title="Rows of different lengths",
    goal="Hold a batch whose rows differ in length: real tokens only, each row packed, each with its own count.",
    points=5,
    minutes=20,
    difficulty=3,
    hints=(
        "Keep one count for each row. A token that is real goes to slot `lengths[b]` of its row, and only then is it "
        "counted. Padding is skipped: no slot, no count.",
        "Check first: `(lengths + real.sum(1) > max_len).any()` means that some row has no room, so raise "
        "`ValueError` before anything is written. Padding takes no room.",
        "`K` and `V` are the buffers up to the longest row, `S = max(lengths)`. `k_positions[b]` is `0, 1, ..., "
        "lengths[b] - 1`, then -1: a row of `torch.arange(S)`, kept where it is below `lengths[b]`.",
    ),
    stages=(equal_rows, padding, rows_go_on, full, memory, reused_tensors),
    reference=Later("kvlib.ragged_cache", "RaggedCache"),
    mistakes=MISTAKES,
    variants=VARIANTS,
    tensors=True,
)
