# %% [markdown]
# # 07 · Fewer bits, and a GPU
#
# **At the end of this lesson you can claim:** *I store keys and values in FP8 and in four bits with the scales that they
# need, I know how far the output can move, and I can say when a measured time means something.*
#
# You need lesson 04. It takes three hours; the first check turns green within fifteen minutes. No graded part needs a GPU:
# torch stores FP8 on every machine.
#
# **Letters.** `B` sequences, `T` new tokens, `S` tokens held, `Hkv` KV heads, `D` head dim.
#
# ## Predict
#
# FP8 takes half the bytes of 16 bits. Does a decode step take half the time? Does the answer get worse?
#
# *Your guess:* ...

# %%
import statistics

import torch
import torch.nn.functional as F

from autograde import check, mine_or, passed

torch.set_printoptions(precision=3, sci_mode=False)
torch.set_num_threads(1)  # small tensors: more threads would only wait for each other

# %% [markdown]
# ## Eight bits that float
#
# A number in FP8 is one byte. **E4M3**, `torch.float8_e4m3fn`, has a sign, four bits of exponent and three of fraction.
# Its numbers are dense near 0, and far apart at the end:

# %%
numbers = torch.arange(127, dtype=torch.uint8).view(torch.float8_e4m3fn).float()
for part in (numbers[:4], numbers[56:60], numbers[-4:]):
    print(part.tolist())

# %% [markdown]
# So a row is divided by a **scale** before it is stored, and multiplied by it when it is read. 448 is the last number, and
# there is no infinity. 500 becomes 448 on some builds of torch, NaN on others and in the check.

# %% [markdown] card="7.1"
# **Shapes:** `x` is a float tensor of any shape. `scale` is positive, has as many axes, and broadcasts to `x`.
#
# - Each number is `x / scale`, clamped to -448..448 and rounded **once** to the nearest E4M3 number. Halfway, the even
#   code is taken: the cast does that. Infinities become -448 and 448.
# - The result is a `torch.float8_e4m3fn` tensor of the shape of `x`. `x` and `scale` stay as they are.


# %% exercise="7.1"
def to_fp8(x, scale):
    """x / scale in eight bits.

    >>> to_fp8(torch.tensor([3.3, -1000.0]), torch.tensor([2.0])).tolist()  # 1.65 lies between 1.625 and 1.75
    [1.625, -448.0]
    """
    ### BEGIN SOLUTION
    return (x / scale).clamp(-448.0, 448.0).to(torch.float8_e4m3fn)
    ### END SOLUTION


# %% check="7.1"

# %% [markdown] hints="7.1"
#

# %% [markdown]
# ## Who shares a scale
#
# One scale for a whole tensor costs next to nothing, but one large number sets it for all. So scales are also kept for
# each head, for each token of a head, or for each **channel**, one of the D numbers of a key.

# %% [markdown] card="7.2"
# - A scale is the largest absolute value of those that share it, over 448, however small or large that is.
# - Where everything is zero, the scale is 1.
# - Scales are at least as exact as float32. Another word for `per` is a `ValueError`. `x` stays as it is.


# %% exercise="7.2"
def scales(x, per):
    """The scales that make x / scales reach from -448 to 448.

    x: (Hkv, S, D). Returns (1, 1, 1) per "tensor", (Hkv, 1, 1) per "head", (Hkv, S, 1) per "token" and
    (Hkv, 1, D) per "channel".

    >>> x = torch.tensor([[[448.0, 224.0], [-896.0, 0.0]]])  # one head, two tokens, two channels
    >>> scales(x, "token").tolist(), scales(x, "channel").tolist()
    ([[[1.0], [2.0]]], [[[2.0, 0.5]]])
    """
    ### BEGIN SOLUTION
    dims = {"tensor": (0, 1, 2), "head": (1, 2), "token": (2,), "channel": (1,)}
    if per not in dims:
        raise ValueError(f"per must be one of {', '.join(dims)}, got {per!r}")
    scale = x.abs().amax(dims[per], keepdim=True) / 448
    return torch.where(scale > 0, scale, 1.0)
    ### END SOLUTION


# %% check="7.2"

# %% [markdown] hints="7.2"
#

