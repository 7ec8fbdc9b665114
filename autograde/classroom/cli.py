"""The commands `grade` and `demo`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autograde.classroom.course import Course

ROOT = Path(__file__).resolve().parents[2]


def add_commands(subparsers: argparse._SubParsersAction) -> None:
    """Add `grade` and `demo` to a command line. Each sets `run`, which takes the arguments and returns an exit code."""
    grade = subparsers.add_parser("grade", help="grade CLASSROOM/submitted/STUDENT/LESSON/LESSON.ipynb")
    grade.add_argument("classroom", type=Path, help="the class folder; results land in it")
    grade.add_argument("--lesson", help="grade this lesson only, for example 01-toy-cache")
    grade.set_defaults(run=run_grade)
    demo = subparsers.add_parser("demo", help="make a sample class and grade it")
    demo.add_argument("classroom", type=Path, nargs="?", help="default: classroom/demo in the course")
    demo.set_defaults(run=run_demo)
    for command, seconds in ((grade, 30), (demo, 15)):
        text = f"seconds that one cell may run (default {seconds})"
        command.add_argument("--cell-timeout", type=int, default=seconds, metavar="SECONDS", help=text)
        command.add_argument("--course", type=Path, default=ROOT, help="the folder with solutions/ and lessons/")


def run_grade(args: argparse.Namespace) -> int:
    """Grade a class. Returns 0 whatever was handed in, 2 when there is nothing to grade or the course is at fault."""
    from autograde.classroom.course import course_at

    return _grade(course_at(args.course, args.classroom, args.cell_timeout), args.lesson)


def run_demo(args: argparse.Namespace) -> int:
    """Make the sample class afresh and grade it."""
    from autograde.classroom.course import CourseError, course_at
    from autograde.classroom.sample import make_class

    course = course_at(args.course, args.classroom or args.course / "classroom" / "demo", args.cell_timeout)
    try:
        made = make_class(course)
    except CourseError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 2
    print(f"made a sample class of {made} notebooks in {course.classroom}")
    return _grade(course, None)


def _grade(course: Course, lesson: str | None) -> int:
    from autograde.classroom.course import CourseError
    from autograde.classroom.execute import TrustingExecute
    from autograde.classroom.grade import grade_class
    from autograde.classroom.report import table

    try:
        rows = grade_class(course, lesson, say=lambda line: print(line, flush=True))
    except CourseError as error:
        print(f"grade: {error}", file=sys.stderr)
        return 2
    print(f"\n{table(rows)}\n")
    print(f"{len(rows)} rows; sandbox: {TrustingExecute.sandbox}")
    print(f"gradebook  {course.gradebook}")
    print(f"feedback   {course.feedback / 'index.html'}")
    print(f"CSV        {course.grades}")
    return 0
