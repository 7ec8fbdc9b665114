"""Pictures of a server: every span and number in them, and their words."""

from __future__ import annotations

import pytest

pytest.importorskip("matplotlib")

from kvlib.plots_server import (  # noqa: E402
    Span,
    describe_timeline,
    draw_load,
    draw_storm,
    draw_timeline,
    spans,
)
from kvlib.request_stream import Note  # noqa: E402
from kvlib.service_report import report  # noqa: E402

LOG = [
    Note(0.0, "ask", 4, 5),
    Note(0.0, "admit", 4, 0),
    Note(0.0, "prefill", 4, (1.0, 3)),
    Note(0.5, "ask", 2, 3),
    Note(1.0, "prefill", 4, (2.0, 2)),
    Note(2.0, "token", 4, 9),
    Note(2.0, "decode", 4, (3.0, 1)),
    Note(3.0, "token", 4, 9),
    Note(3.0, "decode", 4, (4.0, 1)),
    Note(4.0, "token", 4, 9),
    Note(4.0, "release", 4),
    Note(4.0, "admit", 2, 0),
    Note(4.0, "prefill", 2, (5.0, 3)),
    Note(5.0, "token", 2, 9),
    Note(5.0, "release", 2),
    Note(5.0, "close", 2, "aborted"),
    Note(6.0, "admit", 4, 4),
    Note(6.0, "prefill", 4, (7.0, 2)),
    Note(7.0, "token", 4, 9),
    Note(7.0, "decode", 4, (8.0, 1)),
    Note(8.0, "token", 4, 9),
    Note(8.0, "release", 4),
    Note(8.0, "close", 4, "done"),
]


def test_spans_say_what_each_did_when():
    assert [span for span in spans(LOG) if span.id == 4] == [
        Span(4, "prefill", 0.0, 1.0),
        Span(4, "prefill", 1.0, 2.0),
        Span(4, "decode", 2.0, 4.0),
        Span(4, "preempted", 4.0, 6.0),
        Span(4, "prefill", 6.0, 7.0),
        Span(4, "decode", 7.0, 8.0),
    ]
    assert [span for span in spans(LOG) if span.id == 2] == [Span(2, "waiting", 0.5, 4.0), Span(2, "prefill", 4.0, 5.0)]


def test_a_request_that_is_left_out_of_a_step_has_a_gap():
    log = [Note(0.0, "ask", 1, 1), Note(0.0, "decode", 1, (1.0, 1)), Note(2.0, "decode", 1, (3.0, 1))]
    assert spans(log) == [Span(1, "decode", 0.0, 1.0), Span(1, "decode", 2.0, 3.0)]


def test_a_server_that_closes_before_it_releases_was_not_preempted():
    log = [Note(0.0, "ask", 1, 1), Note(0.0, "admit", 1, 0), Note(1.0, "close", 1, "done"), Note(1.0, "release", 1)]
    assert spans(log) == []


def test_the_timeline_has_a_row_for_each_and_a_cross_for_the_aborted():
    figure = draw_timeline(LOG)
    [axes] = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["4", "2"]
    [crosses] = axes.lines
    assert (list(crosses.get_xdata()), list(crosses.get_ydata())) == ([5000.0], [1])
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [
        "aborted",
        "waiting",
        "prefill",
        "decode",
        "preempted",
    ]
    figure.draw_without_rendering()
    assert "2,000" in [label.get_text() for label in axes.get_xticklabels()]
    assert figure.alt == describe_timeline(LOG)
    assert "4: prefill 3,000 ms, decode 3,000 ms, preempted 2,000 ms, done" in figure.alt
    assert "2: waiting 3,500 ms, prefill 1,000 ms, aborted" in figure.alt
    assert draw_timeline(LOG[:-1]).alt.count("open") == 1
    refused = draw_timeline([*LOG, Note(8.0, "ask", 9, 900), Note(8.0, "close", 9, "refused")]).axes[0].lines
    assert [(list(line.get_xdata()), list(line.get_ydata())) for line in refused] == [([5000.0], [1]), ([8000.0], [2])]
    draw_timeline([])


def test_load_has_two_lines_for_each_way_in_both_panels():
    told = report(LOG)
    figure = draw_load({"one": {1.0: told, 2.0: told}, "other": {1.0: told, 2.0: report([])}}, "asks")
    for axes in figure.axes:
        lines = [(list(line.get_xdata()), list(line.get_ydata())) for line in axes.lines]
        middle, high = (2000.0, 4500.0) if axes is figure.axes[0] else (1000.0, 3000.0)
        assert lines == [([1, 2], [middle] * 2), ([1, 2], [high] * 2), ([1], [middle]), ([1], [high])]
        assert len({(line.get_linestyle(), line.get_marker()) for line in axes.lines}) == 4  # told apart without colour
        assert axes.get_xlabel() == "asks"
    assert "Milliseconds against asks. one, TTFT 50%: 2,000 at 1, 2,000 at 2;" in figure.alt


def test_the_storm_has_every_pool_and_its_numbers():
    figure = draw_storm({20: report(LOG), 300: report([])})
    assert [[bar.get_height() for bar in axes.patches] for axes in figure.axes] == [[0, 1], [0, 13], [0, 6 / 8]]
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["300", "20"]
    assert "20 blocks: 1 preemptions, 13 tokens computed, 1 sent a second" in figure.alt
