"""The pictures: what they count, what they say in words, and how they reach a notebook."""

from __future__ import annotations

import base64
import sys

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from matplotlib.colors import to_rgb  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402
from matplotlib.patches import Rectangle  # noqa: E402
from matplotlib.text import Text  # noqa: E402

from kvlib import plots  # noqa: E402
from kvlib.counts import count_positions, count_rows  # noqa: E402


def boxes(axes) -> list[Rectangle]:
    return [patch for patch in axes.patches if isinstance(patch, Rectangle)]


def looks(patch) -> tuple:
    return patch.get_facecolor(), patch.get_hatch()


@pytest.mark.parametrize("num_tokens", [1, 4, 7, 16])
def test_the_boxes_drawn_as_computed_are_the_rows_counted(num_tokens):
    """Counted in the figure itself: were a total typed in, or a row drawn in the wrong style, they would part."""
    figure = plots.draw_rows(num_tokens)
    (legend,) = figure.legends
    look = {text.get_text(): looks(patch) for text, patch in zip(legend.texts, legend.get_patches(), strict=True)}
    computed = {look["computed for the first time"], look["computed again"]}
    for axes, count in zip(figure.axes, count_rows(num_tokens), strict=True):
        assert len(boxes(axes)) == num_tokens * num_tokens
        assert sum(looks(box) in computed for box in boxes(axes)) == count
        assert axes.get_title(loc="left").endswith(f"{count} row{'s' * (count > 1)}")


def test_the_totals_of_four_tokens(facts):
    figure = plots.draw_rows(4)
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == ["Without a cache: 1 + 2 + 3 + 4 = 10 rows", "With a cache: 1 + 1 + 1 + 1 = 4 rows"]
    rows = facts["B.rows"]
    for cached, name in ((False, "naive"), (True, "cached")):
        assert plots.computed_by_step(plots.rows_by_step(4, cached)) == rows[name]
    assert [axes.get_xlabel() for axes in figure.axes] == ["step (rows computed)"] * 2


def test_no_two_kinds_of_row_differ_by_colour_alone():
    """Words in the boxes tell them apart, and hatch, line and lightness where the boxes are too small for words."""
    words = [text.get_text() for text in plots.draw_rows(4).axes[0].texts]
    assert (words.count(plots.NEW), words.count(plots.AGAIN), words.count(plots.KEPT)) == (4, 6, 0)
    words = [text.get_text() for text in plots.draw_rows(4).axes[1].texts]
    assert (words.count(plots.NEW), words.count(plots.AGAIN), words.count(plots.KEPT)) == (4, 0, 6)

    assert [row for row, style in plots.STYLE.items() if "hatch" in style] == [plots.AGAIN]
    assert [row for row, style in plots.STYLE.items() if "linestyle" in style] == [plots.ABSENT]
    lightness = {row: np.dot((0.3, 0.59, 0.11), to_rgb(style["facecolor"])) for row, style in plots.STYLE.items()}
    assert lightness[plots.KEPT] - lightness[plots.NEW] > 0.4


def test_steps_to_come_are_left_empty():
    figure = plots.draw_rows(5, upto=2)
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == ["Without a cache: 1 + 2 = 3 rows", "With a cache: 1 + 1 = 2 rows"]
    for axes in figure.axes:
        assert {round(box.get_x() + box.get_width() / 2) for box in boxes(axes)} == {0, 1}
        labels = [label.get_text().strip() for label in axes.get_xticklabels()]
        assert [bool(label) for label in labels] == [True, True, False, False, False]


def test_a_long_sum_is_shortened():
    assert plots.draw_rows(16).axes[0].get_title(loc="left") == "Without a cache: 1 + 2 + ... + 16 = 136 rows"


def test_rows_in_words():
    text = plots.describe_rows(4)
    assert "Without a cache, rows of K and V computed by step 4: 1 + 2 + 3 + 4 = 10." in text
    assert "With a cache, rows of K and V computed by step 4: 1 + 1 + 1 + 1 = 4." in text
    assert plots.draw_rows(4).alt == text
    assert "by step 2: 1 + 2 = 3." in plots.draw_rows(4, upto=2).alt


def test_no_token_is_no_picture():
    with pytest.raises(ValueError, match="at least 1 token, got 0"):
        plots.draw_rows(0)


def test_growth_is_what_the_formulas_give(facts):
    a2 = facts["A2"]
    figure = plots.draw_growth(a2["prompt"], a2["new"])
    axes = figure.axes[0]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    for line, which in zip(axes.lines, (0, 1), strict=True):
        assert list(line.get_xdata()) == list(range(1, 1025))
        assert [int(y) for y in line.get_ydata()] == [count_positions(64, n)[which] for n in range(1, 1025)]
    texts = " ".join(text.get_text() for text in axes.texts)
    for figure_text in (f"{a2['uncached']:,}", f"{a2['cached']:,}", f"{a2['factor']} times"):
        assert figure_text in texts
        assert figure_text in figure.alt
    assert axes.lines[0].get_linestyle() != axes.lines[1].get_linestyle()
    assert figure.alt == plots.describe_growth(64, 1024)


@pytest.mark.parametrize("draw", [plots.draw_rows, plots.draw_growth])
def test_a_notebook_gets_the_picture_and_the_words(draw):
    """And gets it once: pyplot, which would show it a second time at the end of the cell, knows nothing of it."""
    figure = draw()
    assert isinstance(figure, Figure)
    data, metadata = figure._repr_mimebundle_(include=None, exclude=None)
    assert base64.b64decode(data["image/png"]).startswith(b"\x89PNG")
    assert data["text/plain"] == metadata["image/png"]["alt"] == figure.alt
    if "matplotlib.pyplot" in sys.modules:
        assert not sys.modules["matplotlib.pyplot"].get_fignums()


@pytest.mark.parametrize("num_tokens", [1, 2, 4, 8, 12, 16])
def test_everything_is_inside_the_picture(num_tokens):
    """With one token the legend was once wider than the figure, and with 16 one title ran into the other."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    for figure in (plots.draw_rows(num_tokens), plots.draw_growth(new=num_tokens + 1)):
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        whole, used = figure.bbox, figure.get_tightbbox(canvas.get_renderer())
        width, height = (side * figure.dpi for side in (used.width, used.height))
        assert width <= whole.width and height <= whole.height
        assert used.x0 >= 0 and used.y0 >= 0
        titles = [text for axes in figure.axes for text in axes.findobj(Text) if " a cache: " in text.get_text()]
        assert len(titles) in (0, 2)
        if titles:
            assert titles[0].get_window_extent().x1 < titles[1].get_window_extent().x0


def test_the_background_is_white_whatever_the_style():
    import matplotlib

    with matplotlib.rc_context({"figure.facecolor": "black", "savefig.transparent": True}):
        figure = plots.draw_rows(2)
        assert figure.get_facecolor() == (1.0, 1.0, 1.0, 1.0)
