"""Exercise 7.2: scales for a tensor, its heads, its tokens or its channels."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np

from autograde.compare import number_pair
from autograde.exercise import Exercise, stage
from autograde.exercises.axes import named
from autograde.exercises.positions import as_numbers
from autograde.exercises.scales.candidates import MISTAKES, VARIANTS
from autograde.expect import agrees, refuses
from autograde.finding import Finding, held
from autograde.lazy import Later
from autograde.subject import Subject

HKV, S, D = 3, 5, 7
AXES = ("head", "token", "channel")
RULES = {
    "tensor": "there is one scale: the largest |x| of all, over 448",
    "head": "each head has one scale: its largest |x|, over 448",
    "token": "each token of each head has one scale: its largest |x|, over 448",
    "channel": "each channel of each head has one scale: its largest |x|, over 448",
}
EXACT = 1e-5  # of a scale; float32 is exact enough, two-byte formats are not


def right_scales(x: np.ndarray, per: str) -> np.ndarray:
    """Number by number: every |x| is held against the largest so far of those that share its scale."""
    heads, tokens, channels = x.shape
    largest: dict[tuple[int, ...], float] = {}
    for h, s, d in itertools.product(range(heads), range(tokens), range(channels)):
        owner = {"tensor": (0, 0, 0), "head": (h, 0, 0), "token": (h, s, 0), "channel": (h, 0, d)}[per]
        largest[owner] = max(largest.get(owner, 0.0), abs(float(x[h, s, d])))
    shape = tuple(max(owner[axis] for owner in largest) + 1 for axis in range(3))
    values = [largest[owner] / 448 if largest[owner] > 0 else 1.0 for owner in itertools.product(*map(range, shape))]
    return np.array(values).reshape(shape)


def drawn(rng: np.random.Generator, shape: tuple[int, ...] = (HKV, S, D), sign: float = -1.0) -> np.ndarray:
    """Numbers of both signs with scales from 1 to 4, and one larger number of this sign, not at the very ends."""
    x = rng.uniform(448.0, 4 * 448.0, shape) * rng.choice([-1.0, 1.0], shape)
    x[tuple(rng.integers((1, 1, 0), (*shape[:2], shape[2] - 1)))] = sign * rng.uniform(4.1, 4.4) * 448
    return x


def judged(subject: Subject, got: Any, x: np.ndarray, per: str, key: str) -> Finding:
    """Whether these are the scales, in the shape that broadcasts to x; each is compared by its own size."""
    want, array = right_scales(x, per), as_numbers(got)
    events = len(subject.record)
    fact, before = RULES[per], f'"{per}"'
    if array is None or array.dtype.kind not in "iuf" or array.shape != want.shape:
        given = "no tensor" if array is None else f"{array.dtype} of {array.shape}"
        text = f"the scales broadcast to x: for {before} and x of {x.shape} their shape is {want.shape}"
        seen = None if array is None else array.shape  # a record takes (3, 7) for (3, 1, 7)
        return Finding(False, key, text, where=before, expected=str(want.shape), got=given, events=events, seen=seen)
    with np.errstate(invalid="ignore"):
        wrong = np.argwhere(~(np.abs(array.astype(np.float64) - want) <= EXACT * want))
    if len(wrong) == 0:
        return held(key, fact)
    index = tuple(wrong[0].tolist())
    if want[index] == 1.0:  # no scale of drawn numbers is
        fact = "where everything is zero the scale is 1"
    expected, given = number_pair(float(want[index]), float(array[index]))
    given = given if np.isfinite(array[index]) else str(array[index])
    place = ", ".join(f"{name} {i}" for name, i, size in zip(AXES, index, want.shape, strict=True) if size > 1)
    where = ", ".join(part for part in (before, place) if part)
    return Finding(False, key, f"does not hold: {fact}", where=where, expected=expected, got=given, events=events)


def at_ends(rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Numbers whose largest lie at one end of one axis: whatever leaves an end out misses all of them."""
    for axis, end in itertools.product(range(3), (0, -1)):
        x = drawn(rng)
        np.moveaxis(x, axis, 0)[end] *= 7.0
        x.flat[0] = x.flat[-1] = 448.0  # the very first and last number alone are another matter
        yield x


def ask(subject: Subject, x: np.ndarray, per: str, key: str = "") -> Finding:
    """Asks for the scales of x."""
    return judged(subject, subject.run(x, per), x, per, key or per)


