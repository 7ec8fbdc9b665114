"""Exercise 3.7: what one decode step must read, and how long that takes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from autograde.exercise import Exercise, stage
from autograde.exercises.decode_step.candidates import MISTAKES, VARIANTS
from autograde.exercises.scalars import close, comes_as, parts
from autograde.finding import Finding
from autograde.subject import Subject
from kvlib.sizing.roofline import decode_step

NAMES = ("bytes_read", "seconds", "tokens_per_second")


def _by_reading(weights: int, per_token: int, lens: list[int], bandwidth: int) -> tuple[float, float, float]:
    """Read the weights, then every cache token by token, and look at the clock."""
    read = weights
    for held in lens:
        for _ in range(held):
            read += per_token
    return float(read), read / bandwidth, len(lens) * bandwidth / read


def _ask(subject: Subject, *case: Any) -> Iterable[Finding]:
    got = subject.run(*case)
    call = f"decode_step({', '.join(map(str, case))})"
    yield comes_as(subject, got, NAMES, key="triple", what=call)
    facts = (
        "the step reads all weights once and every cache once",
        "the seconds are the bytes over the bandwidth",
        "the step makes one token for each sequence",
    )
    for name, fact, value, want in zip(NAMES, facts, parts(got, 3), _by_reading(*case), strict=True):
        yield close(subject, value, want, key=name, fact=fact, what=call)


# The numbers are small, so that all three results are of a size and none hides in the rounding of another.
@stage("one sequence", why="Weights once, its cache once, and the new token comes after the last byte.")
def one_sequence(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    yield from _ask(subject, int(rng.choice([83, 89, 97])), 3, [int(rng.choice([7, 11]))], 17)
    yield from _ask(subject, 19, 5, [int(rng.choice([23, 29]))], int(rng.choice([31, 37])))


@stage("a batch", why="Sequences share the weights but not the caches, and each of them gets a token.")
def a_batch(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    lens = [int(n) for n in rng.permutation([3, 5, 11])]
    yield from _ask(subject, int(rng.choice([61, 67, 71])), 2, lens, 23)
    yield from _ask(subject, 53, 3, [5, int(rng.choice([13, 17])), 5, 7, 2], 41)


@stage("an empty cache", why="A sequence that has just come reads no cache, and gets a token like the others.")
def empty_cache(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    yield from _ask(subject, int(rng.choice([43, 47])), 5, [7, 0, 13], 29)
    yield from _ask(subject, int(rng.choice([59, 61])), 5, [0], 7)


@stage("a real GPU", why="Billions of bytes, thousandths of a second: the same three lines.")
def real_gpu(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    yield from _ask(subject, 16 * 10**9, 131_072, [4_096], 2 * 10**12)
    yield from _ask(subject, 26_031_738_880, 819_200, [1_024] * 64, 3_350_000_000_000)
    lens = [int(n) for n in rng.integers(500, 3_000, size=8)]
    yield from _ask(subject, 22_675_456_000, 163_840, lens, 3_350_000_000_000)


EXERCISE = Exercise(
    id="3.7",
    name="decode_step",
    title="One decode step",
    goal="Work out what one decode step must read, and the least time that takes.",
    points=3,
    minutes=12,
    difficulty=2,
    hints=(
        "Follow the bytes, not the arithmetic. What does the GPU have to fetch before it can give every sequence its "
        "next token?",
        "The weights are fetched once for the whole batch; that is why batching pays. The caches are not shared: "
        "add up the lengths.",
        "`bytes_read = weight_bytes + kv_bytes_per_token * sum(seq_lens)`, divided by the bandwidth for the seconds. "
        "In those seconds `len(seq_lens)` tokens are made.",
    ),
    stages=(one_sequence, a_batch, empty_cache, real_gpu),
    reference=decode_step,
    mistakes=MISTAKES,
    variants=VARIANTS,
)
