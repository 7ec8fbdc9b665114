"""The decoder against the oracle, and the oracle's independence."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import numpy as np
import pytest

import kvlib.recompute
from kvlib.attention import attend, causal_mask
from kvlib.decoder import Block, Decoder, DecoderConfig
from kvlib.recompute import recompute_block, recompute_logits

CLOSE = {"atol": 1e-10, "rtol": 1e-10}
TOKENS = [3, 3, 0, 6, 1, 5, 3]


@pytest.mark.parametrize("num_layers", [1, 2, 3])
def test_logits_equal_recomputation(make_model, num_layers):
    model = make_model(num_layers)
    got = model.logits(TOKENS)
    assert got.shape == (7, 7)
    assert (model.num_layers, model.vocab_size, model.width, model.max_len) == (num_layers, 7, 5, 13)
    assert len(model.blocks) == num_layers
    np.testing.assert_allclose(got, recompute_logits(model.weights, TOKENS), **CLOSE)


@pytest.mark.parametrize("layer", [0, 1])
def test_a_block_equals_its_recomputation(make_model, rng, layer):
    model, x = make_model(2), rng.normal(size=(7, 5))
    block = model.blocks[layer]
    h = block.norm(x)
    got = block.finish(x, attend(block.project_q(h), block.project_k(h), block.project_v(h), causal_mask(7)))
    np.testing.assert_allclose(got, recompute_block(model.weights, layer, x), **CLOSE)


def test_each_row_of_a_block_is_on_its_own(make_model, rng):
    block, x, attended = make_model().blocks[0], rng.normal(size=(7, 5)), rng.normal(size=(7, 5))
    for f in (block.norm, block.project_q, block.project_k, block.project_v):
        np.testing.assert_allclose(f(x[2]), f(x)[2], **CLOSE)
    np.testing.assert_allclose(block.finish(x[2], attended[2]), block.finish(x, attended)[2], **CLOSE)


def test_a_later_token_changes_nothing_before_it(make_model):
    """Why a key may be kept at all: position i of every layer depends on the tokens up to i alone."""
    model = make_model(3)
    np.testing.assert_allclose(model.logits(TOKENS)[:4], model.logits(TOKENS[:4]), **CLOSE)
    np.testing.assert_allclose(recompute_logits(model.weights, TOKENS)[:4], model.logits(TOKENS[:4]), **CLOSE)


def test_without_the_causal_mask_it_does(make_model):
    """The other half of the reason: from the second layer on, keys would change with every later token."""
    model = make_model(2)

    def second_keys(tokens):
        x = np.stack([model.embed(token, position) for position, token in enumerate(tokens)])
        first, second = model.blocks
        h = first.norm(x)
        x = first.finish(x, attend(first.project_q(h), first.project_k(h), first.project_v(h)))
        return second.project_k(second.norm(x))

    assert np.abs(second_keys(TOKENS)[:4] - second_keys(TOKENS[:4])).max() > 1e-3


def test_an_earlier_token_changes_everything_after_it(make_model):
    model = make_model(1)
    changed = np.abs(model.logits([4, *TOKENS[1:]]) - model.logits(TOKENS)).max(axis=-1)
    assert (changed > 1e-6).all()


@pytest.mark.parametrize("name", ["q", "k", "v", "o", "up", "down", "norm1", "norm2"])
@pytest.mark.parametrize("layer", [0, 1])
def test_every_weight_matters_to_both(make_model, rng, layer, name):
    """A weight that neither reads would let both be wrong together."""
    model = make_model(2)
    name = f"{layer}.{name}"
    changed = model.weights | {name: model.weights[name] + rng.normal(size=model.weights[name].shape)}
    other = Decoder(model.config, changed)
    assert np.abs(other.logits(TOKENS) - model.logits(TOKENS)).max() > 1e-3
    np.testing.assert_allclose(other.logits(TOKENS), recompute_logits(changed, TOKENS), **CLOSE)


def test_embed_adds_the_two_rows(make_model):
    model = make_model()
    want = model.weights["embedding"][6] + model.weights["positions"][12]
    np.testing.assert_array_equal(model.embed(6, 12), want)
    np.testing.assert_array_equal(model.embed(np.int64(6), np.int32(12)), want)  # as from argmax


@pytest.mark.parametrize("token", [-1, 7, True, np.True_, 2.0, np.float64(2), "2", None])
def test_a_bad_token_is_refused(make_model, token):
    with pytest.raises(ValueError, match=r"token must be a whole number from 0 to 6, got"):
        make_model().embed(token, 0)


@pytest.mark.parametrize("position", [-1, 13, False, 0.0])
def test_a_bad_position_is_refused(make_model, position):
    with pytest.raises(ValueError, match=rf"position must be a whole number from 0 to 12, got {position}"):
        make_model().embed(0, position)


def test_the_whole_forward_refuses_too(make_model):
    model = make_model(max_len=3)
    with pytest.raises(ValueError, match="position must be a whole number from 0 to 2, got 3"):
        model.logits([0, 1, 2, 3])
    with pytest.raises(ValueError, match="from 0 to 6, got -1"):
        model.logits([0, -1])


def test_weights_must_be_there_and_fit(make_model):
    model = make_model()
    without = {name: weight for name, weight in model.weights.items() if name != "0.up"}
    with pytest.raises(ValueError, match=r"weight '0.up' must have shape \(5, 11\), got nothing"):
        Decoder(model.config, without)
    turned = model.weights | {"unembedding": model.weights["unembedding"].T}
    with pytest.raises(ValueError, match=r"'unembedding' must have shape \(5, 7\), got \(7, 5\)"):
        Decoder(model.config, turned)


def test_sizes_must_be_at_least_one():
    with pytest.raises(ValueError, match="num_layers must be at least 1, got 0"):
        DecoderConfig(num_layers=0, vocab_size=7, width=5, hidden=11, max_len=13)


def test_random_models_are_reproducible_and_not_flat():
    config = DecoderConfig(num_layers=2, vocab_size=7, width=5, hidden=11, max_len=13)
    first, again, other = (Decoder.random(config, np.random.default_rng(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.logits(TOKENS), again.logits(TOKENS))
    assert np.abs(first.logits(TOKENS) - other.logits(TOKENS)).max() > 0.1
    assert first.logits(TOKENS).std(axis=0).min() > 0.05
    assert all(weight.dtype == np.float64 for weight in first.weights.values())


def test_norms_come_from_the_right_weights(make_model):
    block = make_model().blocks[0]
    assert isinstance(block, Block)
    h = block.norm(np.array([3.0, 0.0, 0.0, 0.0, 4.0]))
    np.testing.assert_allclose(h, np.array([3.0, 0, 0, 0, 4.0]) / np.sqrt(5) * block.norm1, rtol=1e-6)


# ---- the oracle ------------------------------------------------------------------------------------------------------


def test_the_oracle_imports_nothing_from_the_rest_of_kvlib():
    tree = ast.parse(Path(kvlib.recompute.__file__).read_text(encoding="utf-8"))
    modules = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "a relative import is one from kvlib"
            modules.add(node.module.split(".")[0])
    assert modules - set(sys.stdlib_module_names) == {"numpy"}


def test_the_oracle_calculates_without_numpy():
    """NumPy only takes arrays apart at its door and puts them together again: no product, no exp, no sum."""
    tree = ast.parse(Path(kvlib.recompute.__file__).read_text(encoding="utf-8"))
    attributes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    used = {node.attr for node in attributes if isinstance(node.value, ast.Name) and node.value.id == "np"}
    assert used == {"array", "asarray", "float64", "ndarray"}
    assert not any(isinstance(node, ast.MatMult) for node in ast.walk(tree))


def test_the_oracle_refuses_what_has_no_row(make_model):
    weights = make_model(max_len=3).weights
    with pytest.raises(ValueError, match="token -1 has no row in a table of 7"):
        recompute_logits(weights, [0, -1])
    with pytest.raises(ValueError, match="position 3 has no row in a table of 3"):
        recompute_logits(weights, [0, 1, 2, 3])


def test_the_oracle_does_not_hide_a_nan(make_model):
    """max(0.0, nan) is 0.0 in Python: a relu written that way round would make a poisoned number look well."""
    model = make_model()
    poisoned = model.weights | {"0.up": np.full((5, 11), np.nan)}
    assert np.isnan(recompute_logits(poisoned, [0, 1])).all()
