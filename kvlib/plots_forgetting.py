"""Pictures of forgetting: which tokens are kept, which needles are found, and what sinks are worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kvlib.figure import BLUE, GREY, ORANGE, PALE, RED, described, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLES = ((BLUE, "o", "-"), (RED, "s", "--"), (ORANGE, "^", "-."), (GREY, "D", ":"))
FACES, HATCHES = (PALE, "#FBE3C0", "#DDEFE3", "#EEDDEC"), ("", "//", "xx", "..")


def describe_kept(kept: Mapping[str, Sequence[int]], num_tokens: int) -> str:
    """`draw_kept` in words.

    >>> describe_kept({"window": [6, 7], "sinks": [0, 6, 7]}, num_tokens=8)
    'Tokens kept of 8. window: 2 in 1 run, from 6 to 7. sinks: 3 in 2 runs, from 0 to 7.'
    """
    rows = []
    for name, positions in kept.items():
        held = sorted(set(positions))
        runs = sum(i == 0 or held[i - 1] != place - 1 for i, place in enumerate(held))
        rows.append(f"{name}: {len(held)} in {runs} run{'s' * (runs != 1)}, from {held[0]} to {held[-1]}.")
    return f"Tokens kept of {num_tokens}. " + " ".join(rows)


def draw_kept(kept: Mapping[str, Sequence[int]], num_tokens: int, marked: int | None = None) -> Figure:
    """One strip for each cache: a line where a token is kept.

    kept: {"window": [136, ...], ...}, positions below num_tokens, at least one each. marked: a position to point at.
    Returns the Figure; its `alt` describes it in words. Raises ValueError for positions that are not there.
    """
    for name, positions in kept.items():
        if not len(positions) or min(positions) < 0 or max(positions) >= num_tokens:
            raise ValueError(f"{name} must keep positions from 0 to {num_tokens - 1}, got {list(positions)}")
    figure = new_figure(width=8.0, height=0.5 * len(kept) + 1.1)
    axes = figure.subplots()
    for row, positions in enumerate(kept.values()):
        axes.axhspan(row - 0.36, row + 0.36, color=PALE, zorder=0)
        axes.vlines(positions, row - 0.36, row + 0.36, color=BLUE, linewidth=1.6)
    words = describe_kept(kept, num_tokens)
    if marked is not None:
        axes.axvline(marked, color=RED, linestyle="--", linewidth=1.2)
        axes.text(marked + 0.01 * num_tokens, -0.5, "the needle", color=RED, fontsize=8)
        having = [name for name, positions in kept.items() if marked in positions]
        words += f" Position {marked}, the needle, is kept by {', '.join(having) or 'none'}."
    axes.set_yticks(range(len(kept)), list(kept))
    axes.set_ylim(len(kept) - 0.5, -0.8)
    axes.set_xlim(-1, num_tokens)
    axes.set_xlabel("position")
    _bare(axes)
    return described(figure, words)


def describe_needles(shares: Mapping[str, Mapping[int, float]]) -> str:
    """`draw_needles` in words."""
    rows = []
    for name, row in shares.items():
        rows.append(f"{name}: " + ", ".join(f"{gap}: {share:.0%}" for gap, share in row.items()) + ".")
    return "Share of needles found, by gap. " + " ".join(rows)


def draw_needles(shares: Mapping[str, Mapping[int, float]], chance: float) -> Figure:
    """One line for each cache: the share of needles found against how many tokens ago they were named.

    shares: {"window 64": {20: 1.0, 80: 0.05}, ...}. chance: what guessing gives.
    Returns the Figure; its `alt` describes it in words.
    """
    figure = new_figure(width=7.0, height=3.0)
    axes = figure.subplots()
    for i, (name, row) in enumerate(shares.items()):
        colour, marker, line = STYLES[i % len(STYLES)]
        axes.plot(list(row), list(row.values()), color=colour, marker=marker, linestyle=line, label=name)
    axes.axhline(chance, color=GREY, linewidth=0.8)
    farthest = max(gap for row in shares.values() for gap in row)
    axes.text(1.03 * farthest, chance + 0.02, "guessing", fontsize=8)
    axes.set_xlim(0, 1.15 * farthest)
    axes.set_ylim(-0.03, 1.08)
    axes.set_xlabel("tokens since the needle was named")
    axes.set_ylabel("found")
    axes.legend(frameon=False, fontsize=8)
    _bare(axes)
    return described(figure, describe_needles(shares))


def describe_sinks(full: float, table: Mapping[int, Mapping[int, float]], shares: Sequence[float]) -> str:
    """`draw_sinks` in words."""
    said = " ".join(
        f"Window {size}: " + ", ".join(f"{value:.1f} with {_sinks(sinks)}" for sinks, value in row.items()) + "."
        for size, row in table.items()
    )
    most = max(range(len(shares)), key=shares.__getitem__)
    mean = sum(shares) / len(shares)
    mass = f"Token 0 gets {mean:.0%} of the attention on average, at most {shares[most]:.0%}, in layer {most}."
    return f"Perplexity {full:.1f} with everything kept. {said} {mass}"


def draw_sinks(full: float, table: Mapping[int, Mapping[int, float]], shares: Sequence[float]) -> Figure:
    """Left: perplexity by window and number of sinks. Right: what share of its attention each layer gives to token 0.

    full: perplexity with everything kept. table: {64: {0: 53.5, 1: 28.4}, ...}, perplexity by window and sinks.
    Returns the Figure; its `alt` describes it in words.
    """
    figure = new_figure(width=9.0, height=3.1)
    left, right = figure.subplots(1, 2)
    names = list(dict.fromkeys(sinks for row in table.values() for sinks in row))
    width = 0.8 / max(1, len(names))
    for i, sinks in enumerate(names):
        places = [group + (i - (len(names) - 1) / 2) * width for group in range(len(table))]
        style = {"facecolor": FACES[i % 4], "edgecolor": BLUE, "hatch": HATCHES[i % 4]}
        heights = [row.get(sinks, 0.0) for row in table.values()]
        left.bar(places, heights, width * 0.9, label=_sinks(sinks), **style)
        for place, height in zip(places, heights, strict=True):
            left.text(place, height, f"{height:.1f}", ha="center", va="bottom", fontsize=8)
    left.axhline(full, color=RED, linestyle="--", label=f"everything kept: {full:.1f}")
    left.set_xticks(range(len(table)), [f"window {size}" for size in table])
    left.set_ylabel("perplexity")
    left.legend(frameon=False, fontsize=8)
    right.bar(range(len(shares)), shares, color=BLUE)
    right.set_xlabel("layer")
    right.set_ylabel("attention on token 0")
    right.set_ylim(0, 1)
    for axes in (left, right):
        _bare(axes)
    return described(figure, describe_sinks(full, table, shares))


def _sinks(count: int) -> str:
    return f"{count} sink{'s' * (count != 1)}"


def _bare(axes: Any) -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
