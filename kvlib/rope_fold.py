"""Why a rotation between two matrices keeps them from becoming one.

A score is q . k with q = R(m) W_Q x and k = R(n) W_K c, where R(p) turns by the position p. Without the rotation,
W_Q^T W_K is one matrix, worked out once. With it there is R(n - m) in the middle: another matrix for every distance.

Letters: D head dim (even), width of x, R width of c. `base` is that of `kvlib.rope.rope`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from kvlib.rope import rope


def rotation(distance: int, head_dim: int, base: float = 10000.0) -> torch.Tensor:
    """The matrix (D, D), in float64, that turns a row at position p into one at p + distance.

    Raises ValueError for an odd head_dim.
    """
    # `rope` turns rows, so what it makes of the unit rows is the matrix transposed.
    return rope(torch.eye(head_dim, dtype=torch.float64), torch.full((head_dim,), distance), base).T


def fold(w_q: torch.Tensor, w_k: torch.Tensor, distance: int, base: float = 10000.0) -> torch.Tensor:
    """The one matrix (width, R) that gives right scores where a key stands `distance` tokens before the query.

    w_q: (D, width), w_k: (D, R), float64. The score of x and c is then x @ fold @ c, before it is scaled.
    """
    return w_q.T @ rotation(-distance, w_q.shape[0], base) @ w_k


def best_fold(w_q: torch.Tensor, w_k: torch.Tensor, distances: Sequence[int], base: float = 10000.0) -> torch.Tensor:
    """The single matrix whose squared error, summed over these distances, is smallest: the mean of their own.

    w_q: (D, width), w_k: (D, R), float64; distances: at least one. Returns (width, R).
    """
    return torch.stack([fold(w_q, w_k, distance, base) for distance in distances]).mean(dim=0)  # (width, R)


def fold_error(
    folded: torch.Tensor, w_q: torch.Tensor, w_k: torch.Tensor, distance: int, base: float = 10000.0
) -> float:
    """How far scores at this distance are off with that matrix, as a part of their own size.

    folded: (width, R), for w_q (D, width) and w_k (D, R), all in float64.
    Root mean square over all x and c of unit variance: the length of the matrices' difference over that of the right
    one. 0 is right, 1 is as wrong as a score of 0, 1.4 as wrong as the score of two strangers.

    >>> w_q, w_k = torch.eye(2, dtype=torch.float64), torch.eye(2, dtype=torch.float64)
    >>> at_3 = fold(w_q, w_k, 3)  # right for this distance, and for no other
    >>> fold_error(at_3, w_q, w_k, 3), fold_error(at_3, w_q, w_k, 4) > 0.9
    (0.0, True)
    """
    right = fold(w_q, w_k, distance, base)
    return float((folded - right).norm() / right.norm())
