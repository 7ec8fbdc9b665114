# %% [markdown]
# # 03 · Memory and capacity
#
# **At the end of this lesson you can claim:** *given a model's config and a GPU, I can say how many bytes its cache
# takes, how many sequences fit, how fast a decode step can be at best, and which assumptions these numbers rest on.*
#
# You need lesson 02. It takes two to three hours; the first check turns green within fifteen minutes.
#
# **Letters.** `num_heads` query heads look, `num_kv_heads` heads of keys and values are looked at, each `head_dim`
# wide. `S` tokens are held. A GB is $10^9$ bytes, a GiB is $2^{30}$.
#
# ## Predict
#
# A GPU has 60 GB left beside the weights of Llama 3 8B, a small model. Each user brings a document of 32,768 tokens.
# For how many is there room at once: a thousand, a hundred, a dozen, or one?
#
# *Your guess:* ...

# %% [markdown]
# ## A cache you can count by hand
#
# Two layers, two KV heads, rows of four numbers, three tokens, two bytes for each number:

# %%
import numpy as np

from autograde import check, mine_or
from kvlib.sizing.gpus import find_gpu
from kvlib.sizing.models import load_config

GB, GiB, KiB = 10**9, 2**30, 2**10

keys = np.zeros((2, 2, 3, 4), dtype=np.float16)  # (layers, KV heads, tokens, head_dim)
values = np.zeros_like(keys)
print("one layer of keys:", keys[0].size, "numbers")
print("all keys and values:", keys.nbytes + values.nbytes, "bytes")

# %% [markdown]
# Every size enters once, and there are keys *and* values. Query heads do not enter: a query is used once and forgotten.

# %% [markdown] card="3.1"
# **Sizes:** `seq_lens` is a list with the tokens that each sequence holds. It may be empty, and so may a sequence. The
# result is a whole number, exact however large, so no `/`.


# %% exercise="3.1"
def kv_bytes(num_layers, num_kv_heads, head_dim, seq_lens, bytes_per_element):
    """Bytes of the keys and values of a batch of sequences.

    >>> kv_bytes(2, 2, 4, [3], 2)
    192
    """
    ### BEGIN SOLUTION
    return 2 * num_layers * num_kv_heads * head_dim * sum(seq_lens) * bytes_per_element
    ### END SOLUTION


# %% check="3.1"

# %% [markdown] hints="3.1"
#

# %% [markdown]
# ## Which kind of giga?
#
# Vendors print GB. Tools that allocate memory count in GiB, and often write GB too. How far apart are they?

# %%
print(f"80 GB are {80 * GB / GiB:.1f} GiB; 7 billion weights of 2 bytes, 14 GB, are {14 * GB / GiB:.3f} GiB")
print(f"a GiB is {GiB / GB - 1:.1%} more than a GB, a TiB {2**40 / 10**12 - 1:.1%} more than a TB")

# %% [markdown]
# One letter can be worth several users' caches. So keep whole bytes, and name a unit only when you read or print.

# %% [markdown] card="3.2"
# **Text:** a number, a space, a unit. The units are `B`, `KB`, `MB`, `GB`, `TB` (powers of 1000) and `KiB`, `MiB`,
# `GiB`, `TiB` (powers of 1024), spelt exactly so. The number may have a decimal point; the result is rounded to a whole
# byte. `ValueError` for another unit, a missing number or unit, and a negative size.


# %% exercise="3.2"
def size_in_bytes(text):
    """Whole bytes in a size.

    >>> size_in_bytes("80 GB"), size_in_bytes("24 GiB"), size_in_bytes("0.5 KiB")
    (80000000000, 25769803776, 512)
    """
    ### BEGIN SOLUTION
    powers = {"B": 0, "K": 1, "M": 2, "G": 3, "T": 4}
    units = {f"{letter}B": 1000**power for letter, power in powers.items() if power}
    units |= {f"{letter}iB": 1024**power for letter, power in powers.items() if power} | {"B": 1}
    number, unit = text.split()  # ValueError unless there are two
    if unit not in units or not float(number) >= 0:
        raise ValueError(f'wanted a size such as "80 GB", got {text!r}')
    return round(float(number) * units[unit])
    ### END SOLUTION


# %% check="3.2"

# %% [markdown] hints="3.2"
#

