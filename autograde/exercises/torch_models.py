"""A small Llama-like decoder and a right cache that stay in the trusted process, lent to the learner's side.

Everything is float64 NumPy here; the learner's side sees tensors. Rows that go through a projection are counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from autograde.exercises.meter import meter
from autograde.subject import Trusted
from kvlib.counters import Projection


@dataclass(frozen=True)
class Shape:
    """Sizes of a small decoder, pairwise distinct where they can be, so that no mixed-up axis can hide."""

    num_layers: int = 2
    num_heads: int = 6
    num_kv_heads: int = 2
    head_dim: int = 4
    width: int = 10
    hidden: int = 14
    vocab_size: int = 11
    base: float = 100.0  # a small base, so that a few positions make a difference in every pair of features


LONGEST = 1024  # tokens of a mask

Weights = dict[str, np.ndarray]


def random_weights(shape: Shape, rng: np.random.Generator) -> Weights:
    """Weights (in, out), scaled so that neither attention nor logits go flat; gains (width,)."""
    q, kv = shape.num_heads * shape.head_dim, shape.num_kv_heads * shape.head_dim
    sizes: dict[str, tuple[int, ...]] = {"embedding": (shape.vocab_size, shape.width)}
    for i in range(shape.num_layers):
        sizes |= {f"{i}.norm1": (shape.width,), f"{i}.norm2": (shape.width,)}
        sizes |= {f"{i}.q": (shape.width, q), f"{i}.k": (shape.width, kv), f"{i}.v": (shape.width, kv)}
        sizes |= {f"{i}.o": (q, shape.width), f"{i}.gate": (shape.width, shape.hidden)}
        sizes |= {f"{i}.up": (shape.width, shape.hidden), f"{i}.down": (shape.hidden, shape.width)}
    sizes |= {"norm": (shape.width,), "unembedding": (shape.width, shape.vocab_size)}
    return {
        name: rng.uniform(0.5, 1.5, size) if len(size) == 1 else rng.normal(size=size) / np.sqrt(size[0]) * 1.5
        for name, size in sizes.items()
    }


class LentBlock:
    """One layer. Attention itself is the learner's."""

    def __init__(self, shape: Shape, weights: Weights, layer: int) -> None:
        self.shape, self._weights, self._layer = shape, weights, layer
        self.projections = {name: meter(weights[f"{layer}.{name}"], f"project_{name}") for name in "qkv"}

    def qkv(self, x: Any, positions: Any) -> list[np.ndarray]:
        """x (B, T, width), positions (T,) -> q (B, H, T, D), k and v (B, Hkv, T, D); q and k are rotated."""
        x = np.asarray(x, dtype=np.float64)
        if x.ndim != 3 or x.shape[2] != self.shape.width:
            raise ValueError(f"x must have shape (B, T, {self.shape.width}), got {x.shape}")
        positions = checked_positions(positions, x.shape[1])
        h = rms_norm(x, self._weights[f"{self._layer}.norm1"])
        q, k, v = (split_heads(h, self.projections[name], self.shape.head_dim) for name in "qkv")
        return [rotate(q, positions, self.shape.base), rotate(k, positions, self.shape.base), v]

    def finish(self, x: Any, attended: Any) -> np.ndarray:
        """x, the block's input (B, T, width), and attended (B, H, T, D) -> the block's output (B, T, width)."""
        x, attended = np.asarray(x, dtype=np.float64), np.asarray(attended, dtype=np.float64)
        B, T, _ = x.shape
        want = (B, self.shape.num_heads, T, self.shape.head_dim)
        if attended.shape != want:
            raise ValueError(f"attended must have shape {want}, got {attended.shape}")
        w, i = self._weights, self._layer
        x = x + attended.transpose(0, 2, 1, 3).reshape(B, T, -1) @ w[f"{i}.o"]  # (B, T, H*D) before the product
        h = rms_norm(x, w[f"{i}.norm2"])
        return x + (silu(h @ w[f"{i}.gate"]) * (h @ w[f"{i}.up"])) @ w[f"{i}.down"]


class LentTransformer:
    """Token numbers in, logits out, with the learner's code in between."""

    def __init__(self, shape: Shape, weights: Weights) -> None:
        self.shape, self.weights = shape, weights
        self.num_layers, self.num_heads, self.num_kv_heads = shape.num_layers, shape.num_heads, shape.num_kv_heads
        self.head_dim, self.vocab_size = shape.head_dim, shape.vocab_size
        self.layers = [LentBlock(shape, weights, i) for i in range(shape.num_layers)]
        self.blocks = [Trusted(layer, ("qkv", "finish"), name="Block") for layer in self.layers]

    def embed(self, tokens: Any) -> np.ndarray:
        """tokens (B, T) -> (B, T, width)."""
        tokens = np.asarray(tokens)
        if tokens.ndim != 2 or tokens.dtype.kind not in "iu":
            raise ValueError(f"tokens must be whole numbers of shape (B, T), got {tokens.dtype} of {tokens.shape}")
        return self.weights["embedding"][tokens]

    def unembed(self, x: Any) -> np.ndarray:
        """(B, T, width) -> (B, T, vocab_size)."""
        return rms_norm(np.asarray(x, dtype=np.float64), self.weights["norm"]) @ self.weights["unembedding"]

    def mask(self, start: int, num_tokens: int) -> np.ndarray:
        """(T, start + T), True where one of T new tokens may see one of the start + T tokens held with it."""
        start, num_tokens = int(start), int(num_tokens)
        if start + num_tokens > LONGEST:  # it would cost memory and time here
            raise ValueError(f"a mask for {start} + {num_tokens} tokens is larger than any of the lesson's")
        return np.arange(start + num_tokens)[None, :] <= np.arange(start, start + num_tokens)[:, None]

    def lent(self) -> Trusted:
        """This model, as the learner's side sees it."""
        attributes = ("num_layers", "num_heads", "num_kv_heads", "head_dim", "vocab_size", "blocks")
        return Trusted(self, ("embed", "unembed", "mask"), attributes, name="Transformer")

    def rows(self, name: str) -> list[int]:
        """Rows that went through one projection ("q", "k" or "v"), layer by layer."""
        return [layer.projections[name].rows for layer in self.layers]


