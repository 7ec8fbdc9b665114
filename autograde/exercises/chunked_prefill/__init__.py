"""Exercise 5.4: a prompt, pushed through in chunks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from autograde.compare import shown
from autograde.exercise import Exercise, stage
from autograde.exercises.axes import named
from autograde.exercises.chunked_prefill.candidates import MISTAKES, VARIANTS
from autograde.expect import agrees, counts
from autograde.finding import Finding, held
from autograde.lazy import Later
from autograde.subject import LearnerRaised, Subject

RULE = "the logits of every position are those of the whole prompt at once"
B, VOCAB = 3, 11
AXES = ("sequence", "position", "token")


class Model:
    """Stands for a model with a cache: logits hang on all tokens so far, on their order and on their positions."""

    def __init__(self, rng: np.random.Generator, B: int = B, vocab: int = VOCAB) -> None:
        self.rows = rng.normal(size=(vocab, vocab))
        self.held: list[list[int]] = [[] for _ in range(B)]
        self.sizes: list[int] = []  # of each call

    def step(self, tokens: Any) -> np.ndarray:
        """The next tokens (B, t) -> logits (B, t, vocab)."""
        tokens, B, vocab = np.asarray(tokens), len(self.held), len(self.rows)
        if tokens.ndim != 2 or len(tokens) != B or tokens.dtype.kind not in "iu":
            raise ValueError(f"step takes the next tokens of {B} sequences, ({B}, t) whole numbers, got {tokens.shape}")
        if tokens.size and not 0 <= tokens.min() <= tokens.max() < vocab:
            raise ValueError(f"tokens must be 0 to {vocab - 1}")
        self.sizes.append(tokens.shape[1])
        logits = np.zeros((*tokens.shape, vocab))
        for b, row in enumerate(tokens.tolist()):
            for t, token in enumerate(row):
                self.held[b].append(token)
                logits[b, t] = self.logits(self.held[b])
        return logits

    def logits(self, tokens: list[int]) -> np.ndarray:
        """(vocab,) after these tokens: the later one came, the more it counts."""
        return sum((0.8 ** (len(tokens) - i) + 0.1 / (i + 1)) * self.rows[token] for i, token in enumerate(tokens))


def prompt(rng: np.random.Generator, T: int, B: int = B, vocab: int = VOCAB) -> np.ndarray:
    """(B, T) tokens, two equal ones first, and one 0."""
    tokens = rng.integers(1, vocab, size=(B, T))
    tokens[0, :2], tokens[1 % B, -1] = tokens[0, 0], 0
    return tokens


def push(subject: Subject, model: Model, tokens: np.ndarray, chunk_size: int) -> Finding:
    """Push a prompt through, and compare every position's logits."""
    step = model.step

    def next_tokens(tokens: Any) -> np.ndarray:
        return step(tokens)

    next_tokens.__name__ = "step"
    got = subject.run(next_tokens, tokens, chunk_size)
    want = [[model.logits(row[: t + 1]) for t in range(len(row))] for row in tokens.tolist()]
    place = f"{tokens.shape[1]} tokens with chunk_size {chunk_size}"
    return named(agrees(subject, got, want, key=place, fact=RULE), AXES, before=place)


def none_larger(subject: Subject, model: Model, chunk_size: int, where: str) -> Finding:
    """Whether no call was larger than asked."""
    most, sizes = max(model.sizes, default=0), tuple(model.sizes)
    fact = f"no call has more than {chunk_size} token{'s' if chunk_size > 1 else ''}"
    return counts(subject, max(most, chunk_size), chunk_size, key="largest", fact=fact, where=where, seen=sizes)


