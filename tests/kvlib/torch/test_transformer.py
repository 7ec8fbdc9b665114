"""The decoder with a cache, in whatever chunks, against full recomputation in loops."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from kvlib.generate import forward  # noqa: E402
from kvlib.gqa import gqa_attend  # noqa: E402
from kvlib.gqa_cache import GQACache  # noqa: E402
from kvlib.masks import visible  # noqa: E402
from kvlib.recompute_gqa import recompute_gqa, recompute_transformer  # noqa: E402
from kvlib.transformer import Transformer, TransformerConfig  # noqa: E402

CLOSE = {"atol": 1e-12, "rtol": 0}
WIDTHS = [[7], [1] * 7, [3, 1, 1, 1, 1], [3, 2, 2], [1, 6], [6, 1], [2, 5]]


def cache_for(model: Transformer, batch_size: int, max_len: int) -> GQACache:
    """A cache with NaN in every slot: what is read before it was written shows."""
    c, dtype = model.config, model.weights["embedding"].dtype
    cache = GQACache(c.num_layers, batch_size, c.num_kv_heads, max_len, c.head_dim, dtype)
    cache.buffer.fill_(torch.nan)
    return cache


def in_chunks(model: Transformer, cache: GQACache, tokens: torch.Tensor, widths: list[int]) -> torch.Tensor:
    return torch.cat([forward(model, cache, chunk) for chunk in tokens.split(widths, dim=1)], dim=1)


def oracle(model: Transformer, tokens: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(recompute_transformer(model.weights, model.config, tokens))


# ---- attention alone, at the published sizes -------------------------------------------------------------------------


def attend_in_chunks(cache: GQACache, q, k, v, widths: list[int], mask) -> torch.Tensor:
    out = []
    for width in widths:
        start, end = len(cache), len(cache) + width
        K, V = cache.append(0, k[:, :, start:end], v[:, :, start:end])
        out.append(gqa_attend(q[:, :, start:end], K, V, mask(start, end)))
        cache.advance(width)
    return torch.cat(out, dim=2)


def bottom_right(start: int, end: int) -> torch.Tensor:
    return visible(torch.arange(start, end), torch.arange(end))


def top_left(start: int, end: int) -> torch.Tensor:
    """What `is_causal=True` and the first rows of a triangle make of a rectangle."""
    return visible(torch.arange(end - start), torch.arange(end))


@pytest.fixture
def published(facts, draw):
    """The published setting: q, k and v of 7 tokens, and a cache that just holds them."""
    g2 = facts["G2"]
    B, H, Hkv, D, T = (g2[name] for name in ("batch_size", "num_heads", "num_kv_heads", "head_dim", "tokens"))
    assert g2["width"] == H * D
    rows = draw(B, H, T, D), draw(B, Hkv, T, D), draw(B, Hkv, T, D)
    want = torch.from_numpy(recompute_gqa(*rows, torch.ones(T, T).tril()))
    return rows, want, GQACache(1, B, Hkv, T, D, torch.float64), g2


@pytest.mark.parametrize("number", range(3))
def test_attention_through_the_cache_equals_recomputation(published, number):
    rows, want, cache, g2 = published
    got = attend_in_chunks(cache, *rows, g2["widths"][number], bottom_right)
    torch.testing.assert_close(got, want, atol=g2["tolerance"], rtol=0)


@pytest.mark.parametrize(("number", "right"), [(0, False), (1, False), (2, True)])
def test_the_top_left_mask_must_fail_but_for_the_whole(published, number, right):
    """The comparison can fail. In one chunk this mask is right, so a test without a cache cannot catch it."""
    rows, want, cache, g2 = published
    got = attend_in_chunks(cache, *rows, g2["widths"][number], top_left)
    assert torch.allclose(got, want, atol=g2["tolerance"], rtol=0) == right
    if not right:
        assert (got - want).abs().max() > 0.1


def test_one_token_more_is_refused_and_used_is_unchanged(published):
    (q, k, v), _, cache, g2 = published
    attend_in_chunks(cache, q, k, v, [3, 2, 2], bottom_right)
    before = cache.buffer.clone()
    with pytest.raises(ValueError, match="^holds 7 of 7 tokens, 1 more asked$"):
        cache.append(0, k[:, :, :1], v[:, :, :1])
    assert cache.used == g2["tokens"]
    assert torch.equal(cache.buffer, before)


# ---- the whole decoder -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("H", "Hkv"), [(6, 2), (4, 4), (4, 1)])
@pytest.mark.parametrize("tied", [False, True])
def test_logits_equal_recomputation(make_model, make_tokens, H, Hkv, tied):
    model, tokens = make_model(2, H, Hkv, tied), make_tokens(2, 7)
    want = oracle(model, tokens)
    torch.testing.assert_close(model.logits(tokens), want, **CLOSE)
    torch.testing.assert_close(in_chunks(model, cache_for(model, 2, 7), tokens, [3, 1, 3]), want, **CLOSE)


@pytest.mark.parametrize("widths", WIDTHS, ids=str)
@pytest.mark.parametrize("room", [7, 12])
def test_any_chunks_equal_recomputation(make_model, make_tokens, widths, room):
    model, tokens = make_model(), make_tokens(2, 7)
    cache = cache_for(model, 2, room)
    torch.testing.assert_close(in_chunks(model, cache, tokens, widths), oracle(model, tokens), **CLOSE)
    assert len(cache) == 7


@pytest.mark.parametrize("widths", WIDTHS, ids=str)
def test_a_wrong_mask_must_fail(make_model, make_tokens, monkeypatch, widths):
    """Only a chunk of two or more after something held can tell: all in one go, and one by one, it is never asked."""
    model, tokens = make_model(), make_tokens(2, 7)
    monkeypatch.setattr(model, "mask", lambda start, num_tokens: top_left(start, start + num_tokens))
    got, want = in_chunks(model, cache_for(model, 2, 7), tokens, widths), oracle(model, tokens)
    right = torch.isclose(got, want, **CLOSE).all(dim=-1)
    told = any(width > 1 and sum(widths[:i]) for i, width in enumerate(widths))
    assert bool(right.all()) != told
    assert right[:, : widths[0]].all()


def test_a_wrong_position_must_fail(make_model, make_tokens):
    model, tokens = make_model(), make_tokens(2, 7)
    want = oracle(model, tokens)
    for block in model.blocks:
        block.qkv = lambda x, positions, qkv=block.qkv: qkv(x, positions - positions[0])
    got = in_chunks(model, cache_for(model, 2, 7), tokens, [3, 2, 2])
    assert torch.isclose(got, want, **CLOSE).all(dim=-1).tolist() == [[True] * 3 + [False] * 4] * 2


def test_each_token_is_projected_once_in_each_layer(make_model, make_tokens):
    model, tokens = make_model(), make_tokens(2, 7)
    pushed = [0] * len(model.blocks)
    for layer, block in enumerate(model.blocks):

        def counted(x, positions, layer=layer, qkv=block.qkv):
            pushed[layer] += x.shape[1]
            return qkv(x, positions)

        block.qkv = counted
    in_chunks(model, cache_for(model, 2, 7), tokens, [3, 1, 1, 2])
    assert pushed == [7, 7, 7]


@pytest.mark.parametrize("asked", [1, 2, 5])
def test_too_many_tokens_are_refused_and_nothing_changes(make_model, make_tokens, asked):
    model, tokens = make_model(), make_tokens(2, 7)
    cache = cache_for(model, 2, 7 if asked < 5 else 8)
    in_chunks(model, cache, tokens, [7])
    before = cache.buffer.numpy().tobytes()
    with pytest.raises(ValueError, match=f"^holds 7 of {cache.max_len} tokens, {asked} more asked$"):
        forward(model, cache, make_tokens(2, asked))
    assert (len(cache), cache.buffer.numpy().tobytes()) == (7, before)


BAD_TOKENS = [torch.tensor(bad) for bad in ([[0, 13]], [[-1, 2]], [[0.5, 1.0]], [0, 1])]
BAD_TOKENS += [torch.zeros(1, 0, dtype=torch.int64)]


@pytest.mark.parametrize("bad", BAD_TOKENS, ids=["above", "below", "floats", "flat", "none"])
def test_what_is_not_a_token_is_refused_and_nothing_changes(make_model, make_tokens, bad):
    """A bare table would take -1 for its last row."""
    model = make_model()
    cache = cache_for(model, 1, 7)
    in_chunks(model, cache, make_tokens(1, 3), [3])
    before = cache.buffer.numpy().tobytes()
    with pytest.raises(ValueError, match="^tokens must be"):
        forward(model, cache, bad)
    assert (len(cache), cache.buffer.numpy().tobytes()) == (3, before)


def test_nothing_goes_flat(make_model, make_tokens):
    """Weights that are too small make every key look alike, and a wrong mask or position then hides in rounding."""
    model, tokens = make_model(), make_tokens(1, 13)
    assert model.logits(tokens).std() > 0.5
    q, k, _ = model.blocks[0].qkv(model.embed(tokens), torch.arange(13))
    scores = q[0, 0] @ k[0, 0].T / model.config.head_dim**0.5
    assert 0.5 < scores.std() < 10


def test_weights_that_do_not_fit_are_refused(make_model):
    model = make_model(2)
    without = {name: weight for name, weight in model.weights.items() if name != "1.k"}
    with pytest.raises(ValueError, match=r"weight '1.k' must have shape \(16, 10\), got nothing"):
        Transformer(model.config, without)
    with pytest.raises(ValueError, match=r"weight '0.q' must have shape \(48, 10\), got \(10, 48\)"):
        Transformer(model.config, model.weights | {"0.q": model.weights["0.q"].T})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"num_layers": 0}, "num_layers must be at least 1, got 0"),
        ({"num_kv_heads": 4}, "4 KV heads do not divide 6 query heads"),
        ({"head_dim": 7}, "even head_dim, got 7"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(change, said):
    sizes = dict(num_layers=1, width=10, num_heads=6, num_kv_heads=2, head_dim=8, hidden=11, vocab_size=13)
    with pytest.raises(ValueError, match=said):
        TransformerConfig(**(sizes | change))


def test_the_same_seed_gives_the_same_weights():
    config = TransformerConfig(1, 10, 6, 2, 8, 11, 13)
    one, two = (Transformer.random(config, torch.Generator().manual_seed(3)) for _ in range(2))
    assert one.weights["embedding"].dtype == torch.float32
    assert all(torch.equal(one.weights[name], two.weights[name]) for name in config.shapes())
