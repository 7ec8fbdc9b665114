# %% [markdown]
# # 08 · Smaller by design
#
# **At the end of this lesson you can claim:** *I serve attention from one short row for each token without making a key, I
# know why position needs a row of its own, and I read published results setting by setting.*
#
# You need lessons 04 and 05. It takes two to three hours; the first check turns green within twenty minutes.
#
# **Letters.** `B` sequences, `T` new tokens, `S` tokens held, `H` heads, `R` the width of a latent. A head's key has `Dn`
# numbers without position and `Dr` with it; its value has `Dv`.
#
# ## Predict
#
# With 128 heads of 128, keys and values take 32,768 numbers for each token in each layer. DeepSeek-V2 holds 576. Do its
# heads still have keys of their own?
#
# *Your guess:* ...

# %%
import torch

from autograde import check, mine_or, passed

torch.set_printoptions(precision=3, sci_mode=False)
torch.set_num_threads(1)  # small tensors: more threads would only wait for each other

# %% [markdown]
# ## A latent, and keys made from it
#
# Multi-head latent attention (**MLA**) holds one short row for each token, the **latent** `c_kv`. Each head makes its key and
# its value of it. Position is in a second row, `k_pe`, which is turned by RoPE and shared by all heads:
#
#     key of head h   = concat(w_uk[h] @ c_kv, k_pe)      Dn + Dr numbers
#     value of head h =        w_uv[h] @ c_kv             Dv numbers
#
# First as it stands. It is slow, and it is what the fast one must equal.

# %% [markdown] card="8.1"
# **Shapes:** `q_nope` is `(B, H, T, Dn)`, `q_pe` `(B, H, T, Dr)`; `c_kv` is `(B, S, R)`, `k_pe` `(B, S, Dr)`; `w_uk` is
# `(H, Dn, R)`, `w_uv` `(H, Dv, R)`; the result is `(B, H, T, Dv)`.
#
# - The queries belong to the T newest of the S tokens. Query t stands at position `S - T + t`, and sees 0 to that.
# - A query is `concat(q_nope, q_pe)`. Scores are divided by the root of a key's width, `Dn + Dr`.
# - `q_pe` and `k_pe` are turned already. Nothing that is passed in may change.


# %% exercise="8.1"
def explicit_attend(q_nope, q_pe, c_kv, k_pe, w_uk, w_uv):
    """Attention over keys and values that are made from the latents."""
    ### BEGIN SOLUTION
    H, T, S = q_nope.shape[1], q_nope.shape[2], c_kv.shape[1]
    k_nope = torch.einsum("bsr,hdr->bhsd", c_kv, w_uk)  # (B, H, S, Dn)
    v = torch.einsum("bsr,hdr->bhsd", c_kv, w_uv)  # (B, H, S, Dv)
    k = torch.cat((k_nope, k_pe[:, None].expand(-1, H, -1, -1)), dim=-1)  # (B, H, S, Dn + Dr)
    q = torch.cat((q_nope, q_pe), dim=-1)  # (B, H, T, Dn + Dr)
    seen = torch.arange(S) <= torch.arange(S - T, S)[:, None]  # (T, S)
    scores = (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).masked_fill(~seen, float("-inf"))
    return scores.softmax(dim=-1) @ v
    ### END SOLUTION


# %% check="8.1"

# %% [markdown] hints="8.1"
#

# %% [markdown]
# ## Experiment: why the position has a row of its own
#
# Two matrices in a row are one: `(W_Q x) · (W_K c)` is `x · (W_QᵀW_K) c`, folded once. RoPE turns query and key by their
# positions, so a rotation by the **distance** comes between. Here they are folded for distance 0, and used at others. An
# error of 1 is as wrong as a score of 0.
#
# *Your guess:* from which distance on is the fold useless ...

# %%
from kvlib.rope_fold import best_fold, fold, fold_error

noise = torch.Generator().manual_seed(8)
w_q = torch.randn(64, 96, generator=noise, dtype=torch.float64)  # (D, width)
w_k = torch.randn(64, 32, generator=noise, dtype=torch.float64)  # (D, R)
distances = (0, 1, 2, 5, 100, 1000)
at_0, best = fold(w_q, w_k, 0), best_fold(w_q, w_k, distances)
print("distance   folded at 0   the best single matrix")
for distance in distances:
    errors = (fold_error(folded, w_q, w_k, distance) for folded in (at_0, best))
    print("{:>8} {:>13.2f} {:>24.2f}".format(distance, *errors))

