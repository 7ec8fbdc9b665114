"""The commands `grade` and `demo`."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from autograde.classroom.elsewhere import is_elsewhere

if TYPE_CHECKING:
    from autograde.classroom.course import Course

ROOT = Path(__file__).resolve().parents[2]  # the checkout


def add_commands(subparsers: argparse._SubParsersAction) -> None:
    """Add the classroom's commands to a command line. Each sets `run(args) -> exit code`."""
    grade = subparsers.add_parser("grade", help="grade CLASSROOM/submitted/STUDENT/LESSON/LESSON.ipynb")
    grade.add_argument("classroom", type=Path, help="the class folder; results land in it")
    grade.add_argument("--lesson", default="", help="grade this lesson only, for example 01-toy-cache")
    grade.add_argument("--fresh", action="store_true", help="grade again what has a result already")
    grade.add_argument("--dry-run", action="store_true", help="say who would be graded and how; write nothing")
    grade.add_argument("--db", default=os.environ.get("GRADEBOOK", ""), metavar="URL",
                       help="the gradebook; default: what GRADEBOOK says, or CLASSROOM/gradebook.db")  # fmt: skip
    grade.set_defaults(run=run_grade)
    demo = subparsers.add_parser("demo", help="make a sample class and grade it")
    demo.add_argument("classroom", type=Path, nargs="?", help="default: classroom/demo in the course")
    demo.set_defaults(run=run_demo, lesson="", fresh=False, db="")
    for command in (grade, demo):
        add = command.add_argument
        add("--jobs", type=_count, default=0, metavar="N", help="grading processes (default: one on each core)")
        add("--scheduler", default="", metavar="ADDRESS", help="tcp://HOST:PORT of a Dask cluster that does the work")
        add("--sandbox", default="", choices=("bubblewrap", "landlock"), help="use this kind only (default: the best)")
        add("--i-trust-these-submissions", dest="trusted", action="store_true",
            help="run them with your own rights, without a sandbox")  # fmt: skip
        add("--cell-timeout", type=_seconds, default=30.0, metavar="SECONDS", help="that one cell may run (default 30)")
        add("--course", type=Path, help="the folder with solutions/ and lessons/")


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"wanted a whole number from 0 up, got {text}")
    return int(text)


def _seconds(text: str) -> float:
    with suppress(ValueError):
        if 0 < float(text) < 86_400:
            return float(text)
    raise argparse.ArgumentTypeError(f"{text} is not a number of seconds between 0 and a day")


def run_grade(args: argparse.Namespace) -> int:
    """Grade a class. Returns 0 whatever was handed in, 2 when there is nothing to grade or the course is at fault."""
    if is_elsewhere("grade"):
        return 2
    from autograde.classroom.course import CourseError

    try:
        course = _course(args, args.classroom)
        if args.dry_run:
            return _preview(course, args)
    except CourseError as error:
        print(f"grade: {error}", file=sys.stderr)
        return 2
    return _grade(course, args)


def run_demo(args: argparse.Namespace) -> int:
    """Make the sample class afresh and grade it."""
    if is_elsewhere("demo"):
        return 2
    from autograde.classroom.course import CourseError
    from autograde.classroom.sample import make_class

    try:
        course = _course(args, args.classroom)
        made = make_class(course)
    except CourseError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 2
    print(f"made a sample class of {made} notebooks in {course.classroom}")
    return _grade(course, args)


def _course(args: argparse.Namespace, classroom: Path | None) -> Course:
    """Raises `CourseError` where there is no course."""
    from autograde.classroom.course import course_at
    from autograde.classroom.where import course_root

    root = course_root(args.course, classroom)
    how = {"cell_seconds": args.cell_timeout, "trusted": args.trusted, "tier": args.sandbox, "db_url": args.db}
    return course_at(root, classroom or root / "classroom" / "demo", **how)


def _preview(course: Course, args: argparse.Namespace) -> int:
    from autograde.classroom.preview import preview
    from autograde.sandbox.tiers import SENTENCES

    seen = preview(course, args.lesson, args.fresh)
    width = max(len(student) for _, student, _ in seen.rows)
    for lesson, student, fate in seen.rows:
        print(f"{lesson}  {student.ljust(width)}  {fate}")
    print(f"\n{len(seen.rows)} rows; sandbox: {SENTENCES[seen.tier]}; nothing was written")
    return 0


def _grade(course: Course, args: argparse.Namespace) -> int:
    from autograde.classroom.course import CourseError
    from autograde.classroom.grade import Options, grade_class
    from autograde.classroom.record import masked
    from autograde.classroom.report import table
    from autograde.sandbox.tiers import SENTENCES

    options = Options(args.lesson, args.jobs, args.scheduler, args.fresh)
    try:
        graded = grade_class(course, options, say=lambda line: print(line, flush=True))
    except CourseError as error:
        print(f"grade: {error}", file=sys.stderr)
        return 2
    print(f"\n{table(graded.rows)}\n")
    kept = f", {graded.again} of them from an earlier run" if graded.again else ""
    print(f"{len(graded.rows)} rows{kept}; sandbox: {SENTENCES[graded.tier]}")
    if graded.faults:
        print(f"{graded.faults} could not be graded, which is the grader's fault: see grading.log, then grade again")
    print(f"gradebook  {masked(course.gradebook)}")
    print(f"feedback   {course.feedback / 'index.html'}")
    print(f"CSV        {course.grades}")
    return 0
