"""A run with a cache beside a run without one: the same tokens go into both, and every logit is compared."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import torch

from kvlib.gqa_cache import GQACache
from kvlib.transformer import Transformer


class TwoArms(Protocol):
    """A model that can be run in both ways. Tokens are lists of numbers."""

    def full(self, tokens: Sequence[int]) -> torch.Tensor:
        """Logits (n, vocab_size) of all n tokens, from nothing but these."""

    def start(self) -> None:
        """Forget what the cache holds."""

    def cached(self, tokens: Sequence[int]) -> torch.Tensor:
        """Logits (T, vocab_size) of tokens that follow those held, which are held from now on."""


def compare_runs(model: TwoArms, prompt: Sequence[int], steps: int) -> dict[str, Any]:
    """Make `steps` tokens greedily by full recomputation, feed the same ones to the cache, and compare each step.

    Returns "same": steps at which both have the same best token; "first": the number of the first one that differs,
    from 0, or None; "largest": the largest absolute difference of a logit over all steps, infinite where one is NaN.
    A step with a NaN differs.
    Each arm on its own tokens would be no comparison: after one difference they would talk about different texts.

    >>> from kvlib.transformer import TransformerConfig
    >>> config = TransformerConfig(1, width=8, num_heads=2, num_kv_heads=1, head_dim=4, hidden=8, vocab_size=11)
    >>> model = Transformer.random(config, torch.Generator().manual_seed(0), torch.float64)
    >>> found = compare_runs(CachedTransformer.with_room(model, max_len=8), [1, 2, 3], steps=4)
    >>> found["same"], found["first"], found["largest"] < 1e-12
    (4, None, True)
    """
    model.start()
    tokens, pushed = list(prompt), list(prompt)
    differing, largest = [], 0.0
    for step in range(steps):
        right, got = model.full(tokens)[-1], model.cached(pushed)[-1]  # (vocab_size,) each
        difference = float((right - got).abs().max())
        largest = max(largest, math.inf if math.isnan(difference) else difference)
        best = int(right.argmax())
        if math.isnan(difference) or int(got.argmax()) != best:
            differing.append(step)
        pushed = [best]
        tokens.append(best)
    return {"same": steps - len(differing), "first": differing[0] if differing else None, "largest": largest}


class CachedTransformer:
    """A kvlib transformer with a cache, in the shape that `compare_runs` asks for. One sequence."""

    def __init__(self, model: Transformer, cache: Any) -> None:
        """cache: a `GQACache` of one sequence, or what has its `append`, `advance`, `reset` and length."""
        self.model, self.cache = model, cache

    @classmethod
    def with_room(cls, model: Transformer, max_len: int) -> CachedTransformer:
        """With kvlib's own contiguous cache for max_len tokens."""
        c, weight = model.config, model.weights["embedding"]
        sizes = (c.num_layers, 1, c.num_kv_heads, max_len, c.head_dim)
        return cls(model, GQACache(*sizes, weight.dtype, weight.device))

    def full(self, tokens: Sequence[int]) -> torch.Tensor:
        """Logits (n, vocab_size), everything worked out again."""
        return self.model.logits(torch.tensor([list(tokens)]))[0]

    def start(self) -> None:
        """Forget all tokens."""
        self.cache.reset()

    def cached(self, tokens: Sequence[int]) -> torch.Tensor:
        """Logits (T, vocab_size) of the tokens that come next."""
        from kvlib.generate import forward

        return forward(self.model, self.cache, torch.tensor([list(tokens)]))[0]
