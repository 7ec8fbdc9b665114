"""The report of a log that is worked out by hand."""

from __future__ import annotations

import pytest

from kvlib.request_stream import Note
from kvlib.service_report import percentile, report, table

LOG = [
    Note(10.0, "ask", 1, 5),
    Note(10.25, "admit", 1, 0),
    Note(10.25, "prefill", 1, (11.0, 5)),
    Note(10.5, "ask", 2, 3),
    Note(11.0, "token", 1, 9),
    Note(11.0, "admit", 2, 2),
    Note(11.0, "decode", 1, (11.5, 1)),
    Note(11.0, "prefill", 2, (11.5, 1)),
    Note(11.5, "token", 1, 9),
    Note(11.5, "token", 2, 9),
    Note(11.5, "release", 2),
    Note(11.5, "decode", 1, (12.0, 1)),
    Note(12.0, "token", 1, 9),
    Note(12.0, "release", 1),
    Note(12.0, "close", 1, "done"),
    Note(12.0, "admit", 2, 2),
    Note(12.0, "prefill", 2, (14.0, 2)),
    Note(14.0, "token", 2, 9),
    Note(14.0, "release", 2),
    Note(14.0, "close", 2, "done"),
    Note(14.0, "ask", 3, 900),
    Note(14.0, "close", 3, "refused"),
    Note(14.0, "ask", 4, 1),
    Note(15.0, "abort", 4),
    Note(15.0, "close", 4, "aborted"),
]


def test_every_number_of_a_report():
    told = report(LOG)
    assert told.ttft == [1.0, 1.0]
    assert told.itl == [0.5, 0.5, 2.5]  # the third: preempted in between
    assert told.queueing == [0.25, 0.5]
    assert (told.done, told.refused, told.aborted) == (2, 1, 1)
    assert (told.tokens, told.computed, told.reused, told.preemptions) == (5, 10, 4, 1)
    assert told.seconds == 5.0
    assert told.throughput == 1.0


def test_no_log_is_no_requests():
    told = report([])
    assert (told.ttft, told.itl, told.tokens, told.throughput) == ([], [], 0, 0.0)
    assert "-" in table({"nothing": told})


def test_percentiles_by_nearest_rank():
    """Of 1 to 20, interpolation would make 19.05 of the 95th, and an index of int(0.95 n) would make 20."""
    assert percentile(list(range(20, 0, -1)), 95) == 19
    assert [percentile([3.0, 1.0, 2.0], p) for p in (1, 33, 34, 50, 66, 67, 100)] == [1, 1, 2, 2, 2, 3, 3]
    assert percentile([4.0], 1) == percentile([4.0], 100) == 4.0
    assert percentile([], 50) is None
    for wrong in (0, 101, 0.95):
        with pytest.raises(ValueError, match="1 to 100"):
            percentile([1.0], wrong)


def test_a_table_has_a_row_for_each_report():
    lines = table({"small": report(LOG), "again": report(LOG)}).splitlines()
    assert len(lines) == 4
    assert lines[1].split() == ["small", "1,000", "1,000", "500", "2,500", "2,500", "1", "10", "1"]
    assert {len(line) for line in lines[:3]} == {len(lines[0])}
    assert "nearest rank" in lines[3]
