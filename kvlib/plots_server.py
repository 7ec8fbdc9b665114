"""Pictures of a server: what each request did when, waiting against load, and what a small pool costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kvlib.figure import BLUE, GREY, ORANGE, PALE, RED, described, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from kvlib.request_stream import Note
    from kvlib.service_report import Report

KINDS: dict[str, tuple[dict[str, Any], float]] = {  # of a request's time: the looks of its bar, and its half height
    "waiting": ({"facecolor": "white", "edgecolor": GREY, "linestyle": ":"}, 0.16),
    "prefill": ({"facecolor": ORANGE, "edgecolor": "white", "linewidth": 0.4}, 0.38),
    "decode": ({"facecolor": BLUE, "edgecolor": "none"}, 0.26),
    "preempted": ({"facecolor": "white", "edgecolor": RED, "hatch": "////"}, 0.26),
}


class Span(NamedTuple):
    """A piece of a request's time: one of KINDS, from begin to end, in seconds."""

    id: int
    what: str
    begin: float
    end: float


def spans(log: Sequence[Note]) -> list[Span]:
    """What each request did when. Steps that follow one another without a gap are one span of decoding."""
    found: list[Span] = []
    since: dict[int, tuple[str, float]] = {}  # who is out, why, and since when
    decoding: dict[int, int] = {}  # the place of its newest span
    for note in log:
        if note.what == "ask":
            since[note.id] = ("waiting", note.time)
        elif note.what == "release":
            since[note.id] = ("preempted", note.time)  # or it is closed at the same moment
        elif note.what in ("admit", "close") and note.id in since:
            what, begin = since.pop(note.id)
            if note.time > begin:
                found.append(Span(note.id, what, begin, note.time))
        elif note.what in ("prefill", "decode"):
            end, place = note.value[0], decoding.pop(note.id, None)
            if note.what == "decode":
                if place is not None and found[place].end == note.time:
                    found[place] = found[place]._replace(end=end)
                else:
                    place = len(found)
                    found.append(Span(note.id, "decode", note.time, end))
                decoding[note.id] = place
            else:
                found.append(Span(note.id, "prefill", note.time, end))
    return found


def describe_timeline(log: Sequence[Note]) -> str:
    """`draw_timeline` in words.

    >>> from kvlib.request_stream import Note
    >>> log = [Note(0.0, "ask", 1, 3), Note(0.2, "admit", 1, 0)]
    >>> log += [Note(0.2, "prefill", 1, (0.5, 3)), Note(0.5, "close", 1, "done")]
    >>> describe_timeline(log)
    '1 requests over time, one row each. 1: waiting 200 ms, prefill 300 ms, done.'
    """
    parts = []
    for i, pieces in _by_request(log).items():
        total = {what: sum(s.end - s.begin for s in pieces if s.what == what) for what in KINDS}
        end = next((note.value for note in log if (note.what, note.id) == ("close", i)), "open")
        parts.append(f"{i}: " + ", ".join(f"{what} {1000 * t:,.0f} ms" for what, t in total.items() if t) + f", {end}")
    return f"{len(parts)} requests over time, one row each. " + "; ".join(parts) + "."