# %% [markdown]
# Every distance has its own matrix; no single one serves all. So MLA splits a key. The large part has no position, and its
# matrices fold. The small part, `k_pe`, is turned once and held as it is: there is nothing to fold.

# %% [markdown]
# ## Never make the keys
#
# Held are R + Dr numbers for each token. But every step makes S keys and values for every head, and throws them away.
# A score is `q · (W c)`. It is also `(Wᵀ q) · c`: then the matrix meets one query, not S latents. The output, a weighted sum
# of `W c`, is `W` times the weighted sum of `c`. In numbers, for one head and two tokens:

# %%
W = torch.tensor([[1.0, 0.0, 2.0], [0.0, 1.0, -1.0]])  # (D, R)
q, c = torch.tensor([1.0, 3.0]), torch.tensor([[1.0, 0.0, 1.0], [0.0, 2.0, 1.0]])  # (D,), (S, R)
weights = torch.tensor([0.25, 0.75])
print("scores  ", [(q @ (W @ row)).item() for row in c], "and", [((W.T @ q) @ row).item() for row in c])
print("mixtures", (weights @ (c @ W.T)).tolist(), "and", (W @ (weights @ c)).tolist())

# %% [markdown] card="8.2"
# Arguments and result are those of 8.1, to rounding.
#
# - No tensor on the way has a row for each of S tokens *and* each head: no keys, no values, no latents repeated for the
#   heads, and none made in pieces. Scores, `(B, H, T, S)`, are allowed. The check measures the largest tensor, and has
#   latents whose keys or values overflow float32.
# - `@` between `(B, H, T, R)` and `(B, 1, R, S)` repeats the second in silence. `torch.einsum` does not, nor does a product
#   whose rows are all heads' queries.
# - Nothing that is passed in may change.


# %% exercise="8.2"
def absorbed_attend(q_nope, q_pe, c_kv, k_pe, w_uk, w_uv):
    """What explicit_attend gives, from the latents as they are."""
    ### BEGIN SOLUTION
    Dn, T, S = q_nope.shape[3], q_nope.shape[2], c_kv.shape[1]
    q_latent = torch.einsum("bhtd,hdr->bhtr", q_nope, w_uk)  # (B, H, T, R)
    scores = torch.einsum("bhtr,bsr->bhts", q_latent, c_kv) + torch.einsum("bhtd,bsd->bhts", q_pe, k_pe)
    seen = torch.arange(S) <= torch.arange(S - T, S)[:, None]  # (T, S)
    scores = (scores / (Dn + q_pe.shape[3]) ** 0.5).masked_fill(~seen, float("-inf"))
    mixed = torch.einsum("bhts,bsr->bhtr", scores.softmax(dim=-1), c_kv)  # (B, H, T, R)
    return torch.einsum("bhtr,hdr->bhtd", mixed, w_uv)
    ### END SOLUTION


# %% check="8.2"

# %% [markdown] hints="8.2"
#

# %% [markdown]
# ## Experiment: the same numbers, another bill
#
# A random layer of 16 heads, one new token. **Kept** is attention alone, with every head's keys and values in the cache as in
# lesson 04.
#
# *Your guess:* does the absorbed way multiply less than that, or more ...

# %%
from kvlib import mla
from kvlib.mla_layer import MLALayer, multiplications

explicit, absorbed = mine_or("8.1", mla.explicit_attend), mine_or("8.2", mla.absorbed_attend)
sizes = dict(width=96, num_heads=16, kv_lora_rank=64, nope_dim=16, rope_dim=8, value_dim=16)
layer = MLALayer.random(**sizes, generator=noise)
print("            multiplications, millions            numbers for S tokens")
print("    S   explicit  absorbed   kept     keys and values   latents   equal to 1e-12")
for S in (256, 1024, 4096):
    x = torch.randn(1, S, 96, generator=noise, dtype=torch.float64)
    (q_nope, q_pe), (c_kv, k_pe) = layer.queries(x[:, -1:]), layer.latent(x)
    q_pe, k_pe = layer.rotate(q_pe, torch.tensor([S - 1])), layer.rotate(k_pe, torch.arange(S))
    parts = (q_nope, q_pe, c_kv, k_pe, layer.w_uk, layer.w_uv)
    off = (explicit(*parts) - absorbed(*parts)).abs().max().item()
    told = [count / 1e6 for count in multiplications(layer, S).values()]
    rows = (S * 16 * (16 + 8 + 16), S * (64 + 8))
    print("{:>5} {:>10.2f} {:>9.2f} {:>6.2f} {:>19,} {:>9,}".format(S, *told, *rows), f"  {off < 1e-12}")

