"""A KV cache for a batch whose rows differ in length: each row is packed from its own slot 0.

Letters: B sequences (rows), T new tokens, S tokens held, Hkv KV heads, D head dim.
"""

from __future__ import annotations

import torch


class RaggedCache:
    """The keys and values of up to `max_len` tokens in each row of a batch, for one layer.

    Padding is never stored: not on the left, not on the right, and not for a row that has finished while others go on.
    So the slot of a token is its position, whatever the padding of the batch it came in.

        K, V, k_positions = cache.append(k, v, real)

    >>> cache = RaggedCache(batch_size=2, num_kv_heads=1, max_len=4, head_dim=1)
    >>> k = torch.tensor([[0.0, 7.0], [8.0, 9.0]]).view(2, 1, 2, 1)
    >>> K, V, k_positions = cache.append(k, k, torch.tensor([[False, True], [True, True]]))
    >>> K[:, 0, :, 0].tolist(), k_positions.tolist()  # packed from slot 0
    ([[7.0, 0.0], [8.0, 9.0]], [[0, -1], [0, 1]])
    """

    def __init__(
        self, batch_size: int, num_kv_heads: int, max_len: int, head_dim: int, dtype: torch.dtype | None = None
    ) -> None:
        """dtype: that of the rows; None = that of the first rows appended. Raises ValueError for a size below 1."""
        self.shape = (batch_size, num_kv_heads, max_len, head_dim)
        if min(self.shape) < 1:
            raise ValueError(f"B, Hkv, max_len and D must be at least 1, got {self.shape}")
        self.max_len, self.dtype = max_len, dtype
        self.lengths = torch.zeros(batch_size, dtype=torch.int64)
        self.buffer: torch.Tensor | None = None  # (2, B, Hkv, max_len, D)

    def can_append(self, real: torch.Tensor) -> bool:
        """Whether every row has room for its real tokens. real: bools (B, T)."""
        return bool((self.lengths + real.sum(dim=1) <= self.max_len).all())

    def append(
        self, k: torch.Tensor, v: torch.Tensor, real: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Keep the real tokens of each row, and return all that the rows hold.

        k, v: (B, Hkv, T, D). real: bools (B, T), True = a token, False = padding, which may hold anything.
        Returns K, V, two views (B, Hkv, S, D), S the tokens of the longest row, and k_positions (B, S): -1 where a
        shorter row has no token. Raises ValueError where a row has no room for its tokens, and for other shapes or
        dtypes. Nothing has changed then.
        """
        self._check(k, v, real)
        if not self.can_append(real):
            asked, held = real.sum(dim=1).tolist(), self.lengths.tolist()
            raise ValueError(f"rows hold {held} of {self.max_len} tokens, {asked} more asked")
        if self.buffer is None:
            # Zeros, not whatever lies in memory: a NaN in a slot that nobody may see is 0 * NaN = NaN in the sum.
            self.buffer = torch.zeros(2, *self.shape, dtype=k.dtype, device=k.device)
        slots = self.lengths[:, None] + real.cumsum(dim=1) - 1  # (B, T), of use where real
        row, column = real.nonzero(as_tuple=True)  # two (N,), one entry for each real token
        self.buffer[0, row, :, slots[row, column]] = k.detach()[row, :, column]  # (N, Hkv, D)
        self.buffer[1, row, :, slots[row, column]] = v.detach()[row, :, column]
        self.lengths = self.lengths + real.sum(dim=1)
        longest = int(self.lengths.max())
        columns = torch.arange(longest)
        k_positions = columns.where(columns < self.lengths[:, None], torch.tensor(-1))  # (B, S)
        return self.buffer[0, :, :, :longest], self.buffer[1, :, :, :longest], k_positions

    def _check(self, k: torch.Tensor, v: torch.Tensor, real: torch.Tensor) -> None:
        B, Hkv, _, D = self.shape
        dtype = (self.dtype or k.dtype) if self.buffer is None else self.buffer.dtype
        if real.dtype != torch.bool or real.ndim != 2 or real.shape[0] != B:
            raise ValueError(f"real must hold bools of shape ({B}, T), got {real.dtype} of {tuple(real.shape)}")
        for name, rows in (("k", k), ("v", v)):
            if rows.shape != (B, Hkv, real.shape[1], D) or rows.dtype != dtype:
                wanted = f"{dtype} of ({B}, {Hkv}, {real.shape[1]}, {D})"
                raise ValueError(f"{name} must be {wanted}, got {rows.dtype} of {tuple(rows.shape)}")
