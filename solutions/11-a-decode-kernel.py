# %% [markdown]
# # 11 · A decode kernel
#
# **At the end of this lesson you can claim:** *I compute attention without ever holding a row of scores, I cut a context into
# parts and put them together again, and I have written the loop of a GPU kernel that follows block tables, and run it.*
#
# You need lessons 04 and 06. It takes three hours; the first check turns green within half an hour. No GPU is needed: the
# kernel runs in NumPy everywhere, and in Triton where that is installed.
#
# **Letters.** `S` tokens held, `H` query heads, `Hkv` KV heads, `D` head dim, `P` parts of a context. `GP` query heads share
# a KV head, filled up to a power of two.
#
# ## Predict
#
# One request with 64,000 tokens decodes on a GPU of 132 processors. The model has 8 KV heads, and a program reads the keys
# and values of one of them. How many processors have work? What else could be cut?
#
# *Your guess:* ...

# %%
import numpy as np

from autograde import check, mine_or, passed

np.set_printoptions(precision=4, suppress=True)

# %% [markdown]
# ## Why block by block
#
# Softmax looks like two passes: the sum of all `exp(score)` first, then each one over it. A kernel that keeps all scores of
# a long context has to write them to memory and read them again. And `exp` overflows:

# %%
with np.errstate(over="ignore"):
    print("float32:", np.exp(np.float32([88, 89])), " float64:", np.exp([709.0, 710.0]))

# %% [markdown]
# So keep three things while the blocks go by: the largest score so far `m`, the sum of the powers `l`, and the sum of the
# values weighed with them `acc`. All are measured against `m`. When a block brings a larger one, both sums were too large
# by `exp(old - new)`, and shrink by it. Scores 1, then 3, with values 10 and 20:

# %%
m, total, acc = 1.0, 1.0, 10.0  # after the first key: exp(1 - 1) = 1
new = 3.0
shrink = np.exp(m - new)
total, acc = total * shrink + 1.0, acc * shrink + 20.0
print(acc / total, "=", (np.exp(1) * 10 + np.exp(3) * 20) / (np.exp(1) + np.exp(3)))

# %% [markdown] card="11.1"
# **Shapes:** `q` is `(D,)`, in float64. A block is `[k, v]`, `(n, D)` each, n of at least 1 and not always the same.
#
# - `blocks.next()` gives the next block, each once, and `None` at the end.
# - Scores are divided by `sqrt(D)`. They may be 2,000 or -2,000, and nothing overflows.
# - Without any block the output is D zeros. `q` stays as it is.


# %% exercise="11.1"
def online_attend(q, blocks):
    """Attention of one query over keys and values that come block by block.

    Returns: (D,).
    """
    ### BEGIN SOLUTION
    m, total, acc = -np.inf, 0.0, np.zeros(len(q))
    while (block := blocks.next()) is not None:
        k, v = block
        scores = k @ q / np.sqrt(len(q))  # (n,)
        new = max(m, scores.max())
        shrink, powers = np.exp(m - new), np.exp(scores - new)
        total = total * shrink + powers.sum()
        acc = acc * shrink + powers @ v
        m = new
    return acc / total if total else acc
    ### END SOLUTION


# %% check="11.1"

# %% [markdown] hints="11.1"
#

# %% [markdown]
# ## Experiment: large scores
#
# Scores of 64 keys, made larger and larger. The plain softmax in float64, yours, and what is right: the same with the
# largest score subtracted first.
#
# *Your guess:* from which line on does the plain one fail, and how ...

# %%
from kvlib import online_softmax as online_module

online = mine_or("11.1", online_module.online_attend)
rng = np.random.default_rng(0)
q, k, v = rng.normal(size=8), rng.normal(size=(64, 8)), rng.normal(size=(64, 8))


class Blocks:
    """The rows in blocks of 16, handed out once each."""

    def __init__(self, k, v):
        self.left = [[k[i : i + 16], v[i : i + 16]] for i in range(0, len(k), 16)]

    def next(self):
        return self.left.pop(0) if self.left else None


