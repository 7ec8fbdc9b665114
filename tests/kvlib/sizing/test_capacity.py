"""What fits: the formula against filling a GPU by hand, sharing out heads, and refusals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlib.sizing.capacity import kv_heads_on_one, sequences_that_fit

CASE = {
    "gpu_bytes": 1_000_000,
    "weight_bytes": 200_000,
    "reserve_bytes": 50_000,
    "num_layers": 3,
    "num_kv_heads": 8,
    "head_dim": 7,
    "bytes_per_element": 2,
    "tokens": 17,
    "block_size": 16,
    "tp": 4,
}


@given(
    weights=st.integers(0, 10**6),
    reserve=st.integers(0, 10**5),
    layers=st.integers(1, 4),
    shared=st.integers(1, 5),
    tp=st.integers(1, 6),
    tokens=st.integers(1, 70),
    block=st.integers(1, 20),
    room=st.integers(-1000, 100_000),
)
def test_the_formula_is_what_filling_a_gpu_gives(weights, reserve, layers, shared, tp, tokens, block, room):
    per_token = layers * shared * (5 + 5) * 2
    one = 0
    while one < tokens * per_token:
        one += block * per_token
    used = weights // tp + (weights % tp > 0) + reserve
    gpu = max(1, used + room)
    found = sequences_that_fit(gpu, weights, reserve, layers, shared * tp, 5, 2, tokens, block, tp)
    fit = 0
    while used + one <= gpu:
        used, fit = used + one, fit + 1
    assert found == fit


@pytest.mark.parametrize(
    ("heads", "tp", "each"), [(8, 1, 8), (8, 2, 4), (8, 8, 1), (8, 16, 1), (1, 3, 1), (6, 3, 2), (2, 6, 1)]
)
def test_heads_are_shared_out_and_never_cut(heads, tp, each):
    assert kv_heads_on_one(heads, tp) == each


@pytest.mark.parametrize(("heads", "tp"), [(8, 3), (8, 12), (6, 4), (3, 2)])
def test_heads_that_do_not_share_out_are_refused(heads, tp):
    with pytest.raises(ValueError, match=rf"{heads} KV heads and {tp} GPUs: one number must divide the other"):
        kv_heads_on_one(heads, tp)
    with pytest.raises(ValueError, match=f"{heads} KV heads and {tp} GPUs"):
        sequences_that_fit(**CASE | {"num_kv_heads": heads, "tp": tp})


def test_the_last_byte_may_be_used():
    full = CASE["weight_bytes"] // 4 + CASE["reserve_bytes"] + 5 * 2 * 3 * 2 * 7 * 2 * 32
    assert sequences_that_fit(**CASE | {"gpu_bytes": full}) == 5
    assert sequences_that_fit(**CASE | {"gpu_bytes": full - 1}) == 4


def test_a_share_of_the_weights_is_rounded_up():
    full = 200_003 // 4 + 1 + CASE["reserve_bytes"] + 5 * 2 * 3 * 2 * 7 * 2 * 32
    assert sequences_that_fit(**CASE | {"weight_bytes": 200_003, "gpu_bytes": full}) == 5
    assert sequences_that_fit(**CASE | {"weight_bytes": 200_003, "gpu_bytes": full - 1}) == 4


def test_nothing_fits_beside_weights_that_do_not():
    assert sequences_that_fit(**CASE | {"weight_bytes": 10**9}) == 0
    assert sequences_that_fit(**CASE | {"reserve_bytes": 10**9}) == 0


def test_half_a_byte_for_each_number_lets_twice_as_many_in():
    roomy = CASE | {"gpu_bytes": 10**7, "bytes_per_element": 1}
    assert sequences_that_fit(**roomy | {"bytes_per_element": 0.5}) == pytest.approx(
        2 * sequences_that_fit(**roomy), abs=1
    )


@pytest.mark.parametrize("name", ["gpu_bytes", "num_layers", "num_kv_heads", "head_dim", "tokens", "block_size", "tp"])
@pytest.mark.parametrize("bad", [0, -1, 2.5, True, "8", None])
def test_a_senseless_size_is_refused_by_name(name, bad):
    with pytest.raises(ValueError, match=f"{name} must be a whole number of at least 1, got {bad!r}"):
        sequences_that_fit(**CASE | {name: bad})


@pytest.mark.parametrize("name", ["weight_bytes", "reserve_bytes"])
@pytest.mark.parametrize("bad", [-1, 0.5, True])
def test_senseless_bytes_are_refused_by_name(name, bad):
    assert sequences_that_fit(**CASE | {name: 0}) > 0
    with pytest.raises(ValueError, match=f"{name} must be a whole number of at least 0, got {bad!r}"):
        sequences_that_fit(**CASE | {name: bad})


@pytest.mark.parametrize("bad", [0, -2, float("nan")])
def test_numbers_of_no_bytes_are_refused(bad):
    with pytest.raises(ValueError, match=f"bytes_per_element must be above 0, got {bad!r}"):
        sequences_that_fit(**CASE | {"bytes_per_element": bad})


def test_the_answer_is_a_plain_int():
    """In int32 the bytes would overflow."""
    case = {name: np.int64(value) for name, value in CASE.items()} | {"gpu_bytes": 80 * 10**9}
    assert type(sequences_that_fit(**case)) is int
