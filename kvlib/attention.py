"""Attention in NumPy: softmax, the causal mask, and the weighted mean that they make.

Letters: T new tokens (queries), S tokens held (keys and values), D width of a query and a key, Dv width of a value.
"""

from __future__ import annotations

import math

import numpy as np


def softmax(scores: np.ndarray) -> np.ndarray:
    """Softmax over the last axis: weights that are positive and sum to 1.

    scores: (..., S). Returns (..., S) in the same float type; whole numbers become float64.
    A score of -inf gets weight 0. A row of nothing but -inf has no weights, and comes back as NaN.

    >>> softmax([[0, 0], [5, -np.inf]]).tolist()
    [[0.5, 0.5], [1.0, 0.0]]
    """
    scores = np.asarray(scores)
    if not np.issubdtype(scores.dtype, np.floating):
        scores = scores.astype(np.float64)
    # Taking the row's maximum away changes no weight, and keeps exp from overflowing: its largest argument is 0.
    with np.errstate(invalid="ignore"):  # -inf - -inf, in a row of nothing but -inf
        powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def causal_mask(num_new: int, num_held: int = 0) -> np.ndarray:
    """Which keys each new token may attend to: its own, and those of all tokens before it.

    The new tokens come after `num_held` tokens whose keys are held already, so S = num_held + num_new.
    Returns (T, S) bools, True = may attend.

    >>> causal_mask(2, num_held=1).astype(int).tolist()
    [[1, 1, 0], [1, 1, 1]]
    """
    q_positions = num_held + np.arange(num_new)  # (T,)
    k_positions = np.arange(num_held + num_new)  # (S,)
    return k_positions[None, :] <= q_positions[:, None]  # (T, S)


def attend(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
    """For each query, the mean of the values, weighted by how well their keys match it.

    q: (..., T, D) or a single query (D,). k: (..., S, D). v: (..., S, Dv).
    mask: bools that broadcast to (..., T, S), True = may attend; None = every query may attend to every key.
    Returns (..., T, Dv), or (Dv,) for a single query.
    Raises ValueError for a mask that is not of bools: 0 and -inf would both be read, the wrong way round.

    Source: Vaswani et al. 2017 ("Attention Is All You Need"). Two keys that match alike:

    >>> attend(np.ones(4), np.ones((2, 4)), np.array([[2.0], [4.0]])).tolist()
    [3.0]
    """
    scores = q @ np.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1])  # (..., T, S)
    if mask is not None:
        if np.asarray(mask).dtype != bool:
            raise ValueError(f"mask must hold bools, True = may attend; got {np.asarray(mask).dtype}")
        scores = np.where(mask, scores, -math.inf)
    return softmax(scores) @ v
