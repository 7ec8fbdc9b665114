"""Attention over a part of the context, and what makes one of several parts: split-K, or Flash-Decoding.

Letters: P parts, H query heads that share a KV head, S tokens of a part, D head dim.
Source: Dao et al. 2023 (Flash-Decoding).
"""

from __future__ import annotations

import numpy as np

Part = tuple[np.ndarray, np.ndarray, np.ndarray]


def partial_attend(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> Part:
    """What one part hands on: its largest scores m (H,), sums of powers l (H,), and weighed values acc (H, D).

    q: (H, D); k, v: (S, D), float64. Scores are divided by sqrt(D); powers are exp(score - m), and acc is not divided
    by l. A part without tokens gives m = -inf, l = 0 and acc = 0.
    """
    scores = q @ k.T / np.sqrt(q.shape[1])  # (H, S)
    m = scores.max(axis=1, initial=-np.inf)  # (H,)
    powers = np.exp(scores - m[:, None])  # (H, S); no column for an empty part
    return m, powers.sum(axis=1), powers @ v


def merge_parts(m: np.ndarray, l: np.ndarray, acc: np.ndarray) -> np.ndarray:  # noqa: E741 - the usual name
    """Attention over all parts together: (H, D), zeros for a head that has no token in any part.

    m, l: (P, H), acc: (P, H, D), as `partial_attend` gives them, in any order of parts. Each part's sums are brought
    to the largest score of all before they are added.

    >>> q, k, v = np.ones((1, 1)), np.zeros((3, 1)), np.array([[1.0], [2.0], [6.0]])  # H = D = 1, equal scores
    >>> parts = partial_attend(q, k[:1], v[:1]), partial_attend(q, k[1:], v[1:])
    >>> m, l, acc = (np.stack(rows) for rows in zip(*parts))
    >>> l.tolist(), merge_parts(m, l, acc).tolist()  # 1 and 2 tokens; the mean of all three values
    ([[1.0], [2.0]], [[3.0]])
    """
    top = m.max(axis=0, initial=-np.inf)  # (H,)
    weight = np.exp(m - np.where(np.isneginf(top), 0.0, top))  # (P, H); -inf minus -inf would be NaN
    total = (weight * l).sum(axis=0)  # (H,)
    return (weight[:, :, None] * acc).sum(axis=0) / np.where(total == 0.0, 1.0, total)[:, None]
