"""What every picture shares: its paper, its colours, and a description in words for those who do not see it.

matplotlib is imported only when a picture is made. A picture belongs to no pyplot state: it is shown where it is the
last line of a cell, and nowhere else.
"""

from __future__ import annotations

import base64
import io
import os
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Of the Okabe-Ito palette, which colour-blind people can tell apart; pictures never rely on colour alone.
BLUE, ORANGE, PALE, GREY, RED = "#0072B2", "#F0A830", "#E3EEF6", "#8C8C8C", "#B03000"


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of so many inches, white in a dark notebook too."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), facecolor="white", layout="constrained")


def described(figure: Figure, alt: str) -> Figure:
    """Give a figure its description, `figure.alt`, and let a notebook show both without pyplot.

    >>> described(new_figure(3, 2), "An empty picture, 3 by 2 inches.").alt
    'An empty picture, 3 by 2 inches.'
    """
    shown_as: Any = figure  # gets what matplotlib's class has not
    shown_as.alt = alt

    def bundle(**kwargs: object) -> tuple[dict[str, str], dict[str, Any]]:
        shown = {"image/png": png(figure), "text/plain": alt}
        # JupyterLab shows a PNG without its description, and an <img> with it. Jupyter's server sets this variable for
        # the notebooks that a person opens, so the stored ones, which a run without a browser makes, stay half as big.
        if os.environ.get("JPY_SESSION_NAME"):
            shown["text/html"] = as_html(figure)
        return shown, {"image/png": {"alt": alt}}

    shown_as._repr_mimebundle_ = bundle
    return figure


def png(figure: Figure) -> str:
    """The picture as base64 text of a PNG."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110, facecolor=figure.get_facecolor())
    return base64.b64encode(buffer.getvalue()).decode("ascii")


def as_html(figure: Any) -> str:
    """The picture as an <img> with its description, never wider than the page."""
    return f'<img style="max-width: 100%" alt="{escape(figure.alt)}" src="data:image/png;base64,{png(figure)}">'
