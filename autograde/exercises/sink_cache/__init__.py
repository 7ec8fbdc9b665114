"""Exercise 9.1: a cache that keeps the first tokens and the newest, and forgets those between."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from autograde.exercise import Exercise, stage
from autograde.exercises.sink_cache.candidates import MISTAKES, VARIANTS
from autograde.exercises.sink_cache.driven import Run, every
from autograde.finding import Finding
from autograde.lazy import Later
from autograde.subject import Subject

SMALL = (2, 3, 4)  # L, Hkv, D


@stage("one layer", weight=2, why="One by one in one layer: the sinks stay, the window slides, and all between goes.")
def one_layer(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    yield from every(subject, rng, 2, 5, [1] * 15, (1, 3, 4))


@stage("all layers", why="Every layer forgets the same tokens, and the count of tokens moves once a pass.")
def all_layers(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    yield from every(subject, rng, 3, 4, [1] * 10)


@stage("chunks", why="A chunk pushes out as many as it brings, and may hold some of the sinks.")
def chunks(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for sizes in ([3, 2, 2, 3, 1, 2], [2, 2, 2, 2, 2, 2], [5, 1, 4, 1]):
        yield from every(subject, rng, 4, 5, sizes, SMALL)


@stage("long prompts", why="A prompt is often longer than all that is kept. What goes at once must not spoil the rest.")
def long_prompts(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for sizes in ([13, 1, 1], [1, 12, 2], [3, 8, 9, 1], [7, 7, 7, 1]):
        yield from every(subject, rng, 3, 4, sizes, SMALL)


@stage("other sizes", why="No sink at all is a plain window; a window of 1 holds the newest token only.")
def other_sizes(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for sinks, window, sizes in (
        (0, 4, [1, 3, 2, 1, 1]),
        (2, 1, [1, 1, 1, 3, 1]),
        (1, 2, [1] * 6),
        (7, 2, [3, 5, 1, 4]),
    ):
        yield from every(subject, rng, sinks, window, sizes, SMALL)
    yield from every(subject, rng, 5, 40, [30, 3, 20, 1], (1, 2, 4))


@stage("memory", weight=2, why="The point of forgetting: memory stays what it is, however long the text grows.")
def memory(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    texts = ((2, 3, [1] * 7), (2, 3, [23, 1]), (4, 3, [5] * 3), (1, 2, [40, 40]), (0, 3, [4, 19]))
    for sinks, window, sizes in texts:
        run = Run(subject, rng, sinks, window, sum(sizes), SMALL)
        for T in sizes:
            yield from run.chunk(T)
            yield run.memory()


@stage("reused tensors", why="A real decoder writes the next keys into the same memory, and serves other texts too.")
def reused_tensors(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for sinks, window, sizes in ((2, 5, [3, 1, 2, 2]), (3, 4, [7, 1]), (0, 3, [5, 3, 1])):
        run, other = (Run(subject, rng, sinks, window, n, SMALL) for n in (sum(sizes), 9))
        yield from other.chunk(4)
        for T in sizes:
            yield from run.reusing(T)
        yield from other.chunk(5)


EXERCISE = Exercise(
    id="9.1",
    name="SinkCache",
    title="The first and the last",
    goal="Keep the first tokens and the newest in every layer, in memory that does not grow with the text.",
    points=6,
    minutes=25,
    difficulty=3,
    hints=(
        "Write down which positions stay after `end` tokens: those below `sinks`, and those from `end - window` on. "
        "While few tokens have come, the two overlap: a position must not be there twice.",
        "Keep the positions next to the rows of each layer. `append`: put the new rows and positions behind the old "
        "ones, then select with one mask for all three. The newest position is `self.length + T - 1`.",
        "`positions = torch.cat((self.positions[layer], torch.arange(self.length, self.length + T)))`, `stay = "
        "(positions < self.sinks) | (positions > positions[-1] - self.window)`, then keep and return `K[:, stay]`, "
        "`V[:, stay]`, `positions[stay]`: indexing with a mask copies. Only `advance` moves `self.length`.",
    ),
    stages=(one_layer, all_layers, chunks, long_prompts, other_sizes, memory, reused_tensors),
    reference=Later("kvlib.sink_cache", "SinkCache"),
    mistakes=MISTAKES,
    variants=VARIANTS,
    tensors=True,
)
