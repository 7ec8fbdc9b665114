# %% [markdown]
# # 05 · Rectangular masks
#
# **At the end of this lesson you can claim:** *I build the mask of any chunk from positions. I can cut a prompt anywhere,
# batch rows of different length, keep only a window, and take back rejected tokens, and the logits do not move.*
#
# You need lesson 04. It takes about two and a half hours, best in two sittings; the first check turns green within ten
# minutes.
#
# **Letters.** `B` sequences, `T` new tokens, `S` tokens to look at, `H` query heads, `Hkv` KV heads, `D` head dim. A mask
# is a table of bools: `True` where a query (row) may see a key (column).
#
# ## Predict
#
# Three tokens are cached. A chunk of two more arrives. Write down the mask: which of the five keys may the first new token
# see, which the second?
#
# *Your guess:* 2 rows of 5 ...

# %%
import torch
import torch.nn.functional as F

from autograde import check, mine_or, passed
from kvlib.gqa import gqa_attend
from kvlib.plots_mask import show_mask

torch.set_printoptions(precision=3, sci_mode=False)
torch.set_num_threads(1)  # small tensors: more threads would only wait for each other

# %% [markdown]
# ## A rectangle, not a square
#
# The usual picture of a causal mask is a square with a triangle in it. It shows a whole sequence at once. With a cache,
# the queries are only the *new* tokens, and the keys are *all*: the mask is a rectangle. Here is what people try first,
# the first two rows of the triangle:

# %%
top_left = torch.ones(2, 5, dtype=torch.bool).tril()
show_mask(top_left, q_positions=[3, 4])

# %% [markdown]
# Every crossed cell is wrong. The token at position 3 sees only token 0: it has lost its past. The rule has nothing to do
# with rows and columns. **A query at position p sees the keys at positions 0 to p.** So ask for positions.

# %% [markdown] card="5.1"
# **Shapes:** `q_positions` is `(T,)`, `k_positions` is `(S,)`, whole numbers; the result is bool `(T, S)`.
#
# - A query at position p sees the keys at positions 0 to p, its own included. `True` means: may be seen.
# - Positions come in any order, may have gaps, and need not start at 0. Where a row or column stands says nothing.
# - A key at position -1 is no token. Nobody sees it. A query that may see no key has a row of `False`.
# - Bools, not numbers: a mask of numbers would be added to the scores.


# %% exercise="5.1"
def visible(q_positions, k_positions):
    """Which keys each query may see.

    >>> visible(torch.tensor([1, 2]), torch.tensor([0, 1, 2]))
    tensor([[ True,  True, False],
            [ True,  True,  True]])
    """
    ### BEGIN SOLUTION
    q, k = q_positions[:, None], k_positions[None, :]  # (T, 1), (1, S)
    return (k <= q) & (k >= 0)  # (T, S)
    ### END SOLUTION


# %% check="5.1"

# %% [markdown] hints="5.1"
#

# %% [markdown]
# Look at the mask of your prediction, as your function makes it:

# %%
if passed("5.1"):
    picture = show_mask(visible(torch.tensor([3, 4]), torch.arange(5)), q_positions=[3, 4])
else:
    picture = "Check 5.1 does not pass yet; come back when it does."
picture

# %% [markdown]
# ## Experiment: the switch that is wrong
#
# PyTorch's attention has a switch, `is_causal=True`. It draws the triangle from the top left. How wrong is that? The same
# five tokens, attended by the last `T` of them:

# %%
generator = torch.Generator().manual_seed(0)
q, k, v = torch.randn(3, 1, 2, 5, 4, generator=generator, dtype=torch.float64)
print("T  largest error of is_causal=True")
for T in (5, 4, 3, 2, 1):
    new = q[:, :, 5 - T :]  # the last T queries
    mask = torch.arange(5) <= torch.arange(5 - T, 5)[:, None]
    right = F.scaled_dot_product_attention(new, k, v, attn_mask=mask)
    switch = F.scaled_dot_product_attention(new, k, v, is_causal=True)
    print(f"{T}  {(switch - right).abs().max():.3f}")
