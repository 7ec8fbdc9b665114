# %% [markdown]
# # 04 · Fewer KV heads, and one cache for all layers
#
# **At the end of this lesson you can claim:** *I have built the cache of a modern decoder in PyTorch: grouped-query
# attention that copies no keys, one buffer for all layers that refuses what does not fit, and a forward pass whose logits
# equal full recomputation, whatever the tokens are cut into.*
#
# You need lessons 02 and 03. It takes two to three hours; the first check turns green within fifteen minutes. Arrays are now
# PyTorch tensors; a CPU is enough.
#
# **Letters.** `B` sequences, `T` new tokens, `S` tokens held, `L` layers, `H` query heads, `Hkv` KV heads, `G = H // Hkv`
# query heads to a KV head, `D` numbers in one head, `s` bytes of one number.
#
# ## Predict
#
# A large model has 64 query heads in each layer. It keeps 8 KV heads instead of 64: eight query heads read the same
# keys and values. What happens to the bytes of its cache, and to the number of scores that attention works out?
#
# *Your guess:* bytes divided by ..., scores divided by ...

# %% [markdown]
# ## Why fewer KV heads
#
# One token costs `2 * L * Hkv * D * s` bytes (lesson 03). Query heads are not in it: a query is used once and forgotten.
# Here are 80 layers with `D = 128` in 16 bits:

# %%
import torch

from autograde import check, mine_or
from kvlib.recompute_gqa import recompute_transformer
from kvlib.transformer import Transformer, TransformerConfig
from kvlib.widgets import explore

print("KV heads  KiB per token  scores per new token, S = 4,096")
for Hkv in (64, 8, 1):
    print(f"{Hkv:>8}  {2 * 80 * Hkv * 128 * 2 / 1024:>13,.0f}  {80 * 64 * 4096:>31,}")

# %% [markdown]
# The bytes shrink by 8; the scores stay, one for each *query* head and key. The three rows have names: **multi-head
# attention** (MHA, `Hkv = H`), **grouped-query attention** (GQA), **multi-query attention** (MQA, `Hkv = 1`). Decoding
# waits for bytes, so fewer bytes are what counts.
#
# ## Who reads what
#
# Six query heads, two KV heads. Let the *values* tell which one a query head reads: KV head 0 holds nothing but (1, 0),
# KV head 1 nothing but (0, 1). All keys are alike, so each output names its KV head.

# %%
H, Hkv, S = 6, 2, 3
q, k = torch.ones(1, H, 1, 2), torch.ones(1, Hkv, S, 2)
v = torch.eye(Hkv).reshape(1, Hkv, 1, Hkv).expand(1, Hkv, S, Hkv)
out = torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)
for h in range(H):
    print(f"query head {h}: {out[0, h, 0].tolist()}")

# %% [markdown]
# Neighbours share. PyTorch can repeat in two ways, and the wrong one gives the right shape:

# %%
heads = torch.tensor([0, 1])
print("repeat_interleave", heads.repeat_interleave(3).tolist())
print("repeat           ", heads.repeat(3).tolist())

# %% [markdown] card="4.1"
# **Shapes:** three whole numbers in, one whole number out.
#
# - Query head `h` of `num_heads` reads the KV head that it shares with its neighbours.
# - `ValueError` when `num_kv_heads` does not divide `num_heads`, and when `h` is not in `0..num_heads-1`.


# %% exercise="4.1"
def kv_head(h, num_heads, num_kv_heads):
    """The KV head that query head h reads.

    >>> [kv_head(h, 4, 2) for h in range(4)]
    [0, 0, 1, 1]
    """
    ### BEGIN SOLUTION
    if num_heads % num_kv_heads or not 0 <= h < num_heads:
        raise ValueError(f"head {h} of {num_heads}, with {num_kv_heads} KV heads")
    return h // (num_heads // num_kv_heads)
    ### END SOLUTION


# %% check="4.1"

# %% [markdown] hints="4.1"
#

