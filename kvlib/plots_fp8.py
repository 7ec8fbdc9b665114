"""Pictures of fewer bits: what a scale does, how errors compare, and how far a bound is off."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kvlib.figure import BLUE, GREY, ORANGE, PALE, RED, described, new_figure

if TYPE_CHECKING:
    from ipywidgets import VBox
    from matplotlib.figure import Figure

HATCHES = ("", "//", "xx", "..", "\\\\")
FACES = (PALE, "#FBE3C0", "#DDEFE3", "#EEDDEC", "#E6E6E6")
POWERS = range(-16, 17, 2)  # of two, of the scales that `explore_scale` tries


def describe_errors(table: Mapping[str, Mapping[str, float]]) -> str:
    """`draw_errors` in words.

    >>> describe_errors({"FP8": {"tensor": 0.03, "head": 0.02}})
    'Relative error by format and by what shares a scale. FP8: 0.03 per tensor, 0.02 per head.'
    """
    return "Relative error by format and by what shares a scale. " + " ".join(
        f"{scheme}: " + ", ".join(f"{error:.2g} per {name}" for name, error in row.items()) + "."
        for scheme, row in table.items()
    )


def draw_errors(table: Mapping[str, Mapping[str, float]]) -> Figure:
    """One group of bars for each format, one bar for each granularity of scales, on a logarithmic axis.

    table: {"FP8": {"tensor": 0.03, "head": ...}, "INT8": ...}, relative errors above 0.
    Returns the Figure; its `alt` describes it in words.
    """
    figure = new_figure(width=8.0, height=3.2)
    axes = figure.subplots()
    names = list(dict.fromkeys(name for row in table.values() for name in row))
    width = 0.8 / max(1, len(names))
    for i, name in enumerate(names):
        places = [group + (i - (len(names) - 1) / 2) * width for group in range(len(table))]
        heights = [row.get(name, 0.0) for row in table.values()]
        style: dict[str, Any] = {"facecolor": FACES[i % len(FACES)], "hatch": HATCHES[i % len(HATCHES)]}
        style["edgecolor"] = BLUE
        axes.bar(places, heights, width * 0.9, label=f"per {name}", **style)
        for place, height in zip(places, heights, strict=True):
            axes.text(place, height, f"{height:.2g}", ha="center", va="bottom", fontsize=8)
    axes.set_yscale("log")
    axes.set_xticks(range(len(table)), list(table))
    axes.set_ylabel("relative error")
    axes.legend(frameon=False, fontsize=8, title="one scale", title_fontsize=8)
    _bare(axes)
    return described(figure, describe_errors(table))


def scale_sweep(to_fp8: Callable[[Any, Any], Any], x: Any) -> list[tuple[int, float]]:
    """(power, relative error) of casting x with scales of 2**power, by the reader's own cast.

    x: a float32 tensor. The error is the length of the difference over the length of x.
    """
    import torch

    found = []
    for power in POWERS:
        scale = torch.full((1,) * x.ndim, 2.0**power)
        back = to_fp8(x, scale).float() * scale
        found.append((power, float((back - x).norm() / x.norm())))
    return found


def describe_sweep(points: Sequence[tuple[int, float]]) -> str:
    """`draw_sweep` in words."""
    best = min(points, key=lambda point: point[1])
    said = ", ".join(f"2**{power}: {error:.2g}" for power, error in points)
    return f"Relative error by scale: {said}. It is smallest, {best[1]:.2g}, at 2**{best[0]}."


def draw_sweep(points: Sequence[tuple[int, float]], chosen: int | None = None) -> Figure:
    """The error of a cast to FP8 against the scale: flat where nothing is clamped or lost, steep at both ends.

    points: as `scale_sweep` gives them. chosen: a power to be marked. Returns the Figure; its `alt` has the words.
    """
    figure = new_figure(width=7.0, height=3.0)
    axes = figure.subplots()
    axes.plot(*zip(*points, strict=True), color=BLUE, marker="o")
    for power, error in points:
        if power == chosen:
            axes.plot([power], [error], color=RED, marker="s", markersize=11, fillstyle="none")
            # Not beside the mark, where the curve would cross the words.
            axes.set_title(f"2**{power}: relative error {error:.2g}", loc="left")
    axes.set_yscale("log")
    axes.set_xlabel("scale, as a power of 2: too small clamps, too large loses")
    axes.set_ylabel("relative error")
    _bare(axes)
    words = describe_sweep(points)
    return described(figure, words if chosen is None else f"{words} Chosen: 2**{chosen}.")


def explore_scale(to_fp8: Callable[[Any, Any], Any], x: Any) -> VBox | Figure:
    """Move the scale of a cast of your own, `to_fp8(x, scale)`, and see the error. x: a float32 tensor.

    Returns the picture alone where ipywidgets is missing.
    """
    points = scale_sweep(to_fp8, x)
    still = draw_sweep(points)
    try:
        import ipywidgets
    except ImportError:
        return still
    from kvlib.widgets import with_picture

    slider = ipywidgets.SelectionSlider(options=[(f"2**{power}", power) for power, _ in points], value=0)
    slider.description = "scale"
    return with_picture([slider], lambda: draw_sweep(points, slider.value), still)


def describe_budget(moved: Any, bound: Any) -> str:
    """`draw_budget` in words."""
    share = np.asarray(moved, dtype=float) / np.asarray(bound, dtype=float)
    most = f"{share.max():.0%} of its bound, {np.median(share):.1%} in the middle"
    return f"{share.size} outputs: what was measured is at most {most}."


def draw_budget(moved: Any, bound: Any) -> Figure:
    """How far each output moved, under how far it may have moved. moved, bound: (D,), above 0.

    Returns the Figure; its `alt` describes it in words.
    """
    moved, bound = (np.abs(np.asarray(part, dtype=float)) for part in (moved, bound))
    figure = new_figure(width=7.0, height=2.8)
    axes = figure.subplots()
    axes.step(range(len(bound)), bound, where="mid", color=RED, linestyle="--", label="bound")
    axes.bar(range(len(moved)), moved, color=ORANGE, edgecolor=GREY, hatch="//", label="measured")
    axes.set_yscale("log")
    axes.set_xlabel("output")
    axes.set_ylabel("moved by")
    axes.legend(frameon=False, fontsize=8, ncols=2, loc="lower left", bbox_to_anchor=(0, 1))  # bars are everywhere
    _bare(axes)
    return described(figure, describe_budget(moved, bound))


def _bare(axes: Any) -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