print("with T = 1 it returns the value of token 0:", torch.equal(switch[:, :, 0], v[:, :, 0]))

# %% [markdown]
# With all five at once it is right, so a test without a cache passes. With a cache it is wrong at every size.
#
# ## A position is a number of tokens
#
# The second thing a chunk must get right is where its tokens stand. **Rotary positions** (RoPE) turn each query and key by
# an angle that grows with its position. A score then depends only on how far apart the two are. Feature `i` is paired with
# feature `i + D/2`, and the pair is turned by `position * base ** (-2 i / D)`:
#
# $$a' = a \cos\theta - b \sin\theta, \qquad b' = a \sin\theta + b \cos\theta.$$

# %% [markdown] card="5.2"
# **Shapes:** `x` is `(B, H, T, D)` with even `D`, `positions` is `(T,)`; the result is a new tensor of the shape of `x`.
#
# - Features `i` and `i + D/2` are a pair. Pair `i` is turned by `position * base ** (-2 i / D)`, in radians.
# - Token `t` stands at `positions[t]`, the same in every sequence and head. Positions are absolute, may have gaps and
#   have no end.


# %% exercise="5.2"
def rope(x, positions, base):
    """Queries or keys, turned to their positions.

    >>> rope(torch.tensor([[[[1.0, 0.0]]]]), torch.tensor([0]), base=100.0)  # position 0: not turned
    tensor([[[[1., 0.]]]])
    """
    ### BEGIN SOLUTION
    half = x.shape[-1] // 2
    angles = positions[:, None] * base ** (-torch.arange(half, dtype=x.dtype) / half)  # (T, D/2)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], dim=-1)
    ### END SOLUTION


# %% check="5.2"

# %% [markdown] hints="5.2"
#

# %% [markdown]
# ## A chunk through one layer
#
# Now all of it together. The new tokens stand *after* those that the cache holds. Their keys are turned once, before they
# are stored, and never again: a token does not move when others arrive.

# %% [markdown] card="5.3"
# **Shapes:** `x` is `(B, T, width)`, the next `T` tokens of `B` sequences; the result is `(B, T, width)`.
#
# - `layer.project_q(x)` is `(B, H, T, D)`, `project_k(x)` and `project_v(x)` are `(B, Hkv, T, D)`, none of them turned.
#   `layer.rotate(rows, positions)` turns rows to positions `(T,)`. `layer.project_o(attended)` takes `(B, H, T, D)`.
#   The layer has `num_heads`, `num_kv_heads`, `head_dim` and `width`; any layer will do, so take the sizes from it.
# - `len(cache)` is the number of tokens held. `K, V = cache.append(k, v)` keeps `T` more, counts them, and returns all so
#   far, `(B, Hkv, S + T, D)`.
# - The outputs are those of the whole sequence at once, however it is cut. Attention alone: nothing is added to them.
# - The cache holds each key turned once, to its absolute position (the first token is at 0), and each value as it was
#   projected. Each token goes through each of the four projections once.
#
# `gqa_attend(q, K, V, mask)` of lesson 04 is there.


# %% exercise="5.3"
def attend_chunk(layer, cache, x):
    """A chunk of T new tokens through one attention layer."""
    ### BEGIN SOLUTION
    start, T = len(cache), x.shape[1]
    positions = torch.arange(start, start + T)
    q = layer.rotate(layer.project_q(x), positions)  # (B, H, T, D)
    k = layer.rotate(layer.project_k(x), positions)  # (B, Hkv, T, D)
    K, V = cache.append(k, layer.project_v(x))  # (B, Hkv, start + T, D)
    return layer.project_o(gqa_attend(q, K, V, visible(positions, torch.arange(start + T))))
    ### END SOLUTION