# %% [markdown]
# ## Reading a config
#
# Every published model comes with a `config.json`. The fields that matter here, of two models:

# %%
for name in ("gemma-2-27b", "gpt2-xl"):
    config = load_config(name)
    wanted = ("layer", "head", "hidden_size", "n_embd", "model_type")
    print(name, {key: value for key, value in config.items() if any(part in key for part in wanted)})
gemma = load_config("gemma-2-27b")
print("hidden_size / num_attention_heads:", gemma["hidden_size"] / gemma["num_attention_heads"])

# %% [markdown]
# Three traps. The width of Gemma's heads is *not* that quotient. Older families name everything differently. And what
# is not written may mean something: a Llama config without `num_key_value_heads` has as many as query heads. In a
# family you do not know, that is a guess, and a wrong guess gives a plan that looks fine and is off by a factor of
# eight. Refuse instead.

# %% [markdown] card="3.3"
# **Returns** a dict with `num_layers`, `num_kv_heads` and `head_dim`. `config` must not be changed.
#
# - `model_type` `"llama"`, `"mistral"`, `"qwen2"`, `"gemma2"`: fields `num_hidden_layers`, `num_attention_heads`,
#   `num_key_value_heads`; if that is missing or `None`, as many as query heads. `head_dim`; only if that is missing or
#   `None`, `hidden_size` over query heads.
# - `"gpt2"`: fields `n_layer`, `n_head`, `n_embd`; a KV head for each head.
# - `ValueError`: any other or no `model_type`, a needed field that is missing or `None`, a division with a remainder where
#   `head_dim` must be worked out, fewer than 1 KV head, KV heads that do not divide the query heads.


# %% exercise="3.3"
def read_config(config):
    """Layers, KV heads and head dim of a model.

    >>> read_config({"model_type": "gpt2", "n_layer": 48, "n_head": 25, "n_embd": 1600})
    {'num_layers': 48, 'num_kv_heads': 25, 'head_dim': 64}
    """
    ### BEGIN SOLUTION
    kind = config.get("model_type")
    if kind not in ("llama", "mistral", "qwen2", "gemma2", "gpt2"):
        raise ValueError(f"model_type {kind!r} is not known, and no guess is made")

    def needed(name):
        if config.get(name) is None:
            raise ValueError(f"the config has no {name}")
        return config[name]

    old = kind == "gpt2"
    layers = needed("n_layer" if old else "num_hidden_layers")
    heads = needed("n_head" if old else "num_attention_heads")
    kv_heads = None if old else config.get("num_key_value_heads")
    kv_heads = heads if kv_heads is None else kv_heads
    if kv_heads < 1 or heads % kv_heads:
        raise ValueError(f"{kv_heads} KV heads for {heads} query heads")
    head_dim = None if old else config.get("head_dim")
    if head_dim is None:
        width = needed("n_embd" if old else "hidden_size")
        if width % heads:
            raise ValueError(f"{heads} heads do not divide a width of {width}")
        head_dim = width // heads
    return {"num_layers": layers, "num_kv_heads": kv_heads, "head_dim": head_dim}
    ### END SOLUTION


# %% check="3.3"

# %% [markdown] hints="3.3"
#

# %% [markdown]
# ## Experiment: what one token costs
#
# The last line asks what Llama 3 70B would take if each query head had a KV head of its own (MHA).

# %%
from kvlib.sizing import config as config_module
from kvlib.sizing import kv

count, read = mine_or("3.1", kv.kv_bytes), mine_or("3.3", config_module.read_config)


def shape_of(config):
    found = read(config)
    return found["num_layers"], found["num_kv_heads"], found["head_dim"]


models = {name: load_config(name) for name in ("gpt2-xl", "llama-2-7b", "llama-3-8b", "qwen2.5-7b", "llama-3-70b")}
models["the same, MHA"] = load_config("llama-3-70b") | {"num_key_value_heads": None}
print(f"{'model':<14} layers  KV heads  head_dim  KiB per token  GiB at 4,096 tokens")
for name, config in models.items():
    layers, kv_heads, head_dim = shape_of(config)
    one, many = (count(layers, kv_heads, head_dim, [n], 2) for n in (1, 4096))
    print(f"{name:<14} {layers:>6}  {kv_heads:>8}  {head_dim:>8}  {one / KiB:>13.1f}  {many / GiB:>19.3f}")

