"""One attention layer, a cache, and every way to cut seven tokens: the outputs never move."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from kvlib.attend_chunk import attend_chunk  # noqa: E402
from kvlib.recompute_gqa import recompute_gqa, recompute_rope  # noqa: E402
from kvlib.rope import rope  # noqa: E402

B, T, H, HKV, D, WIDTH, BASE = 2, 7, 6, 2, 8, 10, 50.0


class Layer:
    """The parts of an attention layer, and the rows that each projection took."""

    def __init__(self, draw) -> None:
        self.weights = {"q": draw(H * D, WIDTH), "k": draw(HKV * D, WIDTH), "v": draw(HKV * D, WIDTH)}
        self.output, self.rows = draw(WIDTH, H * D), {"q": 0, "k": 0, "v": 0, "o": 0}

    def heads(self, name: str, x: torch.Tensor) -> torch.Tensor:
        self.rows[name] += x.shape[0] * x.shape[1]
        return (x @ self.weights[name].T).unflatten(-1, (-1, D)).transpose(1, 2)  # (B, heads, T, D)

    def project_q(self, x: torch.Tensor) -> torch.Tensor:
        return self.heads("q", x)

    def project_k(self, x: torch.Tensor) -> torch.Tensor:
        return self.heads("k", x)

    def project_v(self, x: torch.Tensor) -> torch.Tensor:
        return self.heads("v", x)

    def rotate(self, rows: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        return rope(rows, positions, BASE)

    def project_o(self, attended: torch.Tensor) -> torch.Tensor:
        self.rows["o"] += attended.shape[0] * attended.shape[2]
        return attended.transpose(1, 2).flatten(2) @ self.output.T  # (B, T, H*D) -> (B, T, WIDTH)


class Cache:
    """Two tensors that grow."""

    def __init__(self) -> None:
        self.K = self.V = torch.zeros(B, HKV, 0, D, dtype=torch.float64)

    def __len__(self) -> int:
        return self.K.shape[2]

    def append(self, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.K, self.V = torch.cat((self.K, k), dim=2), torch.cat((self.V, v), dim=2)
        return self.K, self.V


def recomputed(layer: Layer, x: torch.Tensor) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Outputs (B, T, WIDTH), turned keys and values (B, Hkv, T, D) of all tokens at once, turned row by row."""
    rows = {name: np.asarray(x @ weight.T).reshape(B, T, -1, D) for name, weight in layer.weights.items()}
    for name in "qk":
        for b, t, h in np.ndindex(rows[name].shape[:3]):
            rows[name][b, t, h] = recompute_rope(rows[name][b, t, h], t, BASE)
    q, k, v = (rows[name].transpose(0, 2, 1, 3) for name in "qkv")
    attended = recompute_gqa(q, k, v, [[s <= t for s in range(T)] for t in range(T)])
    return attended.transpose(0, 2, 1, 3).reshape(B, T, H * D) @ np.asarray(layer.output).T, k, v


def test_every_way_to_cut_seven_tokens(draw):
    layer, x = Layer(draw), draw(B, T, WIDTH)
    want, k, v = recomputed(layer, x)
    cuts = [cut for number in range(T) for cut in combinations(range(1, T), number)]
    assert len(cuts) == 64
    for cut in cuts:
        cache = Cache()
        parts = [attend_chunk(layer, cache, x[:, a:b]) for a, b in zip((0, *cut), (*cut, T), strict=True)]
        np.testing.assert_allclose(torch.cat(parts, dim=1), want, rtol=0, atol=1e-11, err_msg=str(cut))
        np.testing.assert_allclose(cache.K, k, rtol=0, atol=1e-12, err_msg=f"keys are turned once: {cut}")
        np.testing.assert_allclose(cache.V, v, rtol=0, atol=1e-12)
    assert set(layer.rows.values()) == {len(cuts) * B * T}, "each token goes through each projection once"
