"""A cache of sinks and a window held against the whole history: what stays must be there once, whatever the chunks."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from kvlib.sink_cache import SinkCache  # noqa: E402

L, HKV, D = 3, 2, 6
CHUNKS = ([1] * 17, [3, 2, 2, 2, 2, 5, 1], [11, 1, 1], [1, 10, 1], [4, 4, 4, 4], [17], [2, 1, 14])
SIZES = ((2, 5), (4, 3), (0, 4), (1, 1), (5, 2), (3, 30))


def tokens(count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(2, L, HKV, count, D, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize(("sinks", "window"), SIZES)
@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
def test_every_layer_keeps_the_sinks_and_the_window_once(sinks, window, chunks):
    K, V = tokens(sum(chunks))
    cache, start = SinkCache(L, HKV, D, sinks, window), 0
    for T in chunks:
        end = start + T
        for layer in range(L):
            k, v, positions = cache.append(layer, K[layer, :, start:end], V[layer, :, start:end])
            assert positions.dtype == torch.int64
            wanted = [p for p in range(end) if p < sinks or p >= end - window]
            assert positions.tolist() == wanted
            np.testing.assert_array_equal(k, K[layer][:, wanted])
            np.testing.assert_array_equal(v, V[layer][:, wanted])
            assert cache.length == len(cache) == start
        cache.advance(T)
        assert cache.length == end
        start = end


def test_memory_is_that_of_the_rows_kept_however_long_the_text():
    K, V = tokens(60)
    cache = SinkCache(L, HKV, D, 4, 5, torch.float64)
    for start in range(0, 60, 20):
        for layer in range(L):
            cache.append(layer, K[layer, :, start : start + 20], V[layer, :, start : start + 20])
        cache.advance(20)
        assert cache.nbytes == 2 * L * HKV * 9 * D * 8
        assert cache.buffer.untyped_storage().nbytes() == cache.nbytes


def test_a_pass_that_is_tried_again_leaves_no_trace():
    K, V = tokens(12)
    cache = SinkCache(L, HKV, D, 2, 3)
    for layer in range(L):
        cache.append(layer, K[layer, :, :8], V[layer, :, :8])
    cache.advance(8)
    cache.append(0, V[0, :, 8:10], K[0, :, 8:10])  # something else, then a layer fails
    for layer in range(L):
        k, v, positions = cache.append(layer, K[layer, :, 8:10], V[layer, :, 8:10])
        assert positions.tolist() == [0, 1, 7, 8, 9]
        np.testing.assert_array_equal(k, K[layer][:, positions])
        np.testing.assert_array_equal(v, V[layer][:, positions])


def test_what_came_back_stays_and_the_caller_may_reuse_its_tensors():
    K, V = tokens(9)
    cache, kept = SinkCache(1, HKV, D, 2, 3), []
    k, v = torch.empty(2, HKV, 1, D, dtype=torch.float64)
    for t in range(9):
        k[:], v[:] = K[0, :, t : t + 1], V[0, :, t : t + 1]
        kept.append(cache.append(0, k, v))
        cache.advance(1)
    for got_k, got_v, positions in kept:
        np.testing.assert_array_equal(got_k, K[0][:, positions])
        np.testing.assert_array_equal(got_v, V[0][:, positions])


def test_wrong_calls_are_refused_and_change_nothing():
    K, V = tokens(4)
    cache = SinkCache(L, HKV, D, 2, 3)
    cache.append(0, K[0], V[0])
    cache.advance(4)
    before = cache.buffer.clone()
    row = K[0, :, :1]
    for layer, k, v in ((-1, row, row), (L, row, row)):
        with pytest.raises(ValueError, match=f"of {L} layers"):
            cache.append(layer, k, v)
    for k, v in ((K[0], V[0, :, :2]), (row[:1], row[:1]), (row[..., :4], row[..., :4]), (row, row.float()), (K, V)):
        with pytest.raises(ValueError, match="k and v must be"):
            cache.append(0, k, v)
    with pytest.raises(ValueError, match="k and v must be"):
        cache.append(0, K[0, :, :0], V[0, :, :0])
    with pytest.raises(ValueError, match="advance by -1"):
        cache.advance(-1)
    np.testing.assert_array_equal(cache.buffer[:, 0], before[:, 0])
    assert cache.length == 4
    for sizes in ((0, 1, 2, 0, 1), (1, 1, 2, -1, 3), (1, 1, 2, 1, 0)):
        with pytest.raises(ValueError, match="window must be at least 1"):
            SinkCache(*sizes)
