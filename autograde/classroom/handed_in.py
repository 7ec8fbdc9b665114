"""What there is to grade: who handed in which lesson, and whether the course can grade it."""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from autograde.classroom import record
from autograde.classroom.cells import exercise_of, is_auto_graded
from autograde.classroom.course import Course, CourseError
from autograde.classroom.execute import tier_for
from autograde.exercises import load
from autograde.sandbox.paths import is_exposed
from autograde.sandbox.tiers import NONE, NoSandbox

NOTHING = "nothing handed in"
GONE = "the work is not there any more: these are the marks of an earlier grading"
BAD_NAME = "not graded: the folder's name cannot be a student's"


def students_of(course: Course) -> list[str]:
    """Names of the folders in submitted/, links included: they get a row that says so."""
    for path in (course.root, course.classroom):
        if found := set("*?[") & set(str(path)):  # nbgrader takes its paths for patterns
            raise CourseError(f"nbgrader cannot read the path {path}: it holds {' '.join(sorted(found))}")
    if not os.path.isdir(course.submitted):
        raise CourseError(f"there is no folder {course.submitted}")
    names = sorted(p.name for p in course.submitted.iterdir() if p.name != ".ipynb_checkpoints" and not _is_file(p))
    if not names:
        raise CourseError(f"{course.submitted} holds no student's folder")
    return names


def _is_file(path: Path) -> bool:
    return not path.is_symlink() and not path.is_dir()


def lessons_of(course: Course, students: list[str], wanted: str) -> list[str]:
    """Lessons that the course has and somebody handed in; only the wanted one, if one is."""
    known = sorted(path.name for path in (course.root / "lessons").iterdir() if course.release(path.name).exists())
    if wanted:
        record.insist_on_files(course, wanted)
    # os.path: a folder that may not be looked into is no reason to stop.
    lessons = [name for name in known if any(os.path.isdir(course.submitted / who / name) for who in students)]
    if wanted:
        lessons = [name for name in lessons if name == wanted]
    if not lessons:
        asked = wanted or ", ".join(known) or "no lesson found"
        raise CourseError(f"nobody in {course.submitted} handed in any of: {asked}")
    return lessons


def tier_of(course: Course) -> str:
    """The kind of sandbox that grading uses here. Raises `CourseError` where none works."""
    try:
        tier = tier_for(course.trusted, course.tier)
    except NoSandbox as error:
        raise CourseError(str(error)) from None
    if tier != NONE and (exposed := next(filter(is_exposed, (course.root, course.classroom)), None)):
        raise CourseError(f"{exposed} lies among Python's own files, which submissions may read: move it elsewhere")
    return tier


def insist_on_known_exercises(course: Course, lesson: str) -> None:
    """A graded cell that checks no exercise of the course would be 0 for everybody: that is said before anybody is."""
    notebook: NotebookNode = nbformat.read(course.source(lesson), as_version=4)
    unknown = [exercise_of(cell) for cell in notebook.cells if is_auto_graded(cell) and exercise_of(cell) not in load()]
    if unknown:
        raise CourseError(f"lesson {lesson}: no exercise of the course is called {', '.join(unknown)}")
