"""Other numbers in the cache, and not one bit of the logits changed."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from kvlib.rescale import rescale, rescale_model  # noqa: E402
from kvlib.stored import divergence, perplexity, stored_logits  # noqa: E402
from kvlib.transformer import Transformer, TransformerConfig  # noqa: E402

CONFIG = TransformerConfig(2, 16, 6, 2, 4, 11, 13, rope_base=100.0)
TOKENS = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6]])


@pytest.fixture
def model(rng):
    return Transformer.random(CONFIG, rng)


def raw(x):
    return x.clamp(-448, 448).to(torch.float8_e4m3fn).to(x.dtype)


def scaled(x):
    scale = x.abs().amax(-1, keepdim=True) / 448
    return raw(x / scale) * scale


@pytest.mark.parametrize("powers", [(6, 0), (0, -10), (-3, 7), (0, 0)])
def test_the_logits_are_the_same_to_the_last_bit(model, powers):
    seen = {}
    for name, one in (("before", model), ("after", rescale_model(model, *powers))):
        kept = []
        logits = stored_logits(one, TOKENS, lambda rows, kept=kept: kept.append(rows) or rows)
        seen[name] = (logits, kept)
    assert torch.equal(seen["before"][0], seen["after"][0])
    for i, (before, after) in enumerate(zip(seen["before"][1], seen["after"][1], strict=True)):
        assert torch.equal(after, before * 2.0 ** powers[i % 2])  # keys, values, keys, values


def test_scaled_fp8_does_not_notice_and_unscaled_does(model):
    right = model.logits(TOKENS)
    small = rescale_model(model, 0, -10)
    assert torch.equal(stored_logits(small, TOKENS, scaled), stored_logits(model, TOKENS, scaled))
    assert divergence(stored_logits(small, TOKENS, raw), right) > 10 * divergence(
        stored_logits(model, TOKENS, raw), right
    )


def test_stored_logits_are_the_models_own_when_nothing_is_changed(model):
    assert torch.allclose(stored_logits(model, TOKENS, lambda rows: rows), model.logits(TOKENS), atol=1e-6)


def test_perplexity_and_divergence_by_hand():
    tokens = torch.tensor([[0, 1, 1]])
    sure = torch.tensor([[[0.0, 30.0], [0.0, 30.0], [0.0, 0.0]]])
    assert perplexity(sure, tokens) == pytest.approx(1.0)
    assert perplexity(torch.zeros(1, 3, 2), tokens) == pytest.approx(2.0)
    assert divergence(sure, sure) == 0.0
    p = torch.tensor([[[0.25, 0.75]]]).log()
    wanted = 0.25 * math.log(0.25 / 0.5) + 0.75 * math.log(0.75 / 0.5)
    assert divergence(torch.zeros(1, 1, 2), p) == pytest.approx(wanted)


@pytest.mark.parametrize("powers", [(0.5, 0), (0, 1.0), (True, 0), ("2", 0), (0, None)])
def test_a_power_that_is_not_whole_is_refused(model, powers):
    weights = {name: model.weights[f"0.{name}"] for name in "qkvo"}
    with pytest.raises(ValueError, match="whole number"):
        rescale(weights, *powers)


def test_biases_follow_what_they_are_added_to(draw):
    weights = {name: draw(3) for name in ("q_bias", "k_bias", "v_bias", "o_bias", "norm1")}
    got = rescale(weights, 2, 3)
    factors = {"q_bias": 1 / 4, "k_bias": 4, "v_bias": 8, "o_bias": 1, "norm1": 1}
    assert all(torch.equal(got[name], weights[name] * factor) for name, factor in factors.items())
