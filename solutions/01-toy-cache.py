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
from kvlib import plots
from kvlib.counters import Projection

np.set_printoptions(precision=3, suppress=True, floatmode="fixed")

# %%
from kvlib import toy

X, W_Q, W_K, W_V = toy.X, toy.W_Q, toy.W_K, toy.W_V
for name, rows in (("X", X), ("Q = X @ W_Q", X @ W_Q), ("K = X @ W_K", X @ W_K), ("V = X @ W_V", X @ W_V)):
    print(name, rows, sep="\n")

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
# in every check. Scores stay small here, so you need not guard against overflow. `q`, `K` and `V` must not be changed.


# %% exercise="1.1"
def attend(q, K, V):
    """Attention output of one query.

    q: (D,), K: (S, D), V: (S, D).  Returns: (D,).

    With equal scores the output is the plain mean of the values:

    >>> K, V = np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([[2.0, 0.0], [4.0, 6.0]])
    >>> attend(np.array([1.0, 1.0]), K, V)
    array([3.000, 3.000])
    """
    ### BEGIN SOLUTION
    scores = K @ q / np.sqrt(len(q))  # (S,)
    weights = np.exp(scores)
    return weights / weights.sum() @ V  # (D,)
    ### END SOLUTION


# %% check="1.1"

# %% [markdown] hints="1.1"
#

# %% [markdown]
# ## Decoding without a cache
#
# Decoding is a loop. At step 1 only the first token exists, at step 2 two tokens, and so on. Without a cache, each step
# starts from the tokens and works out every key and every value again. A `Projection` multiplies by its matrix and
# counts the rows that go through it, so we need not trust anybody's arithmetic.


# %%
def decode_naive(X, project_q, project_k, project_v):
    outputs = []
    for t in range(len(X)):
        before = project_k.rows
        keys = np.array([project_k(x) for x in X[: t + 1]])  # every token so far, again
        values = np.array([project_v(x) for x in X[: t + 1]])
        output = attention(project_q(X[t]), keys, values)
        outputs.append(output)
        print(f"step {t + 1}: output {output}, key rows computed: {project_k.rows - before}")
    return np.array(outputs)


from kvlib.attention import attend as kv_attend

attention = mine_or("1.1", kv_attend)
project_q, project_k, project_v = Projection(W_Q), Projection(W_K), Projection(W_V)
naive = decode_naive(X, project_q, project_k, project_v)
rows = f"key rows {project_k.rows}, value rows {project_v.rows}, query rows {project_q.rows}"
print("in all:", rows)

# %% [markdown]
# 1 + 2 + 3 + 4 = 10 key rows, and as many value rows. Was your guess right?
#
# Now look at what is worked out more than once. The first token's key is the same at every step: the token does
# not change, and neither does `W_K`. Nothing that comes later can change it either, since a token looks only at itself
# and backwards. That is the whole reason why keys and values may be kept.
#
# **And the queries?** A query asks one question at one step: *what should the newest token look at?* No later step
# asks that question again, so an old query is never used again, and there is nothing to keep. Notice that even the loop
# above worked out only four query rows. This is why people speak of a KV cache and not of a QKV cache.
#
# The other half is easily forgotten: the newest token brings its own key and value, and must see itself. "With a cache
# you only compute Q" is wrong. Each step computes one query row, one key row *and* one value row.
#
# ## The picture
#
# One column for each step, one line for each token's row of `K` and `V`. Left: without a cache, every step computes its
# whole column. Right: with one, a step computes a single row, and reads the rest.

# %%
plots.draw_rows(4)

# %% [markdown]
# Move the slider, or use the arrow keys once it has the focus, to watch both grow to eight tokens.

# %% tags=["nbval-ignore-output"]
from kvlib import widgets

widgets.explore_rows(8)

# %% [markdown]
# ## How much is that in a real model?
#
# A real model starts from a prompt. It pushes **positions** through all its layers, where one position is one token going
# through the model once. To make one new token it needs the output at the newest position, and that is all it needs.
#
# Take a prompt of 3 tokens and make 2 new ones. Without a cache the model sees 3 positions to make the first new token
# and 4 to make the second: 7. With a cache it sees 3, then only the 1 that is new: 4. The second new token itself never
# goes in, because nothing is made from it yet.
#
# **Predict:** a prompt of 64 and 1,024 new tokens. How many times fewer positions with a cache? Ten times? A hundred?
#
# *Your guess:* ...

# %% [markdown] card="1.2"
# Both counts are whole numbers, for any `prompt` and `new` of at least 1.


# %% exercise="1.2"
def count_positions(prompt, new):
    """Positions that go through the model to make `new` tokens after `prompt` tokens.

    Returns: the pair (without a cache, with a cache).

    >>> count_positions(3, 2)
    (7, 4)
    """
    ### BEGIN SOLUTION
    uncached = sum(prompt + made for made in range(new))
    cached = prompt + (new - 1)
    return uncached, cached
    ### END SOLUTION


# %% check="1.2"

