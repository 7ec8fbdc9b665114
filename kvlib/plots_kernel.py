"""A picture of a decode kernel: which programs a GPU's processors run, when a context is cut into parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kvlib.figure import BLUE, GREY, PALE, described, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FACES = (PALE, "#FBE3C0", "#DDEFE3", "#EEDDEC")  # one for each KV head; its number says the same


@dataclass(frozen=True)
class Run:
    """One program on one processor. start, end: in tiles read."""

    processor: int
    start: int
    end: int
    kv_head: int
    part: int


def schedule(num_kv_heads: int, num_tiles: int, num_parts: int, num_processors: int) -> list[Run]:
    """The programs of one decode step of one sequence: one for each KV head and part.

    Each reads its tiles one after the other. Whichever processor is free first takes the next program. Parts that are
    left without a tile are not listed. Raises ValueError for a size below 1.

    >>> runs = schedule(num_kv_heads=1, num_tiles=4, num_parts=2, num_processors=2)
    >>> [(run.processor, run.start, run.end) for run in runs]
    [(0, 0, 2), (1, 0, 2)]
    """
    if min(num_kv_heads, num_tiles, num_parts, num_processors) < 1:
        raise ValueError(f"sizes must be 1 or more: {num_kv_heads}, {num_tiles}, {num_parts}, {num_processors}")
    each = -(-num_tiles // num_parts)
    free, runs = [0] * num_processors, []
    for part in range(num_parts):
        tiles = min(each, num_tiles - part * each)
        for kv_head in range(num_kv_heads if tiles > 0 else 0):
            processor = free.index(min(free))
            start = free[processor]
            free[processor] = start + tiles
            runs.append(Run(processor, start, start + tiles, kv_head, part))
    return runs


def _title(runs: Sequence[Run], num_parts: int) -> str:
    at_once = len({run.processor for run in runs})
    s = "" if num_parts == 1 else "s"
    return f"{num_parts} part{s}: {len(runs)} programs, {at_once} at once, done after {max(run.end for run in runs)}"


def describe_parts(num_kv_heads: int, num_tiles: int, parts: Sequence[int], num_processors: int) -> str:
    """`draw_parts` in words."""
    told = [_title(schedule(num_kv_heads, num_tiles, n, num_processors), n) for n in parts]
    sizes = f"{num_processors} processors, {num_kv_heads} KV heads, {num_tiles} tiles of context"
    return f"One decode step on {sizes}. " + ". ".join(told) + "."


def draw_parts(
    num_kv_heads: int = 2, num_tiles: int = 32, parts: Sequence[int] = (1, 2, 4, 16), num_processors: int = 8
) -> Figure:
    """One row of pictures, one for each number of parts: processors from top to bottom, time to the right.

    Time is counted in tiles that a program reads. What merging the parts costs is not in it. Returns the Figure; its
    `alt` describes it in words.
    """
    figure = new_figure(width=8.5, height=1.5 * len(parts) + 0.4)
    rows = figure.subplots(len(parts), 1, sharex=True, squeeze=False)[:, 0]
    for axes, n in zip(rows, parts, strict=True):
        _draw_runs(axes, schedule(num_kv_heads, num_tiles, n, num_processors), n, num_tiles, num_processors)
    rows[-1].set_xlabel("time, in tiles read")
    return described(figure, describe_parts(num_kv_heads, num_tiles, parts, num_processors))


def _draw_runs(axes: Axes, runs: Sequence[Run], num_parts: int, num_tiles: int, num_processors: int) -> None:
    from matplotlib.patches import Rectangle

    for run in runs:
        face = FACES[run.kv_head % len(FACES)]
        place = (run.start, run.processor + 0.05)
        style: dict[str, Any] = {"facecolor": face, "edgecolor": BLUE, "linewidth": 0.6}
        axes.add_patch(Rectangle(place, run.end - run.start, 0.9, **style))
        if run.end - run.start >= num_tiles / 20:
            middle = ((run.start + run.end) / 2, run.processor + 0.5)
            axes.text(*middle, str(run.kv_head), ha="center", va="center", fontsize=7)
    axes.set_title(_title(runs, num_parts), fontsize=9, loc="left")
    axes.set_xlim(0, num_tiles)
    axes.set_ylim(num_processors, 0)
    axes.set_yticks([])
    axes.set_ylabel("processors", fontsize=8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.spines["left"].set_color(GREY)
