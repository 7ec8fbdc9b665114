# %% [markdown]
# # 02 · A real decoder, in NumPy
#
# **At the end of this lesson you can claim:** *I have put a cache of fixed size into a decoder with several blocks, its
# logits equal full recomputation at every position, it refuses what it cannot do right, and I can write the test that
# proves it.*
#
# You need lesson 01. It takes about an hour and a half; the first check turns green within twenty minutes.
#
# **Letters.** `S` tokens held. `width` is the length of one token's row, and here also of its query, key and value. A
# **block** is one transformer layer. **Logits** are one number for each token of the vocabulary: the larger, the likelier.
#
# ## Predict
#
# Below is a decoder with room for 8 tokens. Suppose somebody caches keys and values, but embeds every token at position
# 0. Will the *first* logits be right? The second? Will the best token be wrong at once?
#
# *Your guess:* ...

# %% [markdown]
# ## The decoder
#
# It is a small one, but nothing is missing: tokens and positions are looked up in two tables and added; each block
# normalises, attends, and adds what it found; at the end come the logits. It has one attention head, and its weights are
# random. A cache does not care: if it is right for random weights, it is right for trained ones.

# %%
import numpy as np

from autograde import check, mine_or
from kvlib.attention import attend
from kvlib.decoder import Decoder, DecoderConfig
from kvlib.recompute import recompute_logits

np.set_printoptions(precision=3, suppress=True, floatmode="fixed")

config = DecoderConfig(num_layers=1, vocab_size=3, width=4, hidden=8, max_len=8)
model = Decoder.random(config, np.random.default_rng(0))
tokens = [0, 1, 2, 0, 1, 2, 0, 1]
full = recompute_logits(model.weights, tokens)  # (8, 3)
print(full)

# %% [markdown]
# `recompute_logits` is the judge in this lesson: plain loops in float64, with no cache, the whole prefix worked out anew
# for every position. Row `t` holds the logits after token `t`.
#
# These are the pieces of the decoder that you will call:
#
# | piece | takes | gives |
# |---|---|---|
# | `model.embed(token, position)` | two whole numbers | `x`, `(width,)` |
# | `model.blocks` | | the list of blocks, first to last |
# | `block.norm(x)` | `(width,)` | `h`, what attention gets to see of `x` |
# | `block.project_q(h)`, `project_k(h)`, `project_v(h)` | `(width,)` | `(width,)` each |
# | `block.finish(x, attended)` | `x` and what attention gave | the block's output: `x + attended @ W_O`, then the feed-forward part |
# | `model.unembed(x)` | the last block's output | the logits, `(vocab_size,)` |
#
# `attend(q, K, V)` is the one of lesson 01. No mask is needed: every token in the cache lies in the past.

# %% [markdown]
# ## Room for so many, and no more
#
# A list can grow without end; memory cannot. Serving engines set aside a fixed number of rows, so a cache has a
# **capacity**. What should happen when it is full? Dropping the token, or writing it over an old one, gives text that
# looks fine and is wrong. The honest answer is an error, **and nothing else may change**: whoever catches it can go on
# with a cache that is still right.
#
# Watch NumPy do the dishonest thing, twice:

# %%
K = np.zeros((2, 3))
K[2:3] = np.ones(3)  # one row past the end: no error, and nothing is stored
print(K)
K[0] = np.ones(1)  # a key of the wrong length: no error either
print(K)

# %% [markdown] card="2.1"
# **Shapes:** `k` and `v` are `(width,)`. `rows()` gives the pair `(K, V)`, each `(S, width)`, oldest token first.
#
# - `append(k, v)` keeps one token. What it returns is up to you.
# - When the cache is full, or a shape is not `(width,)`, `append` raises `ValueError` and nothing changes.
# - The caller may reuse the arrays that it passed in.
# - `len(cache)` is the number of tokens held. `reset()` makes it 0, so that a new run can begin.


# %% exercise="2.1"
class KVCache:
    """Keys and values of up to `max_len` tokens.

    >>> cache = KVCache(max_len=2, width=3)
    >>> _ = cache.append(np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0]))
    >>> cache.rows()
    (array([[1.000, 2.000, 3.000]]), array([[4.000, 5.000, 6.000]]))
    """

    def __init__(self, max_len, width):
        ### BEGIN SOLUTION
        self.max_len, self.width, self.used = max_len, width, 0
        self.K, self.V = np.empty((max_len, width)), np.empty((max_len, width))
        ### END SOLUTION

    def __len__(self):
        ### BEGIN SOLUTION
        return self.used
        ### END SOLUTION

    def append(self, k, v):
        ### BEGIN SOLUTION
        if self.used == self.max_len:
            raise ValueError(f"holds {self.used} of {self.max_len} tokens, 1 more asked")
        if k.shape != (self.width,) or v.shape != (self.width,):
            raise ValueError(f"wanted two rows of shape ({self.width},), got {k.shape} and {v.shape}")
        self.K[self.used], self.V[self.used] = k, v  # copies the numbers
        self.used += 1
        ### END SOLUTION

    def rows(self):
        ### BEGIN SOLUTION
        return self.K[: self.used], self.V[: self.used]
        ### END SOLUTION

    def reset(self):
        ### BEGIN SOLUTION
        self.used = 0
        ### END SOLUTION


