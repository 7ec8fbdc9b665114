"""The formula of a plain cache: against counting arrays, and refusals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlib.sizing.kv import kv_bytes

SMALL = st.integers(1, 5)


@given(SMALL, SMALL, SMALL, st.lists(st.integers(0, 5), max_size=4), st.sampled_from(["i1", "f2", "f4", "f8"]))
def test_it_is_what_arrays_take(num_layers, num_kv_heads, head_dim, seq_lens, dtype):
    held = [
        np.empty((length, num_kv_heads, head_dim), dtype)
        for _layer in range(num_layers)
        for length in seq_lens
        for _array in "KV"
    ]
    by_counting = sum(array.nbytes for array in held)
    assert kv_bytes(num_layers, num_kv_heads, head_dim, seq_lens, np.dtype(dtype).itemsize) == by_counting


def test_every_factor_shows():
    """Of the prime fixture, each missing factor would leave another number."""
    assert kv_bytes(3, 5, 7, [11] * 13, 4) == 120_120
    without = [
        kv_bytes(1, 5, 7, [11] * 13, 4),
        kv_bytes(3, 1, 7, [11] * 13, 4),
        kv_bytes(3, 5, 1, [11] * 13, 4),
        kv_bytes(3, 5, 7, [1] * 13, 4),
        kv_bytes(3, 5, 7, [11], 4),
        kv_bytes(3, 5, 7, [11] * 13, 1),
    ]
    assert without == [40_040, 24_024, 17_160, 10_920, 9_240, 30_030]


def test_unequal_lengths_are_added_up():
    assert kv_bytes(1, 1, 1, [3, 5], 1) == 16  # not 2 * 2 * 5
    assert kv_bytes(1, 1, 1, [], 1) == kv_bytes(1, 1, 1, [0, 0], 1) == 0


def test_large_sizes_are_exact_plain_ints():
    """In 32 bits the product would wrap around, in a float it would lose its last digits."""
    got = kv_bytes(np.int32(127), np.int32(131), np.int32(251), [10**11 + 1], np.int32(1))
    assert got == 2 * 127 * 131 * 251 * (10**11 + 1)
    assert type(got) is int


def test_lengths_may_be_any_iterable():
    assert kv_bytes(2, 2, 4, iter([1, 2]), 2) == kv_bytes(2, 2, 4, np.array([1, 2]), 2) == kv_bytes(2, 2, 4, (3,), 2)


@pytest.mark.parametrize("name", ["num_layers", "num_kv_heads", "head_dim", "bytes_per_element"])
@pytest.mark.parametrize("bad", [0, -1, 2.0, 0.5, True, "2", None])
def test_a_senseless_size_is_refused_by_name(name, bad):
    sizes = {"num_layers": 2, "num_kv_heads": 2, "head_dim": 4, "seq_lens": [3], "bytes_per_element": 2}
    with pytest.raises(ValueError, match=f"^{name} must be a whole number of at least 1, got {bad!r}"):
        kv_bytes(**{**sizes, name: bad})


@pytest.mark.parametrize("bad", [-1, 2.0, True, "3"])
def test_a_senseless_length_is_refused_by_its_place(bad):
    with pytest.raises(ValueError, match=f"^length 1 of seq_lens must be a whole number of at least 0, got {bad!r}"):
        kv_bytes(2, 2, 4, [3, bad], 2)


@pytest.mark.parametrize("bad", [3, "33", None])
def test_lengths_that_are_no_list_are_refused(bad):
    with pytest.raises(ValueError, match=f"^seq_lens must be a list of lengths, one for each sequence, got {bad!r}"):
        kv_bytes(2, 2, 4, bad, 2)
