# %% [markdown]
# # 10 · A real model
#
# **At the end of this lesson you can claim:** *I read the weights of a real model, give it a cache of my own, prove
# that no answer moves, and know what a decode step costs with and without it.*
#
# You need lessons 04 and 05. It takes two hours; the first check turns green within fifteen minutes. The model is
# SmolLM2, 135 million parameters, installed as in lesson 07. Without it a small random one stands in.
#
# **Letters.** `B` sequences, `T` new tokens, `S` tokens held, `Hkv` KV heads, `D` head dim.
#
# ## Predict
#
# The model has read 256 tokens and writes 32, once with a cache and once without. In how many of the 32 steps is the
# best token the same? And after 2,048 tokens, how many times longer does a step take without a cache?
#
# *Your guess:* ...

# %%
import torch

from autograde import check, mine_or, passed

torch.set_printoptions(precision=3, sci_mode=False)
torch.set_num_threads(1)  # small tensors: more threads would only wait for each other

# %% [markdown]
# ## A file is not yet a model
#
# A file of weights holds tables of numbers, and a few words on how they are meant. What it does not say, you have to
# know. Where you are wrong, nothing fails: the shapes fit, and the text reads well.

# %% [markdown]
# ## The order of the rows
#
# A query is a row of numbers, and each number comes from one row of the weight `q`. Rotary code turns numbers in pairs, and
# there are two habits: neighbours `(2i, 2i + 1)`, or halves `(i, i + D/2)` as in lesson 05. A checkpoint is made for one of
# them. With the other nothing fails, every shape fits, and the model talks fluent nonsense.
#
# The files of this lesson's model keep neighbours. One head of six rows, `0 1 | 2 3 | 4 5`, must become `0 2 4 | 1 3 5`. Values
# are not turned, so `v` stays as it is.

# %% [markdown] card="10.1"
# **Shapes:** `weight` is `(heads * D, width)`, as `nn.Linear` keeps it; the result is a new tensor of its shape.
#
# - In each head, row `2i` goes to row `i`, and row `2i + 1` to row `i + D/2`, where `D` is `head_dim`. Rows stay in their head,
#   columns where they are.
# - Rows that `head_dim` does not divide, and an odd `head_dim`, are a `ValueError`. The weight itself stays as it is.


