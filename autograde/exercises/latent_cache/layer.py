"""A layer of latent attention that stays in the trusted process, and counts what goes through it."""

from __future__ import annotations

from typing import Any

import numpy as np

from autograde.exercises.mla_cases import Dims, attend_latents
from autograde.exercises.oracle_gqa import rope_rows
from autograde.exercises.torch_models import checked_positions, rotate
from autograde.subject import Trusted

WIDTH, BASE = 6, 50.0  # a small base, so that a few positions make a difference in every pair of features


class LentLayer:
    """Queries and latents are plain products here. Tokens that go through are counted."""

    def __init__(self, rng: np.random.Generator, dims: Dims | None = None) -> None:
        d = self.dims = dims or Dims()
        self.kv_lora_rank, self.rope_dim = d.R, d.Dr
        self.w_uk, self.w_uv = (rng.normal(size=(d.H, D, d.R)) / d.R**0.5 for D in (d.Dn, d.Dv))
        self.w_q = rng.normal(size=(WIDTH, d.H, d.Dn + d.Dr)) * 0.7
        self.w_down = rng.normal(size=(WIDTH, d.R + d.Dr)) * 0.7
        self.asked = self.made = self.turned = 0  # tokens in `queries`, tokens in `latent`, rows in `rotate`

    def queries(self, x: Any) -> list[np.ndarray]:
        """x (B, T, width) -> q_nope (B, H, T, Dn), q_pe (B, H, T, Dr)."""
        x = checked(x)
        self.asked += x.shape[0] * x.shape[1]
        q = np.einsum("btw,whd->bhtd", x, self.w_q)
        return [q[..., : self.dims.Dn], q[..., self.dims.Dn :]]

    def latent(self, x: Any) -> list[np.ndarray]:
        """x (B, T, width) -> c_kv (B, T, R), k_pe (B, T, Dr)."""
        x = checked(x)
        self.made += x.shape[0] * x.shape[1]
        rows = x @ self.w_down
        return [rows[..., : self.dims.R], rows[..., self.dims.R :]]

    def rotate(self, x: Any, positions: Any) -> np.ndarray:
        """x (..., T, Dr) turned at positions (T,)."""
        x = np.asarray(x, dtype=np.float64)
        if x.ndim < 2 or x.shape[-1] != self.dims.Dr:
            raise ValueError(f"rotate takes x of shape (..., T, {self.dims.Dr}), got {x.shape}")
        positions = checked_positions(positions, x.shape[-2])
        self.turned += int(np.prod(x.shape[:-1]))
        return rotate(x, positions.astype(np.float64), BASE)

    def lent(self) -> Trusted:
        """This layer, as the learner's side sees it."""
        attributes = ("w_uk", "w_uv", "kv_lora_rank", "rope_dim")
        return Trusted(self, ("queries", "latent", "rotate"), attributes, name="Layer")

    def outputs(self, x: np.ndarray, T: int) -> np.ndarray:
        """(B, H, T, Dv): what the last T of the tokens x (B, S, width) must give, worked out anew from all of them."""
        S, d = x.shape[1], self.dims
        q = np.stack(
            [np.stack([x[:, t] @ self.w_q[:, h] for t in range(S - T, S)], axis=1) for h in range(d.H)], axis=1
        )
        rows = np.stack([x[:, s] @ self.w_down for s in range(S)], axis=1)
        q_pe = rope_rows(q[..., d.Dn :], range(S - T, S), BASE)
        k_pe = rope_rows(rows[..., d.R :], range(S), BASE)
        return attend_latents(q[..., : d.Dn], q_pe, rows[..., : d.R], k_pe, self.w_uk, self.w_uv)


def checked(x: Any) -> np.ndarray:
    """(B, T, width) in float64; ValueError for anything else."""
    x = np.asarray(x, dtype=np.float64)
    if x.ndim != 3 or x.shape[2] != WIDTH:
        raise ValueError(f"x must have shape (B, T, {WIDTH}), got {x.shape}")
    return x
