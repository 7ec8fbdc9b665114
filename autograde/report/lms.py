"""Grade files for learning platforms, from a class's grades.csv."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from autograde.report.canvas import fill_canvas
from autograde.report.grades import read_grades
from autograde.report.moodle import write_moodle


def canvas(grades: Path, template: Path, out: Path, lesson: str | None, columns: Mapping[str, str]) -> list[str]:
    """Write `out` from the gradebook that Canvas exported. Returns what it lacks, line by line."""
    return fill_canvas(read_grades(grades, lesson), template, out, columns)


def moodle(
    grades: Path, kind: str, roster: Path | None, out: Path, lesson: str | None, columns: Mapping[str, str]
) -> list[str]:
    """Write `out` for Moodle's grade import. Returns what it lacks, line by line."""
    return write_moodle(read_grades(grades, lesson), kind, roster, out, columns)
