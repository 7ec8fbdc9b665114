"""The random numbers that are lent, and the right token for them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

MASK = (1 << 64) - 1
MARGIN = 1e-5  # of a number from the edges of all tokens: float32 is exact enough


class Numbers:
    """A source of random numbers: each follows from a seed and a count alone."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.salt = int(rng.integers(1, 1 << 60))
        self.calls: list[tuple[int, int]] = []  # (seed, n), as they were asked for

    def uniform(self, seed: Any, n: Any) -> float:
        """The n-th number of this seed, in [0, 1)."""
        for name, value in (("seed", seed), ("n", n)):
            if type(value) is not int or value < 0:
                raise ValueError(f"uniform(seed, n) takes whole numbers from 0 on, got {name} = {str(value)[:30]}")
        self.calls.append((seed, n))
        return self.at(seed, n)

    def at(self, seed: int, n: int) -> float:
        """The same, for those who judge: three rounds of mixing."""
        x = (self.salt + seed * 0x9E3779B97F4A7C15 + n * 0xD1B54A32D192ED03) & MASK
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            x = (x ^ (x >> shift)) * factor & MASK
        return ((x ^ (x >> 31)) >> 11) / (1 << 53)


def may_be_drawn(logits: Sequence[float], top_k: int) -> list[int]:
    """The tokens that may be drawn, by number: those that fewer than top_k others go before."""
    return [
        token
        for token, logit in enumerate(logits)
        if top_k == 0 or sum(other > logit or (other == logit and j < token) for j, other in enumerate(logits)) < top_k
    ]


def edges(logits: Sequence[float], temperature: float, top_k: int) -> list[tuple[int, float]]:
    """Each token that may be drawn, and the cumulated probability at its end."""
    kept = may_be_drawn(logits, top_k)
    ends: list[tuple[int, float]] = []
    # The probability of a token is one over the sum of exp of all differences to it: nothing is taken off before.
    for token in kept:
        differences = [(logits[other] - logits[token]) / temperature for other in kept]
        share = 0.0 if max(differences) > 700 else 1.0 / math.fsum(math.exp(d) for d in differences)
        ends.append((token, share + (ends[-1][1] if ends else 0.0)))
    return ends


def right_token(logits: Sequence[float], temperature: float, top_k: int, u: float) -> int | None:
    """The token that u draws; None where it lies too close to an edge. At temperature 0 u has no say."""
    if temperature == 0:
        return may_be_drawn(logits, 1)[0]
    ends = edges(logits, temperature, top_k)
    if any(abs(end - u) < MARGIN for _, end in ends):
        return None
    return next(token for token, end in ends if end > u)
