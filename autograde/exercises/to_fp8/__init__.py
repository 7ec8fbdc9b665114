"""Exercise 7.1: numbers into eight bits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from autograde.compare import as_array, number
from autograde.exercise import Exercise, stage
from autograde.exercises.e4m3 import MAGNITUDES, TIES, away_from_ties, codes_of, rounded
from autograde.exercises.to_fp8.candidates import MISTAKES, VARIANTS
from autograde.expect import agrees
from autograde.finding import Finding, held
from autograde.lazy import Later
from autograde.subject import LearnerRaised, Subject
from autograde.value import Handle

BETWEEN = 1.3 + 2.0**-11  # it and its reciprocal lie between the numbers of float16, and of bfloat16
SAME = 1e-9  # far less than the distance of any two numbers
RULE = "each number is x / scale, clamped to -448..448 and rounded to the nearest E4M3 number"


def signed(rng: np.random.Generator, values: Sequence[float]) -> np.ndarray:
    """Every value with both signs, in some order: (2 n,)."""
    return rng.permutation([*values, *(-value for value in values)])


def drawn(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers of both signs and many sizes, none larger than 300, none close to a tie."""
    sizes = rng.uniform(1.0, 2.0, shape) * 2.0 ** rng.integers(-11, 8, shape)
    sizes.flat[0] = rng.uniform(272.0, 300.0)
    return away_from_ties(sizes * rng.choice([-1.0, 1.0], shape))


def compared(subject: Subject, got: Any, x: np.ndarray, scale: np.ndarray, key: str, fact: str = RULE) -> Finding:
    """Whether these are the right numbers, all of them."""
    want = rounded(x.astype(np.float64) / scale.astype(np.float64))
    array, complaint = as_array(got, x.shape)
    if array is None:
        return Finding(False, key, complaint, events=len(subject.record))
    with np.errstate(invalid="ignore"):
        wrong = np.argwhere(~(np.abs(array - want) <= SAME))  # a NaN is wrong too
    if len(wrong) == 0:
        return held(key, fact)
    index = tuple(wrong[0].tolist())
    divisor = np.broadcast_to(scale, x.shape)[index]
    place = f"at {index if len(index) > 1 else index[0]}, x / scale = {number(x[index])} / {number(divisor)}"
    given = number(array[index]) if not np.isnan(array[index]) else "NaN"
    events = len(subject.record)
    text = f"does not hold: {fact}"
    return Finding(False, key, text, where=place, expected=number(want[index]), got=given, events=events)


def ask(
    subject: Subject, values: np.ndarray, scale: np.ndarray, key: str, dtype: str = "float32", fact: str = RULE
) -> Iterable[Finding]:
    """Asks for values * scale, over scale: every value is to be rounded as it is, and to be kept in one byte."""
    scale = scale.astype(dtype)
    x = (values * scale).astype(dtype)
    made = subject.new(x, scale)
    got = subject.read(made)
    yield compared(subject, got, x, scale, key, fact)
    yield in_codes(subject, made, got, x.shape)


def in_codes(subject: Subject, made: Handle, got: Any, shape: tuple[int, ...]) -> Finding:
    """Whether the right numbers are kept in E4M3's own codes: the same numbers in float32 are no saving."""
    fact = "the result is a torch.float8_e4m3fn tensor, one byte for each number"
    try:
        size = subject.call(made, "element_size")
        codes = subject.call(made, "view", "torch.uint8") if type(size) is int and size == 1 else None
    except LearnerRaised as error:
        if error.kind != "Misuse":
            raise
        size = codes = None
    whole = codes if isinstance(codes, np.ndarray) and codes.dtype == np.uint8 and codes.shape == shape else None
    if whole is not None and np.array_equal(whole & 127, codes_of(got)):
        return held("bytes", fact)
    given = f"{size} bytes each" if type(size) is int and size != 1 else "no tensor" if size is None else "other codes"
    events = len(subject.record)
    return Finding(False, "bytes", f"does not hold: {fact}", expected="1 byte each", got=given, events=events)


