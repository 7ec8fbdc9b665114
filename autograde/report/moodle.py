"""A CSV for Moodle's grade import: one column that names students, one for each lesson.

Moodle stops the whole import at a student whom it does not know, so a line with a doubtful name is better left out
and listed. To Moodle "-" is no grade, also where there was one; an empty cell of a new column would be 0.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from autograde.report.cell import is_formula, number, safe
from autograde.report.grades import ExportError, Grade, read_rows

HEADINGS = {"email": "Email address", "id": "ID number", "username": "Username"}
# What rosters call these columns: the class roster's names (nbgrader's), Moodle's exports, and plain ones.
STUDENT = ("student", "id", "username")
NAMES = {
    "email": ("email address", "email"),
    "id": ("id number", "idnumber", "lms user id"),
    "username": ("username", "student", "id"),
}
NO_GRADE = "-"


def write_moodle(
    grades: Iterable[Grade], kind: str, roster: Path | None, out: Path, columns: Mapping[str, str]
) -> list[str]:
    """Write the file; return a line for everything that is not in it.

    `kind` is a key of `HEADINGS`. Without a roster a student's name in the class is the identifier. `columns` gives the
    grade item's name in Moodle where it is not the lesson's. Raises `ExportError`.
    """
    grades = list(grades)
    lessons = list(dict.fromkeys(grade.lesson for grade in grades))
    students = list(dict.fromkeys(grade.student for grade in grades))
    known = read_roster(roster, kind) if roster else {student: student for student in students}
    counted = Counter(known[student] for student in students if student in known)
    notes: list[str] = []
    usable: dict[str, str] = {}
    for student in students:
        name = known.get(student, "")
        if problem := _problem(name, kind, student in known, counted[name], roster):
            notes.append(f"{student}: {problem}")
        else:
            usable[student] = name
    points = {}
    for grade in grades:
        if grade.student in usable and grade.waits:
            notes.append(f"{grade.student}: {grade.lesson} waits for marking by hand; written as no grade")
        else:
            points[grade.student, grade.lesson] = number(grade.total)
    with open(out, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([HEADINGS[kind], *(safe(columns.get(lesson, lesson)) for lesson in lessons)])
        for student, name in usable.items():
            writer.writerow([name, *(points.get((student, lesson), NO_GRADE) for lesson in lessons)])
    return notes


def read_roster(path: Path, kind: str) -> dict[str, str]:
    """Each student's email, ID number or username. Raises `ExportError` when a column is missing or a student twice."""
    head, rows = read_rows(path, "--roster names a CSV with a column student")
    names = [re.sub(r"[\s_-]+", " ", name.strip().lower()) for name in head]
    student = _column(names, STUDENT, path)
    wanted = _column(names, NAMES[kind], path)
    people: dict[str, str] = {}
    for row in rows:
        row = row + [""] * (len(head) - len(row))
        who = row[student].strip()
        if who in people:
            raise ExportError(f"{path}: wanted one line for each student, got {who!r} twice")
        people[who] = row[wanted].strip()
    return people


def _problem(name: str, kind: str, listed: bool, times: int, roster: Path | None) -> str:
    if not listed:
        return f"not in {roster.name if roster else 'the class'}"
    if not name:
        return f"has no {HEADINGS[kind]}"
    if kind == "email" and "@" not in name[1:]:
        return f"wanted an email address, got {name[:60]!r}; --roster FILE gives addresses"
    if is_formula(name):
        return f"{name[:60]!r} begins like a formula; enter the points by hand"
    return f"{times} students have the {HEADINGS[kind]} {name!r}" if times > 1 else ""


def _column(names: list[str], wanted: tuple[str, ...], path: Path) -> int:
    for name in wanted:
        if name in names:
            return names.index(name)
    raise ExportError(f"{path}: wanted a column called {' or '.join(wanted)}, got {', '.join(names)}")
