"""A KV cache whose layers share: of each group of neighbours, only the first keeps keys and values.

Letters: B sequences, T new tokens, S tokens held, L layers, Hkv KV heads, D head dim.
Known as cross-layer attention; with two layers to a group it is CLA2 (Brandon et al. 2024).
"""

from __future__ import annotations

import torch


class SharedLayers:
    """The keys and values of up to `max_len` tokens of B sequences, for L layers in groups of `share`.

    Layers 0 to share - 1 use what layer 0 keeps, the next `share` layers what the first of them keeps, and so on. The
    last group may be smaller. Used as `GQACache` is, but that a layer which is no owner reads where it would append:

        K, V = cache.append(layer, k, v) if cache.owner(layer) == layer else cache.read(layer)
        cache.advance(T)   # once, after the last layer

    >>> cache = SharedLayers(num_layers=4, share=2, batch_size=1, num_kv_heads=1, max_len=2, head_dim=1)
    >>> [cache.owner(layer) for layer in range(4)]
    [0, 0, 2, 2]
    >>> k = torch.ones(1, 1, 1, 1, dtype=torch.float64)
    >>> K, V = cache.append(0, k, k)
    >>> cache.read(1)[0].flatten().tolist(), cache.nbytes  # 2 owners * K and V * 2 tokens * 8 bytes
    ([1.0], 64)
    """

    def __init__(
        self,
        num_layers: int,
        share: int,
        batch_size: int,
        num_kv_heads: int,
        max_len: int,
        head_dim: int,
        dtype: torch.dtype = torch.float64,
        device: torch.device | str | None = None,
    ) -> None:
        """Takes all its memory now: `nbytes`. Raises ValueError for a size below 1."""
        sizes = (num_layers, share, batch_size, num_kv_heads, max_len, head_dim)
        if min(sizes) < 1:
            raise ValueError(f"L, share, B, Hkv, max_len and D must be at least 1, got {sizes}")
        self.num_layers, self.share, self.max_len, self.used = num_layers, share, max_len, 0
        self.shape = (batch_size, num_kv_heads, max_len, head_dim)
        owners = -(-num_layers // share)  # rounded up: the last group may be smaller
        self.buffer = torch.empty(owners, 2, *self.shape, dtype=dtype, device=device)  # (owners, 2, B, Hkv, max_len, D)
        self.written = [0] * owners  # tokens that each owner has: those held, and those of this pass

    def __len__(self) -> int:
        """Tokens held. The next token's position is this number."""
        return self.used

    @property
    def nbytes(self) -> int:
        """2 * owners * B * Hkv * max_len * D * s bytes, s those of an element."""
        return self.buffer.nbytes

    def owner(self, layer: int) -> int:
        """The layer whose keys and values this layer uses. Raises ValueError for a layer that is not there."""
        if not 0 <= layer < self.num_layers:
            raise ValueError(f"layer {layer} asked of {self.num_layers} layers, 0 to {self.num_layers - 1}")
        return layer - layer % self.share

    def append(self, layer: int, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Write an owner's keys and values of the new tokens, and return all that it has, the new ones included.

        k, v: (B, Hkv, T, D). Returns two views (B, Hkv, S + T, D). Appended again before `advance`, the rows of the
        first try are written over. Raises ValueError for a layer that is no owner, where not all T tokens fit, and for
        another shape, dtype or device. Nothing has changed then.
        """
        owner = self.owner(layer)
        if owner != layer:
            raise ValueError(f"layer {layer} uses the keys and values of layer {owner}, and has none to append")
        B, Hkv, max_len, D = self.shape
        T = k.shape[2] if k.ndim == 4 else 1
        for name, rows in (("k", k), ("v", v)):
            if rows.shape != (B, Hkv, T, D) or rows.dtype != self.buffer.dtype or rows.device != self.buffer.device:
                wanted = f"{self.buffer.dtype} of ({B}, {Hkv}, {T}, {D}) on {self.buffer.device}"
                raise ValueError(f"{name} must be {wanted}, got {rows.dtype} of {tuple(rows.shape)} on {rows.device}")
        end = self.used + T
        if end > max_len:
            raise ValueError(f"holds {self.used} of {max_len} tokens, {T} more asked")
        group = layer // self.share
        for buffer, rows in zip(self.buffer[group], (k, v), strict=True):
            buffer[:, :, self.used : end] = rows.detach()
        self.written[group] = end
        return self.read(layer)

    def read(self, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        """K and V (B, Hkv, S, D) as the layer's owner has them, with the tokens that it appended in this pass.

        Raises ValueError for a layer that is not there.
        """
        group = self.owner(layer) // self.share
        K, V = self.buffer[group, :, :, :, : self.written[group]]  # (B, Hkv, S, D) each
        return K, V

    def advance(self, num_tokens: int) -> None:
        """The tokens appended to every owner are held from now on. ValueError for a number below 0 or without room."""
        if not 0 <= num_tokens <= self.max_len - self.used:
            raise ValueError(f"holds {self.used} of {self.max_len} tokens, advance by {num_tokens} asked")
        self.used += num_tokens
        self.written = [self.used] * len(self.written)
