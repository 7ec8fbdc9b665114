"""Exercise 11.1: attention of one query over keys that come block by block."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from autograde.exercise import Exercise, stage
from autograde.exercises.online_attend.candidates import MISTAKES, VARIANTS
from autograde.exercises.oracle import attend_one
from autograde.expect import agrees, counts
from autograde.finding import Finding
from autograde.subject import Subject, Trusted
from kvlib.online_softmax import online_attend

Rows = tuple[np.ndarray, np.ndarray]


class Handed:
    """Hands out blocks of keys and values, and counts how often it is asked."""

    def __init__(self, k: np.ndarray, v: np.ndarray, sizes: Sequence[int]) -> None:
        ends = np.cumsum([0, *sizes])
        self.blocks: list[Rows] = [(k[a:b], v[a:b]) for a, b in zip(ends[:-1], ends[1:], strict=True)]
        self.given = 0

    def next(self) -> list[Any] | None:
        if self.given == len(self.blocks):
            return None
        self.given += 1
        return list(self.blocks[self.given - 1])

    def lent(self) -> Trusted:
        return Trusted(self, ("next",), name="Blocks")


def _rows(rng: np.random.Generator, tokens: int, width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return rng.normal(size=width), rng.normal(size=(tokens, width)), rng.normal(size=(tokens, width)) + 0.5


def _with_scores(
    rng: np.random.Generator, scores: Sequence[float] | np.ndarray, width: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A query and keys whose scores are these, before and after the division by the root of the width."""
    q, k, v = _rows(rng, len(scores), width)
    k -= np.outer(k @ q, q) / (q @ q)
    return q, k + np.outer(np.array(scores) * math.sqrt(width), q) / (q @ q), v


def _ask(
    subject: Subject, q: np.ndarray, k: np.ndarray, v: np.ndarray, sizes: Sequence[int], key: str, fact: str
) -> Iterable[Finding]:
    blocks = Handed(k, v, sizes)
    got = subject.run(q, blocks.lent())
    yield agrees(subject, got, attend_one(q, k, v), key=key, fact=fact)
    left = "every block is asked for, until None comes"
    yield counts(subject, blocks.given, len(sizes), key=f"{key} blocks", fact=left)


@stage("one block", why="With one block nothing has to shrink: it is the softmax that you know.")
def one_block(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for tokens, width in ((1, 3), (7, 5), (5, 2)):
        fact = f"one block of {tokens} keys of width {width} gives the weighted values"
        yield from _ask(subject, *_rows(rng, tokens, width), [tokens], f"one of {tokens}", fact)


@stage(
    "many blocks", weight=2, why="Each larger score shrinks what was summed before it, the sum and the values alike."
)
def many_blocks(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    # The block with the largest score comes in the middle, then last, then first.
    for name, scores in (
        ("up and down", [0.2, 1.0, -0.7, 2.5, 0.8, 1.7, -0.2, 0.5, 1.4, 0.7, -0.1]),
        ("rising", [-1.0, 0.3, -0.4, 0.8, 1.1, 0.6, 2.3, 1.9, 2.9, 2.2, 3.1]),
        ("falling", [3.0, 2.6, 2.1, 1.2, 1.5, 0.9, 0.4, -0.3, 0.1, -0.8, -1.3]),
    ):
        noise = rng.uniform(-0.05, 0.05, size=11)
        case = _with_scores(rng, np.array(scores) + noise, 5)
        yield from _ask(subject, *case, [2, 4, 1, 3, 1], name, f"{name} scores in five blocks are one attention")
    yield from _ask(subject, *_rows(rng, 13, 7), [1] * 13, "single keys", "13 blocks of one key are one attention")


@stage("large scores", why="Scores reach hundreds. exp overflows above 709, and is 0 below -745.")
def large_scores(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for name, scores in (
        ("of -600", [-601.0, -600.0, -600.5, -602.0, -599.5]),
        ("far apart in a block", [400.0, -401.0, 401.0, -400.0, 400.5]),
        ("far above 0", [1990.0, 1992.0, 1991.0, 1993.5, 1992.5]),
        ("far below 0", [-1993.0, -1990.0, -1992.5, -1991.0, -1991.5]),
        ("falling far", [1500.0, 1499.0, -1200.0, -1201.0, -1202.0]),
        ("rising far", [-1500.0, -1499.0, 1200.0, 1201.0, 1199.0]),
        ("900 apart, rising in a block", [-451.0, 450.0, 451.0, -450.0, 450.5]),
        ("2,400 apart, rising in a block", [-1201.0, 1200.0, 1201.0, -1200.0, 1200.5]),
    ):
        case = _with_scores(rng, scores, 3)
        yield from _ask(subject, *case, [2, 2, 1], name, f"scores {name} give finite, right outputs")


@stage("nothing, and again", why="A request without tokens gives zeros. The next query starts anew, from the same q.")
def nothing_and_again(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    q, k, v = _rows(rng, 6, 4)
    kept = subject.put(q)
    for turn in ("first", "second"):
        got = subject.run(kept, Handed(k, v, [4, 2]).lent())
        yield agrees(subject, got, attend_one(q, k, v), key=turn, fact=f"the output is right the {turn} time")
        yield agrees(subject, subject.read(kept), q, key=f"q {turn}", fact="q is as it was")
    got = subject.run(q, Handed(k, v, []).lent())
    yield agrees(subject, got, np.zeros(4), key="nothing", fact="without a block the output is D zeros")


EXERCISE = Exercise(
    id="11.1",
    name="online_attend",
    title="Softmax in one pass",
    goal="Attend to keys and values that come block by block, each once.",
    points=4,
    minutes=25,
    difficulty=3,
    hints=(
        "Keep three things: the largest score so far, the sum of `exp(score - largest)`, and the sum of the values "
        "weighed with the same powers. Divide once, at the end.",
        "When a block brings a larger score, everything summed so far was measured against the old one. Multiply both "
        "sums by `exp(old - new)`, then add the block's.",
        "`new = max(m, scores.max())`; `total = total * np.exp(m - new) + powers.sum()` with "
        "`powers = np.exp(scores - new)`; the same for `acc` with `powers @ v`; `m = new`. Start with `m = -np.inf`, "
        "and give `np.zeros(len(q))` when nothing came.",
    ),
    stages=(one_block, many_blocks, large_scores, nothing_and_again),
    reference=online_attend,
    mistakes=MISTAKES,
    variants=VARIANTS,
)
