"""A KV cache for sliding-window attention: it holds the last `window` tokens, and its memory never grows.

Letters: B sequences, T new tokens, S tokens returned, Hkv KV heads, D head dim.
A query at position p sees the positions p - window + 1 to p, itself among them.
"""

from __future__ import annotations

import torch


class RingCache:
    """The keys and values of the last `window` tokens of B sequences, for one layer. Token i lives in slot i % window.

    A chunk is attended to first and written afterwards: its first query still needs window - 1 old tokens, and the
    chunk's own would be written over them.

        K, V, k_positions = cache.append(k, v)

    >>> ring = RingCache(window=2, batch_size=1, num_kv_heads=1, head_dim=1)
    >>> k = torch.tensor([0.0, 1.0, 2.0]).view(1, 1, 3, 1)
    >>> K, V, k_positions = ring.append(k, k)
    >>> K, V, k_positions = ring.append(k[:, :, :1] + 3, k[:, :, :1])  # two were kept, one is new
    >>> K.flatten().tolist(), k_positions.tolist(), ring.nbytes
    ([2.0, 1.0, 3.0], [2, 1, 3], 16)
    """

    def __init__(
        self, window: int, batch_size: int, num_kv_heads: int, head_dim: int, dtype: torch.dtype | None = None
    ) -> None:
        """dtype: that of the rows; None = that of the first rows appended. Raises ValueError for a size below 1."""
        self.shape = (batch_size, num_kv_heads, window, head_dim)
        if min(self.shape) < 1:
            raise ValueError(f"B, Hkv, window and D must be at least 1, got {self.shape}")
        self.window, self.dtype, self.seen = window, dtype, 0
        self.positions = torch.full((window,), -1)  # of the token in each slot; -1 = none yet
        self.buffer: torch.Tensor | None = None  # (2, B, Hkv, window, D)

    def __len__(self) -> int:
        """Tokens seen. The next token's position is this number; the tokens held are at most `window` of them."""
        return self.seen

    @property
    def nbytes(self) -> int:
        """Bytes of the rows held, whether in use or not."""
        return 0 if self.buffer is None else self.buffer.nbytes

    def append(self, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return all that the T new tokens may see, then keep the newest `window` tokens.

        k, v: (B, Hkv, T, D), T of any size, larger than the window too. Returns K, V (B, Hkv, S, D) and k_positions
        (S,): the tokens held before, in the order of their slots, then the new ones. Which of them a query sees is told
        by positions, not by their order. Raises ValueError for other shapes or dtypes; nothing has changed then.
        """
        self._check(k, v)
        T, end = k.shape[2], self.seen + k.shape[2]
        new_positions = torch.arange(self.seen, end)
        if self.buffer is None:
            self.buffer = torch.empty(2, *self.shape, dtype=k.dtype, device=k.device)
        held = min(self.seen, self.window)  # slots 0 to held - 1 are in use
        K = torch.cat((self.buffer[0, :, :, :held], k.detach()), dim=2)  # (B, Hkv, held + T, D)
        V = torch.cat((self.buffer[1, :, :, :held], v.detach()), dim=2)
        k_positions = torch.cat((self.positions[:held], new_positions))
        # Tokens of a long chunk share slots: only the newest `window` are written, each to a slot of its own.
        kept = min(T, self.window)
        slots = new_positions[T - kept :] % self.window  # (kept,), all different
        self.buffer[0, :, :, slots] = k.detach()[:, :, T - kept :]
        self.buffer[1, :, :, slots] = v.detach()[:, :, T - kept :]
        self.positions[slots] = new_positions[T - kept :]
        self.seen = end
        return K, V, k_positions

    def _check(self, k: torch.Tensor, v: torch.Tensor) -> None:
        B, Hkv, _, D = self.shape
        dtype = (self.dtype or k.dtype) if self.buffer is None else self.buffer.dtype
        for name, rows in (("k", k), ("v", v)):
            if rows.ndim != 4 or rows.shape != (B, Hkv, k.shape[2], D) or rows.dtype != dtype:
                wanted = f"{dtype} of ({B}, {Hkv}, T, {D}), T alike"
                raise ValueError(f"k and v must be {wanted}, got {name} of {rows.dtype}, {tuple(rows.shape)}")