# %% [markdown]
# Llama 3 70B has ten times the weights of Llama 2 7B, and less cache.
#
# ## Layers that are not alike
#
# The formula has one rate for all layers. Newer models mix kinds. A **window** keeps the last tokens only. A **latent**
# (MLA, in DeepSeek) is one short row and one key with the position in it, for all heads together. A **state** (Mamba)
# is a fixed number of bytes, however long the text. A **shared** layer reads the cache of an earlier one. So ask each
# layer: how many tokens does it hold, and what for each?

# %% [markdown] card="3.4"
# **Layers** are dicts; `kind` says which fields there are. Other fields may be there too: ignore them.
#
# | `kind` | fields | holds |
# |---|---|---|
# | `"full"` | `num_kv_heads`, `head_dim` | keys and values of every token |
# | `"window"` | the same and `window` | keys and values of the last `window` tokens |
# | `"latent"` | `kv_lora_rank`, `qk_rope_head_dim` | the sum of both numbers, once for each token, not for each head |
# | `"state"` | `state_bytes` | bytes already, whatever the tokens |
# | `"shared"` | | nothing |
#
# Any other kind is a `ValueError` that names it.


# %% exercise="3.4"
def layer_bytes(layers, num_tokens, bytes_per_element):
    """Bytes of one sequence in all layers.

    >>> layer_bytes([{"kind": "window", "num_kv_heads": 2, "head_dim": 4, "window": 3}, {"kind": "shared"}], 5, 2)
    96
    """
    ### BEGIN SOLUTION
    total = 0
    for layer in layers:
        kind, held = layer["kind"], num_tokens
        if kind == "window":
            held = min(num_tokens, layer["window"])
        if kind in ("full", "window"):
            total += 2 * layer["num_kv_heads"] * layer["head_dim"] * held * bytes_per_element
        elif kind == "latent":
            total += (layer["kv_lora_rank"] + layer["qk_rope_head_dim"]) * held * bytes_per_element
        elif kind == "state":
            total += layer["state_bytes"]
        elif kind != "shared":
            raise ValueError(f"unknown kind {kind!r}")
    return total
    ### END SOLUTION


# %% check="3.4"

# %% [markdown] hints="3.4"
#

# %% [markdown]
# Gemma 2 27B has a window in every second layer, DeepSeek-V3 a latent in every one.

# %%
from kvlib.sizing import layers as layers_module

size_of = mine_or("3.4", layers_module.layer_bytes)
full = {"kind": "full", "num_kv_heads": gemma["num_key_value_heads"], "head_dim": gemma["head_dim"]}
local = full | {"kind": "window", "window": gemma["sliding_window"]}
for tokens in (4096, 8192, 32_768):
    mixed, plain = (size_of(pair * 23, tokens, 2) / GiB for pair in ([full, local], [full, full]))
    print(f"Gemma 2 27B, {tokens:>6,} tokens: {mixed:.3f} GiB, and {plain:.3f} if every layer kept everything")
v3 = load_config("deepseek-v3")
latent = {"kind": "latent", "kv_lora_rank": v3["kv_lora_rank"], "qk_rope_head_dim": v3["qk_rope_head_dim"]}
print(f"DeepSeek-V3: {size_of([latent] * v3['num_hidden_layers'], 1, 2) / KiB:.3f} KiB per token")

# %% [markdown]
# ## Fewer bits
#
# A cache in 4 bits is a quarter of one in 16? Not quite. Small numbers need a **scale**, one for each group, or nobody
# can turn them back; some formats add a **zero point**; and rows start at multiples of 16 or 64 bytes.

# %% [markdown] card="3.5"
# **A row** is one head's key, or value, of one token: `head_dim` numbers of `bits` bits, one behind the other, also
# across the ends of bytes and groups, and rounded up to whole bytes once; then `scale_bytes + zero_bytes` for each group
# of `group_size` numbers, the last of which may be smaller; the sum rounded up to a multiple of `align`. A whole number.


