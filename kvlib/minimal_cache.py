"""The cache that many short examples have: two buffers, a counter, and a slice assignment. It has a bug.

Lesson 04 shows this text and asks for the bug. Do not use it for anything else.

>>> cache = MinimalCache(batch_size=1, num_kv_heads=1, max_len=4, head_dim=2)
>>> k = torch.ones(1, 1, 3, 2)
>>> K, V = cache.append(k, k)
>>> K.shape, cache.used
(torch.Size([1, 1, 3, 2]), 3)
"""

from __future__ import annotations

import torch


class MinimalCache:
    """Keys and values of one layer, up to max_len tokens. B sequences, Hkv KV heads, D head dim."""

    def __init__(self, batch_size: int, num_kv_heads: int, max_len: int, head_dim: int) -> None:
        self.K = torch.zeros(batch_size, num_kv_heads, max_len, head_dim)
        self.V = torch.zeros(batch_size, num_kv_heads, max_len, head_dim)
        self.used = 0

    def append(self, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """k, v: (B, Hkv, T, D), the new tokens. Returns all rows so far, the new ones included."""
        start, end = self.used, self.used + k.shape[2]
        self.K[:, :, start:end] = k
        self.V[:, :, start:end] = v
        self.used = end
        return self.K[:, :, :end], self.V[:, :, :end]
