"""Exercise 3.2: "80 GB" and "24 GiB", in bytes."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import ROUND_HALF_EVEN, Decimal

import numpy as np

from autograde.exercise import Exercise, stage
from autograde.exercises.scalars import refused
from autograde.exercises.size_in_bytes.candidates import MISTAKES, VARIANTS
from autograde.exercises.sizes import primes, whole
from autograde.finding import Finding
from autograde.subject import Subject
from kvlib.sizing.units import size_in_bytes

SMALL = ("1.5 GB", "0.5 KiB", "1.7 KiB", "1.1 KiB")  # up and down, where a byte more or less can be told apart
ROUNDED = ("0.3 MiB", "2.7 MiB", "1.001 KB", "12.345 GiB", "2.5 TB")  # none lies half-way between two bytes
REFUSED = (
    ("5 PB", "a unit that is not in the table"),
    ("5 GX", "a unit that is not in the table"),
    ("5 Gb", "a gigabit"),
    ("5 gib", "a unit in other letters"),
    ("80", "a number without a unit"),
    ("GB", "a unit without a number"),
    ("five GB", "a word for the number"),
    ("", "an empty text"),
    ("-3 GB", "a negative size"),
    ("-0.5 KiB", "a negative size"),
    ("5 G", "a unit without its B"),
    ("5 Ki", "a unit without its B"),
    ("5 iB", "a unit without its letter"),
    ("5 kB", "a unit in other letters"),
    ("5 GBs", "a unit with a letter too many"),
    ("5 GB 7", "a size and something else"),
)


def _by_steps(number: str, unit: str) -> int:
    """Step down from unit to unit, in decimal arithmetic, which drops no digit."""
    size, steps = Decimal(number), "BKMGT".index(unit[0])
    for _ in range(steps):
        size *= 1024 if "i" in unit else 1000
    return int(size.quantize(Decimal(1), rounding=ROUND_HALF_EVEN))


def _ask(subject: Subject, text: str) -> Finding:
    fact = "the number of bytes is right"
    return whole(
        subject, subject.run(text), _by_steps(*text.split()), key="bytes", fact=fact, call=f'size_in_bytes("{text}")'
    )


@stage("decimal units", why="Data sheets and clouds count in thousands: a GB is 10**9 bytes.")
def decimal_units(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    yield _ask(subject, "80 GB")
    for number, unit in zip(primes(rng, 5), ("KB", "MB", "GB", "TB", "B"), strict=True):
        yield _ask(subject, f"{number} {unit}")


@stage("binary units", why="Allocators count in powers of two: a GiB is 2**30 bytes, 7% more than a GB.")
def binary_units(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    yield _ask(subject, "24 GiB")
    for number, unit in zip(primes(rng, 4), ("KiB", "MiB", "GiB", "TiB"), strict=True):
        yield _ask(subject, f"{number} {unit}")


@stage("decimal points", why="Sizes are often written with a point, and half a byte does not exist.")
def decimal_points(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for text in (*SMALL, *rng.permutation(ROUNDED)):
        yield _ask(subject, str(text))
    for text in ("0 B", "0.0 GiB"):  # nothing is a size too
        yield _ask(subject, text)


@stage("what is no size", why="A guess here becomes a plan that is wrong by a factor of 8, or of a thousand.")
def no_size(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    first, second = primes(rng, 2)
    yield _ask(subject, f"{first} GB")
    yield _ask(subject, f"{second} KiB")
    for text, what in REFUSED:
        yield refused(subject, text, key=text, what=f'"{text}", {what},')
    yield _ask(subject, f"{second} MB")


EXERCISE = Exercise(
    id="3.2",
    name="size_in_bytes",
    title="GB is not GiB",
    goal='Turn a size such as "80 GB" or "24 GiB" into bytes, and refuse what is no size.',
    points=2,
    minutes=10,
    difficulty=2,
    hints=(
        "A dict from unit to bytes says it all: nine entries. Four of them are powers of 1000, four of 1024.",
        "`number, unit = text.split()` gives two texts, and raises `ValueError` by itself when there are not two. "
        "`float(number)` does so for a word. What does a dict raise for a key that it lacks?",
        "`if unit not in UNITS: raise ValueError(...)`, then `size = float(number)`, refuse it if `size < 0`, and "
        "return `round(size * UNITS[unit])`. `int(...)` instead of `round(...)` would cut.",
    ),
    stages=(decimal_units, binary_units, decimal_points, no_size),
    reference=size_in_bytes,
    mistakes=MISTAKES,
    variants=VARIANTS,
)
