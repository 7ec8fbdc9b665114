"""Exercise 1.3: a cache for the toy, one token at a time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from autograde.exercise import Exercise, stage
from autograde.exercises.meter import meter
from autograde.exercises.oracle import decode_outputs
from autograde.exercises.toy_cache.candidates import MISTAKES, VARIANTS
from autograde.expect import Trace, counts, equals
from autograde.finding import Finding
from autograde.subject import Subject
from kvlib.counters import Projection
from kvlib.toy import ToyCache


@dataclass
class Case:
    """Tokens, metered projections and the right outputs."""

    X: np.ndarray
    query: Projection
    key: Projection
    value: Projection
    outputs: np.ndarray

    @property
    def projections(self) -> tuple[Projection, Projection, Projection]:
        return self.query, self.key, self.value


def make_case(rng: np.random.Generator, tokens: int, width: int = 4, head_dim: int = 3) -> Case:
    w_q, w_k, w_v = rng.uniform(-1, 1, size=(3, width, head_dim))  # small scores: no key drowns the others
    X = rng.uniform(-1.5, 1.5, size=(tokens, width))
    if tokens > 5:
        X[5] = X[1]  # a token that comes twice counts twice
    meters = (meter(w_q, "project_q"), meter(w_k, "project_k"), meter(w_v, "project_v"))
    return Case(X, *meters, decode_outputs(X, w_q, w_k, w_v))


def drive(subject: Subject, case: Case) -> Trace:
    """A new cache, and one step for each token."""
    trace = Trace(subject, subject.new(*case.projections), "step")
    for x in case.X:
        trace.call(x)
    return trace


@stage("first token", why="The first token sees only itself, so its output is its own value.")
def first_token(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    case = make_case(rng, tokens=1)
    yield drive(subject, case).agree(case.outputs, key="output", fact="the first output is the first value")


@stage(
    "every step", weight=2, why="Each output must equal attention over all tokens so far, computed anew from scratch."
)
def every_step(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    case = make_case(rng, tokens=7)
    yield drive(subject, case).agree(case.outputs, key="output", fact="every output equals full recomputation")


@stage("rows computed", weight=2, why="Right numbers are not enough: each key and value row may be computed once only.")
def rows_computed(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    case = make_case(rng, tokens=7)
    trace, rows = Trace(subject, subject.new(*case.projections), "step"), []
    for x in case.X:
        trace.call(x)
        rows.append(tuple(projection.rows for projection in case.projections))
    yield trace.agree(case.outputs, key="output", fact="every output equals full recomputation")
    for i, name in ((1, "project_k"), (2, "project_v"), (0, "project_q")):
        for step, counted in enumerate(rows, start=1):
            fact = f"each step sends one token through {name}"
            where = f"after step {step}"
            yield counts(subject, counted[i], step, key=name, fact=fact, where=where, seen=rows[-1])


@stage(
    "two caches",
    why="A second cache, begun while the first is in use, must know nothing of it: each counts its own tokens.",
)
def two_caches(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    long, short = make_case(rng, tokens=13), make_case(rng, tokens=3, width=2, head_dim=5)
    one = subject.new(*long.projections)
    first = Trace(subject, one, "step", axis="first cache, step")
    for x in long.X[:2]:
        first.call(x)
    other = subject.new(*short.projections)
    second = Trace(subject, other, "step", axis="second cache, step")
    lengths = [(subject.length(other), 0)]
    for x in short.X:
        second.call(x)
        lengths += [(subject.length(one), 2), (subject.length(other), len(second.values))]
    for x in long.X[2:]:
        first.call(x)
    yield second.agree(short.outputs, key="second", fact="the second cache starts empty")
    yield first.agree(long.outputs, key="first", fact="the first cache goes on where it was")
    lengths += [(subject.length(handle), len(trace.values)) for handle, trace in ((one, first), (other, second))]
    for got, want in lengths:
        yield equals(subject, got, want, key="length", fact="len(cache) is the number of tokens held")


EXERCISE = Exercise(
    id="1.3",
    name="ToyCache",
    title="The cache",
    goal="Keep keys and values, so that each step projects only its newest token.",
    points=6,
    minutes=20,
    difficulty=3,
    hints=(
        "What does step 3 need that step 2 already had? Make two empty lists in `__init__`, on `self`.",
        "In `step`: project the newest token to `q`, `k` and `v`; append `k` and `v`; then attend with `q` over "
        "everything kept. The newest token sees itself, so append before you attend.",
        "The last line is `return attend(q, np.array(self.keys), np.array(self.values))`, and `__len__` is "
        "`len(self.keys)`. No loop is needed, and no projection of an old token.",
    ),
    stages=(first_token, every_step, rows_computed, two_caches),
    reference=ToyCache,
    mistakes=MISTAKES,
    variants=VARIANTS,
)