# %% [markdown]
# ## Attention without a copy
#
# The easy way is to repeat every KV head `G` times and go on as with MHA. The numbers are right. But the copies are as
# large as the cache of the MHA model, written and read again at every step: what was saved is gone.
#
# Better leave the keys alone and move the *queries*. The `G` query heads of a group ask the same keys, so to that KV head
# they are simply more rows: `G * T` queries where there were `T`.

# %% [markdown] card="4.2"
# **Shapes:** `q` is `(B, H, T, D)`, `k` and `v` are `(B, Hkv, S, D)`; the result is `(B, H, T, D)`. `mask` is `(T, S)` of
# bools, `True` where the query may see the key; every query may see at least one.
#
# - No copy of `k` or `v` for each query head. Views cost nothing. The check measures the largest tensor made on the way,
#   with `T` far below `D`, so that scores are small. (PyTorch has a line for all of it. Write your own once.)
# - Scores are divided by the square root of `D`. The arguments must not be changed.


# %% exercise="4.2"
def gqa_attend(q, k, v, mask):
    """Attention of H query heads over Hkv KV heads.  Returns: (B, H, T, D).

    With one key, every head gives the value of its KV head:

    >>> q, k, v = torch.ones(1, 2, 1, 2), torch.ones(1, 1, 1, 2), torch.tensor([[[[3.0, 4.0]]]])
    >>> gqa_attend(q, k, v, torch.tensor([[True]])).tolist()
    [[[[3.0, 4.0]], [[3.0, 4.0]]]]
    """
    ### BEGIN SOLUTION
    B, H, T, D = q.shape
    Hkv = k.shape[1]
    G = H // Hkv
    rows = q.reshape(B, Hkv, G * T, D)  # (B, Hkv, G*T, D): the group's heads, one after the other
    scores = rows @ k.transpose(2, 3) / D**0.5  # (B, Hkv, G*T, S)
    hidden = ~mask.repeat(G, 1)  # (G*T, S): the same T rows for each head
    weights = scores.masked_fill(hidden, -torch.inf).softmax(dim=-1)
    return (weights @ v).reshape(B, H, T, D)  # (B, H, T, D)
    ### END SOLUTION


# %% check="4.2"

# %% [markdown] hints="4.2"
#

# %% [markdown]
# ## One buffer for all layers
#
# Now several tokens may come at once, a **chunk**, and one object serves all layers. That makes the counter delicate:
# layer 0 stores first, and if it moved the counter on, layer 1 would write behind it. So storing and counting are two
# methods:
#
#     for each layer:  K, V = cache.append(layer, k, v)    # stores, and shows everything so far
#     once, at the end:       cache.advance(T)             # now the tokens count
#
# And when a pass fails half-way, nothing was counted, and running it again writes over what it left.
#
# All memory is taken at the start, because an engine plans with it. Now watch torch do three things in silence:

# %%
K = torch.zeros(1, 1, 2, 3)
K[:, :, 2:3] = torch.ones(1, 1, 1, 3)  # one token past the end: no error, and nothing is stored
print(K.tolist())
K[:, :, 0:2] = torch.ones(1, 1, 1, 3)  # one token for two places: written twice
print(K.tolist())
K[:, :, 0:1] = torch.full((1, 1, 1, 3), 0.1, dtype=torch.float64)  # another dtype: rounded
print(K[0, 0, 0, 0].item())

# %% [markdown] card="4.3"
# **Shapes:** `k` and `v` are `(B, Hkv, T, D)`; `append` returns the pair `(K, V)`, each `(B, Hkv, S + T, D)`: all tokens of
# that layer, oldest first, the new ones included. Views or copies, as you like.
#
# - `len(cache)` is the number of tokens held by each sequence. Only `advance(n)` and `reset()` change it.
# - A second `append` to a layer before `advance` writes over the first, also when it brings fewer tokens.
# - `can_append(n)` says whether `n` more tokens fit: `True` or `False`.
# - **`ValueError`, and nothing changes:** not all `T` tokens fit; not four axes, or another `B`, `Hkv` or `D`; `k` and `v`
#   are not alike; another dtype than the cache's; a layer that is not in `0..num_layers-1`; `advance(n)` with `n < 0` or beyond `max_len`.
# - All memory is taken in `__init__` and stays: `2 * L * B * Hkv * max_len * D` elements of `dtype`. `nbytes` gives its
#   bytes (for a plain attribute, delete the stub of the property).
# - The caller may reuse its tensors: store copies. `reset()` makes the length 0.


