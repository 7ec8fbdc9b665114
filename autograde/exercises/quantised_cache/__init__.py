"""Exercise 7.3: a KV cache in FP8, with a scale for each token of each head."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from autograde.compare import shown
from autograde.exercise import Exercise, stage
from autograde.exercises.positions import unchanged
from autograde.exercises.quantised_cache.candidates import MISTAKES, VARIANTS
from autograde.exercises.quantised_cache.driven import Run
from autograde.exercises.scalars import parts
from autograde.expect import equals, refuses
from autograde.finding import Finding, held
from autograde.lazy import Later
from autograde.subject import LearnerRaised, Subject

LONG = (2, 3, 67, 7)  # of 67 tokens a range is a small part
WIDE = (3, 2, 11, 5)  # three sequences: a permutation and its inverse differ
COUNTERS = 128  # bytes of counters and positions that may be tensors
TABLE = 1024  # bytes of a table of all FP8 numbers


@stage("one chunk", weight=2, why="Each token of each head uses all of FP8's range, and K is not as large as V.")
def one_chunk(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for sizes in ((2, 3, 7, 5), WIDE):
        run = Run(subject, rng, sizes)
        fact = "a new cache holds no token"
        yield equals(subject, subject.length(run.cache), 0, key="empty", fact=fact)
        run.append(4)
        yield from run.check()


@stage("many chunks", weight=2, why="A token that comes later, however large, must not touch what is there.")
def many_chunks(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for chunks in ([3, 2, 2], [1, 1, 1, 2]):
        run, reach = Run(subject, rng), 0.0
        for T in chunks:
            run.append(T, low=reach - 0.5, high=reach)
            yield from run.check(f"in chunks {chunks}, with {run.held} tokens")
            reach += 0.7
    one, other = Run(subject, rng), Run(subject, rng)
    for run, T in ((one, 2), (other, 3), (one, 3)):
        run.append(T)
        yield from run.check(f"{'the first' if run is one else 'the second'} of two caches, with {run.held} tokens")


@stage("read a range", why="Attention reads block by block. A float copy of all tokens would need more than FP8 saves.")
def ranges(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    run = Run(subject, rng, LONG)
    for T in (23, 1, 37):
        run.append(T)
    B, Hkv, _, D = LONG
    for start, stop in ((0, 61), (0, 1), (60, 61), (7, 12), (22, 25), (3, 3), (0, 2), (59, 61)):
        got, most = parts_of(subject.largest_of(run.cache, "read", start, stop))
        where = f"of {run.held} tokens"
        yield from run.judge(got, start, stop, where)
        fact = "read() makes no tensor larger than what it returns, K and V together"
        limit = 2 * B * Hkv * (stop - start) * D * 4
        yield at_most(subject, most, limit, key="largest", fact=fact, where=f"read({start}, {stop}) {where}")


def parts_of(measured: object) -> tuple[object, object]:
    """The result and the bytes; a worker that lies gives anything."""
    pair = measured if isinstance(measured, list) and len(measured) == 2 else [None, None]
    return pair[0], pair[1]


def at_most(subject: Subject, size: object, limit: int, *, key: str, fact: str, where: str) -> Finding:
    """Whether so many bytes are not too many."""
    if type(size) is int and 0 <= size <= limit + TABLE:
        return held(key, fact)
    given = f"{size} bytes" if type(size) is int else shown(size)
    fact, events = f"does not hold: {fact}", len(subject.record)
    return Finding(False, key, fact, where=where, expected=f"{limit} bytes at most", got=given, events=events)


@stage("tiny, huge, zero", why="Where all is zero the scale would be 0, and 0 / 0 is NaN. A scale has float32's range.")
def extremes(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    run = Run(subject, rng)
    for reach in (-8.0, 8.0, -5.0, 0.0, -25.0):
        run.append(1, low=reach, high=reach + 0.3)
        for start in range(run.held):
            got = subject.call(run.cache, "read", start, start + 1)
            yield from run.judge(got, start, start + 1, "of tiny and huge tokens")
    yield from run.check()
    run = Run(subject, rng)
    rows = run.draw(4)
    for i, (x, want) in enumerate(rows):
        for part in (x, want):
            part[:, :, 1 + i] = 0.0  # a token, in all heads
            part[1, 2, 0] = 0.0  # and one in a single head
    run.take(rows)
    yield from run.check("of tokens that are all zero")
    run = Run(subject, rng)
    for T, factor in ((1, 1.0), (2, 0.0), (1, 1.0)):
        run.take([(x * np.float32(factor), want * factor) for x, want in run.draw(T)])
        yield from run.check("of a chunk that is all zero")


@stage("memory", why="A byte for each number, four for each scale, all of it from the start: engines plan with that.")
def memory(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for sizes in ((2, 3, 7, 5), (1, 2, 13, 11)):
        run = Run(subject, rng, sizes)
        yield from bytes_of(run, "in a new cache")
        run.append(1)
        run.append(3)
        yield from run.check()
        yield from bytes_of(run, "with 4 tokens")
    run = Run(subject, rng)
    for T in (2, 3):
        rows = run.draw(T)
        kept = [subject.put(x) for x, _ in rows]
        subject.call(run.cache, "append", *kept)
        run.expect(rows)
        for name, tensor, (x, _) in zip("kv", kept, rows, strict=True):
            yield unchanged(subject, tensor, x, name)
            subject.fill(tensor, np.nan)
        yield from run.check("after the caller reused its tensors")


def bytes_of(run: Run, when: str) -> Iterable[Finding]:
    """Whether `nbytes` tells the bytes of codes and scales, and no more is held than those."""
    subject, (payload, metadata) = run.subject, run.nbytes
    size, got = subject.storage(run.cache), subject.get(run.cache, "nbytes")
    said, B_Hkv = parts(got, 2), "2 * B * Hkv * max_len"
    where = f"(B, Hkv, max_len, D) = {run.sizes}, {when}"
    if not said:
        fact = "nbytes is a pair of numbers, (payload, metadata): an attribute or a property"
        yield Finding(False, "pair", fact, where=where, expected="a pair", got=shown(got), events=len(subject.record))
        return
    for name, value, want, each in (("payload", said[0], payload, "D"), ("metadata", said[1], metadata, "4")):
        fact = f"the {name} is {B_Hkv} * {each} bytes"
        yield equals(subject, value, want, key=name, fact=fact, what=where)
    want = payload + metadata
    fact = "the memory it holds is that of the codes and the scales"
    if type(size) is int and want <= size <= want + COUNTERS:
        yield held("storage", fact)
        return
    given = f"{size} bytes" if type(size) is int else shown(size)
    fact, events = f"does not hold: {fact}", len(subject.record)
    yield Finding(False, "storage", fact, where=where, expected=f"{want} bytes", got=given, events=events)


@stage("truncate and reorder", weight=2, why="Rejected tokens go, and beams fork: codes and scales must move together.")
def truncate_and_reorder(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    run = Run(subject, rng)
    for T, length in ((5, 4), (3, 7), (0, 2), (1, 1), (3, 0), (2, 2)):
        if T:
            run.append(T)
        run.truncate(length)
        yield from run.check(f"after truncate({length})")
    run = Run(subject, rng, WIDE)
    run.append(4)
    yield from run.check("of three sequences")
    for rows in ([1, 2, 0], [1, 0, 1], [0, 1, 2], [2, 2, 0]):
        run.reorder(rows)
        if rows[0] == 1:
            yield from run.check(f"after reorder({rows})")
        run.append(1)
        yield from run.check(f"with a token more after reorder({rows})")
    run.truncate(3)
    run.reorder([0, 2, 1])
    run.append(2)
    yield from run.check("after truncate(3), reorder([0, 2, 1])")


@stage("refusals", why="torch spreads a single row and cuts a slice in silence. What is refused must leave no trace.")
def refusals(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    run = Run(subject, rng)
    run.append(4)
    yield from run.check()
    B, Hkv, _, D = run.sizes

    def rows(*shape: int) -> np.ndarray:
        return rng.normal(size=shape).astype(np.float32)

    two = rows(B, Hkv, 2, D)
    wrong = [
        ("9 tokens where 3 have room", rows(B, Hkv, 9, D), rows(B, Hkv, 9, D)),
        ("4 tokens where 3 have room", rows(B, Hkv, 4, D), rows(B, Hkv, 4, D)),
        ("one number for all heads", two[:1, :1, :, :1], two[:1, :1, :, :1]),
        ("one sequence for a batch of 2", two[:1], two[:1]),
        ("one KV head for 3", two[:, :1], two[:, :1]),
        ("rows of one feature", two[..., :1], two[..., :1]),
        ("rows of 4 features", two[..., :4], two[..., :4]),
        ("v of one feature", two, two[..., :1]),
        ("one token of v for two of k", two, two[:, :, :1]),
        ("two tokens of v for one of k", two[:, :, :1], two),
        ("v of another head dim", two, two[..., :4]),
        ("rows without a batch", two[0], two[0]),
        ("rows without an axis for tokens", two[:, :, 0], two[:, :, 0]),
        ("rows of five axes", two[None], two[None]),
    ]

    def look() -> None:
        with contextlib.suppress(LearnerRaised):
            subject.length(run.cache)
            subject.call(run.cache, "read", 0, 4)

    for what, k, v in wrong:
        yield refuses(subject, run.cache, "append", k, v, key=what, what=f"append() of {what}", after=look)
        yield from run.check(f"after refusing {what}")
    asked: list[tuple[Any, ...]]
    asked = [("read", 0, 5), ("read", -1, 2), ("read", 3, 2), ("read", 5, 5), ("truncate", 5), ("truncate", -1)]
    asked += [("reorder", rows) for rows in ([0], [0, 1, 0], [0, 2], [-1, 0], [])] + [("read", -2, -1)]
    for method, *args in asked:
        what = f"{method}({', '.join(map(str, args))}) with 4 tokens and 2 sequences"
        yield refuses(subject, run.cache, method, *args, key=what, what=what, after=look)
        yield from run.check(f"after refusing {what[: what.index(' with')]}")
    run.append(3)
    yield from run.check("of a full cache")
    run.truncate(3)
    new = Run(subject, rng)
    for one, when in ((run, "after truncate(3)"), (new, "with no token yet")):
        beyond = one.held + 1
        for method, *args in (("read", 0, beyond), ("truncate", beyond), ("truncate", -1)):
            what = f"{method}({', '.join(map(str, args))}) {when}"
            yield refuses(subject, one.cache, method, *args, key=what, what=what)
            yield from one.check(f"after refusing {what}")
        one.append(2)
        yield from one.check(f"with two tokens more, {when}")


EXERCISE = Exercise(
    id="7.3",
    name="QuantisedCache",
    title="A cache in FP8",
    goal="Keep keys and values in a byte each, with a scale for each token and head, and read back any range of them.",
    points=7,
    minutes=30,
    difficulty=4,
    hints=(
        "Two buffers of codes, `(B, Hkv, max_len, D)` in `torch.float8_e4m3fn`, for K and for V; two of scales, "
        "`(B, Hkv, max_len, 1)` in float32; one counter. Whatever moves codes (append, read, reorder) moves scales.",
        "`append`: all refusals first. Then for k and v, each by itself: `top = rows.abs().amax(-1, keepdim=True)`, "
        "`scale = torch.where(top > 0, top / 448, 1.0)`, and codes and scale go to slots `used` to `used + T`. "
        "`read`: slice codes and scales first, then `codes.float() * scale`.",
        "`reorder` must not overwrite a row that it still has to read: `self.codes[i] = self.codes[i][rows]` copies "
        "first, and the same for the scales. `nbytes` is a property: the codes' `nbytes`, and the scales'. `truncate` "
        "only sets the counter, once `0 <= length <= used` holds; `read` wants `0 <= start <= stop <= used`.",
    ),
    stages=(one_chunk, many_chunks, ranges, extremes, memory, truncate_and_reorder, refusals),
    reference=Later("kvlib.quantised_cache", "QuantisedCache"),
    mistakes=MISTAKES,
    variants=VARIANTS,
    tensors="fp8",
)
