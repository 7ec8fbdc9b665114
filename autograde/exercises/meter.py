"""Projections that stay in the trusted process and count the rows that go through them."""

from __future__ import annotations

import numpy as np


class Meter:
    """x @ weight for (width,) or (rows, width), counting rows. The learner's side only ever gets a proxy of it."""

    def __init__(self, weight: np.ndarray, name: str) -> None:
        self.weight = weight
        self.rows = 0
        self.__name__ = name

    def __call__(self, x: object) -> np.ndarray:
        array = np.asarray(x)
        width = len(self.weight)
        if array.dtype.kind not in "iuf" or array.ndim not in (1, 2) or array.shape[-1] != width:
            raise ValueError(f"{self.__name__} takes ({width},) or (rows, {width}), got {array.shape}")
        self.rows += 1 if array.ndim == 1 else len(array)
        return array @ self.weight
