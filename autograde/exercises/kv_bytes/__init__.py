"""Exercise 3.1: the bytes of a plain cache."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from autograde.exercise import Exercise, stage
from autograde.exercises.kv_bytes.candidates import MISTAKES, VARIANTS
from autograde.exercises.sizes import primes, whole
from autograde.finding import Finding
from autograde.subject import Subject
from kvlib.sizing.kv import kv_bytes


def _by_adding(layers: int, heads: int, dim: int, lengths: list[int], width: int) -> int:
    """Add up what each sequence puts into each layer."""
    total = 0
    for _ in range(layers):
        for length in lengths:
            total += length * heads * dim * width  # its keys
            total += length * heads * dim * width  # its values
    return total


def _ask(subject: Subject, *sizes: Any) -> Finding:
    call = f"kv_bytes({', '.join(map(str, sizes))})"
    got = subject.run(*sizes)
    return whole(subject, got, _by_adding(*sizes), key="bytes", fact="the bytes of K and V are right", call=call)


@stage("one token", why="Bytes per token is the number that everything else in sizing is made of.")
def one_token(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    layers, heads, dim = primes(rng, 3)
    yield _ask(subject, layers, heads, dim, [1], 4)
    yield _ask(subject, dim, layers, heads, [1], 2)


@stage("one sequence", why="The cache grows by the same number of bytes with every token.")
def one_sequence(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    layers, heads, dim, length = primes(rng, 4)
    yield _ask(subject, layers, heads, dim, [length], 4)
    yield _ask(subject, 2, 2, 4, [3], 2)  # the one to count by hand


@stage("unequal lengths", why="Each sequence takes what its own tokens take, whatever the others do.")
def unequal_lengths(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    layers, heads, dim = primes(rng, 3)
    longest = int(rng.choice([13, 29]))
    yield _ask(subject, layers, heads, dim, [7, 3, 7, longest], 4)  # two alike; the mean is not whole
    yield _ask(subject, layers, heads, dim, [longest, 5, 2], 2)
    yield _ask(subject, layers, heads, dim, [1, 2], 2)


@stage("eight bits", why="An FP8 or INT8 cache has one byte for each element.")
def eight_bits(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    layers, heads, dim, length = primes(rng, 4)
    for width in (1, 4, 8):
        yield _ask(subject, layers, heads, dim, [length, 2], width)


@stage("nothing to hold", why="A server between two requests holds no token, and nothing may break.")
def nothing_to_hold(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    layers, heads, dim = primes(rng, 3)
    yield _ask(subject, layers, heads, dim, [0, 5], 2)
    yield _ask(subject, layers, heads, dim, [], 2)
    yield _ask(subject, layers, heads, dim, [0], 2)


@stage(
    "large", why="A real cache has more bytes than 32 bits can count, and a byte too few is an allocation that fails."
)
def large(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    yield _ask(subject, 80, 8, 128, [32_768], 2)
    odd = 10**11 + 2 * int(rng.integers(1, 1000)) + 1
    yield _ask(subject, 127, 131, 251, [odd], 1)  # more than a float holds exactly


EXERCISE = Exercise(
    id="3.1",
    name="kv_bytes",
    title="The formula",
    goal="Count the bytes of the keys and values that a batch of sequences keeps.",
    points=3,
    minutes=10,
    difficulty=1,
    hints=(
        "Count by hand first: 2 layers, 2 KV heads of 4 elements, 3 tokens, 2 bytes each. "
        "One layer holds 24 elements of K. What else does it hold?",
        "Six factors: K and V, layers, KV heads, elements of a head, tokens, bytes of an element. "
        "For several sequences, tokens means all tokens of all of them together.",
        "`2 * num_layers * num_kv_heads * head_dim * sum(seq_lens) * bytes_per_element`. "
        "Only whole numbers are multiplied, so nothing is ever rounded.",
    ),
    stages=(one_token, one_sequence, unequal_lengths, eight_bits, nothing_to_hold, large),
    reference=kv_bytes,
    mistakes=MISTAKES,
    variants=VARIANTS,
)
