"""Exercise 11.3: one attention from the sums of several parts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np

from autograde.exercise import Exercise, stage
from autograde.exercises.merge_parts.candidates import MISTAKES, VARIANTS
from autograde.exercises.oracle import attend_one
from autograde.exercises.partial_attend import part_of, rows
from autograde.expect import agrees
from autograde.finding import Finding
from autograde.subject import Subject
from kvlib.split_attend import merge_parts

_agrees = partial(agrees, exact=True)
Case = tuple[tuple[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def _case(q: np.ndarray, k: np.ndarray, v: np.ndarray, ends: Sequence[int]) -> Case:
    """What parts hand on that end at these tokens, and attention over all of them."""
    starts = [0, *ends[:-1]]
    parts = [part_of(q, k[a:b], v[a:b]) for a, b in zip(starts, ends, strict=True)]
    m, sums, acc = (np.stack(each) for each in zip(*parts, strict=True))
    want = [attend_one(head, k, v) if len(k) else np.zeros(q.shape[1]) for head in q]
    return (m, sums, acc), np.array(want)


def _rising(rng: np.random.Generator, by: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Nine keys whose scores rise by so much from three to three, for every head."""
    q, k, v = rows(rng, 3, 9, 5)
    q[:, 4], k[:, 4] = 1.0, np.repeat([-by, 0.0, by], 3) * math.sqrt(5)
    return q, k, v


@stage("one part", why="Nothing to merge: the output is acc over l, for each head.")
def one_part(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for heads, tokens, width in ((3, 7, 5), (1, 4, 2)):
        given, want = _case(*rows(rng, heads, tokens, width), [tokens])
        fact = f"one part of {tokens} tokens is its acc over its l"
        yield _agrees(subject, subject.run(*given), want, key=f"one of {tokens}", fact=fact)


@stage(
    "several parts", weight=2, why="Each part was measured against its own m. All are brought to the largest one first."
)
def several_parts(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for heads, width, ends in ((3, 5, [4, 5, 11, 13]), (2, 7, [1, 2, 3, 5, 11]), (5, 3, [6, 8])):
        given, want = _case(*rows(rng, heads, ends[-1], width), ends)
        fact = f"{len(ends)} parts of {ends[-1]} tokens are one attention"
        yield _agrees(subject, subject.run(*given), want, key=f"{len(ends)} parts", fact=fact)
    given, want = _case(*_rising(rng, 3.0), [3, 6, 9])
    yield _agrees(subject, subject.run(*given), want, key="rising", fact="parts of rising scores are one attention")
    turned = [array[::-1].copy() for array in given]
    yield _agrees(subject, subject.run(*turned), want, key="falling", fact="the order of the parts does not matter")


@stage("large scores", why="m may be 1,500 or -1,500, and parts may be 2,000 apart: only differences go into exp.")
def large_scores(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for name, lift in (
        ("far above 0", [1498.0, 1500.0, 1502.0]),
        ("far below 0", [-1502.0, -1500.0, -1498.0]),
        ("800 apart", [400.0, 402.0, -400.0]),
        ("far apart, falling", [1000.0, 0.0, -1000.0]),
        ("far apart, rising", [-1000.0, 0.0, 1000.0]),
    ):
        (m, sums, acc), _ = _case(*_rising(rng, 2.0), [3, 6, 9])
        m = m + np.array(lift)[:, None]
        fact = f"parts whose m lie {name} give finite, right outputs"
        yield _agrees(subject, subject.run(m, sums, acc), _merged(m, sums, acc), key=name, fact=fact)
    (m, sums, acc), _ = _case(*_rising(rng, 2.0), [3, 6, 9])
    m = m + np.array([1000.0, 0.0, -1000.0])
    fact = "heads whose m lie far apart have nothing to do with each other"
    yield _agrees(subject, subject.run(m, sums, acc), _merged(m, sums, acc), key="heads apart", fact=fact)


def _merged(m: np.ndarray, sums: np.ndarray, acc: np.ndarray) -> np.ndarray:
    """The merge itself, head by head in loops, for parts that no keys stand behind."""
    out = np.zeros(acc.shape[1:])
    for h in range(m.shape[1]):
        weights = [math.exp(one - max(m[:, h])) for one in m[:, h]]
        total = math.fsum(w * s for w, s in zip(weights, sums[:, h], strict=True))
        out[h] = sum(w * part for w, part in zip(weights, acc[:, h], strict=True)) / total
    return out


@stage(
    "empty parts", why="A part without tokens has m = -inf and adds nothing. No tokens at all give zeros, never NaN."
)
def empty_parts(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for name, ends in (("in the middle", [4, 4, 7]), ("first", [0, 5, 8]), ("last", [3, 7, 7, 7])):
        given, want = _case(*rows(rng, 3, ends[-1], 5), ends)
        got = subject.run(*given)
        yield _agrees(subject, got, want, key=f"empty {name}", fact=f"an empty part ({name}) has no influence")
    for name, lift in (("once", 0.0), ("far below 0", -1500.0)):  # each head has an empty part of its own
        (m, sums, acc), _ = _case(*rows(rng, 3, 13, 5), [3, 5, 9, 13])
        for head, part in enumerate((0, 2, 3)):
            m[part, head], sums[part, head], acc[part, head] = -np.inf, 0.0, 0.0
        m += lift
        fact = "a part that is empty for one head counts for the others" + (", far below 0 too" if lift else "")
        yield _agrees(subject, subject.run(m, sums, acc), _merged(m, sums, acc), key=f"each head {name}", fact=fact)
    given, want = _case(*_rising(rng, -1.0), [3, 3, 9])
    for array, nothing in zip(given, (-np.inf, 0.0, 0.0), strict=True):
        array[:, 0] = nothing
    want[0] = 0.0
    kept = [subject.put(array) for array in given]
    for turn in ("first", "second"):
        fact = "a head without a token gets zeros, and the others what is theirs"
        yield _agrees(subject, subject.run(*kept), want, key=f"one head empty, {turn}", fact=fact)
        for name, handle, array in zip(("m", "l", "acc"), kept, given, strict=True):
            now, was = (np.where(np.isneginf(part), -1.0, part) for part in (_numbers(subject.read(handle)), array))
            yield agrees(subject, now, was, key=f"{name} {turn}", fact=f"{name} is as it was")
    given, want = _case(*rows(rng, 2, 0, 3), [0, 0, 0])
    yield _agrees(subject, subject.run(*given), want, key="all empty", fact="no token in any part gives zeros")


def _numbers(value: object) -> np.ndarray:
    return value if isinstance(value, np.ndarray) and value.dtype.kind in "iuf" else np.zeros(0)


EXERCISE = Exercise(
    id="11.3",
    name="merge_parts",
    title="Parts become one",
    goal="Put together what the parts of a context handed on.",
    points=4,
    minutes=20,
    difficulty=3,
    hints=(
        "Every part was measured against an m of its own. Bring them all to one: the largest m of the head.",
        "`weight = np.exp(m - m.max(axis=0))` is (P, H). The output is the sum of `weight * acc` over the parts, "
        "divided by the sum of `weight * l`. Mind the extra axis of acc.",
        "-inf - -inf is NaN: where the largest m is -inf, subtract 0. Where the sum of `weight * l` is 0, divide "
        "by 1: `acc` is all zeros there.",
    ),
    stages=(one_part, several_parts, large_scores, empty_parts),
    reference=merge_parts,
    mistakes=MISTAKES,
    variants=VARIANTS,
)
