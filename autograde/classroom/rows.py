"""Every row of a class as the gradebook has it now, after marking by hand too."""

from __future__ import annotations

import os
from dataclasses import replace

from autograde.classroom import record
from autograde.classroom.course import Course
from autograde.classroom.handed_in import BAD_NAME, GONE, NOTHING
from autograde.classroom.intake import STUDENT_NAME, one_line
from autograde.classroom.record import Row

NOT_YET = "handed in, and not graded yet: run grade"


def all_rows(course: Course) -> list[Row]:
    """A row for each student and lesson that was graded, sorted. Only reads."""
    rows = [_explained(course, row) for row in record.other_rows(course, [], NOTHING)]
    lessons = sorted({row.lesson for row in rows})
    folders = course.submitted.iterdir() if course.submitted.is_dir() else []
    for name in sorted(path.name for path in folders if not STUDENT_NAME.fullmatch(path.name)):
        shown = name if one_line(name) == name else one_line(repr(name))
        mine = [lesson for lesson in lessons if os.path.isdir(course.submitted / name / lesson)]
        rows += [record.empty_row(course, shown, lesson, BAD_NAME) for lesson in mine]
    return sorted(rows, key=lambda row: (row.lesson, row.student))


def _explained(course: Course, row: Row) -> Row:
    handed_in = os.path.lexists(course.submitted / row.student / row.lesson)
    if handed_in:
        return replace(row, notes=(NOT_YET,)) if row.notes == (NOTHING,) else row
    return row if row.notes == (NOTHING,) else replace(row, notes=(GONE, *row.notes))
