# %% [markdown]
# # 05 · Rectangular masks
#
# **At the end of this lesson you can claim:** *I build the mask of any chunk from positions. I can cut a prompt anywhere,
# batch rows of different length, keep only a window, and take back rejected tokens, and the logits do not move.*
#
# You need lesson 04. It takes two to three hours; the first check turns green within fifteen minutes.
#
# **Letters.** `B` sequences, `T` new tokens, `S` tokens to look at, `H` query heads, `Hkv` KV heads, `D` head dim. A mask
# is a table of bools: `True` where a query (row) may see a key (column).
#
# ## Predict
#
# Three tokens are cached. A chunk of two more arrives. Which of the five keys may the first new token see, which the second?
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
# A causal mask is usually drawn as a square with a triangle in it. With a cache, the queries are only the *new* tokens, and
# the keys are *all*: the mask is a rectangle. Here is what people try first, the first two rows of the triangle:

# %%
print(torch.ones(2, 5, dtype=torch.int).tril())

# %% [markdown]
# The token at position 3 would see only token 0: it has lost its past. The rule knows no rows and columns: **a query at
# position p sees the keys at positions 0 to p.** So ask for positions.

# %% [markdown] card="5.1"
# **Shapes:** `q_positions` is `(T,)`, `k_positions` is `(S,)`, whole numbers; the result is bool `(T, S)`.
#
# - A query at position p sees the keys at positions 0 to p, its own included. `True` means: may be seen.
# - Positions come in any order, may have gaps, and need not start at 0.
# - A key at position -1 is no token. Nobody sees it. A query that may see no key has a row of `False`.


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
# The mask of your prediction, as your function makes it. Until it passes, the triangle stands in, its wrong cells crossed.

# %%
triangle = torch.ones(2, 5, dtype=torch.bool).tril()
mask = visible(torch.tensor([3, 4]), torch.arange(5)) if passed("5.1") else triangle
show_mask(mask, q_positions=[3, 4])

# %% [markdown]
# ## Experiment: the switch that is wrong
#
# PyTorch's attention has a switch, `is_causal=True`, which draws the triangle from the top left. The last `T` of five tokens
# look at all five:

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
# With all five at once it is right, so a test without a cache passes. With a cache it is always wrong.
#
# ## Where the chunk stands
#
# A chunk must also know where its tokens stand. **Rotary positions** (RoPE) turn each query and key by an angle that grows
# with its position, so that a score depends only on how far apart the two are. A pair of features $(a, b)$ becomes
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
# Now all of it together. The new tokens stand *after* those held. Their keys are turned once, before they are stored, and
# never again: a token does not move when others arrive.

# %% [markdown] card="5.3"
# **Shapes:** `x` is `(B, T, width)`, and so is the result. The docstring names the pieces.
#
# - The outputs are those of the whole sequence at once, however it is cut. Nothing is added to them.
# - The cache holds each key turned once, to its absolute position (the first token is at 0), and each value as it was
#   projected. Each token goes through each of the four projections once.
# - Any layer will do: take the sizes from it. `gqa_attend(q, K, V, mask)` of lesson 04 is there.


# %% exercise="5.3"
def attend_chunk(layer, cache, x):
    """A chunk of T new tokens through one attention layer.

    layer.project_q(x): (B, H, T, D); project_k(x), project_v(x): (B, Hkv, T, D). None is turned.
    layer.rotate(rows, positions): the rows, turned to positions (T,).
    layer.project_o(attended): (B, H, T, D) to (B, T, width).
    layer.num_heads, num_kv_heads, head_dim, width: its sizes.
    len(cache): tokens held.
    cache.append(k, v): keeps T more; returns (K, V), all so far, each (B, Hkv, S + T, D).
    """
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
# A prompt of 100,000 tokens at once would block everybody else, so engines push it through in chunks: **chunked prefill**.
# This is only bookkeeping, which is where the last tokens get lost.

