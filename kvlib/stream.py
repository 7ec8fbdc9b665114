"""One request's sampling: numbers of its own, so that nobody else in the batch has a say in its tokens."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence


class Stream:
    """Draws the tokens of one request, one after the other.

    >>> stream = Stream(lambda seed, n: 0.9, seed=0, temperature=1.0, top_k=2)
    >>> stream.draw([1.0, 1.0, -5.0]), stream.drawn  # 0.9 falls into the second half
    (1, 1)
    """

    def __init__(self, uniform: Callable[[int, int], float], seed: int, temperature: float, top_k: int) -> None:
        """uniform(seed, n): the n-th number of that seed, n = 0, 1, 2, ..., at least 0 and below 1.

        temperature 0: always the best token. top_k: how many of the best may be drawn, 0 for all of them.
        """
        self.uniform, self.seed = uniform, seed
        self.temperature, self.top_k = temperature, top_k
        self.drawn = 0

    def draw(self, logits: Sequence[float]) -> int:
        """The next token, by the logits of the whole vocabulary.

        Ties go to the lower number. At temperature 0 no random number is used.
        """
        order = sorted(range(len(logits)), key=lambda token: -logits[token])  # stable: the lower number first
        if self.temperature == 0:
            return order[0]
        best = logits[order[0]]  # taken off first: exp of a large logit has no number
        kept = sorted(order[: self.top_k or None])
        weights = [math.exp((logits[token] - best) / self.temperature) for token in kept]
        u = self.uniform(self.seed, self.drawn) * sum(weights)
        self.drawn += 1
        total = 0.0
        for token, weight in zip(kept, weights, strict=True):
            total += weight
            if total > u:
                return token
        return next(token for token, weight in zip(reversed(kept), reversed(weights), strict=True) if weight > 0)
