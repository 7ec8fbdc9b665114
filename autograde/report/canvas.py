"""Fills an exported Canvas gradebook, so that Canvas's own ids stay in it.

Canvas knows a student by the column ID, and an assignment by the number in brackets after its name. All that is not a
grade of ours stays as it was exported, except that a student's name, login or section that begins like a formula gets
an apostrophe where the line has an ID: Canvas then does not read them.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from autograde.report.cell import is_formula, number, safe
from autograde.report.grades import ExportError, Grade

IDENTITY = ("Student", "ID", "SIS User ID", "SIS Login ID", "Integration ID", "Root Account", "Section")
MATCHED_BY = ("SIS Login ID", "SIS User ID", "ID")  # the first of these that knows a student counts
POSSIBLE = "Points Possible"
EXCUSED = "EX"


def fill_canvas(grades: Iterable[Grade], template: Path, out: Path, columns: Mapping[str, str]) -> list[str]:
    """Write `template` with the grades filled in; return a line for everything that could not be.

    `columns` gives the assignment's name in Canvas where it is not the lesson's. Raises `ExportError` when the file
    is no Canvas gradebook or has no column for any lesson.
    """
    head, rows, dialect = _read(template)
    possible = next((row for row in rows if POSSIBLE in row[0]), [])
    people = [row for row in rows if POSSIBLE not in row[0] and any(row[i].strip() for i in range(min(2, len(row))))]
    grades = list(grades)
    where: dict[str, int] = {}
    notes: list[str] = []
    for lesson in dict.fromkeys(grade.lesson for grade in grades):
        wanted = columns.get(lesson, lesson)
        found = [i for i, name in enumerate(head) if name not in IDENTITY and _title(name) == wanted.strip()]
        if len(found) != 1:
            notes.append(
                f"{lesson}: {'no' if not found else 'more than one'} column named {wanted!r} in {template.name}"
            )
        elif possible and "read only" in possible[found[0]]:
            notes.append(f"{lesson}: Canvas does not read its column {head[found[0]]!r}, which is read only")
        else:
            where[lesson] = found[0]
            notes += _scale(lesson, grades, possible[found[0]] if possible else "")
    if not where:
        raise ExportError(
            "\n".join([f"{template}: wanted a column for each lesson; --column LESSON=NAME names it", *notes])
        )
    notes += _fill([grade for grade in grades if grade.lesson in where], head, people, where)
    with open(out, "w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter=dialect).writerows([head, *(_guarded(head, row) for row in rows)])
    return notes


def _fill(grades: list[Grade], head: list[str], people: list[list[str]], where: Mapping[str, int]) -> list[str]:
    notes: list[str] = []
    rows: dict[str, list[str]] = {}
    owner: dict[int, str] = {}  # which student a row went to
    for student in dict.fromkeys(grade.student for grade in grades):
        row, problem = _row_of(student, head, people)
        if row is not None and owner.setdefault(id(row), student) != student:
            problem = f"the row of {row[0]!r} is taken by {owner[id(row)]} already"
        if row is None or problem:
            notes.append(f"{student}: {problem}")
        else:
            rows[student] = row
    for grade in grades:
        row = rows.get(grade.student)
        if row is None:
            continue
        if grade.waits:
            notes.append(f"{grade.student}: {grade.lesson} waits for marking by hand; left as it was")
        elif row[where[grade.lesson]].strip().upper() == EXCUSED:
            notes.append(f"{grade.student}: {grade.lesson} is excused in Canvas; left as it was")
        else:
            row[where[grade.lesson]] = number(grade.total)
    return notes


def _row_of(student: str, head: list[str], people: list[list[str]]) -> tuple[list[str] | None, str]:
    for name in MATCHED_BY:
        if name in head:
            found = [row for row in people if row[head.index(name)].strip() == student]
            if len(found) > 1:
                return None, f"{len(found)} rows have this {name}"
            if found:
                return found[0], ""
    return None, "no row has this login or id"


def _read(path: Path) -> tuple[list[str], list[list[str]], str]:
    """Heading, rows made as long as it, and what stands between cells: Canvas writes ";" in some languages."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise ExportError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ExportError(f"{path}: wanted a CSV in UTF-8") from None
    first = text.split("\n", 1)[0]
    dialect = ";" if first.count(";") > first.count(",") else ","
    try:
        rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=dialect) if any(row)]
    except csv.Error as error:
        raise ExportError(f"{path}: wanted a CSV, got {error}") from None
    if not rows or rows[0][:2] != ["Student", "ID"] or "Section" not in rows[0]:
        raise ExportError(f"{path}: wanted a gradebook exported from Canvas, whose heading begins with Student,ID")
    head = rows[0]
    if long := next((row for row in rows if len(row) > len(head)), None):
        raise ExportError(f"{path}: wanted {len(head)} cells in a line, got {len(long)} for {long[0][:40]!r}")
    return head, [row + [""] * (len(head) - len(row)) for row in rows[1:]], dialect


def _title(name: str) -> str:
    """The assignment's name without Canvas's number: "01-toy-cache (4711)"."""
    return re.sub(r"\s*\([0-9]+\)\s*$", "", name).strip()


def _scale(lesson: str, grades: list[Grade], possible: str) -> list[str]:
    most = max(grade.max for grade in grades if grade.lesson == lesson)
    try:
        if float(possible.replace(",", ".")) == most:
            return []
    except ValueError:  # blank: Canvas counts no points
        return []
    return [f"{lesson}: Canvas counts {possible.strip()} points, the lesson {most:g}; points are as graded"]


def _guarded(head: list[str], row: list[str]) -> list[str]:
    if not row[1].strip():
        return row
    return [safe(cell) if name in IDENTITY and is_formula(cell) else cell for name, cell in zip(head, row, strict=True)]
