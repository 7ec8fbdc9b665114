"""One pass over the keys, and parts put together: held against all keys at once, and against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlib.online_softmax import online_attend
from kvlib.recompute import recompute_attention
from kvlib.split_attend import merge_parts, partial_attend


class Blocks:
    """Rows in blocks of these sizes, handed out once each."""

    def __init__(self, k, v, sizes):
        ends = np.cumsum([0, *sizes])
        self.left = [[k[a:b], v[a:b]] for a, b in zip(ends[:-1], ends[1:], strict=True)]

    def next(self):
        return self.left.pop(0) if self.left else None


def rows(rng, heads, tokens, width, size=1.0):
    return size * rng.normal(size=(heads, width)), rng.normal(size=(tokens, width)), rng.normal(size=(tokens, width))


def whole(q, k, v):
    return recompute_attention(q, k, v, np.ones((len(q), len(k)), dtype=bool))


@pytest.mark.parametrize("sizes", [[11], [1] * 11, [4, 1, 6], [2, 9]], ids=str)
@pytest.mark.parametrize("size", [1.0, 100.0, 1000.0])
def test_blocks_of_any_size_are_one_attention(rng, sizes, size):
    q, k, v = rows(rng, 1, 11, 5, size)
    np.testing.assert_allclose(online_attend(q[0], Blocks(k, v, sizes)), whole(q, k, v)[0], rtol=1e-9, atol=1e-12)


def test_no_block_gives_zeros():
    np.testing.assert_array_equal(
        online_attend(np.ones(3), Blocks(np.zeros((0, 3)), np.zeros((0, 3)), [])), np.zeros(3)
    )


@given(st.lists(st.integers(0, 4), min_size=1, max_size=6), st.integers(0, 1000))
def test_parts_of_any_length_in_any_order_are_one_attention(lengths, seed):
    rng = np.random.default_rng(seed)
    q, k, v = rows(rng, 3, sum(lengths), 5, 10.0)
    ends = np.cumsum([0, *lengths])
    parts = [partial_attend(q, k[a:b], v[a:b]) for a, b in zip(ends[:-1], ends[1:], strict=True)]
    m, sums, acc = (np.stack(each) for each in zip(*parts, strict=True))
    order = rng.permutation(len(parts))
    want = whole(q, k, v) if len(k) else np.zeros((3, 5))
    np.testing.assert_allclose(merge_parts(m[order], sums[order], acc[order]), want, rtol=1e-9, atol=1e-12)


def test_an_empty_part_is_minus_infinity_and_zeros():
    m, sums, acc = partial_attend(np.ones((2, 3)), np.zeros((0, 3)), np.zeros((0, 3)))
    assert np.isneginf(m).all() and m.shape == sums.shape == (2,)
    assert not sums.any() and not acc.any() and acc.shape == (2, 3)


def test_pytorch_agrees(rng):
    torch = pytest.importorskip("torch")
    q, k, v = rows(rng, 6, 37, 8)
    right = torch.nn.functional.scaled_dot_product_attention(*(torch.from_numpy(x)[None] for x in (q, k, v)))[0].numpy()
    parts = [partial_attend(q, k[a : a + 10], v[a : a + 10]) for a in range(0, 40, 10)]
    np.testing.assert_allclose(merge_parts(*(np.stack(each) for each in zip(*parts, strict=True))), right, atol=1e-12)
    for head, want in zip(q, right, strict=True):
        np.testing.assert_allclose(online_attend(head, Blocks(k, v, [30, 7])), want, atol=1e-12)