# %% [markdown] card="5.4"
# **Shapes:** `tokens` is `(B, T)`, at least one token long; the result is `(B, T, vocab)`, the logits of all positions.
#
# - No call has more than `chunk_size` tokens, and none is empty. Every token goes in once, in order, in as few calls as
#   possible. One chunk may be shorter; nothing is padded.
# - A `chunk_size` below 1 is a `ValueError`, before any call of `step`.


# %% exercise="5.4"
def prefill(step, tokens, chunk_size):
    """Logits of all positions, from calls of at most chunk_size tokens.

    step(next_tokens): takes the next (B, t) tokens and returns their logits (B, t, vocab). It has a
    cache of its own, and keeps what it was given.
    """
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
# Padding is no token: it has no position, is not stored, and nobody sees it. Here are two sequences, the second padded:

# %%
real = torch.tensor([[True, True, True, True], [False, False, True, True]])
print(torch.where(real, real.cumsum(dim=1) - 1, -1))  # positions; -1 for padding

# %% [markdown]
# The column is not the position. A row that has finished gets nothing but padding while others go on. So every row needs a
# length of its own.

# %% [markdown] card="5.5"
# **Shapes:** `k`, `v` are `(B, Hkv, T, D)`, in float64; `real` is bool `(B, T)`, `True` for a token.
#
# - `append` keeps the real tokens, each row packed from its own slot 0. Padding is on the left, on the right, or all of a
#   row. It is never stored or counted, and may hold anything, NaN too.
# - What comes back may have its columns in any order: positions tell, and -1 says that there is no token.
# - `lengths`, an attribute or a property, holds the tokens of each row, `(B,)`.
# - When any row has no room for its real tokens: `ValueError`, and nothing changes in any row.
# - The caller reuses its tensors: keep copies, and leave `k`, `v` and `real` as they are.


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
        """Returns: (K, V, k_positions), all that the rows hold: (B, Hkv, S, D) twice, and (B, S)."""
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
# A padded query sees no key, and a softmax over nothing is 0/0: **NaN** by hand, zeros from some kernels. Nobody reads that
# token. But in the next layer it is a key, and $0 \cdot \text{NaN}$ is NaN: one padded token spoils its whole sequence.

# %% [markdown] card="5.6"
# **Shapes:** `q` is `(B, H, T, D)`; `k`, `v` are `(B, Hkv, S, D)`; positions are `(B, T)` and `(B, S)`, -1 for padding.
#
# - Grouped-query attention as in lesson 04. In its own row, a query at position p sees the keys at positions 0 to p, in
#   whichever columns they stand; some keys may lie after the query.
# - Padded keys are never seen, whatever `k` and `v` hold there: NaN and infinities too. Padded queries give zeros, also
#   in a row without any token. Nothing that is passed in may change.


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
# Many models let a query see only the last `window` tokens, itself included. Older rows can go, and the cache stops growing.
# Token `i` lives in slot `i % window`: the newest takes the place of the one that fell out.
#
# The mask gets one more term, $k > q - \text{window}$; here the check applies it. The trap is a chunk of several tokens. Its
# *first* query still needs `window - 1` old tokens, and its *last* token would overwrite one of them.

# %% [markdown] card="5.7"
# **Shapes:** `k`, `v` are `(B, Hkv, T, D)` in float64, any `T` from 1 on, larger than the window too.
#
# - A query at position p sees p - window + 1 to p. `append` returns the last `window - 1` tokens before the chunk, and the
#   chunk. Each comes once, in any order, with its true position.
# - Older tokens may come too, at their true positions. Position -1 says: ignore this column.
# - `len(cache)` is the number of tokens **seen**: the next position.
# - Between two calls the cache holds at most twice what `window` tokens take. A slice keeps the whole tensor behind it
#   alive: `.clone()` it. The caller reuses its tensors.


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
        """Returns: (K, V, k_positions), (B, Hkv, S, D) twice and (S,), the same for all rows."""
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

# %%
from kvlib import rolling_cache
from kvlib.widgets import explore_ring

explore_ring(mine_or("5.7", rolling_cache.RingCache))

# %% [markdown]
# ## Taking tokens back
#
# In **speculative decoding** a small model guesses a few tokens. The large one checks them in *one* pass, a chunk against a
# cache, and keeps some of them. What it stored for the others must go, or the next token sees keys of tokens that were never
# said.

