"""Rounds of speculative decoding: the tokens of the target alone, and caches that hold what they should, row by row."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from kvlib.generate import greedy  # noqa: E402
from kvlib.gqa_cache import GQACache  # noqa: E402
from kvlib.recompute_gqa import recompute_transformer  # noqa: E402
from kvlib.speculative import CachedModel, speculative_round  # noqa: E402
from kvlib.transformer import Transformer, TransformerConfig  # noqa: E402

CONFIG = TransformerConfig(2, 8, 6, 2, 4, 11, 13, rope_base=100.0)
PROMPT = [3, 1, 4, 1, 5]


def random_model():
    return Transformer.random(CONFIG, torch.Generator().manual_seed(2), torch.float64)


def noisy(model, scale):
    """The same weights with noise on them: the larger it is, the fewer drafts are accepted."""
    generator = torch.Generator().manual_seed(5)
    weights = {
        name: weight + scale * torch.randn(weight.shape, generator=generator, dtype=torch.float64)
        for name, weight in model.weights.items()
    }
    return Transformer(model.config, weights)


def cached(model, tokens):
    """The model with all but the last token in its cache."""
    held = CachedModel(model, GQACache(2, 1, 2, 40, 4, torch.float64))
    held.forward(tokens[:-1])
    return held


def same_rows(held, tokens):
    """Whether the cache holds what a fresh pass over these tokens gives."""
    fresh = CachedModel(held.model, GQACache(2, 1, 2, 40, 4, torch.float64))
    if tokens:
        fresh.forward(tokens)
    assert len(held) == len(tokens)
    ours, theirs = (cache.buffer[:, :, :, :, : len(tokens)] for cache in (held.cache, fresh.cache))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


def rounds(scale, num_drafts, count):
    """Runs rounds and checks each one; how many drafts each accepted."""
    model = random_model()
    target, draft, tokens, accepted = cached(model, PROMPT), cached(noisy(model, scale), PROMPT), PROMPT, []
    for _ in range(count):
        passes = target.passes
        new = speculative_round(target, draft, tokens, num_drafts)
        assert new[: len(tokens)] == tokens
        assert target.passes == passes + 1
        accepted.append(len(new) - len(tokens) - 1)
        same_rows(target, new[:-1])
        same_rows(draft, new[: len(tokens) + min(accepted[-1], num_drafts - 1)])
        tokens = new
    want = greedy(model, torch.tensor([PROMPT]), len(tokens) - len(PROMPT)).tokens[0].tolist()
    assert tokens[len(PROMPT) :] == want
    after = target.forward(tokens[-1:])[0]  # logits, not the best token: stale rows often leave that as it is
    np.testing.assert_allclose(after, recompute_transformer(model.weights, CONFIG, [tokens])[0, -1], atol=1e-10)
    return accepted


@pytest.mark.parametrize("num_drafts", [1, 3, 4])
@pytest.mark.parametrize("scale", [0.0, 0.03, 0.05, 0.07])
def test_the_tokens_are_the_targets_own_and_the_caches_are_right(scale, num_drafts):
    accepted = rounds(scale, num_drafts, 5)
    if scale == 0.0:
        assert accepted == [num_drafts] * 5


def test_rounds_with_all_none_and_some_drafts_accepted_occur_above():
    seen = {a for scale in (0.03, 0.05) for a in rounds(scale, 3, 5)}
    assert {0, 3} <= seen
    assert seen & {1, 2}


def test_other_caches_and_numbers_of_drafts_are_refused():
    model = random_model()
    target, draft = cached(model, PROMPT), cached(model, PROMPT)
    with pytest.raises(ValueError, match="num_drafts must be at least 1, got 0"):
        speculative_round(target, draft, PROMPT, 0)
    for tokens in (PROMPT[:-1], [*PROMPT, 2]):
        with pytest.raises(ValueError, match="target and draft model hold 4 and 4"):
            speculative_round(target, draft, tokens, 2)
    target.truncate(3)
    with pytest.raises(ValueError, match="hold 3 and 4 tokens, wanted 3"):
        speculative_round(target, draft, PROMPT[:4], 2)
    assert (len(target), len(draft)) == (3, 4)
