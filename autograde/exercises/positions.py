"""Keys and values that came back with positions: in what shape, and which column belongs to which position."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from autograde.compare import as_array, shown
from autograde.finding import Finding, held
from autograde.subject import LearnerRaised, Subject
from autograde.value import Handle, holds_only_numbers

NO_TOKEN = -1
NOT_WHOLE = -2  # stands for whatever is no position: 1.5, NaN, an infinity


def as_numbers(value: Any) -> np.ndarray | None:
    """What came back as an array; nested lists are as good. None for what holds no numbers."""
    if isinstance(value, list) and holds_only_numbers(value):
        try:
            return np.asarray(value)
        except ValueError:  # a ragged list
            return None
    return value if isinstance(value, np.ndarray) else None


def three_parts(got: Any, shape: tuple[int, int, int], rows: tuple[int, ...]) -> list[np.ndarray] | None:
    """K and V (B, Hkv, S, D) and positions (*rows, S) of what `append` gave, or None. shape: (B, Hkv, D)."""
    found = [as_numbers(part) for part in got] if isinstance(got, list) and len(got) == 3 else []
    parts = [part for part in found if part is not None]
    if len(parts) != 3:
        return None
    S = parts[2].size // math.prod(rows)
    B, Hkv, D = shape
    sizes: list[tuple[int, ...]] = [(B, Hkv, S, D), (B, Hkv, S, D), (*rows, S)]
    arrays = [as_array(part, size)[0] for part, size in zip(parts, sizes, strict=True)]
    right = [array for array in arrays if array is not None]
    return right if len(right) == 3 else None


def shapes_of(got: Any) -> str:
    """What came back instead of three parts, in a few words."""
    parts = [as_numbers(part) for part in got] if isinstance(got, list) and 0 < len(got) < 9 else []
    shapes = [str(part.shape) for part in parts if part is not None]
    return f"shapes {', '.join(shapes)}" if shapes and len(shapes) == len(parts) else shown(got)


def unchanged(subject: Subject, kept: Handle, part: np.ndarray, name: str) -> Finding:
    """Whether the caller's own tensor is as it was; NaN equals NaN, and True is 1."""
    got = as_numbers(subject.read(kept))
    array, _ = as_array(got.astype(float) if got is not None and got.dtype == bool else got, part.shape)
    same = array is not None and np.allclose(array, part, rtol=0, atol=1e-5, equal_nan=True)
    key, fact = f"caller's {name}", f"append() leaves {name} as it was"
    return held(key, fact) if same else Finding(False, key, f"does not hold: {fact}", events=len(subject.record))


def whole_positions(row: Any) -> list[int]:
    """One row of positions as ints; what is no whole number from -1 on becomes `NOT_WHOLE`."""
    found = []
    for value in np.asarray(row).tolist():
        near = type(value) in (int, float) and math.isfinite(value) and abs(value - round(value)) < 1e-6
        found.append(round(value) if near and round(value) >= NO_TOKEN else NOT_WHOLE)
    return found


def columns_of(positions: list[int], wanted: range) -> list[int]:
    """The column in which each wanted position stands; every one of them must be there."""
    return [positions.index(p) for p in wanted]


def at_position(finding: Finding, where: str, axes: tuple[str, ...], first: int = 0) -> Finding:
    """The same finding, with the index of a wrong number told by names; the first axis counts from `first`."""
    if finding.ok or not finding.where:
        return finding if finding.ok else replace(finding, where=where)
    index = [int(i) for i in finding.where.split(",")]
    index[0] += first
    names = ", ".join(f"{name} {i}" for name, i in zip(axes, index, strict=False))
    return replace(finding, where=f"{where}, {names}")


@contextmanager
def named_when(when: str) -> Iterator[None]:
    """Says of an exception of the learner's what was asked for when it came."""
    try:
        yield
    except LearnerRaised as error:
        error.args = (f"{when}: {error}",)
        raise
