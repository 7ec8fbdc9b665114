"""Pictures with a slider. Where ipywidgets is missing, the plain picture comes instead.

ipywidgets is imported only when a slider is made.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from kvlib import plots

if TYPE_CHECKING:
    from ipywidgets import VBox
    from matplotlib.figure import Figure


def explore_rows(max_tokens: int = 8) -> VBox | Figure:
    """Step through `plots.draw_rows`: a slider for the number of steps, and the picture so far below it.

    By keyboard: Tab to the slider, then the arrow keys; Home and End go to the first and to the last step.
    Returns the picture of all steps where ipywidgets is missing; a page that cannot run widgets shows that picture too.
    """
    everything = plots.draw_rows(max_tokens)
    try:
        import ipywidgets
    except ImportError:
        return everything

    slider = ipywidgets.IntSlider(value=1, min=1, max=max_tokens, description="steps")
    picture = ipywidgets.HTML()

    def draw(change: Any = None) -> None:
        picture.value = _html(plots.draw_rows(max_tokens, upto=slider.value))

    slider.observe(draw, names="value")
    draw()
    box = ipywidgets.VBox([slider, picture])
    fallback = {"image/png": plots.png(everything), "text/plain": everything.alt}
    box._repr_mimebundle_ = lambda **kwargs: type(box)._repr_mimebundle_(box, **kwargs) | fallback
    return box


def _html(figure: Figure) -> str:
    return f'<img style="max-width: 100%" alt="{escape(figure.alt)}" src="data:image/png;base64,{plots.png(figure)}">'
