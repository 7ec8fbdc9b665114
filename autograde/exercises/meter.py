"""Projections that stay in the trusted process and count the rows that go through them."""

from __future__ import annotations

import numpy as np

from kvlib.counters import Projection


def meter(weight: np.ndarray, name: str) -> Projection:
    """A counting projection under the name that the exercise gives it. The learner's side only gets a proxy of it."""
    projection = Projection(weight)
    projection.__name__ = name  # type: ignore[attr-defined]  # as a function has one: messages show it
    return projection
