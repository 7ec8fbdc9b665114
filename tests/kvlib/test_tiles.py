"""The stand-in for triton.language: right numbers, and Triton's refusals with a reason."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kvlib.attend_tiles import attend_tiles
from kvlib.tiles import Tile, numbers, pointer_to, read_through, tile, tl


def some(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def test_types_are_tritons_not_numpys():
    whole, real, wide = tl.arange(0, 4), tile([0.5] * 4), tl.arange(0, 4).to(tl.int64)
    assert (whole.dtype, real.dtype, wide.dtype) == (tl.int32, tl.float32, tl.int64)
    assert (whole + real).dtype == tl.float32, "NumPy would say float64"
    assert (whole * 2.5).dtype == (real * 2).dtype == tl.float32
    assert (whole + 1).dtype == tl.int32 and (whole + 2**40).dtype == tl.int64 and (whole + wide).dtype == tl.int64
    assert (whole / 2).dtype == tl.float32 and (whole < 2).dtype == tl.int1
    assert (real.to(tl.float16) * 0.1).dtype == tl.float16
    assert repr(tl.float32) == "tl.float32" and "(4,) of int32" in repr(whole)


def test_int32_goes_round_and_int64_does_not():
    block = tile([300_000_000])
    assert numbers(block * 16).tolist() == [505_032_704]
    assert numbers(block.to(tl.int64) * 16).tolist() == [4_800_000_000]


def test_unsigned_numbers_meet_signed_ones():
    block, lane = tile([300_000_000]).to(tl.uint32), tl.arange(0, 1)
    assert numbers(block * 4 + lane).tolist() == [1_200_000_000] and (block + lane).dtype == tl.uint32
    assert numbers(block * 16 + lane).tolist() == [4_800_000_000 - 2**32], "NumPy would go on in int64"
    assert (lane.to(tl.int64) + block).dtype == tl.int64 and (lane.to(tl.uint8) + lane).dtype == tl.int32
    assert list(tl.static_range(1, 7, 2)) == [1, 3, 5] == list(tl.range(1, 7, 2))


def test_whole_numbers_divide_towards_zero():
    x = tile([-7, 7, -8, 8])
    assert numbers(x // 3).tolist() == [-2, 2, -2, 2] and numbers(x % 3).tolist() == [-1, 1, -2, 2]
    assert numbers(7 // tile([2, 4])).tolist() == [3, 1] and numbers(tl.cdiv(tile(7), 4)) == 2 and tl.cdiv(7, 4) == 2
    with pytest.raises(ZeroDivisionError):
        x // 0
    with pytest.raises(TypeError, match="whole numbers"):
        tile([1.0]) // 2


def test_shapes_stretch_along_ones_only():
    a, b = tile(some(2, 8)), tile(some(8, seed=1))
    assert np.array_equal(numbers(a + b), numbers(a) + numbers(b)), "missing axes are put in front"
    assert (a[:, None, :] * b[None, None, :]).shape == (2, 1, 8)
    column = tl.arange(0, 2)
    with pytest.raises(ValueError, match=r"\(2, 8\) and \(2,\) do not fit"):
        a * column
    assert (a * column[:, None]).shape == (2, 8) and a.T.shape == (8, 2) and tl.trans(a).shape == (8, 2)
    assert tl.broadcast_to(column[:, None], [2, 4]).shape == (2, 4) == column.expand_dims(1).broadcast_to(2, 4).shape
    assert numbers(tl.reshape(a, [4, 4])).tolist() == numbers(a).reshape(4, 4).tolist()


def test_reductions_and_functions():
    x = tile(some(2, 4))
    n = numbers(x)
    assert np.allclose(numbers(tl.sum(x, 1)), n.sum(1)) and np.allclose(numbers(x.max(0)), n.max(0))
    assert tl.min(x).shape == () and tl.sum(x, axis=1, keep_dims=True).shape == (2, 1)
    assert numbers(tl.sum(tl.arange(0, 4) > 1)) == 2, "bools are counted"
    for name in ("exp", "exp2", "log", "sqrt", "rsqrt", "log2"):
        want = {"rsqrt": lambda y: 1 / math.sqrt(y)}.get(name) or getattr(math, name)
        assert numbers(getattr(tl, name)(tile([2.0]))) == pytest.approx([want(2.0)], rel=1e-6)
    assert numbers(tl.maximum(x, 0.0)).min() == 0 and np.allclose(numbers(abs_of(x)), np.abs(n))
    assert numbers(tl.maximum(tile([math.nan, 1.0]), tile([2.0, math.nan]))).tolist() == [2.0, 1.0]
    product = tl.dot(x, tl.trans(x), input_precision="ieee")
    assert np.allclose(numbers(product), n @ n.T) and np.allclose(numbers(tl.dot(x, x.T, product)), 2 * n @ n.T)
    assert numbers(tl.where(tile([1, 0]) > 0, 5, 1.5)).tolist() == [5.0, 1.5]
    assert math.isinf(numbers(tl.exp(tile([89.0])))[0]), "float32 overflows, silently"
    assert numbers(-tl.full((2,), 3, tl.int32)).tolist() == [-3, -3] and not numbers(tl.zeros_like(x)).any()


def abs_of(x):
    return tl.abs(x)


@pytest.mark.parametrize(
    ("work", "says"),
    [
        (lambda x: tl.arange(0, 3), "power of two: 0 to 3 has 3"),
        (lambda x: tl.arange(0, tile(4)), "tl.constexpr"),
        (lambda x: tl.zeros([3], tl.float32), "powers of two"),
        (lambda x: tl.zeros([tile(4)], tl.float32), "tl.constexpr"),
        (lambda x: x[0], "no numbers to pick"),
        (lambda x: x[:, 1:2], "no numbers to pick"),
        (lambda x: list(x), "not iterable"),
        (lambda x: x.__setitem__(0, 1.0), "__setitem__"),
        (lambda x: bool(x > 0), "use & and |"),
        (lambda x: 0 < x < 1, "use & and |"),
        (lambda x: range(x), "no whole number"),
        (lambda x: int(tile(4)), r"no int\(\)"),
        (lambda x: float(tile(4.0)), r"no float\(\)"),
        (lambda x: tl.static_range(0, tile(4)), "tl.constexpr"),
        (lambda x: np.exp(x), "NumPy cannot be used"),
        (lambda x: np.asarray(x), "NumPy cannot be used"),
        (lambda x: np.concatenate([x, x]), "NumPy cannot be used"),
        (lambda x: np.ones((2, 4)) * x, "NumPy cannot be used"),
        (lambda x: x * np.ones((2, 4)), "not with ndarray"),
        (lambda x: x @ x, "unsupported"),
        (lambda x: x & x, "bools and whole"),
        (lambda x: ~x, "bools and whole"),
        (lambda x: tl.exp(tl.arange(0, 4)), "is for floats"),
        (lambda x: tl.max(x, x), "tl.maximum"),
        (lambda x: tl.sum(x, 2), "axis 2"),
        (lambda x: tl.sum([1.0]), "not for list"),
        (lambda x: tl.dot(x, x), "inner axes"),
        (lambda x: tl.dot(x, tl.arange(0, 4)), "two axes"),
        (lambda x: tl.dot(x, x.T.to(tl.float16)), "floats of one type"),
        (lambda x: x.to("float32"), "tl.float32 is wanted"),
        (lambda x: tl.arrange(0, 4), "is it tl.arange"),
        (lambda x: tl.load(x), "takes a pointer"),
        (lambda x: pointer_to([1.0]) + 0.5, "whole numbers"),
        (lambda x: x + pointer_to([1.0]), "unsupported|whole numbers"),
        (lambda x: tl.exp(pointer_to([1.0])), "tl.load reads"),
        (lambda x: tl.load(pointer_to([1.0]), other=0.0), "only with a mask"),
        (lambda x: tl.load(pointer_to([1.0]), mask=x > 0), "single place"),
    ],
)
def test_what_triton_refuses(work, says):
    with pytest.raises((ValueError, TypeError, AttributeError, IndexError), match=says):
        work(tile(some(2, 4)))


def test_a_load_outside_names_the_offset():
    k, lanes = pointer_to(np.arange(12.0, dtype=np.float32), "k"), tl.arange(0, 8)
    assert numbers(tl.load(k + lanes)).tolist() == list(range(8))
    with pytest.raises(IndexError, match="outside of k: offset 12, and it has 12 numbers"):
        tl.load(k + 8 + lanes)
    with pytest.raises(IndexError, match="offset -3"):
        tl.load(k - 3 + lanes)
    with pytest.raises(IndexError, match="tl.store outside"):
        tl.store(k + 12, 1.0)
    got = numbers(tl.load(k + 8 + lanes, mask=lanes < 4, other=-1.0))
    assert got.tolist() == [8, 9, 10, 11, -1, -1, -1, -1]


def test_lanes_that_are_masked_off_hold_anything():
    lanes = tl.arange(0, 4)
    assert np.isnan(numbers(tl.load(pointer_to([1.0, 2.0]) + lanes, mask=lanes < 2))[2:]).all()
    whole = numbers(tl.load(pointer_to(np.array([5, 6], np.int32)) + lanes, mask=lanes < 2))
    assert whole[:2].tolist() == [5, 6] and (whole[2:] != 0).all()
    mask = (lanes < 2)[None, :] & (lanes < 3)[:, None]
    assert tl.load(pointer_to([1.0, 2.0]) + lanes[None, :], mask=mask, other=0.0).shape == (4, 4)


def test_pointers_are_shapes_of_places():
    k = pointer_to(some(6, 8), "k")
    row, dims = tl.arange(0, 2), tl.arange(0, 8)
    both = k + row[:, None] * 8 + dims[None, :]
    assert both.shape == (2, 8) and (k + dims)[None, :].shape == (1, 8) and "into k" in repr(k)
    assert read_through(k) == 0 and read_through(3) == 0
    tl.load(both, mask=(dims < 3)[None, :], other=0.0)
    assert read_through(k) == 6, "lanes that are masked off are not read"
    tl.store(both, tile(np.zeros((2, 8), np.float32)), mask=(dims < 3)[None, :])
    assert not numbers(tl.load(k + tl.arange(0, 2))).any() and numbers(tl.load(k + 3)) != 0


def test_memory_that_is_too_large_to_be_made():
    k = pointer_to(np.array([5.0, 6.0], np.float32), "k", start=2**33)
    far = tile([2**33, 2**33 + 1])
    assert far.dtype == tl.int64 and numbers(tl.load(k + far)).tolist() == [5.0, 6.0]
    place = tl.arange(0, 2).to(tl.int64) + 2**33
    assert numbers(tl.load(k + place)).tolist() == [5.0, 6.0]
    assert np.isnan(numbers(tl.load(k + 7))), "nobody wrote there"
    with pytest.raises(IndexError, match="8589934594 numbers"):
        tl.load(k + place + 2)


def test_a_single_number_is_a_number():
    first, last = tile(2), tile(5)
    assert [*range(first, last)] == [2, 3, 4] and bool(first < last) and not first > last
    assert min(first, last) is first and (first + 1).dtype == tl.int32
    assert tl.constexpr(7) == 7 and repr(tl.constexpr) == "tl.constexpr"
    assert isinstance(first.to(tl.int64), Tile)


def attention(q, k, v, table, first, last, kv_head, scale):
    """In float64."""
    block_size = k.shape[1]
    rows = [(table[p // block_size], p % block_size, kv_head) for p in range(first, last)]
    keys, values = (np.array([pool[row] for row in rows], np.float64) for pool in (k, v))
    scores = q.astype(np.float64) @ keys.T * scale
    m = scores.max(1)
    powers = np.exp(scores - m[:, None])
    return m, powers.sum(1), powers @ values


@pytest.mark.parametrize(("first", "last"), [(0, 16), (0, 1), (3, 14), (9, 12), (5, 6)])
def test_attend_tiles_is_attention(first, last):
    rng, HKV, GP, D, size = np.random.default_rng(first), 3, 4, 8, 4
    k, v = (rng.normal(size=(7, size, HKV, D)).astype(np.float32) for _ in range(2))
    q, table = rng.normal(size=(GP, D)).astype(np.float32), np.array([5, 0, 6, 2], np.int32)
    pools = [pointer_to(rows, name) for rows, name in ((k, "k"), (v, "v"), (table, "table"))]
    got = attend_tiles(tile(q), *pools, tile(first), tile(last), tile(2), tile(0.3), HKV, GP, D, size)
    for mine, right in zip(got, attention(q, k, v, table, first, last, 2, 0.3), strict=True):
        assert np.allclose(numbers(mine), right, atol=1e-5)
    assert read_through(pools[0]) == read_through(pools[1]) == (last - first) * D


@pytest.mark.parametrize(("first", "last"), [(0, 0), (8, 8), (8, 3)])
def test_attend_tiles_of_nothing(first, last):
    pool, table = pointer_to(np.zeros((1, 4, 1, 8), np.float32)), pointer_to(np.zeros(1, np.int32))
    got = attend_tiles(tile(np.zeros((2, 8), np.float32)), pool, pool, table, first, last, 0, 1.0, 1, 2, 8, 4)
    m, l, acc = map(numbers, got)  # noqa: E741
    assert np.isneginf(m).all() and not l.any() and not acc.any()
