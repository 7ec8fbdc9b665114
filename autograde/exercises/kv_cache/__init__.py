"""Exercise 2.1: a cache of fixed capacity, in NumPy."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from autograde.exercise import Exercise, stage
from autograde.exercises.kv_cache.candidates import MISTAKES, VARIANTS
from autograde.expect import agrees, equals, half, refuses
from autograde.finding import Finding
from autograde.subject import Subject
from autograde.value import Handle
from kvlib.numpy_cache import KVCache

WIDTH = 3


def _rows(rng: np.random.Generator, tokens: int) -> tuple[np.ndarray, np.ndarray]:
    K, V = rng.normal(size=(2, tokens, WIDTH))
    return K, V


def _holds(subject: Subject, cache: Handle, K: np.ndarray, V: np.ndarray, when: str) -> Iterable[Finding]:
    """Whether the cache holds exactly these rows, and says so in its length."""
    length = subject.length(cache)
    yield equals(
        subject, length, len(K), key=f"length {when}", fact="len(cache) is the number of tokens held", what=when
    )
    got = subject.call(cache, "rows")
    for part, name, want in ((0, "K", K), (1, "V", V)):
        fact = f"rows() gives the {name} rows held, oldest first"
        finding = agrees(
            subject,
            half(got, part),
            want,
            key=f"{name} {when}",
            fact=fact,
            others={"the other array": V if part == 0 else K},
        )
        yield finding if finding.ok else Finding(**{**finding.__dict__, "where": f"{when}, {name} {finding.where}"})


@stage("append", why="Later steps read all rows, in order; rows that nobody wrote must never come back.")
def append(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    K, V = _rows(rng, 7)
    cache = subject.new(12, WIDTH)
    for t in range(7):
        subject.call(cache, "append", K[t], V[t])
        yield from _holds(subject, cache, K[: t + 1], V[: t + 1], f"after token {t + 1}")


@stage("full", why="A cache that silently drops or overwrites a token gives wrong text without any error.")
def full(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    K, V = _rows(rng, 7)
    cache = subject.new(5, WIDTH)
    for t in range(5):
        subject.call(cache, "append", K[t], V[t])
    yield from _holds(subject, cache, K[:5], V[:5], "after token 5 of 5")

    def look() -> None:
        subject.length(cache)
        subject.call(cache, "rows")

    for t in (5, 6):
        what = f"token {t + 1} of a cache of 5"
        yield refuses(subject, cache, "append", K[t], V[t], key=f"token {t + 1}", what=what, after=look)
        yield from _holds(subject, cache, K[:5], V[:5], f"after the refusal of token {t + 1}")


@stage("wrong shapes", why="NumPy would spread one number over a whole row without a word, and nobody would see it.")
def wrong_shapes(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    K, V = _rows(rng, 4)
    cache = subject.new(7, WIDTH)
    for t in range(2):
        subject.call(cache, "append", K[t], V[t])
    bad = (
        ("a key of shape (1,)", K[2][:1], V[2]),
        ("a value of shape (1,)", K[2], V[2][:1]),
        ("a value of shape (5,)", K[2], np.ones(5)),
        ("a key of shape (2, 3)", K[:2], V[2]),
    )
    for what, k, v in bad:
        yield refuses(subject, cache, "append", k, v, key=what, what=f"{what} for width {WIDTH}")
        yield from _holds(subject, cache, K[:2], V[:2], f"after refusing {what}")
    for t in (2, 3):
        subject.call(cache, "append", K[t], V[t])
    yield from _holds(subject, cache, K, V, "after the next right token")


@stage(
    "reused arrays", why="A real decoder writes every new key into the same buffer; the cache must have its own copy."
)
def reused_arrays(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    K, V = _rows(rng, 3)
    cache = subject.new(7, WIDTH)
    k, v = subject.put(K[0]), subject.put(V[0])
    for t in range(3):
        subject.fill(k, K[t])
        subject.fill(v, V[t])
        subject.call(cache, "append", k, v)
    subject.fill(k, float("nan"))
    subject.fill(v, float("nan"))
    yield from _holds(subject, cache, K, V, "after the caller reused its arrays")


@stage("reset", why="The next prompt may be shorter, and must not see a row of the one before.")
def reset(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    K, V = _rows(rng, 8)
    cache, other = subject.new(5, WIDTH), subject.new(5, WIDTH)
    subject.call(other, "append", K[7], V[7])
    for t in range(5):
        subject.call(cache, "append", K[t], V[t])
    yield from _holds(subject, cache, K[:5], V[:5], "before reset()")
    subject.call(cache, "reset")
    yield from _holds(subject, cache, K[:0], V[:0], "after reset()")
    for t in (5, 6):
        subject.call(cache, "append", K[t], V[t])
    yield from _holds(subject, cache, K[5:7], V[5:7], "in the second run")
    yield from _holds(subject, other, K[7:], V[7:], "in another cache")


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
