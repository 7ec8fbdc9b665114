"""A latent attention layer with its cache: R + Dr numbers for each token, whatever the number of heads.

Letters: B sequences, T new tokens, S tokens held, H heads, R = kv_lora_rank, Dr head dim of the rotary part, Dv head
dim of values.

Source: DeepSeek-AI 2024 (DeepSeek-V2), multi-head latent attention.
"""

from __future__ import annotations

from typing import Any

import torch

from kvlib.mla import absorbed_attend


class LatentAttention:
    """Attention of one layer over all tokens so far, from c_kv and a turned k_pe alone.

    layer: has `queries(x)` -> q_nope (B, H, T, Dn), q_pe (B, H, T, Dr); `latent(x)` -> c_kv (B, T, R), k_pe (B, T, Dr);
    `rotate(x, positions)`, which turns the last axis of x (..., T, Dr); w_uk (H, Dn, R), w_uv (H, Dv, R), kv_lora_rank
    and rope_dim. `kvlib.mla_layer.MLALayer` is one.

    >>> from kvlib.mla_layer import MLALayer
    >>> layer = MLALayer.random(width=8, num_heads=4, kv_lora_rank=6, nope_dim=4, rope_dim=2, value_dim=4)
    >>> attention = LatentAttention(layer, max_len=5)
    >>> attention.forward(torch.zeros(1, 3, 8, dtype=torch.float64)).shape  # (B, H, T, Dv)
    torch.Size([1, 4, 3, 4])
    >>> len(attention), attention.nbytes  # 5 tokens * (6 + 2) numbers * 8 bytes
    (3, 320)
    """

    def __init__(self, layer: Any, max_len: int) -> None:
        """Memory is taken at the first call, when B is known. Raises ValueError for a max_len below 1."""
        if max_len < 1:
            raise ValueError(f"max_len must be at least 1, got {max_len}")
        self.layer, self.max_len, self.used = layer, max_len, 0
        self.buffer: torch.Tensor | None = None  # (B, max_len, R + Dr)

    def __len__(self) -> int:
        """Tokens held. The next token's position is this number."""
        return self.used

    @property
    def nbytes(self) -> int:
        """Bytes of the cache: B * max_len * (R + Dr) elements, 0 before the first call."""
        return 0 if self.buffer is None else self.buffer.nbytes

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The next T tokens: x (B, T, width) -> (B, H, T, Dv).

        Raises ValueError where not all T tokens fit, and for another B than that of the first call. Nothing has changed
        then.
        """
        B, T = x.shape[:2]
        if self.used + T > self.max_len:
            raise ValueError(f"holds {self.used} of {self.max_len} tokens, {T} more asked")
        if self.buffer is not None and len(self.buffer) != B:
            raise ValueError(f"holds {len(self.buffer)} sequences, got {B}")
        layer, end = self.layer, self.used + T
        positions = torch.arange(self.used, end, device=x.device)
        q_nope, q_pe = layer.queries(x)
        c_kv, k_pe = layer.latent(x)
        # All that can fail comes before the first change.
        rows = torch.cat((c_kv, layer.rotate(k_pe, positions)), dim=-1).detach()  # (B, T, R + Dr)
        q_pe = layer.rotate(q_pe, positions)  # (B, H, T, Dr)
        if self.buffer is None:
            self.buffer = rows.new_empty(B, self.max_len, rows.shape[-1])  # (B, max_len, R + Dr)
        self.buffer[:, self.used : end] = rows
        self.used = end
        c_kv, k_pe = self.buffer[:, :end].split((layer.kv_lora_rank, layer.rope_dim), dim=-1)  # (B, S, R), (B, S, Dr)
        return absorbed_attend(q_nope, q_pe, c_kv, k_pe, layer.w_uk, layer.w_uv)

    def truncate(self, length: int) -> None:
        """Hold only the first `length` tokens; the next ones are written over the others.

        Raises ValueError for a length below 0 or above the tokens held.
        """
        if not 0 <= length <= self.used:
            raise ValueError(f"holds {self.used} tokens, cannot be cut to {length}")
        self.used = length
