"""Pictures of forgetting: the numbers in them, and their words."""

from __future__ import annotations

import pytest

pytest.importorskip("matplotlib")

from kvlib.plots_forgetting import (  # noqa: E402
    describe_kept,
    describe_needles,
    describe_sinks,
    draw_kept,
    draw_needles,
    draw_sinks,
)

KEPT = {"window": [7, 8, 9], "sinks": [0, 8, 9], "odd": [1, 3, 6]}
SHARES = {"window": {20: 1.0, 80: 0.05}, "all": {20: 1.0, 80: 0.99}}
TABLE = {64: {0: 53.5, 1: 28.4}, 256: {0: 36.5, 1: 23.7}}


def test_kept_tokens_are_lines_at_their_positions():
    figure = draw_kept(KEPT, 10, marked=8)
    strips = figure.axes[0].collections[:3]
    assert [[line[0, 0] for line in strip.get_segments()] for strip in strips] == list(KEPT.values())
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == list(KEPT)
    assert figure.alt == describe_kept(KEPT, 10) + " Position 8, the needle, is kept by window, sinks."
    assert "window: 3 in 1 run, from 7 to 9. sinks: 3 in 2 runs, from 0 to 9." in figure.alt
    assert draw_kept(KEPT, 10, marked=5).alt.endswith("kept by none.")


@pytest.mark.parametrize("positions", [[], [10], [-1, 3]])
def test_positions_that_are_not_there_are_refused(positions):
    with pytest.raises(ValueError, match="window must keep positions from 0 to 9"):
        draw_kept({"window": positions}, 10)


def test_needles_found_are_lines_told_apart_by_markers():
    figure = draw_needles(SHARES, chance=1 / 24)
    first, second, guessing = figure.axes[0].lines
    assert (list(first.get_xdata()), list(first.get_ydata())) == ([20, 80], [1.0, 0.05])
    assert first.get_marker() != second.get_marker() and first.get_linestyle() != second.get_linestyle()
    assert set(guessing.get_ydata()) == {1 / 24}
    assert figure.alt == describe_needles(SHARES)
    assert "window: 20: 100%, 80: 5%. all: 20: 100%, 80: 99%." in figure.alt


def test_sinks_are_bars_beside_the_attention_of_each_layer():
    figure = draw_sinks(21.4, TABLE, [0.1, 0.6, 0.2])
    left, right = figure.axes
    assert [bar.get_height() for bar in left.patches] == [53.5, 36.5, 28.4, 23.7]
    assert set(left.lines[0].get_ydata()) == {21.4}
    assert [bar.get_height() for bar in right.patches] == [0.1, 0.6, 0.2]
    assert figure.alt == describe_sinks(21.4, TABLE, [0.1, 0.6, 0.2])
    assert "Window 64: 53.5 with 0 sinks, 28.4 with 1 sink." in figure.alt
    assert figure.alt.endswith("Token 0 gets 30% of the attention on average, at most 60%, in layer 1.")
