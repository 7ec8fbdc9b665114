"""One attention layer and its cache, which stay in the trusted process; the learner's side sees tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from autograde.exercises.meter import meter
from autograde.exercises.oracle_gqa import attend_batch, rope_rows
from autograde.exercises.torch_models import Shape, checked_positions, rotate, split_heads
from autograde.subject import Trusted

METHODS = ("project_q", "project_k", "project_v", "project_o", "rotate")


class LentLayer:
    """The parts of one attention layer, with a count of the rows of each projection."""

    def __init__(self, shape: Shape, rng: np.random.Generator) -> None:
        self.shape = shape
        self.num_heads, self.num_kv_heads = shape.num_heads, shape.num_kv_heads
        self.head_dim, self.width = shape.head_dim, shape.width
        sizes = {"q": shape.num_heads, "k": shape.num_kv_heads, "v": shape.num_kv_heads}
        weights = {name: rng.normal(size=(shape.width, n * shape.head_dim)) for name, n in sizes.items()}
        weights["o"] = rng.normal(size=(shape.num_heads * shape.head_dim, shape.width))
        self.weights = {name: weight / np.sqrt(len(weight)) for name, weight in weights.items()}
        self.projections = {name: meter(weight, f"project_{name}") for name, weight in self.weights.items()}

    def project_q(self, x: Any) -> np.ndarray:
        """x (B, T, width) -> (B, H, T, D), not turned."""
        return self._heads("q", x)

    def project_k(self, x: Any) -> np.ndarray:
        """x (B, T, width) -> (B, Hkv, T, D), not turned."""
        return self._heads("k", x)

    def project_v(self, x: Any) -> np.ndarray:
        """x (B, T, width) -> (B, Hkv, T, D)."""
        return self._heads("v", x)

    def project_o(self, attended: Any) -> np.ndarray:
        """attended (B, H, T, D) -> (B, T, width)."""
        attended = _numbers(attended, "attended")
        if attended.ndim != 4 or attended.shape[1::2] != (self.num_heads, self.head_dim):
            wanted = f"(B, {self.num_heads}, T, {self.head_dim})"
            raise ValueError(f"attended must have shape {wanted}, got {attended.shape}")
        B, H, T, D = attended.shape
        rows = attended.transpose(0, 2, 1, 3).reshape(B * T, H * D)
        return self.projections["o"](rows).reshape(B, T, self.width)

    def rotate(self, rows: Any, positions: Any) -> np.ndarray:
        """rows (B, heads, T, D) turned to positions (T,)."""
        rows = _numbers(rows, "rows")
        if rows.ndim != 4 or rows.shape[3] != self.head_dim:
            raise ValueError(f"rows must have shape (B, heads, T, {self.head_dim}), got {rows.shape}")
        return rotate(rows, checked_positions(positions, rows.shape[2]), self.shape.base)

    def _heads(self, name: str, x: Any) -> np.ndarray:
        x = _numbers(x, "x")
        if x.ndim != 3 or x.shape[2] != self.width:
            raise ValueError(f"x must have shape (B, T, {self.width}), got {x.shape}")
        return split_heads(x, self.projections[name], self.head_dim)

    def lent(self) -> Trusted:
        """This layer, as the learner's side sees it."""
        return Trusted(self, METHODS, ("num_heads", "num_kv_heads", "head_dim", "width"), name="Layer")

    def rows(self, name: str) -> int:
        """Rows that went through one projection, "q", "k", "v" or "o"."""
        return self.projections[name].rows


class LentLayerCache:
    """A right cache of one layer, which counts as it appends."""

    def __init__(self, batch_size: int, shape: Shape, max_len: int) -> None:
        self.want = (batch_size, shape.num_kv_heads, "T", shape.head_dim)
        self.max_len, self.calls = max_len, 0
        self.K = self.V = np.zeros((batch_size, shape.num_kv_heads, 0, shape.head_dim))

    def __len__(self) -> int:
        return self.K.shape[2]

    def append(self, k: Any, v: Any) -> list[np.ndarray]:
        """k and v (B, Hkv, T, D) -> K and V (B, Hkv, S + T, D), all up to and with the new tokens."""
        k, v = _numbers(k, "k"), _numbers(v, "v")
        if k.ndim != 4 or k.shape != v.shape or (*k.shape[:2], "T", k.shape[3]) != self.want:
            wanted = ", ".join(map(str, self.want))
            raise ValueError(f"k and v must have shape ({wanted}), got {k.shape} and {v.shape}")
        if len(self) + k.shape[2] > self.max_len:
            raise ValueError(f"holds {len(self)} of {self.max_len} tokens, {k.shape[2]} more asked")
        self.K, self.V = np.concatenate([self.K, k], axis=2), np.concatenate([self.V, v], axis=2)
        self.calls += 1
        return [self.K.copy(), self.V.copy()]

    def lent(self) -> Trusted:
        """This cache, as the learner's side sees it."""
        return Trusted(self, ("append", "__len__"), ("max_len",), name="Cache")


def recompute_layer(layer: LentLayer, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The outputs (B, T, width) of the whole of x (B, T, width) at once, and its keys unturned, turned, and values.

    In loops; of the layer only its weights are used.
    """
    T, D = x.shape[1], layer.head_dim
    q, k, v = (_split(x @ layer.weights[name], D) for name in "qkv")
    turned = rope_rows(k, range(T), layer.shape.base)
    visible = np.array([[j <= t for j in range(T)] for t in range(T)])
    attended = attend_batch(rope_rows(q, range(T), layer.shape.base), turned, v, visible)
    side_by_side = np.concatenate([attended[:, h] for h in range(layer.num_heads)], axis=-1)  # (B, T, H*D)
    return side_by_side @ layer.weights["o"], k, turned, v


def _split(rows: np.ndarray, head_dim: int) -> np.ndarray:
    """(B, T, heads*D) -> (B, heads, T, D)."""
    return np.stack([rows[..., n : n + head_dim] for n in range(0, rows.shape[-1], head_dim)], axis=1)


def _numbers(value: Any, name: str) -> np.ndarray:
    array = np.asarray(value) if isinstance(value, np.ndarray) else np.asarray(None)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} must be a tensor of real numbers")
    return array.astype(np.float64)
