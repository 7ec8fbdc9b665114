"""Exercise 9.3: a cache that keeps the rows that were looked at most."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from autograde.exercise import Exercise, stage
from autograde.exercises.heavy_hitters.candidates import MISTAKES, VARIANTS
from autograde.exercises.heavy_hitters.driven import Run
from autograde.finding import Finding
from autograde.lazy import Later
from autograde.subject import Subject

SMALL = (6, 2, 3)  # H, Hkv, D
# What the texts must tell from the right rule, so that a mistake shows where it is asked for.
SINGLE = frozenset({"own", "first head", "group", "ever", "row 0", "less recent", "more recent"})
CHUNK = frozenset({"fresh", "last query", "step mean", "less recent", "more recent"})


@stage("nothing goes", why="Up to the budget it is attention with a cache, and nothing is forgotten.")
def nothing_goes(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    run = Run(subject, rng, 7, 3, [1] * 7)
    yield run.empty()
    yield from run.all()


@stage("one by one", weight=2, why="With each new token, each KV head lets go of the row it needs least.")
def one_by_one(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    yield from Run(subject, rng, 7, 3, [1] * 21, telling=SINGLE).all()


@stage("chunks", weight=2, why="All queries of a chunk count, each sees what is held, and several rows go at once.")
def chunks(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    yield from Run(subject, rng, 7, 2, [4, 3, 2, 3, 4, 1, 2], SMALL, CHUNK).all()
    yield from Run(subject, rng, 5, 2, [2, 3, 3, 3, 3], SMALL).all()


@stage("long prompts", why="A prompt is attended to in full; only then does the budget count.")
def long_prompts(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for sizes in ([13, 1, 1, 1], [2, 11, 1]):
        yield from Run(subject, rng, 5, 2, sizes, SMALL).all()


@stage("other sizes", why="A budget of recent tokens only is a window; with none of them safe, all go by their totals.")
def other_sizes(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    yield from Run(subject, rng, 4, 0, [3, 2, 1, 1, 1, 4], SMALL).all()
    yield from Run(subject, rng, 3, 3, [2, 2, 1, 1, 5], SMALL).all()
    yield from Run(subject, rng, 4, 1, [3, 1, 1, 1, 4, 1], (3, 3, 4)).all()
    yield from Run(subject, rng, 5, 2, [4, 1, 1, 1, 3, 1], (4, 1, 3)).all()


@stage("memory", why="The point of a budget: what went takes no room, however long the text grows.")
def memory(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for budget, recent, sizes in ((4, 2, [1] * 13), (4, 2, [17, 1, 1]), (4, 2, [7] * 3), (3, 3, [11, 2])):
        run = Run(subject, rng, budget, recent, sizes, SMALL)
        for _ in sizes:
            yield from run.step()
            yield run.memory()
        yield run.left()


@stage("reused tensors", why="A real decoder writes the next keys into the same memory, and serves other texts too.")
def reused_tensors(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    run, other = Run(subject, rng, 6, 2, [3, 2, 2, 1, 1], SMALL), Run(subject, rng, 6, 2, [4, 4], SMALL)
    yield from other.step()
    yield other.left()
    for _ in run.chunks:
        yield from run.reusing()
        yield run.left()
    yield from other.step()
    yield other.left()


EXERCISE = Exercise(
    id="9.3",
    name="HeavyHitters",
    title="What was looked at stays",
    goal="Hold a budget of rows for each KV head: the newest, and of the others those that got most attention.",
    points=6,
    minutes=30,
    difficulty=4,
    hints=(
        "A step has four parts: put the new rows behind the old ones, attend over all of them, add the weights to the "
        "totals, and let rows go. Rows, totals and positions of a head are cut together.",
        "For one KV head: `weights` is (G, T, n), from the G query heads that read it. What is held is older than the "
        "chunk, so query t sees the columns up to n - T + t. `totals += weights.sum(dim=(0, 1))`. The newest rows are "
        "the last columns, if you keep the order of time.",
        "`old = n - recent` columns may go: drop `int(totals[:old].argmin())` until `budget` rows are left. Or at "
        "once: set the totals of the last `recent` columns to infinity, take `topk(budget).indices.sort().values`, and "
        "index rows, totals and positions with it.",
    ),
    stages=(nothing_goes, one_by_one, chunks, long_prompts, other_sizes, memory, reused_tensors),
    reference=Later("kvlib.heavy_hitters", "HeavyHitters"),
    mistakes=MISTAKES,
    variants=VARIANTS,
    tensors=True,
)
