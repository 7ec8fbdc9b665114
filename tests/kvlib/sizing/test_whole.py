"""Whole numbers: what is one, and what only looks like one."""

from __future__ import annotations

import numpy as np
import pytest

from kvlib.sizing.whole import whole


def test_any_whole_number_becomes_a_plain_int():
    for value in (7, np.int32(7), np.uint8(7)):
        assert whole("n", value) == 7
        assert type(whole("n", value)) is int


@pytest.mark.parametrize("bad", [True, False, 2.0, "2", None, [2], np.float64(2), np.array([2])])
def test_what_is_no_whole_number_is_refused_by_name(bad):
    with pytest.raises(ValueError, match="^tokens must be a whole number of at least 0, got "):
        whole("tokens", bad)


def test_the_least_is_the_last_that_passes():
    assert whole("n", 0) == 0
    assert whole("n", 3, at_least=3) == 3
    with pytest.raises(ValueError, match="^n must be a whole number of at least 0, got -1$"):
        whole("n", -1)
    with pytest.raises(ValueError, match="^n must be a whole number of at least 3, got 2$"):
        whole("n", 2, at_least=3)
