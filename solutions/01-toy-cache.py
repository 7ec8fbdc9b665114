# %% [markdown]
# # 01 · A cache you can check by eye
#
# **At the end of this lesson you can claim:** *I can say what a KV cache keeps, what it does not keep and why, and how
# much work it saves, and I have built one that saves exactly that.*
#
# You need lesson 00. It takes about an hour; the first check turns green within ten minutes.
#
# **Letters.** `D` is the width of one query, key or value. `S` is the number of tokens held so far. One row is one token.
#
# ## Predict
#
# A model writes a text of 4 tokens, one at a time. To write each one, it needs a key and a value for every token so
# far. Somebody forgot the cache, so at each step everything is worked out anew. How many key rows are worked out in
# all? How many would be enough? Write down two numbers before you read on.
#
# *Your guess:* without a cache ..., with a cache ...

# %% [markdown]
# ## The smallest model
#
# Four tokens, each a row of two numbers. Three small matrices turn a token `x` into a **query** (what am I looking
# for?), a **key** (what do I offer?) and a **value** (what do I hand over?).

# %%
import numpy as np
from autograde import check, mine_or
from kvlib import plots, toy
from kvlib.counters import Projection

np.set_printoptions(precision=3, suppress=True, floatmode="fixed")

X, W_Q, W_K, W_V = toy.X, toy.W_Q, toy.W_K, toy.W_V
print("X =", X, "Q = X @ W_Q =", X @ W_Q, "K = X @ W_K =", X @ W_K, "V = X @ W_V =", X @ W_V, sep="\n")

# %% [markdown]
# **Attention** lets the newest token look at all tokens so far. Take the fourth token. Its query is compared with each
# of the four keys; the comparison is a dot product divided by $\sqrt D$, here $\sqrt 2$. The softmax of lesson 00 makes
# weights of the four scores, and the output is the weighted mean of the four values.

# %%
q = X[3] @ W_Q
scores = q @ (X @ W_K).T / np.sqrt(2)
weights = np.exp(scores) / np.exp(scores).sum()
print("q4      ", q)
print("scores  ", scores)
print("weights ", weights, "sum", weights.sum())
print("output  ", weights @ (X @ W_V))

# %% [markdown]
# Check one by hand: the second score is $(1.0 \cdot 1 + 0.5 \cdot 0)/\sqrt 2 = 0.707$. The second token gets the
# largest weight, because its key points the same way as the query.

# %% [markdown] card="1.1"
# **Shapes:** `q` is `(D,)`, `K` is `(S, D)`, `V` is `(S, D)`; the output is `(D,)`. `D` is 2 in this lesson, but not
# in every check. Scores stay small here, so you need not guard against overflow.


# %% exercise="1.1"
def attend(q, K, V):
    """Attention output of one query.

    q: (D,), K: (S, D), V: (S, D).  Returns: (D,).

    With equal scores the output is the plain mean of the values:

    >>> attend(np.array([1.0, 1.0]), np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([[2.0, 0.0], [4.0, 6.0]]))
    array([3.000, 3.000])
    """
    ### BEGIN SOLUTION
    scores = K @ q / np.sqrt(len(q))  # (S,)
    weights = np.exp(scores)
    return weights / weights.sum() @ V  # (D,)
    ### END SOLUTION


# %% check="1.1"

# %% [markdown] hints="1.1"

# %% [markdown]
# ## Decoding without a cache
#
# Decoding is a loop. At step 1 only the first token exists, at step 2 two tokens, and so on. Without a cache each step
# starts from the tokens and works out every key and every value again. The projections below count their rows, so
# that we need not trust anybody's arithmetic.

# %%
from kvlib.attention_toy import placeholder  # noqa

# %% [markdown]
# Look at what is worked out twice. Row 1 of `K` is the same at every step: the first token does not change, and
# neither does `W_K`. Nothing that comes later can change it, because a token looks only backwards. So keys and
# values can be kept.
#
# **And the queries?** A query asks one question at one step: *what should the newest token look at?* No later step asks
# that question again. Old queries are never used, so there is nothing to keep. That is why it is called a KV cache and
# not a QKV cache.
