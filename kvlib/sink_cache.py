"""A KV cache that forgets the middle: it keeps the first tokens (the sinks) and the newest ones, in every layer.

Letters: L layers, T new tokens, n tokens kept, Hkv KV heads, D head dim. One sequence.
Keys come turned to their absolute positions and are never turned again, so positions have gaps where tokens went.
(The other habit renumbers what was kept: see `kvlib.move_keys`. The two give different numbers.)
Source: Xiao et al. 2023 (StreamingLLM).
"""

from __future__ import annotations

import torch


class SinkCache:
    """The rows of the first `sinks` positions and of the last `window`; the newest token counts among these.

    Position p lives in slot p if it is a sink, else in one of `window` more slots, round and round: the sinks lie
    outside of the ring, so nothing that comes later is written over them.

        K, V, positions = cache.append(layer, k, v)   # in each layer, once a pass
        cache.advance(T)                              # once, after the last layer

    >>> cache = SinkCache(num_layers=1, num_kv_heads=1, head_dim=1, sinks=1, window=2)
    >>> k = torch.arange(5.0).view(1, 5, 1)  # (Hkv, T, D)
    >>> K, V, positions = cache.append(0, k, k)
    >>> K.flatten().tolist(), positions.tolist()
    ([0.0, 3.0, 4.0], [0, 3, 4])
    >>> cache.advance(5)
    >>> len(cache), cache.nbytes  # K and V * 3 rows * 4 bytes
    (5, 24)
    """

    def __init__(
        self,
        num_layers: int,
        num_kv_heads: int,
        head_dim: int,
        sinks: int,
        window: int,
        dtype: torch.dtype | None = None,
    ) -> None:
        """dtype: that of the rows; None = that of the first rows appended.

        Raises ValueError for fewer than 0 sinks and for any other size below 1.
        """
        if min(num_layers, num_kv_heads, head_dim, window) < 1 or sinks < 0:
            given = (num_layers, num_kv_heads, head_dim, sinks, window)
            raise ValueError(
                f"L, Hkv, D and window must be at least 1, sinks at least 0, got {given} (sinks the fourth)"
            )
        self.shape = (num_layers, num_kv_heads, sinks + window, head_dim)
        self.sinks, self.window, self.dtype = sinks, window, dtype
        self.length = 0  # tokens seen: the next token's position, not the number of those kept
        self.buffer: torch.Tensor | None = None  # (2, L, Hkv, sinks + window, D)

    def __len__(self) -> int:
        """Tokens seen, as `length`."""
        return self.length

    @property
    def nbytes(self) -> int:
        """Bytes of the rows held, whether in use or not."""
        return 0 if self.buffer is None else self.buffer.nbytes

    def append(self, layer: int, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Keep the new tokens of one layer, forget what has to go, and return what the newest of them may see.

        k, v: (Hkv, T, D), T of any size, keys turned already. Returns K, V (Hkv, n, D) and int64 positions (n,), in
        order of position. The earlier queries of a chunk would need rows that have gone: here only the newest token of
        a chunk reads. A pass that is tried again must bring at least as many tokens as it did before.
        Raises ValueError for another layer, shape or dtype; nothing has changed then.
        """
        self._check(layer, k, v)
        if self.buffer is None:
            self.buffer = torch.empty(2, *self.shape, dtype=k.dtype, device=k.device)
        end = self.length + k.shape[1]
        positions = self.kept(end)
        new = positions[positions >= self.length]  # a long chunk has tokens that go at once
        rows = torch.stack((k.detach(), v.detach()))  # (2, Hkv, T, D)
        held = self.buffer[:, layer]  # (2, Hkv, sinks + window, D)
        held[:, :, self._slots(new)] = rows[:, :, new - self.length]
        K, V = held[:, :, self._slots(positions)]  # copies (Hkv, n, D)
        return K, V, positions

    def advance(self, num_tokens: int) -> None:
        """The tokens appended to every layer have been seen from now on. ValueError for a number below 0."""
        if num_tokens < 0:
            raise ValueError(f"saw {self.length} tokens, advance by {num_tokens} asked")
        self.length += num_tokens

    def kept(self, length: int) -> torch.Tensor:
        """Positions kept once `length` tokens have been seen, increasing: int64 (n,), n at most sinks + window."""
        sinks = min(self.sinks, length)
        recent = torch.arange(max(sinks, length - self.window), length)
        return torch.cat((torch.arange(sinks), recent))

    def _slots(self, positions: torch.Tensor) -> torch.Tensor:
        around = self.sinks + (positions - self.sinks) % self.window
        return torch.where(positions < self.sinks, positions, around)

    def _check(self, layer: int, k: torch.Tensor, v: torch.Tensor) -> None:
        num_layers, Hkv, _, D = self.shape
        if not 0 <= layer < num_layers:
            raise ValueError(f"layer {layer} asked of a cache of {num_layers} layers, 0 to {num_layers - 1}")
        dtype = (self.dtype or k.dtype) if self.buffer is None else self.buffer.dtype
        T = k.shape[1] if k.ndim == 3 else 0
        for name, rows in (("k", k), ("v", v)):
            if T < 1 or rows.shape != (Hkv, T, D) or rows.dtype != dtype:
                wanted = f"{dtype} of ({Hkv}, T, {D}), T alike and at least 1"
                raise ValueError(f"k and v must be {wanted}, got {name} of {rows.dtype}, {tuple(rows.shape)}")
