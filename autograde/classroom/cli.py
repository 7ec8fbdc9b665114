"""The commands `grade` and `demo`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

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
    for command in (grade, demo):
        command.add_argument("--course", type=Path, default=ROOT, help="the folder with solutions/ and lessons/")


def run_grade(args: argparse.Namespace) -> int:
    """Grade a class; 0 whatever the students handed in, 2 when there is nothing to grade or the course is at fault."""
    return _grade(args.course, args.classroom, args.lesson)


def run_demo(args: argparse.Namespace) -> int:
    """Make the sample class afresh and grade it."""
    from autograde.classroom.course import CourseError, course_at
    from autograde.classroom.sample import make_class

    classroom = args.classroom or args.course / "classroom" / "demo"
    try:
        made = make_class(course_at(args.course, classroom))
    except CourseError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 2
    print(f"made a sample class of {made} notebooks in {classroom}")
    return _grade(args.course, classroom, None)


def _grade(root: Path, classroom: Path, lesson: str | None) -> int:
    from autograde.classroom.course import CourseError, course_at
    from autograde.classroom.execute import TrustingExecute
    from autograde.classroom.grade import grade_class
    from autograde.classroom.report import table

    course = course_at(root, classroom)
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