# %% check="2.1"

# %% [markdown] hints="2.1"
#

# %% [markdown]
# ## One token through one block
#
# Without a cache a block works on all tokens at once. With one, a single token comes in, and whatever the block needs of
# the others is in its cache. Two things change inside, and only two: the token's key and value go *into* the cache, and
# attention reads all rows *from* it.
#
# A common slip: the projections take the normalised `h`, but the residual connection in `finish` adds to `x` itself.

# %% [markdown] card="2.2"
# **Shapes:** `x` is `(width,)`, and so is the result; `x` itself must not be changed. `block` and `cache` have the methods described above; the check
# brings its own, so do not rely on anything else about them.


# %% exercise="2.2"
def block_step(block, cache, x):
    """One token through one block. Adds exactly one row to the cache.

    For the first token, attention sees one row, so it gives that token's own value.
    """
    ### BEGIN SOLUTION
    h = block.norm(x)
    cache.append(block.project_k(h), block.project_v(h))
    K, V = cache.rows()  # (S, width) each
    return block.finish(x, attend(block.project_q(h), K, V))
    ### END SOLUTION


# %% check="2.2"

# %% [markdown] hints="2.2"
#

# %% [markdown]
# ## The whole decoder
#
# Three things are left, and each is a classic mistake.
#
# - **Position.** A single token does not know where it stands. Its position is the number of tokens held *before* it.
# - **Every block has its own cache.** Block 2 does not see tokens but what block 1 made of them, so it has other keys and
#   values.
# - **Refusals come first.** A bad token must be refused before any block has stored anything: with two blocks it is too
#   late once the first one has. `embed` of our model refuses bad tokens by itself; most models' do not, since a
#   bare table takes -1 for its last row. The model in the check has such a table, so do not leave it to `embed`.

# %% [markdown] card="2.3"
# **Shapes:** `token` is a whole number, `step` returns logits of shape `(vocab_size,)`.
#
# - `step(token)` returns the logits after this token, equal to full recomputation. The check allows float32 rounding, but in
#   float64 you should get about 1e-10.
# - `step` raises `ValueError` for a token below 0 or not below `model.vocab_size`, and when `max_len` tokens are held. `max_len`
#   may be smaller than the model's own. A refused token changes nothing.
# - Each block projects each token once.
# - `len(decoder)` is the number of tokens held; `reset()` starts again.
#
# You may use your `KVCache` and `block_step`, or plain lists.


# %% exercise="2.3"
class CachedDecoder:
    """Decodes one token at a time.

    model: has blocks, vocab_size, width, embed and unembed, as in the table above.
    max_len: the most tokens it may hold.
    """

    def __init__(self, model, max_len):
        ### BEGIN SOLUTION
        self.model, self.max_len = model, max_len
        self.caches = [KVCache(max_len, model.width) for _ in model.blocks]
        ### END SOLUTION

    def __len__(self):
        ### BEGIN SOLUTION
        return len(self.caches[0])
        ### END SOLUTION

    def step(self, token):
        ### BEGIN SOLUTION
        if not 0 <= token < self.model.vocab_size:
            raise ValueError(f"token {token} is not in 0..{self.model.vocab_size - 1}")
        if len(self) == self.max_len:
            raise ValueError(f"holds {len(self)} of {self.max_len} tokens, 1 more asked")
        x = self.model.embed(token, len(self))
        for block, cache in zip(self.model.blocks, self.caches):
            x = block_step(block, cache, x)
        return self.model.unembed(x)
        ### END SOLUTION

    def reset(self):
        ### BEGIN SOLUTION
        for cache in self.caches:
            cache.reset()
        ### END SOLUTION


# %% check="2.3"

# %% [markdown] hints="2.3"
#

# %% [markdown]
# ## Experiment: right, and wrong in a way that hides
#
# First the right one. Every logit vector is compared with full recomputation, then a ninth token is offered.

# %%
from kvlib import numpy_cache

Decode = mine_or("2.3", numpy_cache.CachedDecoder)
decoder = Decode(model, max_len=8)
for t, token in enumerate(tokens):
    logits = np.array(decoder.step(token))
    equal = np.allclose(logits, full[t], rtol=1e-10, atol=1e-10)
    print(f"token {token}: logits {logits}, equal to recomputation: {equal}")
