"""One request's sampling."""

from __future__ import annotations

import math

import pytest

from kvlib.stream import Stream

LOGITS = [math.log(share) for share in (0.1, 0.2, 0.3, 0.4)]  # cumulated: 0.1, 0.3, 0.6, 1.0


def numbers(*values):
    """A source that hands these out by their count, whatever the seed, and notes what it was asked for."""
    asked = []

    def uniform(seed, n):
        asked.append((seed, n))
        return values[n]

    return uniform, asked


@pytest.mark.parametrize(("u", "token"), [(0.0, 0), (0.09, 0), (0.11, 1), (0.29, 1), (0.31, 2), (0.61, 3), (0.999, 3)])
def test_the_first_token_whose_sum_exceeds_the_number(u, token) -> None:
    uniform, _ = numbers(u)
    assert Stream(uniform, 5, 1.0, 0).draw(LOGITS) == token


def test_each_draw_has_the_next_number() -> None:
    uniform, asked = numbers(0.05, 0.95, 0.25)
    stream = Stream(uniform, 5, 1.0, 0)
    assert [stream.draw(LOGITS) for _ in range(3)] == [0, 3, 1]
    assert asked == [(5, 0), (5, 1), (5, 2)]


def test_temperature_zero_is_the_best_and_asks_for_nothing() -> None:
    uniform, asked = numbers()
    stream = Stream(uniform, 5, 0, 2)
    assert [stream.draw(logits) for logits in (LOGITS, [1.0, 3.0, 3.0], [-2.0, -1.0, -1.0])] == [3, 1, 1]
    assert asked == []


@pytest.mark.parametrize(("temperature", "edge"), [(0.5, 0.01 / 0.30), (2.0, math.sqrt(0.1) / 1.943)])
def test_logits_are_divided_by_the_temperature(temperature, edge) -> None:
    """Shares to the power of 1 / temperature, over their sum."""
    below, above = numbers(edge - 0.003)[0], numbers(edge + 0.003)[0]
    assert Stream(below, 1, temperature, 0).draw(LOGITS) == 0
    assert Stream(above, 1, temperature, 0).draw(LOGITS) == 1


def test_the_best_in_the_order_of_numbers() -> None:
    """Of the two best, 0.3 and 0.4, token 2 comes first: it ends at 3/7."""
    assert Stream(numbers(0.42)[0], 1, 1.0, 2).draw(LOGITS) == 2
    assert Stream(numbers(0.44)[0], 1, 1.0, 2).draw(LOGITS) == 3
    tied = [0.0, 1.0, 1.0, 1.0]
    assert {Stream(numbers(u)[0], 1, 1.0, 2).draw(tied) for u in (0.1, 0.4, 0.6, 0.9)} == {1, 2}
    assert Stream(numbers(0.95)[0], 1, 1.0, 9).draw(LOGITS) == 3


def test_large_logits() -> None:
    for level in (1e5, -1e5):
        assert Stream(numbers(0.25)[0], 1, 1.0, 0).draw([level + logit for logit in LOGITS]) == 1


def test_a_sum_that_rounds_off_below_the_number() -> None:
    """The last token that can be drawn, never one of no probability."""
    assert Stream(numbers(1.0)[0], 1, 1.0, 0).draw([0.0, 5.0, -1e9]) == 1
