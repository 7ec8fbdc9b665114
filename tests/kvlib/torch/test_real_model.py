"""The small real model after a long prompt: with a cache it says what it says without one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from kvlib import smollm2  # noqa: E402
from kvlib.generate import greedy  # noqa: E402
from kvlib.gqa_cache import GQACache  # noqa: E402

FACTS = Path(__file__).parents[2] / "data" / "facts_k.json"


@pytest.mark.skipif(smollm2.find_model() is None, reason=f"the model is missing: {smollm2.INSTALL}")
def test_the_same_next_token_at_every_step():
    """One pass over all tokens is full recomputation at every step: no token sees a later one."""
    pytest.importorskip("tokenizers")
    figures = {row["id"]: row["figure"] for row in json.loads(FACTS.read_text(encoding="utf-8"))}
    prompt, new = figures["K1.cached"]["prompt"], figures["K1.cached"]["new"]
    model = smollm2.load_model()
    ids = smollm2.load_tokenizer().encode(smollm2.sample_text()).ids
    assert len(ids) >= prompt
    tokens, c = torch.tensor([ids[:prompt]]), model.config
    made = greedy(model, tokens, new, GQACache(c.num_layers, 1, c.num_kv_heads, prompt + new, c.head_dim))
    whole = model.logits(torch.cat((tokens, made.tokens), 1))[:, prompt - 1 : -1]  # (1, new, vocab)
    assert int((whole.argmax(-1) == made.tokens).sum()) == figures["K1.cached"]["same_tokens"]
    published = figures["K1.published"]
    span = float(whole.max() - whole.min())
    # Of another model, so the order only: the difference as a part of what the logits span.
    assert float((whole - made.logits).abs().max()) / span < 100 * published["difference"] / published["span"]
