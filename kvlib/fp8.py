"""Numbers of eight bits: rows are stored as float8_e4m3fn codes, and read back with the scales they were divided by.

An E4M3 code is one bit of sign, four of exponent and three of fraction: 253 finite values from -448 to 448, about two
decimal digits each, and no infinity. Letters: Hkv KV heads, S tokens, D head dim.
Source: Micikevicius et al. 2022 ("FP8 Formats for Deep Learning").

The largest number becomes 448. Between 1 and 2 there are steps of 1/8 only: 3.1 / 2 = 1.55 becomes 1.5.

>>> x = torch.tensor([[[896.0, 3.1]]])  # (Hkv, S, D)
>>> scale = scales(x, "head")
>>> scale.tolist(), from_fp8(to_fp8(x, scale), scale).tolist()
([[[2.0]]], [[[896.0, 3.0]]])
"""

from __future__ import annotations

import torch

E4M3_MAX = 448.0  # the largest finite number of float8_e4m3fn; source: course fact sheet
SHARES = {"tensor": (-3, -2, -1), "head": (-2, -1), "token": (-1,), "channel": (-2,)}  # the axes that share one scale


def to_fp8(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """x / scale as float8_e4m3fn: clamped to -448..448, then rounded to the nearest number, ties to the even code.

    x: float32 or float64 of any shape. scale: positive, as many axes as x, broadcast to it. Returns a new tensor of
    x's shape, one byte for each number. NaN stays NaN. Raises ValueError for another number of axes.
    """
    if scale.ndim != x.ndim:
        raise ValueError(f"scale must have the {x.ndim} axes of x {tuple(x.shape)}, got {tuple(scale.shape)}")
    # Some builds turn what is too large into NaN, others into 448. Clamped, it is 448 on all of them.
    return (x / scale).clamp(-E4M3_MAX, E4M3_MAX).to(torch.float8_e4m3fn)


def from_fp8(codes: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """The numbers that codes stand for: each code's value times its scale, in the type of the scales.

    codes: float8_e4m3fn of any shape. scale: as many axes, broadcast to it. Raises ValueError for another number of
    axes.
    """
    if scale.ndim != codes.ndim:
        raise ValueError(f"scale must have the {codes.ndim} axes of {tuple(codes.shape)}, got {tuple(scale.shape)}")
    return codes.to(scale.dtype) * scale


def scales(x: torch.Tensor, per: str) -> torch.Tensor:
    """The scales that stretch x to the whole range of E4M3: the largest |x| among those that share one, over 448.

    x: (Hkv, S, D). per: "tensor" gives scales (1, 1, 1), "head" (Hkv, 1, 1), "token" (Hkv, S, 1), one for each token of
    each head, "channel" (Hkv, 1, D). Axes before those three keep scales of their own: (B, Hkv, S, D) gives
    (B, Hkv, S, 1). Where all numbers are zero the scale is 1. Raises ValueError for another `per`, or fewer axes.
    """
    if per not in SHARES:
        raise ValueError(f"per must be one of {', '.join(SHARES)}, got {per!r}")
    if x.ndim < 3:
        raise ValueError(f"x must be (Hkv, S, D), got {tuple(x.shape)}")
    largest = x.abs().amax(SHARES[per], keepdim=True) / E4M3_MAX
    return torch.where(largest > 0, largest, 1.0)
