# about: a cell of their own raises and another warns; the exercises are right
# expect: 1.1 full, 1.2 full, 1.3 full

# %% own
import warnings

import numpy as np

warnings.warn("just trying", stacklevel=1)


# %% exercise-1-1
def attend(q, K, V):
    scores = K @ q / np.sqrt(len(q))  # (S,)
    weights = np.exp(scores)
    return weights @ V / weights.sum()  # (D,)


# %% own
assert attend(np.ones(2), np.eye(2), np.eye(2)).sum() == 2


# %% exercise-1-2
def count_positions(prompt, new):
    uncached = new * prompt + new * (new - 1) // 2
    cached = prompt + new - 1
    return uncached, cached


# %% exercise-1-3
class ToyCache:
    def __init__(self, project_q, project_k, project_v):
        self.project_q, self.project_k, self.project_v = project_q, project_k, project_v
        self.keys, self.values = [], []

    def __len__(self):
        return len(self.keys)

    def step(self, x):
        self.keys.append(self.project_k(x))
        self.values.append(self.project_v(x))
        return attend(self.project_q(x), np.array(self.keys), np.array(self.values))