# %% [markdown] hints="1.2"
#

# %%
from kvlib import counts

count = mine_or("1.2", counts.count_positions)
for prompt, new in ((1, 4), (64, 16), (64, 128), (64, 1024)):
    uncached, cached = count(prompt, new)
    times = uncached / cached
    print(f"prompt {prompt:>2}, new {new:>5,}: {uncached:>8,} against {cached:>6,}, {times:6.1f} times")

# %% [markdown]
# The first line is our toy: with a prompt of one token these are the row counts, 10 against 4. The last line is an
# ordinary answer from a chat model. The factor keeps growing with the length: without a cache the count grows with the
# square of the length, with one in a straight line.

# %%
plots.draw_growth(prompt=64)

# %% [markdown]
# And a position costs more the later it comes, because it meets more keys. Multiplications in one attention layer of width
# 64, and how they grow when the text gets twice as long:

# %%
print("tokens       without a cache         with one")
for tokens in (1024, 2048, 4096, 8192):
    both = counts.multiplications(tokens, 64)
    grown = [later / sooner for later, sooner in zip(counts.multiplications(2 * tokens, 64), both)]
    print(f"{tokens:>6,} {both[0]:>17,} x {grown[0]:.1f} {both[1]:>13,} x {grown[1]:.1f}")

# %% [markdown]
# `x 7.4` is how many times the work grows when the text gets twice as long. The longer the text, the closer it comes to
# eight times without a cache, and to four with one: a cube against a square.

# %% [markdown]
# ## Build it
#
# Now write the cache. A token comes in, one output goes out, and the cache remembers. The check hands your class its own
# projections and counts every row that goes through them. So it sees not only *what* you answer, but how much
# work you did for it. A class that keeps the tokens and works everything out again gives right answers and fails.

# %% [markdown] card="1.3"
# **Shapes:** a token `x` is `(width,)`. Each `project_...` is a function that takes `(width,)`, or several tokens
# `(rows, width)`, and returns as many rows of `D` numbers; `D` need not be `width`. The output of `step` is `(D,)`.
#
# - `step(x)` takes the newest token and returns its attention output over all tokens so far, itself included.
# - Every token goes through each projection once, no more.
# - `len(cache)` is the number of tokens held. Two caches must not share anything.
#
# You may use your `attend`.


# %% exercise="1.3"
class ToyCache:
    """Keys and values of all tokens so far.

    >>> same = Projection(np.eye(2))  # leaves a token as it is
    >>> cache = ToyCache(same, same, same)
    >>> cache.step(np.array([1.0, 0.0]))  # one token sees only itself
    array([1.000, 0.000])
    >>> len(cache)
    1
    """

    def __init__(self, project_q, project_k, project_v):
        ### BEGIN SOLUTION
        self.project_q, self.project_k, self.project_v = project_q, project_k, project_v
        self.keys, self.values = [], []
        ### END SOLUTION

    def __len__(self):
        ### BEGIN SOLUTION
        return len(self.keys)
        ### END SOLUTION

    def step(self, x):
        ### BEGIN SOLUTION
        self.keys.append(self.project_k(x))  # before attending: the newest token sees itself
        self.values.append(self.project_v(x))
        return attend(self.project_q(x), np.array(self.keys), np.array(self.values))
        ### END SOLUTION


# %% check="1.3"

# %% [markdown] hints="1.3"
#

# %% [markdown]
# ## Experiment: the same outputs for less work

# %%
Cache = mine_or("1.3", toy.ToyCache)
project_q, project_k, project_v = Projection(W_Q), Projection(W_K), Projection(W_V)
cache = Cache(project_q, project_k, project_v)
for t, x in enumerate(X):
    before = project_k.rows
    output = np.array(cache.step(x))
    computed, equal = project_k.rows - before, np.allclose(output, naive[t])
    print(f"step {t + 1}: output {output}, key rows computed: {computed}, equal: {equal}")
rows = f"key rows {project_k.rows}, value rows {project_v.rows}, query rows {project_q.rows}"
print("in all:", rows)

# %% [markdown]
# Equal outputs, 4 rows in place of 10. A KV cache is not an approximation: nothing was left out, only never done twice.
#
# One thing is not free. The cache grows by one key and one value for each token, in every layer, for every sequence. In
# lesson 03 you will see that this is what fills a GPU.
#
# ## Explain
#
# 1. Why may keys and values be kept, and what would break that? Think of a model in which tokens also look *forwards*, or
#    of dropout during training.
# 2. A friend says: "I cache Q as well, to be safe." What does it cost, and what does it bring?
#
# *Write here, in your own words. Nobody grades it.*

# %% [markdown]
# ## Recall
#
# **Tomorrow:** without looking, write the three lines of `step`. Which comes first, keeping or attending, and why?
#
# **Next week:** a prompt of 100 tokens and 50 new ones: how many positions with a cache, and how many rows of keys in
# each layer?
#
# Next: [02 · A real decoder, in NumPy](../02-numpy-cache/02-numpy-cache.ipynb).