print("largest score   plain is right   yours is")
for size in (1, 20, 100, 400, 1000):
    scores = k @ (q * size) / np.sqrt(8)
    with np.errstate(over="ignore", invalid="ignore"):
        plain = np.exp(scores) @ v / np.exp(scores).sum()
    powers = np.exp(scores - scores.max())
    right = powers @ v / powers.sum()
    print(
        f"{scores.max():13.1f}   {np.allclose(plain, right)!s:<14}   {np.allclose(online(q * size, Blocks(k, v)), right)}"
    )

# %% [markdown]
# The plain one divides infinity by infinity. Yours never takes `exp` of anything above 0, and has read every block once.

# %% [markdown]
# ## Parts that do not wait
#
# One pass is one long line: block after block. But the three results do not care where they begin. Cut the context into
# parts, let each be worked out by itself, and put the results together at the end. First a part.

# %% [markdown] card="11.2"
# **Shapes:** `q` is `(H, D)`, the heads that share this KV head; `k`, `v` are `(S, D)`; all float64.
#
# - `m` `(H,)`: the largest score, scores divided by `sqrt(D)`. `l` `(H,)`: the sum of `exp(score - m)`. `acc` `(H, D)`: the
#   sum of `exp(score - m)` times the value. Nothing is divided by `l`.
# - A part may be empty, `S = 0`: `m` is `-inf`, `l` and `acc` are 0.
# - Scores may be in the thousands. `q`, `k` and `v` stay as they are.


# %% exercise="11.2"
def partial_attend(q, k, v):
    """What one part hands on.  Returns: (m, l, acc)."""
    ### BEGIN SOLUTION
    scores = q @ k.T / np.sqrt(q.shape[1])  # (H, S)
    m = scores.max(axis=1, initial=-np.inf)
    powers = np.exp(scores - m[:, None])
    return m, powers.sum(axis=1), powers @ v
    ### END SOLUTION


# %% check="11.2"

# %% [markdown] hints="11.2"
#

# %% [markdown]
# ## One of many
#
# Two parts with `m` of 1 and 3 are merged as two blocks were: everything is brought to the larger one, then added. An empty
# part has `m = -inf`, and `exp(-inf)` is 0: it adds nothing. But where all are empty, `-inf - -inf` waits.

# %% [markdown] card="11.3"
# **Shapes:** `m`, `l` are `(P, H)`, `acc` is `(P, H, D)`: the results of P parts, in any order.
#
# - Returns the attention over all of them, `(H, D)`.
# - Empty parts have no influence; a part may be empty for one head only. A head without any token gets zeros, never NaN.
# - The `m` of parts may lie thousands apart. What is passed in stays as it is.


# %% exercise="11.3"
def merge_parts(m, l, acc):
    """One attention from the results of its parts.  Returns: (H, D)."""
    ### BEGIN SOLUTION
    top = m.max(axis=0)  # (H,)
    weight = np.exp(m - np.where(np.isneginf(top), 0.0, top))  # (P, H)
    total = (weight * l).sum(axis=0)
    return (weight[:, :, None] * acc).sum(axis=0) / np.where(total == 0, 1.0, total)[:, None]
    ### END SOLUTION


# %% check="11.3"

# %% [markdown] hints="11.3"
#

# %% [markdown]
# ## Experiment: any number of parts
#
# Six query heads over 100 tokens of one KV head, cut into 1 to 16 parts, and into 130, of which 30 are empty.

# %%
from kvlib import split_attend as split_module

part_of, merge = mine_or("11.2", split_module.partial_attend), mine_or("11.3", split_module.merge_parts)
q, k, v = rng.normal(size=(6, 8)), rng.normal(size=(100, 8)), rng.normal(size=(100, 8))
scores = q @ k.T / np.sqrt(8)
powers = np.exp(scores - scores.max(axis=1, keepdims=True))
right = powers @ v / powers.sum(axis=1, keepdims=True)