@stage("division", why="The code stores x / scale. Whoever reads it multiplies by the scale again.")
def division(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    exact = signed(rng, [number for number in MAGNITUDES if 0.5 <= number <= 60.0][::5])
    fact = "each number is x / scale; these quotients are E4M3 numbers already"
    x = exact.reshape(2, -1)  # (2, n)
    yield from ask(subject, x, np.array([[3.0]]), "scale 3", "float64", fact)
    yield from ask(subject, exact[:6].reshape(3, 2), np.array([[0.375]]), "scale 0.375", "float32", fact)


@stage("too large", weight=2, why="448 is the last number. Some builds make 448 of what lies beyond, others NaN.")
def too_large(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    largest = signed(rng, (256.0, 288.0, 352.0, 416.0, 448.0))
    fact = "448 is the largest number, and what fits is left as it is"
    yield from ask(subject, largest, np.array([0.5]), "up to 448", fact=fact)
    fact = "what lies beyond -448..448 becomes -448 or 448"
    beyond = signed(rng, (449.0, 464.0, 470.0, 500.0, 897.0, 57344.0, 1e6))
    yield from ask(subject, beyond, np.array([2.0]), "beyond", fact=fact)
    yield from ask(subject, rng.permutation([1e30, 3.0, -1e30]), np.array([0.25]), "far beyond", "float64", fact)
    ends = rng.permutation([np.inf, 1.5, -np.inf])
    yield from ask(subject, ends, np.array([2.0]), "infinite", fact="infinities become -448 and 448")


@stage("nearest number", weight=2, why="Four significant bits: a code is off by up to 6%, and cutting doubles that.")
def nearest_number(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    yield from ask(subject, drawn(rng, (3, 11)), np.array([[1.0]]), "drawn")
    fact = "halfway between two numbers, the one with the even code is taken"
    yield from ask(subject, signed(rng, TIES), np.array([0.25]), "ties", fact=fact)
    fact = "it is rounded once: this lies close to halfway, not on it"
    for key, off in (("near ties", 2.0**-10), ("nearer ties", 2.0**-13)):
        near = [tie * (1 + side * off) for tie in TIES[::3] for side in (-1, 1)]
        yield from ask(subject, signed(rng, near), np.array([2.0]), key, fact=fact)
    fact = "x and the scale are used as exactly as they are given"
    close = signed(rng, [tie * (1 + side * 2.0**-13) for tie in TIES[::3] for side in (-1, 1)])
    yield from ask(subject, close, np.array([BETWEEN]), "exact scale", fact=fact)
    fact = "numbers below 2 ** -6 go on in steps of 2 ** -9, down to 0"
    small = [step * 2.0**-11 for step in (0, 1, 3, 5, 7, 9, 13, 21)]
    yield from ask(subject, signed(rng, small), np.array([4.0]), "small", fact=fact)


@stage("one scale each", weight=2, why="A scale may belong to a head, to a token or to a channel: it has x's axes.")
def one_scale_each(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    sizes = (3, 5, 7)
    for whose, shape in (("token", (3, 5, 1)), ("head", (3, 1, 1)), ("channel", (3, 1, 7))):
        scale = 2.0 ** rng.uniform(-5, 5, shape)
        fact = f"each number is divided by the scale of its {whose}"
        yield from ask(subject, drawn(rng, sizes), scale, whose, fact=fact)
    scale = 2.0 ** rng.uniform(-5, 5, (2, 3, 5, 1))
    yield from ask(subject, drawn(rng, (2, 3, 5, 7)), scale, "four axes", "float64")
    scale = 2.0 ** rng.uniform(-5, 5, (11,))
    yield from ask(subject, drawn(rng, (11,)), scale, "one axis", "float64")


@stage("x is left alone", why="The caller still needs the numbers, and uses the scale again to read the codes.")
def left_alone(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    scale = np.array([[0.5], [4.0], [3.0]], "float32")
    x = (drawn(rng, (3, 4)) * scale).astype("float32")
    x[:, 1] = 2000.0 * scale[:, 0]
    kept, divisor = subject.put(x), subject.put(scale)
    yield compared(subject, subject.run(kept, divisor), x, scale, "first")
    yield agrees(subject, subject.read(kept), x, key="x", fact="x is as it was before the call")
    yield agrees(subject, subject.read(divisor), scale, key="scale", fact="the scale is as it was before the call")


EXERCISE = Exercise(
    id="7.1",
    name="to_fp8",
    title="Into eight bits",
    goal="Turn numbers into codes of eight bits that no build turns into NaN.",
    points=3,
    minutes=12,
    difficulty=2,
    hints=(
        "Three steps in this order: divide, clamp, cast. PyTorch has the format: `torch.float8_e4m3fn`, and the cast "
        "to it rounds to the nearest number.",
        "448 is the largest number, of the *quotient*: clamp after the division and before the cast. A cast that meets "
        "500 may give NaN, and no clamp mends a NaN.",
        "`return (x / scale).clamp(-448, 448).to(torch.float8_e4m3fn)`. The scale has as many axes as x, so it "
        "broadcasts by itself.",
    ),
    stages=(division, too_large, nearest_number, one_scale_each, left_alone),
    reference=Later("kvlib.fp8", "to_fp8"),
    mistakes=MISTAKES,
    variants=VARIANTS,
    tensors="fp8",
)