# %% [markdown]
# More: its scores are R + Dr wide, not Dn + Dr. But it reads far less, and a decode step waits for memory (lesson 03). A long
# prompt is another matter: keys made once serve all its queries, so servers may take the explicit way there.

# %% [markdown]
# ## A layer with its cache
#
# Now the layer and its cache together. What is held of a token is its latent and its turned `k_pe`: `R + Dr` numbers, and
# nothing for any head. A token's position is the number of tokens held before it, whether it comes alone or in a chunk.

# %% [markdown] card="8.3"
# The docstring names what the layer gives. Its `q_pe` and `k_pe` are not turned yet.
#
# - Each token goes through `queries` and `latent` once; each query, and each `k_pe`, is turned once.
# - At most `B * max_len * (R + Dr)` numbers are held, besides the layer's matrices. B is that of the first call. With one
#   new token, no tensor has a row for each token and each head.
# - Not all T fit, or another B: `ValueError`. A call that is refused, by you or by the layer, changes nothing.
# - `truncate(length)`, 0 to `len`: the first `length` tokens stay. Any other length: `ValueError`.


# %% exercise="8.3"
class LatentAttention:
    """One layer of latent attention, over all tokens so far.

    layer.queries(x): q_nope (B, H, T, Dn), q_pe (B, H, T, Dr).
    layer.latent(x): c_kv (B, T, R), k_pe (B, T, Dr).
    layer.rotate(rows, positions): the rows (..., T, Dr), turned to positions (T,).
    layer.w_uk, layer.w_uv: (H, Dn, R), (H, Dv, R). layer.kv_lora_rank, layer.rope_dim: R, Dr.
    """

    def __init__(self, layer, max_len):
        ### BEGIN SOLUTION
        self.layer, self.max_len, self.used, self.rows = layer, max_len, 0, None
        ### END SOLUTION

    def __len__(self):
        """Tokens held."""
        ### BEGIN SOLUTION
        return self.used
        ### END SOLUTION

    def forward(self, x):
        """The next T tokens, x (B, T, width) -> (B, H, T, Dv).

        absorbed_attend of 8.2 is there.
        """
        ### BEGIN SOLUTION
        B, T, _ = x.shape
        end = self.used + T
        if end > self.max_len or (self.rows is not None and len(self.rows) != B):
            raise ValueError(f"holds {self.used} of {self.max_len} tokens, got {B} sequences of {T}")
        layer, R, positions = self.layer, self.layer.kv_lora_rank, torch.arange(self.used, end)
        (q_nope, q_pe), (c_kv, k_pe) = layer.queries(x), layer.latent(x)
        q_pe, k_pe = layer.rotate(q_pe, positions), layer.rotate(k_pe, positions)
        if self.rows is None:
            self.rows = c_kv.new_empty(B, self.max_len, R + layer.rope_dim)
        self.rows[:, self.used : end] = torch.cat((c_kv, k_pe), dim=-1)
        self.used = end
        held = self.rows[:, :end]
        return absorbed_attend(q_nope, q_pe, held[..., :R], held[..., R:], layer.w_uk, layer.w_uv)
        ### END SOLUTION

    def truncate(self, length):
        ### BEGIN SOLUTION
        if not 0 <= length <= self.used:
            raise ValueError(f"holds {self.used} tokens, cannot be cut to {length}")
        self.used = length
        ### END SOLUTION


# %% check="8.3"

# %% [markdown] hints="8.3"
#

# %% [markdown]
# The layer of the experiment, with a prompt in two chunks and one token more:

# %%
from kvlib import latent_cache

make = mine_or("8.3", latent_cache.LatentAttention)
cache, text = make(layer, 16), torch.randn(2, 12, 96, generator=noise, dtype=torch.float64)
steps = torch.cat([cache.forward(chunk) for chunk in text.split([6, 5, 1], dim=1)], dim=2)
off = (steps - make(layer, 16).forward(text)).abs().max().item()
print(f"{len(cache)} tokens held; all outputs are those of one pass, to 1e-12: {off < 1e-12}")

# %% [markdown]
# ## Layers that share
#
# Fewer heads, fewer numbers for each head: both leave a cache in every layer. **Cross-layer attention** leaves some layers
# out. With two layers to a group, layer 1 makes no keys and values. It asks its own queries of those that layer 0 made for
# the same tokens. Five layers in pairs:
#
# | layer | 0 | 1 | 2 | 3 | 4 |
# |---|---|---|---|---|---|
# | uses the rows of layer | 0 | 0 | 2 | 2 | 4 |
#
# Three **owners** instead of five caches. The last group is smaller, and has an owner all the same. Ten layers in threes
# have four. The trap is time: layer 1 runs after layer 0 *in the same pass*, so it must see what layer 0 has just appended.

