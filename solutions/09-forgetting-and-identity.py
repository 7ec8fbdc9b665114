# %% [markdown]
# # 09 · Forgetting, and whose cache it is
#
# **At the end of this lesson you can claim:** *I keep a cache at a fixed size by forgetting, I can show what the model
# cannot do any more while its perplexity says nothing, and I never serve rows that were made for somebody else.*
#
# You need lessons 05 to 07. It takes three hours; the first check turns green within fifteen minutes.
#
# **Letters.** `T` new tokens, `S` tokens held, `n` kept, `H` query heads, `Hkv` KV heads, `D` head dim.
#
# ## Predict
#
# A cache keeps the newest 64 tokens of 200. How much worse does the model guess what comes next? And what was named 80 tokens
# ago?
#
# *Your guess:* ...

# %%
import torch

from autograde import check, mine_or, passed

torch.set_printoptions(precision=3, sci_mode=False)
torch.set_num_threads(1)  # small tensors: more threads would only wait for each other

# %% [markdown]
# ## The first and the last
#
# A window keeps the newest tokens. But trained models look at the very *first* tokens again and again, whatever these say:
# they are **sinks**, and a window pushes them out. So keep both.
#
# With 2 sinks and a window of 3, ten tokens leave positions 0, 1 and 7, 8, 9. Nothing is renumbered: the next token stands at
# position 10, though five rows are held, and no key is turned again.

# %% [markdown] card="9.1"
# **Shapes:** `k`, `v` are `(Hkv, T, D)` in float64, any `T` from 1 on; `positions` is int64 `(n,)`.
#
# - Each layer keeps positions 0 to `sinks - 1` and the last `window`, the newest among them. `sinks` may be 0.
# - `append` returns just these rows, each once, in any order, with their positions: what the *newest* of the T tokens sees.
#   (The chunk's earlier queries would need rows that have gone; here only the newest reads.)
# - `length`, an attribute or a property: tokens seen, gone or not. Only `advance` moves it.
# - Between passes no layer holds more than `sinks + window` rows. A slice keeps the whole tensor behind it alive:
#   `.clone()` it. The caller reuses its tensors.


# %% exercise="9.1"
class SinkCache:
    """The first and the last rows of one sequence, in every layer.

    A pass calls append once for each layer, from layer 0 on, then advance(T) once.
    """

    def __init__(self, num_layers, num_kv_heads, head_dim, sinks, window):
        ### BEGIN SOLUTION
        self.sinks, self.window, self.length = sinks, window, 0
        empty = torch.zeros(2, num_kv_heads, 0, head_dim, dtype=torch.float64)
        self.rows = [empty] * num_layers  # of each layer (2, Hkv, n, D)
        self.positions = [torch.zeros(0, dtype=torch.int64)] * num_layers
        ### END SOLUTION

    def append(self, layer, k, v):
        """Returns: (K, V, positions), (Hkv, n, D) twice and (n,).

        Keys come turned to their absolute positions, and stay as they are.
        """
        ### BEGIN SOLUTION
        new = torch.arange(self.length, self.length + k.shape[1])
        rows = torch.cat([self.rows[layer], torch.stack([k, v])], dim=2)
        positions = torch.cat([self.positions[layer], new])
        stay = (positions < self.sinks) | (positions > new[-1] - self.window)
        self.rows[layer], self.positions[layer] = rows[:, :, stay], positions[stay]  # a mask copies
        return *self.rows[layer], self.positions[layer]
        ### END SOLUTION

    def advance(self, num_tokens):
        """Count the tokens that every layer has now."""
        ### BEGIN SOLUTION
        self.length += num_tokens
        ### END SOLUTION


# %% check="9.1"

# %% [markdown] hints="9.1"
#

# %% [markdown]
# ## Experiment: the needle
#
# A tiny trained model reads chains of symbols, `a` to `x`, each with three possible successors. In between stand
# **needles**: a key, `A` to `L`, and its value, another one in each text. The last letter asks for one:

# %%
from kvlib.needles import sample_questions, sample_texts, spelled
from kvlib.tiny_model import load_tiny

