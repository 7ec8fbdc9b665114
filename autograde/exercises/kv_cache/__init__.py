"""Exercise 2.1: a cache of fixed capacity, in NumPy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from autograde.exercise import Exercise, stage
from autograde.exercises.kv_cache.candidates import MISTAKES, VARIANTS
from autograde.expect import agrees, equals, half, is_pair, refuses
from autograde.finding import Finding
from autograde.subject import Subject
from autograde.value import Handle
from kvlib.numpy_cache import KVCache


def _rows(rng: np.random.Generator, tokens: int, width: int = 3) -> tuple[np.ndarray, np.ndarray]:
    K, V = rng.normal(size=(2, tokens, width))
    return K, V


def _holds(subject: Subject, cache: Handle, K: np.ndarray, V: np.ndarray, when: str) -> Iterable[Finding]:
    """Whether the cache holds exactly these rows, and says so in its length."""
    fact = "len(cache) is the number of tokens held"
    yield equals(subject, subject.length(cache), len(K), key=f"length {when}", fact=fact, what=when)
    for again in ("", ", read again"):
        got, seen = subject.call(cache, "rows"), when + again
        yield is_pair(subject, got, key=f"pair {seen}", what="rows() must return the pair (K, V)", where=seen)
        for part, name, want, other in ((0, "K", K, V), (1, "V", V, K)):
            fact = f"rows() gives the {name} rows held, oldest first"
            others = {"the other array": other}
            finding = agrees(subject, half(got, part), want, key=f"{name} {seen}", fact=fact, others=others, exact=True)
            yield finding if finding.ok else replace(finding, where=f"{seen}, {name} {finding.where}".rstrip())


def _append(subject: Subject, cache: Handle, K: np.ndarray, V: np.ndarray) -> None:
    for k, v in zip(K, V, strict=True):
        subject.call(cache, "append", k, v)


@stage("append", why="Later steps read all rows, in order; rows that nobody wrote must never come back.")
def append(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for max_len, width in ((12, 3), (8, 5)):
        K, V = _rows(rng, 7, width)
        cache = subject.new(max_len, width)
        for t in range(8):
            yield from _holds(subject, cache, K[:t], V[:t], f"after token {t}" if t else "in a new cache")
            if t < 7:
                subject.call(cache, "append", K[t], V[t])


@stage("full", why="A cache that silently drops or overwrites a token gives wrong text without any error.")
def full(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    K, V = _rows(rng, 8)
    cache = subject.new(5, 3)

    def look() -> None:
        subject.length(cache)
        subject.call(cache, "rows")

    _append(subject, cache, K[:5], V[:5])
    yield from _holds(subject, cache, K[:5], V[:5], "after token 5 of 5")
    for t in (5, 6, 7):
        what = f"token {t + 1} of a cache of 5"
        yield refuses(subject, cache, "append", K[t], V[t], key=f"token {t + 1}", what=what, after=look)
        yield from _holds(subject, cache, K[:5], V[:5], f"after the refusal of token {t + 1}")


@stage("wrong shapes", why="NumPy would spread one number over a whole row without a word, and nobody would see it.")
def wrong_shapes(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    K, V = _rows(rng, 4)
    cache = subject.new(7, 3)
    _append(subject, cache, K[:2], V[:2])
    k, v = K[2], V[2]
    for bad_k, bad_v in (
        (k[:1], v),
        (k, v[:1]),
        (k, np.ones(5)),
        (K[:2], v),
        (k[:1], v[:1]),
        (k[:2], v[:2]),
        (k[None, :], v[None, :]),
        (k[:, None], v[:, None]),
        (np.array(5.0), np.array(6.0)),
        (K[:3], V[:3]),
    ):
        what = f"append() of shapes {np.shape(bad_k)} and {np.shape(bad_v)} for width 3"
        yield refuses(subject, cache, "append", bad_k, bad_v, key=what, what=what)
        yield from _holds(subject, cache, K[:2], V[:2], f"after refusing shapes {np.shape(bad_k)}, {np.shape(bad_v)}")
    _append(subject, cache, K[2:], V[2:])
    yield from _holds(subject, cache, K, V, "after the next right tokens")


@stage(
    "reused arrays", why="A real decoder writes every new key into the same buffer; the cache must have its own copy."
)
def reused_arrays(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    K, V = _rows(rng, 3)
    cache = subject.new(7, 3)
    k, v = subject.put(K[0]), subject.put(V[0])
    for t in range(3):
        subject.fill(k, K[t])
        subject.fill(v, V[t])
        subject.call(cache, "append", k, v)
        for name, kept, row in (("k", k, K[t]), ("v", v, V[t])):
            fact = f"append() leaves {name} as it was"
            yield agrees(subject, subject.read(kept), row, key=f"caller's {name}", fact=fact)
    subject.fill(k, float("nan"))
    subject.fill(v, float("nan"))
    yield from _holds(subject, cache, K, V, "after the caller reused its arrays")


@stage("reset", why="The next prompt may be shorter, and must not see a row of the one before.")
def reset(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    K, V = _rows(rng, 13)
    cache, other = subject.new(5, 3), subject.new(5, 3)
    _append(subject, other, K[12:], V[12:])
    _append(subject, cache, K[:4], V[:4])
    yield from _holds(subject, cache, K[:4], V[:4], "before reset()")
    for run, rows in enumerate((slice(4, 6), slice(6, 11)), start=2):
        subject.call(cache, "reset")
        yield from _holds(subject, cache, K[:0], V[:0], f"after reset() number {run - 1}")
        _append(subject, cache, K[rows], V[rows])
        yield from _holds(subject, cache, K[rows], V[rows], f"in run {run}")
    what = "token 6 of a cache of 5, after reset()"
    yield refuses(subject, cache, "append", K[11], V[11], key="full again", what=what)
    yield from _holds(subject, cache, K[6:11], V[6:11], "after that refusal")
    yield from _holds(subject, other, K[12:], V[12:], "in another cache")


EXERCISE = Exercise(
    id="2.1",
    name="KVCache",
    title="A cache with a size",
    goal="Hold up to `max_len` tokens in two arrays made once, and refuse whatever does not fit.",
    points=5,
    minutes=15,
    difficulty=2,
    hints=(
        "Three attributes are enough: two arrays of shape `(max_len, width)` and a counter of the rows in use.",
        "`append`: first all the checks (full? right shapes?), each raising `ValueError`; only then write row "
        "`self.used` of both arrays; only then count. A refusal then cannot leave anything half done.",
        "`rows` returns `self.K[:self.used], self.V[:self.used]`. `self.K[self.used] = k` copies the numbers, so "
        "the caller may reuse `k`. `reset` only sets the counter to 0.",
    ),
    stages=(append, full, wrong_shapes, reused_arrays, reset),
    reference=KVCache,
    mistakes=MISTAKES,
    variants=VARIANTS,
)
