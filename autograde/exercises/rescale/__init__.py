"""Exercise 7.6: larger keys and values, and the same output to the last bit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from autograde.compare import as_array, number_pair, shown
from autograde.exercise import Exercise, stage
from autograde.exercises.rescale.candidates import MISTAKES, VARIANTS
from autograde.exercises.scalars import refused
from autograde.finding import Finding, held
from autograde.lazy import Later
from autograde.subject import Subject
from autograde.value import Handle

WIDTH, H, HKV, D = 7, 6, 2, 5
BIASES = {"q_bias": H * D, "k_bias": HKV * D, "v_bias": HKV * D, "o_bias": WIDTH}


def _weights(rng: np.random.Generator, *more: str) -> dict[str, np.ndarray]:
    """One layer's weights in float32, as nn.Linear keeps them, and the named ones besides."""
    sizes: dict[str, tuple[int, ...]] = {"q": (H * D, WIDTH), "k": (HKV * D, WIDTH), "v": (HKV * D, WIDTH)}
    sizes |= {"o": (WIDTH, H * D)} | {name: (BIASES.get(name, WIDTH),) for name in more}
    return {name: rng.normal(size=size).astype(np.float32) for name, size in sizes.items()}


def _right(name: str, weight: np.ndarray, key_power: int, value_power: int) -> np.ndarray:
    """What becomes of one weight: each number of it moved by so many powers of two, by hand."""
    steps = {"k": key_power, "q": -key_power, "v": value_power, "o": -value_power}
    power = 0 if name == "o_bias" else steps.get(name.removesuffix("_bias"), 0)
    factor = 1.0
    for _ in range(abs(power)):
        factor = factor * 2 if power > 0 else factor / 2
    return weight.astype(np.float64) * factor


def _judge(subject: Subject, got: Any, weights: Mapping[str, np.ndarray], powers: tuple[int, int]) -> Iterable[Finding]:
    """Whether each weight came back exactly as it should."""
    asked = f"key_power {powers[0]}, value_power {powers[1]}"
    events = len(subject.record)
    if not isinstance(got, dict):
        yield Finding(False, "dict", f"returned {shown(got)}, wanted a dict of tensors", where=asked, events=events)
        return
    for name, weight in weights.items():
        fact = f'"{name}" is what it should be, to the last bit'
        if name not in got:
            given = ", ".join(got)[:60] or "an empty dict"
            yield Finding(False, name, f'"{name}" is missing', where=asked, expected=name, got=given, events=events)
            return
        want = _right(name, weight, *powers)
        array, complaint = as_array(got[name], want.shape)
        if array is not None and isinstance(got[name], np.ndarray) and got[name].ndim != want.ndim:
            array, complaint = None, f"returned shape {got[name].shape}, wanted {want.shape}"
        if array is None:
            yield Finding(False, name, f'"{name}": {complaint}', where=asked, events=events)
            return
        if not np.array_equal(array, want):
            index = tuple(int(i) for i in np.argwhere(~(array == want))[0])
            expected, given = number_pair(float(want[index]), float(array[index]))
            clue = _clue(array, weight)
            text = f"does not hold: {fact}" + (f"; {clue}" if clue else "")
            where = f"{asked}, {name}[{', '.join(map(str, index))}]"
            yield Finding(False, name, text, where=where, expected=expected, got=given, events=events)
            return
        yield held(name, fact)
    more = [name for name in got if name not in weights]
    if more:
        fact = f'"{more[0]}" is in your dict, and not in the one that came in'
        yield Finding(False, "more", fact, where=asked, expected=", ".join(weights)[:60], got=more[0], events=events)


