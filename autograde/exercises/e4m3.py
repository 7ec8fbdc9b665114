"""The finite numbers of float8_e4m3fn, from the definition of the format, and rounding to them, one value at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache

import numpy as np

CLEAR = 1e-6  # of a value: nearer to a tie than this, arithmetic in float32 may fall on its other side


def _magnitudes() -> Iterator[float]:
    """The numbers of codes 0 to 126, in order; those of codes 128 to 254 are their negatives."""
    for exponent in range(16):
        for fraction in range(8):
            if exponent == 0:
                yield fraction * 2.0**-9
            elif (exponent, fraction) != (15, 7):  # that code is NaN
                yield (8 + fraction) * 2.0 ** (exponent - 10)


MAGNITUDES = tuple(_magnitudes())
TIES = tuple((MAGNITUDES[i] + MAGNITUDES[i + 1]) / 2 for i in range(len(MAGNITUDES) - 1))


@lru_cache(maxsize=50_000)  # all candidates get the same inputs
def nearest(value: float) -> float:
    """The number nearest to a value; of two that are equally near, the one with the even code."""
    size, best, least = min(abs(value), MAGNITUDES[-1]), 0.0, math.inf
    for code, number in enumerate(MAGNITUDES):
        gap = abs(size - number)
        if gap < least or (gap == least and code % 2 == 0):
            best, least = number, gap
    return math.copysign(best, value)


def rounded(values: np.ndarray) -> np.ndarray:
    """Each value of an array rounded by itself."""
    flat = [nearest(value) for value in values.reshape(-1).tolist()]  # (n,)
    return np.array(flat).reshape(values.shape)


def codes_of(numbers: np.ndarray) -> np.ndarray:
    """The codes of E4M3 numbers, without their signs."""
    return np.searchsorted(MAGNITUDES, np.abs(numbers))


def away_from_ties(values: np.ndarray) -> np.ndarray:
    """The same values, but those that are closer to a tie than arithmetic in float32 can tell moved off it."""
    ties = np.array(TIES)
    distance = np.abs(np.abs(values)[..., None] - ties)  # (..., ties)
    return np.where((distance < 2 * CLEAR * ties).any(axis=-1), values * (1 + 8 * CLEAR), values)