# %% [markdown] card="8.4"
# **Shapes:** `k`, `v` are `(B, Hkv, T, D)`, in float64; `K`, `V` are `(B, Hkv, S, D)`.
#
# - Layers 0 to `share - 1` are one group, the next `share` another, and so on. The first layer of a group owns.
# - A pass appends to the owners, then advances once. Before `advance` nothing counts: a second `append` to an owner goes
#   over the first. Every layer may be read at any time, owners too.
# - `nbytes`, an attribute or a property: `2 * owners * B * Hkv * max_len * D * 8`, taken at the start, and no more than that.
# - `ValueError`, and nothing changes: a layer that is not there, an `append` to a layer that is no owner, no room for all T
#   tokens, an `advance` below 0 or without room.
# - The caller reuses its `k` and `v`.


# %% exercise="8.4"
class SharedLayers:
    """The cache of num_layers layers, in groups of `share`."""

    def __init__(self, num_layers, share, batch_size, num_kv_heads, max_len, head_dim):
        ### BEGIN SOLUTION
        self.num_layers, self.share, self.max_len, self.used = num_layers, share, max_len, 0
        owners = -(-num_layers // share)
        self.rows = torch.empty(owners, 2, batch_size, num_kv_heads, max_len, head_dim, dtype=torch.float64)
        self.ends = [0] * owners
        ### END SOLUTION

    def __len__(self):
        """Tokens held."""
        ### BEGIN SOLUTION
        return self.used
        ### END SOLUTION

    @property
    def nbytes(self):
        ### BEGIN SOLUTION
        return self.rows.nbytes
        ### END SOLUTION

    def owner(self, layer):
        """Returns: the layer whose rows this layer uses."""
        ### BEGIN SOLUTION
        if not 0 <= layer < self.num_layers:
            raise ValueError(f"layer {layer} of {self.num_layers}")
        return layer // self.share * self.share
        ### END SOLUTION

    def append(self, layer, k, v):
        """Writes an owner's rows of T new tokens. Returns: (K, V), all that it has, the new ones included."""
        ### BEGIN SOLUTION
        end = self.used + k.shape[2]
        if self.owner(layer) != layer or end > self.max_len:
            raise ValueError(f"layer {layer}, {self.used} of {self.max_len} tokens held, {k.shape[2]} more")
        group = layer // self.share
        self.rows[group, 0, :, :, self.used : end] = k
        self.rows[group, 1, :, :, self.used : end] = v
        self.ends[group] = end
        return self.read(layer)
        ### END SOLUTION

    def read(self, layer):
        """Returns: (K, V) as the layer's owner has them: tokens held, and those that it appended in this pass."""
        ### BEGIN SOLUTION
        group = self.owner(layer) // self.share
        K, V = self.rows[group, :, :, :, : self.ends[group]]
        return K, V
        ### END SOLUTION

    def advance(self, num_tokens):
        """The first num_tokens of this pass are held from now on, the rest is dropped."""
        ### BEGIN SOLUTION
        if not 0 <= num_tokens <= self.max_len - self.used:
            raise ValueError(f"{self.used} of {self.max_len} tokens held, advance by {num_tokens}")
        self.used += num_tokens
        self.ends = [self.used] * len(self.ends)
        ### END SOLUTION


# %% check="8.4"

# %% [markdown] hints="8.4"
#

# %% [markdown]
# ## Experiment: what a token takes
#
# What one layer of DeepSeek-V2 holds for each token, and what it would hold with other kinds of attention. Where two layers
# share, as in 8.4, each counts half.
#
# *Your guess:* which take less than MLA ...

# %%
from kvlib.plots_mla import draw_elements
from kvlib.sizing.kv import kv_bytes
from kvlib.sizing.models import load_config

v2 = load_config("deepseek-v2")
H, D = v2["num_attention_heads"], v2["v_head_dim"]
elements = {"MHA": 2 * H * D, "GQA-8": 2 * 8 * D, "GQA-8, 2 layers share": 2 * 8 * D / 2}
elements |= {"MLA": v2["kv_lora_rank"] + v2["qk_rope_head_dim"], "MQA": 2 * D, "MQA, 2 layers share": 2 * D / 2}
groups, times = elements["MLA"] / (2 * D), elements["MHA"] / elements["MLA"]
print(f"MLA holds as much as GQA with {groups} KV heads, and 1/{times:.0f} of MHA")
draw_elements(elements, marked="MLA")

# %% [markdown]
# MLA is not the smallest; what it loses is another question. The paper prints 93.3%: so much smaller is its cache than that
# of DeepSeek 67B, an older model with 8 KV heads.

# %%
old = load_config("deepseek-67b")
before = kv_bytes(old["num_hidden_layers"], old["num_key_value_heads"], 128, [1], 2)
latents = elements["MLA"] * v2["num_hidden_layers"]
print(f"DeepSeek 67B: {before:,} bytes for each token. DeepSeek-V2: {latents:,} elements.")
for bits in (16, 8, 6):
    now = latents * bits // 8
    print(f"{bits:>2} bits: {now:>6,} bytes, {1 - now / before:.1%} smaller")

# %% [markdown]
# The latents alone save 82%. Six bits for each element make it 93.3%: a **reconstruction**, which the paper does not print.
# Ask of such a number what it is compared with, and how much of it is the design.

# %% [markdown]
# ## Is it as good?
#
# Every method of this lesson makes a cache smaller and changes the model. Whether the model is as good afterwards, no test
# in a notebook can say: it has to be trained. So there are only published figures, and each holds for its **setting**: a
# model, its training, its test. 47.2 in one paper and 45.2 in another differ by nothing that one could name. A comparison
# is a difference *within* one setting.

# %% [markdown] card="8.5"
# `rows` is a list of dicts with the keys `"setting"`, `"metric"`, `"unit"`, `"better"` (`"higher"` or `"lower"`), `"method"`
# and `"value"`; other keys are of no interest.
#
# - A pair for each setting in which both methods were measured on this metric; others are left out.
# - The gain is a difference in the metric's unit, above 0 where `method` is the better one. Not percent, and not rounded.
# - Settings come in the order in which they first appear in `rows`, in whatever row. None has both: `[]`.
# - Names are compared as they are: GQA and GQA-8 are two methods.


# %% exercise="8.5"
def compare(rows, metric, method, baseline):
    """What `method` gains over `baseline`, setting by setting. Returns: a list of pairs (setting, gain)."""
    ### BEGIN SOLUTION
    table = {}
    for row in rows:
        values = table.setdefault(row["setting"], {})
        if row["metric"] == metric:
            values[row["method"]] = row["value"] if row["better"] == "higher" else -row["value"]
    return [
        (setting, values[method] - values[baseline])
        for setting, values in table.items()
        if method in values and baseline in values
    ]
    ### END SOLUTION


# %% check="8.5"

# %% [markdown] hints="8.5"
#

# %% [markdown]
# The published figures, and your `compare` on all of them:

# %%
from kvlib import compare_results
from kvlib.published import RESULTS

comparing = mine_or("8.5", compare_results.compare)
pairs = [("GQA", "MHA"), ("GQA-8", "MHA"), ("MQA", "MHA"), ("MQA", "GQA-8"), ("MLA", "MHA"), ("MLA", "GQA")]
for metric, unit in {row["metric"]: row["unit"] for row in RESULTS}.items():  # each metric once
    print(f"\n{metric}, {unit}")
    for method, baseline in pairs:
        for setting, gain in comparing(RESULTS, metric, method, baseline):
            print(f"  {gain:+6.1f}  {method:>5} over {baseline:<5}  {setting}")
print()
for source in dict.fromkeys(row["source"] for row in RESULTS):
    print(source)

# %% [markdown]
# Answer from the table, and name the setting each time:
#
# 1. Does MLA beat MHA everywhere?
# 2. What do eight KV heads cost, and what one? Is the answer the same in both papers that tell?
# 3. By how many points is MLA better than GQA?
#
# <details><summary>Answers</summary>
#
# 1. No. In the large pair it is better on both tests (MMLU 59.0 against 57.5, BBH 50.7 against 46.6); the small pair's C-Eval
#    is 50.9 against 51.6.
# 2. T5-XXL, trained further: 0.1 points with eight, 0.6 with one. The 7B model from scratch: 4.0 for GQA, 7.3 for MQA. Other
#    models, other tests: one cannot say which is the rule.
# 3. Nobody measured both in one setting, so the table does not say.
#
# </details>

# %% [markdown]
# ## Explain
#
# 1. All heads read one latent. Why is MLA not multi-query attention?
# 2. Why does the scale stay `1/sqrt(Dn + Dr)`, when the absorbed query is `R + Dr` wide?
#
# *Write here, in your own words. Nobody grades it.*

# %% [markdown]
# ## Recall
#
# **Tomorrow:** what does an MLA layer hold of a token, and which part of it is turned?
#
# **Next week:** a paper says its cache is 93% smaller. Which two questions do you ask first?