# %% exercise="4.3"
class GQACache:
    """Keys and values of up to `max_len` tokens of `batch_size` sequences, in all layers.

    >>> cache = GQACache(num_layers=1, batch_size=1, num_kv_heads=1, max_len=4, head_dim=2)
    >>> k, v = torch.tensor([[[[1.0, 2.0]]]]), torch.tensor([[[[3.0, 4.0]]]])
    >>> K, V = cache.append(0, k, v)
    >>> K.tolist(), len(cache)
    ([[[[1.0, 2.0]]]], 0)
    >>> cache.advance(1)
    >>> len(cache), cache.nbytes
    (1, 64)
    """

    def __init__(self, num_layers, batch_size, num_kv_heads, max_len, head_dim, dtype=torch.float32):
        ### BEGIN SOLUTION
        self.max_len, self.used = max_len, 0
        self.buffer = torch.empty(2, num_layers, batch_size, num_kv_heads, max_len, head_dim, dtype=dtype)
        ### END SOLUTION

    def __len__(self):
        ### BEGIN SOLUTION
        return self.used
        ### END SOLUTION

    @property
    def nbytes(self):
        ### BEGIN SOLUTION
        return self.buffer.nbytes
        ### END SOLUTION

    def can_append(self, num_tokens):
        ### BEGIN SOLUTION
        return self.used + num_tokens <= self.max_len
        ### END SOLUTION

    def append(self, layer, k, v):
        ### BEGIN SOLUTION
        _, L, B, Hkv, _, D = self.buffer.shape
        if not 0 <= layer < L:
            raise ValueError(f"layer {layer} of {L}")
        for rows in (k, v):
            if rows.ndim != 4 or rows.shape != (B, Hkv, k.shape[2], D) or rows.dtype != self.buffer.dtype:
                raise ValueError(f"wanted ({B}, {Hkv}, T, {D}), got {tuple(rows.shape)} of {rows.dtype}")
        T = k.shape[2]
        if not self.can_append(T):
            raise ValueError(f"holds {self.used} of {self.max_len} tokens, {T} more asked")
        end = self.used + T
        self.buffer[0, layer, :, :, self.used : end] = k  # copies the numbers
        self.buffer[1, layer, :, :, self.used : end] = v
        return self.buffer[0, layer, :, :, :end], self.buffer[1, layer, :, :, :end]
        ### END SOLUTION

    def advance(self, num_tokens):
        ### BEGIN SOLUTION
        if num_tokens < 0 or not self.can_append(num_tokens):
            raise ValueError(f"holds {self.used} of {self.max_len} tokens, advance by {num_tokens} asked")
        self.used += num_tokens
        ### END SOLUTION

    def reset(self):
        ### BEGIN SOLUTION
        self.used = 0
        ### END SOLUTION


# %% check="4.3"

# %% [markdown] hints="4.3"
#

# %% [markdown]
# The cache at work, in two layers with room for 8 tokens. The last token does not fit. Move the slider.

# %%
from kvlib import gqa_cache

Cache = mine_or("4.3", gqa_cache.GQACache)

# %%
explore(Cache)

