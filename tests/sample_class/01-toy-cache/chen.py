# about: everything wrong
# expect: 1.1 none, 1.2 none, 1.3 none

# %% exercise-1-1
def attend(q, K, V):
    return K.sum(axis=0) + q


# %% exercise-1-2
def count_positions(prompt, new):
    return prompt * new, prompt * new


# %% exercise-1-3
class ToyCache:
    def __init__(self, project_q, project_k, project_v):
        self.project_v = project_v

    def __len__(self):
        return 0

    def step(self, x):
        return -self.project_v(x)
