"""A KV cache small enough to check by eye: four tokens, two numbers each.

Letters: S tokens held, D width of a query, key or value; here D = 2.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kvlib.attention import attend

Project = Callable[[np.ndarray], np.ndarray]  # (width,) -> (D,)

X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, -1.0], [0.5, 0.5]])  # (4, 2): one row for each token
W_Q = np.array([[1.0, 0.0], [1.0, 1.0]])
W_K = np.array([[0.0, 1.0], [1.0, 0.0]])
W_V = np.array([[1.0, 1.0], [0.0, 1.0]])

for _constant in (X, W_Q, W_K, W_V):
    _constant.flags.writeable = False  # one `X[0] = ...` in a notebook must not change every later cell


def decode_naive(X: np.ndarray, project_q: Project, project_k: Project, project_v: Project) -> np.ndarray:
    """Decode without a cache: at each step, work out the key and the value of every token so far.

    X: (n, width), at least one token. project_q, project_k, project_v: (width,) -> (D,) each. Returns (n, D): the
    attention output of the newest token of each step.
    """
    outputs = []
    for newest in range(len(X)):
        keys, values = [], []
        for x in X[: newest + 1]:  # every token so far, again
            keys.append(project_k(x))
            values.append(project_v(x))
        q = project_q(X[newest])  # only the newest token asks anything
        outputs.append(attend(q, np.array(keys), np.array(values)))
    return np.array(outputs)


class ToyCache:
    """Decode with a cache: each key and each value is worked out once, when its token arrives.

    There is no cache of queries. A query is used at its own step and never again.

    >>> cache = ToyCache(lambda x: x @ W_Q, lambda x: x @ W_K, lambda x: x @ W_V)
    >>> cached = np.array([cache.step(x) for x in X])
    >>> uncached = decode_naive(X, cache.project_q, cache.project_k, cache.project_v)
    >>> cached.shape, len(cache), bool(np.allclose(cached, uncached))
    ((4, 2), 4, True)
    """

    def __init__(self, project_q: Project, project_k: Project, project_v: Project) -> None:
        self.project_q, self.project_k, self.project_v = project_q, project_k, project_v
        self.keys: list[np.ndarray] = []
        self.values: list[np.ndarray] = []

    def __len__(self) -> int:
        """Tokens held."""
        return len(self.keys)

    def step(self, x: np.ndarray) -> np.ndarray:
        """Take the newest token x, (width,), and return its attention output, (D,)."""
        q, k, v = self.project_q(x), self.project_k(x), self.project_v(x)
        self.keys.append(k)  # before attending: the newest token sees itself too
        self.values.append(v)
        return attend(q, np.array(self.keys), np.array(self.values))  # K and V: (S, D)
