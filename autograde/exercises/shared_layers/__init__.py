"""Exercise 8.4: a cache in which neighbouring layers share keys and values."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from autograde.exercise import Exercise, stage
from autograde.exercises.shared_layers.candidates import MISTAKES, VARIANTS
from autograde.exercises.shared_layers.run import Run, Sizes, owner_of
from autograde.expect import equals
from autograde.finding import Finding
from autograde.lazy import Later
from autograde.subject import Subject

SHAPES = ((5, 2), (7, 3), (6, 3), (10, 3), (4, 1), (3, 5), (11, 4), (13, 4))  # layers and share, most with a rest


@stage("who owns", why="The first layer of each group keeps keys and values, also where the last group is smaller.")
def who_owns(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    answers = []
    for num_layers, share in SHAPES:
        cache = subject.new(num_layers, share, 1, 1, 2, 2)
        for layer in range(num_layers):
            what = f"layer {layer} of {num_layers}, share {share}"
            answers.append((what, subject.call(cache, "owner", layer), owner_of(layer, share)))
    fact = "owner() tells the first layer of the layer's group"
    for what, got, want in answers:
        yield equals(subject, got, want, key=what, fact=fact, what=what)


@stage("one pass", weight=2, why="A layer without rows of its own attends to its owner's, and those of this very pass.")
def one_pass(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for sizes in (Sizes(), Sizes(num_layers=7, share=3, num_kv_heads=2, head_dim=3)):
        run = Run(subject, rng, sizes)
        yield run.length("in a new cache")
        yield from run.one_pass(4)
        yield from run.read_all("after advance(4)")


@stage("many passes", weight=2, why="The same tokens in other portions are the same tokens, in every group.")
def many_passes(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for sizes, chunks in (
        (Sizes(max_len=7), [3, 2, 2]),
        (Sizes(num_layers=7, share=3, max_len=6), [1] * 5),
        (Sizes(num_layers=3, share=1, max_len=7), [1, 3, 2, 1]),
        (Sizes(num_layers=4, share=5), [2, 4]),
    ):
        run = Run(subject, rng, sizes)
        for T in chunks:
            yield from run.one_pass(T)
    one, other = Run(subject, rng, Sizes()), Run(subject, rng, Sizes())
    for run, T in ((one, 3), (other, 2), (one, 1), (other, 4)):
        yield from run.one_pass(T, f"in the {'first' if run is one else 'second'} of two caches, ")
    run = Run(subject, rng, Sizes(num_layers=6))
    for T in (2, 1, 3):  # owners out of turn, and layers that read before their owner has anything new
        yield from run.out_of_turn(T)


@stage("memory", why="Memory is why layers share: rows for the owners only, all there from the start.")
def memory(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for sizes in (
        Sizes(),
        Sizes(num_layers=10, share=3, batch_size=1, max_len=13),
        Sizes(num_layers=3, share=1),
        Sizes(num_layers=3, share=5),
    ):
        run = Run(subject, rng, sizes)
        yield from run.memory("in a new cache")
        for T in (3, 1):
            yield from run.one_pass(T)
            yield from run.read_all("between passes")
            yield from run.memory(f"with {run.held} tokens")


@stage(
    "tried again", why="A pass that fails half-way is run again, and a decoder reuses the tensors that it hands over."
)
def tried_again(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    run = Run(subject, rng, Sizes(max_len=13))
    yield from run.one_pass(2)
    for first, second in ((3, 2), (1, 3), (2, 2), (4, 3)):  # the last fits only where the first try does not count
        yield from run.broken_off(first)
        yield from run.one_pass(second, "second try: ")
    run = Run(subject, rng, Sizes(max_len=7))
    for appended, kept in ((3, 1), (2, 0), (4, 3)):
        yield from run.cut_short(appended, kept)
    yield from run.one_pass(2, "after passes cut short: ")
    run = Run(subject, rng, Sizes())
    for T in (3, 2, 1):
        yield from run.reusing_tensors(T)


@stage("refusals", why="A layer that shares has nothing to append: whoever calls it so has mixed up two layers.")
def refusals(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    run = Run(subject, rng, Sizes(max_len=7))
    yield from run.one_pass(7)
    for layer in (0, 4):
        yield from run.refuses_append(layer, 1, "append() of a token with 7 of 7 held")
    yield from run.refuses("advance", 1)
    run = Run(subject, rng, Sizes(max_len=7))
    yield from run.one_pass(3)
    for layer in (1, 3):
        yield from run.refuses_append(layer, 2, f"append() to layer {layer}, which uses the rows of layer {layer - 1},")
    for layer in (5, 6, -1, -5, 7):
        yield from run.refuses("owner", layer)
        yield from run.refuses("read", layer)
        yield from run.refuses_append(layer, 2, f"append() to layer {layer} of 5")
    for T in (5, 6):
        yield from run.refuses_append(2, T, f"append() of {T} tokens with 3 of 7 held")
    yield from run.refuses("advance", 5)
    yield from run.refuses("advance", -1)
    yield from run.one_pass(4, "after the refusals: ")
    yield from run.read_all("in a full cache")
    run = Run(subject, rng, Sizes(max_len=7))
    yield from run.one_pass(2)
    yield from run.refuses_in_a_pass(3)


EXERCISE = Exercise(
    id="8.4",
    name="SharedLayers",
    title="Layers that share",
    goal="Keep keys and values once for each group of neighbouring layers.",
    points=5,
    minutes=20,
    difficulty=3,
    hints=(
        "It is the cache of 4.3 with fewer layers inside: one pair of buffers for each *owner*. Which of them does "
        "layer 7 use when three share? And how many owners have 10 layers?",
        "Group `layer // share`, owner `layer // share * share`, owners `-(-num_layers // share)`: rounded up. What "
        "`read` shows depends on the owner: before it has appended in this pass, the tokens held; then those too. "
        "So note for each owner how far it has written, and set all of them in `advance`.",
        "`append`: all refusals first, then `g = layer // share`, `end = self.used + k.shape[2]`, write rows `used` to "
        "`end` of both buffers, `self.end[g] = end`, and `return self.read(layer)`. `read`: "
        "`self.K[g][:, :, : self.end[g]]`, and V. `advance(n)`: `self.used += n; self.end = [self.used] * owners`.",
    ),
    stages=(who_owns, one_pass, many_passes, memory, tried_again, refusals),
    reference=Later("kvlib.shared_layers", "SharedLayers"),
    mistakes=MISTAKES,
    variants=VARIANTS,
    tensors=True,
)
