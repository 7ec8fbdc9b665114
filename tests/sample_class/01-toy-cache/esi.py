# about: half done: the third exercise is still open
# expect: 1.1 full, 1.2 full, 1.3 none

# %% exercise-1-1
import numpy as np


def attend(q, K, V):
    scores = K @ q / np.sqrt(len(q))  # (S,)
    weights = np.exp(scores)
    return weights @ V / weights.sum()  # (D,)


# %% exercise-1-2
def count_positions(prompt, new):
    uncached = new * prompt + new * (new - 1) // 2
    cached = prompt + new - 1
    return uncached, cached
