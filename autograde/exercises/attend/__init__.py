"""Exercise 1.1: attention for one query."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from autograde.exercise import Exercise, stage
from autograde.exercises.attend.candidates import MISTAKES, VARIANTS
from autograde.exercises.oracle import attend_one
from autograde.expect import agrees
from autograde.finding import Finding
from autograde.subject import Subject
from kvlib.attention import attend


def _case(rng: np.random.Generator, tokens: int, width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Spread keys far enough apart that every wrong scale shows."""
    return rng.normal(size=width), 2.0 * rng.normal(size=(tokens, width)), rng.normal(size=(tokens, width))


@stage("one key", why="With one key the softmax is 1, so the output is that key's value, unchanged.")
def one_key(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    q, K, V = _case(rng, tokens=1, width=2)
    got = subject.run(q, K, V)
    yield agrees(subject, got, V[0], key="value", fact="with one key the output is its value")


@stage("seven keys", why="The output is the mean of the value rows, weighted by softmax(q K^T / sqrt(D)).")
def seven_keys(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    q, K, V = _case(rng, tokens=7, width=2)
    got = subject.run(q, K, V)
    yield agrees(subject, got, attend_one(q, K, V), key="output", fact="seven keys of width 2 give the weighted values")


@stage("inputs untouched", why="Keys and values are used again at the next step: they must not be changed here.")
def inputs_untouched(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    arrays = _case(rng, tokens=3, width=2)
    kept = [subject.put(array) for array in arrays]
    got = subject.run(*kept)
    yield agrees(subject, got, attend_one(*arrays), key="output", fact="three keys of width 2 give the weighted values")
    for name, handle, array in zip("qKV", kept, arrays, strict=True):
        yield agrees(subject, subject.read(handle), array, key=name, fact=f"{name} is as it was before the call")


@stage(
    "another width", why="The scale is sqrt(D) for the D at hand, not the square root of 2 or of the number of keys."
)
def another_width(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for tokens, width in ((3, 5), (13, 3)):
        q, K, V = _case(rng, tokens, width)
        K[2], K[1] = K[0], 0.0  # two equal keys, and one of zeros: each still counts
        fact = f"{tokens} keys of width {width} give the weighted values"
        yield agrees(subject, subject.run(q, K, V), attend_one(q, K, V), key="output", fact=fact)


EXERCISE = Exercise(
    id="1.1",
    name="attend",
    title="Attention for one query",
    goal="Given one query, all keys and all values, return the attention output of that query.",
    points=3,
    minutes=10,
    difficulty=2,
    hints=(
        "Three lines: scores, weights, output. `K @ q` gives one score for each row of `K`.",
        "Divide the scores by the square root of the width of `q` (`len(q)`), then take the softmax: "
        "`np.exp(scores)` divided by its sum.",
        "The output is `weights @ V`: each value row times its weight, added up. Its shape is that of one value row.",
    ),
    stages=(one_key, seven_keys, inputs_untouched, another_width),
    reference=attend,
    mistakes=MISTAKES,
    variants=VARIANTS,
)