try:
    decoder.step(2)
except ValueError as error:
    print("the ninth token:", type(error).__name__)
print("still holds", len(decoder))

# %% [markdown]
# Now the decoder of your prediction: a cache that is fine, and position 0 for everyone.


# %%
class Lost(numpy_cache.CachedDecoder):
    """Every token is embedded at position 0."""

    def __init__(self, model, max_len):
        super().__init__(AtZero(model), max_len)


class AtZero:
    def __init__(self, model):
        self.model, self.blocks, self.unembed = model, model.blocks, model.unembed
        self.vocab_size, self.width, self.max_len = model.vocab_size, model.width, model.max_len

    def embed(self, token, position):
        return self.model.embed(token, 0)


lost = Lost(model, max_len=8)
wrong = np.array([lost.step(token) for token in tokens])
print("position  largest logit error  same best token")
for t in range(8):
    error, same_best = np.abs(wrong[t] - full[t]).max(), wrong[t].argmax() == full[t].argmax()
    print(f"{t:>8}  {error:>19.3f}  {same_best}")

# %% [markdown]
# The first position is right: 0 is its position. After that the logits are off, by a lot. But look at the last column. A
# test that generates text and compares *tokens* would see nothing wrong wherever it says `True`. Comparing the best
# tokens is the usual test of a KV cache, and it is a weak one.
#
# ## Write the test
#
# So write a better one. You get three things: `make_decoder()` makes a fresh decoder with `step`, `len` and `reset` as
# you wrote them; `recompute(tokens)` gives the right logits, `(len(tokens), vocab_size)`, for 1 to `max_len` tokens; and
# the two sizes. Answer `True` for a right decoder and `False` for a wrong one. Your test is graded by running it on
# some thirty decoders, four of them right.

# %% [markdown] card="2.4"
# A decoder is **right** when, in this and every later run after `reset()`:
#
# - each `step` gives the logits of full recomputation; one of the right ones keeps float32 rows, so leave room for rounding;
# - a token outside `0..vocab_size-1`, or one more than `max_len`, is refused with `ValueError`;
# - a refused token changes nothing: not the length, and not what comes after;
# - after `reset()` the length is 0 and everything starts again.
#
# How much work a decoder does cannot be seen from here, so do not try to test that. If your test raises an exception on
# a wrong decoder, that counts as `False`.


# %% exercise="2.4"
def accepts(make_decoder, recompute, vocab_size, max_len):
    """Whether the decoders that make_decoder() makes are right.  Returns: True or False."""

    ### BEGIN SOLUTION
    def same(decoder, run, start=0):
        want = recompute(run)
        for t in range(start, len(run)):
            if not np.abs(np.array(decoder.step(run[t])) - want[t]).max() < 1e-4:  # a NaN is not < either
                return False
        return True

    def refused(decoder, token):
        held = len(decoder)
        try:
            decoder.step(token)
        except ValueError:
            return len(decoder) == held
        return False

    decoder = make_decoder()
    first = [
        vocab_size - 1,
        vocab_size - 1,
        *(t % vocab_size for t in range(max_len - 2)),
    ]  # a repeated token, and none at its own position
    if not same(decoder, first[:3]):
        return False
    if not all(refused(decoder, bad) for bad in (-1, vocab_size)):
        return False
    if not same(decoder, first, start=3) or not refused(decoder, 0):
        return False
    decoder.reset()
    return len(decoder) == 0 and same(decoder, first[::-1]) and refused(decoder, 0)
    ### END SOLUTION


# %% check="2.4"

# %% [markdown] hints="2.4"
#

# %% [markdown]
# Now turn your test on `Lost`, and on the decoder of the experiment above.

# %%
from autograde import passed

if passed("2.4"):
    for name, build in (("Decode", Decode), ("Lost", Lost)):
        made = accepts(lambda: build(model, 8), lambda run: recompute_logits(model.weights, run), 3, 8)
        print(f"{name}: {'accepted' if made else 'rejected'}")
else:
    print("Your test does not pass check 2.4 yet; come back when it does.")

# %% [markdown]
# ## Explain
#
# 1. Why does each block need its own cache, when the tokens are the same for all of them?
# 2. Comparing best tokens passed at several positions above, with logits that were wrong. When would that kind of
#    mistake come to light for a user?
#
# *Write here, in your own words. Nobody grades it.*

# %% [markdown]
# ## Recall
#
# **Tomorrow:** name three things that a refused token must not change.
#
# **Next week:** you are handed a KV cache with a test that generates 50 tokens and compares them. Which three mistakes would
# you try first to show that the test is weak?
