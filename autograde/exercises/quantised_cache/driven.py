"""A quantised cache of the learner's, driven beside the numbers that it must give back.

The rows are drawn so that every right way gives the same: each number lies well inside the reach of one E4M3 number,
and the largest of each token is exactly 448 scales. Nothing here asks torch or kvlib what FP8 is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from autograde.compare import as_array, number_pair, observation
from autograde.exercises.e4m3 import MAGNITUDES
from autograde.expect import equals, half, is_pair
from autograde.finding import Finding, held
from autograde.subject import LearnerRaised, Subject

NEAR = 1e-5  # of the number itself, however small: float32 arithmetic in any order
NOTHING = 1e-35  # in the same unit as the numbers
SIZES = (2, 3, 7, 5)  # B, Hkv, max_len, D

GRID = np.array(MAGNITUDES)  # 0 to 448


def draw(
    rng: np.random.Generator, shape: Sequence[int], low: float = -1.0, high: float = 2.5
) -> tuple[np.ndarray, np.ndarray]:
    """Rows (..., D) in float32, and the float64 numbers that they must come back as.

    The largest number of each row is 10**low to 10**high.
    """
    largest = 10.0 ** rng.uniform(low, high, (*shape[:-1], 1))
    return _rows(rng, shape, largest.astype(np.float32).astype(np.float64))


def _rows(rng: np.random.Generator, shape: Sequence[int], largest: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    codes = rng.integers(1, len(GRID) - 1, shape)
    off = rng.uniform(-0.3, 0.3, shape) * (GRID[codes] - GRID[codes - 1])  # in steps; half a step would be a tie
    sign, scale = rng.choice([-1.0, 1.0], shape), largest / 448.0
    x, want = sign * (GRID[codes] + off) * scale, sign * GRID[codes] * scale
    top = rng.integers(0, shape[-1], (*shape[:-1], 1))
    ends = np.take_along_axis(sign, top, -1) * largest
    np.put_along_axis(x, top, ends, -1)
    np.put_along_axis(want, top, ends, -1)
    return x.astype(np.float32), want


class Run:
    """One cache, and what it must hold: `want` are K and V, (B, Hkv, S, D) each."""

    def __init__(self, subject: Subject, rng: np.random.Generator, sizes: Sequence[int] = SIZES) -> None:
        self.subject, self.rng, self.sizes = subject, rng, tuple(sizes)
        B, Hkv, _, D = self.sizes
        self.want = [np.zeros((B, Hkv, 0, D)) for _ in "KV"]
        self.first = [np.zeros((B, Hkv, 0, D)) for _ in "KV"]  # as each token was first read
        self.cache = subject.new(*self.sizes)

    @property
    def held(self) -> int:
        """Tokens that it must hold."""
        return self.want[0].shape[2]

    def draw(self, T: int, **reach: float) -> list[tuple[np.ndarray, np.ndarray]]:
        """Of k and of v, T rows, and what they must come back as."""
        B, Hkv, _, D = self.sizes
        return list(zip(*draw(self.rng, (2, B, Hkv, T, D), **reach), strict=True))

    def append(self, T: int, **reach: float) -> None:
        """Append T tokens of noise."""
        self.take(self.draw(T, **reach))

    def take(self, rows: list[tuple[np.ndarray, np.ndarray]]) -> None:
        """Append these rows."""
        place = self.held
        try:
            self.subject.call(self.cache, "append", *(x for x, _ in rows))
        except LearnerRaised as error:
            error.args = (f"at tokens {place} to {place + rows[0][0].shape[2] - 1}: {error}",)
            raise
        self.expect(rows)

    def expect(self, rows: list[tuple[np.ndarray, np.ndarray]]) -> None:
        """These rows have been appended."""
        self.want = [np.concatenate((old, new), axis=2) for old, (_, new) in zip(self.want, rows, strict=True)]

    def truncate(self, length: int) -> None:
        """Cut it."""
        self.subject.call(self.cache, "truncate", length)
        self.want = [part[:, :, :length] for part in self.want]
        self.first = [part[:, :, :length] for part in self.first]

    def reorder(self, rows: list[int]) -> None:
        """Let each sequence go on from another."""
        self.subject.call(self.cache, "reorder", rows)
        self.want, self.first = [part[rows] for part in self.want], [part[rows] for part in self.first]

    def check(self, when: str = "") -> Iterable[Finding]:
        """Whether all is there, and `len` counts it. What was read before must come back to the last bit."""
        subject, length = self.subject, self.held
        when = when or f"with {length} tokens"
        yield equals(
            subject, subject.length(self.cache), length, key="length", fact="len(cache) is the tokens held", what=when
        )
        got = subject.call(self.cache, "read", 0, length)
        yield from self.judge(got, 0, length, when)
        halves = [as_array(half(got, i), want.shape)[0] for i, want in enumerate(self.want)]
        read = [array for array in halves if array is not None]  # both: `judge` has looked
        for name, old, new in zip("KV", self.first, read, strict=True):
            changed = np.argwhere(old != new[:, :, : old.shape[2]])
            fact = f"the {name} of an old token stays what it was, to the last bit"
            if changed.size:
                index = tuple(int(i) for i in changed[0])
                expected, given = number_pair(float(old[index]), float(new[index]))
                where, events = f"{when}, {place_of(index, 0)}", len(subject.record)
                yield Finding(False, "old", f"does not hold: {fact}", where, expected, given, events=events)
            yield held(f"old {name}", fact)
        self.first = read

    def judge(self, got: Any, start: int, stop: int, when: str) -> Iterable[Finding]:
        """Whether K and V of a range are the numbers that FP8 with a scale for each token and head leaves of them."""
        where = f"read({start}, {stop}) {when}"
        yield is_pair(self.subject, got, key="pair", what="read() returns K and V", where=where)
        for i, name in enumerate("KV"):
            yield self._near(half(got, i), self.want[i][:, :, start:stop], name, start, where)

    def _near(self, got: Any, want: np.ndarray, name: str, start: int, where: str) -> Finding:
        key, events = name, len(self.subject.record)
        fact = f"{name} is x in FP8, with a scale for each token of each head: its largest / 448"
        array, complaint = as_array(got, want.shape)
        if array is None:
            return Finding(False, key, f"{name}: {complaint}", where=where, events=events)
        with np.errstate(invalid="ignore"):
            wrong = ~(np.abs(array - want) <= NEAR * np.abs(want) + NOTHING)
        if not wrong.any():
            return held(key, fact)
        index = tuple(int(i) for i in np.argwhere(wrong)[0])
        expected, given = number_pair(float(want[index]), float(array[index]))
        clue = observation(array, want)
        return Finding(
            False,
            key,
            f"does not hold: {fact}" + (f"; {clue}" if clue else ""),
            where=f"{where}, {place_of(index, start)}",
            expected=expected,
            got=given,
            events=events,
            seen=(*index, *map(_digits, array[index[:-1]])),
        )

    @property
    def nbytes(self) -> tuple[int, int]:
        """Payload and metadata."""
        B, Hkv, max_len, D = self.sizes
        return 2 * B * Hkv * max_len * D, 2 * B * Hkv * max_len * 4


def place_of(index: tuple[int, ...], start: int) -> str:
    """Where a number stands."""
    b, h, t, d = index
    return f"sequence {b}, KV head {h}, token {start + t}, feature {d}"


def _digits(value: float) -> str:
    """Two digits of a number, which tell ways apart that differ only where numbers are tiny."""
    return f"{value:.1e}" if math.isfinite(value) else str(abs(value))