# %% [markdown]
# ## Experiment: does it matter?
#
# Keys of two heads, 64 tokens and 16 channels, one of them twenty times as large as the others. The same scales serve FP8,
# and whole numbers up to 127 (INT8) and to 7 (INT4). Measured is the error of the *other* 15 channels.
#
# *Your guess:* which format suffers most from the large one, and which not at all ...

# %%
from kvlib import fp8
from kvlib.plots_fp8 import draw_errors, explore_scale

cast, scale_of = mine_or("7.1", fp8.to_fp8), mine_or("7.2", fp8.scales)
keys = torch.randn(2, 64, 16, generator=torch.Generator().manual_seed(0))
keys[:, :, 3] *= 20
others = torch.arange(16) != 3

table = {"FP8": {}, "INT8": {}, "INT4": {}}
for per in ("tensor", "head", "token", "channel"):
    scale = scale_of(keys, per)
    back = {"FP8": cast(keys, scale).float() * scale}
    for name, top in (("INT8", 127), ("INT4", 7)):
        step = scale * 448 / top  # the largest becomes 127, or 7
        back[name] = (keys / step).round() * step
    for name, rows in back.items():
        error = (rows - keys)[..., others].norm() / keys[..., others].norm()
        table[name][per] = error.item()

draw_errors(table)

# %% [markdown]
# Whole numbers are evenly spaced: the large channel stretches the steps of all who share its scale. A floating format
# rounds each number by a part of *itself*, so FP8 hardly cares, as long as nothing is clamped or lost. Move one scale for
# all:

# %%
explore_scale(cast, keys)

# %% [markdown]
# Both ends hurt, and the flat middle is wide. Be fair to INT8: with a scale for each channel it is *more* exact at as many
# bytes. FP8's merits are its range, and hardware that multiplies it.

# %% [markdown]
# ## The cache
#
# With one scale for a head, a larger token that comes later is cut off, or stretches the scale, and then all old tokens
# are rounded again:

# %%
old, new = torch.tensor([1.0, 0.3]), torch.tensor([100.0, 7.0])
small, large = old.max() / 448, new.max() / 448
once = (old / small).to(torch.float8_e4m3fn).float() * small
print("once:", once.tolist(), " again:", ((once / large).to(torch.float8_e4m3fn).float() * large).tolist())

# %% [markdown]
# So here **each token of each head has a scale of its own**, 4 bytes more. What was written is never touched again.

# %% [markdown] card="7.3"
# - A scale (float32) is the largest absolute value of its token in its head, over 448. K and V have their own. Zeros stay 0.
# - `read` makes no tensor larger than what it returns, K and V together. `start == stop` is fine.
# - `nbytes`, an attribute or a property, is `(payload, metadata)` in bytes: codes and scales. They are there from the start,
#   for `max_len` tokens, and nothing else is kept.
# - `ValueError`, and nothing changes: no room for all `T`; a wrong shape; `read` unless `0 <= start <= stop <= len`;
#   `truncate` below 0 or above `len`; `reorder` of anything but `B` rows from 0 to `B - 1`.
# - The caller's tensors stay as they are.


