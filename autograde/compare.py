"""Compares what came back with what is right, number by number, and says how they differ in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from autograde.value import Handle, Lent, Opaque, holds_only_numbers

CLOSE = 1e-9  # float64 arithmetic in another order
ROUNDED = 1e-5  # float32 somewhere on the way: right, and worth a remark


def tolerance(want: np.ndarray, relative: float) -> float:
    """The largest difference that counts as equal, on the scale of what is wanted."""
    return relative * max(1.0, float(np.abs(want).max(initial=0.0)))


def shape_text(shape: tuple[int, ...]) -> str:
    """(3,) or (2, 3), as NumPy writes it."""
    return str(tuple(shape))


def as_array(value: Any, shape: tuple[int, ...]) -> tuple[np.ndarray | None, str]:
    """The value as a float64 array of that shape, or None and a complaint for the learner.

    Lists and extra axes of length one are taken as they are meant.
    """
    if value is None:
        return None, f"returned {shown(value)}"
    if isinstance(value, (Opaque, Lent, Handle, str, bool, dict)):
        return None, f"returned {shown(value)}, wanted an array of shape {shape_text(shape)}"
    try:
        array = np.asarray(value if holds_only_numbers(value) else None)
    except ValueError:  # a ragged list
        array = np.asarray(None)
    if array.dtype.kind not in "iuf":
        kind = _unlike(value) if array.dtype.kind in "OUS" else f"an array of dtype {array.dtype}"
        return None, f"returned {kind}, wanted numbers of shape {shape_text(shape)}"
    if array.shape != shape:
        if array.size == 0 and 0 in shape:  # no rows: np.array([]) has lost the width
            return np.zeros(shape), ""
        if _without_ones(array.shape) != _without_ones(shape):
            return None, f"returned shape {shape_text(array.shape)}, wanted {shape_text(shape)}"
        array = array.reshape(shape)
    return array.astype(np.float64), ""


def _unlike(value: Any) -> str:
    """What NumPy makes objects of. A tuple crosses as a list."""
    return f"a list or tuple of {len(value)} unlike things" if isinstance(value, list) else "a number beyond 64 bits"


def shown(value: Any) -> str:
    """A value that is no array, in a few words."""
    if value is None:
        return "None: is a `return` missing?"
    if isinstance(value, str):
        return f"the text {value[:30]!r}"
    if isinstance(value, Lent):
        return f"the {value.name} that it was given"
    return "a dict" if isinstance(value, dict) else " ".join(str(value).split())[:60]


def _without_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size for size in shape if size != 1)


@dataclass(frozen=True)
class Difference:
    """Where an array first differs from the right one."""

    index: tuple[int, ...]
    want: float
    got: float
    largest: float  # over the whole array; nan when something is not finite


def first_difference(got: np.ndarray, want: np.ndarray, relative: float = ROUNDED) -> Difference | None:
    """The first place, in reading order, where two arrays of one shape differ, or None."""
    with np.errstate(invalid="ignore"):
        error = np.abs(got - want)
    wrong = ~(error <= tolerance(want, relative))  # a NaN is wrong too
    if not wrong.any():
        return None
    index = tuple(int(i) for i in np.argwhere(wrong)[0])
    return Difference(index, float(want[index]), float(got[index]), float(error.max()))


def rounding_note(got: np.ndarray, want: np.ndarray) -> str:
    """A remark when right values carry more rounding than float64 arithmetic leaves."""
    error = float(np.abs(got - want).max(initial=0.0))
    if error <= tolerance(want, CLOSE):
        return ""
    return f"right to {error:.0e}, as float32 would be: something on the way is not float64"


def observation(got: np.ndarray, want: np.ndarray, others: dict[str, np.ndarray] | None = None) -> str:
    """A plain fact about wrong values that points somewhere, or "". `others` names right answers to other questions."""
    if np.isnan(got).any():
        return "there is a NaN: memory that nobody wrote, 0/0, or inf - inf"
    if np.isinf(got).any():
        return "there is an infinity: an exp() that overflows, or a division by 0"
    if not got.any():
        return "every value is 0"
    for name, other in (others or {}).items():
        if other.shape == got.shape and first_difference(got, other) is None:
            return f"this is the right answer for {name}"
    nonzero = np.abs(want) > 1e-6
    if nonzero.any() and np.abs(got[~nonzero]).max(initial=0.0) < 1e-6:
        ratio = got[nonzero] / want[nonzero]
        if (
            ratio.size > 1
            and abs(float(ratio.mean()) - 1.0) > 0.01
            and np.ptp(ratio) < 1e-5 * max(1.0, abs(float(ratio.mean())))
        ):
            return f"every value is {ratio.mean():.3g} times what it should be"
    return ""


def number_pair(want: float, got: float) -> tuple[str, str]:
    """Two different numbers, with as many digits as it takes to see that they differ."""
    a, b = number(want), number(got)
    digits = 5
    while a == b and digits <= 17:
        a, b, digits = f"{want:.{digits}g}", f"{got:.{digits}g}", digits + 1
    return a, b


def number(value: float) -> str:
    """A number as a learner can read it."""
    if np.isfinite(value) and value == int(value) and abs(value) < 1e15:
        return f"{int(value)}.0" if abs(value) < 1e6 else f"{int(value)}"
    return f"{value:.4g}" if abs(value) < 1e-3 or abs(value) >= 1e6 else f"{value:.4f}"
