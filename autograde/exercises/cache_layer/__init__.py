"""Exercise 10.2: one layer's cache with the methods that Transformers asks for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from autograde.exercise import Exercise, stage
from autograde.exercises.cache_layer.candidates import MISTAKES, VARIANTS
from autograde.exercises.cache_layer.driven import Driven, Sizes
from autograde.finding import Finding
from autograde.lazy import Later
from autograde.subject import Subject

PARTITIONS = ([7], [1] * 7, [3, 2, 2])  # the same seven tokens


@stage("update", weight=2, why="Whatever the pieces are, a query needs the rows of all tokens, in order.")
def update(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for partition in PARTITIONS:
        for sizes in (Sizes(value_dim=5), Sizes()):  # keys and values alike, and values that are wider
            driven, other = (Driven(subject, rng, sizes) for _ in range(2))
            yield from other.update(2, "in another layer: ")
            for num_tokens in partition:
                yield from driven.update(num_tokens)
            yield from other.update(1, "in another layer: ")
    driven = Driven(subject, rng)
    yield from driven.reused(2, times=3)
    yield from driven.update(1, "after the caller used its tensors again: ")


@stage("how many", why="The mask of the next pass is made from these numbers, before any layer has been updated.")
def how_many(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for sizes in (Sizes(), Sizes(max_len=13, batch_size=1)):
        driven = Driven(subject, rng, sizes)
        yield driven.length("in a new layer")
        yield driven.room("in a new layer")
        yield from driven.mask_sizes(4)
        for num_tokens in (4, 1, 2):
            yield from driven.update(num_tokens)
            yield driven.room(f"with {driven.held} tokens")
            for query_length in (1, 3):
                yield from driven.mask_sizes(query_length)


@stage("memory", why="The first call makes the memory. What copies all rows at each token gets slower with the text.")
def memory(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    cases = (Sizes(max_len=43), Sizes(max_len=41, batch_size=1, dtype="float32"), Sizes(max_len=67, dtype="float16"))
    for sizes in cases:
        driven = Driven(subject, rng, sizes)
        yield from driven.update(23)
        yield driven.storage("after the first update()")
        for num_tokens in (1, 2, 1, 9):
            yield from driven.update(num_tokens, most=True)
            yield driven.storage(f"with {driven.held} tokens")
        if sizes.dtype != "float16":  # which comes back from the learner's side as float32
            yield from driven.dtype()


@stage("refusals", why="A slice past the end takes one token without a word, and torch spreads or casts a wrong row.")
def refusals(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    driven = Driven(subject, rng, Sizes(max_len=5, batch_size=4, num_kv_heads=1))
    for num_tokens in (6, 9):
        yield from driven.refuses(f"{num_tokens} tokens", *driven.draw(num_tokens))
    driven.forget(batch_size=2, num_kv_heads=3)  # a call that was refused has fixed nothing
    for num_tokens in (3, 2):
        yield from driven.refuses(f"{6 - driven.held} tokens", *driven.draw(6 - driven.held))
        yield from driven.update(num_tokens)
    for num_tokens in (1, 2, 7):
        yield from driven.refuses(f"{num_tokens} tokens", *driven.draw(num_tokens))
    for dtype in ("float32", "float64"):
        driven = Driven(subject, rng, Sizes(max_len=131, dtype=dtype))
        yield from driven.update(3)
        for what, k, v in driven.wrong_rows():
            yield from driven.refuses(what, k, v)
        yield from driven.update(1, "after the refusals: ")
    driven = Driven(subject, rng)
    (k, v), short = driven.draw(2), driven.draw(1)
    for what, one, other in (
        ("one value for both tokens", k, short[1]),
        ("one key for both tokens", short[0], v),
        ("v with one sequence for all", k, v[:1]),
    ):
        yield from driven.refuses(what, one, other)
    yield from driven.update(2, "after the refusals: ")


@stage("crop", why="Drafts that were rejected go again. Transformers says how many go, as a number below 0.")
def crop(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    driven = Driven(subject, rng, Sizes(max_len=7))
    driven.crop(-2)
    yield from driven.update(5)
    for n, num_tokens in ((-1, 2), (0, 1), (-4, 1), (-1, 4), (-3, 2)):
        driven.crop(n)
        yield from driven.update(num_tokens, f"after crop({n}): ")
        yield from driven.mask_sizes(2)
    for n in (1, 2, 6, 9):
        yield driven.refuses_crop(n)
        yield driven.length(f"after refusing crop({n})")
    yield from driven.update(1, "after the refusals: ")
    for n, num_tokens in ((-9, 3), (-3, 2), (-3, 4), (-40, 1)):
        driven.crop(n)
        yield driven.length(f"after crop({n})")
        yield from driven.update(num_tokens, f"after crop({n}): ")
    driven.crop(-40)
    yield from driven.refuses_other_sizes("after crop(-40)")  # only reset() makes it as new
    yield from driven.update(2, "after the refusals: ")


@stage("sequences", weight=2, why="Beams fork and die. Rows must follow their sequence, in K and in V alike.")
def sequences(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    moves = (
        ("reorder_cache", np.array([1, 2, 0, 1]), [1, 2, 0, 1]),
        ("batch_select_indices", np.array([3, 0, 1]), [3, 0, 1]),
        ("batch_repeat_interleave", 2, [0, 0, 1, 1, 2, 2]),
        ("batch_select_indices", np.array([4, 2]), [4, 2]),
        ("reorder_cache", np.array([1, 1]), [1, 1]),
        ("batch_repeat_interleave", 3, [0, 0, 0, 1, 1, 1]),
        ("reorder_cache", np.array([5, 0, 1, 2, 3, 4]), [5, 0, 1, 2, 3, 4]),
        ("batch_select_indices", np.array([3, 0, 3]), [3, 0, 3]),
    )
    driven = Driven(subject, rng, Sizes(max_len=19, batch_size=4))
    other = Driven(subject, rng, Sizes(max_len=19, batch_size=4))
    for method, arg, _ in moves[:3]:  # nothing is held: nothing happens
        driven.call(method, arg)
    yield from driven.update(3, "after moves of an empty layer: ")
    yield from other.update(2)
    for method, arg, rows in moves:
        yield from driven.rearranged(method, arg, rows)
        for num_tokens in (1, 1):
            yield from driven.update(num_tokens, f"after {method}({np.asarray(arg).tolist()}): ")
        yield driven.storage(f"after {method}({np.asarray(arg).tolist()})")
    driven.crop(-2)
    yield from driven.refuses_other_sizes("after sequences were moved")
    driven.crop(-40)
    for method, arg in (("batch_select_indices", np.array([1, 0])), ("batch_repeat_interleave", 2)):
        driven.call(method, arg)  # nothing is held once more
        yield from driven.update(1, f"after {method} of an empty layer: ")
        driven.crop(-1)
    yield from other.update(1, "in another layer: ")


@stage("reset", why="The next text may come with another number of sequences, and its first token is at 0.")
def reset(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    driven, other = (Driven(subject, rng, Sizes(max_len=11)) for _ in range(2))
    driven.call("reset")
    yield from other.update(2)
    others: tuple[dict[str, Any], ...]
    others = ({}, {"head_dim": 4}, {"batch_size": 3, "num_kv_heads": 1}, {"dtype": "float32", "value_dim": 2}, {})
    for number, changed in enumerate(others):
        for num_tokens in (4, 1):
            yield from driven.update(num_tokens, f"after {number} resets: ")
        driven.call("reset")
        driven.forget(**changed)
        if number:
            yield driven.length("after reset()")
            yield driven.room("after reset()")
            if number == 1:
                yield from driven.update(3, "after the second reset: ")
                yield from driven.refuses_other_sizes("after reset()")
    yield from driven.update(11, "after the last reset: ")
    yield from driven.refuses("1 token", *driven.draw(1))
    yield driven.storage("after the last reset()")
    yield from other.update(1, "in another layer: ")


EXERCISE = Exercise(
    id="10.2",
    name="CacheLayer",
    title="A layer that Transformers can use",
    goal="Hold one layer's keys and values behind the methods that Hugging Face Transformers asks of a cache.",
    points=6,
    minutes=30,
    difficulty=3,
    hints=(
        "It is the cache of lesson 04 for one layer, with two differences. The sizes come with the first `update`, so "
        "the buffers are made there. And `update` counts its tokens itself: there is no `advance`.",
        "Check everything before you change anything: room, shapes, dtypes. Then make the buffers if there are none: "
        "`k.new_empty(B, Hkv, self.max_len, D)`, and one for `v` with its own width. `crop` only moves the counter, "
        "never below 0. The methods that move sequences index the first axis of both buffers.",
        "`crop(n)`: `if n > 0: raise ValueError(...)`, then `self.used = max(0, self.used + n)`. `reorder_cache(rows)` "
        "and `batch_select_indices(rows)`: `if self.used: self.K, self.V = self.K[rows], self.V[rows]`. "
        "`batch_repeat_interleave(n)`: the same with `.repeat_interleave(n, dim=0)`. `reset` does what `__init__` did.",
    ),
    stages=(update, how_many, memory, refusals, crop, sequences, reset),
    reference=Later("kvlib.cache_layer", "CacheLayer"),
    mistakes=MISTAKES,
    variants=VARIANTS,
    tensors=True,
)
