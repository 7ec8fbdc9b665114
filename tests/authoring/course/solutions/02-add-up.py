# %% [markdown]
# # Adding up
# ## In short
# The same sentence stands here twice, and so do the cells.

# %% [markdown]
# Recall.

# %% [markdown]
# Recall.

# %%
import numpy as np
from kvlib.later import TWO
from kvlib.numbers import ONE

from autograde import check

ONE + TWO

# %% [markdown] card="2.1"
#


# %% exercise="2.1"
def add_up(numbers):
    """The sum of `numbers`."""
    ### BEGIN SOLUTION
    total = np.sum(numbers)
    return total
    ### END SOLUTION


# %% check="2.1"

# %% [markdown] hints="2.1"
#