# %% exercise="10.1"
def half_split(weight, head_dim):
    """Rows of q or k, from pairs of neighbours to halves.

    >>> half_split(torch.tensor([[0.0], [1.0], [2.0], [3.0]]), 4).T
    tensor([[0., 2., 1., 3.]])
    """
    ### BEGIN SOLUTION
    rows, width = weight.shape
    if head_dim % 2 or rows % head_dim:
        raise ValueError(f"{rows} rows do not make heads of {head_dim} rows, an even number")
    pairs = weight.reshape(rows // head_dim, head_dim // 2, 2, width)  # (heads, D/2, 2, width)
    return pairs.transpose(1, 2).reshape(rows, width)  # (heads * D, width)
    ### END SOLUTION


# %% check="10.1"

# %% [markdown] hints="10.1"
#

# %% [markdown]
# Read the file both ways, with your function and without it, and let both models go on with the same words:

# %% tags=["nbval-ignore-output"]
from kvlib import smollm2
from kvlib.generate import forward, greedy
from kvlib.gqa_cache import GQACache
from kvlib.transformer import Transformer, TransformerConfig

split = mine_or("10.1", smollm2.half_split)
try:
    model, tokenizer, file = smollm2.load_model(), smollm2.load_tokenizer(), smollm2.open_model()
    ids = tokenizer.encode(smollm2.long_sample_text()).ids
except smollm2.NoModel as reason:
    print(f"{reason}\nUntil then a small random model stands in. It writes no text: some cells have nothing to show.")
    config = TransformerConfig(4, 64, 6, 2, 16, 128, 97)
    model, tokenizer = Transformer.random(config, torch.Generator().manual_seed(0)), None
    ids = torch.randint(97, (1200,), generator=torch.Generator().manual_seed(1)).tolist()
c = model.config


def read_with(change):
    """The model, with the rows of q and k as `change` makes them of the file's."""
    weights = dict(model.weights)
    for layer in range(c.num_layers):
        for name in ("q", "k"):
            rows = torch.from_numpy(file.tensor(f"blk.{layer}.attn_{name}.weight"))
            weights[f"{layer}.{name}"] = change(rows, c.head_dim)
    return Transformer(c, weights)


def go_on(model, text, new):
    tokens = torch.tensor([tokenizer.encode(text).ids])
    cache = GQACache(c.num_layers, 1, c.num_kv_heads, tokens.shape[1] + new, c.head_dim)
    return tokenizer.decode(greedy(model, tokens, new, cache).tokens[0].tolist())


if tokenizer is not None:
    begin = "Once upon a time there was a little girl named"
    print("as the file has them:", go_on(read_with(lambda rows, head_dim: rows), begin, 24))
    print("in halves:           ", go_on(read_with(split), begin, 24))

# %% [markdown]
# Both are English. Only one is the model that was trained. A wrong pairing turns every key by wrong angles, so the
# model hardly knows where its words stand. Reading the output does not find this. A question with a known answer may;
# comparing logits with another program's does.

# %% [markdown]
# ## A layer that others can use
#
# Hugging Face Transformers keeps one object for each layer and asks it by certain names. Whoever has these methods can
# be a cache there. The names are theirs, and so are two surprises: `update` counts its tokens itself, and `crop` takes
# a number *below* zero. `crop(-2)` after `a b c d e` leaves `a b c`.
#
# Beams make it worse. A search over several continuations forks the good ones and drops the others at every step, and
# each must find the rows of its own past: `reorder_cache([1, 1])` lets both sequences go on from what sequence 1 held.

# %% [markdown] card="10.2"
# - The first `update` fixes B, Hkv, both D, the dtypes, and makes memory for `max_len` tokens: B * Hkv * `max_len` * (D
#   of `k` + D of `v`) elements and nothing else. Later ones copy the new rows only, so what comes back are views.
# - `ValueError`, and nothing changes: no room for all T tokens, another shape or dtype, k and v that disagree in B, Hkv
#   or T, `crop` above 0. A refused first `update` fixes nothing.
# - `crop` of more than is held leaves none. The sizes stay fixed.
# - Whatever moves sequences moves K and V, and the memory is then that of the new B. While nothing is held, it does
#   nothing. `rows` are tensors of int64, `n` is a number.
# - After `reset` the layer is as new. The caller's tensors stay as they are, and are used again.


# %% exercise="10.2"
class CacheLayer:
    """The keys and values of up to max_len tokens, for one layer, with the methods of Transformers 5.24."""

    def __init__(self, max_len):
        ### BEGIN SOLUTION
        self.max_len = max_len
        self.reset()
        ### END SOLUTION

    def update(self, k, v, *ignored):
        """Hold T more tokens. k: (B, Hkv, T, D), v: (B, Hkv, T, another D perhaps).

        Returns: (K, V) of all tokens held, the new ones included, (B, Hkv, S + T, D) each.
        """
        ### BEGIN SOLUTION
        if k.shape[:3] != v.shape[:3]:
            raise ValueError(f"k and v differ: {tuple(k.shape)} and {tuple(v.shape)}")
        for rows, held in zip((k, v), self.buffers):
            if rows.shape[:2] != held.shape[:2] or rows.shape[3] != held.shape[3] or rows.dtype != held.dtype:
                raise ValueError(f"holds {tuple(held.shape)} of {held.dtype}, got {tuple(rows.shape)} of {rows.dtype}")
        end = self.used + k.shape[2]
        if end > self.max_len:
            raise ValueError(f"holds {self.used} of {self.max_len} tokens, {k.shape[2]} more asked")
        if not self.buffers:
            self.buffers = [rows.new_empty(*rows.shape[:2], self.max_len, rows.shape[3]) for rows in (k, v)]
        for rows, held in zip((k, v), self.buffers):
            held[:, :, self.used : end] = rows
        self.used = end
        K, V = (held[:, :, :end] for held in self.buffers)
        return K, V
        ### END SOLUTION

    def get_seq_length(self):
        """Tokens held."""
        ### BEGIN SOLUTION
        return self.used
        ### END SOLUTION

    def get_max_length(self):
        """Tokens that there is room for, in use or not."""
        ### BEGIN SOLUTION
        return self.max_len
        ### END SOLUTION

    def get_mask_sizes(self, query_length):
        """Returns: (keys that so many new tokens will find, themselves included; position of the first key, 0)."""
        ### BEGIN SOLUTION
        return self.used + query_length, 0
        ### END SOLUTION

    def crop(self, n):
        """Forget the newest tokens: crop(-2) forgets two, crop(0) none."""
        ### BEGIN SOLUTION
        if n > 0:
            raise ValueError(f"crop takes 0 or a number below, got {n}")
        self.used = max(0, self.used + n)
        ### END SOLUTION

    def reorder_cache(self, rows):
        """Sequence b goes on from what sequence rows[b] held. rows: B of them."""
        ### BEGIN SOLUTION
        self.batch_select_indices(rows)
        ### END SOLUTION

    def batch_repeat_interleave(self, n):
        """Each sequence n times, its copies beside each other: a b becomes a a b b."""
        ### BEGIN SOLUTION
        if self.used:
            self.buffers = [held.repeat_interleave(n, dim=0) for held in self.buffers]
        ### END SOLUTION

    def batch_select_indices(self, rows):
        """Hold only these sequences, in this order."""
        ### BEGIN SOLUTION
        if self.used:
            self.buffers = [held[rows] for held in self.buffers]
        ### END SOLUTION

    def reset(self):
        """As new."""
        ### BEGIN SOLUTION
        self.used, self.buffers = 0, []
        ### END SOLUTION


# %% check="10.2"

# %% [markdown] hints="10.2"
#

# %% [markdown]
# One such object for each layer, behind the interface of lesson 04's cache, and the model runs on them. Does a token
# take what the formula says?

# %% tags=["nbval-ignore-output"]
from kvlib import cache_layer
from kvlib.layer_caches import LayerCaches

Layer = mine_or("10.2", cache_layer.CacheLayer)


def new_cache(max_len):
    return LayerCaches([Layer(max_len) for _ in range(c.num_layers)])


cache = new_cache(300)
forward(model, cache, torch.tensor([ids[:256]]))
formula = 2 * c.num_layers * c.num_kv_heads * c.head_dim * 4  # s = 4, in float32
print(f"{cache.bytes_per_token:,} bytes for each token, by the formula {formula:,}")
weights = sum(weight.nbytes for weight in model.weights.values())
print(f"{len(cache)} tokens: {len(cache) * formula / 1e6:.1f} MB of cache beside {weights / 1e6:.1f} MB of weights")
print(f"as many bytes as the weights after {weights // formula:,} tokens")

# %% [markdown]
# ## In somebody else's house
#
# The same layers under Transformers, where it is installed. This course does not need it. The model is random and
# small. Three beams for each of two sequences: `reorder_cache` is called at every step.

# %% tags=["nbval-ignore-output"]
from tempfile import TemporaryDirectory

from kvlib.hub_model import load_from_hub
from kvlib.transformers_bridge import INSTALL, as_transformers_cache, random_llama, transformers_version

if transformers_version() is None:
    print(f"skipped: Transformers is not installed. To see this part: {INSTALL}")
else:
    llama = random_llama()
    tokens = torch.arange(1, 19).view(2, 9)
    search = {"max_new_tokens": 20, "num_beams": 3, "attention_mask": torch.ones_like(tokens)}
    layers = [Layer(64) for _ in range(llama.config.num_hidden_layers)]
    mine = llama.generate(tokens, cache=as_transformers_cache(layers), **search)
    theirs = llama.generate(tokens, use_cache=False, **search)
    print("the same tokens as without a cache:", torch.equal(mine, theirs))
    with TemporaryDirectory() as folder:
        llama.save_pretrained(folder)  # as the model hub keeps it: config.json and safetensors
        ours = load_from_hub(folder, torch.float64)
    with torch.no_grad():
        difference = (ours.logits(tokens) - llama(tokens, use_cache=False).logits).abs().max()
    print(f"read by kvlib, largest difference of a logit: {difference:.0e}")

# %% [markdown]
# The small difference is Transformers' own: it turns keys in float32, whatever the model's dtype.
#
# `load_from_hub("a/model's-name")` reads any model of the Llama family that you may download. It refuses, by name, what
# kvlib's decoder does not do: scaled rotary positions, biases, a window. Such files need no half-splitting: whoever
# converted them has done it.

# %% [markdown]
# ## Is it the same model?
#
# A cache is right when nobody can tell. So run the model with it and without it, and compare. There are two traps. If
# each run follows its own tokens, they talk about different texts after one difference. And if you look at the best
# token alone, a logit that is far off stays unseen: with `[0.1, 3.0, 9.0]` and `[0.1, 7.0, 9.0]` both say token 2.
#
# So feed both the same tokens, and look at every logit.

# %% [markdown] card="10.3"
# **Shapes:** `model.full(tokens)` gives logits (n, vocab) of n tokens and remembers nothing. `model.cached(tokens)`
# gives (T, vocab) of T tokens that follow those held. `model.start()` makes it forget them: call it first.
#
# - Step 0 is the one that the prompt ends with. `full` gets all tokens so far, once a step. `cached` gets the prompt
#   once, then one token a step.
# - At each step compare the two last rows. Then both go on with the best token of the **full** run. `steps` tokens in
#   all; the last one is fed to nobody.
# - Return a dict. `"same"`: steps with the same best token. `"first"`: the number of the first step that differs, or
#   `None`. `"largest"`: the largest absolute difference of a logit, over all steps.
# - A step with a NaN in either row differs, and makes `"largest"` infinite.


# %% exercise="10.3"
def compare_runs(model, prompt, steps):
    """Hold a run with a cache against one without, both on the same tokens.

    prompt: a list of tokens. steps: 1 or more. Returns: {"same": int, "first": int or None, "largest": float}.
    """
    ### BEGIN SOLUTION
    model.start()
    text, new = list(prompt), list(prompt)
    differing, largest = [], 0.0
    for step in range(steps):
        right, got = model.full(text)[-1], model.cached(new)[-1]  # (vocab,) each
        difference = float((right - got).abs().max())
        lost = difference != difference  # NaN: max() below would let it through
        largest = max(largest, float("inf") if lost else difference)
        best = int(right.argmax())
        if lost or int(got.argmax()) != best:
            differing.append(step)
        new = [best]
        text.append(best)
    return {"same": steps - len(differing), "first": differing[0] if differing else None, "largest": largest}
    ### END SOLUTION


# %% check="10.3"

# %% [markdown] hints="10.3"
#

# %% [markdown]
# Now the real model: 256 tokens of prompt, 32 more. The run without a cache works out all tokens at each of 32 steps,
# so this cell takes half a minute and more.

# %% tags=["nbval-ignore-output"]
from kvlib import compare_runs as compare_runs_module

compare = mine_or("10.3", compare_runs_module.compare_runs)


class TwoWays:
    """The model with a cache and without one, as `compare_runs` asks it. Notes how sure the model is."""

    def __init__(self):
        self.leads, self.spans = [], []

    def full(self, tokens):
        logits = model.logits(torch.as_tensor(tokens).view(1, -1))[0]
        best, second = logits[-1].topk(2).values
        self.leads.append(float(best - second))
        self.spans.append(float(best - logits[-1].min()))
        return logits

    def start(self):
        self.cache = new_cache(300)

    def cached(self, tokens):
        return forward(model, self.cache, torch.as_tensor(tokens).view(1, -1))[0]


ways = TwoWays()
found = compare(ways, ids[:256], 32)
print(f"the same best token in {found['same']} of 32 steps; largest difference of a logit {found['largest']:.0e}")
print(f"the best token led by {min(ways.leads):.1g} or more; the logits of a step span {max(ways.spans):.0f} at most")

# %% [markdown]
# Not zero: sums in another order round otherwise. (For Qwen2.5-1.5B-Instruct, in float32 and after as long a prompt: 32 of
# 32 as well, and at most 5.6e-05 on logits that span 37.) How much is too much? Hold it against the smallest lead that a best
# token had over the second, and against what the logits span. A thousandth is a fair limit for this model in float32.
# One missing row is far beyond it, and yet may leave all best tokens as they were.
#
# ## What a step costs
#
# Thread time on one core, the fastest of three, and the slow way once. A step with a cache reads all weights and all
# rows held. A step without pushes every token through every layer again. On the right, several sequences share one
# reading of the weights.

# %% tags=["nbval-ignore-output"]
from kvlib.plots_real_model import draw_steps, time_batches, time_steps

text = torch.tensor([(ids * 3)[:2049]])
steps = time_steps(model, new_cache, text, (256, 512, 1024, 2048))
batches = time_batches(model, new_cache, text[:, :33].expand(16, -1))
draw_steps(steps, batches)

# %% [markdown]
# With a cache the line is nearly flat: the weights weigh more than these few rows. That is this model at this length;
# lesson 03's crossover says where the cache takes over. And batching divides the weights' share only: each sequence
# brings rows of its own.

# %% [markdown]
# ## No token twice
#
# A chat program hands over the whole conversation at every turn. The model holds `[5, 6, 7, 8]`, and `[5, 6, 7, 8, 9]`
# comes: one new token. Then the user edits a word: `[5, 6, 1, 8]`. Two tokens are still good, and `8` is not one of
# them: its row was made with `7` before it.
#
# The same conversation once more, for another answer: all rows are there, and no logits. One token must be computed.

# %% [markdown] card="10.4"
# `model` belongs to this session alone and holds nothing at first.
#
# - `extend(tokens)`: computes at least one token behind those held, and returns the logits of the last. No room for all
#   of them: `ValueError`, and it holds what it held.
# - `truncate(length)`: only the first `length` tokens stay. `length()`: how many are held.
#
# The session computes only what follows the longest beginning that is held. If all tokens are held, the last one is
# computed again. What no longer belongs to the conversation is cut off.
#
# - No token at all: `ValueError`, before anything changes.
# - The model is full: its `ValueError` comes through. The common beginning stays held, and later turns are answered
#   rightly.


# %% exercise="10.4"
class ChatSession:
    """A conversation with a model that has a cache."""

    def __init__(self, model):
        ### BEGIN SOLUTION
        self.model = model
        self.held = []
        ### END SOLUTION

    def logits(self, tokens):
        """tokens: a list, the whole conversation so far. Returns: the logits after its last token."""
        ### BEGIN SOLUTION
        tokens = list(tokens)
        if not tokens:
            raise ValueError("a conversation has at least one token, got none")
        n = 0
        while n < len(self.held) and n < len(tokens) - 1 and self.held[n] == tokens[n]:
            n += 1
        self.model.truncate(n)
        del self.held[n:]  # extend may refuse: then this is what is held
        logits = self.model.extend(tokens[n:])
        self.held = tokens
        return logits
        ### END SOLUTION


# %% check="10.4"

# %% [markdown] hints="10.4"
#

# %% [markdown]
# A conversation with SmolLM2. Every turn hands over all tokens from the beginning, as chat programs do:

# %% tags=["nbval-ignore-output"]
from kvlib import chat_session

Session = mine_or("10.4", chat_session.ChatSession)


class Held:
    """The model and one cache, as a session asks them. Counts the tokens that were pushed through."""

    def __init__(self):
        self.cache, self.pushed = new_cache(1024), 0

    def extend(self, tokens):
        logits = forward(model, self.cache, torch.as_tensor(tokens).view(1, -1))
        self.pushed += logits.shape[1]
        return logits[0, -1]

    def truncate(self, length):
        self.cache.truncate(length)

    def length(self):
        return len(self.cache)


def answer(talk, words):
    """Ask, and write down what comes, token by token, until the turn ends."""
    talk = talk + tokenizer.encode(f"<|im_start|>user\n{words}<|im_end|>\n<|im_start|>assistant\n").ids
    start, before = len(talk), held.pushed
    while len(talk) < start + 24:
        talk = [*talk, int(session.logits(talk).argmax())]
        if talk[-1] == tokenizer.token_to_id("<|im_end|>"):
            break
    print(f"{words} -> {tokenizer.decode(talk[start:])}")
    print(f"   {held.pushed - before} tokens computed, of {len(talk)} in the conversation")
    return talk


if tokenizer is None:
    print("skipped: the random model has nothing to say")
else:
    held = Held()
    session = Session(held)
    first = answer([], "What is the capital of France?")
    answer(first, "And of Italy?")
    answer(first, "And of Spain?")  # the second question, asked again in other words

# %% [markdown]
# The third question cut off the second turn's rows and kept the first's. Whoever sends the whole conversation anew pays
# for what differs, if somebody on the other side compares.

# %% [markdown]
# ## Explain
#
# 1. All 32 tokens are the same with a cache that lost a row. Why is that possible, and what would have shown it?
# 2. A batch of 16 makes a token cheaper. Why does it help less and less as the conversations get longer?
#
# *Write here, in your own words. Nobody grades it.*

# %% [markdown]
# ## Recall
#
# **Tomorrow:** what does `crop(-3)` do, and what does `crop(3)`?
#
# **Next week:** which rows must follow a beam, and when?
