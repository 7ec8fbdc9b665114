# %% [markdown]
# # 12 · A server
#
# **At the end of this lesson you can claim:** *I run a server: requests come, share blocks, give way and are aborted while
# others go on. Each gets what it gets alone, and I can say what each of them waits for.*
#
# You need lesson 06; for the last experiment the model of lesson 10. It takes four hours, most of them for 12.3: this is the
# course's last and largest exercise. The first check turns green within fifteen minutes.
#
# **Letters.** `T` new tokens of a request, `S` tokens that it holds. **TTFT** is the time from asking to the first token,
# **ITL** the time between two neighbouring tokens.
#
# ## Predict
#
# Ten requests decode on one GPU, a token each every 5 ms. Now one comes with a prompt of 3,000 tokens. How long do the ten
# wait for their next token? And what does it cost to make them wait less?
#
# *Your guess:* ...

# %%
import math

import torch

from autograde import check, mine_or, passed

torch.set_num_threads(1)  # small tensors: more threads would only wait for each other

# %% [markdown]
# ## One step, many requests
#
# Projections and norms look at one token at a time. Only attention must know whose a token is. So one **step**, a forward
# pass, takes whatever tokens there are: the newest of ten answers, and a piece of a prompt beside them. What is such a step's
# time? At least that of reading, or that of calculating, whichever is longer (lesson 03). Llama 3 8B on an H100, ten requests
# that decode at 1,000 tokens each, and a piece of a prompt:

# %%
from kvlib.request_stream import StepCost

cost, decoding = StepCost(), [(1, 1000)] * 10  # (T, S) of each
print(f"they alone: {1000 * cost.seconds(decoding):.1f} ms")
for piece in (64, 256, 512, 1024, 3000):
    seconds = cost.seconds([*decoding, (piece, 0)])
    print(
        f"{piece:>5} tokens of a prompt beside them: {1000 * seconds:>5.1f} ms; 3,000 take {-(-3000 // piece):>2} steps"
    )

# %% [markdown]
# Weights are read once, whoever uses them: up to some 300 tokens a step costs what it costs anyway. A whole prompt of 3,000
# makes everybody wait for 48 ms. In pieces of 256 the newcomer waits 12 steps, 59 ms, and the ten notice nothing. Agrawal et
# al. call this **chunked prefill** with stall-free batches (Sarathi-Serve, 2024).

# %% [markdown]
# ## What a batch saves, and what it does not
#
# Numbers fetched for each multiplication of a decode step, in one layer of width 4,096. Sequences share the matrices; nobody
# shares keys and values.

# %%
from kvlib.counts import moved_per_multiplication

print("tokens held    1 sequence   8 sequences   64 sequences   64, and 8 query heads share a KV head")
for tokens in (16, 512, 4096):
    ways = [moved_per_multiplication(tokens, 4096, batch) for batch in (1, 8, 64)]
    ways.append(moved_per_multiplication(tokens, 4096, 64, kv_share=8))
    print("{:>11,} {:>13.3f} {:>13.3f} {:>14.3f} {:>15.3f}".format(tokens, *ways))

# %% [markdown]
# This is of the order of `n/d + 1/b` for n tokens, width d and b sequences (Shazeer, 2019). Batching takes down the second
# part only; fewer KV heads take down the first.

# %% [markdown]
# ## Luck of one's own
#
# A model gives logits; a random number picks the token. Take that number from one source for the whole batch, and a request
# gets other tokens as soon as somebody else joins. So each request has a seed, and its n-th draw uses number n of that seed.
#
# With probabilities 0.1, 0.2, 0.3, 0.4 the tokens end at 0.1, 0.3, 0.6 and 1. The number 0.45 lies in front of 0.6: token 2.

# %% [markdown] card="12.1"
# - Temperature 0: the best token, the lowest number of those that tie, and no random number is asked for.
# - Else softmax of logits / temperature, over the `top_k` best tokens only (0, or more than there are: all; of those that tie
#   for the last place the lower number stays).
# - Drawn is the first token, *in the order of token numbers*, at which the cumulated probability exceeds the number.
# - Logits may be in the thousands.


