"""Exercise 4.6: make a published style of cache lose a token without any exception."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from autograde.compare import shown
from autograde.exercise import Exercise, stage
from autograde.exercises.find_the_bug.candidates import MISTAKES, VARIANTS
from autograde.exercises.find_the_bug.model import Run, append_all
from autograde.finding import Finding, held
from autograde.subject import Subject
from kvlib.find_the_bug import breaking_chunks


def _ask(subject: Subject, max_len: int) -> Iterable[Finding]:
    """Append the learner's chunks to the model of the cache, and say what became of them."""
    got = subject.run(max_len)
    chunks, complaint = _sizes(got)
    where, events = f"breaking_chunks({max_len})", len(subject.record)
    if complaint:
        fact = f"does not hold: {complaint}"
        yield Finding(False, complaint, fact, where, "a list of ints", shown(got), events=events)
        return
    run = append_all(max_len, chunks)
    if run.raised:
        fact = f"chunk {run.chunk} of {len(chunks)} raises, so the loss is noticed; {run.raised}"
        yield Finding(False, "an exception", fact, where, "no exception", shown(got), events=events)
        return
    yield held("an exception", "every chunk goes in without an exception")
    if run.lost == 0:
        fact = f"nothing is lost: {_plural(run.appended, 'token')} appended, and all of them are in the {max_len} rows"
        yield Finding(False, "a loss", fact, where, "a lost token", shown(got), events=events)
        return
    yield held("a loss", _summary(run))


def _sizes(got: Any) -> tuple[list[int], str]:
    """The sizes in a list, a tuple or an array of whole numbers; for anything else no sizes, and what is wrong."""
    if isinstance(got, np.ndarray) and got.ndim == 1 and got.dtype.kind in "iu":
        got = got.tolist()
    if not isinstance(got, list):
        return [], "a list comes back"
    sizes = [item.item() if isinstance(item, np.ndarray) and item.shape == () else item for item in got]
    if all(type(item) is int for item in sizes):
        return sizes, ""
    numbers = all(type(item) in (int, float) for item in sizes)
    return [], "the sizes are whole numbers (ints)" if numbers else "the list holds numbers, one for each chunk"


def _summary(run: Run) -> str:
    return f"{_plural(run.appended, 'token')} appended without an exception, {_plural(run.lost, 'token')} lost"


def _plural(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


@stage("room for eight", why="No exception and a token less: the text goes on, and is subtly wrong.", weight=2)
def room_for_eight(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    yield from _ask(subject, 8)


@stage("other sizes", why="You have found the bug when you can show it in a cache of any size.")
def other_sizes(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    sizes = [12, 7, 16, 9, *(int(size) for size in rng.choice([11, 13, 17, 19, 23, 29], 2, replace=False))]
    for max_len in sizes:
        yield from _ask(subject, max_len)


@stage("small and large", why="Room for one token, or for a whole prompt: the bug is the same.")
def small_and_large(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for max_len in (1, 2, 3, 4, 5, int(rng.choice([127, 131, 137])), 1024):
        yield from _ask(subject, max_len)


EXERCISE = Exercise(
    id="4.6",
    name="breaking_chunks",
    title="Find the bug",
    goal="Make a cache that looks right lose a token, without any exception.",
    points=4,
    minutes=15,
    difficulty=3,
    hints=(
        "Try it: make a `MinimalCache` with room for 8 and append what you like. When does it raise, when not? "
        "Compare `cache.used` with the number of rows that come back.",
        "Past the end, the slice has fewer rows than the chunk. torch raises when it cannot spread the chunk's rows "
        "over those of the slice. Which number of rows can be spread over any number, even over none?",
        "Fill the cache exactly, in one chunk or several. Then append a chunk of one token.",
    ),
    stages=(room_for_eight, other_sizes, small_and_large),
    reference=breaking_chunks,
    mistakes=MISTAKES,
    variants=VARIANTS,
)
