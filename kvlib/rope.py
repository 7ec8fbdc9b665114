"""Rotary positions: a query and a key are turned, so that their product knows how far apart they are.

Letters: T tokens, D head dim (even). Dimension i is turned together with i + D/2, as Llama does ("half-split"); the
other habit, i with i + 1, gives another model from the same weights.
Source: Su et al. 2021 (RoFormer).
"""

from __future__ import annotations

import torch


def rope(x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0) -> torch.Tensor:
    """Turn each pair (i, i + D/2) of each row by the angle position * base ** (-2 i / D).

    x: (..., T, D), queries or keys. positions: (T,), or whatever broadcasts to the axes of x before D, such as
    (B, 1, T) where each sequence has its own. They are absolute: token 5 is at 5, whether it comes alone or in a chunk.
    Returns a new tensor of x's shape and type. Raises ValueError for an odd D.

    >>> x = torch.tensor([[1.0, 0.0], [1.0, 0.0]])  # (T, D): one pair in each row
    >>> [[round(number, 3) for number in row] for row in rope(x, torch.tensor([0, 1])).tolist()]  # cos 1 and sin 1
    [[1.0, 0.0], [0.54, 0.841]]
    """
    if x.shape[-1] % 2:
        raise ValueError(f"rope turns dimensions in pairs; the head dim is {x.shape[-1]}")
    half = x.shape[-1] // 2
    # In float64 whatever x is: at position 100,000 a float32 angle is off in the third decimal.
    steps = base ** (torch.arange(half, dtype=torch.float64, device=x.device) / -half)  # (D/2,)
    angles = positions[..., None] * steps  # (..., T, D/2)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * cos - b * sin, a * sin + b * cos), dim=-1)  # (..., T, D)
