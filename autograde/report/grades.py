"""CLASSROOM/grades.csv, read back."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass
from pathlib import Path

NEEDED = ("student", "lesson", "total", "max")


class ExportError(Exception):
    """A file or an argument is not fit for an export; the text says which and why."""


@dataclass(frozen=True)
class Grade:
    """One student's points in one lesson, after any late penalty."""

    student: str
    lesson: str
    total: float
    max: float
    waits: bool = False  # part of it is still to be marked by hand


def read_grades(path: Path, lesson: str | None = None) -> list[Grade]:
    """The grades of one lesson or of all, in the file's order. Raises `ExportError`."""
    head, rows = read_rows(path, "grade the class first")
    if missing := [name for name in NEEDED if name not in head]:
        raise ExportError(f"{path}: wanted a column {missing[0]!r}, got {', '.join(head)}")
    grades: dict[tuple[str, str], Grade] = {}
    for line, row in enumerate(rows, 2):
        cells = dict(zip(head, row, strict=False))
        grade = Grade(
            _plain(cells.get("student", "")),
            cells.get("lesson", ""),
            _number(cells, "total", path, line),
            _number(cells, "max", path, line),
            any(cell == "?" for name, cell in cells.items() if name not in ("student", "lesson", "note")),
        )
        if (grade.student, grade.lesson) in grades:
            raise ExportError(f"{path}, line {line}: {grade.student!r} has a second line for {grade.lesson}")
        grades[grade.student, grade.lesson] = grade
    chosen = [grade for grade in grades.values() if lesson in (None, grade.lesson)]
    if not chosen:
        known = ", ".join(dict.fromkeys(grade.lesson for grade in grades.values())) or "no lesson"
        raise ExportError(f"{path}: wanted grades of {lesson or 'a lesson'}, found {known}")
    return chosen


def read_rows(path: Path, advice: str) -> tuple[list[str], list[list[str]]]:
    """A CSV's heading and its lines that hold anything; commas, semicolons or tabs stand between cells.

    Raises `ExportError`, with advice where the file is missing.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
        between = max(",;\t", key=text.partition("\n")[0].count)
        lines = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=between) if any(row)]
    except FileNotFoundError:
        raise ExportError(f"there is no file {path}: {advice}") from None
    except OSError as error:
        raise ExportError(f"{path} cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error):
        raise ExportError(f"{path}: wanted a CSV in UTF-8") from None
    if not lines:
        raise ExportError(f"{path}: wanted a heading, got an empty file")
    return lines[0], lines[1:]


def _plain(student: str) -> str:
    """The name without the apostrophe that grades.csv puts before a name that could be a formula."""
    return student[1:] if student.startswith("'") else student


def _number(cells: dict[str, str], name: str, path: Path, line: int) -> float:
    try:
        value = float(cells.get(name, ""))
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise ExportError(f"{path}, line {line}: {name}: wanted a number from 0 up, got {cells.get(name, '')[:40]!r}")
    return value
