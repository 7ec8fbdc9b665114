"""What the exercises on sizes share: the clue of a factor, and what counts as the right whole number."""

from __future__ import annotations

import numpy as np
import pytest

from autograde.exercises.sizes import PRIMES, factor, primes, whole
from autograde.subject import LocalSubject


@pytest.mark.parametrize(
    ("got", "clue"),
    [
        (240, "it is 2 times too large"),
        (120.0 * 7, "it is 7 times too large"),
        (60, "it is 2 times too small"),
        (1, "it is 120 times too small"),
        (120 * 4096, "it is 4096 times too large"),
        (120 * 4097, ""),
        (120, ""),
        (121, ""),
        (0, ""),
        (-120, ""),
        (True, ""),
        (60.5, ""),
        (float("nan"), ""),
        (float("inf"), ""),
        (None, ""),
        ("240", ""),
        ([240], ""),
    ],
)
def test_a_factor_is_named_where_there_is_one(got, clue):
    assert factor(got, 120) == clue


def test_nothing_is_a_multiple_of_nothing():
    assert factor(5, 0) == factor(0, 0) == ""


def asked(got, want):
    return whole(LocalSubject(None), got, want, key="bytes", fact="the bytes are right", call="here")


@pytest.mark.parametrize("got", [120, 120.0, np.int64(120).item(), np.array(120), np.array([120.0])])
def test_a_whole_float_is_as_good_as_an_int(got):
    assert asked(got, 120).ok


def test_large_numbers_must_be_exact():
    assert asked(2**60 + 1, 2**60 + 1).ok
    assert not asked(2**60, 2**60 + 1).ok
    assert not asked(float(2**60 + 1), 2**60 + 1).ok


def test_a_wrong_number_says_by_how_much_and_where():
    finding = asked(60, 120)
    assert (finding.ok, finding.key, finding.where) == (False, "bytes", "here")
    assert finding.fact == "does not hold: the bytes are right; it is 2 times too small"
    assert (finding.expected, finding.got) == ("120", "60")
    assert asked(121, 120).fact == "does not hold: the bytes are right"


@pytest.mark.parametrize("got", [None, True, "120", [120], {"bytes": 120}, 1j])
def test_what_is_no_number_is_wrong(got):
    assert not asked(got, 1 if got is True else 120).ok


def test_primes_are_different_and_odd():
    for seed in range(20):
        found = primes(np.random.default_rng(seed), 5)
        assert len(set(found)) == 5 and set(found) <= set(PRIMES)
    assert all(p % q for p in PRIMES for q in range(2, p))