# %% [markdown]
# ## The decoder, in any portions
#
# The model has what today's models have: RMSNorm, rotary positions, grouped-query attention. Here you need five pieces:
#
# | piece | takes | gives |
# |---|---|---|
# | `model.embed(tokens)` | `(B, T)` | `x`, `(B, T, width)` |
# | `model.blocks` | | the list of blocks, first to last |
# | `block.qkv(x, positions)` | `x` and `(T,)` whole numbers | `q` `(B, H, T, D)`, `k` and `v` `(B, Hkv, T, D)` |
# | `block.finish(x, attended)` | the `x` that came in, and `(B, H, T, D)` | the block's output, residuals and all |
# | `model.unembed(x)` | the last block's output | logits, `(B, T, vocab_size)` |
#
# One thing is new: tokens of a chunk must not see those that come after them. The mask is a rectangle, `T` rows and `S + T`
# columns, and `model.mask(S, T)` makes it. Lesson 05 is about it. With three tokens held and a chunk of two:

# %%
config = TransformerConfig(num_layers=2, width=12, num_heads=4, num_kv_heads=2, head_dim=6, hidden=16, vocab_size=11)
small = Transformer.random(config, torch.Generator().manual_seed(0), torch.float64)
print(small.mask(3, 2).int())

# %% [markdown] card="4.4"
# **Shapes:** `tokens` is `(B, T)`, and the logits are `(B, T, vocab_size)`.
#
# - `cache` is a `GQACache`; `len(cache)` tokens are held before the call, and `T` more after it.
# - The logits of every position equal full recomputation, whatever the tokens were cut into.
# - Each layer projects each token once.
# - When the chunk does not fit, `ValueError` (the cache's own will do), and nothing of the chunk is held.
#
# For attention take your `gqa_attend`, or
# `torch.nn.functional.scaled_dot_product_attention(q, K, V, attn_mask=mask, enable_gqa=True)`. The check brings a model
# and a cache of its own, with the methods named here.


# %% exercise="4.4"
def forward(model, cache, tokens):
    """A chunk of tokens through all layers.  Returns: logits (B, T, vocab_size)."""
    ### BEGIN SOLUTION
    start, T = len(cache), tokens.shape[1]
    positions, mask = torch.arange(start, start + T), model.mask(start, T)
    x = model.embed(tokens)
    for layer, block in enumerate(model.blocks):
        q, k, v = block.qkv(x, positions)
        K, V = cache.append(layer, k, v)  # (B, Hkv, S + T, D) each
        x = block.finish(x, gqa_attend(q, K, V, mask))
    cache.advance(T)
    return model.unembed(x)
    ### END SOLUTION


# %% check="4.4"

# %% [markdown] hints="4.4"
#

# %% [markdown]
# ## Experiment: four ways to cut seven tokens
#
# Full recomputation knows no cache and no chunks. Beside it the right mask, and the one that PyTorch's `is_causal=True`
# gives to chunks: the *top left* of the triangle.

# %%
from kvlib import generate

push = mine_or("4.4", generate.forward)


# %%
class TopLeft(Transformer):
    """Chunks get the first rows of the triangle; a single token sees all."""

    def mask(self, start, num_tokens):
        end = start + num_tokens
        return super().mask(0, end)[:num_tokens] if num_tokens > 1 else super().mask(start, 1)


tokens = torch.tensor([[1, 1, 0, 10, 5, 3, 7], [2, 8, 8, 4, 0, 6, 9]])
full = torch.tensor(recompute_transformer(small.weights, config, tokens))  # (2, 7, 11)
wrong_mask = TopLeft(config, small.weights)
print("largest logit error     right mask  top-left mask")
for partition in ([7], [1] * 7, [3, 1, 1, 1, 1], [3, 2, 2]):
    errors = []
    for run, model in ((push, small), (generate.forward, wrong_mask)):
        cache = Cache(2, 2, 2, 7, 6, torch.float64)
        logits = torch.cat([run(model, cache, chunk) for chunk in tokens.split(partition, dim=1)], dim=1)
        errors.append((logits - full).abs().max().item())
    print(f"{partition!s:22}  {errors[0]:>10.6f}  {errors[1]:>13.6f}")

