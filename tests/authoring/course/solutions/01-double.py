# %% [markdown] files=["table.csv"]
# # Doubling
# ## In short
# A small lesson, in nine words or so.

# %%
from pathlib import Path

import matplotlib.pyplot as plt

from autograde import check
from kvlib import numbers

# %matplotlib inline
print(numbers.ONE, Path("table.csv").read_text().strip())

# %% [markdown] card="1.1"
# Doubling is adding a number to itself.


# %% exercise="1.1"
def double(x):
    """Twice `x`: `double(2)` is 4."""
    ### BEGIN SOLUTION
    result = x + x
    return result
    ### END SOLUTION


# %% check="1.1"

# %% [markdown] hints="1.1"
#

# %% [markdown] card="1.2"
#


# %% exercise="1.2"
def triple(x):
    """Three times `x`."""
    ### BEGIN SOLUTION
    return 3 * x
    ### END SOLUTION


# %% check="1.2"
check("1.2")

# %% [markdown] hints="1.2"
#

# %%
_ = plt.plot([1, 2, 4])

# %% tags=["nbval-ignore-output"]
print(id(plt))

# %% tags=["raises-exception"]
1 / 0

# %%
2**10
