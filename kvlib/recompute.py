"""Full recomputation in float64, with nothing but loops: the oracle of the course.

Every other way to get the logits is judged by this one, so it is slow, obvious and independent: it imports nothing from
the rest of kvlib and holds no cache. It builds no mask either. A token may look at itself and at all tokens before it,
so the loop over keys simply ends there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

Row = list[float]
EPS = 1e-6  # of every RMSNorm


def recompute_logits(weights: Mapping[str, np.ndarray], tokens: Sequence[int]) -> np.ndarray:
    """Logits at every position of `tokens`, from the weights of a `kvlib.decoder.Decoder`: (T, vocab_size).

    Raises ValueError for a token or a position that has no row in its table.
    """
    w = _lists(weights)
    x = []
    for position, token in enumerate(tokens):
        if not 0 <= token < len(w["embedding"]):
            raise ValueError(f"token {token} has no row in a table of {len(w['embedding'])}")
        if position >= len(w["positions"]):
            raise ValueError(f"position {position} has no row in a table of {len(w['positions'])}")
        x.append(_add(w["embedding"][token], w["positions"][position]))
    num_layers = sum(name.endswith(".norm1") for name in w)
    for layer in range(num_layers):
        x = _block(w, layer, x)
    return np.array([_times(_norm(row, w["final_norm"]), w["unembedding"]) for row in x])


def recompute_block(weights: Mapping[str, np.ndarray], layer: int, x: np.ndarray) -> np.ndarray:
    """What block `layer` makes of all tokens x (T, width), token by token: (T, width).

    weights: those of a `kvlib.decoder.Decoder`. Raises KeyError for a layer that is not there.
    """
    return np.array(_block(_lists(weights), layer, np.asarray(x, dtype=np.float64).tolist()))


def recompute_attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Attention of q (T, D) over k (S, D) and v (S, Dv), where mask (T, S) is true: (T, Dv).

    Every query must be allowed at least one key.

    >>> q, k, v = np.array([[1.0]]), np.zeros((2, 1)), np.array([[2.0], [4.0]])
    >>> recompute_attention(q, k, v, np.array([[True, True]])).tolist()  # equal scores: the mean
    [[3.0]]
    """
    queries, keys, values = (np.asarray(rows, dtype=np.float64).tolist() for rows in (q, k, v))
    outputs = []
    for t, query in enumerate(queries):
        seen = [s for s in range(len(keys)) if mask[t][s]]
        outputs.append(_attend(query, [keys[s] for s in seen], [values[s] for s in seen]))
    return np.array(outputs)


def _lists(weights: Mapping[str, np.ndarray]) -> dict[str, list]:
    return {name: np.asarray(weight, dtype=np.float64).tolist() for name, weight in weights.items()}


def _block(w: dict[str, list], layer: int, x: list[Row]) -> list[Row]:
    part = {name: w[f"{layer}.{name}"] for name in ("norm1", "norm2", "q", "k", "v", "o", "up", "down")}
    h = [_norm(row, part["norm1"]) for row in x]
    queries = [_times(row, part["q"]) for row in h]
    keys = [_times(row, part["k"]) for row in h]
    values = [_times(row, part["v"]) for row in h]
    outputs = []
    for t, row in enumerate(x):
        attended = _attend(queries[t], keys[: t + 1], values[: t + 1])  # itself, and all tokens before it
        row = _add(row, _times(attended, part["o"]))
        hidden = [max(unit, 0.0) for unit in _times(_norm(row, part["norm2"]), part["up"])]
        outputs.append(_add(row, _times(hidden, part["down"])))
    return outputs


def _attend(query: Row, keys: list[Row], values: list[Row]) -> Row:
    scores = [sum(a * b for a, b in zip(query, key, strict=True)) / math.sqrt(len(query)) for key in keys]
    largest = max(scores)
    powers = [math.exp(score - largest) for score in scores]
    total = sum(powers)
    output = [0.0] * len(values[0])
    for power, value in zip(powers, values, strict=True):
        for d, number in enumerate(value):
            output[d] += power / total * number
    return output


def _norm(row: Row, gain: Row) -> Row:
    root = math.sqrt(sum(a * a for a in row) / len(row) + EPS)
    return [a / root * g for a, g in zip(row, gain, strict=True)]


def _times(row: Row, weight: list[Row]) -> Row:
    """row @ weight."""
    output = [0.0] * len(weight[0])
    for a, line in zip(row, weight, strict=True):
        for j, b in enumerate(line):
            output[j] += a * b
    return output


def _add(a: Row, b: Row) -> Row:
    return [x + y for x, y in zip(a, b, strict=True)]