# %% [markdown]
# Three of the four partitions cannot show the wrong mask. It is wrong only when several tokens come *and* some are held: a
# long prompt in portions.
#
# ## Experiment: what it saves
#
# A larger model: 4 layers, width 512, 8 query heads on 2 KV heads, FP32, random weights. A prompt of 64 tokens, then 32
# new ones, each the best by the logits before it.

# %%
sizes = dict(num_layers=4, width=512, num_heads=8, head_dim=64, hidden=1024, vocab_size=1000)
model = Transformer.random(TransformerConfig(num_kv_heads=2, **sizes), torch.Generator().manual_seed(0))
prompt = torch.randint(0, 1000, (1, 64), generator=torch.Generator().manual_seed(0))
new = 32

text, plain_logits, pushed_plain = prompt, [], 0
for _ in range(new):  # without a cache: all tokens again for each new one
    plain_logits.append(model.logits(text)[:, -1])  # (1, 1000)
    pushed_plain += text.shape[1]
    text = torch.cat([text, plain_logits[-1].argmax(dim=-1, keepdim=True)], dim=1)

cache, chunk, cached_logits, pushed_cached = Cache(4, 1, 2, 64 + new - 1, 64), prompt, [], 0
for _ in range(new):
    cached_logits.append(push(model, cache, chunk)[:, -1])
    pushed_cached += chunk.shape[1]
    chunk = cached_logits[-1].argmax(dim=-1, keepdim=True)  # (1, 1)

plain_logits, cached_logits = torch.cat(plain_logits), torch.cat(cached_logits)  # (32, 1000) each
print("same tokens:", torch.equal(plain_logits.argmax(dim=-1), cached_logits.argmax(dim=-1)))
print(f"logits reach from {plain_logits.min():.1f} to {plain_logits.max():.1f}")
print(f"positions pushed through: {pushed_plain:,} without a cache, {pushed_cached} with one")
per_token = 2 * 4 * 2 * 64 * 4
print(f"bytes: {per_token:,} for a token, {per_token * len(cache):,} for {len(cache)}; the cache says {cache.nbytes:,}")

# %% tags=["nbval-ignore-output"]
print(f"largest logit difference: {(plain_logits - cached_logits).abs().max():.0e}")

# %% [markdown]
# The logits differ by rounding: FP32 sums depend on the shapes that they are done in. For a longer answer, by the formula
# of lesson 01:

# %%
p, n = 64, 1024
plain, cached = n * p + n * (n - 1) // 2, p + n - 1
print(f"{n:,} new tokens: {plain:,} positions or {cached:,}, a factor of {plain / cached:.0f}")
print(f"the cache then takes {per_token * cached:,} bytes")

# %% [markdown]
# ## From many heads to few
#
# Can an MHA model be turned into a GQA model? The published recipe (Ainslie et al. 2023, *GQA*) begins with a mean: the
# key projections of the heads that will share become one, and so do their value projections.

# %% [markdown] card="4.5"
# **Shapes:** `weight` is `(H * D, width)`, as `nn.Linear` keeps it: `D` rows for head 0, then `D` for head 1, and so on.
# The result is `(Hkv * D, width)`.
#
# - `ValueError` when `num_kv_heads` does not divide `num_heads`, and when `num_heads` does not divide the rows.
# - `weight` must not be changed.


# %% exercise="4.5"
def mean_pool_kv(weight, num_heads, num_kv_heads):
    """The mean over the heads of each group.  Returns: (Hkv * D, width).

    Two heads of one row each become one:

    >>> mean_pool_kv(torch.tensor([[1.0, 2.0], [3.0, 6.0]]), 2, 1).tolist()
    [[2.0, 4.0]]
    """
    ### BEGIN SOLUTION
    rows, width = weight.shape
    if num_heads % num_kv_heads or rows % num_heads:
        raise ValueError(f"{rows} rows, {num_heads} heads, {num_kv_heads} KV heads")
    G, D = num_heads // num_kv_heads, rows // num_heads
    return weight.reshape(num_kv_heads, G, D, width).mean(dim=1).reshape(num_kv_heads * D, width)  # (Hkv*D, width)
    ### END SOLUTION