# %% exercise="12.1"
class Stream:
    """Draws the tokens of one request, one after the other."""

    def __init__(self, uniform, seed, temperature, top_k):
        """uniform(seed, n): the n-th number of that seed in [0, 1), n = 0, 1, 2, ..."""
        ### BEGIN SOLUTION
        self.uniform, self.seed = uniform, seed
        self.temperature, self.top_k = temperature, top_k
        self.drawn = 0
        ### END SOLUTION

    def draw(self, logits):
        """The next token. logits: a list of floats, one for each token."""
        ### BEGIN SOLUTION
        order = sorted(range(len(logits)), key=lambda token: (-logits[token], token))
        if self.temperature == 0:
            return order[0]
        kept = sorted(order[: self.top_k or None])
        weights = [math.exp((logits[token] - logits[order[0]]) / self.temperature) for token in kept]
        u = self.uniform(self.seed, self.drawn) * sum(weights)
        self.drawn += 1
        total = 0.0
        for token, weight in zip(kept, weights):
            total += weight
            if total > u:
                return token
        return token
        ### END SOLUTION


# %% check="12.1"

# %% [markdown] hints="12.1"
#

# %% [markdown]
# ## What one step computes
#
# A step of 8 tokens costs hardly more than one of 2: the weights are read once either way. So give a step a **budget** of
# tokens. Two requests decode, and a prompt of 20 waits: one token each, and 6 of the prompt. In the next step 6 more. Nobody
# stands still while a long prompt is computed; it is only a few steps later itself.

# %% [markdown] card="12.2"
# - Who decodes comes first, one token each, in order, as far as the budget goes.
# - What is left goes to the prompts in order, to each as much as it can use.
# - An entry has one token at least. Nothing that is passed in changes.


# %% exercise="12.2"
def plan_step(decoding, prefilling, max_tokens):
    """What one step computes: a list of [id, num_tokens], in order, at most max_tokens in all.

    decoding: a list of ids. prefilling: a list of [id, remaining tokens of its prompt].
    """
    ### BEGIN SOLUTION
    plan = [[i, 1] for i in decoding[:max_tokens]]
    left = max_tokens - len(plan)
    for i, remaining in prefilling:
        count = min(remaining, left)
        if count > 0:
            plan.append([i, count])
            left -= count
    return plan
    ### END SOLUTION


# %% check="12.2"

# %% [markdown] hints="12.2"
#

# %% [markdown]
# ## A server
#
# Now all of it together. Requests come and go while others run. They share a pool of blocks and the tokens of each step.
# Where the pool runs dry somebody gives way and resumes later; where a client lets go, its blocks are free at once.
#
# How you decide is up to you. The rules below are all that is checked; the numbers in them are 4 steps and 8 requests.

# %% [markdown] card="12.3"
# - Each request gets the tokens that it gets alone, each of them sent once, within 4 steps of being made; then `"done"`. One
#   whose p + n - 1 tokens can never fit is `"refused"`.
# - Once its abort came: no token, no step, `"aborted"`. An abort may be too late: one that is closed already is ignored.
# - Who is done or aborted is closed and released within 4 steps.
# - Plan no step of more than `max_tokens`. Who decodes is left out of at most 4 steps in a row that compute others' prompts. A
#   prompt that has room (all that are open fit to their ends) waits for at most 4 steps in a row that compute no prompt.
# - At most 8 that asked later are done while one waits for its next token. Let one be safe from giving way.
# - Ask for news every 4 steps at least. Wait only when no request is open.
# - Where all fit nothing is computed twice, and 3 * (the longest n + the chunks of all prompts) steps are enough. Elsewhere 5
#   times the tokens are allowed. What `admit` finds is not computed again.


