"""A ring held against the whole history: what a query may see must come back once, whatever the chunks."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from kvlib.rolling_cache import RingCache  # noqa: E402

B, HKV, D = 2, 3, 5
CHUNKS = ([1] * 11, [3, 2, 2, 2, 2], [4, 4, 3], [11, 1], [1, 10, 1], [5, 5, 5], [7, 7])


def tokens(count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(2, B, HKV, count, D, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("window", [1, 2, 4, 5, 30])
@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
def test_what_the_new_tokens_may_see_comes_back_once(window, chunks):
    K, V = tokens(sum(chunks))
    cache, start = RingCache(window, B, HKV, D), 0
    for T in chunks:
        end = start + T
        k, v, positions = cache.append(K[:, :, start:end], V[:, :, start:end])
        assert k.shape == v.shape == (B, HKV, len(positions), D)
        assert len(set(positions.tolist())) == len(positions)
        needed = range(max(0, start - window + 1), end)
        assert set(needed) <= set(positions.tolist()) <= set(range(end))
        np.testing.assert_array_equal(k, K[:, :, positions])
        np.testing.assert_array_equal(v, V[:, :, positions])
        assert len(cache) == end
        start = end


def test_token_i_lives_in_slot_i_mod_window(facts):
    fact = facts["G4"]
    K, V = tokens(fact["tokens"])
    cache = RingCache(fact["window"], B, HKV, D, torch.float64)
    slots = []
    for i in range(fact["tokens"]):
        cache.append(K[:, :, i : i + 1], V[:, :, i : i + 1])
        slots += (cache.positions == i).nonzero().flatten().tolist()
        np.testing.assert_array_equal(cache.buffer[0, :, :, slots[-1]], K[:, :, i])
    assert slots == fact["slots"]


def test_memory_is_that_of_the_window_from_the_first_token_on():
    K, V = tokens(40)
    cache = RingCache(4, B, HKV, D, torch.float64)
    for start in range(0, 40, 8):
        cache.append(K[:, :, start : start + 8], V[:, :, start : start + 8])
        assert cache.nbytes == 2 * B * HKV * 4 * D * 8
        assert cache.buffer.untyped_storage().nbytes() == cache.nbytes


def test_the_caller_may_reuse_its_tensors_and_what_came_back_stays():
    K, V = tokens(6)
    cache, k, v = RingCache(4, B, HKV, D), torch.empty(B, HKV, 1, D), torch.empty(B, HKV, 1, D)
    k, v, kept = k.double(), v.double(), []
    for t in range(6):
        k[:], v[:] = K[:, :, t : t + 1], V[:, :, t : t + 1]
        kept.append(cache.append(k, v))
    for got_k, got_v, positions in kept:
        np.testing.assert_array_equal(got_k, K[:, :, positions])
        np.testing.assert_array_equal(got_v, V[:, :, positions])


def test_wrong_shapes_and_dtypes_are_refused_and_change_nothing():
    K, V = tokens(3)
    cache = RingCache(4, B, HKV, D)
    cache.append(K[:, :, :1], V[:, :, :1])
    for k, v in ((K[:, :2], V), (K, V[:, :, :1]), (K[..., :1], V[..., :1]), (K[0], V[0]), (K, V.float())):
        with pytest.raises(ValueError, match="k and v must be"):
            cache.append(k, v)
        assert len(cache) == 1
    k, _, positions = cache.append(K[:, :, 1:], V[:, :, 1:])
    assert positions.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(k, K)
    with pytest.raises(ValueError, match="at least 1"):
        RingCache(0, B, HKV, D)
