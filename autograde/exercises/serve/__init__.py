"""Exercise 6.8: the scheduler of a pool of blocks. Any policy is right that keeps the rules and wastes little."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from autograde.exercise import Exercise, stage
from autograde.exercises.serve.candidates import MISTAKES, VARIANTS
from autograde.exercises.serve.run import Run
from autograde.finding import Finding
from autograde.subject import Subject
from kvlib.serve import serve

MOST_WORK = 5  # times what has to be computed once: sensible orders need 1 to 3 in pools that are far too small
TOO_LARGE = ((14, 14), (20, 3), (2, 21), (8, 7), (7, 7), (13, 1))  # for 4 blocks of 3: first by far, then by a token


@stage("one request", why="A request of p prompt tokens and n new ones: a start, n - 1 steps, and its blocks go back.")
def one_request(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for p, n in ((5, 4), (3, 1), (1, 7)):
        run = Run(subject, rng, 7, 4, [(p, n)])
        yield from run.judged()
    yield from Run(subject, rng, 7, 4, [], run.engine.requests).judged()  # by another model: other tokens
    yield from Run(subject, rng, 23, 4, [(2, 80)]).judged()


@stage("together", why="All fit: one step makes a token for each, and whoever is ready leaves while the others go on.")
def together(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for num_blocks, sizes in (
        (29, [(3, 3), (6, 8), (2, 3), (5, 3), (4, 1), (6, 11, 1)]),
        (29, [(2, 12), (7, 2), (3, 13), (1, 11), (5, 14)]),
        (101, [(2, 25)] * 11),
    ):
        run = Run(subject, rng, num_blocks, 4, sizes)
        yield from run.judged()
        yield run.made()
        yield run.computed(1)
        yield run.together()
    yield from Run(subject, rng, 5, 4, []).judged()


@stage("waiting", why="Not all fit at once: who does not fit waits until others have given their blocks back.")
def waiting(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    # Nobody outgrows the blocks of the prompt here. The second run ends with one that takes the whole pool.
    for sizes in ([(6, 4), (3, 3), (9, 2), (7, 1), (12, 3), (6, 5)], [(1, 5), (6, 2), (2, 3), (17, 1), (8, 3)]):
        yield from Run(subject, rng, 4, 5, sizes).judged()
    yield from Run(subject, rng, 2, 64, [(64, 60), (100, 1)]).judged()  # one has all of it for a long time


@stage("growing", weight=2, why="Requests grow. When a step does not fit, somebody has to stop, and to go on later.")
def growing(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    yield from Run(subject, rng, 5, 4, [(4, 9), (4, 9)]).judged()
    yield from Run(subject, rng, 4, 3, [(3, 7), (2, 5), (3, 8), (3, 9)]).judged()
    yield from Run(subject, rng, 5, 3, [(3, 12), (6, 8), (2, 13), (3, 5, 0)]).judged()
    yield from Run(subject, rng, 7, 4, [(5, 13), (3, 9), (6, 11), (2, 15), (9, 3), (1, 10)]).judged()


@stage("never", why="The last new token is never stored: p + n - 1 tokens have to fit. Who never fits must not wait.")
def never(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    yield from Run(subject, rng, 4, 3, [(7, 6), (2, 3), (12, 1)]).judged()
    for p, n in TOO_LARGE:
        yield from Run(subject, rng, 4, 3, [(2, 3), (p, n), (5, 4)]).judged()
    yield from Run(subject, rng, 3, 7, [(15, 8), (15, 7), (2, 3)]).judged()
    yield from Run(subject, rng, 5, 2, [(11, 1), (3, 9), (3, 8), (9, 2), (2, 4)]).judged()


@stage("work", why="Blocks that lie idle while somebody waits, and tokens made twice, are what users wait for.")
def work(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for run in (
        Run(subject, rng, 11, 3, [(4, 11), (3, 9), (7, 8), (2, 15), (5, 12), (1, 10), (8, 4), (6, 13)]),
        Run(subject, rng, 13, 4, [(7, 30), (14, 3), (13, 3), (15, 2), (14, 2), (13, 4)]),
        Run(subject, rng, 13, 4, [(4, 40), *[(5, 4)] * 6]),  # full when it starts, and soon no longer
        Run(subject, rng, 13, 4, [(15, 14), (17, 12), (14, 15), (16, 13)]),
    ):
        yield from run.judged()
        yield run.made()
        yield run.computed(MOST_WORK)
        yield run.busy()


EXERCISE = Exercise(
    id="6.8",
    name="serve",
    title="Who runs, and who waits",
    goal="Serve many requests from a pool that is too small for all of them at once.",
    points=7,
    minutes=40,
    difficulty=5,
    hints=(
        "Two lists: who waits and who runs, and for each request the tokens made so far. One round: start those that "
        "wait as long as the first of them fits (`free_blocks()`), then one `step` for all that run, then `stop` those "
        "that have their n tokens. Before the first round, sort out what can never fit.",
        "`start` makes a token too: it may be the last one. When `step` raises `ValueError`, nothing was stored: take "
        "one request out of those that run, `stop` it, put it first among those that wait, and step again. It starts "
        "later with `prompt + made[i]`, and the token that comes is its next one.",
        "`try: tokens = engine.step(running)`; `except ValueError: i = running.pop(); engine.stop(i); "
        "waiting.insert(0, i); continue`. Otherwise `for i, token in zip(running, tokens): made[i].append(token)`, "
        "then `stop` the finished ones and build a new list `running` from the others. It can fit when "
        "`-(-(p + n - 1) // block_size) <= num_blocks`.",
    ),
    stages=(one_request, together, waiting, growing, never, work),
    reference=serve,
    mistakes=MISTAKES,
    variants=VARIANTS,
)
