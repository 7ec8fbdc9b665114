"""Attention in one pass over the keys: what FlashAttention and every decode kernel do inside.

Letters: S tokens held, D head dim.
Source of the method: Milakov and Gimelshein 2018, "Online normalizer calculation for softmax".
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np


class Blocks(Protocol):
    """Keys and values, handed out block by block, each once."""

    def next(self) -> list[Any] | None:
        """k and v (n, D) of the next block, or None when there is no more."""


def online_attend(q: np.ndarray, blocks: Blocks) -> np.ndarray:
    """Attention of one query over all blocks: (D,), zeros where there is no block.

    q: (D,), float64. Scores are divided by sqrt(D). No row of scores and no block is kept, only the largest score so
    far, the sum of the powers and the sum of the values weighed with them. When a block brings a larger score, the two
    sums shrink by what they were too large: exp(old - new).

    >>> class TwoBlocks:
    ...     held = [(np.array([[0.0]]), np.array([[2.0]])), (np.array([[0.0]]), np.array([[4.0]]))]
    ...     def next(self):
    ...         return self.held.pop(0) if self.held else None
    >>> online_attend(np.array([1.0]), TwoBlocks()).tolist()  # two equal scores: the mean of both values
    [3.0]
    """
    m, total, acc = -np.inf, 0.0, np.zeros(len(q))
    while (block := blocks.next()) is not None:
        k, v = block  # (n, D) each
        scores = k @ q / np.sqrt(len(q))  # (n,)
        new_m = max(m, scores.max())
        shrink, powers = np.exp(m - new_m), np.exp(scores - new_m)  # exp(-inf) = 0: nothing came before
        total = total * shrink + powers.sum()
        acc = acc * shrink + powers @ v
        m = new_m
    return acc / total if total else acc
