"""Exercise 2.3: a whole decoder with one cache for each block."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence

import numpy as np

from autograde.exercise import Exercise, stage
from autograde.exercises.cached_decoder.candidates import MISTAKES, VARIANTS
from autograde.exercises.models import CONTEXT, VOCAB, MeteredModel, lend_model, small_model
from autograde.expect import Trace, counts, equals, refuses
from autograde.finding import Finding
from autograde.subject import LearnerRaised, Subject
from autograde.value import Handle
from kvlib.numpy_cache import CachedDecoder
from kvlib.recompute import recompute_logits

RIGHT = "every logit vector equals full recomputation"


def tokens_with_repeats(rng: np.random.Generator, count: int) -> list[int]:
    """Random tokens; two equal ones first, then 0 and the last of the vocabulary; none at its own position for long."""
    first = int(rng.integers(2, VOCAB - 1))
    return [first, first, 0, VOCAB - 1, *(int(token) for token in rng.integers(0, VOCAB, size=count))][:count]


def run(subject: Subject, decoder: Handle, tokens: Sequence[int], first: int = 1) -> Trace:
    """One step for each token."""
    trace = Trace(subject, decoder, "step", first=first)
    for token in tokens:
        trace.call(token)
    return trace


def agree(trace: Trace, metered: MeteredModel, tokens: Sequence[int], start: int = 0, fact: str = RIGHT) -> Finding:
    """Whether the steps' logits are those of full recomputation, from position `start` on."""
    want = recompute_logits(metered.model.weights, list(tokens))
    return trace.agree(want[start:], key="logits", fact=fact, columns="token")


