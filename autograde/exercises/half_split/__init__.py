"""Exercise 10.1: the rows of q and k, from pairs of neighbours to halves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from autograde.exercise import Exercise, stage
from autograde.exercises.half_split.candidates import MISTAKES, VARIANTS
from autograde.exercises.scalars import refused
from autograde.expect import agrees
from autograde.finding import Finding
from autograde.lazy import Later
from autograde.subject import Subject

RULE = "in each head, row 2i goes to row i, and row 2i + 1 to row i + D/2"


def _halves(weight: np.ndarray, D: int) -> np.ndarray:
    """Row by row."""
    out = np.full(weight.shape, np.nan)
    for first in range(0, len(weight), D):
        for i in range(D // 2):
            out[first + i] = weight[first + 2 * i]
            out[first + i + D // 2] = weight[first + 2 * i + 1]
    return out


def _weight(rng: np.random.Generator, rows: int, width: int) -> np.ndarray:
    return rng.uniform(0.5, 2.0, (rows, width)) * rng.choice([-1.0, 1.0], (rows, width))


def _ask(subject: Subject, rng: np.random.Generator, heads: int, D: int, width: int) -> Finding:
    """One weight, with a clue of the row that stands there."""
    weight = _weight(rng, heads * D, width)
    want, got = _halves(weight, D), subject.run(weight, D)
    where = f"{heads * D} rows, head_dim {D}"
    finding = agrees(subject, got, want, key=where, fact=RULE, columns="column", exact=True)
    if finding.ok:
        return finding
    return replace(
        finding, where=f"{where}, {finding.where}".removesuffix(", "), fact=finding.fact + _clue(got, weight, want)
    )


def _clue(got: object, weight: np.ndarray, want: np.ndarray) -> str:
    """Which row came where another should be."""
    if not isinstance(got, np.ndarray) or got.shape != weight.shape or got.dtype.kind != "f":
        return ""
    row = next((row for row in range(len(got)) if not np.allclose(got[row], want[row])), None)
    came = [old for old in range(len(weight)) if row is not None and np.allclose(got[row], weight[old])]
    return f"; row {row} holds what was row {came[0]}" if came else ""


@stage("one head", weight=2, why="In one head: the firsts of all pairs, then the seconds.")
def one_head(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for D, width in ((6, 5), (10, 7), (8, 3)):
        yield _ask(subject, rng, 1, D, width)


@stage("all heads", weight=2, why="Rows stay in their head. A model has as many heads for k as KV heads, so fewer.")
def all_heads(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for heads, D, width in ((3, 6, 5), (2, 8, 7), (5, 2, 3), (7, 12, 4)):
        yield _ask(subject, rng, heads, D, width)


@stage("refusals", why="With a wrong head dim some numbers still fit, and the model talks nonsense.")
def refusals(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    yield _ask(subject, rng, 3, 6, 2)
    for rows, D in ((14, 6), (16, 12), (6, 8), (15, 5), (9, 3), (12, 3), (9, 6), (14, 7), (4, 1)):
        what = f"{rows} rows, head_dim {D}"
        yield refused(subject, _weight(rng, rows, 3), D, key=what, what=what)
    yield _ask(subject, rng, 2, 10, 3)


@stage("left alone", why="The weights of the file are still needed: to compare, and for others who read it.")
def left_alone(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    weight = _weight(rng, 18, 4)
    kept = subject.put(weight)
    for time in ("first", "second"):
        got = subject.run(kept, 6)
        yield agrees(subject, got, _halves(weight, 6), key=f"{time} time", fact=RULE, columns="column", exact=True)
        fact = "the weight that was passed in is as it was"
        yield agrees(
            subject, subject.read(kept), weight, key=f"weight, {time}", fact=fact, columns="column", exact=True
        )


EXERCISE = Exercise(
    id="10.1",
    name="half_split",
    title="Neighbours and halves",
    goal="Put the rows of a checkpoint's q and k weights into the order in which the rotary code pairs them.",
    points=3,
    minutes=12,
    difficulty=2,
    hints=(
        "Write down the six rows of one head, 0 to 5. The pairs are (0, 1), (2, 3), (4, 5). In which order must they "
        "stand, so that pair i is at rows i and i + 3?",
        "Give each thing an axis of its own: `weight.reshape(heads, D // 2, 2, width)`. Which two axes change places?",
        "Refuse first: `head_dim % 2 or weight.shape[0] % head_dim`. Then `pairs = weight.reshape(-1, head_dim // 2, "
        "2, weight.shape[1])` and `pairs.transpose(1, 2).reshape(weight.shape)`.",
    ),
    stages=(one_head, all_heads, refusals, left_alone),
    reference=Later("kvlib.smollm2", "half_split"),
    mistakes=MISTAKES,
    variants=VARIANTS,
    tensors=True,
)
