"""Softmax, mask and attention, against loops and against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from kvlib.attention import attend, causal_mask, softmax
from kvlib.recompute import recompute_attention

scores = hnp.arrays(np.float64, hnp.array_shapes(max_dims=3, max_side=5), elements=st.floats(-1e4, 1e4))


@given(scores)
def test_each_row_of_a_softmax_is_a_distribution(x):
    weights = softmax(x)
    assert weights.shape == x.shape
    assert (weights >= 0).all()
    np.testing.assert_allclose(weights.sum(axis=-1), 1.0)


@given(scores, st.floats(-100, 100))
def test_a_number_added_to_a_whole_row_changes_nothing(x, shift):
    np.testing.assert_allclose(softmax(x + shift), softmax(x), atol=1e-9)


def test_softmax_of_one_row_by_hand():
    np.testing.assert_allclose(softmax(np.array([0.0, 1.0])), [1 / (1 + np.e), np.e / (1 + np.e)])


def test_one_large_score_does_not_starve_the_other_rows():
    """With one maximum for the whole array, a row far below it becomes 0/0."""
    np.testing.assert_allclose(softmax(np.array([[1000.0, 1000.0], [-1000.0, -1000.0]])), np.full((2, 2), 0.5))


@pytest.mark.filterwarnings("error")
def test_minus_infinity_gets_no_weight_and_nothing_warns():
    inf = np.inf
    np.testing.assert_array_equal(softmax(np.array([[3.0, -inf, 3.0], [-inf, 0.0, -inf]])), [[0.5, 0, 0.5], [0, 1, 0]])
    assert np.isnan(softmax(np.array([-inf, -inf]))).all()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_float_type_is_kept(dtype):
    q, k, v = np.ones((2, 3), dtype), np.ones((5, 3), dtype), np.ones((5, 4), dtype)
    assert softmax(q).dtype == dtype
    assert attend(q, k, v).dtype == dtype
    assert attend(q, k, v, np.ones((2, 5), dtype=bool)).dtype == dtype


def test_whole_numbers_become_float64():
    """In int8, 100 - (-100) would wrap around."""
    weights = softmax(np.array([-100, 100], dtype=np.int8))
    assert weights.dtype == np.float64
    np.testing.assert_allclose(weights, [np.exp(-200.0), 1.0])


def test_softmax_leaves_its_argument_alone():
    x = np.array([[1.0, 2.0]])
    softmax(x)
    np.testing.assert_array_equal(x, [[1.0, 2.0]])


@given(st.integers(0, 6), st.integers(0, 6))
def test_the_mask_compares_positions(num_new, num_held):
    mask = causal_mask(num_new, num_held)
    assert mask.shape == (num_new, num_held + num_new)
    assert mask.dtype == bool
    for t in range(num_new):
        for s in range(num_held + num_new):
            assert mask[t, s] == (s <= num_held + t)


def test_a_chunk_of_two_after_three_sees_all_that_is_held():
    """Aligned top-left, the first new token would see token 0 alone."""
    np.testing.assert_array_equal(causal_mask(2, num_held=3), [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]])


@pytest.mark.parametrize("num_held", [0, 3])
def test_attend_is_what_loops_give(rng, num_held):
    q, k, v = rng.normal(size=(7, 5)), rng.normal(size=(7 + num_held, 5)), rng.normal(size=(7 + num_held, 3))
    mask = causal_mask(7, num_held)
    np.testing.assert_allclose(attend(q, k, v, mask), recompute_attention(q, k, v, mask), atol=1e-12, rtol=1e-12)


def test_a_single_query_is_the_last_row_of_the_whole(rng):
    q, k, v = rng.normal(size=(7, 5)), rng.normal(size=(7, 5)), rng.normal(size=(7, 3))
    alone = attend(q[-1], k, v)
    assert alone.shape == (3,)
    np.testing.assert_allclose(alone, attend(q, k, v, causal_mask(7))[-1], atol=1e-12)


def test_leading_axes_are_sequences_and_heads(rng):
    q, k, v = rng.normal(size=(2, 3, 7, 5)), rng.normal(size=(2, 3, 11, 5)), rng.normal(size=(2, 3, 11, 4))
    mask = causal_mask(7, num_held=4)
    got = attend(q, k, v, mask)
    assert got.shape == (2, 3, 7, 4)
    np.testing.assert_allclose(got[1, 2], recompute_attention(q[1, 2], k[1, 2], v[1, 2], mask), atol=1e-12)


@pytest.mark.parametrize("mask", [[[0.0, -np.inf]], [[1, 0]]])
def test_a_mask_of_numbers_is_refused(mask):
    """An additive mask, 0 and -inf, read as bools lets a query see exactly what it must not."""
    with pytest.raises(ValueError, match=r"must hold bools, True = may attend; got (float|int)64"):
        attend(np.ones((1, 3)), np.ones((2, 3)), np.ones((2, 3)), np.array(mask))


@pytest.mark.parametrize("num_held", [0, 1, 4])
def test_pytorch_agrees(rng, num_held):
    """A witness from outside, given the mask itself: its own causal option means something else once keys are held."""
    torch = pytest.importorskip("torch")
    q = rng.normal(size=(2, 3, 7, 5))
    k, v = rng.normal(size=(2, 3, 7 + num_held, 5)), rng.normal(size=(2, 3, 7 + num_held, 11))
    mask = causal_mask(7, num_held)
    theirs = torch.nn.functional.scaled_dot_product_attention(
        *map(torch.from_numpy, (q, k, v)), attn_mask=torch.from_numpy(mask)
    )
    assert theirs.dtype == torch.float64
    np.testing.assert_allclose(attend(q, k, v, mask), theirs.numpy(), atol=1e-12, rtol=1e-12)
    np.testing.assert_allclose(recompute_attention(q[1, 2], k[1, 2], v[1, 2], mask), theirs[1, 2].numpy(), atol=1e-12)
