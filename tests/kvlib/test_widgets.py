"""The slider, and what comes where there are no sliders."""

from __future__ import annotations

import html
import sys

import pytest

pytest.importorskip("matplotlib")

from kvlib import plots  # noqa: E402
from kvlib.figure import png  # noqa: E402
from kvlib.widgets import explore_rows  # noqa: E402


def test_the_slider_steps_through_the_picture():
    pytest.importorskip("ipywidgets")
    slider, picture = explore_rows(5).children
    assert (slider.min, slider.max, slider.value) == (1, 5, 1)
    seen = []
    for step in range(1, 6):
        slider.value = step
        assert html.escape(plots.describe_rows(5, upto=step)) in picture.value
        seen.append(picture.value)
    assert len(set(seen)) == 5


def test_a_page_without_widgets_gets_the_whole_picture():
    pytest.importorskip("ipywidgets")
    bundle = explore_rows(3)._repr_mimebundle_(include=None, exclude=None)
    assert "application/vnd.jupyter.widget-view+json" in bundle
    assert bundle["image/png"] == png(plots.draw_rows(3))
    assert bundle["text/plain"] == plots.describe_rows(3)


def test_without_ipywidgets_the_picture_itself_comes_back(monkeypatch):
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    figure = explore_rows(3)
    assert figure.alt == plots.describe_rows(3)
