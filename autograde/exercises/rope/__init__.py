"""Exercise 5.2: queries and keys turned to their positions."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from autograde.exercise import Exercise, stage
from autograde.exercises.axes import named
from autograde.exercises.oracle_gqa import rope_rows
from autograde.exercises.rope.candidates import MISTAKES, VARIANTS
from autograde.expect import agrees
from autograde.finding import Finding
from autograde.lazy import Later
from autograde.subject import Subject

RULE = "every pair (i, i + D/2) is turned by position * base ** (-2i/D)"
B, H = 2, 3
AXES = ("sequence", "head", "token", "feature")


def rows(rng: np.random.Generator, T: int, D: int) -> np.ndarray:
    """x (B, H, T, D), no number of it near 0."""
    return rng.uniform(0.5, 2.0, (B, H, T, D)) * rng.choice([-1.0, 1.0], (B, H, T, D))


def ask(subject: Subject, x: np.ndarray, positions: Iterable[int], base: float, key: str, fact: str = RULE) -> Finding:
    """Whether x is turned right."""
    positions = np.array([*positions], dtype=np.int64)
    got = subject.run(x, positions, base)
    return named(agrees(subject, got, rope_rows(x, positions.tolist(), base), key=key, fact=fact), AXES)


@stage("one pair", why="With D = 2 there is one pair, and it is turned by the position itself, in radians.")
def one_pair(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    fact = "with D = 2, the row at position p is turned by p radians"
    yield ask(subject, rows(rng, 2, 2), range(2), 100.0, "two tokens", fact)


@stage("every pair", weight=2, why="Each pair has a speed of its own: the first turns fastest, the last most slowly.")
def every_pair(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    yield ask(subject, rows(rng, 5, 8), range(5), 100.0, "D = 8")
    yield ask(subject, rows(rng, 4, 6), range(4), 10000.0, "another base")


@stage("absolute positions", weight=2, why="A chunk's tokens stand where they stand in the whole text.")
def absolute_positions(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    start = int(rng.integers(5, 9))
    yield ask(subject, rows(rng, 4, 6), range(start, start + 4), 50.0, "a chunk")
    yield ask(subject, rows(rng, 1, 6), (start + 4,), 50.0, "one more token")
    yield ask(subject, rows(rng, 5, 6), (start, 3, 19, 3, 33), 50.0, "gaps", "each row is turned to its own position")
    later = range(start + 6, start + 10)
    yield ask(subject, rows(rng, 4, 6), later, 50.0, "a later chunk", f"{RULE}, in a second chunk of that size too")
    yield ask(subject, rows(rng, 2, 2), (4097, 70001), 50.0, "far along", "positions have no end")


@stage("x is left alone", why="The caller may need the rows as they were, and turn them to other positions.")
def x_is_left_alone(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    x, positions = rows(rng, 3, 4), np.arange(2, 5)
    kept, where = subject.put(x), subject.put(positions)
    want = rope_rows(x, positions.tolist(), 20.0)
    yield named(agrees(subject, subject.run(kept, where, 20.0), want, key="first", fact=RULE), AXES)
    yield named(agrees(subject, subject.read(kept), x, key="x", fact="x is as it was before the call"), AXES)
    fact = "the positions are as they were before the call"
    yield agrees(subject, subject.read(where), positions, key="positions", fact=fact, columns="token")


EXERCISE = Exercise(
    id="5.2",
    name="rope",
    title="Turned to their positions",
    goal="Turn each pair of numbers of a query or a key by an angle that its absolute position gives.",
    points=3,
    minutes=15,
    difficulty=3,
    hints=(
        "One angle for each token and each pair: (T, D/2). The positions give the rows, `base ** (-2i/D)` for i from 0 "
        "to D/2 - 1 the columns; `positions[:, None] * steps` makes the table.",
        "Split x into two halves, `a, b = x[..., :half], x[..., half:]`. A pair (a, b) turned by an angle is "
        "(a cos - b sin, a sin + b cos). The table broadcasts over B and H by itself.",
        "`steps = base ** (-torch.arange(half, dtype=x.dtype) / half)`, `angles = positions[:, None] * steps`, "
        "`cos, sin = angles.cos(), angles.sin()`, then "
        "`return torch.cat((a * cos - b * sin, a * sin + b * cos), dim=-1)`.",
    ),
    stages=(one_pair, every_pair, absolute_positions, x_is_left_alone),
    reference=Later("kvlib.rope", "rope"),
    mistakes=MISTAKES,
    variants=VARIANTS,
    tensors=True,
)