# %% check="5.3"

# %% [markdown] hints="5.3"
#

# %% [markdown]
# ## A long prompt in pieces
#
# A prompt of 100,000 tokens at once would block everybody else, and its scores alone would fill the memory. So engines
# push it through in chunks: **chunked prefill**. Since `attend_chunk` is right for every split, this is only
# bookkeeping. Bookkeeping is where the last tokens get lost.

# %% [markdown] card="5.4"
# **Shapes:** `tokens` is `(B, T)`, at least one token long; the result is `(B, T, vocab)`, the logits of all positions.
#
# - `step(next_tokens)` takes the next `(B, t)` tokens and returns their logits `(B, t, vocab)`. It keeps a cache of its own:
#   what it was given, it has.
# - No call has more than `chunk_size` tokens, and none is empty. Every token goes in once, in order, in as few calls as
#   possible. One chunk may be shorter; nothing is padded.
# - A `chunk_size` above `T` is fine. Below 1 it is a `ValueError`, before any call of `step`.


# %% exercise="5.4"
def prefill(step, tokens, chunk_size):
    """Logits of all positions, from calls of at most chunk_size tokens."""
    ### BEGIN SOLUTION
    if chunk_size < 1:
        raise ValueError(f"chunk_size must be at least 1, got {chunk_size}")
    return torch.cat([step(chunk) for chunk in tokens.split(chunk_size, dim=1)], dim=1)
    ### END SOLUTION


# %% check="5.4"

# %% [markdown] hints="5.4"
#

# %% [markdown]
# ## Rows of different length
#
# A batch is a rectangle of tokens, but prompts differ in length, so short rows are **padded**, on the left or on the right.
# Padding is not a token: it has no position, it is not stored, and nobody sees it. Two rows, the second padded on the left:
#
# | column | 0 | 1 | 2 | 3 |
# |---|---|---|---|---|
# | row 0: position | 0 | 1 | 2 | 3 |
# | row 1: position | -1 | -1 | 0 | 1 |
#
# The column is not the position. After some steps, one row has finished and others go on: from then on all it gets is
# padding. So every row needs a length of its own.

# %% [markdown] card="5.5"
# CARD 5.5


# %% exercise="5.5"
class RaggedCache:
    """Keys and values of up to max_len tokens in each row of a batch, for one layer."""

    def __init__(self, batch_size, num_kv_heads, max_len, head_dim):
        ### BEGIN SOLUTION
        self.max_len = max_len
        self.K = torch.zeros(batch_size, num_kv_heads, max_len, head_dim, dtype=torch.float64)
        self.V = torch.zeros_like(self.K)
        self.lengths = torch.zeros(batch_size, dtype=torch.int64)
        ### END SOLUTION

    def append(self, k, v, real):
        ### BEGIN SOLUTION
        new = self.lengths + real.sum(dim=1)
        if (new > self.max_len).any():
            raise ValueError(f"rows would hold {new.tolist()} of {self.max_len} tokens")
        for b, row in enumerate(real):
            self.K[b, :, self.lengths[b] : new[b]] = k[b][:, row]
            self.V[b, :, self.lengths[b] : new[b]] = v[b][:, row]
        self.lengths = new
        slots = torch.arange(int(new.max())).expand(len(new), -1)  # (B, S)
        positions = slots.masked_fill(slots >= new[:, None], -1)
        return self.K[:, :, : slots.shape[1]], self.V[:, :, : slots.shape[1]], positions
        ### END SOLUTION


# %% check="5.5"

# %% [markdown] hints="5.5"
#

# %% [markdown]
# A padded query sees no key at all, and a softmax over nothing is 0/0: **NaN**. Nobody reads that row. But in the next layer
# it is a key, and $0 \cdot \text{NaN}$ is NaN: one padded row spoils all others. So padded queries must give zeros, and
# padded keys must not count whatever they hold.