# %% exercise="7.3"
class QuantisedCache:
    """Keys and values of up to max_len tokens of B sequences, for one layer, in FP8."""

    def __init__(self, batch_size, num_kv_heads, max_len, head_dim):
        ### BEGIN SOLUTION
        self.shape, self.used = (batch_size, num_kv_heads, max_len, head_dim), 0
        self.codes = [torch.zeros(self.shape, dtype=torch.float8_e4m3fn) for _ in "KV"]
        self.scales = [torch.ones(batch_size, num_kv_heads, max_len, 1) for _ in "KV"]
        self.nbytes = tuple(sum(part.nbytes for part in parts) for parts in (self.codes, self.scales))
        ### END SOLUTION

    def __len__(self):
        """Tokens held."""
        ### BEGIN SOLUTION
        return self.used
        ### END SOLUTION

    def append(self, k, v):
        """Keep T more tokens. k, v: (B, Hkv, T, D), in float32."""
        ### BEGIN SOLUTION
        B, Hkv, max_len, D = self.shape
        T = k.shape[2] if k.ndim == 4 else 1
        if any(rows.shape != (B, Hkv, T, D) for rows in (k, v)):
            raise ValueError(f"wanted ({B}, {Hkv}, T, {D}), got {tuple(k.shape)} and {tuple(v.shape)}")
        end = self.used + T
        if end > max_len:
            raise ValueError(f"holds {self.used} of {max_len} tokens, {T} more asked")
        for i, rows in enumerate((k, v)):
            top = rows.abs().amax(-1, keepdim=True)  # (B, Hkv, T, 1)
            scale = torch.where(top > 0, top / 448, 1.0)
            self.codes[i][:, :, self.used : end] = (rows / scale).clamp(-448, 448).to(torch.float8_e4m3fn)
            self.scales[i][:, :, self.used : end] = scale
        self.used = end
        ### END SOLUTION

    def read(self, start, stop):
        """Returns: (K, V) of tokens start to stop - 1, (B, Hkv, stop - start, D) each, in float32."""
        ### BEGIN SOLUTION
        if not 0 <= start <= stop <= self.used:
            raise ValueError(f"holds {self.used} tokens, {start} to {stop} asked")
        K, V = (
            codes[:, :, start:stop].float() * scale[:, :, start:stop]
            for codes, scale in zip(self.codes, self.scales, strict=True)
        )
        return K, V
        ### END SOLUTION

    def truncate(self, length):
        """Hold only the first `length` tokens."""
        ### BEGIN SOLUTION
        if not 0 <= length <= self.used:
            raise ValueError(f"holds {self.used} tokens, cannot be cut to {length}")
        self.used = length
        ### END SOLUTION

    def reorder(self, rows):
        """Sequence b goes on from what sequence rows[b] held. rows: a list. A row that is named twice is a fork."""
        ### BEGIN SOLUTION
        B = self.shape[0]
        if len(rows) != B or not all(0 <= row < B for row in rows):
            raise ValueError(f"wanted {B} rows from 0 to {B - 1}, got {rows}")
        self.codes = [part[rows] for part in self.codes]
        self.scales = [part[rows] for part in self.scales]
        ### END SOLUTION


# %% check="7.3"

# %% [markdown] hints="7.3"
#

# %% [markdown]
# ## Fewer bits still
#
# With a scale `s`, four bits store `round(x / s)`, from -7 to 7, and two of them share a byte:

# %%
row = torch.tensor([7.0, -3.0, 2.9, 0.5])
whole = row.round().to(torch.int64)  # s = 1: 0.5 is lost
low, high = whole[0::2] + 8, whole[1::2] + 8  # 1 to 15: no sign to store
print(whole.tolist(), "in two bytes:", (low | high << 4).tolist())

# %% [markdown]
# A row is cut into small **groups**, each with a scale of its own, so that a large number spoils few neighbours. Scales
# take bytes too: four bits are never four bits.

# %% [markdown] card="7.4"
# - A group is `group_size` neighbours along D; the last one may be smaller, and a row's last byte half full.
# - A group's scale is at most its largest absolute value over 127 (8 bits) or over 7 (4 bits). No number is off by more
#   than half its group's scale. Groups of zeros come back as zeros, with any finite scale.
# - `dequantise` needs nothing but what it is given: any rows, on any quantiser of these settings. How you pack is free.
# - `bits` other than 8 or 4, or a `group_size` below 1: `ValueError` in the constructor. Nothing passed in may change.


# %% exercise="7.4"
class IntQuantiser:
    """Rows to whole numbers of a few bits, and back.

    x: float32 (..., D). packed: uint8 (..., ceil(D * bits / 8)). scale: float32 (..., ceil(D / group_size)).
    """

    def __init__(self, bits, group_size):
        ### BEGIN SOLUTION
        if bits not in (4, 8) or group_size < 1:
            raise ValueError(f"bits must be 8 or 4 and group_size at least 1, got {bits} and {group_size}")
        self.bits, self.group_size = bits, group_size
        self.top = 2 ** (bits - 1) - 1  # 127 or 7
        ### END SOLUTION

    def quantise(self, x):
        """Returns: (packed, scale)."""
        ### BEGIN SOLUTION
        D = x.shape[-1]
        groups = F.pad(x, (0, -D % self.group_size)).unflatten(-1, (-1, self.group_size))  # (..., groups, group_size)
        scale = groups.abs().amax(dim=-1) / self.top
        scale = torch.where(scale > 0, scale, 1.0)
        each = scale.repeat_interleave(self.group_size, dim=-1)[..., :D]
        codes = ((x / each).round().clamp(-self.top, self.top) + self.top + 1).to(torch.uint8)
        if self.bits == 4:
            codes = F.pad(codes, (0, D % 2))
            codes = codes[..., 0::2] | codes[..., 1::2] << 4
        return codes, scale
        ### END SOLUTION

    def dequantise(self, packed, scale, head_dim):
        """Returns: the rows (..., head_dim) in float32."""
        ### BEGIN SOLUTION
        if self.bits == 4:
            packed = torch.stack([packed & 15, packed >> 4], dim=-1).flatten(-2)[..., :head_dim]
        each = scale.repeat_interleave(self.group_size, dim=-1)[..., :head_dim]
        return (packed.float() - self.top - 1) * each
        ### END SOLUTION


