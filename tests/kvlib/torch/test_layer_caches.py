"""Layers put together behind the interface of the cache of lesson 04."""

from __future__ import annotations

import os

import pytest

torch = pytest.importorskip("torch")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from kvlib.cache_layer import CacheLayer  # noqa: E402
from kvlib.generate import forward, greedy  # noqa: E402
from kvlib.layer_caches import LayerCaches  # noqa: E402


def make(num_layers=3, max_len=12):
    return LayerCaches([CacheLayer(max_len) for _ in range(num_layers)])


@pytest.mark.parametrize("widths", [[9], [1] * 9, [3, 2, 4]], ids=str)
def test_the_decoder_gives_the_logits_of_full_recomputation(make_model, make_tokens, widths):
    model, tokens, cache = make_model(), make_tokens(2, 9), make()
    got = torch.cat([forward(model, cache, chunk) for chunk in tokens.split(widths, dim=1)], dim=1)
    torch.testing.assert_close(got, model.logits(tokens), atol=1e-12, rtol=0)
    assert len(cache) == 9
    assert cache.bytes_per_token == 2 * 3 * 2 * 2 * 8 * 8  # K and V, L, B, Hkv, D, s


def test_greedy_makes_the_same_tokens_and_asks_for_room_first(make_model, make_tokens):
    model, tokens = make_model(), make_tokens(2, 5)
    assert torch.equal(greedy(model, tokens, 8, make()).tokens, greedy(model, tokens, 8).tokens)
    cache = make()
    with pytest.raises(ValueError, match="more asked"):
        greedy(model, tokens, 9, cache)
    assert len(cache) == 0 and not cache.can_append(13) and cache.can_append(12) and not cache.can_append(-1)


def test_a_pass_that_broke_off_is_run_again(make_model, make_tokens, draw):
    model, tokens, cache = make_model(), make_tokens(2, 7), make()
    forward(model, cache, tokens[:, :4])
    cache.append(0, draw(2, 2, 3, 8), draw(2, 2, 3, 8))  # and then something raised
    with pytest.raises(ValueError, match=r"they hold \[7, 4, 4\]"):
        cache.advance(3)
    assert len(cache) == 4
    got = forward(model, cache, tokens[:, 4:])
    torch.testing.assert_close(got, model.logits(tokens)[:, 4:], atol=1e-12, rtol=0)


def test_tokens_can_be_taken_back(make_model, make_tokens):
    model, tokens, cache = make_model(), make_tokens(2, 7), make()
    forward(model, cache, make_tokens(2, 9))
    cache.reset()
    forward(model, cache, torch.cat((tokens[:, :3], make_tokens(2, 5)), dim=1))
    cache.truncate(3)
    got = forward(model, cache, tokens[:, 3:])
    torch.testing.assert_close(got, model.logits(tokens)[:, 3:], atol=1e-12, rtol=0)
    for length in (-1, 8):
        with pytest.raises(ValueError, match="cannot be cut"):
            cache.truncate(length)


def test_refusals(draw):
    with pytest.raises(ValueError, match="got 0 layers"):
        LayerCaches([])
    used = CacheLayer(3)
    used.update(draw(1, 1, 1, 1), draw(1, 1, 1, 1))
    with pytest.raises(ValueError, match="holds nothing"):
        LayerCaches([CacheLayer(3), used])
    cache = make()
    for layer in (-1, 3):
        with pytest.raises(ValueError, match="0 to 2"):
            cache.append(layer, draw(1, 1, 1, 1), draw(1, 1, 1, 1))
    with pytest.raises(ValueError, match="advance by -1"):
        cache.advance(-1)


def test_layers_of_transformers_fit_as_well(make_model, make_tokens):
    """The interface is theirs, so theirs can be put in our place."""
    cache_utils = pytest.importorskip("transformers.cache_utils")
    model, tokens = make_model(), make_tokens(2, 7)
    cache = LayerCaches([cache_utils.DynamicLayer() for _ in range(3)])
    assert cache.can_append(10**6)
    got = torch.cat([forward(model, cache, chunk) for chunk in tokens.split([3, 2, 2], dim=1)], dim=1)
    torch.testing.assert_close(got, model.logits(tokens), atol=1e-12, rtol=0)
