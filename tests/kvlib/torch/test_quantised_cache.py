"""A cache in FP8, held against loops over a table of E4M3's numbers that knows nothing of torch's casts."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from kvlib.quantised_cache import QuantisedCache  # noqa: E402

B, HKV, MAX_LEN, D = 2, 3, 11, 5
POSITIVE = sorted({(m / 8 + (e > 0)) * 2.0 ** (max(e, 1) - 7) for e in range(16) for m in range(8)})[:-1]
CHUNKS = ([11], [1] * 11, [3, 5, 2, 1], [7, 4])


def test_the_table_is_that_of_e4m3():
    assert (len(POSITIVE), POSITIVE[:2], POSITIVE[-1]) == (127, [0.0, 2.0**-9], 448.0)


def tokens(count, seed=0):
    """K and V whose tokens are of very different size."""
    generator = torch.Generator().manual_seed(seed)
    size = 10 ** (4 * torch.rand(2, B, HKV, count, 1, generator=generator) - 2)
    return torch.randn(2, B, HKV, count, D, generator=generator) * size


def rounded(row):
    """One token of one head, number by number: the nearest number of the table, times the scale."""
    largest = max(abs(x) for x in row)
    if largest == 0:
        return [0.0] * len(row)
    scale = largest / 448
    return [np.sign(x) * scale * min(POSITIVE, key=lambda p: abs(abs(x) / scale - p)) for x in row]


def expected(x):
    """(B, Hkv, S, D), in float64."""
    rows = x.double().flatten(0, 2).tolist()  # (B * Hkv * S, D)
    return np.array([rounded(row) for row in rows]).reshape(x.shape)


def filled(count=6, seed=0):
    K, V = tokens(count, seed)
    cache = QuantisedCache(B, HKV, MAX_LEN, D)
    cache.append(K, V)
    return cache, K, V


@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
def test_each_token_of_each_head_is_rounded_by_itself(chunks):
    K, V = tokens(sum(chunks))
    cache, start = QuantisedCache(B, HKV, MAX_LEN, D), 0
    for T in chunks:
        cache.append(K[:, :, start : start + T], V[:, :, start : start + T])
        start += T
        assert len(cache) == start
    for got, x in zip(cache.read(0, start), (K, V), strict=True):
        assert got.dtype == torch.float32
        np.testing.assert_allclose(got, expected(x), rtol=1e-6)


def test_no_number_is_off_by_more_than_a_sixteenth_of_itself_or_half_the_smallest_step():
    K, V = tokens(MAX_LEN, seed=3)
    cache = QuantisedCache(B, HKV, MAX_LEN, D)
    cache.append(K, V)
    for got, x in zip(cache.read(0, MAX_LEN), (K, V), strict=True):
        bound = torch.maximum(x.abs() / 16, x.abs().amax(-1, keepdim=True) / 448 * 2**-10)
        assert ((got - x).abs() <= bound * (1 + 1e-5)).all()
        assert ((got - x).abs() > x.abs() / 40).any(), "it does round"


def test_old_tokens_stay_what_they_were_to_the_last_bit():
    cache, _, _ = filled(1)
    first = [part.clone() for part in cache.read(0, 1)]
    for i in range(MAX_LEN - 1):
        k, v = tokens(1, seed=i) * 10.0**i
        cache.append(k, v)
        for was, now in zip(first, cache.read(0, 1), strict=True):
            assert torch.equal(was, now)


@pytest.mark.parametrize("size", [1e-30, 1e-8, 1.0, 1e6, 1e30])
def test_tiny_and_huge_tokens(size):
    cache = QuantisedCache(1, 1, 1, 3)
    row = torch.tensor([[[[448.0, -1.0, 2.0**-9]]]]) * size
    cache.append(row, -row)
    torch.testing.assert_close(cache.read(0, 1), (row, -row), rtol=1e-6, atol=0.0)


def test_rows_of_zeros_stay_zero():
    K, V = tokens(3)
    K[:, :, 1], V[1, 2] = 0.0, 0.0
    cache = QuantisedCache(B, HKV, MAX_LEN, D)
    cache.append(K, V)
    got_k, got_v = cache.read(0, 3)
    assert not got_k[:, :, 1].any() and not got_v[1, 2].any()
    np.testing.assert_allclose(got_k, expected(K), rtol=1e-6)


class Largest(TorchDispatchMode):
    """The largest number of elements in anything that an operation returns, views apart."""

    most = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        if torch.is_tensor(made) and made._base is None and not func.is_view:
            self.most = max(self.most, made.numel())
        return made


@pytest.mark.parametrize(("start", "stop"), [(0, 6), (2, 3), (5, 6), (4, 4), (0, 0)])
def test_a_range_is_read_and_nothing_larger_is_made(start, stop):
    cache, K, V = filled()
    with Largest() as watch:
        got = cache.read(start, stop)
    assert watch.most <= B * HKV * (stop - start) * D
    for part, x in zip(got, (K, V), strict=True):
        assert part.shape == (B, HKV, stop - start, D)
        np.testing.assert_allclose(part, expected(x)[:, :, start:stop], rtol=1e-6)
        part.fill_(7.0)
    np.testing.assert_allclose(cache.read(0, 6)[0], expected(K), rtol=1e-6)


def test_bytes_are_all_there_from_the_start():
    cache = QuantisedCache(B, HKV, MAX_LEN, D)
    for count in (0, 4, 7):
        if count:
            cache.append(*tokens(count))
        assert cache.nbytes == (2 * B * HKV * MAX_LEN * D, 2 * B * HKV * MAX_LEN * 4)
        kept = [part for part in vars(cache).values() if torch.is_tensor(part)]
        assert sum(part.untyped_storage().nbytes() for part in kept) == sum(cache.nbytes)


def test_truncate_then_append():
    cache, K, V = filled()
    k, v = tokens(2, seed=9)
    for length in (6, 4):
        cache.truncate(length)
        assert len(cache) == length
    cache.append(k, v)
    for got, old, new in zip(cache.read(0, 6), (K, V), (k, v), strict=True):
        np.testing.assert_allclose(got, expected(torch.cat((old[:, :, :4], new), 2)), rtol=1e-6)
    cache.truncate(0)
    assert len(cache) == 0 and cache.read(0, 0)[0].shape == (B, HKV, 0, D)


@pytest.mark.parametrize("rows", list(itertools.product(range(2), repeat=2)), ids=str)
def test_reorder_moves_codes_and_scales(rows):
    cache, K, V = filled()
    before = cache.read(0, 6)
    cache.reorder(rows)
    for got, was in zip(cache.read(0, 6), before, strict=True):
        assert torch.equal(got, was[list(rows)])
    k, v = tokens(1, seed=5)
    cache.append(k, v)  # after a fork, each goes on by itself
    np.testing.assert_allclose(cache.read(6, 7)[1], expected(v), rtol=1e-6)
    assert torch.equal(cache.read(0, 6)[0], before[0][list(rows)])


def test_what_is_refused_changes_nothing():
    cache, K, V = filled()
    k, v = tokens(2)
    before = cache.read(0, 6)
    calls = [
        (cache.append, tokens(6), "holds 6 of 11 tokens, 6 more asked"),
        (cache.append, (k[:1], v[:1]), "k must be float32"),
        (cache.append, (k, v[:, :, :1]), "v must be float32"),
        (cache.append, (k, v[..., :1]), "v must be float32"),
        (cache.append, (k[0], v[0]), "k must be float32"),
        (cache.append, (k, v.double()), "got torch.float64"),
        (cache.read, (0, 7), "holds 6 tokens, 0 to 7 asked"),
        (cache.read, (-1, 2), "-1 to 2 asked"),
        (cache.read, (3, 2), "3 to 2 asked"),
        (cache.truncate, (7,), "cannot be cut to 7"),
        (cache.truncate, (-1,), "cannot be cut to -1"),
        (cache.reorder, ([0],), "rows must be 2 numbers from 0 to 1"),
        (cache.reorder, ([0, 1, 1],), "rows must be 2"),
        (cache.reorder, ([0, 2],), "rows must be 2"),
        (cache.reorder, ([-1, 0],), "rows must be 2"),
    ]
    for call, args, message in calls:
        with pytest.raises(ValueError, match=message):
            call(*args)
        assert len(cache) == 6
        assert all(map(torch.equal, cache.read(0, 6), before))
    with pytest.raises(ValueError, match="at least 1"):
        QuantisedCache(B, HKV, 0, D)


def test_the_callers_tensors_and_gradients_are_left_alone():
    K, V = tokens(2)
    K.requires_grad_()
    was = K.detach().clone()
    cache = QuantisedCache(B, HKV, MAX_LEN, D)
    cache.append(K, V)
    assert torch.equal(K.detach(), was)
    got = cache.read(0, 2)
    V.fill_(float("nan"))
    assert not got[0].requires_grad and torch.equal(got[1], cache.read(0, 2)[1])