# %% check="7.4"

# %% [markdown] hints="7.4"
#

# %% [markdown]
# ## How wrong may the answer be?
#
# E4M3 keeps three bits behind the leading one, so a number, unless it is tiny, is off by at most $2^{-4}$ of itself. What
# does that do to attention? Do not guess: derive it.
#
# 1. Each product $q_d k_{jd}$ is off by at most `relative` of itself. Score $j$ moves by at most $\delta_j$, `relative`
#    times $\sum_d |q_d k_{jd}| / \sqrt{D}$.
# 2. No score moves further than the largest of these, $\delta$.
# 3. A weight is one `exp` over a sum of them. The one grows at most $e^{\delta}$ times, the other shrinks as much, so no
#    weight grows more than $e^{2\delta}$ times.
# 4. A value grows at most $1 +$ `relative` times. Shrinking moves less, so output $d$ moves by at most
#    $\sum_j w_j |v_{jd}| \cdot ((1 + \text{relative})\, e^{2\delta} - 1)$, with the weights $w$ of the exact scores.

# %% [markdown] card="7.5"
# Return the bound of step 4. Nothing that is passed in may change.


# %% exercise="7.5"
def error_budget(q, k, v, relative):
    """How far each output of one query may move, when k and v are stored with that relative error: (D,).

    q: (D,). k, v: (S, D). All in float64.
    >>> error_budget(torch.zeros(1), torch.ones(2, 1), torch.tensor([[2.0], [-4.0]]), 0.5)  # 0.5 * mean of |v|
    tensor([1.5000])
    """
    ### BEGIN SOLUTION
    root = q.shape[0] ** 0.5
    delta = (relative * (k * q).abs().sum(dim=1) / root).max()
    weights = torch.softmax(k @ q / root, dim=0)  # (S,)
    return weights @ v.abs() * ((1 + relative) * torch.exp(2 * delta) - 1)
    ### END SOLUTION


# %% check="7.5"

# %% [markdown] hints="7.5"
#

# %% [markdown]
# The bound beside what really happens to one query over 64 random tokens, with keys and values in FP8:

# %%
from kvlib import error_budget as budget_module
from kvlib import fp8
from kvlib.plots_fp8 import draw_budget

budget = mine_or("7.5", budget_module.error_budget)
cast, scale_of = mine_or("7.1", fp8.to_fp8), mine_or("7.2", fp8.scales)
generator = torch.Generator().manual_seed(0)
q = torch.randn(8, generator=generator, dtype=torch.float64)
k, v = torch.randn(2, 64, 8, generator=generator, dtype=torch.float64)


def attend(q, k, v):
    return torch.softmax(k @ q / q.shape[0] ** 0.5, dim=0) @ v


def in_fp8(x):  # (S, D), with a scale for each token
    scale = scale_of(x[None], "token")
    return (cast(x[None], scale).double() * scale)[0]


draw_budget(attend(q, in_fp8(k), in_fp8(v)) - attend(q, k, v), budget(q, k, v, 2**-4))

# %% [markdown]
# A bound holds even when every error has the worst sign. These have all signs, and mostly cancel. So a bound tells when you
# need not look. When it is too large, measure.

# %% [markdown]
# ## Does a real model need scales?
#
# Ask SmolLM2, 135 million parameters. Its keys and values are read back from FP8. **Perplexity** says among how many
# tokens it wavers, **divergence** how far its predictions are from those of the exact cache.

# %% tags=["nbval-ignore-output"]
from kvlib import fp8
from kvlib.smollm2 import NoModel, load_model, load_tokenizer, sample_text
from kvlib.stored import divergence, perplexity, stored_logits
from kvlib.transformer import Transformer, TransformerConfig

