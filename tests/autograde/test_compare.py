"""Numbers against numbers, and the words for how they differ."""

from __future__ import annotations

import numpy as np
import pytest

from autograde.compare import as_array, first_difference, number, observation, rounding_note
from autograde.value import Lent, Opaque

WANT = np.array([[1.0, 2.0, 4.0], [8.0, 0.0, 16.0]])


@pytest.mark.parametrize(
    "value", [WANT, WANT.tolist(), WANT[None], WANT[:, None, :], WANT.astype("f4"), WANT.astype(int), [*WANT]]
)
def test_forms_that_mean_the_same(value) -> None:
    """Lists, extra axes of length one, integers and float32 are right answers too."""
    array, complaint = as_array(value, WANT.shape)
    assert complaint == ""
    assert array.dtype == np.float64
    np.testing.assert_array_equal(array, WANT)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "returned None: is a `return` missing?"),
        ("3", "returned the text '3', wanted an array of shape (2, 3)"),
        (True, "returned True, wanted an array"),
        ({"K": WANT}, "returned a dict, wanted an array"),
        (Opaque("generator"), "returned a generator, wanted"),
        (Opaque("object"), "returned an object, wanted"),
        (Lent(0, "Decoder", False), "returned the Decoder that it was given, wanted"),
        (WANT.T, "returned shape (3, 2), wanted (2, 3)"),
        (WANT.ravel(), "returned shape (6,), wanted (2, 3)"),
        (3.0, "returned shape (), wanted (2, 3)"),
        ([[1.0], [1.0, 2.0]], "returned a list or tuple of 2 unlike things, wanted numbers of shape (2, 3)"),
        ([None, 1.0], "returned a list or tuple of"),
        (-(2**64) + 1, "returned a number beyond 64 bits, wanted numbers of shape (2, 3)"),
        (WANT > 2, "returned an array of dtype bool"),
        (WANT + 0j, "returned an array of dtype complex128"),
    ],
)
def test_forms_that_are_no_answer(value, said) -> None:
    """A complaint says what came and what was wanted."""
    array, complaint = as_array(value, WANT.shape)
    assert array is None
    assert said in complaint


def test_the_first_difference_in_reading_order() -> None:
    """Learners look at one place: the first one that is wrong, not the largest."""
    got = WANT.copy()
    got[0, 2], got[1, 0] = 5.0, -99.0
    difference = first_difference(got, WANT)
    assert (difference.index, difference.want, difference.got, difference.largest) == ((0, 2), 4.0, 5.0, 107.0)
    assert first_difference(WANT + 1e-9, WANT) is None


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_nothing_that_is_not_finite_is_right(wrong) -> None:
    """`abs(nan - x) > tolerance` is False: written this way round, a NaN passed."""
    got = WANT.copy()
    got[1, 1] = wrong
    assert first_difference(got, WANT).index == (1, 1)
    assert first_difference(got, WANT + 1).index == (0, 0)


def test_rounding_is_right_and_remarked_on() -> None:
    """float32 on the way is no mistake; who wants to know is told."""
    single = WANT.astype(np.float32) * np.float32(1.0000001)
    assert first_difference(single.astype(np.float64), WANT) is None
    assert "as float32 would be" in rounding_note(single.astype(np.float64), WANT)
    assert rounding_note(WANT + 1e-12, WANT) == ""


@pytest.mark.parametrize(
    ("got", "said"),
    [
        (np.full_like(WANT, np.nan), "there is a NaN: memory that nobody wrote, 0/0, or inf - inf"),
        (np.where(WANT > 3, np.inf, WANT), "there is an infinity: an exp() that overflows, or a division by 0"),
        (np.zeros_like(WANT), "every value is 0"),
        (WANT * 0.5, "every value is 0.5 times what it should be"),
        (WANT[::-1], "this is the right answer for step 2"),
        (WANT + 1, ""),
    ],
)
def test_what_wrong_numbers_have_in_common(got, said) -> None:
    """A fact that points somewhere, before any diagnosis."""
    assert observation(got, WANT, {"step 2": WANT[::-1]}) == said


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2.0, "2.0"),
        (-0.5, "-0.5000"),
        (1234567.0, "1234567"),
        (1e-5, "1e-05"),
        (1e20, "1e+20"),
        (np.nan, "nan"),
        (np.inf, "inf"),
    ],
)
def test_numbers_are_written_to_be_read(value, text) -> None:
    """Four decimals where they matter, none where they do not."""
    assert number(value) == text
