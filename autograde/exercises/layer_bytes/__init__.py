"""Exercise 3.4: a cache whose layers differ."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from autograde.exercise import Exercise, stage
from autograde.exercises.layer_bytes.candidates import MISTAKES, VARIANTS
from autograde.exercises.scalars import refused
from autograde.exercises.sizes import primes, whole
from autograde.finding import Finding
from autograde.subject import Subject
from kvlib.sizing.layers import layer_bytes

Layer = dict[str, Any]


def _full(heads: int, dim: int) -> Layer:
    return {"kind": "full", "num_kv_heads": heads, "head_dim": dim}


def _window(heads: int, dim: int, window: int) -> Layer:
    return {"kind": "window", "num_kv_heads": heads, "head_dim": dim, "window": window}


def _latent(rank: int, rope: int, heads: int = 2) -> Layer:
    return {"kind": "latent", "num_attention_heads": heads, "kv_lora_rank": rank, "qk_rope_head_dim": rope}


def _state(size: int) -> Layer:
    return {"kind": "state", "state_bytes": size}


SHARED = {"kind": "shared"}


def _by_adding(layers: list[Layer], tokens: int, width: int) -> int:
    """Add up what lies in each layer, array by array."""
    total = 0
    for layer in layers:
        held = range(tokens)  # the positions of the tokens
        if layer["kind"] == "window":
            held = held[-layer["window"] :]
        if layer["kind"] == "state":
            total += layer["state_bytes"]
        elif layer["kind"] == "latent":
            total += len(held) * layer["kv_lora_rank"] * width
            total += len(held) * layer["qk_rope_head_dim"] * width
        elif layer["kind"] != "shared":
            for _array in ("K", "V"):
                total += len(held) * layer["num_kv_heads"] * layer["head_dim"] * width
    return total


def _in_words(layers: list[Layer]) -> str:
    """The layers as the text describes them, or the kinds alone where there are many."""
    if len(layers) > 5:
        return ", ".join(str(layer["kind"]) for layer in layers[:5]) + f" and {len(layers) - 5} more"
    fields = [", ".join(f"{name} {value}" for name, value in layer.items() if name != "kind") for layer in layers]
    if len(layers) > 1:
        fields = [" ".join(str(value) for name, value in layer.items() if name != "kind") for layer in layers]
    return ", ".join(
        f"{layer['kind']} ({text})" if text else "shared" for layer, text in zip(layers, fields, strict=True)
    )


def _ask(subject: Subject, layers: list[Layer], tokens: int, width: int) -> Finding:
    call = f"layers {_in_words(layers)}; {tokens} tokens, {width} bytes each"
    got = subject.run(layers, tokens, width)
    return whole(subject, got, _by_adding(layers, tokens, width), key="bytes", fact="the bytes are right", call=call)


@stage("full layers", why="The plain case: a key and a value for each KV head and token, layer by layer.")
def full_layers(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    heads, dim, tokens, other, more = primes(rng, 5)
    yield _ask(subject, [_full(heads, dim)], tokens, 4)
    yield _ask(subject, [_full(heads, dim), _full(other, dim), _full(other, more), _full(heads, dim)], tokens, 2)
    yield _ask(subject, [_full(heads, dim)], tokens, 1)


@stage("windows", why="Half of Gemma 2's layers look back 4,096 tokens only; what lies further back need not be kept.")
def windows(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    heads, dim, window, other, more = primes(rng, 5)
    for tokens in (window - 2, window, window + 29):
        yield _ask(subject, [_window(heads, dim, window)], tokens, 2)
    mixed = [_window(heads, dim, window), _full(other, more), _window(other, dim, window + 2), _full(heads, dim)]
    for tokens in (window + 37, window + 1, window - 1):
        yield _ask(subject, mixed, tokens, 4)


@stage("latents", why="DeepSeek's MLA keeps one latent for all heads, and one key with the position in it.")
def latents(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    rank, rope, tokens, heads = primes(rng, 4)
    yield _ask(subject, [_latent(rank, rope, heads)], tokens, 4)
    yield _ask(subject, [_latent(rank, rope, heads), _full(heads, rope), _latent(rope, rank, heads)], tokens, 2)


@stage(
    "states and shared layers", why="A recurrent layer stays as it is however long the text; a shared one adds none."
)
def states_and_shared_layers(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    heads, dim, tokens, size, window = primes(rng, 5)
    size *= 101
    yield _ask(subject, [_state(size)], tokens, 4)
    yield _ask(subject, [_full(heads, dim), _state(size), _full(dim, heads + 1)], tokens, 2)
    yield _ask(subject, [_state(size), _full(heads, dim)], 0, 2)
    yield _ask(subject, [_full(heads, dim), SHARED, _full(heads + 2, dim), SHARED, SHARED], tokens, 2)
    yield _ask(subject, [_window(heads, dim, window), SHARED, _latent(heads, dim), SHARED, _state(size)], tokens, 1)
    everything = {**_window(heads, dim, 2), **_latent(heads + 1, dim), **_state(size), "layer_types": "full"}
    for layer in (_full(heads, dim), SHARED, _state(size), _latent(dim, heads), _window(heads, dim, 3)):
        yield _ask(subject, [{**everything, **layer}], tokens, 2)  # other fields say nothing


@stage("whole models", why="Bytes per token times tokens, which holds for a plain model, is wrong for each of these.")
def whole_models(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    gemma = [_window(16, 128, 4096), _full(16, 128)] * 23  # Gemma-2-27B
    for tokens in (5000, 8192, 1000):
        yield _ask(subject, gemma, tokens, 2)
    yield _ask(subject, [_latent(512, 64, 128)] * 61, 100, 2)  # DeepSeek-V3
    yield _ask(subject, ([_state(1_000_003)] * 7 + [_full(8, 128)]) * 4, 511, 2)
    yield _ask(subject, [_full(4, 128), SHARED] * 5, 257, 2)
    kept = subject.call(subject.put(np.zeros(0)), "tolist", keep=True)  # a list on the other side
    pair = [_window(16, 128, 4096), _full(16, 128)]
    for layer in pair:
        subject.call(kept, "append", layer)
    many = subject.call(kept, "__mul__", 3, keep=True)  # the same two dicts, three times
    for tokens in (1000, 5000):
        want, fact = _by_adding(pair * 3, tokens, 2), "the same layers are counted as before, each time they come"
        call = f"one list of layers, first for 1000 tokens, then for 5000; now {tokens}"
        yield whole(subject, subject.run(many, tokens, 2), want, key=f"again {tokens}", fact=fact, call=call)


def _refused_by_name(subject: Subject, kind: object, layers: list[Layer], tokens: int, what: str) -> Finding:
    """Whether an unknown kind is refused, in words that name it."""
    message: list[str] = []
    finding = refused(subject, layers, tokens, 2, key=what, what=what, message=message)
    if not finding.ok or str(kind) in message[0]:
        return finding
    fact, got = f"{what} is refused, but the message does not name it", f"ValueError: {message[0]}"[:80]
    return Finding(False, f"name of {what}", fact, expected=f"{kind!r} in it", got=got, events=len(subject.record))


@stage("unknown kinds", why="A kind that is passed over in silence is a plan with memory missing.")
def unknown_kinds(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    heads, dim, tokens = primes(rng, 3)
    good = [_full(heads, dim), _window(heads, dim, 2), _latent(heads, dim), _state(heads), SHARED]
    yield _ask(subject, good, tokens, 2)
    everything = {**_window(heads, dim, 2), **_latent(heads, dim), **_state(heads)}
    for kind in ("linear", "Full", "sliding_window", None):
        for layers in ([{**everything, "kind": kind}], [*good, {**everything, "kind": kind}]):
            what = f"a layer of kind {kind!r}" + (" after others" if len(layers) > 1 else "")
            yield _refused_by_name(subject, kind, layers, tokens, what)
    yield _ask(subject, good, tokens, 4)


EXERCISE = Exercise(
    id="3.4",
    name="layer_bytes",
    title="When layers differ",
    goal="Count the bytes of one sequence in a model whose layers keep different things.",
    points=4,
    minutes=15,
    difficulty=3,
    hints=(
        "Go through the layers, and for each ask two things: how many tokens does it hold, and what does it keep for "
        "each of them?",
        "A window holds `min(num_tokens, window)` tokens. A latent layer keeps `kv_lora_rank + qk_rope_head_dim` "
        "elements for each token, once. A state is in bytes already, and a shared layer adds 0.",
        "A chain of `if kind == ...`, `elif ...` inside a loop, each adding to `total`, and at its end "
        '`else: raise ValueError(f"unknown kind {kind!r}")`. Put `min(num_tokens, window)` into a variable of its '
        "own: `num_tokens` is needed for the next layer.",
    ),
    stages=(full_layers, windows, latents, states_and_shared_layers, whole_models, unknown_kinds),
    reference=layer_bytes,
    mistakes=MISTAKES,
    variants=VARIANTS,
)