cast, scale_of = mine_or("7.1", fp8.to_fp8), mine_or("7.2", fp8.scales)
try:
    model, tokens = load_model(), torch.tensor([load_tokenizer().encode(sample_text()).ids[:192]])
except NoModel as reason:
    print(f"{reason}\nUntil then a small random model stands in: what you see is right, and proves less.")
    config = TransformerConfig(4, 64, 6, 2, 16, 128, 97)
    model = Transformer.random(config, torch.Generator().manual_seed(0))
    tokens = torch.randint(97, (1, 192), generator=torch.Generator().manual_seed(1))
exact = model.logits(tokens)


def through_fp8(model, scaled):
    """Logits when keys and values, (1, Hkv, T, D), are read back from FP8."""

    def store(x):
        scale = scale_of(x[0], "token")[None] if scaled else torch.ones(1, 1, 1, 1)
        return (cast(x, scale).float() * scale).float()

    return stored_logits(model, tokens, store)


def report(name, logits):
    print(f"{name:<27} perplexity {perplexity(logits, tokens):8.2f}   divergence {divergence(logits, exact):.4f}")


report("exact", exact)
report("FP8, no scales", through_fp8(model, False))
report("FP8, one for each token", through_fp8(model, True))

# %% [markdown]
# As it was trained, hardly: perplexities this close differ by chance. But how large its numbers are is a habit of the
# training run. Keys can be twice as large and queries half as large: every score stays. With powers of two, not one bit of
# the output changes.

# %% [markdown] card="7.6"
# - Returns a new dict with all weights. Keys are `2 ** key_power` times as large, values `2 ** value_power` times, and the
#   layer's output is the same to the last bit.
# - `q` alone makes up for the keys, `o` alone for the values. `o_bias` is added last.
# - Powers may be negative. One that is not whole is a `ValueError`. Nothing passed in may change.


# %% exercise="7.6"
def rescale(weights, key_power, value_power):
    """A layer with other keys and values in its cache, and the same output.

    weights: a dict of tensors, (out, in) as nn.Linear keeps them: "q", "k", "v", "o", perhaps
    "q_bias", "k_bias", "v_bias", "o_bias", and others, which stay as they are.
    >>> rescale({"q": torch.ones(1), "k": torch.ones(1), "v": torch.ones(1), "o": torch.ones(1)}, 1, 0)
    {'q': tensor([0.5000]), 'k': tensor([2.]), 'v': tensor([1.]), 'o': tensor([1.])}
    """
    ### BEGIN SOLUTION
    for power in (key_power, value_power):
        if not isinstance(power, int):
            raise ValueError(f"powers must be whole numbers, got {power}")
    powers = {"k": key_power, "q": -key_power, "v": value_power, "o": -value_power}
    powers |= {"k_bias": key_power, "q_bias": -key_power, "v_bias": value_power}
    return {name: weight * 2.0 ** powers.get(name, 0) for name, weight in weights.items()}
    ### END SOLUTION


# %% check="7.6"

# %% [markdown] hints="7.6"
#

# %% [markdown]
# The same model, with values 1,024 times smaller in its cache:

# %% tags=["nbval-ignore-output"]
from kvlib import rescale as rescale_module

change = mine_or("7.6", rescale_module.rescale)
weights = dict(model.weights)
for layer in range(model.config.num_layers):
    own = {name: weights[f"{layer}.{name}"] for name in ("q", "k", "v", "o")}
    weights |= {f"{layer}.{name}": weight for name, weight in change(own, 0, -10).items()}
small = Transformer(model.config, weights)
print("the same logits, to the last bit:", torch.equal(small.logits(tokens), exact))
report("FP8, no scales", through_fp8(small, False))
report("FP8, one for each token", through_fp8(small, True))

# %% [markdown]
# Without scales most values become 0. With scales not one digit moves. So measure *your* model,
# again after fine-tuning, and test that it still finds what it read long ago: perplexity, an average over easy tokens, may
# not show it.

# %% [markdown]
# ## A clock that tells the truth
#
# A GPU works on while Python goes on: a call queues work and returns. Here is a device of invented seconds, whose prefill
# takes 0.12 of them:

# %%
from kvlib.simulated_device import SimulatedDevice

