"""Exercise 1.2: how many positions go through the model, without and with a cache."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from autograde.exercise import Exercise, stage
from autograde.exercises.count_positions.candidates import MISTAKES, VARIANTS
from autograde.expect import equals, half
from autograde.finding import Finding
from autograde.subject import Subject
from kvlib.counts import count_positions


def _by_counting(prompt: int, new: int) -> tuple[int, int]:
    """Walk through the generation and add up what each step pushes through the model."""
    uncached = cached = 0
    for made in range(new):
        held = prompt + made
        uncached += held
        cached += held if made == 0 else 1
    return uncached, cached


def _ask(subject: Subject, prompt: int, new: int) -> Iterable[Finding]:
    got = subject.run(prompt, new)
    uncached, cached = _by_counting(prompt, new)
    call = f"count_positions({prompt}, {new})"
    if half(got, 0) is got:
        yield equals(subject, got, f"({uncached}, {cached})", key="pair", fact="two counts come back", what=call)
        return
    yield equals(subject, half(got, 1), cached, key="cached", fact="the count with a cache is right", what=call)
    yield equals(subject, half(got, 0), uncached, key="uncached", fact="the count without a cache is right", what=call)


@stage(
    "a prompt of one", why="With one token to start from, these are the row counts of the toy: 10 against 4 for n = 4."
)
def prompt_of_one(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    yield from _ask(subject, 1, 4)
    yield from _ask(subject, 1, 1)
    yield from _ask(subject, 1, int(rng.choice([7, 11, 13])))


@stage("a longer prompt", why="The prompt is pushed through once with a cache, and again at every step without one.")
def longer_prompt(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    yield from _ask(subject, int(rng.choice([11, 13, 17])), int(rng.choice([5, 7])))
    for prompt, new in ((5, 1), (4, 4), (3, 2)):
        yield from _ask(subject, prompt, new)


@stage("a real size", why="64 tokens of prompt, 1,024 new ones: this is where the factor of hundreds comes from.")
def real_size(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    yield from _ask(subject, 64, 1024)
    yield from _ask(subject, int(rng.integers(100, 200)), int(rng.integers(300, 400)))


EXERCISE = Exercise(
    id="1.2",
    name="count_positions",
    title="How many positions?",
    goal="Count the positions that go through the model to make `new` tokens after a prompt, without and with a cache.",
    points=3,
    minutes=10,
    difficulty=2,
    hints=(
        "Write down what each step pushes through the model for a prompt of 3 and 2 new tokens: "
        "3 then 4 without a cache, 3 then 1 with one.",
        "The newest token never goes through the model: nothing is made from it yet. "
        "So the step that makes new token i (from 0) sees `prompt + i` tokens.",
        "Without a cache: `prompt + (prompt + 1) + ... + (prompt + new - 1)`. With one: `prompt`, then 1 for each "
        "step after the first. A loop that adds this up is as good as a formula.",
    ),
    stages=(prompt_of_one, longer_prompt, real_size),
    reference=count_positions,
    mistakes=MISTAKES,
    variants=VARIANTS,
)
