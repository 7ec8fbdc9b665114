"""What a user waits for: the formulas against the gaps, and refusals."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlib.sizing.latency import latencies

GAPS = st.lists(st.integers(0, 1000), min_size=1, max_size=30)


@given(st.integers(-1000, 1000), GAPS)
def test_the_mean_is_over_the_gaps_between_tokens(start, gaps):
    times = [start + sum(gaps[: i + 1]) for i in range(len(gaps))]
    ttft, itl = latencies(start, times)
    assert ttft == gaps[0]
    if len(gaps) == 1:
        assert itl is None
    else:
        assert itl == pytest.approx(sum(gaps[1:]) / len(gaps[1:]))


def test_the_first_wait_is_not_a_gap():
    assert latencies(10.0, [15.0, 16.0, 17.0]) == (5.0, 1.0)


def test_times_are_left_as_they_are():
    times = [1.0, 3.0]
    latencies(0.0, times)
    assert times == [1.0, 3.0]
    assert latencies(0.0, iter(times)) == (1.0, 2.0)


def test_no_token_has_no_wait():
    with pytest.raises(ValueError, match="times is empty"):
        latencies(0.0, [])


@pytest.mark.parametrize(("start", "times", "gap"), [(2.0, [1.0], "2.0 to 1.0"), (0.0, [1.0, 3.0, 2.5], "3.0 to 2.5")])
def test_time_that_goes_back_is_refused(start, times, gap):
    with pytest.raises(ValueError, match=f"time goes back, from {gap}"):
        latencies(start, times)
