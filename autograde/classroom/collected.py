"""What was collected, as a table for the terminal and as the record CLASSROOM/collected.csv."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path

from autograde.classroom.course import CourseError
from autograde.classroom.intake import one_line, open_folder
from autograde.classroom.loose import Found
from autograde.classroom.place import save

COLUMNS = ("source", "name", "student", "lesson", "student matched by", "lesson matched by", "time", "placed", "note")
LONGEST = 2000  # characters of a field
FORMULA = ("=", "+", "-", "@")  # what a spreadsheet takes for the start of one


def table(found: list[Found]) -> str:
    """What was placed, and what was not."""
    lines: list[tuple[str, ...]]
    lines = [("student", "lesson", "student by", "lesson by", "file", "note")]
    for one in sorted(found, key=lambda one: not one.placed):
        student, lesson = one.student or "?", one.lesson or "?"
        source = one.source if len(one.source) <= 50 else f"...{one.source[-47:]}"
        lines.append((student, lesson, one.student_by, one.lesson_by, source, one.note))
    lines = [tuple(one_line(cell) for cell in line) for line in lines]
    widths = [max(len(line[column]) for line in lines) for column in range(5)]
    text = ["  ".join(cell.ljust(width) for cell, width in zip(line, [*widths, 0], strict=True)) for line in lines]
    return "\n".join(line.rstrip() for line in text)


def read_record(path: Path) -> list[dict[str, str]]:
    """The rows of earlier collections; none when there is no record or it is not one."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            rows = [{column: _plain(row.get(column) or "") for column in COLUMNS} for row in csv.DictReader(file)]
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise CourseError(f"the record {path} cannot be read ({error}); move it away to start a new one") from None
    return rows


def write_record(path: Path, earlier: list[dict[str, str]], found: list[Found]) -> None:
    """Earlier rows stay; a file that was collected again has its new row only."""
    rows = [
        {
            "source": one.source,
            "name": one.name,
            "student": one.student,
            "lesson": one.lesson,
            "student matched by": one.student_by,
            "lesson matched by": one.lesson_by,
            "time": one.time,
            "placed": "yes" if one.placed else "no",
            "note": one.note,
        }
        for one in found
    ]
    rows = [{column: _field(text) for column, text in row.items()} for row in rows]
    again = {_plain(row["source"]) for row in rows}
    kept = [{column: _field(text) for column, text in row.items()} for row in earlier if row["source"] not in again]
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = open_folder(str(path.parent))
    try:
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, COLUMNS)
        writer.writeheader()
        writer.writerows([*kept, *rows])
        save(folder, path.name, text.getvalue().encode())
    finally:
        os.close(folder)


def _field(text: str) -> str:
    """A field on one line that a spreadsheet does not take for a formula."""
    text = one_line(text, LONGEST)
    return f"'{text}" if text.startswith(FORMULA) else text


def _plain(field: str) -> str:
    return field[1:] if field[:1] == "'" and field[1:].startswith(FORMULA) else field
