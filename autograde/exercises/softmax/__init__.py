"""Exercise 0.1: the softmax of each row."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from autograde.exercise import Exercise, stage
from autograde.exercises.oracle import softmax_rows
from autograde.exercises.softmax.candidates import MISTAKES, VARIANTS
from autograde.expect import agrees
from autograde.finding import Finding
from autograde.subject import Subject
from kvlib.attention import softmax


@stage("one row", why="Weights come from exp(), and are divided by their sum.")
def one_row(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    scores = rng.normal(size=(1, 5))
    got = subject.run(scores)
    yield agrees(
        subject, got, softmax_rows(scores), key="row", fact="one row of scores gives its softmax", columns="column"
    )


@stage("each row by itself", why="Every row belongs to another query: no row may change another.")
def rows_apart(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for shape in ((3, 5), (5, 2)):
        scores = rng.normal(size=shape) + np.linspace(-3.0, 2.0, shape[0])[:, None]
        want, fact = softmax_rows(scores), "each row gives its own softmax"
        yield agrees(subject, subject.run(scores), want, key="rows", fact=fact, columns="column")


@stage(
    "large scores", why="exp(1000) overflows; scores may be moved by a constant before exp() without changing anything."
)
def large_scores(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    small = np.round(64 * rng.normal(size=(2, 3))) / 64  # so that float32 holds the large scores exactly too
    scores = small + np.array([[1000.0], [-1000.0]])
    scores = np.vstack([scores, [-1000.0, 0.0, 1000.0], [1000.0, -1000.0, -1000.0], [3000.0, 3001.0, 2999.0]])
    got = subject.run(scores)
    yield agrees(
        subject,
        got,
        softmax_rows(scores),
        key="large",
        fact="scores of a thousand, up and down, stay finite and right",
        columns="column",
    )


@stage("input untouched", why="The caller may still need the scores.")
def input_untouched(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    scores = np.round(64 * rng.normal(size=(2, 5))) / 64 + np.array([[0.0], [700.0]])
    kept = subject.put(scores)
    got = subject.run(kept)
    yield agrees(subject, got, softmax_rows(scores), key="weights", fact="the weights are right", columns="column")
    yield agrees(
        subject,
        subject.read(kept),
        scores,
        key="input",
        fact="the scores are as they were before the call",
        columns="column",
    )


EXERCISE = Exercise(
    id="0.1",
    name="softmax",
    title="Softmax, row by row",
    goal="Turn each row of scores into weights that are positive and sum to 1.",
    points=2,
    minutes=5,
    difficulty=1,
    hints=(
        "The softmax of one row `r` is `np.exp(r) / np.exp(r).sum()`. What does `.sum()` add up when there are "
        "two rows?",
        "`.sum(axis=-1, keepdims=True)` adds up each row by itself and keeps the shape `(T, 1)`, which divides "
        "row by row.",
        "For large scores, subtract the largest score *of each row* before `np.exp`: "
        "`scores - scores.max(axis=-1, keepdims=True)`. This makes a new array, so the caller's scores stay as "
        "they are.",
    ),
    stages=(one_row, rows_apart, large_scores, input_untouched),
    reference=softmax,
    mistakes=MISTAKES,
    variants=VARIANTS,
)