def _clue(array: np.ndarray, weight: np.ndarray) -> str:
    """By how much it was multiplied, if by one number."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = array / weight
    if np.isfinite(ratios).all() and np.ptp(ratios) <= 1e-4 * abs(float(ratios.mean())):
        ratio = float(ratios.mean())
        return "it is as it was" if abs(ratio - 1) < 1e-6 else f"it is {ratio:.4g} times what it was"
    return ""


def _ask(subject: Subject, weights: Mapping[str, np.ndarray], key_power: int, value_power: int) -> Iterable[Finding]:
    powers = (key_power, value_power)
    yield from _judge(subject, subject.run(dict(weights), *powers), weights, powers)


@stage("keys", why="A score is q times k: keys 2**a times as large need queries 2**a times as small.")
def keys(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for power in (3, 5):
        yield from _ask(subject, _weights(rng), power, 0)


@stage("values", why="An output is o applied to values: values 2**b times as large need o 2**b times as small.")
def values(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for power in (3, 5):
        yield from _ask(subject, _weights(rng), 0, power)


@stage(
    "both, up and down", why="The two powers are independent, and may be negative: then the cache gets smaller numbers."
)
def both(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for powers in ((2, 5), (-3, 4), (6, -10), (-7, -1), (0, 0), (33, -21)):
        weights = _weights(rng)
        for weight in weights.values():
            weight[-1] = 0.0
        yield from _ask(subject, weights, *powers)


@stage("biases and the rest", why="A bias is part of a key. What comes after attention is not.", weight=2)
def biases(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    yield from _ask(subject, _weights(rng, "q_bias", "k_bias", "v_bias"), 3, -2)
    yield from _ask(subject, _weights(rng, "o_bias", "k_bias"), -4, 5)
    yield from _ask(subject, _weights(rng, "norm1", "down", "q_norm"), 2, 7)
    yield from _ask(subject, _weights(rng, "k_norm", "v_scale", "o_norm", "down_bias", "gate_bias"), -3, 4)


@stage("whole powers", why="2**0.5 is not exact: the output would change in its last bits, and nobody could say why.")
def whole_powers(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    weights = _weights(rng)
    kept = {name: subject.put(weight) for name, weight in weights.items()}
    yield from _ask(subject, weights, 1, 2)
    for powers in ((0.75, 1), (2, -1.5), (2.25, 0.75)):
        what = f"key_power {powers[0]}, value_power {powers[1]}"
        yield refused(subject, kept, *powers, key=what, what=what)
        yield from _stay(subject, kept, weights)
    yield from _ask(subject, weights, -1, 3)


@stage("the weights stay", why="The model as it was is still needed, to compare with.")
def the_weights_stay(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    weights = _weights(rng, "k_bias", "norm1")
    kept = {name: subject.put(weight) for name, weight in weights.items()}
    for powers in ((3, -4), (3, -4)):
        yield from _judge(subject, subject.run(kept, *powers), weights, powers)
        yield from _stay(subject, kept, weights)
    given = subject.new(kept, 0, 0)  # the dict that one call returns is passed to the next
    yield from _judge(subject, subject.read(given), weights, (0, 0))
    yield from _judge(subject, subject.run(given, 3, -4), weights, (3, -4))
    left = subject.read(given)
    names, numbers = (list(left), left.values()) if isinstance(left, dict) else ([], [])
    same = names == list(weights) and all(map(np.array_equal, numbers, weights.values()))
    fact, events = "the dict that was passed in has the same tensors under the same names", len(subject.record)
    if same:
        yield held("dict stays", fact)
        return
    wanted, found = ", ".join(weights), ", ".join(names)
    yield Finding(False, "dict stays", f"does not hold: {fact}", expected=wanted, got=found, events=events)


def _stay(subject: Subject, kept: Mapping[str, Handle], weights: Mapping[str, np.ndarray]) -> Iterable[Finding]:
    """Whether the caller's tensors are as they were."""
    for name, handle in kept.items():
        got = subject.read(handle)
        same = isinstance(got, np.ndarray) and np.array_equal(got, weights[name])
        fact = f'the tensor "{name}" that was passed in is as it was'
        events = len(subject.record)
        yield held("stays", fact) if same else Finding(False, "stays", f"does not hold: {fact}", events=events)


EXERCISE = Exercise(
    id="7.6",
    name="rescale",
    title="Other numbers, same answer",
    goal="Make a layer cache larger or smaller keys and values without changing one bit of its output.",
    points=3,
    minutes=12,
    difficulty=2,
    tensors=True,
    hints=(
        "A score is a sum of q times k. If every k is doubled, what must happen to q for the score to stay?",
        "The values are multiplied by weights that sum to 1, then by `o`. So `v` goes up and `o` goes down. A bias is "
        "scaled like what it is added to. `o_bias` is added when `o` has taken the factor back already.",
        "Powers: k and k_bias `a`, q and q_bias `-a`, v and v_bias `b`, o `-b`, all others 0. Build a new dict with "
        "`weight * 2.0 ** power`, and refuse a power that is not an `int`.",
    ),
    stages=(keys, values, both, biases, whole_powers, the_weights_stay),
    reference=Later("kvlib.rescale", "rescale"),
    mistakes=MISTAKES,
    variants=VARIANTS,
)
