"""Exercise 2.2: one token through one block, with a cache."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from autograde.exercise import Exercise, stage
from autograde.exercises.block_step.candidates import MISTAKES, VARIANTS, reference
from autograde.exercises.models import LentCache, lend_block, lend_cache, small_model
from autograde.expect import Trace, agrees, counts
from autograde.finding import Finding
from autograde.subject import Subject
from kvlib.recompute import recompute_block

WIDTH, TOKENS = 5, 9


def _tokens(rng: np.random.Generator) -> np.ndarray:
    return 1.5 * rng.normal(size=(TOKENS, WIDTH))


@stage(
    "first token", why="One token sees only itself: projections, residual and feed-forward part must all be in place."
)
def first_token(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    model = small_model(rng, num_layers=1)
    X = _tokens(rng)[:1]
    cache = LentCache(TOKENS, WIDTH)
    got = subject.run(lend_block(model, 0), lend_cache(cache), X[0])
    want = recompute_block(model.weights, 0, X)
    yield agrees(subject, got, want[0], key="output", fact="the first token comes out of the block as recomputed")
    yield counts(subject, int(len(cache) > 0), 1, key="appended", fact="its key and value are in the cache")


@stage("every token", why="Each output must equal the whole block computed anew over all tokens so far.")
def every_token(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    model = small_model(rng, num_layers=1)
    X = _tokens(rng)
    block, cache = lend_block(model, 0), lend_cache(LentCache(TOKENS + 1, WIDTH))
    trace = Trace(subject, axis="token")
    for x in X:
        trace.call(block, cache, x)
    want = recompute_block(model.weights, 0, X)
    yield trace.agree(want, key="output", fact="every token comes out of the block as recomputed")


@stage(
    "one row each", why="The block must add exactly one key and one value to the cache, and compute no old one again."
)
def one_row_each(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    model = small_model(rng, num_layers=1)
    X = _tokens(rng)
    cache = LentCache(TOKENS + 4, WIDTH)
    block, lent = lend_block(model, 0), lend_cache(cache)
    want = recompute_block(model.weights, 0, X)
    trace, held = Trace(subject, axis="token"), []
    for x in X:
        trace.call(block, lent, x)
        held.append(len(cache))
    yield trace.agree(want, key="output", fact="every token comes out of the block as recomputed")
    for t, rows in enumerate(held):
        where = f"after token {t + 1}"
        yield counts(subject, rows, t + 1, key="held", fact="the cache holds one row for each token", where=where)
    for name in ("project_k", "project_v", "project_q"):
        rows = getattr(block.target, name).rows
        yield counts(subject, rows, TOKENS, key=name, fact=f"{TOKENS} tokens go through {name} once each")


@stage("inputs untouched", why="The residual x is used again by whoever called; another block has other rows.")
def inputs_untouched(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    width = 3  # another one than elsewhere: sizes written into the code show
    model = small_model(rng, num_layers=2, width=width)
    X = _tokens(rng)[:3, :width]
    caches = [LentCache(TOKENS, width), LentCache(TOKENS, width)]
    want = [recompute_block(model.weights, layer, X) for layer in range(2)]
    for t, x in enumerate(X):
        for layer in range(2):
            kept = subject.put(x)
            got = subject.run(lend_block(model, layer), lend_cache(caches[layer]), kept)
            fact = "two blocks, used in turn, each give their own output"
            yield agrees(subject, got, want[layer][t], key=f"block {layer}", fact=fact)
            yield agrees(subject, subject.read(kept), x, key="x", fact="x is as it was before the call")


EXERCISE = Exercise(
    id="2.2",
    name="block_step",
    title="One token through one block",
    goal="Push one token through a transformer block, with the keys and values of all earlier tokens in a cache.",
    points=3,
    minutes=15,
    difficulty=3,
    hints=(
        "The block's own pieces are all there: `norm`, `project_q`, `project_k`, `project_v`, `finish`. "
        "What the cache adds is two lines: `append`, then `rows`.",
        "All three projections take the *normalised* token `h = block.norm(x)`. `finish` takes the token `x` itself, "
        "for the residual connection, and what attention gave.",
        "`h = block.norm(x)`; `cache.append(block.project_k(h), block.project_v(h))`; `K, V = cache.rows()`; "
        "`a = attend(block.project_q(h), K, V)`; `return block.finish(x, a)`.",
    ),
    stages=(first_token, every_token, inputs_untouched, one_row_each),
    reference=reference,
    mistakes=MISTAKES,
    variants=VARIANTS,
)
