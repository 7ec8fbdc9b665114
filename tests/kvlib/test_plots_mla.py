"""The picture of cached elements: its bars, its words."""

from __future__ import annotations

import pytest

pytest.importorskip("matplotlib")

from kvlib.plots_mla import describe_elements, draw_elements

TABLE = {"MHA": 32768, "MLA": 576, "MQA, 3 layers share": 256 / 3}


def test_bars_are_as_long_as_the_elements():
    figure = draw_elements(TABLE, marked="MLA")
    axes = figure.axes[0]
    assert [bar.get_width() for bar in axes.patches] == list(TABLE.values())
    assert [bool(bar.get_hatch()) for bar in axes.patches] == [False, True, False]  # not by colour alone
    assert [text.get_text() for text in axes.texts] == ["32,768", "576   1/56.9", "85.3   1/384"]
    assert [label.get_text() for label in axes.get_yticklabels()] == list(TABLE)


def test_its_words():
    assert draw_elements(TABLE).alt == describe_elements(TABLE)
    assert describe_elements(TABLE) == (
        "Cached elements for each token in one layer. MHA: 32,768. MLA: 576, 56.9 times fewer. "
        "MQA, 3 layers share: 85.3, 384 times fewer."
    )


@pytest.mark.parametrize("table", [{}, {"MHA": 0}, {"MHA": 2, "MLA": -1}])
def test_a_kind_without_elements_is_refused(table):
    for call in (describe_elements, draw_elements):
        with pytest.raises(ValueError, match="above 0"):
            call(table)
