"""A KV cache that stores one byte for each number, and one scale for each token of each head.

Letters: B sequences, T new tokens, S tokens held, Hkv KV heads, D head dim.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from kvlib.fp8 import from_fp8, scales, to_fp8


class QuantisedCache:
    """The keys and values of up to `max_len` tokens of B sequences, for one layer, as float8_e4m3fn with scales.

    A token's scale is its own, so a token that comes later, however large, never touches an old one. What is read is
    dequantised then, and only as much of it as was asked for.

        cache.append(k, v)
        K, V = cache.read(0, len(cache))

    >>> cache = QuantisedCache(batch_size=1, num_kv_heads=1, max_len=4, head_dim=2)
    >>> k = torch.tensor([[[[1.0, -0.5]]]])  # (B, Hkv, T, D)
    >>> cache.append(k, k)
    >>> cache.read(0, 1)[0].shape, cache.nbytes  # 2 * 4 * 2 codes of 1 byte, 2 * 4 scales of 4 bytes
    (torch.Size([1, 1, 1, 2]), (16, 32))
    """

    def __init__(
        self,
        batch_size: int,
        num_kv_heads: int,
        max_len: int,
        head_dim: int,
        device: torch.device | str | None = None,
    ) -> None:
        """Takes all its memory now: see `nbytes`. Raises ValueError for a size below 1."""
        self.shape = (batch_size, num_kv_heads, max_len, head_dim)
        if min(self.shape) < 1:
            raise ValueError(f"B, Hkv, max_len and D must be at least 1, got {self.shape}")
        self.max_len, self.used = max_len, 0
        self.codes = torch.zeros(2, *self.shape, dtype=torch.float8_e4m3fn, device=device)  # (2, B, Hkv, max_len, D)
        self.scales = torch.ones(2, *self.shape[:3], 1, device=device)  # (2, B, Hkv, max_len, 1), K's and V's apart

    def __len__(self) -> int:
        """Tokens held. The next token's position is this number."""
        return self.used

    @property
    def nbytes(self) -> tuple[int, int]:
        """(payload, metadata) in bytes, whether in use or not.

        Of the codes, 2 * B * Hkv * max_len * D; of the scales, 2 * B * Hkv * max_len * 4.
        """
        return self.codes.nbytes, self.scales.nbytes

    def append(self, k: torch.Tensor, v: torch.Tensor) -> None:
        """Quantise and keep T more tokens.

        k, v: (B, Hkv, T, D), float32. Raises ValueError where not all T fit, and for other shapes or dtypes. Nothing
        has changed then: all is checked before anything is written.
        """
        B, Hkv, max_len, D = self.shape
        T = k.shape[2] if k.ndim == 4 else 1
        for name, rows in (("k", k), ("v", v)):  # torch would spread a single row in silence
            if rows.shape != (B, Hkv, T, D) or rows.dtype != torch.float32:
                got = f"{rows.dtype} of {tuple(rows.shape)}"
                raise ValueError(f"{name} must be float32 of ({B}, {Hkv}, T, {D}), T alike, got {got}")
        if self.used + T > max_len:
            raise ValueError(f"holds {self.used} of {max_len} tokens, {T} more asked")
        for i, rows in enumerate((k.detach(), v.detach())):
            scale = scales(rows, "token")  # (B, Hkv, T, 1)
            self.codes[i].narrow(2, self.used, T).copy_(to_fp8(rows, scale))
            self.scales[i].narrow(2, self.used, T).copy_(scale)
        self.used += T

    def read(self, start: int, stop: int) -> tuple[torch.Tensor, torch.Tensor]:
        """K and V of tokens start..stop-1, dequantised: (B, Hkv, stop - start, D) twice, float32, new tensors.

        Makes nothing larger than what it returns. Raises ValueError unless 0 <= start <= stop <= S.
        """
        if not 0 <= start <= stop <= self.used:
            raise ValueError(f"holds {self.used} tokens, {start} to {stop} asked")
        K, V = (
            from_fp8(codes.narrow(2, start, stop - start), scale.narrow(2, start, stop - start))
            for codes, scale in zip(self.codes, self.scales, strict=True)
        )
        return K, V

    def truncate(self, length: int) -> None:
        """Hold only the first `length` tokens. Raises ValueError for a length below 0 or above the tokens held."""
        if not 0 <= length <= self.used:
            raise ValueError(f"holds {self.used} tokens, cannot be cut to {length}")
        self.used = length

    def reorder(self, rows: Sequence[int]) -> None:
        """Sequence b goes on from what sequence rows[b] held. A row may be named twice, which forks it, or not at all.

        Raises ValueError for anything but B numbers from 0 to B - 1; nothing has changed then.
        """
        B = self.shape[0]
        if len(rows) != B or not all(0 <= row < B for row in rows):
            raise ValueError(f"rows must be {B} numbers from 0 to {B - 1}, got {list(rows)}")
        index = torch.as_tensor(rows, device=self.codes.device)
        # Indexing with a tensor copies first, so no row is overwritten before it is read. Bytes, for the codes: not
        # every operation knows FP8.
        for held in (self.codes.view(torch.uint8), self.scales):
            held[:, :, :, : self.used] = held[:, index, :, : self.used]
