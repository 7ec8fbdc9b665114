"""A KV cache of fixed capacity in NumPy, and a decoder that decodes with one in each block.

Letters: S tokens held, L layers. A row is one token's key or value, (width,).
"""

from __future__ import annotations

import numpy as np

from kvlib.attention import attend
from kvlib.decoder import Decoder, check_index


class CacheFull(ValueError):
    """One token more than the cache has room for. Nothing was written."""


class KVCache:
    """The keys and values of up to `max_len` tokens, in two arrays made once.

    The rows that come back are views, because copying all S rows at every step is the kind of work that a cache is
    there to save. They are read-only, because whoever wrote to them would change what the model has seen. A view shows
    the buffer: after `reset`, an old one shows whatever is written next.

    >>> cache = KVCache(max_len=2, width=3)
    >>> K, V = cache.append(np.array([1.0, 2.0, 3.0]), np.zeros(3))
    >>> K.tolist(), len(cache), cache.nbytes  # 2 arrays * 2 rows * 3 numbers * 8 bytes
    ([[1.0, 2.0, 3.0]], 1, 96)
    """

    def __init__(self, max_len: int, width: int) -> None:
        self.max_len, self.width, self.used = max_len, width, 0
        # NaN, not 0: a row that is read before it was written cannot pass for a number.
        self.K = np.full((max_len, width), np.nan)
        self.V = np.full((max_len, width), np.nan)

    def __len__(self) -> int:
        """Tokens held."""
        return self.used

    @property
    def nbytes(self) -> int:
        """Bytes of both arrays, which are all there from the start, whether in use or not."""
        return self.K.nbytes + self.V.nbytes

    def can_append(self) -> bool:
        """Whether there is room for one more token."""
        return self.used < self.max_len

    def append(self, k: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Keep one token's k and v, each (width,). Returns all rows held, this one included, as `rows` does.

        Raises CacheFull when there is no room, and ValueError for any other shape. Nothing has changed then: all is
        checked before anything is written.
        """
        if not self.can_append():
            raise CacheFull(f"holds {self.used} of {self.max_len} tokens, 1 more asked")
        k, v = np.asarray(k, dtype=np.float64), np.asarray(v, dtype=np.float64)
        for name, row in (("k", k), ("v", v)):
            if row.shape != (self.width,):  # NumPy would spread a single number over the whole row
                raise ValueError(f"{name} must have shape ({self.width},), got {row.shape}")
        self.K[self.used] = k
        self.V[self.used] = v
        self.used += 1
        return self.rows()

    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        """K and V of the tokens held, oldest first: two read-only views, each (S, width)."""
        K, V = self.K[: self.used], self.V[: self.used]
        K.flags.writeable = V.flags.writeable = False  # of the views; the buffers stay writeable
        return K, V

    def reset(self) -> None:
        """Hold nothing. The arrays stay, and are written over."""
        self.used = 0


class CachedDecoder:
    """Decodes one token at a time, with a KV cache in each block: the logits of `model.logits`, for less work."""

    def __init__(self, model: Decoder, max_len: int | None = None) -> None:
        """max_len: room for this many tokens; None = as many as the model has positions. ValueError for more."""
        self.model = model
        self.max_len = model.max_len if max_len is None else max_len
        if self.max_len > model.max_len:
            raise ValueError(f"max_len {self.max_len} asked of a model with {model.max_len} positions")
        self.caches = [KVCache(self.max_len, model.width) for _ in model.blocks]

    def __len__(self) -> int:
        """Tokens held. The next token's position is this number."""
        return len(self.caches[0])

    def can_step(self) -> bool:
        """Whether there is room for one more token."""
        return self.caches[0].can_append()

    def step(self, token: int) -> np.ndarray:
        """Take the next token and return its logits, (vocab_size,).

        Raises CacheFull when there is no room, and ValueError for what is not a token; no block has changed then.
        """
        check_index("token", token, self.model.vocab_size)
        if not self.can_step():
            raise CacheFull(f"holds {len(self)} of {self.max_len} tokens, 1 more asked")
        x = self.model.embed(token, position=len(self))  # (width,)
        for block, cache in zip(self.model.blocks, self.caches, strict=True):
            h = block.norm(x)
            K, V = cache.append(block.project_k(h), block.project_v(h))  # (S, width) each
            x = block.finish(x, attend(block.project_q(h), K, V))  # no mask: every token held is in the past
        return self.model.unembed(x)

    def reset(self) -> None:
        """Hold nothing, in every block."""
        for cache in self.caches:
            cache.reset()
