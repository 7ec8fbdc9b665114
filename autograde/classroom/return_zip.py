"""Packs one lesson's pages as the platform wants them back: under the names that its own zip of the work had.

Moodle looks for a folder or file NAME_NUMBER_assignsubmission_file..., and takes what follows as the feedback's name.
Canvas looks for the first two numbers between underscores, a user's and an attachment's.
"""

from __future__ import annotations

from pathlib import Path

from autograde.classroom.collected import read_record
from autograde.classroom.course import Course, CourseError
from autograde.classroom.naming import CANVAS, MOODLE
from autograde.classroom.outlets import write_zip

RECORD = "collected.csv"


def names_in(course: Course, lesson: str) -> dict[str, str]:
    """Each student's name for a page in the zip, from what was collected.

    Raises `CourseError` where nothing of this lesson came from Moodle or Canvas.
    """
    rows = [row for row in read_record(course.classroom / RECORD) if row["lesson"] == lesson and row["placed"] == "yes"]
    names = {row["student"]: name for row in rows if (name := platform_name(row["source"], lesson))}
    if not names:
        raise CourseError(
            f"--zip: nothing of {lesson} was collected from a zip of Moodle's or Canvas's, whose names are needed; "
            f"the pages themselves are in {course.feedback}"
        )
    return names


def platform_name(source: str, lesson: str) -> str:
    """What a page is called that answers the file at `source`; empty where no platform wrote its path."""
    for part in Path(source).parts:
        if found := MOODLE.fullmatch(part):
            return f"{part.removesuffix(found['rest']) if found['rest'] else f'{part}/'}{lesson}.html"
        if found := CANVAS.fullmatch(part):
            return f"{part.removesuffix(found['rest'])}{lesson}.html"
    return ""


def write_return_zip(
    course: Course, lesson: str, students: list[str], names: dict[str, str], path: Path | None
) -> list[str]:
    """Write the zip, unless `path` is None; return a line for each student who is not in it."""
    pages = {student: course.feedback / student / lesson / f"{lesson}.html" for student in students}
    if path is not None:
        there = [student for student in students if student in names and pages[student].exists()]
        write_zip(path, [(pages[student], names[student]) for student in there])
    reason = "not in the zip: the work did not come from a zip of Moodle's or Canvas's"
    return [f"{student}: {reason}" for student in students if student not in names]
