"""Fills new memory with NaN while work is checked, so that reading what nobody wrote is the same mistake every time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np


@contextmanager
def poisoned_memory() -> Iterator[None]:
    """Make `np.empty` and `np.empty_like` give NaN where they would give whatever lay in memory."""
    plain_empty, plain_like = np.empty, np.empty_like

    def poisoned(make: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
        def empty(*args: Any, **kwargs: Any) -> np.ndarray:
            array = make(*args, **kwargs)
            if array.dtype.kind == "f":
                array.fill(np.nan)
            return array

        return empty

    np.empty, np.empty_like = poisoned(plain_empty), poisoned(plain_like)
    try:
        yield
    finally:
        np.empty, np.empty_like = plain_empty, plain_like
