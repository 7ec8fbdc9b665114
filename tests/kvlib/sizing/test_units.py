"""Bytes in words: both kinds of unit against multiplying step by step, and refusals."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlib.sizing.units import UNITS, in_unit, show, size_in_bytes

LADDERS = {1000: ["B", "KB", "MB", "GB", "TB"], 1024: ["B", "KiB", "MiB", "GiB", "TiB"]}


@pytest.mark.parametrize("base", LADDERS)
def test_each_unit_is_so_many_of_the_one_below(base):
    size = 1
    for unit in LADDERS[base]:
        assert size_in_bytes(f"1 {unit}") == size == UNITS[unit]
        size *= base


def test_there_is_no_other_unit():
    assert sorted(UNITS) == sorted({unit for ladder in LADDERS.values() for unit in ladder})


def test_gb_is_not_gib():
    assert size_in_bytes("80 GB") == 80_000_000_000
    assert size_in_bytes("24 GiB") == 25_769_803_776
    assert size_in_bytes("24 GiB") - size_in_bytes("24 GB") == 24 * (2**30 - 10**9)


@given(st.integers(0, 10**15), st.sampled_from(sorted(UNITS)))
def test_whole_numbers_are_exact_however_large(number, unit):
    got = size_in_bytes(f"{number} {unit}")
    assert got == number * UNITS[unit]
    assert type(got) is int


@given(st.decimals("0", "999999", places=6), st.sampled_from(sorted(UNITS)))
def test_decimal_points_round_to_the_nearest_byte(number, unit):
    got = size_in_bytes(f"{number} {unit}")
    assert abs(got - number * UNITS[unit]) <= Decimal("0.5")


@pytest.mark.parametrize(
    ("text", "size"),
    [("0.5 KiB", 512), ("1.5 GB", 1_500_000_000), ("1.7 KiB", 1741), ("1.1 KiB", 1126), ("1.001 KB", 1001)],
)
def test_rounded_sizes(text, size):
    assert size_in_bytes(text) == size


@pytest.mark.parametrize("text", ["80GB", " 80 GB ", "80  GB"])
def test_spaces_do_not_matter(text):
    assert size_in_bytes(text) == 80 * 10**9


@pytest.mark.parametrize("unit", ["Gb", "gb", "gib", "GIB", "PB", "G", "GX", "bytes"])
def test_an_unknown_unit_is_refused_by_name(unit):
    with pytest.raises(ValueError, match=f"no unit '{unit}': there are B, KB, MB, GB, TB, KiB, MiB, GiB, TiB"):
        size_in_bytes(f"5 {unit}")
    with pytest.raises(ValueError, match=f"no unit '{unit}'"):
        in_unit(5, unit)


@pytest.mark.parametrize("text", ["", "80", "GB", "five GB", "-3 GB", "+3 GB", "1e3 GB", "1,5 GB", "nan GB", 80, None])
def test_what_is_no_size_is_refused_and_shown(text):
    with pytest.raises(ValueError) as error:
        size_in_bytes(text)
    assert str(error.value) == f'a size is a number, not negative, and a unit, such as "80 GB"; got {text!r}'


def test_the_same_size_in_another_unit():
    assert in_unit(2**31, "GiB") == 2.0
    assert in_unit(2**31, "GB") == 2.147483648
    assert in_unit(0, "TB") == 0.0


@pytest.mark.parametrize("function", [show, lambda size: in_unit(size, "GB")])
@pytest.mark.parametrize("bad", [-1, True, 2.0, "2"])
def test_what_is_no_number_of_bytes_is_refused(function, bad):
    with pytest.raises(ValueError, match=f"num_bytes must be a whole number of at least 0, got {bad!r}"):
        function(bad)


def test_sizes_as_people_read_them():
    """The unit changes where the decimal one is full."""
    assert [show(size) for size in (0, 999, 1000)] == ["0 B", "999 B", "1.00 KB (0.98 KiB)"]
    assert show(2_315_255_808) == "2.32 GB (2.16 GiB)"
    assert show(5 * 10**15) == "5000.00 TB (4547.47 TiB)"
