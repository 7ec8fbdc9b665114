"""Right answers for the first lessons, in float64 loops that share nothing with what a learner is given."""

from __future__ import annotations

import math

import numpy as np


def softmax_rows(scores: np.ndarray) -> np.ndarray:
    """Softmax of each row of (T, S) scores."""
    weights = np.zeros(scores.shape)
    for i, row in enumerate(scores.tolist()):
        largest = max(row)
        total = math.fsum(math.exp(score - largest) for score in row)
        for j, score in enumerate(row):
            weights[i, j] = math.exp(score - largest) / total
    return weights


def attend_one(q: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Attention of one query (D,) over keys (S, D) and values (S, Dv): (Dv,)."""
    scores = np.zeros((1, len(keys)))
    for s, key in enumerate(keys):
        scores[0, s] = math.fsum(float(a) * float(b) for a, b in zip(q, key, strict=True)) / math.sqrt(len(q))
    weights = softmax_rows(scores)[0]
    return np.array(
        [math.fsum(weights[s] * float(values[s, d]) for s in range(len(values))) for d in range(values.shape[1])]
    )


def decode_outputs(X: np.ndarray, w_q: np.ndarray, w_k: np.ndarray, w_v: np.ndarray) -> np.ndarray:
    """Attention output of every token of X (T, width) over itself and all before it, all computed anew: (T, D)."""
    outputs = []
    for t in range(len(X)):
        keys = np.array([_times(x, w_k) for x in X[: t + 1]])
        values = np.array([_times(x, w_v) for x in X[: t + 1]])
        outputs.append(attend_one(_times(X[t], w_q), keys, values))
    return np.array(outputs)


def _times(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    rows, columns = weight.shape
    return np.array([math.fsum(float(x[i]) * float(weight[i, j]) for i in range(rows)) for j in range(columns)])