@stage("one for all", why="The largest number, of either sign, must land on 448, the last E4M3 number.")
def one_for_all(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    yield ask(subject, drawn(rng), "tensor")
    yield ask(subject, drawn(rng, (2, 3, 11), sign=1.0), "tensor", "another shape")
    for x in at_ends(rng):
        yield ask(subject, x, "tensor", "at an end")


@stage("each head, each token", weight=2, why="One large row should not take the range away from all others.")
def heads_and_tokens(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    x = drawn(rng)
    yield ask(subject, x, "head")
    yield ask(subject, x, "token")
    x = drawn(rng, (2, 11, 3))
    yield ask(subject, x, "token", "more tokens")
    yield ask(subject, drawn(rng, (2, 11, 3))[:, :1], "head", "one token")
    for x in at_ends(rng):
        yield ask(subject, x, "head", "at an end")
        yield ask(subject, x, "token", "at an end")


@stage("each channel", weight=2, why="Keys often have a few channels that are always large.")
def channels(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    yield ask(subject, drawn(rng), "channel")
    yield ask(subject, drawn(rng, (2, 11, 3)), "channel", "more tokens")
    for x in at_ends(rng):
        yield ask(subject, x, "channel", "at an end")


@stage("zeros", weight=2, why="0 / 0 is NaN, and padding, or a head that is off, is nothing but zeros.")
def zeros(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    x = drawn(rng)
    x[1], x[0, 2], x[2, :, 4] = 0.0, 0.0, 0.0  # a head, a token, a channel
    x[2, 1, 5], x[0, 3, 3] = 0.0, -0.0
    yield ask(subject, np.zeros((2, 3, 4)), "tensor", "nothing but zeros")
    for per in RULES:
        yield ask(subject, x, per)


@stage("small and large", why="Scales are floats: they reach as far as the numbers do.")
def small_and_large(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    x = drawn(rng, (2, 3, 5))
    yield ask(subject, x * 1e-3, "tensor", "small")
    yield ask(subject, (x * 1e-7).astype("float32"), "head", "very small")
    yield ask(subject, (x * 1e20).astype("float32"), "channel", "very large")
    yield ask(subject, x * 10.0 ** np.array([[[-7.0], [0.0], [9.0]]]), "token", "side by side")
    for per in RULES:
        for name, factor in (("tiny", 1e-30), ("huge", 1e30)):
            yield ask(subject, (x * factor).astype("float32"), per, f"{name}, {per}")


@stage("another word", why="A misspelt word that means something else by accident costs an afternoon.")
def another_word(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    x = drawn(rng)
    yield ask(subject, x, "token")
    for word in ("half", "heads", "row", "tokens", "chan", "tensors"):
        what = f'per = "{word}"'
        yield refuses(subject, None, "", x, word, key=word, what=what, after=partial(subject.run, x, word))
    yield ask(subject, x, "channel")


@stage("x is left alone", why="The caller is about to divide these very numbers.")
def left_alone(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    x = drawn(rng)
    x[0, 2], x[1, 3, 3] = 0.0, 0.0
    kept = subject.put(x)
    for per in RULES:
        yield judged(subject, subject.run(kept, per), x, per, per)
        finding = agrees(subject, subject.read(kept), x, key=f"x, {per}", fact="x is as it was before the call")
        yield named(finding, AXES, f'"{per}"')


EXERCISE = Exercise(
    id="7.2",
    name="scales",
    title="Who shares a scale",
    goal="Find the scales that stretch a tensor, each head, each token or each channel to the range of E4M3.",
    points=4,
    minutes=15,
    difficulty=2,
    hints=(
        "The four differ only in the axes along which you look for the largest |x|. For a channel of a head, for "
        "example, that is the axis of the tokens.",
        "`x.abs().amax(dim=..., keepdim=True)` looks along several axes at once and leaves them there with length 1, "
        "so that the result broadcasts to x. Then divide by 448, and think of a row of zeros.",
        '`dims = {"tensor": (0, 1, 2), "head": (1, 2), "token": (2,), "channel": (1,)}`, a `ValueError` for a word '
        "that is not in it, `s = x.abs().amax(dims[per], keepdim=True) / 448`, `return torch.where(s > 0, s, 1.0)`.",
    ),
    stages=(one_for_all, heads_and_tokens, channels, zeros, small_and_large, another_word, left_alone),
    reference=Later("kvlib.fp8", "scales"),
    mistakes=MISTAKES,
    variants=VARIANTS,
    tensors=True,
)
