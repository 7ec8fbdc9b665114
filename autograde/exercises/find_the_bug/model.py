"""The cache of exercise 4.6, in NumPy: what it keeps, what it loses, and what it raises.

A slice assignment of NumPy spreads one row over any number of rows, none included, and refuses any other number that
does not fit. So does torch; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Run:
    """What became of the chunks, up to the first exception."""

    appended: int  # tokens
    lost: int  # of them, those whose row is not in the buffer
    used: int  # what the cache takes for its length
    chunk: int = 0  # the number of the chunk that raised, from 1
    raised: str = ""  # why, in words


class Minimal:
    """The same lines as the lesson's, for one sequence and one head of size one."""

    def __init__(self, max_len: int) -> None:
        self.rows = np.zeros((max_len, 1))
        self.used = 0

    def append(self, rows: np.ndarray) -> np.ndarray:
        """(T, 1) in, all rows so far out. ValueError where the slice does not take them."""
        start, end = self.used, self.used + len(rows)
        self.rows[start:end] = rows
        self.used = end
        return self.rows[:end]


def append_all(max_len: int, chunks: Sequence[int]) -> Run:
    """Append tokens 1, 2, 3, ... in chunks of these sizes."""
    cache, appended = Minimal(max_len), 0
    for number, size in enumerate(chunks, start=1):
        room = max(max_len - cache.used, 0)
        if size < 0:
            return Run(appended, 0, cache.used, number, f"there is no tensor of {size} tokens")
        # A longer chunk is refused as a chunk of room + 2 is, and need not be made.
        rows = np.arange(appended + 1.0, appended + 1.0 + min(size, room + 2))[:, None]
        try:
            cache.append(rows)
        except ValueError:
            why = f"{size} rows do not go into a slice of {'one row' if room == 1 else f'{room} rows'}"
            return Run(appended, 0, cache.used, number, why)
        appended += size
    kept = np.isin(np.arange(1.0, appended + 1.0), cache.rows[:, 0])
    return Run(appended, int((~kept).sum()), cache.used)
