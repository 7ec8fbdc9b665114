"""A prompt in chunks of any size gives the logits of one pass, in as few passes as the size allows."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from kvlib.generate import forward  # noqa: E402
from kvlib.gqa_cache import GQACache  # noqa: E402
from kvlib.prefill import prefill  # noqa: E402
from kvlib.recompute_gqa import recompute_transformer  # noqa: E402


def pushed(model, tokens: torch.Tensor, chunk_size: int) -> tuple[torch.Tensor, list[int]]:
    """The logits, and the size of each call."""
    c = model.config
    cache = GQACache(c.num_layers, len(tokens), c.num_kv_heads, tokens.shape[1], c.head_dim, torch.float64)
    sizes: list[int] = []

    def step(chunk: torch.Tensor) -> torch.Tensor:
        sizes.append(chunk.shape[1])
        return forward(model, cache, chunk)

    return prefill(step, tokens, chunk_size), sizes


@pytest.mark.parametrize(
    ("chunk_size", "sizes"), [(1, [1] * 7), (2, [2, 2, 2, 1]), (3, [3, 3, 1]), (6, [6, 1]), (7, [7]), (100, [7])]
)
def test_every_chunk_size_gives_the_same_logits(make_model, make_tokens, chunk_size, sizes):
    model, tokens = make_model(num_layers=2), make_tokens(2, 7)
    logits, calls = pushed(model, tokens, chunk_size)
    assert calls == sizes
    assert logits.shape == (2, 7, model.config.vocab_size)
    want = torch.tensor(recompute_transformer(model.weights, model.config, tokens))
    torch.testing.assert_close(logits, want, rtol=0, atol=1e-12)


@pytest.mark.parametrize("chunk_size", [0, -1, -7])
def test_a_chunk_has_at_least_one_token(make_model, make_tokens, chunk_size):
    with pytest.raises(ValueError, match=f"at least 1 token, got {chunk_size}"):
        prefill(lambda chunk: pytest.fail("a step was made"), make_tokens(2, 7), chunk_size)


def test_so_has_a_prompt(make_tokens):
    with pytest.raises(ValueError, match=r"at least 1 token, got shape \(2, 0\)"):
        prefill(lambda chunk: pytest.fail("a step was made"), make_tokens(2, 0), 3)
