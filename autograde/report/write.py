"""Writes CLASSROOM/report/: the page and items.csv."""

from __future__ import annotations

from pathlib import Path

from autograde.exercises import load
from autograde.report.analyse import analyse
from autograde.report.items_csv import write_items
from autograde.report.page import page
from autograde.report.results import Results


def write_report(classroom: Path, found: Results) -> Path:
    """Write index.html and items.csv from the results; return the page's path."""
    folder = classroom / "report"
    folder.mkdir(parents=True, exist_ok=True)
    lessons = analyse(found.results, load())
    (folder / "index.html").write_text(page(classroom.name, lessons, found.problems), encoding="utf-8")
    write_items(lessons, folder / "items.csv")
    return folder / "index.html"