device = SimulatedDevice(seed=3)
began = device.clock()
device.prefill()
print(f"queued after {device.clock() - began:.5f} s")
device.synchronize()
print(f"done after {device.clock() - began:.2f} s")
for _ in range(5):
    began = device.clock()
    device.prefill()
    device.synchronize()
    print(f"again: {device.clock() - began:.2f} s")

# %% [markdown]
# The first is the time to *queue*. The second has somebody else's work in it. First runs compile; later ones are steady,
# but for outliers. So: **wait, warm up, repeat, take the median**, and time the first token (TTFT) and the
# others (ITL) apart.

# %% [markdown] card="7.7"
# - One run: synchronise, read the clock, prefill, synchronise, read, `new_tokens - 1` decodes, synchronise, read.
# - `warm_up` whole runs that do not count, then `repeats` that do.
# - A run's ITL is (last - first token's time) / (`new_tokens` - 1); with one token it is `None`. The result is the median of
#   each number by itself; of an even number of runs, half-way between the middle two.
# - `repeats` below 1 or `warm_up` below 0: `ValueError`, before anything is queued.


# %% exercise="7.7"
def time_generation(device, warm_up, repeats):
    """Returns: (ttft, itl) in seconds, medians over `repeats` runs.

    device.clock(): seconds, since whenever. device.prefill(), device.decode(): queue work and return at once.
    device.synchronize(): waits until all of it is done.
    device.new_tokens: tokens of one run: prefill makes the first, each decode one more.
    """
    ### BEGIN SOLUTION
    if repeats < 1 or warm_up < 0:
        raise ValueError(f"repeats must be at least 1 and warm_up at least 0, got {repeats} and {warm_up}")
    ttfts, itls, gaps = [], [], device.new_tokens - 1
    for run in range(-warm_up, repeats):
        device.synchronize()
        began = device.clock()
        device.prefill()
        device.synchronize()
        first = device.clock()
        for _ in range(gaps):
            device.decode()
        device.synchronize()
        last = device.clock()
        if run >= 0:
            ttfts.append(first - began)
            itls.append((last - first) / gaps if gaps else None)
    return statistics.median(ttfts), statistics.median(itls) if gaps else None
    ### END SOLUTION


# %% check="7.7"

# %% [markdown] hints="7.7"
#

# %% [markdown]
# ## Laboratory: a real GPU
#
# On a GPU a decode step waits for memory, so half the bytes can be half the time, if no copy is made: the **kernel** (GPU
# program) in `kvlib/gpu/kernel.py` follows lesson 06's block table and turns FP8 into floats where it multiplies them.
# Nothing here is graded. What is this machine, and how will it attend?

# %% tags=["nbval-ignore-output"]
from kvlib.gpu.capability import choose, detect

machine = detect()
choice = choose(machine)
print(f"runs on {choice.device}; attention by {choice.attention}; 16 bits: {choice.dtype}; FP8 read: {choice.fp8}")
for reason in choice.why:
    print("-", reason)

# %% [markdown]
# *Your guess:* how many times smaller is the FP8 cache, scales included? How many times faster is a step? The next cell
# first compares this machine's way with float64, then measures.

# %% tags=["nbval-ignore-output"]
from kvlib.gpu.lab import laboratory, table

rows = laboratory()
print(table(rows))
for row in rows:
    if row.fp8 is None or row.sixteen_bit is None:
        print(f"skipped: {row.part}, {row.context} tokens: {row.note}")
if choice.device == "cpu":
    print("\nThere are no GPU results here: no GPU can be used, and the course ships no measured ones.")
    print("Where there is one: python tests/gpu/measure.py, under five minutes.")
    print("Without: python -m kvlib.gpu.interpret, which shows that the kernel is right, not how fast.")

# %% [markdown]
# On a CPU, FP8 is *slower*: PyTorch makes a float copy of every row first. A GPU without the kernel does the same. Fewer
# bytes save time only where nobody writes them out again.

# %% [markdown]
# ## Explain
#
# 1. A cache in FP8 is half as large. Give two reasons why a decode step is not twice as fast.
# 2. A model needs no FP8 scales today. What may change that without changing one of its answers?
#
# *Write here, in your own words. Nobody grades it.*

# %% [markdown]
# ## Recall
#
# **Tomorrow:** the largest number of E4M3, and what becomes of 500.
#
# **Next week:** four bits for each number, one scale of 16 bits for each 32. How many bits does a number take?
