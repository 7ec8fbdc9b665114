"""Exercise 5.3: a chunk of tokens through one attention layer with a cache."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from autograde.compare import first_difference
from autograde.exercise import Exercise, stage
from autograde.exercises.attend_chunk.candidates import MISTAKES, VARIANTS
from autograde.exercises.attend_chunk.lent import LentLayer, LentLayerCache, recompute_layer
from autograde.exercises.axes import named
from autograde.exercises.torch_models import Shape, rotate
from autograde.expect import agrees, counts
from autograde.finding import Finding, held
from autograde.lazy import Later
from autograde.subject import Subject

RULE = "every output equals that of the whole sequence at once"
SHAPE = Shape(num_heads=6, num_kv_heads=2, head_dim=4, width=10, base=100.0)
TOKENS, LONG = 7, 41
Rows = np.ndarray


def sequences(rng: np.random.Generator, shape: Shape, B: int = 2, T: int = TOKENS) -> Rows:
    """x (B, T, width); every sequence has rows of its own."""
    return 1.5 * rng.normal(size=(B, T, shape.width))


def run(
    subject: Subject,
    layer: LentLayer,
    cache: LentLayerCache,
    x: Rows,
    want: Rows,
    sizes: Sequence[int],
    label: str = "",
) -> Iterable[Finding]:
    """Push x through in chunks of these sizes, as far as the outputs are right."""
    lent_layer, lent_cache, start = layer.lent(), cache.lent(), 0
    cut = label or f"{len(sizes)} chunks {list(sizes)}"
    for size in sizes:
        end = start + size
        got = subject.run(lent_layer, lent_cache, x[:, start:end])
        place = f"{cut}, positions {start} to {end - 1}" if size > 1 else f"{cut}, position {start}"
        axes = ("sequence", "row", "feature")
        yield named(agrees(subject, got, want[:, start:end], key="output", fact=RULE), axes, before=place)
        fact = "after each call the cache holds the tokens so far, each once"
        yield counts(subject, len(cache), end, key="held", fact=fact, where=place)
        start = end


@stage(
    "one prompt", why="With nothing held, this is causal attention as ever: projections, turns, mask, heads, output."
)
def one_prompt(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    layer, x = LentLayer(SHAPE, rng), sequences(rng, SHAPE)
    cache = LentLayerCache(len(x), SHAPE, TOKENS)
    yield from run(subject, layer, cache, x, recompute_layer(layer, x)[0], [TOKENS], "one chunk")


@stage("token by token", why="Each call goes on where the last one ended: positions, held keys and mask.")
def token_by_token(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    layer, x = LentLayer(SHAPE, rng), sequences(rng, SHAPE)
    cache = LentLayerCache(len(x), SHAPE, 2 * TOKENS)
    yield from run(subject, layer, cache, x, recompute_layer(layer, x)[0], [1] * TOKENS)


@stage("chunks", weight=2, why="Several new tokens after several held ones: the rectangle that shortcuts get wrong.")
def chunks(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    layer, x = LentLayer(SHAPE, rng), sequences(rng, SHAPE)
    want = recompute_layer(layer, x)[0]
    for sizes in ([3, 1, 1, 1, 1], [3, 2, 2], [2, 5], [1, 6]):
        cache = LentLayerCache(len(x), SHAPE, TOKENS + 5)
        yield from run(subject, layer, cache, x, want, sizes)
    x = sequences(rng, SHAPE, B=1, T=LONG)  # longer than any table of masks or angles that a short run would fit
    yield from run(subject, layer, LentLayerCache(1, SHAPE, LONG), x, recompute_layer(layer, x)[0], [19, 1, LONG - 20])


@stage(
    "what is kept", why="Others read this cache: keys lie in it turned to their absolute positions, values as they are."
)
def what_is_kept(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    layer, x = LentLayer(SHAPE, rng), sequences(rng, SHAPE)
    outputs, k, turned, v = recompute_layer(layer, x)
    cache = LentLayerCache(len(x), SHAPE, TOKENS + 1)
    yield from run(subject, layer, cache, x, outputs, [3, 2, 2])
    more = rotate(turned, np.ones(TOKENS, dtype=int), SHAPE.base)
    others = {"keys that were not turned": k, "keys of one position later": more, "the values": v}
    fact = "the cache holds each key turned once, to its absolute position"
    yield kept(subject, cache.K, turned, others, key="keys", fact=fact)
    others = {"the keys": turned, "turned values": rotate(v, np.arange(TOKENS), SHAPE.base)}
    yield kept(subject, cache.V, v, others, key="values", fact="the cache holds each value as project_v gave it")


def kept(subject: Subject, got: Rows, want: Rows, others: dict[str, Rows], *, key: str, fact: str) -> Finding:
    """Whether the rows in the cache (B, Hkv, S, D) are the right ones, and which others they are."""
    difference = first_difference(got, want)
    if difference is None:
        return held(key, fact)
    found = [name for name, rows in others.items() if first_difference(got, rows) is None]
    b, h, s, d = difference.index
    return Finding(
        False,
        key,
        f"does not hold: {fact}" + (f"; these are {found[0]}" if found else ""),
        where=f"sequence {b}, KV head {h}, position {s}, feature {d}",
        expected=f"{difference.want:.4f}",
        got=f"{difference.got:.4f}",
        events=len(subject.record),
        seen=found[0] if found else round(difference.got, 2),
    )


@stage("rows computed", why="Right outputs are not enough: each token may go through each projection once.")
def rows_computed(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for sizes in ([2, 3, 1, 1], [1, 6]):
        layer, x = LentLayer(SHAPE, rng), sequences(rng, SHAPE)
        cache = LentLayerCache(len(x), SHAPE, TOKENS + 3)
        yield from run(subject, layer, cache, x, recompute_layer(layer, x)[0], sizes)
        seen = tuple(layer.rows(name) for name in "qkvo")
        for name in "kvqo":
            fact = f"{len(x)} sequences of {TOKENS} tokens go through project_{name} once, {x.shape[0] * TOKENS} rows"
            yield counts(subject, layer.rows(name), len(x) * TOKENS, key=f"project_{name}", fact=fact, seen=seen)


@stage("another layer", why="Nothing may hang on the sizes of one layer, or on what another one was given.")
def another_layer(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    runs = []
    for B, H, Hkv, D in ((1, 8, 4, 6), (3, 5, 1, 2), (2, 3, 3, 10)):
        shape = Shape(num_heads=H, num_kv_heads=Hkv, head_dim=D, width=7, base=40.0)
        layer, x = LentLayer(shape, rng), sequences(rng, shape, B, T=5)
        want = recompute_layer(layer, x)[0]
        label = f"{H} heads, {Hkv} KV heads"
        runs.append(run(subject, layer, LentLayerCache(B, shape, 5), x, want, [2, 3], label))
    for both in zip(*runs, strict=True):  # by turns, as the layers of a model
        yield from both
    layer, texts = LentLayer(SHAPE, rng), [sequences(rng, SHAPE, T=6) for _ in range(2)]
    runs = [
        run(subject, layer, LentLayerCache(len(x), SHAPE, 6), x, recompute_layer(layer, x)[0], sizes, label)
        for x, sizes, label in zip(texts, ([2, 3, 1], [3, 1, 2]), ("one text", "another text, same layer"), strict=True)
    ]
    for findings in zip(*runs, strict=True):  # by turns, as the texts that a server works on
        yield from findings


EXERCISE = Exercise(
    id="5.3",
    name="attend_chunk",
    title="A chunk through one layer",
    goal="Attend from any number of new tokens over all that is held, and leave the cache ready for the next chunk.",
    points=6,
    minutes=25,
    difficulty=4,
    hints=(
        "Ask for `len(cache)` first: it is the position of the chunk's first token, and `append` changes it. "
        "The chunk's positions are `torch.arange(start, start + T)`; the keys' are `torch.arange(start + T)`.",
        "Project q, k and v once each. Turn q and k, not v, with `layer.rotate(..., positions)`, and only then append: "
        "`K, V = cache.append(k, v)` gives all tokens so far. The mask comes from `visible`, by the positions of both.",
        "`q = layer.rotate(layer.project_q(x), positions)`, `k = layer.rotate(layer.project_k(x), positions)`, "
        "`K, V = cache.append(k, layer.project_v(x))`, then "
        "`return layer.project_o(gqa_attend(q, K, V, visible(positions, torch.arange(start + T))))`.",
    ),
    stages=(one_prompt, token_by_token, chunks, what_is_kept, rows_computed, another_layer),
    reference=Later("kvlib.attend_chunk", "attend_chunk"),
    mistakes=MISTAKES,
    variants=VARIANTS,
    tensors=True,
)
