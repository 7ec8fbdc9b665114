"""Keys that are turned already, moved to other positions.

A cache that forgets tokens may renumber those it kept, 0 to n - 1, the newest among them. Then the newest query stands
at n - 1, whatever its place in the whole text: distances shrink, and no position is larger than in training.
"""

from __future__ import annotations

import torch

from kvlib.rope import rope


def move_keys(k: torch.Tensor, old: torch.Tensor, new: torch.Tensor, base: float = 10000.0) -> torch.Tensor:
    """Keys turned to positions `old`, as keys turned to positions `new`.

    k: (Hkv, S, D), pairs (i, i + D/2) as in `kvlib.rope`. old, new: (S,), whole numbers. base: as in `rope`. Returns a
    new tensor of k's shape and type. Turning by p and then by d is turning by p + d, so one turn by new - old is
    enough.
    Raises ValueError for an odd D, and for positions that are not one for each key.

    >>> k = torch.tensor([[[1.0, 0.0]]])  # (Hkv, S, D) = (1, 1, 2), turned to position 7 already
    >>> moved = move_keys(rope(k, torch.tensor([7])), torch.tensor([7]), torch.tensor([0]))
    >>> torch.allclose(moved, k, atol=1e-6)
    True
    """
    if k.ndim != 3 or not k.shape[1:2] == old.shape == new.shape:
        given = f"k {tuple(k.shape)}, old {tuple(old.shape)}, new {tuple(new.shape)}"
        raise ValueError(f"k must be (Hkv, S, D), old and new (S,), got {given}")
    return rope(k, new - old, base)
