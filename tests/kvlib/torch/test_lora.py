"""Adapters: what they add, and what they do to rows that the model without them has made."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from kvlib.generate import forward  # noqa: E402
from kvlib.gqa_cache import GQACache  # noqa: E402
from kvlib.lora import MATRICES, Adapter, random_adapter, with_adapter  # noqa: E402


def cache_of(model, tokens) -> GQACache:
    """A cache that holds these tokens' rows."""
    c = model.config
    cache = GQACache(c.num_layers, tokens.shape[0], c.num_kv_heads, tokens.shape[1] + 2, c.head_dim, torch.float64)
    cache.buffer.zero_()
    forward(model, cache, tokens)
    return cache


def adapter_of(model, rng, names=None, rank=2) -> Adapter:
    return random_adapter(model.config, rank, rng, names, dtype=torch.float64)


def test_what_is_added(make_model, rng):
    model = make_model()
    adapter = adapter_of(model, rng, rank=3)
    tuned = with_adapter(model, adapter)
    assert set(adapter.pairs) == {f"{i}.{name}" for i in range(3) for name in MATRICES}
    for name, weight in model.weights.items():
        added = tuned.weights[name] - weight
        if name not in adapter.pairs:
            assert torch.equal(tuned.weights[name], weight)
            continue
        A, B = adapter.pairs[name]
        assert A.shape == (3, weight.shape[1]) and B.shape == (weight.shape[0], 3)
        assert torch.allclose(added, B @ A, atol=1e-12) and torch.linalg.matrix_rank(added) == 3
    assert adapter.num_parameters == sum(3 * sum(model.weights[name].shape) for name in adapter.pairs)


def test_scale_and_strength(make_model, rng):
    model = make_model(width=400)
    A, B = adapter_of(model, rng, ["0.up"]).pairs["0.up"]
    twice = with_adapter(model, Adapter({"0.up": (A, B)}, scale=2.0)).weights["0.up"] - model.weights["0.up"]
    assert torch.allclose(twice, 2 * (B @ A), atol=1e-12)
    assert (B @ A).std() == pytest.approx(0.5 / 400**0.5, rel=0.4)


def test_the_model_stays_as_it_was(make_model, make_tokens, rng):
    model, tokens = make_model(), make_tokens(2, 7)
    before = model.logits(tokens)
    tuned = with_adapter(model, adapter_of(model, rng))
    assert torch.equal(model.logits(tokens), before)
    assert (tuned.logits(tokens) - before).abs().max() > 0.1


def test_rows_of_the_base_under_an_adapter_are_wrong_in_silence(make_model, make_tokens, rng):
    model, tokens = make_model(), make_tokens(2, 9)
    tuned = with_adapter(model, adapter_of(model, rng))
    right = tuned.logits(tokens)[:, -1:]
    own = forward(tuned, cache_of(tuned, tokens[:, :-1]), tokens[:, -1:])
    assert torch.allclose(own, right, atol=1e-10)
    reused = forward(tuned, cache_of(model, tokens[:, :-1]), tokens[:, -1:])
    assert torch.isfinite(reused).all() and (reused - right).abs().max() > 0.1


@pytest.mark.parametrize(
    "names", [["2.o"], ["2.gate"], ["2.up", "2.down"], ["2.o", "2.gate", "2.up", "2.down"], ["2.q"]]
)
def test_behind_the_last_layers_rows_an_adapter_changes_none(make_model, make_tokens, rng, names):
    model, tokens = make_model(), make_tokens(2, 9)
    tuned = with_adapter(model, adapter_of(model, rng, names))
    held = cache_of(model, tokens[:, :-1])
    assert torch.equal(held.buffer, cache_of(tuned, tokens[:, :-1]).buffer)
    right = tuned.logits(tokens)[:, -1:]
    assert (right - model.logits(tokens)[:, -1:]).abs().max() > 1e-3
    assert torch.allclose(forward(tuned, held, tokens[:, -1:]), right, atol=1e-10)


@pytest.mark.parametrize("name", ["2.k", "2.v", "1.o", "0.gate"])
def test_before_them_it_changes_some(make_model, make_tokens, rng, name):
    model, tokens = make_model(), make_tokens(1, 6)
    tuned = with_adapter(model, adapter_of(model, rng, [name]))
    changed = cache_of(model, tokens).buffer != cache_of(tuned, tokens).buffer
    assert changed.any() and not changed[:, : int(name[0])].any()  # layers before it keep theirs


def test_refusals(make_model, rng):
    model = make_model()
    with pytest.raises(ValueError, match="rank must be at least 1, got 0"):
        adapter_of(model, rng, rank=0)
    for name in ("3.q", "norm1", "0.norm1", "embedding", "0.x"):
        with pytest.raises(ValueError, match="matrices of blocks"):
            adapter_of(model, rng, [name])
    adapter = adapter_of(make_model(num_layers=4), rng, ["3.q"])
    with pytest.raises(ValueError, match="the model has nothing"):
        with_adapter(model, adapter)
    with pytest.raises(ValueError, match="the adapter changes '0.q' of shape"):
        with_adapter(model, adapter_of(make_model(width=12), rng, ["0.q"]))
