"""Dates that an instructor types."""

from __future__ import annotations

import time
from datetime import datetime

import pytest

from autograde.classroom.due import parse_due


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch):
    """A machine an hour ahead of UTC in winter."""
    monkeypatch.setenv("TZ", "CET-1")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_a_day_ends_where_the_machine_is(berlin: None) -> None:
    assert parse_due("2027-01-31") == datetime(2027, 1, 31, 22, 59, 59)
    assert parse_due(" 2027-01-31 18:00\n") == datetime(2027, 1, 31, 17)
    assert parse_due("20270131") == parse_due("2027-01-31")


def test_a_zone_may_be_named() -> None:
    assert parse_due("2027-01-31 18:00+05:30") == datetime(2027, 1, 31, 12, 30)


@pytest.mark.parametrize("text", ["", "tomorrow", "31.01.2027", "2027-02-30", "2027-01-31 25:00", "18:00"])
def test_what_is_no_date_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="wanted a date such as 2027-01-31"):
        parse_due(text)


@pytest.mark.parametrize("text", ["0001-01-01 00:00+14:00", "9999-12-31 23:00-14:00"])
def test_a_moment_that_is_no_date_in_utc_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="wanted a date of this era"):
        parse_due(text)
