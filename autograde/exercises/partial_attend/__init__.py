"""Exercise 11.2: attention over one part of the context, not yet divided."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from autograde.compare import as_array, number
from autograde.exercise import Exercise, stage
from autograde.exercises.partial_attend.candidates import MISTAKES, VARIANTS
from autograde.expect import agrees
from autograde.finding import Finding
from autograde.subject import Subject
from kvlib.split_attend import partial_attend

NAMES = ("m", "l", "acc")
WHAT = (
    "m is the largest score of each head",
    "l is the sum of exp(score - m)",
    "acc sums exp(score - m) * v, undivided",
)


def part_of(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """m (H,), l (H,), acc (H, D) in loops."""
    H, D = q.shape
    m, total, acc = np.full(H, -math.inf), np.zeros(H), np.zeros((H, D))
    for h in range(H):
        scores = [math.fsum(a * b for a, b in zip(q[h], key, strict=True)) / math.sqrt(D) for key in k]
        m[h] = max(scores, default=-math.inf)
        for score, value in zip(scores, v, strict=True):
            total[h] += math.exp(score - m[h])
            acc[h] += math.exp(score - m[h]) * value
    return m, total, acc


def three(subject: Subject, got: Any, want: tuple[np.ndarray, ...], key: str) -> Iterable[Finding]:
    """Findings on a triple. The largest score of nothing is minus infinity, which differences cannot compare."""
    if not isinstance(got, list) or len(got) != 3:
        shape = "an array" if isinstance(got, np.ndarray) else type(got).__name__
        text = "three results come back: m, l, acc"
        yield Finding(False, key, text, expected="(m, l, acc)", got=shape, events=len(subject.record))
        return
    for name, what, mine, right in zip(NAMES, WHAT, got, want, strict=True):
        if np.isneginf(right).all() and right.size:
            what = "without a token m is -inf"
            array, _ = as_array(mine, right.shape)
            if array is not None and not np.isneginf(array).all():
                given, events = float(array[~np.isneginf(array)][0]), len(subject.record)
                yield Finding(
                    False, f"{key} {name}", f"does not hold: {what}", "", "-inf", number(given), events=events
                )
                continue
            mine = mine if array is None or np.shape(mine) != right.shape else np.zeros(right.shape)
            right = np.zeros(right.shape)
        yield agrees(subject, mine, right, key=f"{key} {name}", fact=what, columns="column", exact=True)


def rows(rng: np.random.Generator, heads: int, tokens: int, width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """q (H, D), k and v (S, D); the largest score of a head is neither 0 nor at one end."""
    q, k, v = rng.normal(size=(heads, width)), rng.normal(size=(tokens, width)), rng.normal(size=(tokens, width))
    return q, k * 1.5, v + 0.5


def shifted(rng: np.random.Generator, by: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores of all heads moved by so much: a column of ones in q meets it in k."""
    q, k, v = rows(rng, 3, 6, 5)
    q[:, 2], k[:, 2] = 1.0, by * math.sqrt(5)
    return q, k, v


@stage("one token", why="One token: m is its score, l is 1, and acc is its value.")
def one_token(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for heads, width in ((3, 4), (2, 5)):
        case = rows(rng, heads, 1, width)
        yield from three(subject, subject.run(*case), part_of(*case), f"one, width {width}")


@stage("many tokens", weight=1, why="Each head has a largest score and sums of its own. Nothing is divided yet.")
def many_tokens(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for heads, tokens, width in ((3, 7, 5), (5, 11, 2), (1, 4, 3)):
        case = rows(rng, heads, tokens, width)
        yield from three(subject, subject.run(*case), part_of(*case), f"{heads} heads, {tokens} tokens")


@stage("large and empty", why="Scores reach hundreds, and a part may hold no token at all: m = -inf, l = 0, acc = 0.")
def large_and_empty(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for by in (1500.0, -1500.0):
        case = shifted(rng, by)
        yield from three(subject, subject.run(*case), part_of(*case), f"scores about {by:.0f}")
    case = rows(rng, 3, 0, 5)
    yield from three(subject, subject.run(*case), part_of(*case), "no token")
    case = rows(rng, 3, 7, 5)
    kept = [subject.put(array) for array in case]
    for turn in ("first", "second"):
        yield from three(subject, subject.run(*kept), part_of(*case), turn)
        for name, handle, array in zip("qkv", kept, case, strict=True):
            yield agrees(subject, subject.read(handle), array, key=f"{name} {turn}", fact=f"{name} is as it was")


EXERCISE = Exercise(
    id="11.2",
    name="partial_attend",
    title="A part of the context",
    goal="Work out what one part of the context hands on, for all query heads of a KV head.",
    points=3,
    minutes=12,
    difficulty=2,
    hints=(
        "`q @ k.T / np.sqrt(D)` has one row of scores for each head: (H, S). Everything else goes along its rows.",
        "`m = scores.max(axis=1)`, and `np.exp(scores - m[:, None])` are the powers. Their sum is `l`; `powers @ v` is "
        "`acc`. Nothing is divided.",
        "An empty part has no largest score: `scores.max(axis=1, initial=-np.inf)` gives -inf instead of an error, and "
        "the sums over no column are 0.",
    ),
    stages=(one_token, many_tokens, large_and_empty),
    reference=partial_attend,
    mistakes=MISTAKES,
    variants=VARIANTS,
)
