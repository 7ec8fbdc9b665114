"""Pictures of fewer bits: the numbers in them, and their words."""

from __future__ import annotations

import pytest

pytest.importorskip("matplotlib")
torch = pytest.importorskip("torch")

from kvlib.plots_fp8 import (  # noqa: E402
    POWERS,
    describe_errors,
    draw_budget,
    draw_errors,
    draw_sweep,
    explore_scale,
    scale_sweep,
)

TABLE = {"FP8": {"tensor": 0.03, "token": 0.027}, "INT8": {"tensor": 0.02, "token": 0.005}}


def cast(x, scale):
    return (x / scale).clamp(-448, 448).to(torch.float8_e4m3fn)


def test_bars_are_as_high_as_the_errors_and_told_apart_by_hatches():
    figure = draw_errors(TABLE)
    bars = figure.axes[0].patches
    assert [bar.get_height() for bar in bars] == [0.03, 0.02, 0.027, 0.005]
    assert len({bar.get_hatch() for bar in bars}) == 2
    assert figure.alt == describe_errors(TABLE)
    assert "FP8: 0.03 per tensor, 0.027 per token. INT8: 0.02 per tensor" in figure.alt


def test_the_sweep_is_flat_in_the_middle_and_lost_at_both_ends(draw):
    points = dict(scale_sweep(cast, draw(3, 40).float()))
    assert list(points) == list(POWERS)
    assert points[0] == points[-2] < 0.04  # a power of two moves exponents only
    assert points[-16] > 0.9 and points[16] == 1.0


def test_the_sweep_uses_the_readers_own_cast(draw):
    points = scale_sweep(lambda x, scale: torch.zeros_like(x), draw(3, 4).float())
    assert {error for _, error in points} == {1.0}


def test_the_chosen_scale_is_marked(draw):
    points = scale_sweep(cast, draw(3, 4).float())
    figure = draw_sweep(points, 4)
    assert figure.axes[0].get_title(loc="left").startswith("2**4: relative error ")
    assert not figure.axes[0].texts, "words beside the mark would be crossed by the curve"
    assert figure.alt.endswith("Chosen: 2**4.") and not draw_sweep(points).alt.endswith("Chosen: 2**4.")


def test_the_widget_moves_the_mark(draw):
    pytest.importorskip("ipywidgets")
    box = explore_scale(cast, draw(3, 4).float())
    slider, picture = box.children
    before = picture.value
    slider.value = 10
    assert picture.value != before and "Chosen: 2**10." in picture.value


def test_the_budget_tells_how_much_of_it_was_used():
    figure = draw_budget([0.1, -0.2, 0.3], [1.0, 1.0, 1.0])
    assert figure.alt == "3 outputs: what was measured is at most 30% of its bound, 20.0% in the middle."


def test_the_budgets_legend_is_above_the_bars():
    """Inside the axes there is no place without a bar."""
    figure = draw_budget([0.1] * 8, [1.0] * 8)
    figure.draw_without_rendering()
    axes = figure.axes[0]
    legend = axes.get_legend().get_window_extent()
    assert axes.get_window_extent().y1 <= legend.y0 and legend.y1 <= figure.bbox.y1
