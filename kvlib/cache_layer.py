"""One layer's KV cache, with the methods that Transformers asks of a layer.

Letters: B sequences, T new tokens, S tokens held, Hkv KV heads, D head dim. The names are those of the class
`DynamicLayer` of Transformers 5.24, and so are the oddities: `crop` takes a number of tokens below zero.
`kvlib.transformers_bridge` hands such layers to a model of that library, `kvlib.layer_caches` to ours.
"""

from __future__ import annotations

from typing import Any

import torch


class CacheLayer:
    """The keys and values of up to `max_len` tokens. How many sequences, heads and features, the first call says.

    Memory is made once, at that call: B * Hkv * max_len * (D of keys + D of values) elements.

    >>> layer = CacheLayer(max_len=4)
    >>> K, V = layer.update(torch.ones(1, 2, 3, 8), torch.ones(1, 2, 3, 8))
    >>> layer.crop(-1)
    >>> K, V = layer.update(torch.ones(1, 2, 1, 8), torch.ones(1, 2, 1, 8))
    >>> layer.get_seq_length(), tuple(K.shape)
    (3, (1, 2, 3, 8))
    """

    def __init__(self, max_len: int) -> None:
        """Raises ValueError for max_len below 1."""
        if max_len < 1:
            raise ValueError(f"max_len must be at least 1 token, got {max_len}")
        self.max_len, self.used = max_len, 0
        self.buffers: list[torch.Tensor] = []  # K and V (B, Hkv, max_len, D); empty before the first call

    def update(self, k: torch.Tensor, v: torch.Tensor, *ignored: Any, **also: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Hold T more tokens, and return all that are held, the new ones included.

        k, v: (B, Hkv, T, D); v may have another D. The first call fixes B, Hkv, both D and both dtypes. What comes
        after v is for other kinds of caches. Returns two views (B, Hkv, S + T, D): only the new rows are moved.
        Raises ValueError where not all T tokens fit, and for another shape, dtype or device. Nothing has changed then.
        """
        if k.ndim != 4 or v.ndim != 4 or k.shape[:3] != v.shape[:3]:
            raise ValueError(f"k and v must be (B, Hkv, T, D), got {tuple(k.shape)} and {tuple(v.shape)}")
        for name, rows, buffer in zip("kv", (k, v), self.buffers, strict=False):  # no buffers yet: nothing to compare
            wanted = (*buffer.shape[:2], k.shape[2], buffer.shape[3])
            if rows.shape != wanted:
                raise ValueError(f"{name} must have shape {wanted}, got {tuple(rows.shape)}")
            if rows.dtype != buffer.dtype or rows.device != buffer.device:
                held = f"{buffer.dtype} on {buffer.device}"
                raise ValueError(f"the layer holds {held}, got {name} of {rows.dtype} on {rows.device}")
        end = self.used + k.shape[2]
        if end > self.max_len:
            raise ValueError(f"holds {self.used} of {self.max_len} tokens, {k.shape[2]} more asked")
        if not self.buffers:
            B, Hkv = k.shape[:2]
            self.buffers = [rows.new_empty(B, Hkv, self.max_len, rows.shape[3]) for rows in (k, v)]
        for rows, buffer in zip((k, v), self.buffers, strict=True):
            buffer[:, :, self.used : end] = rows.detach()  # with gradients, every step's graph would stay alive
        self.used = end
        K, V = (buffer[:, :, :end] for buffer in self.buffers)  # (B, Hkv, S + T, D)
        return K, V

    def get_seq_length(self) -> int:
        """Tokens held."""
        return self.used

    def get_max_length(self) -> int:
        """Tokens that there is room for."""
        return self.max_len

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """How many keys that many new tokens will find, and the position of the first key: (S + query_length, 0)."""
        return self.used + query_length, 0

    def crop(self, tokens_to_remove: int) -> None:
        """Forget the newest tokens: -3 forgets three, 0 none, more than there are all of them.

        Raises ValueError for a number above 0, which older versions took for the length to keep.
        """
        if tokens_to_remove > 0:
            raise ValueError(f"crop takes 0 or a number below, -n forgets n tokens; got {tokens_to_remove}")
        self.used = max(0, self.used + tokens_to_remove)

    def reorder_cache(self, rows: torch.Tensor) -> None:
        """Sequence b goes on from what sequence rows[b] held, rows (B,), as beams do. Nothing while nothing is held."""
        if self.used:
            for buffer in self.buffers:
                held = buffer[:, :, : self.used]
                held.copy_(held.index_select(0, torch.as_tensor(rows, device=buffer.device)))

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Each sequence `repeats` times, its copies beside each other. Nothing happens while nothing is held."""
        if self.used:
            rows = torch.arange(len(self.buffers[0])).repeat_interleave(repeats)
            self.batch_select_indices(rows)

    def batch_select_indices(self, rows: torch.Tensor) -> None:
        """Hold only these sequences, rows (n,), in this order. Nothing happens while nothing is held."""
        if self.used:
            rows = torch.as_tensor(rows, device=self.buffers[0].device)
            self.buffers = [buffer[rows] for buffer in self.buffers]

    def reset(self) -> None:
        """As new: the next call says anew how many sequences there are."""
        self.buffers, self.used = [], 0
