"""Exercise 4.3: a preallocated cache for all layers of a GQA model, in PyTorch."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

import numpy as np

from autograde.exercise import Exercise, stage
from autograde.exercises.gqa_cache.candidates import MISTAKES, VARIANTS
from autograde.exercises.gqa_cache.driven import Driven, Sizes
from autograde.expect import equals, refuses
from autograde.finding import Finding
from autograde.lazy import Later
from autograde.subject import LearnerRaised, Subject

PARTITIONS = ([7], [1] * 7, [3, 1, 1, 1, 1], [3, 2, 2])  # the same seven tokens


@stage("one pass", why="What every layer needs at once: its tokens as they were, and no row that nobody wrote.")
def one_pass(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    driven = Driven(subject, rng, Sizes(max_len=12))
    yield driven.length("in a new cache")
    yield from driven.chunk(7)


@stage("any chunks", why="The same tokens in other portions are the same tokens: each layer must find all of its own.")
def any_chunks(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for partition in PARTITIONS:
        for max_len in (12, 7):
            driven = Driven(subject, rng, Sizes(max_len=max_len))
            for num_tokens in partition:
                yield from driven.chunk(num_tokens, f"chunks {partition}, max_len {max_len}: ")


@stage("memory", why="An engine plans with these bytes: taken once, never more, and nobody else may write there.")
def memory(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for sizes in (Sizes(num_layers=3), Sizes(num_kv_heads=1, max_len=7, dtype="float32")):
        driven = Driven(subject, rng, sizes)
        yield from driven.memory("in a new cache")
        for num_tokens in (3, 1, 2):
            yield from driven.chunk(num_tokens)
            yield from driven.memory(f"with {driven.held} tokens")
        yield from driven.dtype()
    driven = Driven(subject, rng, Sizes(max_len=12))
    for num_tokens in (2, 3, 1):
        yield from driven.reusing_tensors(num_tokens)
    yield from driven.chunk(1, "after the caller reused its tensors: ")
    yield from driven.transposed(2)
    yield from driven.transposed(1)
    yield from Driven(subject, rng, Sizes()).given_away()
    driven = Driven(subject, rng, Sizes(max_len=7, dtype="float16"))
    yield from driven.memory("in a new float16 cache")
    yield from driven.chunk(3, "float16: ")


@stage("full", why="A slice past the end takes one token without a word; with it goes a piece of the text.")
def full(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    driven = Driven(subject, rng, Sizes(max_len=5))
    driven.ask_for_room(5, 6)
    for num_tokens in (3, 2):
        yield from driven.chunk(num_tokens)
        driven.ask_for_room(1, 2, 3, 5)
    driven.ask_for_room(0)
    yield from driven.room_was_known()
    for extra in (1, 2, 9):
        for layer in (0, 1):
            yield driven.refuses_tokens(layer, extra)
    yield driven.refuses_advance(1)
    yield driven.length("after the refusals")
    driven = Driven(subject, rng, Sizes(max_len=7))
    yield driven.refuses_advance(-1)
    yield driven.refuses_advance(8)
    for num_tokens in (3, 2):
        yield from driven.chunk(num_tokens)
    for layer in (0, 1):
        yield driven.refuses_tokens(layer, 3)
    for asked in (3, -1, -5):
        yield driven.refuses_advance(asked)
    yield driven.length("after the refusals")
    yield from driven.half_pass(1, 1, 2, 3)  # before advance() nothing counts
    yield from driven.room_was_known()
    yield from driven.advance(driven.draw(0))
    yield from driven.chunk(1, "after the refusals: ")
    yield from driven.advance(driven.draw(0))


@stage("wrong input", why="torch spreads a single row and casts another dtype in silence; a wrong cache looks fine.")
def wrong_input(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    driven = Driven(subject, rng, Sizes(max_len=131))
    yield from driven.chunk(3)
    wrong = driven.wrong_inputs(num_tokens=2)

    def look() -> None:
        for _, layer, k, v in wrong:
            with contextlib.suppress(LearnerRaised):
                subject.call(driven.cache, "append", layer, k, v)

    for what, layer, k, v in wrong:
        rows = driven.draw(2)
        yield from driven.append_all(rows)
        yield refuses(subject, driven.cache, "append", layer, k, v, key=what, what=what, after=look)
        yield driven.length(f"after refusing {what}")
        yield from driven.advance(rows)  # what was appended before the refusal is still there: the next pass sees it
    yield from driven.chunk(1, "after the refusals: ")
    driven = Driven(subject, rng, Sizes(dtype="float32"))
    for what, layer, k, v in driven.wrong_inputs(num_tokens=2):
        if "rows for a" in what:
            yield refuses(subject, driven.cache, "append", layer, k, v, key=what, what=what)


@stage("tried again", why="A pass that fails half-way is run again. Its first try must leave no trace.")
def tried_again(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    driven = Driven(subject, rng, Sizes(num_layers=3, max_len=13))
    yield from driven.chunk(2)
    for first, second in ((3, 2), (1, 3), (2, 2)):
        rows = driven.draw(first)
        yield from driven.append(0, rows, "first try: ")
        yield from driven.append(1, rows, "first try: ")
        what = "V of another head dim, in layer 2"
        k, v = rows[2]
        yield refuses(subject, driven.cache, "append", 2, k, v[..., :-1], key=f"try {first}", what=what)
        yield driven.length("after a pass that failed in layer 2")
        yield from driven.chunk(second, "second try: ")
    yield from driven.chunk(2, "next pass: ")
    driven = Driven(subject, rng, Sizes(num_layers=3, max_len=13))
    yield from driven.chunk(2)
    yield from driven.append_all(driven.draw(3), "first try: ")
    yield from driven.append(1, driven.draw(2), "one layer again: ")
    rows = driven.draw(3)
    yield from driven.append_all(rows, "all layers again: ")
    yield from driven.advance(rows)
    rows = driven.draw(2)
    yield from driven.append_all(rows, "last layer first: ", backwards=True)
    yield from driven.advance(rows)
    yield from driven.chunk(1, "next pass: ")


@stage("reset", why="The next prompt may be shorter, and other caches go on as they were.")
def reset(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    driven, other = (Driven(subject, rng, Sizes(max_len=7)) for _ in range(2))
    yield from other.chunk(3)
    for run, partition in enumerate(([3, 3], [2, 1], [5, 2]), start=1):
        for num_tokens in partition:
            yield from driven.chunk(num_tokens, f"run {run}: ")
        if driven.held < 7:
            yield from driven.append(0, driven.draw(1), f"run {run}, broken off: ")
        else:
            yield driven.refuses_tokens(0, 1)
        subject.call(driven.cache, "reset")
        driven.forget()
        yield driven.length("after reset()")
        driven.ask_for_room(7)
        yield from driven.room_was_known()
        fact = "reset() keeps the memory"
        yield equals(subject, driven.storage(), driven.sizes.nbytes, key=f"storage {run}", fact=fact)
    yield from driven.chunk(1, "after reset(): ")
    yield driven.refuses_tokens(1, 7)
    yield from other.chunk(2, "in another cache: ")


EXERCISE = Exercise(
    id="4.3",
    name="GQACache",
    title="One cache for all layers",
    goal="Keep the keys and values of every layer in memory that is taken once, and count tokens once for each pass.",
    points=7,
    minutes=30,
    difficulty=4,
    hints=(
        "One tensor is enough, `torch.empty(2, num_layers, batch_size, num_kv_heads, max_len, head_dim, dtype=dtype)`, "
        "and one counter. `append` never touches the counter: layer 1 must write to the same place as layer 0.",
        "`append`: first all the checks, each raising `ValueError`: `0 <= layer < num_layers`; the shape and the dtype "
        "of `k` and of `v`; `self.used + T <= self.max_len`. Only then write rows `used` to `used + T` and return rows "
        "0 to `used + T`.",
        "`end = self.used + k.shape[2]`, then `self.buffer[0, layer, :, :, self.used:end] = k`, the same for `v`, and "
        "`return self.buffer[0, layer, :, :, :end], self.buffer[1, layer, :, :, :end]`. `advance` checks "
        "`0 <= n <= self.max_len - self.used`, then adds `n`. `reset` sets the counter to 0.",
    ),
    stages=(one_pass, any_chunks, memory, full, wrong_input, tried_again, reset),
    reference=Later("kvlib.gqa_cache", "GQACache"),
    mistakes=MISTAKES,
    variants=VARIANTS,
    tensors=True,
)
