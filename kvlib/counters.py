"""Counting work instead of timing it: a projection that knows how many rows went through it."""

from __future__ import annotations

import numpy as np


class Projection:
    """x @ weight, with a count of the rows computed.

    weight: (width, D). A row is one token, so `rows` says how often a query, key or value was worked out.
    A count is the same on every machine and in every run; a time is not.

    >>> project_k = Projection(np.eye(2))
    >>> project_k(np.ones(2)).tolist(), project_k(np.ones((3, 2))).shape
    ([1.0, 1.0], (3, 2))
    >>> project_k.rows
    4
    """

    def __init__(self, weight: np.ndarray) -> None:
        self.weight = np.asarray(weight)
        self.rows = 0

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """x: (width,) for one token or (rows, width) for several. Returns (D,) or (rows, D).

        Raises ValueError for any other shape and for complex numbers, which carry two each. Counts nothing then.
        """
        x = np.asarray(x)
        if x.dtype.kind not in "biuf":
            raise ValueError(f"takes real numbers, got {x.dtype}")
        width = len(self.weight)
        if x.ndim not in (1, 2) or x.shape[-1] != width:
            raise ValueError(f"takes ({width},) or (rows, {width}), got {x.shape}")
        self.rows += 1 if x.ndim == 1 else len(x)
        return x @ self.weight

    def reset(self) -> None:
        """Start counting at 0 again."""
        self.rows = 0
