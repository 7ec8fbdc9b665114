"""Exercise 3.5: the bytes of one quantised row."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from autograde.exercise import Exercise, stage
from autograde.exercises.quantised_row.candidates import MISTAKES, VARIANTS
from autograde.exercises.sizes import whole
from autograde.finding import Finding
from autograde.subject import Subject
from kvlib.sizing.quantised import quantised_row_bytes

ODD = (11, 13, 17, 19, 23, 29)  # heads that no group and no byte divides


def _by_packing(dim: int, bits: int, group: int, scale: int, zero: int, align: int) -> int:
    """Lay the row out: bit by bit, group by group, and then byte by byte up to where the next row may begin."""
    size, free = 0, 0
    for element in range(dim):
        if element % group == 0:
            size += scale
            size += zero
        for _bit in range(bits):
            if free == 0:
                size, free = size + 1, 8
            free -= 1
    while size % align:
        size += 1
    return size


def _ask(subject: Subject, *sizes: int) -> Finding:
    call = f"quantised_row_bytes({', '.join(map(str, sizes))})"
    fact = "the bytes of the row are right"
    return whole(subject, subject.run(*sizes), _by_packing(*sizes), key="bytes", fact=fact, call=call)


@stage("payload", why="Elements of a few bits lie one behind the other; the last byte may be filled in part.")
def payload(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    dim = int(rng.choice(ODD))
    for head_dim, bits in ((dim, 16), (5, 3), (5, 4), (dim, 4), (dim, 3), (dim, 6), (8, 1), (dim, 8), (dim, 5)):
        yield _ask(subject, head_dim, bits, head_dim, 0, 0, 1)


@stage("scales", why="Without its scale nobody can read a group: 4 bits are never 4 bits.")
def scales(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    dim = int(rng.choice(ODD))
    yield _ask(subject, 5, 4, 32, 2, 0, 1)  # the only group is not full
    yield _ask(subject, 5, 4, 4, 2, 0, 1)  # 3 bytes of payload, 2 scales
    yield _ask(subject, dim, 4, 3, 2, 0, 1)
    yield _ask(subject, dim, 3, 7, 4, 0, 1)
    yield _ask(subject, 12, 4, 3, 5, 0, 1)  # whole groups
    yield _ask(subject, dim, 8, dim, 4, 0, 1)


@stage("zero points", why="A range that does not lie around 0 needs a second number in each group.")
def zero_points(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    dim = int(rng.choice(ODD))
    yield _ask(subject, dim, 4, 4, 4, 3, 1)
    yield _ask(subject, dim, 2, 5, 3, 7, 1)
    yield _ask(subject, 12, 4, 6, 0, 2, 1)


@stage("alignment", why="Rows begin where the hardware can read them at once: the gap before the next one is paid for.")
def alignment(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    dim = int(rng.choice(ODD))
    yield _ask(subject, 24, 4, 12, 0, 2, 4)  # 12 + 4 bytes, a multiple already
    yield _ask(subject, 29, 8, 8, 2, 0, 64)  # 29 + 8 bytes
    yield _ask(subject, 13, 4, 5, 2, 2, 16)  # 7 + 12 bytes
    yield _ask(subject, 13, 4, 5, 2, 2, 48)
    yield _ask(subject, 5, 4, 4, 2, 0, 6)
    yield _ask(subject, 13, 4, 5, 2, 1, 4)
    yield _ask(subject, dim, 4, 8, 2, 0, 64)
    yield _ask(subject, dim, 3, 4, 4, 3, 12)


@stage("real rows", why="From 16 bits to 4 with a scale for every 32 elements, a row shrinks 3.56 times, not 4.")
def real_rows(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    yield _ask(subject, 128, 4, 32, 2, 0, 1)
    yield _ask(subject, 128, 4, 64, 2, 1, 16)
    yield _ask(subject, 128, 8, 128, 4, 0, 1)
    yield _ask(subject, 80, 2, 32, 2, 2, 8)
    yield _ask(subject, 128, 16, 128, 0, 0, 1)


EXERCISE = Exercise(
    id="3.5",
    name="quantised_row_bytes",
    title="Four bits are not four bits",
    goal="Count the bytes of one quantised row: payload, scales, zero points, and the gap behind it.",
    points=3,
    minutes=10,
    difficulty=2,
    hints=(
        "Three amounts: the packed elements, what each group needs besides, and the gap up to the next multiple of "
        "`align`. Round up in each of them, at different places.",
        "`-(-a // b)` is a / b rounded up, for whole numbers. You need it for the bytes of all elements together, and "
        "for the number of groups.",
        "`size = -(-head_dim * bits // 8) + -(-head_dim // group_size) * (scale_bytes + zero_bytes)`, and then "
        "`-(-size // align) * align`.",
    ),
    stages=(payload, scales, zero_points, alignment, real_rows),
    reference=quantised_row_bytes,
    mistakes=MISTAKES,
    variants=VARIANTS,
)
