"""The command `release`: lessons into the gradebook, with the date they are due, and out to students."""

from __future__ import annotations

import argparse
import os
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from autograde.classroom.elsewhere import is_elsewhere

if TYPE_CHECKING:
    from autograde.classroom.course import Course

CONFIGURED = Path("")  # `--exchange` without a folder: the one that nbgrader_config.py names


def add_commands(subparsers: argparse._SubParsersAction) -> None:
    """Add `release` to a command line."""
    release = subparsers.add_parser("release", help="register lessons in the gradebook, and lay out what students get")
    add = release.add_argument
    add("classroom", type=Path, help="the class folder; its gradebook learns of the lessons")
    add("lessons", nargs="+", metavar="LESSON", help="for example 01-toy-cache")
    where = release.add_mutually_exclusive_group()
    where.add_argument("--to", type=Path, metavar="FOLDER", help="copy the lessons there: FOLDER/LESSON/LESSON.ipynb")
    where.add_argument("--zip", type=Path, metavar="FILE", help="a new zip of them, for a learning platform")
    text = "nbgrader's exchange (default: the one that nbgrader_config.py names)"
    where.add_argument("--exchange", type=Path, nargs="?", const=CONFIGURED, metavar="FOLDER", help=text)
    add("--due", type=_due, metavar="DATE", help="2027-01-31 (its end) or '2027-01-31 18:00+01:00'; kept when left out")
    add("--force", action="store_true", help="replace what was released there before")
    add("--db", default=os.environ.get("GRADEBOOK", ""), metavar="URL",
        help="the gradebook; default: what GRADEBOOK says, or CLASSROOM/gradebook.db")  # fmt: skip
    add("--dry-run", action="store_true", help="say what would be done; write nothing")
    add("--course", type=Path, help="the folder with solutions/ and lessons/")
    release.set_defaults(run=run_release)


def _due(text: str) -> datetime:
    from autograde.classroom.due import parse_due

    try:
        return parse_due(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def run_release(args: argparse.Namespace) -> int:
    """Release, and print a line for each lesson. Returns 2, with nothing written, where something is in the way."""
    if is_elsewhere("release"):
        return 2
    from autograde.classroom.course import CourseError, course_at
    from autograde.classroom.outlets import outlet_for
    from autograde.classroom.where import course_root

    try:
        course = course_at(course_root(args.course, args.classroom), args.classroom, db_url=args.db)
        lessons = list(dict.fromkeys(args.lessons))
        outlet = outlet_for(course, args.to, args.zip, args.exchange, args.force)
        _insist(course, lessons)
        outlet.insist(lessons)
        if not args.dry_run:
            _release(course, lessons, args.due)
            outlet.put(lessons)
    except CourseError as error:
        print(f"release: {error}", file=sys.stderr)
        return 2
    due = f", due {args.due:%Y-%m-%d %H:%M} UTC" if args.due else ""
    for lesson in lessons:
        print(f"{lesson}: {'would be registered' if args.dry_run else 'registered'}{due}")
    print(f"{'would go to' if args.dry_run else 'released '}  {outlet.place}")
    return 0


def _insist(course: Course, lessons: list[str]) -> None:
    """Raise `CourseError` for a lesson that the course does not have, and a class that is no folder."""
    from autograde.classroom.course import CourseError
    from autograde.classroom.record import insist_on_files, insist_on_gradebook
    from autograde.classroom.room import obstacle

    if problem := obstacle(course.classroom):
        raise CourseError(f"wanted a class's folder, {problem}")
    insist_on_gradebook(course)
    known = sorted(path.name for path in (course.root / "lessons").iterdir() if course.release(path.name).is_file())
    for lesson in lessons:
        if lesson not in known:
            raise CourseError(f"there is no lesson {lesson!r}; there are: {', '.join(known) or 'none'}")
        insist_on_files(course, lesson)


def _release(course: Course, lessons: list[str], due: datetime | None) -> None:
    from tqdm import tqdm

    from autograde.classroom.course import prepare_process
    from autograde.classroom.lock import only_run
    from autograde.classroom.record import database_faults_told, register, set_due

    prepare_process()
    course.submitted.mkdir(parents=True, exist_ok=True)
    with only_run(course.classroom), database_faults_told(course):
        for lesson in tqdm(lessons, desc="release", unit="", dynamic_ncols=True, disable=None):
            register(course, lesson)
            if due is not None:
                set_due(course, lesson, due)