# %% [markdown] card="5.6"
# CARD 5.6


# %% exercise="5.6"
def ragged_attend(q, k, v, q_positions, k_positions):
    """Attention in which each row sees its own tokens only."""
    ### BEGIN SOLUTION
    mask = k_positions[:, None, :] <= q_positions[:, :, None]  # (B, T, S)
    mask &= (k_positions >= 0)[:, None, :]
    empty = ~mask.any(dim=-1)  # (B, T): sees nothing
    padded = (k_positions < 0)[:, None, :, None]  # (B, 1, S, 1)
    out = gqa_attend(q, k.masked_fill(padded, 0.0), v.masked_fill(padded, 0.0), mask | empty[..., None])
    return out.masked_fill(empty[:, None, :, None], 0.0)
    ### END SOLUTION


# %% check="5.6"

# %% [markdown] hints="5.6"
#

# %% [markdown]
# ## A window, and a ring to hold it
#
# Many models let a query see only the last `window` tokens, itself included. Then older rows can go, and the cache stops
# growing. Token `i` lives in slot `i % window`: the newest takes the place of the one that fell out.
#
# The trap is a chunk of more than one token. Its *first* query still needs `window - 1` old tokens, and its *last*
# token would overwrite one of them. So look first, write afterwards.

# %% [markdown] card="5.7"
# CARD 5.7


# %% exercise="5.7"
class RingCache:
    """The last `window` tokens of B sequences, for one layer."""

    def __init__(self, window, batch_size, num_kv_heads, head_dim):
        ### BEGIN SOLUTION
        self.window, self.seen = window, 0
        self.K = torch.zeros(batch_size, num_kv_heads, window, head_dim, dtype=torch.float64)
        self.V = torch.zeros_like(self.K)
        self.positions = torch.full((window,), -1)  # of the token in each slot
        ### END SOLUTION

    def __len__(self):
        ### BEGIN SOLUTION
        return self.seen
        ### END SOLUTION

    def append(self, k, v):
        ### BEGIN SOLUTION
        new = torch.arange(self.seen, self.seen + k.shape[2])
        result = (torch.cat([self.K, k], 2), torch.cat([self.V, v], 2), torch.cat([self.positions, new]))
        kept = new[-self.window :]
        self.K[:, :, kept % self.window] = k[:, :, -self.window :]
        self.V[:, :, kept % self.window] = v[:, :, -self.window :]
        self.positions[kept % self.window] = kept
        self.seen += len(new)
        return result
        ### END SOLUTION


# %% check="5.7"

# %% [markdown] hints="5.7"
#

# %% [markdown]
# ## Taking tokens back
#
# **Speculative decoding** lets a small model guess a few tokens. The large model checks all guesses in *one* pass,
# a chunk against a cache, and keeps the guesses that equal its own choices, up to the first that differs. What it had
# already stored for the others must go. If it stays, the next token sees keys of tokens that were never said.

# %% [markdown] card="5.8"
# CARD 5.8


# %% exercise="5.8"
def speculative_round(target, draft, tokens, num_drafts):
    """One round: the list of tokens, longer by 1 to num_drafts + 1."""
    ### BEGIN SOLUTION
    drafts, pushed = [], tokens[len(draft) :]
    for _ in range(num_drafts):
        drafts.append(int(draft.forward(pushed)[-1].argmax()))
        pushed = drafts[-1:]
    choices = target.forward([tokens[-1], *drafts]).argmax(dim=-1).tolist()
    accepted = 0
    while accepted < num_drafts and drafts[accepted] == choices[accepted]:
        accepted += 1
    tokens = [*tokens, *drafts[:accepted], choices[accepted]]
    target.truncate(len(tokens) - 1)
    draft.truncate(min(len(draft), len(tokens) - 1))
    return tokens
    ### END SOLUTION


# %% check="5.8"

# %% [markdown] hints="5.8"
#

