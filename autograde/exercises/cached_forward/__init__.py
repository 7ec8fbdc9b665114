"""Exercise 4.4: a chunk of tokens through the whole decoder, with a cache."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from autograde.exercise import Exercise, stage
from autograde.exercises.cached_forward.candidates import MISTAKES, VARIANTS
from autograde.exercises.cached_forward.driven import Driven, random_tokens
from autograde.exercises.scalars import refused
from autograde.exercises.torch_models import Shape
from autograde.expect import counts, equals
from autograde.finding import Finding
from autograde.lazy import Later
from autograde.subject import Subject

PARTITIONS = ([7], [1] * 7, [3, 1, 1, 1, 1], [3, 2, 2], [1, 4, 2])  # the same seven tokens


@stage("first chunk", why="Five tokens at once and an empty cache: all but the cache must be in place.")
def first_chunk(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for heads, kv_heads in ((6, 2), (5, 1), (3, 3)):  # a head dim of 4 would hide a wrong scale: its root is 2
        shape = Shape(num_layers=1, num_heads=heads, num_kv_heads=kv_heads, head_dim=8)
        driven = Driven(subject, rng, shape, max_len=12)
        yield from driven.chunks(random_tokens(rng, 5), [5], f"H={heads}, Hkv={kv_heads}: ")


@stage("token by token", why="Each new token must find all that came before it, at the position that follows.")
def token_by_token(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    driven = Driven(subject, rng, Shape(num_layers=1), max_len=12)
    yield from driven.chunks(random_tokens(rng, 7), [1] * 7)


@stage("several layers", why="Every layer has keys and values of its own, and one pass counts its tokens once.")
def several_layers(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for num_layers in (2, 3):
        for partition in ([5], [1] * 5):
            driven = Driven(subject, rng, Shape(num_layers=num_layers), max_len=12)
            yield from driven.chunks(random_tokens(rng, 5), partition)


@stage("any chunks", why="The portions in which tokens come are the scheduler's choice; the logits must not show it.")
def any_chunks(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    driven = Driven(subject, rng, Shape(), max_len=12)
    tokens, other_tokens = (random_tokens(rng, 7) for _ in range(2))
    for partition in PARTITIONS:
        for max_len in (12, 7):
            driven.new_cache(max_len)
            yield from driven.chunks(tokens, partition, f"chunks {partition}: ")
    driven.new_cache(12)
    other = driven.beside(7)
    for start, end in ((0, 3), (3, 5), (5, 7)):  # two batches of one model, in turn
        yield from driven.chunk(tokens, start, end, "two caches in turn: ")
        yield from other.chunk(other_tokens, start, end, "two caches in turn: ")


@stage("rows computed", why="Right logits are not enough: a cache is there so that each token is projected once.")
def rows_computed(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for num_layers, partition in ((2, [1] * 5), (2, [3, 2]), (3, [5])):
        driven = Driven(subject, rng, Shape(num_layers=num_layers), max_len=7)
        yield from driven.chunks(random_tokens(rng, 5), partition)
        rows = {(name, layer): count for name in "kvq" for layer, count in enumerate(driven.model.rows(name))}
        for (name, layer), count in rows.items():
            fact = "5 tokens of 2 sequences are 10 rows, projected once in each layer"
            where = f"projection {name}, layer {layer}, chunks {partition}"
            seen = tuple(rows.values())
            yield counts(subject, count, 10, key=f"rows of {name}", fact=fact, where=where, seen=seen)


@stage("no room", why="A chunk that does not fit is refused as a whole; half of it would be half a text.")
def no_room(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    driven = Driven(subject, rng, Shape(), max_len=7)
    tokens = random_tokens(rng, 9)

    def too_many(num_tokens: int) -> Iterable[Finding]:
        held = len(driven.cache)
        what = f"a chunk of {num_tokens} with {held} of 7 tokens held"
        args = (driven.lent_model, driven.lent_cache, tokens[:, :num_tokens])
        finding = refused(subject, *args, key=f"{num_tokens} more than {held}", what=what)
        accepted = finding.got.endswith("is returned")
        yield replace(finding, got="no exception") if accepted else finding
        fact = "a refused chunk changes nothing, not even len(cache)"
        yield equals(subject, len(driven.cache), held, key="length", fact=fact, what=f"after {what}")

    yield from driven.chunk(tokens, 0, 5)
    yield from too_many(3)
    yield from driven.chunk(tokens, 5, 7, "after a refusal: ")
    for num_tokens in (1, 2):
        yield from too_many(num_tokens)
    driven.new_cache(7)
    yield from too_many(9)  # longer than the whole cache
    yield from driven.chunk(tokens, 0, 7, "after a refusal: ")


EXERCISE = Exercise(
    id="4.4",
    name="forward",
    title="The decoder, in any portions",
    goal="Push a chunk of tokens through all layers with a cache, and give the logits of full recomputation.",
    points=6,
    minutes=25,
    difficulty=4,
    hints=(
        "Two things depend on what is held: the positions, `len(cache)` and the ones that follow, and the mask. Take "
        "`start = len(cache)` once, before the loop over the layers.",
        "In each layer: `block.qkv(x, positions)`, then `cache.append(layer, k, v)`, which returns the keys and values "
        "of all tokens; attention of `q` over those; then `block.finish(x, attended)` with the `x` that came in. "
        "After the loop, one `cache.advance(T)`.",
        "`positions = torch.arange(start, start + T)` and `mask = model.mask(start, T)`, which is (T, start + T). In "
        "the loop `K, V = cache.append(layer, k, v)` and `x = block.finish(x, gqa_attend(q, K, V, mask))`. At the end "
        "`cache.advance(T)` and `return model.unembed(x)`.",
    ),
    stages=(first_chunk, token_by_token, several_layers, any_chunks, rows_computed, no_room),
    reference=Later("kvlib.generate", "forward"),
    mistakes=MISTAKES,
    variants=VARIANTS,
    tensors=True,
)