@stage(
    "first token", why="Embedding, position 0, every block and the logits: all must be in place before caching matters."
)
def first_token(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    metered = MeteredModel(small_model(rng, num_layers=1))
    tokens = tokens_with_repeats(rng, 2)[:1]
    trace = run(subject, subject.new(lend_model(metered), CONTEXT), tokens)
    yield agree(trace, metered, tokens, fact="the first logit vector equals full recomputation")


@stage(
    "every position", weight=2, why="Logits are compared, all of them: the best token can be right when they are wrong."
)
def every_position(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    metered = MeteredModel(small_model(rng, num_layers=1, max_len=13))
    tokens = tokens_with_repeats(rng, 11)
    yield agree(run(subject, subject.new(lend_model(metered), 13), tokens), metered, tokens)


@stage("several blocks", why="Every block has keys and values of its own, so it needs a cache of its own.")
def several_blocks(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for num_layers in (2, 3):
        metered = MeteredModel(small_model(rng, num_layers=num_layers))
        tokens = tokens_with_repeats(rng, 7)
        decoder = subject.new(lend_model(metered), CONTEXT)
        yield agree(run(subject, decoder, tokens), metered, tokens)
        fact = "len(decoder) is the number of tokens held"
        yield equals(subject, subject.length(decoder), 7, key="length", fact=fact, what=f"{num_layers} blocks")


@stage("rows computed", why="Right logits are not enough: each block may project each token once.")
def rows_computed(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    metered = MeteredModel(small_model(rng, num_layers=2))
    tokens = tokens_with_repeats(rng, 7)
    yield agree(run(subject, subject.new(lend_model(metered), CONTEXT), tokens), metered, tokens)
    for name in ("project_k", "project_v", "project_q"):
        for layer, rows in enumerate(metered.rows(name)):
            yield counts(
                subject, rows, 7, key=name, fact=f"7 tokens go through {name} once each", where=f"block {layer}"
            )


@stage(
    "full", why="Past the end there is no position to embed and no room to store: an error is the only right answer."
)
def full(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for max_len in (5, CONTEXT):
        metered = MeteredModel(small_model(rng, num_layers=2))
        tokens = tokens_with_repeats(rng, max_len)
        decoder = subject.new(lend_model(metered), max_len)

        def go_on(decoder: Handle = decoder) -> None:
            for _ in range(5):
                with contextlib.suppress(LearnerRaised):
                    subject.call(decoder, "step", 2)

        yield agree(run(subject, decoder, tokens), metered, tokens)
        for extra in (1, 2, 3):
            what = f"token {max_len + extra} with max_len {max_len}"
            yield refuses(subject, decoder, "step", tokens[0], key=f"refusal {extra}", what=what, after=go_on)
            fact = "a refused token changes nothing, not even len(decoder)"
            yield equals(subject, subject.length(decoder), max_len, key="length", fact=fact, what=f"after {what}")


@stage(
    "bad tokens", why="A table indexed with -1 gives its last row without a word: a bad token must not get that far."
)
def bad_tokens(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    metered = MeteredModel(small_model(rng, num_layers=2))
    tokens = tokens_with_repeats(rng, 6)
    decoder = subject.new(lend_model(metered), CONTEXT)
    yield agree(run(subject, decoder, tokens[:3]), metered, tokens[:3])
    for bad in (-1, -2, VOCAB + 3, VOCAB):
        what = f"token {bad} of a vocabulary of {VOCAB}"
        yield refuses(subject, decoder, "step", bad, key=f"token {bad}", what=what)
        fact = "a refused token changes nothing, not even len(decoder)"
        yield equals(subject, subject.length(decoder), 3, key="length", fact=fact, what=f"after {what}")
    after = run(subject, decoder, tokens[3:], first=4)
    yield agree(after, metered, tokens, start=3, fact="after refused tokens, the next right ones give right logits")


@stage("reset", why="The next prompt begins at position 0 with every block empty; other decoders go on as they were.")
def reset(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    metered = MeteredModel(small_model(rng, num_layers=2))
    model, max_len = lend_model(metered), 5
    decoder, other = subject.new(model, max_len), subject.new(model, max_len)
    yield agree(run(subject, other, [3, 3]), metered, [3, 3])
    first = tokens_with_repeats(rng, max_len)
    second = [(first[0] + 1) % VOCAB, *first[1:3]]  # equal tokens at equal positions, after another one
    for number, tokens in enumerate((first, second, first[::-1])):
        fact = "after reset() a run gives the logits of a fresh decoder" if number else RIGHT
        yield agree(run(subject, decoder, tokens), metered, tokens, fact=fact)
        if len(tokens) == max_len:
            what = f"token {max_len + 1} with max_len {max_len}, in run {number + 1}"
            yield refuses(subject, decoder, "step", tokens[0], key=f"full {number}", what=what)
        yield refuses(subject, decoder, "step", -1, key=f"bad {number}", what=f"token -1, in run {number + 1}")
        subject.call(decoder, "reset")
        length = subject.length(decoder)
        yield equals(
            subject, length, 0, key="length", fact="after reset() the decoder holds no token", what="after reset()"
        )
    rest = run(subject, other, [1, 6], first=3)
    yield agree(rest, metered, [3, 3, 1, 6], start=2, fact="another decoder of the same model is not disturbed")


EXERCISE = Exercise(
    id="2.3",
    name="CachedDecoder",
    title="The whole decoder",
    goal="Decode token by token through any number of blocks, and refuse what cannot be right.",
    points=7,
    minutes=25,
    difficulty=4,
    hints=(
        "One cache for each block: `[KVCache(max_len, model.width) for _ in model.blocks]`. The position of the newest "
        "token is the number of tokens held before it, `len(self)`.",
        "In `step`, check first: is the token from 0 to `model.vocab_size - 1`, and is there room? Raise "
        "`ValueError` before anything is written. Then embed, go through the blocks in order, and unembed.",
        "`x = model.embed(token, len(self))`, then `for block, cache in zip(model.blocks, self.caches): "
        "x = block_step(block, cache, x)`, then `return model.unembed(x)`. Take `len(self)` before the loop: the first "
        "`append` changes it. `reset` resets every cache.",
    ),
    stages=(first_token, every_position, several_blocks, rows_computed, full, bad_tokens, reset),
    reference=CachedDecoder,
    mistakes=MISTAKES,
    variants=VARIANTS,
)
