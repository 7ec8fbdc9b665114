"""Counted work: the formulas against plain counting, and the published figures."""

from __future__ import annotations

import doctest

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlib import counts
from kvlib.counters import Projection
from kvlib.counts import count_positions, count_rows


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


def test_the_examples_in_the_docstrings():
    assert doctest.testmod(counts).failed == 0
    assert doctest.testmod(counts).attempted == 2


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