class LentGQACache:
    """A right cache for all layers, in plain lists."""

    def __init__(self, num_layers: int, batch_size: int, num_kv_heads: int, max_len: int, head_dim: int) -> None:
        self.num_layers, self.batch_size, self.num_kv_heads = num_layers, batch_size, num_kv_heads
        self.max_len, self.head_dim = max_len, head_dim
        shape = (batch_size, num_kv_heads, max_len, head_dim)
        self.K = [np.full(shape, np.nan) for _ in range(num_layers)]
        self.V = [np.full(shape, np.nan) for _ in range(num_layers)]
        self.used = 0

    def __len__(self) -> int:
        return self.used

    def can_append(self, num_tokens: int) -> bool:
        """Whether there is room for that many more tokens."""
        return 0 <= int(num_tokens) <= self.max_len - self.used

    def append(self, layer: int, k: Any, v: Any) -> list[np.ndarray]:
        """k and v (B, Hkv, T, D) of one layer -> K and V (B, Hkv, S + T, D), all up to and with the new tokens."""
        k, v = np.asarray(k, dtype=np.float64), np.asarray(v, dtype=np.float64)
        layer = int(layer)
        if not 0 <= layer < self.num_layers:
            raise ValueError(f"layer must be from 0 to {self.num_layers - 1}, got {layer}")
        want = (self.batch_size, self.num_kv_heads, "T", self.head_dim)
        if k.ndim != 4 or k.shape != v.shape or (*k.shape[:2], "T", k.shape[3]) != want:
            raise ValueError(f"k and v must have shape {want}, got {k.shape} and {v.shape}")
        end = self.used + k.shape[2]
        if end > self.max_len:
            raise ValueError(f"holds {self.used} of {self.max_len} tokens, {k.shape[2]} more asked")
        self.K[layer][:, :, self.used : end], self.V[layer][:, :, self.used : end] = k, v
        return [self.K[layer][:, :, :end].copy(), self.V[layer][:, :, :end].copy()]

    def advance(self, num_tokens: int) -> None:
        """Count `num_tokens` tokens as held, once all layers have them."""
        num_tokens = int(num_tokens)
        if not self.can_append(num_tokens):
            raise ValueError(f"holds {self.used} of {self.max_len} tokens, {num_tokens} more asked")
        self.used += num_tokens

    def lent(self) -> Trusted:
        """This cache, as the learner's side sees it."""
        attributes = ("num_layers", "batch_size", "num_kv_heads", "max_len", "head_dim")
        return Trusted(self, ("append", "advance", "can_append", "__len__"), attributes, name="GQACache")


def split_heads(h: np.ndarray, projection: Projection, head_dim: int) -> np.ndarray:
    """h (B, T, width) through a projection that counts its rows -> (B, heads, T, head_dim)."""
    B, T, width = h.shape
    rows = projection(h.reshape(B * T, width))  # (B*T, heads*D)
    return rows.reshape(B, T, -1, head_dim).transpose(0, 2, 1, 3)


def checked_positions(positions: Any, num_tokens: int) -> np.ndarray:
    """(T,) whole numbers; ValueError for anything else."""
    positions = np.asarray(positions)
    if positions.shape != (num_tokens,) or positions.dtype.kind not in "iu":
        got = f"{positions.dtype} of {positions.shape}"
        raise ValueError(f"positions must be {num_tokens} whole numbers, one for each token, got {got}")
    return positions


def rotate(x: np.ndarray, positions: np.ndarray, base: float) -> np.ndarray:
    """RoPE, half-split as in Llama: x (B, heads, T, D) at positions (T,)."""
    half = x.shape[-1] // 2
    angles = positions[:, None] * base ** (-np.arange(half) / half)  # (T, D/2)
    cos, sin = np.cos(angles), np.sin(angles)
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)


def rms_norm(x: np.ndarray, gain: np.ndarray) -> np.ndarray:
    """Each row over the root of its mean square, times a gain (width,)."""
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-6) * gain


def silu(x: np.ndarray) -> np.ndarray:
    """x times its logistic function."""
    return x / (1.0 + np.exp(-x))
