"""Bounds of time: the formulas against adding up, and refusals. The published figures are in test_facts_speed.py."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlib.sizing.roofline import crossover, decode_step, roofline

SIZES = st.integers(1, 10**12)


@given(SIZES, st.integers(0, 10**6), st.lists(st.integers(0, 10**5), min_size=1, max_size=9), SIZES)
def test_a_step_reads_weights_once_and_each_cache_once(weights, per_token, lens, bandwidth):
    read, seconds, rate = decode_step(weights, per_token, lens, bandwidth)
    by_hand = weights
    for held in lens:
        by_hand += held * per_token
    assert read == by_hand and type(read) is int
    assert seconds == pytest.approx(by_hand / bandwidth)
    assert rate * seconds == pytest.approx(len(lens))


def test_a_batch_shares_the_weights_and_not_the_caches():
    assert decode_step(1000, 10, [3], 1)[0] == 1030
    assert decode_step(1000, 10, [3, 3, 7], 1)[0] == 1130


def test_an_iterable_of_lengths_may_be_read_once_only():
    assert decode_step(1000, 10, iter([3, 7]), 100) == decode_step(1000, 10, [3, 7], 100)


@pytest.mark.parametrize("bad", [[], [3, -1]])
def test_senseless_lengths_are_refused(bad):
    with pytest.raises(ValueError, match="seq_lens must hold a length of at least 0 for each of 1 or more sequences"):
        decode_step(1000, 10, bad, 100)


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf])
def test_a_senseless_bandwidth_is_refused_by_name(bad):
    with pytest.raises(ValueError, match=f"bandwidth must be a finite number above 0, got {bad!r}"):
        decode_step(1000, 10, [3], bad)
    with pytest.raises(ValueError, match=f"bandwidth must be a finite number above 0, got {bad!r}"):
        roofline(1, 1, 1, bad)


@pytest.mark.parametrize("bad", [-1, math.nan])
def test_senseless_bytes_are_refused_by_name(bad):
    with pytest.raises(ValueError, match=f"weight_bytes must be a finite number of at least 0, got {bad!r}"):
        decode_step(bad, 10, [3], 100)
    with pytest.raises(ValueError, match=f"kv_bytes_per_token must be a finite number of at least 0, got {bad!r}"):
        decode_step(1000, bad, [3], 100)
    with pytest.raises(ValueError, match="weight_bytes"):
        crossover(bad, 10)
    with pytest.raises(ValueError, match="kv_bytes_per_token"):
        crossover(1000, 0)


def test_a_step_that_reads_nothing_has_no_speed():
    assert decode_step(0, 10, [1], 100)[0] == 10
    with pytest.raises(ValueError, match="nothing to read"):
        decode_step(0, 10, [0], 100)


@given(st.integers(1, 10**9), st.integers(1, 10**6))
def test_at_the_crossover_cache_and_weights_take_as_long(weights, per_token):
    tokens = crossover(weights, per_token)
    assert abs(decode_step(0, per_token, [tokens], 1)[0] - weights) <= per_token / 2 if tokens else per_token > weights


@given(SIZES, SIZES, SIZES, SIZES)
def test_the_longer_time_binds(flops, moved, peak, bandwidth):
    intensity, ridge, seconds, binds = roofline(flops, moved, peak, bandwidth)
    assert seconds == max(flops / peak, moved / bandwidth)
    assert intensity == flops / moved and ridge == peak / bandwidth
    if not math.isclose(intensity, ridge, rel_tol=1e-12):
        assert binds == ("compute" if flops / peak > moved / bandwidth else "memory")


def test_moving_alone_is_bound_by_memory():
    assert roofline(0, 8, 100, 4) == (0, 25, 2, "memory")


@pytest.mark.parametrize("name", ["bytes_moved", "peak_flops"])
@pytest.mark.parametrize("bad", [0, -1, math.nan])
def test_a_senseless_roof_is_refused_by_name(name, bad):
    case = {"flops": 1, "bytes_moved": 1, "peak_flops": 1, "bandwidth": 1}
    with pytest.raises(ValueError, match=f"{name} must be a finite number above 0, got {bad!r}"):
        roofline(**case | {name: bad})
    with pytest.raises(ValueError, match="flops must be a finite number of at least 0, got -1"):
        roofline(**case | {"flops": -1})
