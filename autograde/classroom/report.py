"""The results as a terminal table, a CSV and an index of the feedback pages."""

from __future__ import annotations

import csv
import html
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote

from autograde.classroom.intake import one_line
from autograde.classroom.record import Row


def table(rows: Iterable[Row]) -> str:
    """One table for each lesson: student, points by exercise, total, notes (cut; the CSV has them whole)."""
    rows = list(rows)
    return "\n\n".join(
        _lesson_table(lesson, [r for r in rows if r.lesson == lesson]) for lesson in _names(r.lesson for r in rows)
    )


def write_csv(rows: Iterable[Row], path: Path) -> None:
    """One line for each student and lesson; an exercise of another lesson stays blank, "?" waits for a person."""
    rows = list(rows)
    exercises = _names(name for row in rows for name in row.points)
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["student", "lesson", *exercises, "late_penalty", "total", "max", "note"])
        for row in rows:
            points = [_points(row.points[name]) if name in row.points else "" for name in exercises]
            numbers = [f"{row.penalty:g}", f"{row.total:g}", f"{row.max:g}"]
            student = row.student if row.student[:1].isalnum() else f"'{row.student}"  # "=1+1" is a formula to Excel
            writer.writerow([student, row.lesson, *points, *numbers, row.remark])


def write_index(rows: Iterable[Row], feedback: Path) -> None:
    """feedback/index.html: a link to every feedback page that exists."""
    lines = []
    for row in rows:
        name = html.escape(row.student)
        if (feedback / row.student / row.lesson / f"{row.lesson}.html").exists():
            name = f'<a href="{quote(f"{row.student}/{row.lesson}/{row.lesson}.html")}">{name}</a>'
        cells = [name, row.lesson, f"{row.total:g} / {row.max:g}", html.escape(row.remark)]
        lines.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    feedback.mkdir(parents=True, exist_ok=True)
    head = "<tr><th>student</th><th>lesson</th><th>points</th><th>notes</th></tr>"
    style = "body{font-family:sans-serif;margin:2em}td,th{text-align:left;padding:.2em 1em;vertical-align:top}"
    page = [
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Feedback</title>',
        f"<style>{style}</style></head><body><h1>Feedback</h1><table>",
        head,
        *lines,
        "</table></body></html>",
    ]
    (feedback / "index.html").write_text("\n".join(page) + "\n", encoding="utf-8")


def _lesson_table(lesson: str, rows: list[Row]) -> str:
    exercises = _names(name for row in rows for name in row.points)
    lines = [["student", *exercises, "total", "note"]]
    for row in rows:
        points = [_points(row.points.get(name, 0.0)) for name in exercises]
        lines.append([row.student, *points, f"{row.total:g}/{row.max:g}", one_line(row.remark)])
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]) - 1)]
    text = [lesson]
    for line in lines:
        numbers = [cell.rjust(width) for cell, width in zip(line[1:-1], widths[1:], strict=True)]
        text.append("  ".join([line[0].ljust(widths[0]), *numbers, line[-1]]).rstrip())
    text.insert(2, "-" * max(len(line) for line in text[1:2]))
    return "\n".join(text)


def _points(points: float | None) -> str:
    return "?" if points is None else f"{points:g}"


def _names(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
