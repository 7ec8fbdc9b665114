"""A small decoder in NumPy: learned positions, any number of blocks, one attention head.

Letters: T tokens, D = `width`. With one head, the head dim is the whole width; later lessons add heads.
Everything is float64, so that a comparison at 1e-10 tells a wrong cache from rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from numbers import Integral

import numpy as np

from kvlib.attention import attend, causal_mask

Weights = dict[str, np.ndarray]


@dataclass(frozen=True)
class DecoderConfig:
    """Sizes of a decoder, each at least 1."""

    num_layers: int  # L
    vocab_size: int
    width: int  # D
    hidden: int  # width of the feed-forward part
    max_len: int  # positions that were learned

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) < 1:
                raise ValueError(f"{field.name} must be at least 1, got {getattr(self, field.name)}")

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The names of a decoder's weights, and their shapes. Block 0 has "0.q", block 1 has "1.q", and so on."""
        D = self.width
        shapes: dict[str, tuple[int, ...]] = {"embedding": (self.vocab_size, D), "positions": (self.max_len, D)}
        for layer in range(self.num_layers):
            shapes[f"{layer}.norm1"] = (D,)
            shapes |= {f"{layer}.{name}": (D, D) for name in ("q", "k", "v", "o")}
            shapes[f"{layer}.norm2"] = (D,)
            shapes |= {f"{layer}.up": (D, self.hidden), f"{layer}.down": (self.hidden, D)}
        return shapes | {"final_norm": (D,), "unembedding": (D, self.vocab_size)}


class Block:
    """One transformer block: attention, then a feed-forward part, each after a norm and inside a residual connection.

    Attention itself is left to the caller, because that is where a cache goes. For x of shape (D,) or (T, D):

        h = block.norm(x)
        ... attend with block.project_q(h), block.project_k(h), block.project_v(h) ...
        x = block.finish(x, attended)
    """

    def __init__(self, weights: Weights, layer: int) -> None:
        self.norm1, self.norm2 = weights[f"{layer}.norm1"], weights[f"{layer}.norm2"]  # gains, (D,)
        self.w_q, self.w_k, self.w_v, self.w_o = (weights[f"{layer}.{name}"] for name in ("q", "k", "v", "o"))
        self.w_up, self.w_down = weights[f"{layer}.up"], weights[f"{layer}.down"]

    def norm(self, x: np.ndarray) -> np.ndarray:
        """What attention gets to see of x: (D,) or (T, D), as x."""
        return rms_norm(x, self.norm1)

    def project_q(self, h: np.ndarray) -> np.ndarray:
        """Queries of normed h, of its shape."""
        return h @ self.w_q

    def project_k(self, h: np.ndarray) -> np.ndarray:
        """Keys of normed h, of its shape."""
        return h @ self.w_k

    def project_v(self, h: np.ndarray) -> np.ndarray:
        """Values of normed h, of its shape."""
        return h @ self.w_v

    def finish(self, x: np.ndarray, attended: np.ndarray) -> np.ndarray:
        """All that follows attention. x is the block's input, not its norm; x and `attended` are (D,) or (T, D)."""
        x = x + attended @ self.w_o
        hidden = np.maximum(rms_norm(x, self.norm2) @ self.w_up, 0.0)  # relu
        return x + hidden @ self.w_down


class Decoder:
    """Token numbers in, logits out. Knows nothing of caches: `logits` works out the whole sequence.

    >>> config = DecoderConfig(num_layers=1, vocab_size=7, width=5, hidden=11, max_len=13)
    >>> Decoder.random(config, np.random.default_rng(0)).logits([1, 2, 3]).shape
    (3, 7)
    """

    def __init__(self, config: DecoderConfig, weights: Weights) -> None:
        """weights: one array for each name in `config.shapes()`; ValueError names the first that does not fit."""
        self.weights: Weights = {}
        for name, shape in config.shapes().items():
            got = np.shape(weights[name]) if name in weights else "nothing"
            if got != shape:
                raise ValueError(f"weight {name!r} must have shape {shape}, got {got}")
            self.weights[name] = np.asarray(weights[name], dtype=np.float64)
        self.config = config
        self.num_layers, self.vocab_size = config.num_layers, config.vocab_size
        self.width, self.max_len = config.width, config.max_len
        self.blocks = [Block(self.weights, layer) for layer in range(config.num_layers)]

    @classmethod
    def random(cls, config: DecoderConfig, rng: np.random.Generator) -> Decoder:
        """A decoder that was never trained, with weights scaled so that neither attention nor logits go flat."""
        weights = {}
        for name, shape in config.shapes().items():
            if len(shape) == 1:
                weights[name] = rng.uniform(0.5, 1.5, size=shape)  # a norm's gain
            else:
                rows_are_looked_up = name in ("embedding", "positions")
                weights[name] = rng.normal(size=shape) / (1.0 if rows_are_looked_up else np.sqrt(shape[0]))
        return cls(config, weights)

    def embed(self, token: int, position: int) -> np.ndarray:
        """(D,): the token's row of one table plus the position's row of another.

        Raises ValueError for a token outside 0..vocab_size-1 or a position outside 0..max_len-1, and for bools and
        floats. A bare table would take -1 for its last row, and True for row 1.
        """
        check_index("token", token, self.vocab_size)
        check_index("position", position, self.max_len)
        return self.weights["embedding"][token] + self.weights["positions"][position]

    def unembed(self, x: np.ndarray) -> np.ndarray:
        """Logits, (vocab_size,) or (T, vocab_size), of x, (D,) or (T, D): what the last block gave."""
        return rms_norm(x, self.weights["final_norm"]) @ self.weights["unembedding"]

    def logits(self, tokens: Sequence[int]) -> np.ndarray:
        """(T, vocab_size): every position of the sequence at once. Raises ValueError as `embed` does."""
        x = np.stack([self.embed(token, position) for position, token in enumerate(tokens)])  # (T, D)
        mask = causal_mask(len(tokens))  # (T, T)
        for block in self.blocks:
            h = block.norm(x)
            x = block.finish(x, attend(block.project_q(h), block.project_k(h), block.project_v(h), mask))
        return self.unembed(x)


def rms_norm(x: np.ndarray, gain: np.ndarray, eps: float = 1e-6) -> np.ndarray:
    """Each row of x (..., D) over the root of its mean square, times a learned gain (D,).

    Source: Zhang and Sennrich 2019 (RMSNorm).

    >>> rms_norm(np.array([3.0, -3.0]), np.array([1.0, 2.0])).round(4).tolist()
    [1.0, -2.0]
    """
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps) * gain


def check_index(name: str, value: object, count: int) -> None:
    """Raise ValueError unless `value` is a whole number from 0 to count - 1."""
    if isinstance(value, bool) or not isinstance(value, Integral) or not 0 <= int(value) < count:
        raise ValueError(f"{name} must be a whole number from 0 to {count - 1}, got {value!r}")
