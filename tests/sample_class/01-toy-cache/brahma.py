# about: everything right, but written with loops, a generator and one growing array
# expect: 1.1 full, 1.2 full, 1.3 full

# %% exercise-1-1
import math

import numpy as np


def attend(q, K, V):
    powers = [math.exp(sum(a * b for a, b in zip(q, key, strict=True)) / math.sqrt(len(q))) for key in K]
    return [sum(p * row[d] for p, row in zip(powers, V, strict=True)) / sum(powers) for d in range(len(V[0]))]


# %% exercise-1-2
def count_positions(prompt, new):
    return [sum(range(prompt, prompt + new)), len(range(prompt + new - 1))]


# %% exercise-1-3
class ToyCache:
    def __init__(self, *projections):
        self.projections = projections
        self.table = None  # (S, 2D): keys and values side by side

    def __len__(self):
        return 0 if self.table is None else self.table.shape[0]

    def step(self, x):
        q, k, v = (project(np.asarray(x)[None, :]) for project in self.projections)  # (1, D) each
        row = np.concatenate([k, v], axis=1)  # (1, 2D)
        self.table = row if self.table is None else np.concatenate([self.table, row])
        K, V = np.split(self.table, 2, axis=1)
        scores = q @ K.T / np.sqrt(q.shape[1])  # (1, S)
        weights = np.exp(scores - scores.max())
        return (weights / weights.sum() @ V)[0]