# %% exercise="12.3"
def run_server(engine, desk):
    """Serve all that come in at the desk, until no more will come.

    engine.num_blocks, engine.block_size; engine.max_tokens: the most tokens of a step.
    engine.free_blocks(): blocks that nobody holds.
    engine.admit(i, tokens): looks for computed blocks with the start of these tokens, and holds them
        for request i. Returns how many tokens they are, always fewer than len(tokens).
    engine.step(work): work is a list of [i, tokens], the next tokens of each, each i once. Takes the
        blocks they need, and returns for each the token that follows. All or nothing: ValueError
        when blocks are missing.
    engine.release(i): gives the blocks of i back, and forgets it. To go on, admit it again.

    desk.wait(): the events since the last call, waiting for the first. [] says: nobody will come again.
    desk.news(): the same without waiting, so it may be empty.
        {"kind": "ask", "id": i, "prompt": [...], "new": n} or {"kind": "abort", "id": i}.
    desk.send(i, token): the next new token. desk.close(i, "done" or "aborted" or "refused").
    """
    ### BEGIN SOLUTION
    waiting, running = [], []  # [id, tokens, number of stored ones, new ones to be made]

    def blocks(count):
        return -(-count // engine.block_size)

    def leave(request, reason):
        if request in running:
            running.remove(request)
            engine.release(request[0])
        else:
            waiting.remove(request)
        desk.close(request[0], reason)

    while True:
        events = desk.news() if waiting or running else desk.wait()
        if not events and not waiting and not running:
            return
        for event in events:
            i = event["id"]
            if event["kind"] == "abort":
                for request in [request for request in waiting + running if request[0] == i]:
                    leave(request, "aborted")
            elif blocks(len(event["prompt"]) + event["new"] - 1) > engine.num_blocks:
                desk.close(i, "refused")
            else:
                waiting.append([i, list(event["prompt"]), 0, event["new"]])

        while waiting:
            promised = sum(blocks(len(tokens) + 1) - blocks(stored) for _, tokens, stored, _ in running)
            if running and promised + blocks(len(waiting[0][1])) > engine.free_blocks():
                break
            running.append(waiting.pop(0))
            running[-1][2] = engine.admit(running[-1][0], running[-1][1])

        while running:
            needs = [[i, len(tokens) - stored] for i, tokens, stored, _ in running]
            plan = plan_step([i for i, need in needs if need == 1], [x for x in needs if x[1] > 1], engine.max_tokens)
            known = {request[0]: request for request in running}
            chunks = [[i, known[i][1][known[i][2] : known[i][2] + count]] for i, count in plan]
            try:
                made = engine.step(chunks)
            except ValueError:  # the newest gives way, and comes next
                waiting.insert(0, running.pop())
                engine.release(waiting[0][0])
                continue
            for (i, chunk), token in zip(chunks, made):
                request = known[i]
                request[2] += len(chunk)
                if request[2] == len(request[1]):  # else it was in the middle of its prompt
                    request[1].append(token)
                    request[3] -= 1
                    desk.send(i, token)
                    if request[3] == 0:
                        leave(request, "done")
            break
    ### END SOLUTION


# %% check="12.3"

# %% [markdown] hints="12.3"
#

# %% [markdown]
# ## Experiment: each as alone
#
# Your server drives a real engine: `kvlib/server_engine.py`, some 200 lines, which read well now. It has a random transformer and
# paged blocks. Twelve requests share two system prompts, draw by your `Stream`, and the pool is small. Some clients let go.
#
# *Your guess:* whose tokens change ...

# %%
from kvlib import server, stream
from kvlib.plots_server import draw_load, draw_storm, draw_timeline
from kvlib.request_stream import ClockedEngine, Desk, arrivals, uniform
from kvlib.server_engine import ServerEngine, alone
from kvlib.service_report import report, table
from kvlib.transformer import Transformer, TransformerConfig

serve_all, Sampling = mine_or("12.3", server.run_server), mine_or("12.1", stream.Stream)
sizes = dict(num_layers=1, width=16, num_heads=2, num_kv_heads=1, head_dim=8, hidden=16, vocab_size=50)
model = Transformer.random(TransformerConfig(**sizes), torch.Generator().manual_seed(12), torch.float64)


def served(asks, num_blocks=2000, max_tokens=256, sampler=None, reuse=True):
    """The desk and the engine after all is done: blocks of 16, on the clock of a large model."""
    desk = Desk(asks)
    engine = ClockedEngine(ServerEngine(model, num_blocks, 16, max_tokens, sampler, reuse), desk)
    serve_all(engine, desk)
    return desk, engine


def sampler(i):
    return Sampling(uniform, seed=i, temperature=0.8, top_k=20)


asks = arrivals(12, rate=60, seed=11, prompt=60, new=50, systems=(96, 64), aborts=0.3)
desk, engine = served(asks, num_blocks=24, max_tokens=64, sampler=sampler)
as_alone = 0
for ask in asks:
    sent = desk.sent[ask.id]  # of one that was aborted, the first tokens only
    as_alone += sent == alone(model, ask.prompt, ask.new, sampler(ask.id))[: len(sent)]
print(f"as alone: {as_alone} of {len(asks)}; {engine.preemptions} preemptions, {engine.reused} tokens found again")
print(*(f"{i} {reason};" for i, reason in sorted(desk.closed.items()) if reason != "done"))
print(f"{engine.free_blocks()} of {engine.num_blocks} blocks free; at most {engine.most_blocks} were in use")
draw_timeline(desk.log)

# %% [markdown]
# A request's tokens depend on its prompt and its seed. Who else is there, when it was preempted, in what pieces its prompt went
# through: none of it shows. Where float32 rounds differently in another batch, a token can change all the same: here all is
# float64.

# %% [markdown]
# ## Experiment: what users wait for
#
# The same forty requests at rising load, with whole prompts (a budget of 8,192 tokens) and in pieces (256). The 95th
# percentile is the waiting that one of twenty exceeds: here by **nearest rank**, so it is one of the times.
#
# *Your guess:* which line rises first ...

# %%
ways = {"whole prompts": 8192, "pieces of 256": 256}
reports = {way: {} for way in ways}
for way, max_tokens in ways.items():
    for rate in (10, 40, 60):
        asks = arrivals(40, rate, seed=1, prompt=600, new=40)
        reports[way][rate] = report(served(asks, max_tokens=max_tokens)[0].log)
draw_load(reports)

# %% [markdown]
# Pieces keep the gaps even, and the price is a later first token. How small should they be? At 40 requests a second:

# %%
budgets = {}
for max_tokens in (64, 256, 1024, 8192):
    desk, _ = served(arrivals(40, 40, seed=1, prompt=600, new=40), max_tokens=max_tokens)
    budgets[f"budget {max_tokens:,}"] = report(desk.log)
print(table(budgets))

# %% [markdown]
# Below the 300 tokens that a step has room for anyway, a smaller budget wastes arithmetic, and everybody queues. And with a
# system prompt of 1,024 tokens that all share?

# %%
asks = arrivals(40, 40, seed=1, prompt=100, new=40, systems=(1024,))
arms = {"blocks found again": True, "all computed": False}
print(table({arm: report(served(asks, reuse=reuse)[0].log) for arm, reuse in arms.items()}))

# %% [markdown]
# ## Experiment: a preemption storm
#
# Short prompts, long answers: requests are admitted on what they hold, and all grow at the same time. The largest needs 27
# blocks. *Your guess:* what is lost with 50 blocks, work or time ...

# %%
asks = arrivals(32, 100, seed=3, prompt=40, new=100)
storm = {num_blocks: report(served(asks, num_blocks=num_blocks)[0].log) for num_blocks in (400, 100, 70, 50)}
print(table({f"{num_blocks} blocks": one for num_blocks, one in storm.items()}))
draw_storm(storm)

# %% [markdown]
# Work done twice is the smaller part. Fewer requests fit, so each step reads all weights for fewer tokens. The middle gap even
# shrinks; the longest tells of those who gave way in the middle of an answer. So **report all three**, TTFT, ITL and
# throughput, and never the middle alone.

# %% [markdown]
# How large should a pool be, then? Ask what is in use at the same time, where there is room for all:

# %%
from kvlib.service_report import percentile

in_use = []


class Watched(ClockedEngine):
    """Notes the blocks in use after each step."""

    def step(self, work):
        tokens = super().step(work)
        in_use.append(self.blocks_in_use)
        return tokens


desk = Desk(asks)
serve_all(Watched(ServerEngine(model, 2000, 16, 256), desk), desk)
pools = {"the mean": sum(in_use) // len(in_use), "the 95th percentile": percentile(in_use, 95), "the most": max(in_use)}
for name, num_blocks in pools.items():
    print(f"{name:<20} {num_blocks:>4} blocks: {report(served(asks, num_blocks)[0].log).preemptions:>3} preemptions")

# %% [markdown]
# The mean protects nobody who grows. Plan for the 95th percentile of what is live, and bound what a request may ask for by
# what the product needs.

# %% [markdown]
# ## Experiment: a real model
#
# SmolLM2 behind your server. Three people ask, one after the other, with one system prompt. Each line is a step, each column
# a request: the text comes as it would come to them. A model says when its turn is over; then the client lets go, and your
# server sees an abort.

# %% tags=["nbval-ignore-output"]
from kvlib.request_stream import Ask
from kvlib.smollm2 import NoModel, load_model, load_tokenizer

SYSTEM = "<|im_start|>system\nYou are a helpful assistant. Answer in one short sentence.<|im_end|>\n"
TURN = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
QUESTIONS = ("What is the capital of Italy?", "Why is the sky blue?", "Name three animals that can fly.")


class Columns:
    """Text as it comes: a column for each request, a line for each step."""

    def __init__(self, decode):
        self.decode, self.line = decode, {}

    def show(self, i, token):
        if i in self.line:  # its next token: a new step
            self.end()
        self.line[i] = self.decode([token])
        if token == END:  # the answer is over: the client lets go
            desk.let_go(i)

    def end(self):
        print("".join(f"{self.line.get(i, ''):<22}" for i in (1, 2, 3)).rstrip())
        self.line = {}


try:
    real, tokenizer = load_model(), load_tokenizer()
except NoModel as reason:
    print(f"SKIPPED, no text will be made: {reason}")
else:
    END = tokenizer.token_to_id("<|im_end|>")
    texts = [SYSTEM + TURN.format(question) for question in QUESTIONS]
    asks = [Ask(i, 0.02 * i, tuple(tokenizer.encode(text).ids), new=30) for i, text in enumerate(texts, start=1)]
    columns = Columns(tokenizer.decode)
    desk = Desk(asks, show=columns.show)
    engine = ClockedEngine(ServerEngine(real, num_blocks=40, block_size=8, max_tokens=32), desk)
    serve_all(engine, desk)
    columns.end()
    for i, question in enumerate(QUESTIONS, start=1):
        print(f"\n{question}\n   {tokenizer.decode(desk.sent[i])}")
    print(f"\n{engine.steps} steps, {engine.computed} tokens computed, {engine.reused} found again")

# %% [markdown]
# ## Explain
#
# 1. A request that decodes gets its token in each step, and prompts get what is left of the budget. Whose waiting grows with
#    load, and what would turn that around?
# 2. Why can a server that refuses nothing but what can never fit promise that all requests come to an end?
#
# *Write here, in your own words. Nobody grades it.*

# %% [markdown]
# ## Recall
#
# **Tomorrow:** why do 256 tokens of a prompt cost a decoding step almost nothing, and 3,000 a lot?
#
# **Next week:** name all that a request's tokens may depend on, and three things that they may not.
