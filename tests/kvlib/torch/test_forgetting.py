"""Forgetting: policies against loops, real caches against policies, and what goes when a needle is forgotten."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from kvlib import smollm2  # noqa: E402
from kvlib.forgetting import (  # noqa: E402
    everything,
    forgetful_logits,
    found,
    heavy_hitters,
    logits_by_layer,
    logits_with,
    mass_on_first,
    paged_logits,
    perplexity_at,
    window,
)
from kvlib.fp8 import from_fp8, scales, to_fp8  # noqa: E402
from kvlib.heavy_hitters import HeavyHitters  # noqa: E402
from kvlib.move_keys import move_keys  # noqa: E402
from kvlib.needles import CHAIN, sample_questions, sample_texts  # noqa: E402
from kvlib.paged_layers import PagedLayers  # noqa: E402
from kvlib.rescale import rescale_model  # noqa: E402
from kvlib.sink_cache import SinkCache  # noqa: E402
from kvlib.stored import perplexity, stored_logits  # noqa: E402
from kvlib.tiny_model import load_tiny  # noqa: E402


@pytest.fixture
def text():
    return sample_texts(20, 257, torch.Generator().manual_seed(5))


@pytest.fixture
def questions():
    return sample_questions(100, 200, 80, torch.Generator().manual_seed(3))


@pytest.mark.parametrize(("size", "sinks"), [(3, 0), (3, 2), (1, 0), (50, 4)])
def test_a_window_keeps_the_newest_and_the_first(size, sinks, draw):
    mask = window(size, sinks)(draw(1, 4, 11, 6), draw(1, 2, 11, 6))
    for t in range(11):
        kept = [s for s in range(t + 1) if s < sinks or s > t - size]
        assert mask[t].nonzero()[:, 0].tolist() == kept


@pytest.mark.parametrize(("budget", "recent"), [(5, 2), (4, 3), (2, 1)])
def test_heavy_hitters_lose_what_got_least_attention(budget, recent, draw):
    B, H, Hkv, T, D = 2, 6, 2, 13, 4
    q, k = 2 * draw(B, H, T, D), draw(B, Hkv, T, D)
    mask = heavy_hitters(budget, recent)(q, k)
    for b in range(B):
        for shared in range(Hkv):
            kept: list[int] = []
            totals: dict[int, float] = {}
            for t in range(T):
                kept.append(t)
                for h in range(shared * H // Hkv, (shared + 1) * H // Hkv):
                    assert mask[b, h, t].nonzero()[:, 0].tolist() == kept
                    powers = [math.exp(float(q[b, h, t] @ k[b, shared, s]) / math.sqrt(D)) for s in kept]
                    for s, power in zip(kept, powers, strict=True):
                        totals[s] = totals.get(s, 0.0) + power / sum(powers)
                if len(kept) > budget:
                    kept.remove(min((s for s in kept if s <= t - recent), key=totals.__getitem__))


@pytest.mark.parametrize(("size", "sinks"), [(0, 0), (4, -1), (-2, 3)])
def test_a_window_of_nothing_is_refused(size, sinks):
    with pytest.raises(ValueError, match=f"got {size} and {sinks}"):
        window(size, sinks)


@pytest.mark.parametrize(("budget", "recent"), [(4, 4), (4, 0), (3, 5)])
def test_a_budget_without_choice_is_refused(budget, recent):
    with pytest.raises(ValueError, match=f"got {recent} and {budget}"):
        heavy_hitters(budget, recent)


def test_nothing_forgotten_is_the_models_own_answer(make_model, make_tokens):
    model, tokens = make_model(), make_tokens(2, 9)
    right = model.logits(tokens)
    for policy in (everything, window(9), window(1, 8), heavy_hitters(9, 1)):
        torch.testing.assert_close(forgetful_logits(model, tokens, policy), right, rtol=0, atol=1e-12)
    torch.testing.assert_close(forgetful_logits(model, tokens, start=6), right[:, 6:], rtol=0, atol=1e-12)
    assert (forgetful_logits(model, tokens, window(3)) - right)[:, 3:].abs().amax() > 1e-3


def test_scores_by_hand():
    tokens, chosen = torch.tensor([[0, 1, 1, 0]]), torch.tensor([[True, True, False, True]])
    logits = torch.tensor([[[0.0, math.log(3)], [5.0, 0.0], [math.log(1), math.log(4)], [2.0, 1.0]]])
    # token 1 had 3/4, token 3 had 1/5; the first token is not counted, whatever was chosen
    assert perplexity_at(logits, tokens, chosen) == pytest.approx(math.sqrt(4 / 3 * 5))
    assert found(logits.expand(4, -1, -1), torch.tensor([0, 1, 0, 0])) == 0.75


def test_mass_on_the_first_token_by_hand(make_model, make_tokens):
    model, tokens = make_model(num_layers=1), make_tokens(2, 5)
    q, k, _ = model.blocks[0].qkv(model.embed(tokens), torch.arange(5))
    shares = []
    for b in range(2):
        for h in range(6):
            for t in range(2, 5):
                powers = [math.exp(float(q[b, h, t] @ k[b, h // 3, s]) / math.sqrt(8)) for s in range(t + 1)]
                shares.append(powers[0] / sum(powers))
    assert mass_on_first(model, tokens, start=2) == [pytest.approx(sum(shares) / len(shares))]
    assert mass_on_first(model, tokens[:, :1], start=0) == [pytest.approx(1.0)]


def test_a_real_cache_says_what_its_policy_says(make_model, make_tokens):
    model, tokens = make_model(), make_tokens(1, 17)
    c = model.config
    for sinks, size in ((0, 5), (2, 5), (3, 30)):
        cache = SinkCache(c.num_layers, c.num_kv_heads, c.head_dim, sinks, size)
        right = forgetful_logits(model, tokens, window(size, sinks))[0]
        torch.testing.assert_close(logits_with(model, tokens[0], cache), right, rtol=0, atol=1e-12)
    caches = [HeavyHitters(c.num_kv_heads, c.head_dim, 7, 3) for _ in range(c.num_layers)]
    right = forgetful_logits(model, tokens, heavy_hitters(7, 3))[0]
    torch.testing.assert_close(logits_by_layer(model, tokens[0], caches), right, rtol=0, atol=1e-12)


def test_new_numbers_matter_only_where_there_are_gaps(make_model, make_tokens):
    model, tokens = make_model(), make_tokens(1, 17)
    c = model.config

    def logits(sinks, size, move):
        return logits_with(model, tokens[0], SinkCache(c.num_layers, c.num_kv_heads, c.head_dim, sinks, size), move)

    for sinks, size in ((0, 5), (2, 15)):  # no gap: all distances stay
        torch.testing.assert_close(logits(sinks, size, move_keys), logits(sinks, size, None), rtol=0, atol=1e-12)
    moved = (logits(2, 5, move_keys) - logits(2, 5, None)).abs().amax(-1)
    assert moved[:7].max() < 1e-12 < 1e-4 < moved[7:].min()


def test_a_window_loses_the_needle_and_hides_it_from_the_average(text, questions):
    model, (tokens, wanted) = load_tiny(), questions
    assert found(forgetful_logits(model, tokens), wanted) > 0.98
    assert found(forgetful_logits(model, tokens, window(64)), wanted) < 0.15  # 1 in 24 by guessing
    assert found(forgetful_logits(model, tokens, window(60, 4)), wanted) < 0.15
    assert found(forgetful_logits(model, tokens, window(82)), wanted) > 0.98
    chain = text.kinds == CHAIN
    all_kept = perplexity_at(forgetful_logits(model, text.tokens), text.tokens, chain)
    forgot = perplexity_at(forgetful_logits(model, text.tokens, window(64)), text.tokens, chain)
    assert forgot / all_kept == pytest.approx(1, abs=0.03)


def test_in_a_text_of_few_needles_even_the_whole_average_hides_it():
    text = sample_texts(20, 257, torch.Generator().manual_seed(5), share=0.1)
    kept, forgot = (
        perplexity(forgetful_logits(load_tiny(), text.tokens, policy), text.tokens)
        for policy in (everything, window(64))
    )
    assert forgot / kept == pytest.approx(1, abs=0.03)


def test_heavy_hitters_lose_a_needle_that_nobody_asked_for_yet(questions):
    tokens, wanted = (part[:30] for part in questions)
    assert found(forgetful_logits(load_tiny(), tokens, heavy_hitters(64, 32)), wanted) < 0.25


def test_paging_loses_nothing(questions):
    model, (tokens, wanted) = load_tiny(), questions
    c = model.config
    cache = PagedLayers(c.num_layers, 10 * 13 + 1, 16, c.num_kv_heads, c.head_dim)  # 200 tokens take 13 blocks
    logits = paged_logits(model, tokens[:10], cache)
    torch.testing.assert_close(logits, model.logits(tokens[:10]), rtol=0, atol=1e-4)
    assert found(logits, wanted[:10]) > 0.98


def without_scales(rows):
    one = torch.ones(1, 1, 1, 1)
    return from_fp8(to_fp8(rows, one), one)


def per_token(rows):
    scale = scales(rows, "token")
    return from_fp8(to_fp8(rows, scale), scale)


def test_eight_bits_do_no_harm_and_after_a_rescale_need_their_scales(questions):
    model, (tokens, wanted) = load_tiny(), questions
    for store in (without_scales, per_token):
        assert found(stored_logits(model, tokens, store), wanted) > 0.98
    for powers in ((10, 0), (0, -12)):
        other = rescale_model(model, *powers)
        assert torch.equal(other.logits(tokens), model.logits(tokens))
        assert found(stored_logits(other, tokens, without_scales), wanted) < 0.3
        assert found(stored_logits(other, tokens, per_token), wanted) > 0.98


def test_four_times_as_long_as_in_training_less_is_more():
    """Positions that never occurred in training spoil a full cache; renumbered, a short one goes on and on."""
    text = sample_texts(1, 641, torch.Generator().manual_seed(1))
    model, late = load_tiny(), (text.kinds == CHAIN) & (torch.arange(641) >= 400)
    c = model.config
    said = {
        "all": forgetful_logits(model, text.tokens)[0],
        "renumbered": logits_with(model, text.tokens[0], SinkCache(c.num_layers, 2, 16, 4, 60), move_keys),
    }
    got = {name: perplexity_at(logits[None], text.tokens, late) for name, logits in said.items()}
    assert got["all"] > 1.15 * got["renumbered"]


@pytest.mark.skipif(smollm2.find_model() is None, reason=f"the model is missing: {smollm2.INSTALL}")
def test_a_real_model_rests_its_attention_on_the_first_token():
    pytest.importorskip("tokenizers")
    ids = smollm2.load_tokenizer().encode(smollm2.long_sample_text()).ids
    assert len(ids) >= 1100
    model, tokens = smollm2.load_model(), torch.tensor([ids[:256]])
    said = {
        name: perplexity(forgetful_logits(model, tokens, policy, 112), tokens[:, 112:])
        for name, policy in {"all": everything, "none": window(32), "one": window(32, 1)}.items()
    }
    assert said["none"] > 2 * said["one"] and said["all"] < said["one"] < 2 * said["all"]
    shares = mass_on_first(model, tokens, 112)
    assert sum(shares) / len(shares) > 0.2 and max(shares) > 0.5
