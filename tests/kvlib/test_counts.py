"""Counted work: the formulas against plain counting, and the published figures."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlib.counters import Projection
from kvlib.counts import count_positions, count_rows, moved_per_multiplication, multiplications


def test_rows_of_four_tokens(facts):
    a1 = facts["A1"]
    assert count_rows(a1["tokens"]) == (a1["naive"], a1["cached"])


def test_positions_of_a_real_size(facts):
    a2 = facts["A2"]
    uncached, cached = count_positions(a2["prompt"], a2["new"])
    assert (uncached, cached) == (a2["uncached"], a2["cached"])
    assert round(uncached / cached) == a2["factor"]


@given(st.integers(1, 50), st.integers(1, 50))
def test_the_formulas_are_what_walking_through_gives(prompt, new):
    uncached = cached = 0
    for made in range(new):
        uncached += prompt + made
        cached += prompt if made == 0 else 1
    assert count_positions(prompt, new) == (uncached, cached)


@given(st.integers(1, 200))
def test_rows_are_a_triangle_and_a_line(tokens):
    assert count_rows(tokens) == (sum(range(1, tokens + 1)), tokens)


@pytest.mark.parametrize(("prompt", "new"), [(0, 3), (-1, 3), (2.0, 3), (True, 3)])
def test_a_senseless_prompt_is_refused_by_name(prompt, new):
    with pytest.raises(ValueError, match=rf"prompt must be a whole number of at least 1 token, got {prompt}"):
        count_positions(prompt, new)


@pytest.mark.parametrize("new", [0, -2, 1.5, "4"])
def test_a_senseless_number_of_new_tokens_is_refused_by_name(new):
    with pytest.raises(ValueError, match=rf"new must be a whole number of at least 1 token, got {new!r}"):
        count_positions(3, new)


def test_counts_are_plain_ints():
    """In int32 the product would overflow from 65,536 tokens on."""
    got = count_positions(np.int32(70_000), np.int32(70_000))
    assert got == (70_000 * 70_000 + 70_000 * 69_999 // 2, 139_999)
    assert [type(count) for count in got] == [int, int]


def test_a_projection_multiplies_and_counts(rng):
    weight, x = rng.normal(size=(3, 5)), rng.normal(size=(7, 3))
    project = Projection(weight)
    np.testing.assert_array_equal(project(x), x @ weight)
    np.testing.assert_array_equal(project(x[0]), x[0] @ weight)
    project(x[:0])
    assert project.rows == 8
    project.reset()
    assert project.rows == 0


@pytest.mark.parametrize("shape", [(), (4,), (3, 4), (2, 7, 3)])
def test_a_projection_counts_nothing_that_it_refuses(shape):
    project = Projection(np.ones((3, 5)))
    with pytest.raises(ValueError, match=r"takes \(3,\) or \(rows, 3\), got \("):
        project(np.ones(shape))
    assert project.rows == 0


@pytest.mark.parametrize(("tokens", "width"), [(1, 1), (2, 3), (7, 5), (11, 2)])
def test_multiplications_are_what_walking_through_gives(tokens, width):
    uncached = cached = 0
    for held in range(1, tokens + 1):
        for row in range(held):
            work = 4 * width * width + 2 * held * width  # four matrices; a score and a share for each key
            uncached += work
            cached += work if row == held - 1 else 0
    assert multiplications(tokens, width) == (uncached, cached)


def test_a_generation_grows_with_the_cube_or_with_the_square(facts):
    powers = facts["A3.growth"]

    def growth(tokens, width):  # of both counts, when one more doubling comes
        pairs = zip(multiplications(2 * tokens, width), multiplications(tokens, width), strict=True)
        return [np.log2(later / sooner) for later, sooner in pairs]

    np.testing.assert_allclose(growth(1 << 20, 8), [powers["uncached"]["n"], powers["cached"]["n"]], atol=0.01)
    np.testing.assert_allclose(
        growth(1 << 10, 1 << 24), [powers["uncached"]["n_wide"], powers["cached"]["n_wide"]], atol=0.01
    )


def test_batching_takes_down_one_part_of_the_traffic_only(facts):
    """n/d + 1/b: with many sequences the first part is left, and sharing keys and values divides it."""
    heads = facts["A3.traffic"]["heads"]
    width, tokens = 1 << 14, 1 << 7
    alone = moved_per_multiplication(1, width, 1)
    assert alone == pytest.approx(1, rel=0.01)
    assert moved_per_multiplication(1, width, 8) == pytest.approx(1 / 8, rel=0.01)
    crowd = 1 << 40
    left = [
        moved_per_multiplication(n, width, crowd) - moved_per_multiplication(1, width, crowd)
        for n in (tokens, 2 * tokens)
    ]
    assert left[1] / left[0] == pytest.approx(2, rel=0.02)  # straight with n
    wide = [moved_per_multiplication(4096, w, crowd) for w in (1 << 20, 1 << 21)]
    assert wide[0] / wide[1] == pytest.approx(2, rel=0.02)  # and with 1 / d
    shared = moved_per_multiplication(1 << 12, 1 << 20, crowd, heads) - moved_per_multiplication(
        1, 1 << 20, crowd, heads
    )
    whole = moved_per_multiplication(1 << 12, 1 << 20, crowd) - moved_per_multiplication(1, 1 << 20, crowd)
    assert whole / shared == pytest.approx(heads * (1 + 1 / heads) / 2, rel=0.02)  # its own matrices are narrower too


@pytest.mark.parametrize("bad", [0, -1, 1.5, True])
def test_senseless_counts_of_work_are_refused_by_name(bad):
    with pytest.raises(ValueError, match=f"width must be a whole number of at least 1, got {bad}"):
        multiplications(3, bad)
    with pytest.raises(ValueError, match=f"kv_share must be a whole number of at least 1, got {bad}"):
        moved_per_multiplication(3, 5, 7, bad)
