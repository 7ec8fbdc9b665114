"""Rows in few bits: against packing bit by bit, and refusals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlib.sizing.quantised import quantised_row_bytes

SIZES = st.integers(1, 40)


@given(SIZES, st.integers(1, 16), SIZES, st.integers(0, 5), st.integers(0, 5), st.integers(1, 40))
def test_it_is_what_packing_takes(head_dim, bits, group_size, scale_bytes, zero_bytes, align):
    payload = np.packbits(np.zeros(head_dim * bits, dtype=np.uint8))
    row = bytearray(payload.tobytes())
    for first in range(0, head_dim, group_size):
        assert first < head_dim
        row += bytes(scale_bytes) + bytes(zero_bytes)
    while len(row) % align:
        row += b"\0"
    assert quantised_row_bytes(head_dim, bits, group_size, scale_bytes, zero_bytes, align) == len(row)


def test_a_short_row_with_two_groups():
    """Three tokens of two heads: 84 bytes of K and V, where half a byte for each element would be 30, or 36 in rows."""
    one = quantised_row_bytes(5, 4, 4, 2)
    assert one == 3 + 2 * 2
    assert 2 * 3 * 2 * one == 84
    assert 2 * 3 * 2 * quantised_row_bytes(5, 4, 4, 0) == 36


def test_four_bits_with_scales_are_not_four_times_smaller():
    plain = quantised_row_bytes(128, 16, 128, scale_bytes=0)
    assert plain == 256
    assert round(plain / quantised_row_bytes(128, 4, 32), 2) == 3.56
    assert plain / quantised_row_bytes(128, 4, 32, scale_bytes=0) == 4


def test_the_gap_is_only_as_large_as_it_must_be():
    sizes = [quantised_row_bytes(8 * n, 1, 8 * n, scale_bytes=0, align=4) for n in range(1, 10)]
    assert sizes == [4, 4, 4, 4, 8, 8, 8, 8, 12]


def test_sizes_are_plain_ints():
    got = quantised_row_bytes(np.int32(2**20), np.int32(2**15), np.int32(1), np.int32(2**15))
    assert got == 2**32 + 2**35
    assert type(got) is int


@pytest.mark.parametrize(
    ("name", "least"),
    [("head_dim", 1), ("bits", 1), ("group_size", 1), ("scale_bytes", 0), ("zero_bytes", 0), ("align", 1)],
)
def test_a_senseless_size_is_refused_by_name(name, least):
    sizes = {"head_dim": 5, "bits": 4, "group_size": 4, "scale_bytes": 2, "zero_bytes": 1, "align": 2}
    for bad in (least - 1, 4.0, 0.5, True, "4", None):
        with pytest.raises(ValueError, match=f"^{name} must be a whole number of at least {least}, got {bad!r}$"):
            quantised_row_bytes(**{**sizes, name: bad})
