"""The cache with a size, and the decoder that decodes with it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from kvlib.counters import Projection
from kvlib.decoder import Decoder, DecoderConfig
from kvlib.numpy_cache import CachedDecoder, CacheFull, KVCache
from kvlib.recompute import recompute_logits

# ---- the cache -------------------------------------------------------------------------------------------------------


def fill(cache: KVCache, rng: np.random.Generator, tokens: int) -> tuple[np.ndarray, np.ndarray]:
    K, V = rng.normal(size=(2, tokens, cache.width))
    for k, v in zip(K, V, strict=True):
        cache.append(k, v)
    return K, V


def snapshot(cache: KVCache) -> tuple[int, bytes, bytes]:
    return len(cache), cache.K.tobytes(), cache.V.tobytes()


def test_rows_come_back_in_order(rng):
    cache = KVCache(max_len=11, width=3)
    K, V = rng.normal(size=(2, 7, 3))
    for t in range(7):
        for got in (cache.append(K[t], V[t]), cache.rows()):
            np.testing.assert_array_equal(got[0], K[: t + 1])
            np.testing.assert_array_equal(got[1], V[: t + 1])
        assert len(cache) == t + 1
    assert np.isnan(cache.K[7:]).all() and np.isnan(cache.V[7:]).all()


def test_rows_are_read_only_views(rng):
    cache = KVCache(max_len=5, width=3)
    fill(cache, rng, 2)
    for rows, buffer in zip(cache.rows(), (cache.K, cache.V), strict=True):
        assert np.shares_memory(rows, buffer)
        with pytest.raises(ValueError, match="read-only"):
            rows[0, 0] = 9.0
    fill(cache, rng, 1)  # the buffers themselves can still be written
    assert len(cache) == 3


def test_the_caller_may_reuse_its_arrays():
    cache = KVCache(max_len=5, width=3)
    k, v = np.empty(3), np.empty(3)
    for number in (1.0, 2.0):
        k[:], v[:] = number, -number
        cache.append(k, v)
    k[:] = v[:] = np.nan
    np.testing.assert_array_equal(cache.rows()[0], [[1] * 3, [2] * 3])
    np.testing.assert_array_equal(cache.rows()[1], [[-1] * 3, [-2] * 3])


def test_a_full_cache_refuses_and_nothing_changes(rng):
    cache = KVCache(max_len=8, width=3)
    K, _ = fill(cache, rng, 7)
    assert cache.can_append()
    fill(cache, rng, 1)
    assert not cache.can_append()
    before = snapshot(cache)
    for _ in range(2):
        with pytest.raises(CacheFull, match="^holds 8 of 8 tokens, 1 more asked$"):
            cache.append(np.ones(3), np.ones(3))
        assert snapshot(cache) == before
    assert issubclass(CacheFull, ValueError)


@pytest.mark.parametrize("bad", [np.ones(1), 1.0, np.ones(5), np.ones((1, 3)), np.ones((2, 3))], ids=np.shape)
@pytest.mark.parametrize("which", ["k", "v"])
def test_a_wrong_shape_is_refused_and_nothing_changes(rng, bad, which):
    """One number would be spread over the whole row; a bad value must not leave its key behind."""
    cache = KVCache(max_len=5, width=3)
    fill(cache, rng, 2)
    before = snapshot(cache)
    pair = {"k": np.ones(3), "v": np.ones(3), which: bad}
    with pytest.raises(ValueError) as refusal:
        cache.append(**pair)
    assert str(refusal.value) == f"{which} must have shape (3,), got {np.shape(bad)}"
    assert snapshot(cache) == before
    fill(cache, rng, 1)
    assert len(cache) == 3


def test_reset_forgets_and_other_caches_remember(rng):
    cache, other = KVCache(max_len=5, width=3), KVCache(max_len=5, width=3)
    fill(cache, rng, 5)
    fill(other, rng, 1)
    cache.reset()
    assert (len(cache), len(other)) == (0, 1)
    assert cache.rows()[0].shape == cache.rows()[1].shape == (0, 3)
    K, V = fill(cache, rng, 2)
    np.testing.assert_array_equal(cache.rows(), (K, V))


def test_bytes_are_there_from_the_start(rng):
    cache = KVCache(max_len=11, width=3)
    assert cache.nbytes == 2 * 11 * 3 * 8  # K and V, rows, columns, bytes of a float64
    fill(cache, rng, 4)
    assert cache.nbytes == 2 * 11 * 3 * 8
    assert isinstance(cache.nbytes, int)


# ---- the decoder -----------------------------------------------------------------------------------------------------


def decode(decoder: CachedDecoder, tokens: list[int]) -> np.ndarray:
    return np.array([decoder.step(token) for token in tokens])


def contents(decoder: CachedDecoder) -> list[tuple[int, bytes, bytes]]:
    return [snapshot(cache) for cache in decoder.caches]


@pytest.fixture
def fact_c(facts, rng):
    """The published setting: one block, eight positions, tokens 0 1 2 0 1 2 0 1."""
    c = facts["C"]
    config = DecoderConfig(c["num_layers"], vocab_size=3, width=5, hidden=11, max_len=c["context"])
    return Decoder.random(config, rng), c["tokens"], {"atol": c["atol"], "rtol": c["rtol"]}


def test_cached_logits_equal_recomputation_of_the_whole_prefix(fact_c):
    model, tokens, close = fact_c
    decoder = CachedDecoder(model)
    for t, token in enumerate(tokens):
        want = recompute_logits(model.weights, tokens[: t + 1])
        np.testing.assert_allclose(decoder.step(token), want[-1], **close)


def test_the_ninth_token_is_refused_and_nothing_changes(fact_c):
    model, tokens, _ = fact_c
    decoder = CachedDecoder(model)
    decode(decoder, tokens)
    before = contents(decoder)
    for _ in range(2):
        with pytest.raises(CacheFull, match="^holds 8 of 8 tokens, 1 more asked$"):
            decoder.step(2)
        assert contents(decoder) == before


class Altered:
    """A model, but for its embedding."""

    def __init__(self, model: Decoder, embed: Callable[[int, int], np.ndarray]) -> None:
        self.model, self.embed = model, embed

    def __getattr__(self, name: str) -> object:
        return getattr(self.model, name)


def forgetful(model: Decoder) -> Altered:
    """Every token is at position zero: what a decoder gives that loses count."""
    return Altered(model, lambda token, position: model.embed(token, 0))


def unguarded(model: Decoder) -> Altered:
    """Bare tables, as most models have: -1 is their last row."""
    w = model.weights
    return Altered(model, lambda token, position: w["embedding"][token] + w["positions"][position])


def test_position_zero_at_every_step_fails_the_comparison(fact_c):
    """The comparison must be able to fail: right at step 1, wrong at every later one."""
    model, tokens, close = fact_c
    wrong, want = decode(CachedDecoder(forgetful(model)), tokens), recompute_logits(model.weights, tokens)
    right = [np.allclose(a, b, **close) for a, b in zip(wrong, want, strict=True)]
    assert right == [True] + [False] * 7


def test_the_best_token_can_be_right_when_the_logits_are_wrong(fact_c):
    """With small position vectors, position zero chooses the right token at all eight steps. Only logits tell."""
    model, tokens, close = fact_c
    faint = Decoder(model.config, model.weights | {"positions": 1e-3 * model.weights["positions"]})
    wrong, want = decode(CachedDecoder(forgetful(faint)), tokens), recompute_logits(faint.weights, tokens)
    np.testing.assert_array_equal(wrong.argmax(axis=-1), want.argmax(axis=-1))
    assert [np.allclose(a, b, **close) for a, b in zip(wrong, want, strict=True)] == [True] + [False] * 7


@pytest.mark.parametrize("num_layers", [1, 2, 3])
def test_every_depth_and_the_work_it_takes(make_model, num_layers):
    model = make_model(num_layers)
    for block in model.blocks:
        for name in ("project_q", "project_k", "project_v"):
            setattr(block, name, Projection(getattr(block, name.replace("project", "w"))))
    tokens = [3, 3, 0, 6, 1, 5, 3]
    decoder = CachedDecoder(model)
    got = decode(decoder, tokens)
    np.testing.assert_allclose(got, recompute_logits(model.weights, tokens), atol=1e-10, rtol=1e-10)
    assert len(decoder) == 7
    for block in model.blocks:
        assert (block.project_q.rows, block.project_k.rows, block.project_v.rows) == (7, 7, 7)


def test_capacity_below_the_models(make_model):
    decoder = CachedDecoder(make_model(2), max_len=5)
    decode(decoder, [1, 2, 3, 4])
    assert decoder.can_step()
    decoder.step(5)
    assert not decoder.can_step()
    with pytest.raises(CacheFull, match="holds 5 of 5"):
        decoder.step(6)


def test_capacity_above_the_models_is_refused_at_once(make_model):
    with pytest.raises(ValueError, match="max_len 14 asked of a model with 13 positions"):
        CachedDecoder(make_model(), max_len=14)


@pytest.mark.parametrize("guard", [lambda model: model, unguarded], ids=["guarded", "unguarded"])
@pytest.mark.parametrize("token", [-1, 7, True, 1.0, None])
def test_a_bad_token_is_refused_and_nothing_changes(make_model, token, guard):
    model = make_model(2)
    decoder = CachedDecoder(guard(model))
    decode(decoder, [3, 3, 5])
    before = contents(decoder)
    with pytest.raises(ValueError, match="token must be a whole number from 0 to 6"):
        decoder.step(token)
    assert contents(decoder) == before
    want = recompute_logits(model.weights, [3, 3, 5, 2, 4])[3:]
    np.testing.assert_allclose(decode(decoder, [2, 4]), want, atol=1e-10, rtol=1e-10)


def test_a_second_prompt_after_reset(make_model):
    model = make_model(2)
    decoder = CachedDecoder(model)
    decode(decoder, [6, 5, 4, 3, 2, 1, 0])
    decoder.reset()
    assert len(decoder) == 0
    want = recompute_logits(model.weights, [1, 1, 4])
    np.testing.assert_allclose(decode(decoder, [1, 1, 4]), want, atol=1e-10, rtol=1e-10)
