"""Exercise 3.8: memory or arithmetic, whichever takes longer."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from autograde.exercise import Exercise, stage
from autograde.exercises.roofline.candidates import MISTAKES, VARIANTS
from autograde.exercises.scalars import close, comes_as, exactly, parts
from autograde.finding import Finding
from autograde.subject import Subject
from kvlib.sizing.roofline import roofline

NAMES = ("intensity", "ridge", "seconds", "binds")


def _ask(subject: Subject, *case: int) -> Iterable[Finding]:
    got = subject.run(*case)
    call = f"roofline({', '.join(map(str, case))})"
    yield comes_as(subject, got, NAMES, key="four", what=call)
    intensity, ridge, seconds, binds = parts(got, 4)
    flops, moved, peak, bandwidth = case
    computing, moving = flops / peak, moved / bandwidth
    longer = moving if moving > computing else computing
    fact = "the intensity is FLOP for each byte moved"
    yield close(subject, intensity, flops / moved, key="intensity", fact=fact, what=call)
    fact = "the ridge is FLOP that can be done while one byte is moved"
    yield close(subject, ridge, peak / bandwidth, key="ridge", fact=fact, what=call)
    fact = "both must be over, moving and computing"
    yield close(subject, seconds, longer, key="seconds", fact=fact, what=call)
    want, fact = "memory" if moving > computing else "compute", "what takes longer binds"
    yield exactly(subject, binds, want, key="binds", fact=fact, what=call)


# The numbers are small, so that all three results are of a size and none hides in the rounding of another.
@stage("more to move than to compute", why="Below the ridge the arithmetic waits for bytes.")
def memory_binds(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    yield from _ask(subject, int(rng.choice([5, 7])), 13, 17, 29)
    yield from _ask(subject, 23, int(rng.choice([41, 43])), 11, 2)
    yield from _ask(subject, int(rng.choice([31, 37])), 11, 19, 3)


@stage("more to compute than to move", why="Above the ridge the bytes are there in time.")
def compute_binds(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    yield from _ask(subject, int(rng.choice([97, 101])), 7, 13, 5)
    yield from _ask(subject, int(rng.choice([61, 67])), 37, 3, 11)


@stage("a real GPU", why="989 TFLOP/s and 3.35 TB/s: decode lies far below the ridge, a long prompt above it.")
def real_gpu(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    peak, bandwidth = 989 * 10**12, 3_350 * 10**9
    yield from _ask(subject, 2 * 8 * 10**9, 16 * 10**9 + 131_072 * int(rng.integers(1_000, 9_000)), peak, bandwidth)
    yield from _ask(subject, 2 * 8 * 10**9 * int(rng.integers(2_000, 4_000)), 16 * 10**9, peak, bandwidth)
    yield from _ask(subject, 4 * 4_096, 4 * 4_097, peak, bandwidth)


EXERCISE = Exercise(
    id="3.8",
    name="roofline",
    title="Memory or arithmetic?",
    goal="Say how long a piece of work must take on a GPU, and which of its two limits decides that.",
    points=3,
    minutes=10,
    difficulty=2,
    hints=(
        "There are two times: the arithmetic at full speed, and the bytes at full speed. Both run at once.",
        "Intensity and ridge are both in FLOP per byte: the first is a property of the work, the second of the GPU. "
        "Compare them to see which limit binds.",
        "`flops / bytes_moved`, `peak_flops / bandwidth`, `max(flops / peak_flops, bytes_moved / bandwidth)`, and "
        '`"memory"` when the intensity lies below the ridge.',
    ),
    stages=(memory_binds, compute_binds, real_gpu),
    reference=roofline,
    mistakes=MISTAKES,
    variants=VARIANTS,
)
