"""The instructor's page: one HTML file that asks nothing of the network and runs no script."""

from __future__ import annotations

from collections.abc import Sequence

from autograde.report.html_table import Cell, Html, decimals, percent, plural, table
from autograde.report.item import Item, LessonItems
from autograde.report.item_html import anchor, item_html
from autograde.report.plot import Bar, bars
from autograde.report.style import STYLE
from autograde.report_html import escape

FIRST = 10  # mistakes in the list on top
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def page(classroom: str, lessons: Sequence[LessonItems], problems: Sequence[str]) -> str:
    """The whole page. Whatever students, files and exercises are called is escaped."""
    title = f"What the class got wrong: {classroom}"
    parts = [
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>",
        f'<h1>{escape(title)}</h1><p class="soft">For instructors: this page names students. '
        "Points are what the checks gave: before any late penalty, and without marks by hand.</p>",
    ]
    if not lessons:
        parts.append("<p>There are no results yet.</p>")
    else:
        parts.append(_contents(lessons))
    if problems:
        parts.append(
            f"<h2>Files left out</h2><p>{plural(len(problems), 'file')} could not be read as a result.</p><ul>"
        )
        parts += [f"<li>{escape(problem)}</li>" for problem in problems]
        parts.append("</ul>")
    if lessons:
        parts.append(_most_frequent([item for lesson in lessons for item in lesson.items]))
        parts += [_lesson(lesson) for lesson in lessons]
    parts.append("</body></html>")
    return "\n".join(parts) + "\n"


def _contents(lessons: Sequence[LessonItems]) -> str:
    lines = ['<nav aria-label="Contents"><ul>']
    for lesson in lessons:
        links = "".join(
            f' &middot; <a href="#{anchor(i)}">{escape(i.exercise)} {escape(i.name)}</a>' for i in lesson.items
        )
        lines.append(f"<li>{escape(lesson.lesson)}{links}</li>")
    return "".join(lines) + "</ul></nav>"


def _most_frequent(items: Sequence[Item]) -> str:
    """What to take up in class first."""
    found = [(item, mistake) for item in items for mistake in item.mistakes]
    found.sort(key=lambda pair: -pair[1].count)  # a stable sort: equal counts stay in the lessons' order
    if not found:
        return "<h2>The most frequent mistakes</h2><p>No mistake of the catalogue was found.</p>"
    rows: list[list[Cell]] = [
        [mistake.count, percent(mistake.share, 1), Html(f'<a href="#{anchor(item)}">{escape(item.exercise)}</a>'),
         mistake.name, mistake.tells]
        for item, mistake in found[:FIRST]
    ]  # fmt: skip
    caption = "Over all lessons. The share is of the students who have a result for the exercise."
    head = ("students", "share", "exercise", "mistake", "what it is")
    return "<h2>The most frequent mistakes</h2>" + table(caption, head, rows)


def _lesson(lesson: LessonItems) -> str:
    parts = [f"<h2>{escape(lesson.lesson)}</h2><p>{plural(lesson.students, 'result')}.</p>"]
    if lesson.refused:
        rows = [[student, reason] for student, reason in lesson.refused]
        parts.append(table("Not graded, and in none of the numbers below", ("student", "reason"), rows))
    if lesson.items:
        parts.append(f'<div class="side">{_overview(lesson)}</div>')
        note = (
            "Discrimination is the correlation of the exercise's points with the rest of the lesson's. Near 1: those "
            "who do well elsewhere do well here. Near 0 or below: look at the exercise itself. A dash: not defined, "
            "because all are equal or there is no rest. In a small class it says little."
        )
        parts.append(f'<p class="soft">{escape(note)}</p>')
    return "".join(parts) + "".join(item_html(item) for item in lesson.items)


def _overview(lesson: LessonItems) -> str:
    items = lesson.items
    shares = [(item, 100 * item.mean / item.max if item.max else 0.0) for item in items]
    rows = [Bar(f"{item.exercise} {item.name}", (("count", share),), f"{share:.0f} %") for item, share in shares]
    alt = "Mean share of the points: " + ", ".join(f"{item.exercise} {share:.0f} %" for item, share in shares)
    numbers: list[list[Cell]] = [
        [item.exercise, item.students, decimals(item.max), decimals(item.mean), percent(share, 100),
         decimals(item.median), percent(item.full, item.students), decimals(item.discrimination)]
        for item, share in shares
    ]  # fmt: skip
    head = ("exercise", "students", "max", "mean", "mean share", "median", "full marks", "discrimination")
    return bars(rows, 100, alt) + table("The exercises, and their mean share of the points", head, numbers)
