"""A KV cache for all layers of a GQA model, in one buffer made once.

Letters: B sequences, T new tokens, S tokens held, L layers, Hkv KV heads, D head dim.
"""

from __future__ import annotations

import torch


class GQACache:
    """The keys and values of up to `max_len` tokens of B sequences, in L layers.

    A forward pass appends to every layer, then advances once. All layers have one length, so none can run ahead; a pass
    that failed half-way is tried again by running it again, and writes over what it had written.

    >>> cache = GQACache(num_layers=1, batch_size=1, num_kv_heads=2, max_len=4, head_dim=8)
    >>> k = v = torch.ones(1, 2, 3, 8)
    >>> K, V = cache.append(0, k, v)  # in each layer
    >>> cache.advance(3)  # once, after the last layer
    >>> len(cache), tuple(K.shape), cache.nbytes  # 2 * 1 * 1 * 2 * 4 * 8 numbers of 4 bytes
    (3, (1, 2, 3, 8), 512)
    """

    def __init__(
        self,
        num_layers: int,
        batch_size: int,
        num_kv_heads: int,
        max_len: int,
        head_dim: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> None:
        """Takes all its memory now: 2 * L * B * Hkv * max_len * D elements. Raises ValueError for a size below 1."""
        self.shape = (num_layers, batch_size, num_kv_heads, max_len, head_dim)
        if min(self.shape) < 1:
            raise ValueError(f"L, B, Hkv, max_len and D must be at least 1, got {self.shape}")
        self.max_len, self.used = max_len, 0
        self.buffer = torch.empty(2, *self.shape, dtype=dtype, device=device)  # (2, L, B, Hkv, max_len, D)
        self.layers = list(zip(*self.buffer, strict=True))  # of each layer K and V: views (B, Hkv, max_len, D)

    def __len__(self) -> int:
        """Tokens held. The next token's position is this number."""
        return self.used

    @property
    def nbytes(self) -> int:
        """Bytes of the buffer, which is all there from the start, whether in use or not."""
        return self.buffer.nbytes

    def can_append(self, num_tokens: int) -> bool:
        """Whether there is room for that many more tokens."""
        return 0 <= num_tokens <= self.max_len - self.used

    def append(self, layer: int, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Write the new tokens' keys and values of one layer, and return all of that layer, the new ones included.

        k, v: (B, Hkv, T, D), of the cache's dtype. Returns two views (B, Hkv, S + T, D): nothing but the T new rows is
        moved. A view shows the buffer: after `reset` or `truncate`, an old one shows whatever is written next.
        Raises ValueError where not all T tokens fit, and for another layer, shape, dtype or device. Nothing has changed
        then: all is checked before anything is written.
        """
        num_layers, B, Hkv, max_len, D = self.shape
        if not 0 <= layer < num_layers:
            raise ValueError(f"layer {layer} asked of a cache of {num_layers} layers, 0 to {num_layers - 1}")
        T = k.shape[2] if k.ndim == 4 else 1
        for name, rows in (("k", k), ("v", v)):  # torch would spread a single row, or cast another dtype, in silence
            if rows.shape != (B, Hkv, T, D):
                raise ValueError(f"{name} must have shape ({B}, {Hkv}, {T}, {D}), got {tuple(rows.shape)}")
            if rows.dtype != self.buffer.dtype or rows.device != self.buffer.device:
                held = f"{self.buffer.dtype} on {self.buffer.device}"
                raise ValueError(f"the cache holds {held}, got {name} of {rows.dtype} on {rows.device}")
        end = self.used + T
        if end > max_len:
            raise ValueError(f"holds {self.used} of {max_len} tokens, {T} more asked")
        K, V = self.layers[layer]  # (B, Hkv, max_len, D)
        # Detached: with gradients, the buffer would keep the graph of every step alive.
        K.narrow(2, self.used, T).copy_(k.detach())
        V.narrow(2, self.used, T).copy_(v.detach())
        return K.narrow(2, 0, end), V.narrow(2, 0, end)  # (B, Hkv, S + T, D)

    def advance(self, num_tokens: int) -> None:
        """The tokens appended to every layer are held from now on. ValueError for a number below 0 or without room."""
        if not self.can_append(num_tokens):
            raise ValueError(f"holds {self.used} of {self.max_len} tokens, advance by {num_tokens} asked")
        self.used += num_tokens

    def truncate(self, length: int) -> None:
        """Hold only the first `length` tokens; the next ones are written over the others.

        Raises ValueError for a length below 0 or above the tokens held.
        """
        if not 0 <= length <= self.used:
            raise ValueError(f"holds {self.used} tokens, cannot be cut to {length}")
        self.used = length

    def reset(self) -> None:
        """Hold nothing. The buffer stays, and is written over."""
        self.used = 0