# %% exercise="3.5"
def quantised_row_bytes(head_dim, bits, group_size, scale_bytes, zero_bytes, align):
    """Bytes of one quantised row.

    3 bytes hold 5 numbers of 4 bits, and there are two groups:

    >>> quantised_row_bytes(5, 4, 4, 2, 0, 1)
    7
    """
    ### BEGIN SOLUTION
    payload = -(-head_dim * bits // 8)
    groups = -(-head_dim // group_size)
    size = payload + groups * (scale_bytes + zero_bytes)
    return -(-size // align) * align
    ### END SOLUTION


# %% check="3.5"

# %% [markdown] hints="3.5"
#

# %% [markdown]
# ## What fits
#
# A GPU's memory holds **weights**, which are always there, a **reserve** for all that comes and goes, and caches in
# what is left. Engines hand the cache out in **blocks** of some tokens (lesson 06 shows why).
#
# With several GPUs, **tensor parallelism** gives each a part of every layer: `1/tp` of the weights, and some of the KV
# heads. A head cannot be cut. With 8 KV heads, 16 GPUs hold each head twice, and from 8 GPUs on the cache of each no
# longer shrinks.

# %% [markdown] card="3.6"
# **Bytes** are whole numbers; `weight_bytes` are those of the whole model. On each of `tp` GPUs with `gpu_bytes`:
#
# - the weights take `weight_bytes / tp`, rounded up; `reserve_bytes` stay free;
# - there are `num_kv_heads / tp` KV heads of every sequence, or one where there are more GPUs than KV heads. When
#   neither number divides the other: `ValueError`;
# - a sequence takes whole blocks of `block_size` tokens, as many as it needs.
#
# What fits on one GPU fits on all. Never fewer than 0.


# %% exercise="3.6"
def sequences_that_fit(
    gpu_bytes,
    weight_bytes,
    reserve_bytes,
    num_layers,
    num_kv_heads,
    head_dim,
    bytes_per_element,
    tokens,
    block_size,
    tp,
):
    """Whole sequences of `tokens` tokens that fit on tp GPUs.

    600 bytes are left, 17 tokens take two blocks of 16, a token takes 4 bytes:

    >>> sequences_that_fit(1000, 300, 100, 1, 1, 1, 2, 17, 16, 1)
    4
    """
    ### BEGIN SOLUTION
    if num_kv_heads % tp and tp % num_kv_heads:
        raise ValueError(f"{num_kv_heads} KV heads on {tp} GPUs")
    heads = max(1, num_kv_heads // tp)
    left = gpu_bytes - -(-weight_bytes // tp) - reserve_bytes
    slots = -(-tokens // block_size) * block_size
    one = 2 * num_layers * heads * head_dim * slots * bytes_per_element
    return max(0, left // one)
    ### END SOLUTION


# %% check="3.6"

# %% [markdown] hints="3.6"
#

# %% [markdown]
# ## Experiment: three budgets
#
# Three recipes, each with other assumptions: your prediction; 90% of 80 GB, less 4 GB on each GPU; a pool of 24 GiB.


# %%
def weights_of(config):
    """Bytes of a Llama's weights in 16 bit: two embeddings, and in each layer four projections, an MLP, two norms."""
    width, head_dim = config["hidden_size"], config["hidden_size"] // config["num_attention_heads"]
    attention = 2 * width * width + 2 * width * config["num_key_value_heads"] * head_dim
    layer = attention + 3 * width * config["intermediate_size"] + 2 * width
    return 2 * (2 * config["vocab_size"] * width + config["num_hidden_layers"] * layer + width)


from kvlib.sizing import capacity

fit = mine_or("3.6", capacity.sequences_that_fit)
small, large, older = load_config("llama-3-8b"), load_config("llama-3-70b"), load_config("llama-2-7b")
for bits, size in ((16, 2), (8, 1)):
    print(f"60 GB left, {bits}-bit cache:", fit(60 * GB, 0, 0, *shape_of(small), size, 32_768, 16, 1))
print("\n90% of 80 GB, 4 GB reserve   4,096  8,192  32,768  131,072 tokens")
rows = (("Llama 3 8B", small, 2, 1), ("the same, 8-bit cache", small, 1, 1), ("Llama 2 7B", older, 2, 1))
rows += (("Llama 3 70B on 4 GPUs", large, 2, 4), ("Llama 3 70B on 8 GPUs", large, 2, 8))
for name, config, size, tp in rows:
    shape, weights = shape_of(config), weights_of(config)
    found = [fit(72 * GB, weights, 4 * GB, *shape, size, n, 16, tp) for n in (4096, 8192, 32_768, 131_072)]
    print(f"{name:<27} {found[0]:>6} {found[1]:>6} {found[2]:>7} {found[3]:>8}")
weights = 7 * 10**9 * 2
print("\n24 GiB, 2 GiB reserve, 7e9 weights:", fit(24 * GiB, weights, 2 * GiB, *shape_of(older), 2, 4096, 16, 1))

# %% [markdown]
# Was your guess right? Twice the GPUs hold more than three times the sequences of Llama 3 70B. Why? The second recipe's
# first row:

# %%
from kvlib import plots_sizing

plots_sizing.draw_budget(80 * GB, weights_of(small), 8 * GB + 4 * GB, count(*shape_of(small), [8192], 2))

# %% [markdown]
# ## How fast can a decode step be?
#
# To make one token, the GPU fetches every weight and every cached key and value. A batch shares one fetch of the weights,
# but each sequence brings its own cache. Bytes over bandwidth is a time that no kernel can beat. (Of
# the table that looks tokens up, a few percent, single rows would do; we count it.)

# %% [markdown] card="3.7"
# **Units:** bytes, and bytes per second. `kv_bytes_per_token` is the whole model's, K and V. `seq_lens` lists the
# tokens held by each sequence, at least one sequence; exactly those are read. Each sequence gets one new token. Do not
# round.


# %% exercise="3.7"
def decode_step(weight_bytes, kv_bytes_per_token, seq_lens, bandwidth):
    """One decode step.  Returns: (bytes_read, seconds, tokens_per_second), the last for all sequences together.

    >>> decode_step(16_000, 10, [100, 300], 2_000)
    (20000, 10.0, 0.2)
    """
    ### BEGIN SOLUTION
    bytes_read = weight_bytes + kv_bytes_per_token * sum(seq_lens)
    seconds = bytes_read / bandwidth
    return bytes_read, seconds, len(seq_lens) / seconds
    ### END SOLUTION


# %% check="3.7"

# %% [markdown] hints="3.7"
#

# %% [markdown]
# ## Experiment: what KV heads buy
#
# Llama 2 13B on one H100, 1,024 tokens for each sequence: as it is, with 40 KV heads, and as if it had 8.

# %%
from kvlib.sizing import roofline as roofline_module

step = mine_or("3.7", roofline_module.decode_step)
h100, steps = find_gpu("H100"), {}
print("KV heads  batch  GB read  ms per step  tokens/s  fits in 80 GB")
for kv_heads in (40, 8):
    config = load_config("llama-2-13b") | {"num_key_value_heads": kv_heads}
    shape, weights = shape_of(config), weights_of(config)
    room = fit(h100.memory, weights, 0, *shape, 2, 1024, 16, 1)
    for batch in (1, 64, 256):
        moved, seconds, rate = step(weights, count(*shape, [1], 2), [1024] * batch, h100.bandwidth)
        steps[kv_heads, batch] = seconds, batch <= room
        times = f"{moved / GB:>7.1f}  {seconds * 1e3:>11.1f}  {rate:>8,.0f}"
        print(f"{kv_heads:>8}  {batch:>5}  {times}  {'yes' if batch <= room else 'no'}")

# %% [markdown]
# With 40 KV heads, a step for 64 sequences takes three times as long as for one, and makes 64 times the tokens. At 256
# it reads mostly cache, and does not fit. With 8 all rows fit, and every step is shorter, also because the projections of
# keys and values shrink.

# %%
found = [steps[40, batch] for batch in (1, 64, 256)]
plots_sizing.draw_latency_throughput((1, 64, 256), [seconds for seconds, _ in found], [fits for _, fits in found])

# %% [markdown]
# ## Memory or arithmetic?
#
# A GPU also has a top speed of arithmetic. It fetches and computes at once, so the longer of the two times is the
# bound. The work's FLOP over its bytes is its **intensity**. The GPU's FLOP/s over its bandwidth is the **ridge**.
# Below it, arithmetic waits for memory.

# %% [markdown] card="3.8"
# **Units:** FLOP, bytes, FLOP/s, bytes/s, all above 0. `binds` is the text `"memory"` or `"compute"`: what takes
# longer. Do not round.


# %% exercise="3.8"
def roofline(flops, bytes_moved, peak_flops, bandwidth):
    """A piece of work on a GPU.  Returns: (intensity, ridge, seconds, binds).

    >>> roofline(1_000, 500, 8_000, 1_000)
    (2.0, 8.0, 0.5, 'memory')
    """
    ### BEGIN SOLUTION
    intensity, ridge = flops / bytes_moved, peak_flops / bandwidth
    seconds = max(flops / peak_flops, bytes_moved / bandwidth)
    return intensity, ridge, seconds, "memory" if intensity < ridge else "compute"
    ### END SOLUTION


# %% check="3.8"

# %% [markdown] hints="3.8"
#

# %% [markdown]
# ## Experiment: where decoding lies
#
# Attention does 4 FLOP for each number of a key: two for the score, two for the mean of the values. Decoding fetches
# all keys and values for a single query; prefill has `S` queries for them (no mask here). An MLP's matrix is fetched
# once for all rows, which are the tokens of a batch.

# %%
place = mine_or("3.8", roofline_module.roofline)
S, D, width, hidden = 4096, 128, 4096, 14_336
work = {  # FLOP, and numbers moved
    "decode attention": (4 * S * D, 2 * S * D + 2 * D),
    "4 query heads share a KV head": (4 * 4 * S * D, 2 * S * D + 4 * 2 * D),
    "prefill attention": (4 * S * S * D, 4 * S * D),
}
for n in (1, 64, 512):
    work[f"MLP, {n} row{'s' * (n > 1)}"] = 2 * n * width * hidden, n * width + width * hidden + n * hidden
placed = {name: place(flops, 2 * moved, h100.flops, h100.bandwidth) for name, (flops, moved) in work.items()}
print(f"the ridge of an {h100.name}: {placed['decode attention'][1]:.0f} FLOP/B")
for name, (intensity, _, seconds, binds) in placed.items():
    print(f"{name:<30} {intensity:>8.3f} FLOP/B {seconds * 1e6:>9.2f} us  {binds} binds")

# %%
plots_sizing.draw_roofline(h100.flops, h100.bandwidth, {name: found[0] for name, found in placed.items()})

# %% [markdown]
# A larger batch lifts the MLP, but not decode attention: more sequences bring more queries *and* more cache. Sharing keys
# and values helps: lesson 04.
#
# ## What the user feels
#
# Two numbers: **TTFT**, the time to the first token, is waiting and prefill; **ITL**, the inter-token latency, is
# decoding. A long prompt spoils the first, a large batch the second.

# %% [markdown] card="3.9"
# **Times** are in one unit; `start` is when the request was sent, `times` lists when each token came. ITL is the mean
# of the gaps between tokens, and `None` when there is no second token. No token at all is a `ValueError`. Do not round.


# %% exercise="3.9"
def latencies(start, times):
    """Returns: (ttft, itl).

    >>> latencies(10.0, [15.0, 16.0, 18.0])
    (5.0, 1.5)
    """
    ### BEGIN SOLUTION
    if not times:
        raise ValueError("no token came")
    gaps = len(times) - 1
    return times[0] - start, (times[-1] - times[0]) / gaps if gaps else None
    ### END SOLUTION


# %% check="3.9"

# %% [markdown] hints="3.9"
#

# %%
from kvlib.sizing import latency

ttft, itl = mine_or("3.9", latency.latencies)(0.0, [0.12, 0.16, 0.21, 0.25])
print(f"first token after {ttft:.2f} s, then one every {itl:.5f} s")

# %% [markdown]
# ## All of it at once
#
# What you have written is most of `kvlib size`, a command. In our table 64 sequences fitted; here they do not. Its last
# lines say why: a plan without its assumptions is a guess. Below are the same sums with sliders.

# %%
from kvlib.cli import main

_ = main(["size", "llama-2-13b", "--gpu", "H100", "--context", "1024", "--batch", "64"])

# %% tags=["nbval-ignore-output"]
from kvlib import widgets

widgets.explore_sizing()

# %% [markdown]
# ## Explain
#
# 1. Somebody doubles the batch and the tokens per second hardly rise. What is being read, and what would you change?
# 2. A colleague's plan says 12 sequences, yours 13. Name three assumptions to compare before anyone is wrong.
#
# *Write here, in your own words. Nobody grades it.*

# %% [markdown]
# ## Recall
#
# **Tomorrow:** write down the factors of bytes per token, and one that does not belong there.
#
# **Next week:** a model with one KV head runs on one GPU. What happens to the cache on each GPU when there are two?
