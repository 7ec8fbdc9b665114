"""Exercise 12.3: a whole server. Any policy is right that keeps the rules."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from autograde.exercise import Exercise, stage
from autograde.exercises.run_server.candidates import MISTAKES, VARIANTS
from autograde.exercises.run_server.run import Run
from autograde.exercises.run_server.world import Ask
from autograde.finding import Finding
from autograde.subject import Subject
from kvlib.server import run_server

ROOMY = (61, 4, 11)  # blocks, tokens of a block, tokens of a step
LATER = 1000  # nobody is served any more by then


@stage("one request", why="A prompt is computed, n tokens are sent, the request is closed, and its blocks go back.")
def one_request(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for p, n in ((5, 4), (3, 1), (1, 11)):
        run = Run(subject, rng, (7, 4, 11), [Ask(p, n)], with_zero=n > 4)
        yield from run.judged()
        yield from run.lean()
    yield from Run(subject, rng, (7, 4, 11), []).judged()


@stage("chunks", weight=2, why="A step takes so many tokens and no more. Long prompts take several steps.")
def chunks(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for pool, asks in (
        (ROOMY, [Ask(37, 3)]),
        (ROOMY, [Ask(4, 9), Ask(17, 2)]),
        ((61, 4, 1), [Ask(7, 3), Ask(2, 5)]),
        ((61, 4, 3), [Ask(4, 2), Ask(1, 5), Ask(3, 4), Ask(2, 6), Ask(1, 3)]),
        (ROOMY, [Ask(11, 2), Ask(22, 3), Ask(12, 5), Ask(2, 9), Ask(10, 1)]),
        (ROOMY, [Ask(2, 11), Ask(1, 13), Ask(3, 9), Ask(2, 12), Ask(1, 10), Ask(4, 14), Ask(3, 8), Ask(2, 7)]),
        ((61, 4, 97), [Ask(9, 4), Ask(9, 6, like=(0, 9)), Ask(5, 5)]),
    ):
        run = Run(subject, rng, pool, asks)
        yield from run.judged()
        yield from run.lean()


@stage("quiet", why="With nothing to do a server waits. It ends when nobody will ever come again.")
def quiet(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    asks = [Ask(5, 3), Ask(4, 2, LATER), Ask(3, 4, LATER + 1), Ask(2, 2, 2 * LATER), Ask(6, 1, 3 * LATER)]
    yield from Run(subject, rng, (6, 4, 11), asks).judged()


@stage("found again", why="What an earlier request computed is found by admit, and not computed once more.")
def found_again(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    first, again = Ask(22, 5), Ask(25, 4, LATER, (0, 22))
    run = Run(subject, rng, (31, 4, 11), [first, again, Ask(20, 3, 2 * LATER, (0, 20)), Ask(13, 6, 3 * LATER, (0, 6))])
    yield from run.judged()
    yield run.found(20 + 16 + 4)
    yield from run.lean()


@stage("mixed", weight=2, why="New ones come while others run. Neither those nor these may stand still for long.")
def mixed(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    long = [Ask(43, 3, at=4), Ask(39, 4, at=5), Ask(41, 2, at=6)]
    others = [Ask(5, 7, at=3), Ask(4, 23, at=9), Ask(31, 5, at=12), Ask(3, 6, at=20)]
    crowd = [Ask(1 + k % 3, 29) for k in range(11)]  # as many as a step has tokens
    at_any_time = [Ask(2, 53), *(Ask(3, 2, at=7 * k) for k in range(1, 8))]
    for asks in ([Ask(3, 29), Ask(4, 6), *long], [Ask(2, 45), *others], crowd, at_any_time):
        yield from Run(subject, rng, (89, 4, 11), asks).judged("news", "starved", "idle")


@stage("small pool", weight=3, why="Who does not fit waits. When a step finds no blocks, somebody gives way.")
def small_pool(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for pool, asks in (
        ((5, 4, 11), [Ask(6, 3), Ask(13, 3), Ask(9, 2), Ask(7, 1), Ask(12, 3)]),
        ((5, 4, 11), [Ask(4, 9), Ask(5, 10)]),
        ((4, 3, 11), [Ask(2, 3), Ask(15, 1), Ask(2, 20), Ask(5, 4)]),
        ((4, 3, 11), [Ask(8, 7)]),
        ((4, 3, 11), [Ask(7, 7), Ask(9, 4)]),
        ((4, 3, 11), [Ask(7, 6)]),
        ((5, 4, 17), [Ask(4, 6), Ask(4, 7), Ask(4, 5), Ask(4, 8)]),
        ((5, 3, 7), [Ask(3, 12), Ask(6, 8), Ask(2, 13), Ask(10, 5), Ask(3, 5, at=9)]),
        ((7, 4, 5), [Ask(5, 13), Ask(3, 9), Ask(6, 11), Ask(2, 15), Ask(9, 3), Ask(1, 10)]),
    ):
        run = Run(subject, rng, pool, asks)
        yield from run.judged()
        yield run.bounded()
    # There is always somebody small, and one of the first takes the whole pool.
    asks = [Ask(5, 3), Ask(5, 3), Ask(19, 4), Ask(9, 2), Ask(4, 3), *(Ask(5, 3, at=2 * k) for k in range(1, 13))]
    yield from Run(subject, rng, (6, 4, 11), asks).judged("overtaken")
    # Who gives way has many behind it. And one that waits could find blocks that another one needs.
    yield from Run(subject, rng, (6, 4, 11), [Ask(3, 18), Ask(3, 14), *[Ask(5, 3)] * 14]).judged("overtaken")
    asks = [Ask(9, 2), Ask(13, 12, LATER), Ask(12, 3, LATER, like=(0, 8))]
    yield from Run(subject, rng, (6, 4, 11), asks).judged()


@stage("aborts", weight=2, why="A client that lets go gets nothing more, and what it held is soon there for others.")
def aborts(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for pool, asks in (
        ((8, 3, 11), [Ask(7, 17, abort_made=12), Ask(17, 6, abort_at=6), Ask(10, 5), Ask(8, 6, abort_at=11)]),  # waits
        (ROOMY, [Ask(6, 7, abort_made=2), Ask(25, 5, abort_at=0), Ask(4, 5)]),  # in one list with its ask
        (ROOMY, [Ask(5, 30, abort_made=6), Ask(4, 19), Ask(3, 9, abort_made=1)]),  # while it decodes
        (ROOMY, [Ask(4, 19), Ask(47, 9, abort_at=2), Ask(3, 5)]),  # in the middle of its prompt
        (ROOMY, [Ask(3, 5, abort_made=5), Ask(5, 15), Ask(4, 1, abort_made=1)]),  # its last token was just made
        (ROOMY, [Ask(2, 4, abort_at=14), Ask(5, 25)]),  # done for long
        (ROOMY, [Ask(3, 2, abort_at=LATER), Ask(4, 3, LATER + 1)]),  # the same, and nobody is there
        (ROOMY, [Ask(4, 29, abort_at=7), Ask(5, 31, abort_at=7), Ask(3, 30, abort_at=7), Ask(2, 9)]),  # three at once
        ((8, 3, 11), [Ask(7, 17), *[Ask(17, 5, abort_at=4)] * 3, Ask(19, 4), Ask(21, 5, abort_at=4)]),  # one never fits
        ((6, 3, 11), [Ask(4, 12, abort_released=True), Ask(5, 11, abort_released=True), Ask(3, 13)]),  # gave way
    ):
        yield from Run(subject, rng, pool, asks).judged()


EXERCISE = Exercise(
    id="12.3",
    name="run_server",
    title="A server",
    goal="Serve whoever comes, from one pool and one budget of tokens, until nobody will come again.",
    points=12,
    minutes=90,
    difficulty=5,
    hints=(
        "Two lists: who waits and who runs. Of each request keep its tokens (prompt and what was made), how many of "
        "them are stored, and how many new ones are left. `tokens[stored:]` is what it needs next: one token when it "
        "decodes, more while its prompt is computed. One round: events, admit who fits, plan, step, hand out.",
        "A token counts only when nothing of `tokens[stored:]` is left after the step: append it, send it, and at the "
        "last one release and close. When `step` raises `ValueError`, release the newest that runs, set its `stored` "
        "to 0, put it first among those that wait, plan again and try again. The oldest is never thrown out.",
        "`events = desk.news() if waiting or running else desk.wait()`; with no events and nobody open: return. Admit "
        "`waiting[0]` when nobody runs, or when its blocks and those that the others still need for their tokens are "
        "free; `stored = engine.admit(i, tokens)`. An abort looks through both lists, and ignores whom it does not "
        "find. `plan_step` shares the budget out.",
    ),
    stages=(one_request, chunks, quiet, found_again, mixed, small_pool, aborts),
    reference=run_server,
    mistakes=MISTAKES,
    variants=VARIANTS,
)
