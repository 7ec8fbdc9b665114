"""One attention layer of the kind that DeepSeek-V2 introduced, without its cache and without its output projection.

Letters: B sequences, T tokens, H heads, R = kv_lora_rank, Dn head dim without position, Dr head dim of the rotary part,
Dv head dim of values. Source: DeepSeek-AI 2024 (DeepSeek-V2).
"""

from __future__ import annotations

import torch

from kvlib.rope import rope


class MLALayer:
    """What a latent cache needs of its layer: queries, latents, the rotation, and the two matrices that it absorbs.

    The published models also narrow the queries before they widen them. That saves weights and no cache, and is left
    out here.
    """

    def __init__(
        self,
        w_q: torch.Tensor,
        w_down: torch.Tensor,
        gain: torch.Tensor,
        w_uk: torch.Tensor,
        w_uv: torch.Tensor,
        base: float = 10000.0,
        eps: float = 1e-6,
    ) -> None:
        """w_q: (H * (Dn + Dr), width). w_down: (R + Dr, width). gain: (R,). w_uk: (H, Dn, R). w_uv: (H, Dv, R).

        base: of the rotary angles. eps: of the norm. Raises ValueError where these sizes do not fit together.
        """
        (self.num_heads, self.nope_dim, self.kv_lora_rank), self.value_dim = w_uk.shape, w_uv.shape[1]
        self.rope_dim = w_down.shape[0] - self.kv_lora_rank
        want = (self.num_heads * (self.nope_dim + self.rope_dim), w_down.shape[1])
        latents = (self.num_heads, self.value_dim, self.kv_lora_rank)
        if self.rope_dim < 2 or w_q.shape != want or w_uv.shape != latents or gain.shape != (self.kv_lora_rank,):
            given = ", ".join(str(tuple(part.shape)) for part in (w_q, w_down, gain, w_uk, w_uv))
            raise ValueError(f"w_q, w_down, gain, w_uk and w_uv do not fit together: {given}")
        self.w_q, self.w_down, self.gain, self.w_uk, self.w_uv = w_q, w_down, gain, w_uk, w_uv
        self.base, self.eps = base, eps

    @classmethod
    def random(
        cls,
        width: int,
        num_heads: int,
        kv_lora_rank: int,
        nope_dim: int,
        rope_dim: int,
        value_dim: int,
        generator: torch.Generator | None = None,
        dtype: torch.dtype = torch.float64,
        base: float = 10000.0,
    ) -> MLALayer:
        """A layer of noise, scaled so that rows of unit variance stay of unit variance.

        nope_dim is Dn, rope_dim Dr, value_dim Dv. generator: None = torch's own. Weights are in `dtype`.
        Raises ValueError for a rope_dim below 2.
        """

        def noise(*shape: int) -> torch.Tensor:
            return (torch.randn(shape, generator=generator, dtype=torch.float64) * shape[-1] ** -0.5).to(dtype)

        return cls(
            noise(num_heads * (nope_dim + rope_dim), width),
            noise(kv_lora_rank + rope_dim, width),
            torch.ones(kv_lora_rank, dtype=dtype),
            noise(num_heads, nope_dim, kv_lora_rank),
            noise(num_heads, value_dim, kv_lora_rank),
            base,
        )

    def queries(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """x (B, T, width) -> q_nope (B, H, T, Dn) and q_pe (B, H, T, Dr), which is not turned yet."""
        B, T, _ = x.shape
        q = (x @ self.w_q.T).reshape(B, T, self.num_heads, -1).transpose(1, 2)  # (B, H, T, Dn + Dr)
        return q[..., : self.nope_dim], q[..., self.nope_dim :]

    def latent(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """x (B, T, width) -> c_kv (B, T, R), normalised, and k_pe (B, T, Dr), which is not turned yet."""
        c_kv, k_pe = (x @ self.w_down.T).split((self.kv_lora_rank, self.rope_dim), dim=-1)
        return self.gain * c_kv * (c_kv.square().mean(dim=-1, keepdim=True) + self.eps).rsqrt(), k_pe

    def rotate(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """x (..., T, Dr) turned at positions (T,), half-split as in `kvlib.rope`."""
        return rope(x, positions, self.base)


def multiplications(layer: MLALayer, num_tokens: int) -> dict[str, int]:
    """Multiplications of one decode step of one sequence over S = num_tokens tokens, by way of doing it.

    "explicit" and "absorbed": the two functions of `kvlib.mla`. "kept": attention alone, as if every head's keys and
    values had been kept, which takes H * (Dn + Dr + Dv) elements for each token in place of R + Dr.

    >>> layer = MLALayer.random(width=8, num_heads=4, kv_lora_rank=6, nope_dim=4, rope_dim=2, value_dim=4)
    >>> multiplications(layer, 100)
    {'explicit': 23200, 'absorbed': 5792, 'kept': 4000}
    """
    S, R, Dr = num_tokens, layer.kv_lora_rank, layer.rope_dim
    H, Dn, Dv = layer.num_heads, layer.nope_dim, layer.value_dim
    kept = S * H * (Dn + Dr + Dv)  # scores and the mixture
    explicit = S * H * R * (Dn + Dv) + kept  # first all keys and values
    absorbed = H * R * (Dn + Dv) + S * H * (R + Dr + R)  # one query and one mixture go through the matrices
    return {"explicit": explicit, "absorbed": absorbed, "kept": kept}
