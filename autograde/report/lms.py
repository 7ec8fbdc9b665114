"""Grade files for learning platforms, from CLASSROOM/grades.csv."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from autograde.report.canvas import fill_canvas
from autograde.report.grades import read_grades
from autograde.report.moodle import write_moodle


def canvas(
    classroom: Path, template: Path, lesson: str | None = None, columns: Mapping[str, str] | None = None
) -> tuple[Path, list[str]]:
    """CLASSROOM/report/canvas.csv from an exported gradebook. Returns its path and what it lacks, line by line."""
    grades = read_grades(classroom / "grades.csv", lesson)
    out = _out(classroom, "canvas.csv")
    return out, fill_canvas(grades, template, out, columns or {})


def moodle(
    classroom: Path,
    kind: str = "email",
    roster: Path | None = None,
    lesson: str | None = None,
    columns: Mapping[str, str] | None = None,
) -> tuple[Path, list[str]]:
    """CLASSROOM/report/moodle.csv. Returns its path and what it lacks, line by line."""
    grades = read_grades(classroom / "grades.csv", lesson)
    out = _out(classroom, "moodle.csv")
    return out, write_moodle(grades, kind, roster, out, columns or {})


def _out(classroom: Path, name: str) -> Path:
    folder = classroom / "report"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / name