# %% [markdown] card="5.8"
# - At first both hold all tokens but the last, which is in no cache yet. The target always does when a round begins; the
#   draft model may lack one token more, if your own last round left it so.
# - The draft model proposes `num_drafts` tokens one by one, each its best (`argmax`). The target checks them in **one**
#   `forward([last, *drafts])`.
# - Accept drafts from the front as long as each is the target's own choice. Then add the target's own next token, also when
#   all were accepted.
# - Afterwards the target holds all tokens but the last, no more and no fewer; the draft model the same, or, when all its
#   drafts were accepted, one fewer, since it never saw the last. What is right is not thrown away.
# - Push nothing twice.


# %% exercise="5.8"
def speculative_round(target, draft, tokens, num_drafts):
    """One round.  Returns: all tokens, 1 to num_drafts + 1 more than came in.

    tokens: a list of all n tokens so far. target, draft: models with a cache. They have
    forward(list of tokens): holds them too; returns logits (t, vocab), row i for the token after it,
    truncate(length): holds only the first `length` tokens,
    len(): tokens held.
    """
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


# %% [markdown]
# ## Experiment: the text looks right
#
# The draft model is the target with some noise. Twelve new tokens, four drafts a round: without any cache, as it should be,
# and with a target that never takes anything back.

# %%
from kvlib import speculative
from kvlib.gqa_cache import GQACache
from kvlib.transformer import Transformer, TransformerConfig

play = mine_or("5.8", speculative.speculative_round)
sizes = dict(num_layers=2, width=32, num_heads=4, num_kv_heads=2, head_dim=8, hidden=24)
config = TransformerConfig(**sizes, vocab_size=8)
model = Transformer.random(config, torch.Generator().manual_seed(6), torch.float64)
noise, noisy = torch.Generator().manual_seed(1), {}
for name, w in model.weights.items():
    noisy[name] = w + 0.1 * torch.randn(w.shape, generator=noise, dtype=w.dtype)


class Keeps(speculative.CachedModel):
    """Says that it has cut its cache, and leaves all rows where they are."""

    stale = 0

    def truncate(self, length):
        self.stale += len(self) - length

    def __len__(self):
        return len(self.cache) - self.stale


def speak(kind):
    """Tokens, passes of the target, and its logits after the last token."""
    target = kind(model, GQACache(2, 1, 2, 128, 8, torch.float64))
    draft = speculative.CachedModel(Transformer(config, noisy), GQACache(2, 1, 2, 128, 8, torch.float64))
    tokens = [1, 4, 2]
    for each in (target, draft):
        each.forward(tokens[:-1])
    while len(tokens) < 15:
        tokens = play(target, draft, tokens, 4)
    return tokens, target.passes - 1, target.forward(tokens[-1:])[-1]


alone = [1, 4, 2]
for _ in range(12):
    alone.append(int(model.logits(torch.tensor([alone]))[0, -1].argmax()))
print("one by one      ", alone[3:])
for name, kind in (("takes back", speculative.CachedModel), ("keeps all rows", Keeps)):
    said, passes, logits = speak(kind)
    error = (logits - model.logits(torch.tensor([said]))[0, -1]).abs().max()
    print(f"{name:<16} {said[3:15]}, {passes} passes, logits off by {error:.6f}")

# %% [markdown]
# All three say the same, so a test that compares text sees nothing. The logits tell. On a longer text, or with sampling, so
# will the words. (9 passes for 12 tokens: this draft model guesses badly.)

# %% [markdown]
# ## Explain
#
# 1. A cache is right for a prompt at once and then token by token. Which mistake of this lesson can still be in it?
# 2. Why does a padded token spoil others only from the second layer on?
#
# *Write here, in your own words. Nobody grades it.*

# %% [markdown]
# ## Recall
#
# **Tomorrow:** four tokens are held, and three come. Write down the mask.
#
# **Next week:** a window of 4 holds tokens 6 to 9, and three more arrive. Which old ones must they see?
