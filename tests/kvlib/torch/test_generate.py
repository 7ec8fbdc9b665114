"""Greedy generation: cached and uncached make the same tokens, with the published work and bytes."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from kvlib.counts import count_positions  # noqa: E402
from kvlib.generate import greedy  # noqa: E402
from kvlib.gqa_cache import GQACache  # noqa: E402
from kvlib.transformer import Transformer, TransformerConfig  # noqa: E402


def test_the_published_size(facts, record_property):
    """1,087 positions through the cache against one full forward pass over all of them.

    Full recomputation at each step would be 589,312 positions. Causality makes one pass over the whole sequence say the
    same: row t of it has seen the tokens up to t and no other.
    """
    f1 = facts["F1"]
    H, Hkv = f1["num_heads"], f1["num_kv_heads"]
    D = f1["width"] // H
    config = TransformerConfig(f1["num_layers"], f1["width"], H, Hkv, D, hidden=1024, vocab_size=1000)
    seeded = torch.Generator().manual_seed(0)
    model = Transformer.random(config, seeded)
    prompt = torch.randint(1000, (1, f1["prompt"]), generator=seeded)
    cache = GQACache(f1["num_layers"], 1, Hkv, f1["positions"], D)

    made = greedy(model, prompt, f1["new"], cache)

    assert len(cache) == made.positions == f1["positions"]
    assert cache.nbytes == f1["bytes"] == f1["positions"] * f1["bytes_per_token"]
    full = model.logits(torch.cat([prompt, made.tokens[:, :-1]], dim=1))[:, f1["prompt"] - 1 :]  # (1, 1024, 1000)
    assert int((full.argmax(dim=-1) == made.tokens).sum()) == f1["same_tokens"]
    difference = float((full - made.logits).abs().max())
    record_property("largest logit difference", difference)
    assert f1["difference"] / 10 < difference < f1["difference"] * 20  # above zero: these are two ways, not one twice
    assert len(made.tokens.unique()) > 100  # a model stuck on one token would agree with anything


@pytest.mark.parametrize(("prompt", "new"), [(3, 5), (1, 4), (4, 1)])
def test_cached_and_uncached_make_the_same_for_the_counted_work(make_model, make_tokens, prompt, new):
    model, tokens = make_model(), make_tokens(2, prompt)
    uncached = greedy(model, tokens, new)
    cached = greedy(model, tokens, new, GQACache(3, 2, 2, prompt + new - 1, 8, torch.float64))
    assert torch.equal(uncached.tokens, cached.tokens)
    assert uncached.tokens.shape == (2, new) and uncached.logits.shape == (2, new, 13)
    torch.testing.assert_close(uncached.logits, cached.logits, atol=1e-12, rtol=0)
    assert torch.equal(cached.logits.argmax(dim=-1), cached.tokens)
    assert (uncached.positions, cached.positions) == count_positions(prompt, new)


def test_it_goes_on_where_the_cache_ends(make_model, make_tokens):
    model, tokens = make_model(), make_tokens(2, 4)
    cache = GQACache(3, 2, 2, 20, 8, torch.float64)
    first = greedy(model, tokens, 3, cache)
    second = greedy(model, first.tokens[:, -1:], 2, cache)
    want = greedy(model, tokens, 5)
    assert torch.equal(torch.cat([first.tokens, second.tokens], dim=1), want.tokens)
    assert first.positions + second.positions == len(cache) == 8


def test_without_room_for_all_of_it_nothing_is_done(make_model, make_tokens):
    model, tokens = make_model(), make_tokens(2, 4)
    cache = GQACache(3, 2, 2, 8, 8, torch.float64)
    assert greedy(model, tokens, 5, cache).positions == 8
    cache.reset()
    before = cache.buffer.numpy().tobytes()
    with pytest.raises(ValueError, match=r"holds 0 of 8 tokens, 4 \+ 6 - 1 more asked"):
        greedy(model, tokens, 6, cache)
    assert (len(cache), cache.buffer.numpy().tobytes()) == (0, before)


@pytest.mark.parametrize("new", [0, -1])
def test_no_tokens_are_refused(make_model, make_tokens, new):
    with pytest.raises(ValueError, match=f"new must be at least 1 token, got {new}"):
        greedy(make_model(), make_tokens(2, 4), new)