model = load_tiny(torch.float64)
texts = sample_texts(20, 257, torch.Generator().manual_seed(5), share=0.1).tokens  # every tenth pair is a needle
questions, answers = sample_questions(100, 200, 80, torch.Generator().manual_seed(3), share=0.1)
print(spelled(questions[0]))
print("named 80 tokens ago:", spelled(questions[0, -81:-79]), " wanted:", spelled(answers[:1]))

# %% [markdown]
# Five ways to keep 200 tokens: perplexity on whole texts, and how many of 100 such questions are answered. Guessing gives 4.
#
# *Your guess:* which lines differ in the last column ...

# %%
from kvlib.forgetting import everything, forgetful_logits, found, logits_with, paged_logits, window
from kvlib.fp8 import from_fp8, scales, to_fp8
from kvlib.paged_layers import PagedLayers
from kvlib.stored import perplexity, stored_logits

c = model.config
row = 2 * c.num_layers * c.num_kv_heads * c.head_dim * 4  # bytes of a token in float32, all layers
fp8_row = row // 4 + 2 * c.num_layers * c.num_kv_heads * 4  # one byte for each number, and the scales


def paged(tokens):
    num_blocks = len(tokens) * -(-tokens.shape[1] // 16)
    sizes = c.num_layers, num_blocks, 16, c.num_kv_heads, c.head_dim
    return paged_logits(model, tokens, PagedLayers(*sizes, dtype=torch.float64))


def through_fp8(x):
    return from_fp8(to_fp8(x, scales(x, "token")), scales(x, "token"))


ways = {
    "everything": (200 * row, lambda tokens: forgetful_logits(model, tokens)),
    "everything, in blocks": (208 * row, paged),
    "everything, in FP8": (200 * fp8_row, lambda tokens: stored_logits(model, tokens, through_fp8)),
    "the last 64": (64 * row, lambda tokens: forgetful_logits(model, tokens, window(64))),
    "4 sinks, the last 60": (64 * row, lambda tokens: forgetful_logits(model, tokens, window(60, sinks=4))),
}
print("kept                      bytes  perplexity  found")
for name, (size, say) in ways.items():
    print(f"{name:<22} {size:>8,} {perplexity(say(texts), texts):>11.2f} {found(say(questions), answers):>6.0%}")

# %% [markdown]
# FP8 and the window take about as many bytes. One rounds everything and loses nothing; the other loses what it dropped.
# Perplexity hides it: few tokens need a look back. **Judge a cache that forgets by what must be found.**
#
# And rounding? It asks for scales. Rescaled as in 7.6, with keys 1,024 times as large, the model says the same, bit for bit:

# %%
from kvlib.rescale import rescale_model

larger = rescale_model(model, key_power=10, value_power=0)
print("the same logits:", torch.equal(larger.logits(questions), model.logits(questions)))
one = torch.ones(1, 1, 1, 1, dtype=torch.float64)
stores = {"no scales": lambda x: from_fp8(to_fp8(x, one), one), "a scale for each token": through_fp8}
print("in FP8                 as trained  larger keys")
for name, store in stores.items():
    shares = (found(stored_logits(other, questions, store), answers) for other in (model, larger))
    print("{:<22} {:>10.0%} {:>12.0%}".format(name, *shares))

# %% [markdown]
# Now yours, with sinks and a window:

# %%
from kvlib import sink_cache

Cache = mine_or("9.1", sink_cache.SinkCache)
for gap in (40, 80):
    tokens, wanted = (part[0] for part in sample_questions(1, 200, gap, torch.Generator().manual_seed(2)))
    logits = logits_with(model, tokens, Cache(c.num_layers, c.num_kv_heads, c.head_dim, 4, 60))
    masked = forgetful_logits(model, tokens[None], window(60, sinks=4))[0]
    print(f"named {gap} tokens ago: wanted {spelled(wanted[None])}, said {spelled(logits[-1:].argmax(-1))};", end=" ")
    print("all logits as with a mask:", bool((logits - masked).abs().max() < 1e-9))

# %% [markdown]
# ## Experiment: why sinks
#
# SmolLM2, a real model, reads a story with windows of 64 and 256.
#
# *Your guess:* what is the first token worth beside 64 others ...

# %% tags=["nbval-ignore-output"]
from kvlib.forgetting import mass_on_first
from kvlib.plots_forgetting import draw_sinks
from kvlib.smollm2 import NoModel, load_model, load_tokenizer, long_sample_text


def story_perplexity(policy):
    return perplexity(forgetful_logits(real, story, policy, start=288), story[:, 288:])


picture = None
try:
    real, story = load_model(), torch.tensor([load_tokenizer().encode(long_sample_text()).ids[:512]])
    table = {size: {sinks: story_perplexity(window(size, sinks)) for sinks in (0, 1, 4)} for size in (64, 256)}
    picture = draw_sinks(story_perplexity(everything), table, mass_on_first(real, story, start=288))
except NoModel as reason:
    print(f"{reason}\nWithout it there is nothing to see here: a random model has no sinks. Go on below.")
picture

# %% [markdown]
# One sink mends most of it. Weights sum to 1: a head with nothing to look for puts them somewhere, and all queries have
# always seen token 0. Without it, its share goes to tokens that mean something. Sinks keep a model *going*; they do not help
# it remember.

# %% [markdown]
# ## Where do the survivors stand?
#
# Late in a long text the newest token stands farther out than any in training, though few rows are kept. Some caches
# therefore **renumber** them, 0 to n - 1, and the newest query stands at n - 1. That gives other numbers than absolute
# positions: choose one of the two, for queries and keys alike.
#
# The keys are turned already, and nobody kept them as they were. But two turns in a row are one turn by their sum:

# %%
from kvlib.rope import rope

key = torch.tensor([[1.0, 0.0]], dtype=torch.float64)  # one pair, never turned
at_3 = rope(key, torch.tensor([3]), 100.0)
print("by 3, then by 4", rope(at_3, torch.tensor([4]), 100.0))
print("by 7           ", rope(key, torch.tensor([7]), 100.0))

# %% [markdown] card="9.2"
# **Shapes:** `k` is `(Hkv, S, D)` in float64, `old`, `new` are int64 `(S,)`; the result is a new tensor of the shape of `k`.
#
# - Key `s` of each head is turned to position `old[s]`. Return it as if it had been turned to `new[s]` at once.
# - Positions have gaps, come in any order and have no end. Nothing that is passed in may change.


# %% exercise="9.2"
def move_keys(k, old, new, base):
    """Turned keys, moved to other positions.

    Pairs are (i, i + D/2), as in lesson 05. Its rope(x, positions, base) is there: x (..., S, D).
    """
    ### BEGIN SOLUTION
    return rope(k, new - old, base)
    ### END SOLUTION


# %% check="9.2"

# %% [markdown] hints="9.2"
#

# %% [markdown]
# ## Experiment: four times as long as in training
#
# The tiny model was trained on up to 257 tokens. Here are 1,025, and the perplexity from 512 on where nothing is looked up.
#
# *Your guess:* who does worst ...

# %%
from kvlib import move_keys as moving
from kvlib.forgetting import perplexity_at
from kvlib.needles import CHAIN

move = mine_or("9.2", moving.move_keys)
long = sample_texts(1, 1025, torch.Generator().manual_seed(1))
late = (long.kinds == CHAIN) & (torch.arange(1025) >= 512)


def streamed(move):
    cache = sink_cache.SinkCache(c.num_layers, c.num_kv_heads, c.head_dim, 4, 60)
    return logits_with(model, long.tokens[0], cache, move)[None]


for name, logits in (
    ("everything", forgetful_logits(model, long.tokens)),
    ("4 + 60, as they were", streamed(None)),
    ("4 + 60, numbered anew", streamed(move)),
):
    print(f"{name:<22} {perplexity_at(logits, long.tokens, late):.2f}")

# %% [markdown]
# Everything does worst: most distances never occurred in training. In the second line only the sinks are too far away.

# %% [markdown]
# ## What was looked at stays
#
# Sinks and windows go by age. Another idea goes by use: add up the attention that each row got, and let the least wanted go.
# New rows had no time to be looked at, so the newest few are safe.
#
# Budget 3, the newest token safe: of four rows with totals 1.9, **0.3**, 1.2 and 0.2, row 1 goes. Past attention is a guess
# about the future.

# %% [markdown] card="9.3"
# **Shapes:** `q` is `(H, T, D)`, `k`, `v` are `(Hkv, T, D)`, in float64; the result is `(H, T, D)`. Any `T` from 1 on.
#
# - **Attend** to all that the KV head holds, and in the chunk up to oneself, however long the chunk is.
# - **Count**: for each row it holds, the new ones too, a KV head adds the weights from all T queries of all heads of its
#   group. Totals are plain sums.
# - **Forget**: each KV head by itself lets rows go until `budget` are left; never one of the `recent` newest tokens (0 to
#   `budget` of them), of the others the one with the smallest total. There are no ties.
# - Between steps it holds at most twice what `budget` rows take. The caller reuses its tensors.


# %% exercise="9.3"
class HeavyHitters:
    """A budget of rows for each KV head of one layer, for one sequence.

    Heads are grouped as in lesson 04; scores are divided by sqrt(D).
    """

    def __init__(self, num_kv_heads, head_dim, budget, recent):
        ### BEGIN SOLUTION
        self.budget, self.recent, self.seen = budget, recent, 0
        self.rows = torch.zeros(2, num_kv_heads, 0, head_dim, dtype=torch.float64)
        self.totals = torch.zeros(num_kv_heads, 0, dtype=torch.float64)
        self.places = torch.zeros(num_kv_heads, 0, dtype=torch.int64)
        ### END SOLUTION

    def positions(self, head):
        """Positions in the whole text that this KV head holds: a list, increasing, [] at first."""
        ### BEGIN SOLUTION
        return self.places[head].tolist()
        ### END SOLUTION

    def step(self, q, k, v):
        """Attend, count, forget.  Returns: (H, T, D)."""
        ### BEGIN SOLUTION
        (H, T, D), Hkv = q.shape, k.shape[0]
        rows = torch.cat([self.rows, torch.stack([k, v])], dim=2)  # (2, Hkv, n, D)
        n = rows.shape[2]
        new = torch.arange(self.seen, self.seen + T)
        places = torch.cat([self.places, new.expand(Hkv, T)], dim=1)  # (Hkv, n)
        visible = torch.arange(n) <= torch.arange(n - T, n)[:, None]  # (T, n)
        groups = q.reshape(Hkv, H // Hkv, T, D)  # (Hkv, G, T, D)
        scores = groups @ rows[0].unsqueeze(1).transpose(2, 3) / D**0.5  # (Hkv, G, T, n)
        weights = scores.masked_fill(~visible, -torch.inf).softmax(dim=-1)
        out = (weights @ rows[1].unsqueeze(1)).reshape(H, T, D)  # (H, T, D)
        totals = torch.cat([self.totals, self.totals.new_zeros(Hkv, T)], dim=1) + weights.sum(dim=(1, 2))
        safe = totals.clone()
        safe[:, n - min(self.recent, n) :] = torch.inf
        stay = safe.topk(min(self.budget, n), dim=1).indices.sort(dim=1).values  # (Hkv, m)
        self.rows = rows.gather(2, stay[None, :, :, None].expand(2, -1, -1, D))  # (2, Hkv, m, D)
        self.totals, self.places = totals.gather(1, stay), places.gather(1, stay)
        self.seen += T
        return out
        ### END SOLUTION


# %% check="9.3"

# %% [markdown] hints="9.3"
#

# %% [markdown]
# ## Experiment: what it keeps
#
# A budget of 64, the newest 32 safe, and the first question again.

# %% tags=["nbval-ignore-output"]
from kvlib import heavy_hitters as hitting
from kvlib.forgetting import heavy_hitters, logits_by_layer
from kvlib.plots_forgetting import draw_kept, draw_needles

Hitters = mine_or("9.3", hitting.HeavyHitters)
layers = [Hitters(c.num_kv_heads, c.head_dim, 64, 32) for _ in range(c.num_layers)]
logits = logits_by_layer(model, questions[0], layers)
print(f"wanted {spelled(answers[:1])}, said {spelled(logits[-1:].argmax(-1))}")
kept = {"the last 64": range(136, 200), "4 sinks, the last 60": [*range(4), *range(140, 200)]}
kept |= {f"hitters, layer {i}, head {h}": layers[i].positions(h) for i in (0, 1) for h in (0, 1)}
draw_kept(kept, 200, marked=120)

# %% [markdown]
# Each head keeps others, and more old rows than young ones: they had more time to be looked at. All policies together:

# %% tags=["nbval-ignore-output"]
policies = {"everything": everything, "the last 64": window(64), "4 sinks, the last 60": window(60, sinks=4)}
policies["heavy hitters"] = heavy_hitters(64, recent=32)
shares = {name: {} for name in policies}
for gap in (10, 30, 34, 58, 62, 64, 66, 100):
    asked, wanted = sample_questions(50, 160, gap, torch.Generator().manual_seed(gap))
    for name, policy in policies.items():
        shares[name][gap] = found(forgetful_logits(model, asked, policy), wanted)
draw_needles(shares, chance=1 / 24)

# %% [markdown]
# Three cliffs, each where the newest rows end. A needle gets little attention until it is asked for, and that is too late.

# %% [markdown]
# ## Whose cache is it?
#
# A held cache saves the work of a prompt that begins alike. But a row is what *these weights*, with *this adapter*, made of
# *these tokens at these positions*. Change one, and shapes fit, logits come, and they are wrong.
#
# Temperature and seed enter no row. They choose among logits. The tenant enters none either, but belongs to the question:
# an answer that comes faster tells what somebody else has asked.
#
# One token is always left to compute: a cache holds rows, not logits.

# %% [markdown] card="9.4"
# `held` and `wanted` are dicts. `"tokens"` is a list of whole numbers, of which `wanted` has at least one.
#
# - The identity: `"weights"`, `"adapter"`, `"tokenizer"`, `"template"`, `"tenant"`, `"positions"` (how they are turned). One
#   of them differs: 0. Values are compared as they are; the adapter None is one of them.
# - A field of the identity that one of the two lacks differs, from None too. One that both lack does not.
# - All other fields have no influence.
# - The same identity: the number of leading tokens that are the same, but at most all of `wanted` but one.


# %% exercise="9.4"
def reusable(held, wanted):
    """How many leading tokens of `wanted` need not be computed, given the cache of `held`. Neither dict changes."""
    ### BEGIN SOLUTION
    for name in ("weights", "adapter", "tokenizer", "template", "tenant", "positions"):
        if (name in held) != (name in wanted) or held.get(name) != wanted.get(name):
            return 0
    have, want = held["tokens"], wanted["tokens"]
    n = 0
    while n < len(have) and n < len(want) - 1 and have[n] == want[n]:
        n += 1
    return n
    ### END SOLUTION


# %% check="9.4"

# %% [markdown] hints="9.4"
#

# %% [markdown]
# ## An adapter makes other rows
#
# A LoRA adapter adds a thin product to weights: `W + B @ A`, where `A` has a few rows and `B` as many columns. May an adapter
# use the rows that the base model made of a prompt?

# %%
from kvlib.generate import forward
from kvlib.gqa_cache import GQACache
from kvlib.lora import random_adapter, with_adapter
from kvlib.transformer import Transformer, TransformerConfig

config = TransformerConfig(num_layers=3, width=48, num_heads=6, num_kv_heads=2, head_dim=8, hidden=96, vocab_size=50)
generator = torch.Generator().manual_seed(9)
base = Transformer.random(config, generator, torch.float64)
adapter = random_adapter(config, 4, generator, dtype=torch.float64)
tuned = with_adapter(base, adapter)
prompts = torch.randint(config.vocab_size, (20, 24), generator=generator)  # 20 prompts of 24 tokens
share = adapter.num_parameters / sum(weight.numel() for weight in base.weights.values())
print(f"the adapter has {adapter.num_parameters:,} numbers, {share:.0%} of the model's")


def held_by(model, tokens):
    """A cache with the rows that this model makes of the tokens."""
    cache = GQACache(3, len(tokens), 2, tokens.shape[1] + 1, 8, torch.float64)
    forward(model, cache, tokens)
    return cache


def last_logits(model, cache):
    """The last token's logits, (20, vocab), behind what a cache holds."""
    return forward(model, cache, prompts[:, -1:])[:, -1]


right = tuned.logits(prompts)[:, -1]
print("rows of          largest logit error   other best token")
for name, model in (("the adapter", tuned), ("the base model", base)):
    logits = last_logits(tuned, held_by(model, prompts[:, :-1]))
    other = (logits.argmax(-1) != right.argmax(-1)).sum().item()
    print(f"{name:<16} {(logits - right).abs().max():>18.1e} {other:>13} of 20")

# %% [markdown]
# Every shape fits, no number is NaN, and nobody says anything. The logits are those of neither model.
# Which layers' rows change when an adapter touches one kind of weight only?


# %%
def rows_of(model):
    """Keys and values of all prompts but their last tokens, (2, L, B, Hkv, S, D)."""
    return held_by(model, prompts[:, :-1]).buffer[:, :, :, :, :-1]  # the last slot is free


print("what the adapter touches          rows that change in   logit error with the base's rows")
for touched in (["0.q"], ["1.down"], ["2.k"], ["2.q"], ["2.o"], ["2.gate", "2.up", "2.down"]):
    model = with_adapter(base, random_adapter(config, 4, generator, touched, dtype=torch.float64))
    changed = rows_of(model) != rows_of(base)
    layers = [layer for layer in range(3) if changed[:, layer].any()]
    error = (last_logits(model, held_by(base, prompts[:, :-1])) - model.logits(prompts)[:, -1]).abs().max()
    print(f"{', '.join(touched):<33} layers {layers!s:<14} {error:>20.1e}")

# %% [markdown]
# A change in layer i moves the rows of the layers behind it, and of layer i itself only through `k` and `v`. What comes
# after the last layer's keys and values changes no row at all: there the base model's cache is exact. The safe
# key is still the adapter's name and version.

# %% [markdown]
# ## One server, many adapters
#
# So each adapter computes a shared prompt itself, once. A name is not enough: an adapter is trained on and uploaded again
# under its old name. The server tells a **version**, a text that changes then. Say `poet` at v1 has answered `[5, 6]`. The
# prompt `[5, 6, 7]` needs one token of `poet` at v1, three of `judge`, and three of `poet` at v2.

# %% [markdown] card="9.5"
# `server` has three methods. A **KV** is a whole number, 0 among them, that names the rows of some tokens.
#
# - `version(adapter)`: a text. Two adapters may have the same. `""` is the model without an adapter; it has versions too.
# - `compute(adapter, tokens, after)`: the KV of at least one token, behind those of the KV `after`; None = behind nothing.
#   `after` stays as it was, and may be continued again.
# - `logits(adapter, kv)`: an array, the logits of the token that follows. Those of a KV that other weights made are wrong,
#   and nobody says so.
#
# A KV may be used for prompts that begin with all of its tokens, by the same adapter in the same version. For each prompt,
# compute as few tokens as the KVs of earlier prompts allow, in one call of `compute`, or none.


# %% exercise="9.5"
class AdapterCache:
    """Answers prompts for many adapters."""

    def __init__(self, server):
        ### BEGIN SOLUTION
        self.server = server
        self.kvs = {}
        ### END SOLUTION

    def answer(self, adapter, tokens):
        """Returns: the logits of the token that follows.

        adapter: a name, any text. tokens: a list of at least one. The caller goes on with it: it stays as it is.
        """
        ### BEGIN SOLUTION
        made = self.kvs.setdefault((adapter, self.server.version(adapter)), {})
        n = len(tokens)
        while n > 0 and tuple(tokens[:n]) not in made:
            n -= 1
        if n < len(tokens):
            made[tuple(tokens)] = self.server.compute(adapter, tokens[n:], made.get(tuple(tokens[:n])))
        return self.server.logits(adapter, made[tuple(tokens)])
        ### END SOLUTION


# %% check="9.5"

# %% [markdown] hints="9.5"
#

# %% [markdown]
# ## Explain
#
# 1. A vendor says: "We keep a quarter of the cache, and perplexity rises by 0.3%." What do you ask?
# 2. Paging, FP8, a window, another adapter's rows: which can change an answer, in silence?
#
# *Write here, in your own words. Nobody grades it.*

# %% [markdown]
# ## Recall
#
# **Tomorrow:** 4 sinks, a window of 60, 1,000 tokens seen. Which rows are kept, and what is the next token's position?
#
# **Next week:** two requests begin with the same 100 tokens. What forbids sharing their rows, and what does not?
