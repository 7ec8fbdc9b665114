"""One quantiser of the learner's at work on one x, and what may be asked of what it packs and reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from autograde.compare import number, shown
from autograde.exercises.positions import as_numbers, named_when
from autograde.expect import half
from autograde.finding import Finding, held
from autograde.subject import Subject
from autograde.value import Handle

SLACK = 1e-3  # of half a scale: float32 on the way
NOTHING = 1e-35  # is no different from 0


def largest_of_groups(x: np.ndarray, group_size: int) -> np.ndarray:
    """(..., n): the largest |x| of each group, number by number."""
    groups = range(0, x.shape[-1], group_size)
    rows = []
    for row in x.reshape(-1, x.shape[-1]).tolist():  # (rows, D)
        rows.append([max(map(abs, row[start : start + group_size])) for start in groups])
    return np.array(rows).reshape(*x.shape[:-1], len(groups))


class Pack:
    """One quantiser of the learner's, one x, and what became of it."""

    def __init__(self, subject: Subject, bits: int, group_size: int, x: np.ndarray) -> None:
        self.subject, self.bits, self.group_size, self.x = subject, bits, group_size, x
        self.when = f"{bits} bits, groups of {group_size}, x of {x.shape}"
        self.packed: np.ndarray = np.zeros(0)
        self.scale: np.ndarray = np.zeros(0)
        with named_when(f"with {self.when}"):
            self.quantiser: Handle = subject.new(bits, group_size)

    def quantise(self, x: Handle | None = None) -> Iterator[Finding]:
        """Whether both parts have the right shapes and types, and no scale is larger than it may be."""
        with named_when(f"with {self.when}"):
            got = self.subject.call(self.quantiser, "quantise", self.x if x is None else x)
        parts = [as_numbers(half(got, i)) if half(got, i) is not got else None for i in (0, 1)]
        D = self.x.shape[-1]
        widths = (-(-D * self.bits // 8), -(-D // self.group_size))
        event = self.subject.record[-1]
        if parts[0] is not None and parts[1] is not None:  # which bits stand for what is free: it is no signature
            self.subject.record[-1] = replace(event, value=[list(parts[0].shape), parts[1]])
        for name, part, width, dtype in zip(("packed", "scale"), parts, widths, ("uint8", "float32"), strict=True):
            shape = (*self.x.shape[:-1], width)
            key, fact = name, f"quantise() returns (packed, scale), and {name} is {dtype} of shape {shape}"
            if part is None or part.shape != shape or part.dtype.name != dtype:
                given = shown(got) if part is None else f"{part.dtype} of {part.shape}"
                yield self._failed(key, fact, f"{dtype} of {shape}", given, seen=given)
                return
            yield held(key, fact)
        packed, scale = parts
        assert packed is not None and scale is not None  # else the loop has returned
        self.packed, self.scale = packed, scale
        yield self._scales()

    def _scales(self) -> Finding:
        top = 2 ** (self.bits - 1) - 1
        fact = f"a group's scale is finite, and at most its largest |x| over {top}"
        most = largest_of_groups(self.x, self.group_size) / top
        for index, (scale, limit) in enumerate(
            zip(self.scale.flatten().tolist(), most.flatten().tolist(), strict=True)
        ):
            if not (np.isfinite(scale) if limit == 0 else 0 < scale <= limit * (1 + SLACK)):
                place = tuple(int(i) for i in np.unravel_index(index, most.shape))
                where = f"{self.when}, group {_place(place)}"
                wanted = f"{_number(limit)} at most" if limit else "a finite scale for zeros"
                return self._failed("scales", fact, wanted, _number(scale), where)
        return held("scales", fact)

    def read(self, quantiser: Handle | None = None, rows: Any = ...) -> Finding:
        """Whether every number comes back, off by at most half the scale of its group."""
        quantiser = self.quantiser if quantiser is None else quantiser
        x, packed, scale = self.x[rows], self.packed[rows], self.scale[rows]
        with named_when(f"with {self.when}"):
            got = self.subject.call(quantiser, "dequantise", packed, scale, x.shape[-1])
        return self.judge(got, x, scale)

    def judge(self, got: Any, x: np.ndarray, scale: np.ndarray) -> Finding:
        """The same of what has come back already."""
        array = as_numbers(got)
        fact = "dequantise() returns all numbers, in the shape of x"
        if array is None or array.shape != x.shape or array.dtype.kind not in "iuf":
            given = shown(got) if array is None else f"{array.dtype} of {array.shape}"
            return self._failed("shape", fact, str(x.shape), given, seen=given)
        fact = "a number is off by at most half the scale of its group"
        D, widths = x.shape[-1], scale.shape[-1]
        rows = zip(
            x.reshape(-1, D).tolist(), array.reshape(-1, D).tolist(), scale.reshape(-1, widths).tolist(), strict=True
        )
        for r, (row, back, steps) in enumerate(rows):
            for d in range(D):
                start = d // self.group_size * self.group_size
                room = steps[d // self.group_size] / 2 if any(row[start : start + self.group_size]) else 0.0
                if not abs(back[d] - row[d]) <= room * (1 + SLACK) + NOTHING:
                    index = tuple(int(i) for i in np.unravel_index(r * D + d, x.shape))
                    where = f"{self.when}, number {_place(index)}"
                    wanted = f"{number(row[d])}, at most {number(room)} off"
                    return self._failed("error", fact, wanted, _number(back[d]), where)
        return held("error", fact)

    def _failed(self, key: str, fact: str, wanted: str, got: str, where: str = "", seen: Any = None) -> Finding:
        events, where = len(self.subject.record), where or self.when
        fact = f"does not hold: {fact}"
        return Finding(False, key, fact, where=where, expected=wanted, got=got, events=events, seen=seen)


def _number(value: float) -> str:
    return number(value) if np.isfinite(value) else str(value)


def _place(index: tuple[int, ...]) -> str:
    return str(index[0] if len(index) == 1 else index)
