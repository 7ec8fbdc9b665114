"""The small real model with lesson 10's layers: a short run in which cached and recomputed logits agree."""

from __future__ import annotations

import os

import pytest

torch = pytest.importorskip("torch")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from kvlib import smollm2  # noqa: E402
from kvlib.cache_layer import CacheLayer  # noqa: E402
from kvlib.generate import forward, greedy  # noqa: E402
from kvlib.layer_caches import LayerCaches  # noqa: E402
from kvlib.transformers_bridge import as_transformers_cache  # noqa: E402

PROMPT, STEPS = 64, 8
BYTES_PER_TOKEN = 46_080  # 2 * L * Hkv * D * s = 2 * 30 * 3 * 64 * 4
# Logits span about 40, and the two best ones were never seen less than 0.02 apart. Adding up in another order moves
# them by less than a tenth of what is allowed.
ALLOWED = 1e-3

pytestmark = pytest.mark.skipif(smollm2.find_model() is None, reason=f"the model is missing: {smollm2.INSTALL}")


@pytest.fixture(scope="module")
def model():
    return smollm2.load_model()


@pytest.fixture(scope="module")
def tokens():
    pytest.importorskip("tokenizers")
    ids = smollm2.load_tokenizer().encode(smollm2.sample_text()).ids
    assert len(ids) >= PROMPT
    return torch.tensor([ids[:PROMPT]])


@pytest.fixture(scope="module")
def run(model, tokens):
    """Greedy tokens and logits with the layers, and the cache."""
    cache = LayerCaches([CacheLayer(PROMPT + STEPS) for _ in range(model.config.num_layers)])
    return greedy(model, tokens, STEPS, cache), cache


def test_the_same_best_token_at_every_step_and_the_logits_agree(model, tokens, run):
    made = run[0]
    for step in range(STEPS):  # each step on its own: all tokens so far, and nothing remembered
        seen = torch.cat((tokens, made.tokens[:, :step]), dim=1)
        whole = model.logits(seen)[0, -1]
        assert int(whole.argmax()) == int(made.tokens[0, step])
        assert float((whole - made.logits[0, step]).abs().max()) < ALLOWED


def test_a_token_takes_the_bytes_that_the_formula_says(model, run):
    cache, c = run[1], model.config
    assert cache.bytes_per_token == BYTES_PER_TOKEN
    assert 2 * c.num_layers * c.num_kv_heads * c.head_dim * 4 == BYTES_PER_TOKEN
    assert len(cache) == PROMPT + STEPS - 1  # the last token made is never pushed through


def test_a_cache_that_lost_one_row_does_not_agree(model, tokens, run):
    """The tolerance is no blanket: one token missing of the prompt moves a logit a hundred times further."""
    cache = LayerCaches([CacheLayer(PROMPT) for _ in range(model.config.num_layers)])
    forward(model, cache, tokens[:, :-2])
    made = forward(model, cache, tokens[:, -1:])[0, -1]
    assert float((made - run[0].logits[0, 0]).abs().max()) > 100 * ALLOWED


@torch.no_grad()
def test_transformers_says_the_same_with_the_same_layers(model, tokens, run):
    """The whole road: our reader, their model, our layers behind their interface."""
    pytest.importorskip("transformers")
    from tests.kvlib.torch.test_llama import as_llama

    llama = as_llama(model)  # in float64
    layers = [CacheLayer(PROMPT + STEPS) for _ in range(model.config.num_layers)]
    logits = llama(tokens, cache=as_transformers_cache(layers)).logits[:, -1]
    assert float((logits - run[0].logits[:, 0]).abs().max()) < ALLOWED
