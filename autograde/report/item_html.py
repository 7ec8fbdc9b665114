"""One exercise's part of the page."""

from __future__ import annotations

import re

from autograde.report.html_table import Cell, decimals, percent, plural, table
from autograde.report.item import Item, MistakeCount
from autograde.report.plot import Bar, bars
from autograde.report_html import escape

LEGEND = "From left to right: held, failed, not reached (dashed)."


def anchor(item: Item) -> str:
    """The id of the exercise's heading."""
    named = re.sub(r"[^A-Za-z0-9_-]", lambda letter: f".{ord(letter.group()):x}.", f"{item.lesson}--{item.exercise}")
    return f"e-{named}"


def item_html(item: Item) -> str:
    """Numbers, stages, points, mistakes, and what nobody has a name for yet."""
    title = f": {escape(item.title)}" if item.title else ""
    name = f" <code>{escape(item.name)}</code>" if item.name else ""
    parts = [
        f'<h3 id="{anchor(item)}">{escape(item.exercise)}{name}{title}</h3>',
        f"<p>{plural(item.students, 'student')}; {item.full} with full marks, {item.untouched} with nothing written. "
        f"Mean {decimals(item.mean)}, median {decimals(item.median)} of {decimals(item.max)} points. "
        f"Discrimination {decimals(item.discrimination)}.</p>",
    ]
    if len(item.maxima) > 1:
        known = ", ".join(decimals(maximum) for maximum in item.maxima)
        parts.append(f"<p><b>Note:</b> the results have different maxima ({known}): grade the class again.</p>")
    return "".join([*parts, _stages(item), _points(item), _statuses(item), _mistakes(item), _unmatched(item)])


def _stages(item: Item) -> str:
    if not item.stages:
        return ""
    rows = [Bar(s.name, (("held", s.held), ("failed", s.failed), ("unreached", s.not_reached))) for s in item.stages]
    words = [f"{s.name}: {s.held} held, {s.failed} failed, {s.not_reached} not reached" for s in item.stages]
    numbers: list[list[Cell]]
    numbers = [[s.name, s.held, s.failed, s.not_reached, percent(s.held, item.students)] for s in item.stages]
    head = ("stage", "held", "failed", "not reached", "share held")
    picture = bars(rows, item.students, f"Students by stage of {item.exercise}. {'; '.join(words)}")
    return f'<h4>Stages</h4><div class="side">{picture}{table(LEGEND, head, numbers)}</div>'


def _points(item: Item) -> str:
    most = max(count for _, count in item.distribution)
    rows = [Bar(f"{decimals(points)} points", (("count", count),), str(count)) for points, count in item.distribution]
    words = ", ".join(f"{count} with {decimals(points)}" for points, count in item.distribution)
    numbers: list[list[Cell]]
    numbers = [[decimals(points), count, percent(count, item.students)] for points, count in item.distribution]
    picture = bars(rows, most, f"Students by points in {item.exercise}: {words}")
    caption = "Only points that somebody has."
    return f'<h4>Points</h4><div class="side">{picture}{table(caption, ("points", "students", "share"), numbers)}</div>'


def _statuses(item: Item) -> str:
    return (
        f"<h4>How the checks ended</h4><p>{', '.join(f'{escape(name)} {count}' for name, count in item.statuses)}</p>"
    )


def _mistakes(item: Item) -> str:
    if not item.mistakes:
        return "<h4>Mistakes</h4><p>No mistake of the catalogue was found.</p>"
    rows: list[list[Cell]] = [[m.count, percent(m.share, 1), m.name, _told(m)] for m in item.mistakes]
    caption = "Work that the checks cannot tell apart from several mistakes counts for each."
    head = ("students", "share", "mistake", "what it is")
    return "<h4>Mistakes</h4>" + table(caption, head, rows)


def _told(mistake: MistakeCount) -> str:
    tells = mistake.tells or "Not in the catalogue of this version."
    return f"{tells} (Seen in: {mistake.seen_in}.)" if mistake.seen_in else tells


def _unmatched(item: Item) -> str:
    if not item.unmatched:
        return ""
    rows: list[list[Cell]] = [
        [len(group.students), group.status, group.stage or "\u2013", group.fact or "\u2013", ", ".join(group.students)]
        for group in item.unmatched
    ]
    total = plural(item.unmatched_students, "failure")
    caption = f"{total} that the catalogue has no name for. Several that end alike may be a mistake worth adding."
    return "<h4>Worth a look</h4>" + table(caption, ("students", "status", "stage", "what did not hold", "who"), rows)
