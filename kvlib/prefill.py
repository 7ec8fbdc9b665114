"""A prompt in chunks: a long one takes little memory at a time, and others get their turn between two chunks."""

from __future__ import annotations

from collections.abc import Callable

import torch


def prefill(step: Callable[[torch.Tensor], torch.Tensor], tokens: torch.Tensor, chunk_size: int) -> torch.Tensor:
    """Logits (B, T, vocab_size) of a prompt (B, T), pushed through in as few chunks as `chunk_size` allows.

    step: takes the next tokens (B, t), gives their logits (B, t, vocab_size), and keeps a cache of its own.
    The last chunk may be shorter. Raises ValueError for a chunk_size below 1 and for an empty prompt, before any step.

    >>> sizes = []
    >>> def step(chunk):  # a model whose logits are all 0, of a vocabulary of 5
    ...     sizes.append(chunk.shape[1])
    ...     return torch.zeros(*chunk.shape, 5)
    >>> prefill(step, torch.zeros(1, 7, dtype=torch.int64), chunk_size=3).shape, sizes
    (torch.Size([1, 7, 5]), [3, 3, 1])
    """
    if chunk_size < 1:
        raise ValueError(f"chunk_size must be at least 1 token, got {chunk_size}")
    if tokens.shape[1] < 1:
        raise ValueError(f"a prompt has at least 1 token, got shape {tuple(tokens.shape)}")
    return torch.cat([step(chunk) for chunk in tokens.split(chunk_size, dim=1)], dim=1)  # (B, T, vocab_size)