def draw_timeline(log: Sequence[Note]) -> Figure:
    """One row for each request, in the order of asking: waiting, prefill, decode, preempted; x: aborted, +: refused.

    Returns the Figure; its `alt` describes it in words.
    """
    rows = _by_request(log)
    figure = new_figure(width=9.0, height=0.26 * len(rows) + 1.3)
    axes = figure.subplots()
    for row, pieces in enumerate(rows.values()):
        for what, (style, half) in KINDS.items():
            bars = [(1000 * s.begin, 1000 * (s.end - s.begin)) for s in pieces if s.what == what]
            axes.broken_barh(bars, (row - half, 2 * half), **style)
    places = {i: row for row, i in enumerate(rows)}
    for reason, mark in (("aborted", "x"), ("refused", "+")):
        marks = [(1000 * note.time, places[note.id]) for note in log if (note.what, note.value) == ("close", reason)]
        if marks:
            axes.plot(*zip(*marks, strict=True), mark, color="black", markersize=7, label=reason)
    for what, (style, _) in KINDS.items():
        axes.bar(0, 0, label=what, **style)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_yticks(range(len(rows)), [str(i) for i in rows], fontsize=8)
    axes.set_ylabel("request")
    axes.set_xlabel("time (ms)")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.legend(ncols=6, frameon=False, fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    _bare(axes)
    return described(figure, describe_timeline(log))


def draw_load(reports: Mapping[str, Mapping[float, Report]], unit: str = "requests a second") -> Figure:
    """TTFT and ITL, the middle and the 95th percentile, of one or more ways to serve: reports[way][load].

    Returns the Figure; its `alt` describes it in words.
    """
    figure = new_figure(width=9.0, height=3.3)
    lines = ((BLUE, "o"), (RED, "s"), (ORANGE, "^"), (GREY, "D"))
    for axes, name in zip(figure.subplots(1, 2), ("ttft", "itl"), strict=True):
        for (way, by_load), (colour, mark) in zip(reports.items(), lines, strict=False):
            for percent, dashes in ((50, "--"), (95, "-")):
                points = _points(by_load, name, percent)
                label = f"{way}, {percent}%"
                axes.plot(*zip(*points, strict=True), color=colour, marker=mark, linestyle=dashes, label=label)
        axes.set_yscale("log")
        axes.set_xlabel(unit)
        axes.set_title({"ttft": "time to first token (ms)", "itl": "between tokens (ms)"}[name], loc="left", fontsize=9)
        _readable(axes)
    figure.axes[0].legend(frameon=False, fontsize=8)
    parts = [
        f"{way}, {name.upper()} {percent}%: "
        + ", ".join(f"{_short(y)} at {x:g}" for x, y in _points(by, name, percent))
        for way, by in reports.items()
        for name in ("ttft", "itl")
        for percent in (50, 95)
    ]
    return described(figure, f"Milliseconds against {unit}. " + "; ".join(parts) + ".")


def draw_storm(reports: Mapping[int, Report]) -> Figure:
    """What pools of so many blocks do to the same requests: preemptions, the work, and tokens a second.

    Returns the Figure; its `alt` describes it in words.
    """
    figure = new_figure(width=9.0, height=2.9)
    pools = sorted(reports, reverse=True)
    panels: dict[str, Any] = {
        "preemptions": lambda one: one.preemptions,
        "tokens computed": lambda one: one.computed,
        "tokens sent a second": lambda one: one.throughput,
    }
    for axes, (title, value) in zip(figure.subplots(1, 3), panels.items(), strict=True):
        heights = [value(reports[pool]) for pool in pools]
        bars = axes.bar(range(len(pools)), heights, color=PALE, edgecolor=BLUE)
        axes.bar_label(bars, [f"{height:,.0f}" for height in heights], fontsize=8)
        axes.set_xticks(range(len(pools)), [f"{pool:,}" for pool in pools], fontsize=8)
        axes.set_xlabel("blocks in the pool")
        axes.set_title(title, loc="left", fontsize=9)
        axes.set_yticks([])
        _bare(axes)
    parts = [
        f"{pool:,} blocks: {reports[pool].preemptions} preemptions, {reports[pool].computed:,} tokens computed, "
        f"{reports[pool].throughput:,.0f} sent a second"
        for pool in pools
    ]
    return described(figure, "The same requests with ever fewer blocks. " + "; ".join(parts) + ".")


def _by_request(log: Sequence[Note]) -> dict[int, list[Span]]:
    rows: dict[int, list[Span]] = {note.id: [] for note in log if note.what == "ask"}
    for span in spans(log):
        rows[span.id].append(span)
    return rows


def _points(by_load: Mapping[float, Report], name: str, percent: int) -> list[tuple[float, float]]:
    from kvlib.service_report import percentile

    values = {load: percentile(getattr(one, name), percent) for load, one in by_load.items()}
    return [(load, 1000 * value) for load, value in values.items() if value is not None]


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def _readable(axes: Axes) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.grid(axis="y", color="#E6E6E6", linewidth=0.6)


def _bare(axes: Axes) -> None:
    axes.tick_params(length=0)
    for side in ("left", "top", "right"):
        axes.spines[side].set_visible(False)