# %% check="4.5"

# %% [markdown] hints="4.5"
#

# %% [markdown]
# What does it cost? Pool an MHA model of 8 heads, and look at the logits.

# %%
from kvlib import gqa

pool = mine_or("4.5", gqa.mean_pool_kv)

# %%
many = Transformer.random(TransformerConfig(num_kv_heads=8, **sizes), torch.Generator().manual_seed(0))
before = many.logits(prompt)  # (1, 64, 1000)
print(f"logits reach from {before.min():.1f} to {before.max():.1f}")
for Hkv in (8, 4, 2, 1):
    weights = {name: pool(w, 8, Hkv) if name.endswith((".k", ".v")) else w for name, w in many.weights.items()}
    after = Transformer(TransformerConfig(num_kv_heads=Hkv, **sizes), weights).logits(prompt)
    same = (before.argmax(dim=-1) == after.argmax(dim=-1)).sum()
    error = (before - after).abs().mean()
    print(f"Hkv = {Hkv}: {error:.2f} off on average, same best token at {same} of 64 positions")

# %% [markdown]
# Random heads have nothing in common: the worst case. But pooling is only where the recipe *begins*: then the
# model is trained further, for about 5% of its original training steps. Published results, which hold in their setting:
#
# | who, and on what | MHA | GQA, 8 KV heads | MQA |
# |---|---|---|---|
# | Shazeer 2019, translation, from scratch: decoder time per token on a TPUv2, BLEU (dev) | 46 µs, 26.7 | | 3.8 µs, 26.5 |
# | Ainslie et al. 2023, T5-XXL pooled and trained further: mean score, time per sample | 47.2, 1.51 s | 47.1, 0.28 s | 46.6 |
# | DeepSeek-AI 2024 (DeepSeek-V2), 7B from scratch: MMLU | 45.2 | 41.2 | 37.9 |
#
# ## Find the bug
#
# Caches like this one are printed in many tutorials. It has one layer, so it may count in `append`.

# %%
import inspect

from kvlib.minimal_cache import MinimalCache

print(inspect.getsource(MinimalCache))

# %% [markdown] card="4.6"
# Break it: find chunks that all go in **without any exception**, and yet a token is lost.
#
# **Shapes:** a whole number `max_len` in, a list of whole numbers out: the sizes of the chunks, in the order in which they
# are appended to a `MinimalCache` of that capacity. It must work for every `max_len`.


# %% exercise="4.6"
def breaking_chunks(max_len):
    """Sizes of chunks that lose a token in silence.  Returns: a list of ints."""
    ### BEGIN SOLUTION
    return [max_len, 1]
    ### END SOLUTION


# %% check="4.6"

# %% [markdown] hints="4.6"
#

# %%
from autograde import passed

if passed("4.6"):
    leaky, appended = MinimalCache(1, 1, 8, 1), 0
    for T in breaking_chunks(8):
        K, V = leaky.append(torch.ones(1, 1, T, 1), torch.ones(1, 1, T, 1))
        appended += T
    print(f"{appended} tokens appended, the counter says {leaky.used}, and {K.shape[2]} rows come back")
else:
    print("Your chunks do not pass check 4.6 yet; come back when they do.")

# %% [markdown]
# ## Explain
#
# 1. Why may `append` not move the counter on, and why is it enough that `advance` does so once?
# 2. A test feeds a prompt in one piece, then decodes token by token, and compares every logit. Which mistake of this
#    lesson does it miss, and which single run would show it?
#
# *Write here, in your own words. Nobody grades it.*

# %% [markdown]
# ## Recall
#
# **Tomorrow:** write down the bytes of one token for 32 layers, 8 KV heads and `D = 128` in 16 bits. Which number of the
# model does not enter?
#
# **Next week:** a friend's cache passes all tests with `torch.zeros` and fails with `torch.empty`. What is wrong with it?
