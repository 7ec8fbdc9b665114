"""A picture of what a token costs: the cached numbers of one layer, by kind of attention."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kvlib.figure import BLUE, ORANGE, PALE, described, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _number(elements: float) -> str:
    return f"{elements:,.0f}" if elements == int(elements) else f"{elements:,.1f}"


def _checked(table: Mapping[str, float]) -> None:
    if not table or min(table.values()) <= 0:
        raise ValueError(f"each kind needs a number of elements above 0, got {dict(table)}")


def describe_elements(table: Mapping[str, float]) -> str:
    """`draw_elements` in words.

    Raises ValueError for an empty table, and for a number that is not above 0.

    >>> describe_elements({"MHA": 4096, "MLA": 512})
    'Cached elements for each token in one layer. MHA: 4,096. MLA: 512, 8 times fewer.'
    """
    _checked(table)
    (first, most), *others = table.items()
    said = [f"{name}: {_number(n)}, {most / n:.3g} times fewer." for name, n in others]
    return " ".join([f"Cached elements for each token in one layer. {first}: {_number(most)}.", *said])


def draw_elements(table: Mapping[str, float], marked: str = "") -> Figure:
    """One bar for each kind of attention, on a logarithmic axis; the first is what the others are compared with.

    table: {"MHA": 32768, "MLA": 576, ...}, elements of cache for each token in one layer, above 0 (else ValueError). A
    kind whose layers share a cache has a fraction of a layer's. marked: the kind to be marked by a hatch.
    Returns the Figure; its `alt` describes it in words.
    """
    _checked(table)
    figure = new_figure(width=8.0, height=0.6 + 0.38 * len(table))
    axes = figure.subplots()
    most, least = max(table.values()), min(table.values())
    for row, (name, elements) in enumerate(table.items()):
        is_marked = name == marked
        style: dict[str, Any] = {"facecolor": ORANGE if is_marked else PALE, "hatch": "//" if is_marked else ""}
        style["edgecolor"] = BLUE
        axes.barh(row, elements, 0.65, **style)
        times = next(iter(table.values())) / elements
        label = _number(elements) + (f"   1/{times:.3g}" if row else "")
        axes.annotate(label, (elements, row), (5, 0), textcoords="offset points", va="center", fontsize=9)
    axes.set_yticks(range(len(table)), list(table))
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlim(least / 4, most * 6)  # room for the labels
    axes.set_xlabel("cached elements for each token in one layer")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return described(figure, describe_elements(table))
