"""Right answers for the lessons in PyTorch, in float64 loops over heads and positions that share nothing with kvlib."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np


def attend_gqa(q: np.ndarray, k: np.ndarray, v: np.ndarray, visible: np.ndarray) -> np.ndarray:
    """q (H, T, D), k and v (Hkv, S, D), visible (T, S) -> (H, T, D): each query head with its own KV head, in loops.

    A row that sees no key gives zeros.
    """
    H, T, D = q.shape
    group = H // k.shape[0]
    out = np.zeros((H, T, v.shape[2]))
    for h in range(H):
        for t in range(T):
            keys = [j for j in range(k.shape[1]) if visible[t, j]]
            scores = [math.fsum(q[h, t, d] * k[h // group, j, d] for d in range(D)) / math.sqrt(D) for j in keys]
            top = max(scores, default=0.0)
            shares = [math.exp(score - top) for score in scores]
            for share, j in zip(shares, keys, strict=True):
                out[h, t] += share / math.fsum(shares) * v[h // group, j]
    return out


def attend_batch(q: np.ndarray, k: np.ndarray, v: np.ndarray, visible: np.ndarray) -> np.ndarray:
    """The same for a batch: q (B, H, T, D), k and v (B, Hkv, S, D), visible (T, S) or (B, T, S).

    The newest answers are kept: all catalogued mistakes are asked the same, and loops are slow.
    """
    return _attend_batch(*((part.shape, part.dtype.str, part.tobytes()) for part in (q, k, v, visible))).copy()


@lru_cache(maxsize=300)
def _attend_batch(*parts: tuple[tuple[int, ...], str, bytes]) -> np.ndarray:
    q, k, v, visible = (np.frombuffer(data, dtype).reshape(shape) for shape, dtype, data in parts)
    rows = np.broadcast_to(visible, (len(q), *visible.shape[-2:]))
    return np.stack([attend_gqa(*row) for row in zip(q, k, v, rows, strict=True)])


def rope_rows(x: np.ndarray, positions: Sequence[int], base: float) -> np.ndarray:
    """x (..., T, D): pair (i, i + D/2) of the row at position p turned by p * base**(-2i/D), as complex numbers."""
    D = x.shape[-1]
    out = np.empty(x.shape)
    for t, position in enumerate(positions):
        for i in range(D // 2):
            angle = float(position) * base ** (-2 * i / D)
            turned = (x[..., t, i] + 1j * x[..., t, i + D // 2]) * complex(math.cos(angle), math.sin(angle))
            out[..., t, i], out[..., t, i + D // 2] = turned.real, turned.imag
    return out


def recompute_decoder(shape: Any, weights: Mapping[str, np.ndarray], tokens: Sequence[int]) -> np.ndarray:
    """(T, vocab_size): the logits at every position of one sequence, the whole of it worked out at once, no cache.

    `shape` and `weights` are those of `torch_models`. The newest answers are kept.
    """
    kept = tuple((name, weight.shape, weight.tobytes()) for name, weight in weights.items())
    return _recompute_decoder(shape, kept, tuple(int(token) for token in tokens)).copy()


@lru_cache(maxsize=300)
def _recompute_decoder(
    shape: Any, kept: tuple[tuple[str, tuple[int, ...], bytes], ...], tokens: tuple[int, ...]
) -> Any:
    weights = {name: np.frombuffer(data).reshape(size) for name, size, data in kept}
    T = len(tokens)
    visible = np.array([[j <= t for j in range(T)] for t in range(T)])
    x = np.array([weights["embedding"][token] for token in tokens])
    for i in range(shape.num_layers):
        h = np.array([_normed(row, weights[f"{i}.norm1"]) for row in x])
        q, k, v = (_heads(h @ weights[f"{i}.{name}"], shape.head_dim) for name in "qkv")
        q, k = (rope_rows(rows, range(T), shape.base) for rows in (q, k))
        attended = attend_gqa(q, k, v, visible)
        x = x + np.array([np.concatenate(list(attended[:, t])) for t in range(T)]) @ weights[f"{i}.o"]
        h = np.array([_normed(row, weights[f"{i}.norm2"]) for row in x])
        gate, up = h @ weights[f"{i}.gate"], h @ weights[f"{i}.up"]
        x = x + (gate / (1 + np.exp(-gate)) * up) @ weights[f"{i}.down"]
    return np.array([_normed(row, weights["norm"]) for row in x]) @ weights["unembedding"]


def _normed(row: np.ndarray, gain: np.ndarray) -> np.ndarray:
    mean = math.fsum(value * value for value in row) / len(row)
    return np.array([value / math.sqrt(mean + 1e-6) * g for value, g in zip(row, gain, strict=True)])


def _heads(rows: np.ndarray, head_dim: int) -> np.ndarray:
    """(T, heads*D) -> (heads, T, D)."""
    return np.array([rows[:, n : n + head_dim] for n in range(0, rows.shape[1], head_dim)])
