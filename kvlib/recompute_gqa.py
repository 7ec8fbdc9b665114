"""Full recomputation of the PyTorch decoder in float64, one query at a time: what every cache is judged by.

Slow, obvious and independent: it imports nothing from the rest of kvlib, holds no cache and builds no mask. A token may
look at itself and at all tokens before it, so the loop over keys simply ends there.
Arrays or CPU tensors come in, NumPy arrays go out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np


def recompute_gqa(q: Any, k: Any, v: Any, mask: Any = None) -> np.ndarray:
    """Attention of q (B, H, T, D) over k, v (B, Hkv, S, D) where mask (T, S) or (B, T, S) is true: (B, H, T, D).

    mask: None = every query sees every key. A query that sees no key gets zeros.

    >>> q, k = np.ones((1, 2, 1, 1)), np.zeros((1, 1, 2, 1))  # two query heads share one KV head
    >>> v = np.array([2.0, 4.0]).reshape(1, 1, 2, 1)
    >>> recompute_gqa(q, k, v).flatten().tolist()
    [3.0, 3.0]
    """
    q, k, v = (np.asarray(rows, dtype=np.float64) for rows in (q, k, v))
    out = np.zeros(q.shape[:3] + v.shape[3:])
    for b, h, t in np.ndindex(q.shape[:3]):
        shared = h // (q.shape[1] // k.shape[1])  # the KV head of this query head
        rows = mask if mask is None or np.ndim(mask) == 2 else mask[b]
        seen = [s for s in range(k.shape[2]) if rows is None or rows[t][s]]
        if seen:
            out[b, h, t] = _attend(q[b, h, t], [k[b, shared, s] for s in seen], [v[b, shared, s] for s in seen])
    return out


def recompute_rope(row: np.ndarray, position: int, base: float) -> np.ndarray:
    """One query or key (D,), turned to its position: as D/2 complex numbers, each multiplied by one of length 1.

    row: (D,), D even. base: the angle of pair i is position / base ** (2 i / D).
    """
    half = len(row) // 2
    turned = [
        complex(row[i], row[i + half]) * complex(math.cos(angle), math.sin(angle))
        for i in range(half)
        for angle in [position / base ** (2 * i / len(row))]
    ]
    return np.array([z.real for z in turned] + [z.imag for z in turned])


def recompute_transformer(weights: Mapping[str, Any], config: Any, tokens: Any) -> np.ndarray:
    """Logits (B, T, vocab_size) at every position of tokens (B, T).

    weights, config: those of a `kvlib.transformer.Transformer`. Raises ValueError for what is not a token.
    """
    w = {name: np.asarray(weight, dtype=np.float64) for name, weight in weights.items()}
    return np.array([_sequence(w, config, [int(token) for token in row]) for row in tokens])


def _sequence(w: dict[str, np.ndarray], config: Any, tokens: list[int]) -> np.ndarray:
    for token in tokens:
        if not 0 <= token < len(w["embedding"]):
            raise ValueError(f"token {token} has no row in a table of {len(w['embedding'])}")
    x = [w["embedding"][token] for token in tokens]
    for layer in range(config.num_layers):
        part = {name.split(".")[1]: weight for name, weight in w.items() if name.startswith(f"{layer}.")}
        x = _block(part, config, x)
    table = w["embedding"] if config.tied else w["unembedding"]
    return np.array([table @ _norm(row, w["final_norm"], config.eps) for row in x])


def _block(w: dict[str, np.ndarray], config: Any, x: list[np.ndarray]) -> list[np.ndarray]:
    """All tokens of one sequence through one block."""
    D, group = config.head_dim, config.num_heads // config.num_kv_heads
    queries, keys, values = [], [], []  # [token][head] -> (D,)
    for position, row in enumerate(x):
        h = _norm(row, w["norm1"], config.eps)
        queries.append([recompute_rope(part, position, config.rope_base) for part in (w["q"] @ h).reshape(-1, D)])
        keys.append([recompute_rope(part, position, config.rope_base) for part in (w["k"] @ h).reshape(-1, D)])
        values.append((w["v"] @ h).reshape(-1, D))  # (Hkv, D)
    out = []
    for t, row in enumerate(x):
        attended = []
        for head in range(config.num_heads):
            shared = head // group
            past = range(t + 1)  # itself, and all tokens before it
            attended.append(
                _attend(queries[t][head], [keys[s][shared] for s in past], [values[s][shared] for s in past])
            )
        row = row + w["o"] @ np.concatenate(attended)
        h = _norm(row, w["norm2"], config.eps)
        gate = w["gate"] @ h
        out.append(row + w["down"] @ (gate / (1 + np.exp(-gate)) * (w["up"] @ h)))
    return out


def _attend(query: np.ndarray, keys: list[np.ndarray], values: list[np.ndarray]) -> np.ndarray:
    scores = [float(query @ key) / math.sqrt(len(query)) for key in keys]
    largest = max(scores)
    powers = [math.exp(score - largest) for score in scores]
    total = sum(powers)
    output = np.zeros(len(values[0]))
    for power, value in zip(powers, values, strict=True):
        output += power / total * value
    return output


def _norm(row: np.ndarray, gain: np.ndarray, eps: float) -> np.ndarray:
    return row / math.sqrt(sum(a * a for a in row) / len(row) + eps) * gain
