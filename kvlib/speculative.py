"""Speculative decoding with greedy models: a small one drafts, a large one checks all drafts in one pass.

Letters: T new tokens of a pass, n tokens so far, a drafts accepted. Rejected drafts leave rows in both caches. They
have to go before decoding goes on, or every later logit is wrong, although the best token often stays the same.
Source: Leviathan et al. 2023; the greedy case is the simplest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch

from kvlib.generate import forward
from kvlib.gqa_cache import GQACache
from kvlib.transformer import Transformer


class Speculating(Protocol):
    """What a round asks of a model with a cache, for one sequence."""

    def forward(self, tokens: list[int]) -> torch.Tensor:
        """Logits (T, vocab_size) of the tokens that follow those held, which are held from now on."""

    def truncate(self, length: int) -> None:
        """Hold only the first `length` tokens."""

    def __len__(self) -> int:
        """Tokens held."""


class CachedModel:
    """A transformer and its cache of one sequence, as a round wants them. Counts its passes and the tokens pushed."""

    def __init__(self, model: Transformer, cache: GQACache) -> None:
        self.model, self.cache = model, cache
        self.passes = self.pushed = 0

    def __len__(self) -> int:
        """Tokens held."""
        return len(self.cache)

    def forward(self, tokens: Sequence[int]) -> torch.Tensor:
        """Logits (T, vocab_size) of T more tokens. Raises ValueError as `kvlib.generate.forward` does."""
        logits = forward(self.model, self.cache, torch.tensor([list(tokens)]))[0]
        self.passes, self.pushed = self.passes + 1, self.pushed + len(tokens)
        return logits

    def truncate(self, length: int) -> None:
        """Hold only the first `length` tokens. Raises ValueError for a length below 0 or above the tokens held."""
        self.cache.truncate(length)


def speculative_round(target: Speculating, draft: Speculating, tokens: Sequence[int], num_drafts: int) -> list[int]:
    """One round: from 1 to num_drafts + 1 tokens more, each the one that the target alone would have chosen.

    tokens: all n tokens so far. The target holds the first n - 1 of them; the draft model holds these, or fewer.
    Returns the n + a + 1 tokens after the round. The target then holds all but the last of them. The draft model holds
    the same, or one fewer when all drafts were accepted: it never saw the last of its own drafts, and is shown it in
    the next round. Raises ValueError where num_drafts is below 1, and for caches that hold anything else.

    >>> from kvlib.transformer import TransformerConfig
    >>> config = TransformerConfig(
    ...     num_layers=1, width=8, num_heads=2, num_kv_heads=1, head_dim=4, hidden=8, vocab_size=16
    ... )
    >>> model = Transformer.random(config, torch.Generator().manual_seed(0))
    >>> target, draft = (CachedModel(model, GQACache(1, 1, 1, 8, 4, torch.float32)) for _ in range(2))
    >>> logits = target.forward([1, 2])
    >>> tokens = speculative_round(target, draft, [1, 2, 3], num_drafts=2)  # one model twice: all accepted
    >>> len(tokens), len(target), len(draft), target.passes
    (6, 5, 4, 2)
    """
    tokens = list(tokens)
    if num_drafts < 1:
        raise ValueError(f"num_drafts must be at least 1, got {num_drafts}")
    if len(target) != len(tokens) - 1 or len(draft) > len(target):
        wanted = f"{len(tokens) - 1} and at most as many"
        raise ValueError(f"target and draft model hold {len(target)} and {len(draft)} tokens, wanted {wanted}")
    drafts: list[int] = []
    pushed = tokens[len(draft) :]  # the last token, and what the draft model has not seen yet
    for _ in range(num_drafts):
        drafts.append(int(draft.forward(pushed)[-1].argmax()))
        pushed = drafts[-1:]
    chosen = target.forward([tokens[-1], *drafts]).argmax(dim=-1).tolist()  # the target's own token after each of them
    accepted = 0
    while accepted < num_drafts and drafts[accepted] == chosen[accepted]:
        accepted += 1  # the first one that differs ends it: what comes after was checked against a wrong past
    tokens += [*drafts[:accepted], chosen[accepted]]
    target.truncate(len(tokens) - 1)
    draft.truncate(min(len(draft), len(tokens) - 1))
    return tokens