for P in (1, 2, 3, 5, 16, 130):
    size = max(1, -(-100 // P))  # -(-a // b) rounds up
    parts = [part_of(q, k[i * size : (i + 1) * size], v[i * size : (i + 1) * size]) for i in range(P)]
    m, sums, acc = (np.stack(each) for each in zip(*parts))
    print(f"P = {P:>3}: the same to 12 digits: {np.abs(merge(m, sums, acc) - right).max() < 1e-12}")

# %% [markdown]
# No part waits for another, so all can run at once. That is **split-K**, or Flash-Decoding. A small GPU of eight processors,
# a model of two KV heads, one request with 32 tiles of context:

# %%
from kvlib.plots_kernel import draw_parts

draw_parts()

# %% [markdown]
# With one part six processors have nothing to do. With four all are busy. More parts gain nothing, and each writes three
# results that must be read and merged: the picture leaves that out. The request of the prediction, uncut, has 8 programs for
# 132 processors. A batch of many requests fills a GPU without any cut.

# %% [markdown]
# ## Tiles and pointers
#
# A GPU runs many **programs** of one text. In Triton such a program works on **tiles**, small arrays whose sizes are powers
# of two, and reads memory through **pointers**. `kvlib.tiles` is a stand-in in NumPy: the same words, on any machine. Three
# rows of two numbers, read as a tile of four rows:

# %%
from kvlib.tiles import pointer_to, tl

k = pointer_to([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], "k")
rows, dims = tl.arange(0, 4), tl.arange(0, 2)
places = rows[:, None] * 2 + dims[None, :]
print(tl.load(k + places, mask=(rows < 3)[:, None], other=0.0))
try:
    tl.load(k + places)
except IndexError as error:
    print("without the mask:", error)

# %% [markdown]
# A GPU says nothing there: it reads what is not yours, or ends your process. Now 11.2 again, as a real kernel does it: keys
# and values lie in the pools of lesson 06, in blocks that a table lists. A program serves one KV head, its `GP` queries, and
# the tokens of one part.

# %% [markdown] card="11.4"
# **In:** `q` is a tile `(GP, D)`. `k`, `v` point to pools `(num_blocks, BLOCK_SIZE, HKV, D)`, `table` to one sequence's block
# numbers, int32, from its first token on. `GP`, `D` and `BLOCK_SIZE` are powers of two.
#
# **Out:** `m` and `l` `(GP,)`, `acc` `(GP, D)` over tokens `first` to `last - 1`: the largest score, the sum of
# `exp(score - m)`, and the sum of `exp(score - m)` times the values, in float32. A score is a product times `scale`.
#
# - `first` and `last` may lie within a block. Where `last <= first`: `-inf`, zeros and zeros.
# - Nothing is read outside of the pools and the table. Rows of other tokens may be NaN. The table may go on with -1.
# - A pool may have more than 2**31 numbers: block numbers are multiplied as `tl.int64`.
# - Each key and each value is read once. Use `tl`, `range` and plain arithmetic only.


# %% exercise="11.4"
def attend_tiles(
    q, k, v, table, first, last, kv_head, scale,
    HKV: tl.constexpr, GP: tl.constexpr, D: tl.constexpr, BLOCK_SIZE: tl.constexpr,
):  # fmt: skip
    """Returns: (m, l, acc), what GP queries see of a part of their sequence.

    Of tl you need arange, full, zeros, load, where, sum, max, maximum, exp, float32 and int64.
    x.to(tl.int64) changes the type, tl.sum(x, 1) sums along axis 1, x[:, None] adds an axis.
    Minus infinity is float("-inf"): a kernel has neither np nor math.
    """
    ### BEGIN SOLUTION
    tokens, dims = tl.arange(0, BLOCK_SIZE), tl.arange(0, D)
    m = tl.full([GP], -float("inf"), tl.float32)
    total = tl.zeros([GP], tl.float32)
    acc = tl.zeros([GP, D], tl.float32)
    for start in range(first, last, BLOCK_SIZE):
        positions = start + tokens
        held = positions < last
        block = tl.load(table + positions // BLOCK_SIZE, mask=held, other=0).to(tl.int64)
        slots = (block * BLOCK_SIZE + positions % BLOCK_SIZE) * HKV + kv_head
        places = slots[:, None] * D + dims[None, :]
        keys = tl.load(k + places, mask=held[:, None], other=0.0)
        values = tl.load(v + places, mask=held[:, None], other=0.0)
        scores = tl.sum(q[:, None, :] * keys[None, :, :], 2) * scale  # (GP, BLOCK_SIZE)
        scores = tl.where(held[None, :], scores, -float("inf"))
        new_m = tl.maximum(m, tl.max(scores, 1))
        shrink = tl.exp(m - new_m)
        powers = tl.exp(scores - new_m[:, None])
        total = total * shrink + tl.sum(powers, 1)
        acc = acc * shrink[:, None] + tl.sum(powers[:, :, None] * values[None, :, :], 1)
        m = new_m
    return m, total, acc
    ### END SOLUTION


# %% check="11.4"

# %% [markdown] hints="11.4"
#

# %% [markdown]
# ## Experiment: all programs of a step
#
# Two KV heads of three query heads each, 37 tokens, three parts: six programs, one after the other, merged by 11.3.

# %%
from kvlib import attend_tiles as tiles_module
from kvlib import split_attend as split_module
from kvlib.tiles import numbers, pointer_to, tile

program, merge = mine_or("11.4", tiles_module.attend_tiles), mine_or("11.3", split_module.merge_parts)
BLOCK_SIZE, HKV, GP, D, length, P = 4, 2, 4, 8, 37, 3
pools = [rng.normal(size=(14, BLOCK_SIZE, HKV, D)).astype(np.float32) for _ in "kv"]
table = rng.permutation(14)[: -(-length // BLOCK_SIZE)].astype(np.int32)
q = rng.normal(size=(6, D)).astype(np.float32)
k_at, v_at, table_at = (pointer_to(a, name) for a, name in zip([*pools, table], ["k", "v", "table"]))

outputs = []
for kv_head in range(HKV):
    queries = np.zeros((GP, D), np.float32)
    queries[:3] = q[3 * kv_head : 3 * kv_head + 3]  # the fourth row only fills the tile
    parts = []
    for part in range(P):
        first, last = 13 * part, min(13 * part + 13, length)
        ends = tile(first), tile(last)
        found = program(tile(queries), k_at, v_at, table_at, *ends, tile(kv_head), D**-0.5, HKV, GP, D, BLOCK_SIZE)
        parts.append([numbers(one).astype(float) for one in found])
    outputs.append(merge(*(np.stack(each) for each in zip(*parts)))[:3])

k, v = (pool[table].reshape(-1, HKV, D)[:length].astype(float) for pool in pools)  # (S, Hkv, D)
scores = np.einsum("kgd,skd->kgs", q.reshape(HKV, 3, D), k) / np.sqrt(D)  # heads of a group side by side
powers = np.exp(scores - scores.max(axis=2, keepdims=True))
right = np.einsum("kgs,skd->kgd", powers / powers.sum(axis=2, keepdims=True), v)
print("attention, as far as float32 goes:", np.abs(np.stack(outputs) - right).max() < 1e-5)

# %% [markdown]
# ## The same text in Triton
#
# Now the source of your function goes into a file, behind `import triton.language as tl`, inside a kernel that knows which
# program it is. It runs on a GPU if there is one, else in Triton's interpreter, and is compiled for GPUs that are not here.
# All of it happens in a process of its own, which a bad read may end.

# %% tags=["nbval-ignore-output"]
from kvlib.gpu.own_kernel import try_own

print(try_own(program))

# %% [markdown]
# The interpreter shows that a kernel is right, not that it is fast: it runs one program after the other, in NumPy. The
# compiler finds what a GPU does not have. Try it: write the two sums of products as `tl.dot`, which a GPU's matrix units
# calculate. What becomes of the bytes of shared memory? On a GPU `tl.dot` rounds float32 to ten bits, unless it is told
# `input_precision="ieee"`.
#
# kvlib's own kernel, `kvlib/gpu/kernel.py`, is this loop with FP8, padded head dims and powers of two.

# %% [markdown]
# ## Explain
#
# 1. A part hands on three results. Why would its finished output, `acc / l`, not be enough?
# 2. Cutting the context speeds up one long request a lot, and a batch of 64 hardly. Why?
#
# *Write here, in your own words. Nobody grades it.*

# %% [markdown]
# ## Recall
#
# **Tomorrow:** a tile's largest score is above all before it. What happens to `m`, `l` and `acc`?
#
# **Next week:** why `.to(tl.int64)`, and what happens without it.
