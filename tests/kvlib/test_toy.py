"""The two-dimensional toy: every number that lesson 01 prints."""

from __future__ import annotations

import numpy as np
import pytest

from kvlib import toy
from kvlib.attention import softmax
from kvlib.counters import Projection
from kvlib.counts import count_rows
from kvlib.recompute import recompute_attention
from kvlib.toy import W_K, W_Q, W_V, ToyCache, X, decode_naive

THREE_DECIMALS = {"rtol": 0, "atol": 5e-4}


def projections() -> tuple[Projection, Projection, Projection]:
    return Projection(W_Q), Projection(W_K), Projection(W_V)


def decode_cached(X, *project) -> np.ndarray:
    cache = ToyCache(*project)
    return np.array([cache.step(x) for x in X])


def test_the_inputs(facts):
    for name, value in facts["B.inputs"].items():
        np.testing.assert_array_equal(getattr(toy, name), value)


@pytest.mark.parametrize("decode", [decode_naive, decode_cached])
def test_the_outputs(facts, decode):
    np.testing.assert_allclose(decode(X, *projections()), facts["B.outputs"], **THREE_DECIMALS)


def test_step_four(facts):
    step4 = facts["B.step4"]
    q = X[3] @ W_Q
    scores = q @ (X @ W_K).T / np.sqrt(2)
    np.testing.assert_allclose(q, step4["query"], **THREE_DECIMALS)
    np.testing.assert_allclose(scores, step4["scores"], **THREE_DECIMALS)
    np.testing.assert_allclose(softmax(scores), step4["weights"], **THREE_DECIMALS)
    np.testing.assert_allclose(softmax(scores) @ (X @ W_V), facts["B.outputs"][3], **THREE_DECIMALS)


def test_rows_at_each_step(facts):
    """Naive decoding of a prefix does all the work of the steps before it, so its rows are taken as differences."""
    rows = facts["B.rows"]
    totals = [0]
    for n in range(1, 5):
        q, k, v = projections()
        decode_naive(X[:n], q, k, v)
        assert q.rows == n  # a query is worked out for the newest token only
        assert k.rows == v.rows
        totals.append(k.rows)
    assert np.diff(totals).tolist() == rows["naive"]
    assert totals[-1] == rows["naive_total"]

    q, k, v = projections()
    cache = ToyCache(q, k, v)
    for x, expected in zip(X, rows["cached"], strict=True):
        before = (q.rows, k.rows, v.rows)
        cache.step(x)
        assert (q.rows, k.rows, v.rows) == tuple(count + expected for count in before)
    assert k.rows == rows["cached_total"]
    assert count_rows(4) == (rows["naive_total"], rows["cached_total"])


def test_naive_and_cached_equal_loops_over_all_positions(rng):
    X = rng.normal(size=(7, 3))
    w_q, w_k, w_v = rng.normal(size=(3, 5)), rng.normal(size=(3, 5)), rng.normal(size=(3, 2))
    project = Projection(w_q), Projection(w_k), Projection(w_v)
    want = recompute_attention(X @ w_q, X @ w_k, X @ w_v, [[s <= t for s in range(7)] for t in range(7)])
    np.testing.assert_allclose(decode_naive(X, *project), want, atol=1e-12)
    np.testing.assert_allclose(decode_cached(X, *project), want, atol=1e-12)


def test_two_caches_know_nothing_of_each_other():
    first, second = ToyCache(*projections()), ToyCache(*projections())
    first.step(X[0])
    np.testing.assert_allclose(second.step(X[1]), X[1] @ W_V)
    assert (len(first), len(second)) == (1, 1)
    first.step(X[1])
    assert (len(first), len(second)) == (2, 1)


def test_the_constants_cannot_be_changed_by_accident():
    for constant in (X, W_Q, W_K, W_V):
        with pytest.raises(ValueError, match="read-only"):
            constant[0, 0] = 9.0