@stage("one chunk", why="A chunk as large as the prompt: one call, and the logits of all its positions come back.")
def one_chunk(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    yield push(subject, Model(rng), prompt(rng, 5), 5)


@stage("whole chunks", weight=2, why="Chunks go in one after the other, in order, none of them larger than asked.")
def whole_chunks(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for T, chunk_size in ((8, 2), (6, 3), (4, 1)):
        model = Model(rng)
        yield push(subject, model, prompt(rng, T), chunk_size)
        yield none_larger(subject, model, chunk_size, f"{T} tokens")


@stage("a shorter last chunk", why="Hardly any prompt is a multiple of the chunk size: the rest counts too.")
def a_shorter_last_chunk(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for T, chunk_size in ((7, 4), (7, 3), (5, 2), (4, 9), (3, 4)):
        yield push(subject, Model(rng), prompt(rng, T), chunk_size)


@stage("calls", why="A call more costs a pass over all weights; a call too large, the memory that chunks are to save.")
def calls(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    usual = ((7, 3), (8, 5), (9, 3), (11, 4), (5, 9), (6, 1))
    other = ((1, 1, 2, 5), (1, 3, 4, 6), (23, 17, 1, 7), (19, 2, 2, 14))  # one token; long; other batches, vocabularies
    for T, chunk_size, *sizes_of in (*usual, *other):
        model, tokens = Model(rng, *sizes_of), prompt(rng, T, *sizes_of)
        yield push(subject, model, tokens, chunk_size)
        sizes, where = tuple(model.sizes), f"{T} tokens with chunk_size {chunk_size}, calls of {model.sizes}"
        yield none_larger(subject, model, chunk_size, where)
        fact = "no call is empty"
        yield counts(subject, model.sizes.count(0), 0, key="empty", fact=fact, where=where, seen=sizes)
        fact = f"{T} tokens go in, each once"
        yield counts(subject, sum(model.sizes), T, key="tokens", fact=fact, where=where, seen=sizes)
        fact = "there are as few calls as possible"
        yield counts(subject, len(sizes), -(-T // chunk_size), key="calls", fact=fact, where=where, seen=sizes)


@stage("refusals", why="No chunk can have fewer tokens than one: refuse before anything has gone in.")
def refusals(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for bad in (-3, 0, -1):
        model, tokens = Model(rng), prompt(rng, 7)
        yield refused(subject, model, tokens, bad)
        sizes, fact = tuple(model.sizes), "nothing has gone in when a chunk size is refused"
        where = f"chunk_size {bad}, calls of {model.sizes}"
        yield counts(subject, sum(sizes), 0, key=f"untouched {bad}", fact=fact, where=where, seen=sizes)
        yield push(subject, model, tokens, 3)


def refused(subject: Subject, model: Model, tokens: np.ndarray, chunk_size: int) -> Finding:
    """Whether a chunk size is refused with `ValueError`. The calls that were made instead tell one way from another."""
    what, key = f"chunk_size {chunk_size}", f"refusal {chunk_size}"
    try:
        got = subject.run(model.step, tokens, chunk_size)
    except LearnerRaised as error:
        if error.is_a("NotImplementedError"):
            raise
        if error.is_a("ValueError"):
            return held(key, f"{what} is refused")
        fact, given = f"{what} must be refused with ValueError; your code raised something else", str(error)[:80]
    else:
        given = f"{shown(got)} is returned" if not isinstance(got, np.ndarray) else "logits are returned"
        fact = f"{what} must be refused; your code accepted it"
    wanted, seen = "ValueError is raised", tuple(model.sizes)
    return Finding(False, key, fact, expected=wanted, got=given, events=len(subject.record), seen=seen)


EXERCISE = Exercise(
    id="5.4",
    name="prefill",
    title="A prompt in chunks",
    goal="Push a prompt through a model with a cache, at most so many tokens at a time.",
    points=2,
    minutes=10,
    difficulty=2,
    hints=(
        "`step` keeps its own cache: hand it the next tokens, in order, and collect what it returns. Slices along the "
        "second axis: `tokens[:, i : i + chunk_size]`.",
        "`range(0, T, chunk_size)` gives the chunks' starts. A slice that goes past the end is shorter by itself, so "
        "the last chunk needs nothing special. Join the logits along T.",
        'First `if chunk_size < 1: raise ValueError(f"chunk_size must be at least 1, got {chunk_size}")`. Then '
        "`return torch.cat([step(chunk) for chunk in tokens.split(chunk_size, dim=1)], dim=1)`.",
    ),
    stages=(one_chunk, whole_chunks, a_shorter_last_chunk, calls, refusals),
    reference=Later("kvlib.prefill", "prefill"),
    mistakes=MISTAKES,
    variants=VARIANTS,
    tensors=True,
)
