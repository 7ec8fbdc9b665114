"""Exercise 8.3: a layer of latent attention with its cache."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from autograde.exercise import Exercise, stage
from autograde.exercises.latent_cache.candidates import MISTAKES, VARIANTS
from autograde.exercises.latent_cache.driven import Run
from autograde.exercises.latent_cache.layer import WIDTH
from autograde.exercises.mla_cases import Dims
from autograde.expect import refuses
from autograde.finding import Finding
from autograde.lazy import Later
from autograde.subject import Subject

MANY = Dims(H=6, Dn=11, Dr=4, Dv=7, R=13)  # rows for each head would take many times what the latents take


@stage("token by token", why="Position 0, 1, 2, ...: how far apart two tokens are is in q_pe and k_pe only.")
def token_by_token(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    run = Run(subject, rng, max_len=11)
    yield run.length("a new cache, ")
    for _ in range(5):
        yield from run.forward(1)


@stage("chunks", why="A prompt comes in chunks: each token sees what is held, those before it, and itself.")
def chunks(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    other = Dims(H=2, Dn=3, Dr=6, Dv=8, R=5)
    for partition, max_len, B, dims in (([7], 13, 2, None), ([3, 2, 2], 7, 3, None), ([1, 4, 1], 11, 1, other)):
        run = Run(subject, rng, max_len, B, dims, name=f"chunks {partition}: ")
        for T in partition:
            yield from run.forward(T)
    first = Run(subject, rng, 11, name="first of two caches: ")
    second = Run(subject, rng, 11, layer=first.layer, name="second of two caches: ")
    for run, T in ((first, 2), (second, 3), (first, 1), (second, 1)):
        yield from run.forward(T)


@stage("each token once", why="What was worked out once is held: that is what a cache is for.")
def each_token_once(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    run = Run(subject, rng, 17, B=3)
    for T in (4, 1, 2, 1):
        yield from run.work(T)


@stage("memory", weight=3, why="R + Dr numbers for each token, whatever the number of heads: that is the point.")
def memory(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    run = Run(subject, rng, 79, dims=MANY)
    for T in (53, 23):
        run.feed(T)
    yield from run.forward(1)
    yield from run.memory()
    yield from run.measured()
    yield from run.measured()


@stage("full", why="What does not fit must be refused before anything has changed: the text goes on from there.")
def full(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    run = Run(subject, rng, 7)
    yield from run.refused("a prompt of 8 tokens for 7", run.draw(8, B=3))
    for T in (3, 2):
        yield from run.forward(T)
    yield from run.refused("3 tokens where 2 fit", run.draw(3))
    yield from run.refused("tokens of one sequence for two", run.draw(1, B=1))
    yield from run.refused("tokens of three sequences for two", run.draw(2, B=3))
    yield from run.refused("x of another width", run.draw(2, width=WIDTH + 1))
    yield from run.forward(2, "after the refusals, ")
    for T in (1, 2, 9):
        yield from run.refused(f"{T} more where none fit", run.draw(T))
    run = Run(subject, rng, 5, name="another cache: ")
    yield from run.refused("x of another width", run.draw(2, B=3, width=WIDTH + 1))
    yield from run.forward(2)


@stage("truncate", why="Rejected drafts are cut off. What comes next stands where they stood.")
def truncate(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    run = Run(subject, rng, 7)
    yield from run.forward(5)
    for length in (3, 3):
        yield from run.truncate(length)
    yield from run.forward(1, "after truncate(3), ")
    yield from run.forward(3, "after truncate(3), ")
    for length in (-1, 8, 100):
        what = f"truncate({length}) with 7 tokens"
        look = lambda: subject.length(run.cache)  # noqa: E731
        yield refuses(subject, run.cache, "truncate", length, key=what, what=what, after=look)
        yield run.length(f"after refusing {what}, ")
    yield from run.truncate(5)
    what = "truncate(6) with 5 tokens"
    yield refuses(subject, run.cache, "truncate", 6, key=what, what=what, after=look)
    yield from run.forward(2, "after truncate(5), ")
    yield from run.truncate(0)
    yield from run.refused("one sequence for two, after truncate(0)", run.draw(1, B=1))
    yield from run.forward(4, "after truncate(0), ")
    yield from run.forward(1, "after truncate(0), ")


EXERCISE = Exercise(
    id="8.3",
    name="LatentAttention",
    title="A cache of latents",
    goal="Serve one layer from `R + Dr` numbers for each token.",
    points=6,
    minutes=35,
    difficulty=4,
    hints=(
        "The positions of T new tokens are `len(self)` and the T - 1 after it. `k_pe` is turned there once, and held; "
        "`q_pe` is turned at the same positions, and not held. Which two things does attention then need from you?",
        "One buffer (B, max_len, R + Dr), made in the first call: rows `used` to `used + T` are "
        "`torch.cat((c_kv, layer.rotate(k_pe, positions)), -1)`. Ask the layer for everything before you write, count "
        "or remember anything, so that a call that fails leaves no trace.",
        "`forward`: refuse; `positions = torch.arange(used, used + T)`; queries, latent, rotate both; make the buffer "
        "if there is none; write; `used += T`; `held = buffer[:, :used]`; `return absorbed_attend(q_nope, q_pe, "
        "held[..., :R], held[..., R:], layer.w_uk, layer.w_uv)`. `truncate` checks, then sets `used`.",
    ),
    stages=(token_by_token, chunks, each_token_once, memory, full, truncate),
    reference=Later("kvlib.latent_cache", "LatentAttention"),
    mistakes=MISTAKES,
    variants=VARIANTS,
    tensors=True,
)
