"""The command `feedback`: students' pages anew from the gradebook, and packed for the platform they came through."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from autograde.classroom.elsewhere import is_elsewhere
from autograde.classroom.release import CONFIGURED

if TYPE_CHECKING:
    from autograde.classroom.course import Course


def add_commands(subparsers: argparse._SubParsersAction) -> None:
    """Add `feedback` to a command line."""
    feedback = subparsers.add_parser("feedback", help="write students' pages anew, after marking by hand")
    add = feedback.add_argument
    add("classroom", type=Path, help="the class folder; pages land in its feedback/")
    add("--lesson", default="", help="this lesson only, for example 01-toy-cache (default: all that were graded)")
    where = feedback.add_mutually_exclusive_group()
    text = "also a zip of one lesson's pages, named as Moodle's or Canvas's zip of the work was"
    where.add_argument("--zip", type=Path, metavar="FILE", help=text)
    text = "also into nbgrader's exchange (default: the one that nbgrader_config.py names)"
    where.add_argument("--exchange", type=Path, nargs="?", const=CONFIGURED, metavar="FOLDER", help=text)
    add("--force", action="store_true", help="replace a zip that is there")
    add("--db", default=os.environ.get("GRADEBOOK", ""), metavar="URL",
        help="the gradebook; default: what GRADEBOOK says, or CLASSROOM/gradebook.db")  # fmt: skip
    add("--dry-run", action="store_true", help="say what would be written; write nothing")
    add("--course", type=Path, help="the folder with solutions/ and lessons/")
    feedback.set_defaults(run=run_feedback)


def run_feedback(args: argparse.Namespace) -> int:
    """Write the pages. Returns 2, with nothing written, where there is nothing to write or no place for it."""
    if is_elsewhere("feedback"):
        return 2
    from autograde.classroom.course import CourseError, course_at
    from autograde.classroom.where import course_root

    try:
        course = course_at(course_root(args.course, args.classroom), args.classroom, db_url=args.db)
        problems = _feedback(course, args)
    except CourseError as error:
        print(f"feedback: {error}", file=sys.stderr)
        return 2
    for line in problems:
        print(f"not done  {line}")
    return 0


def _feedback(course: Course, args: argparse.Namespace) -> list[str]:
    """Do it, and return what could not be done."""
    from autograde.classroom import report
    from autograde.classroom.course import CourseError, prepare_process
    from autograde.classroom.lock import only_run
    from autograde.classroom.outlets import insist_on_new_file
    from autograde.classroom.record import insist_on_graded
    from autograde.classroom.return_zip import names_in, write_return_zip
    from autograde.classroom.returned import Returned
    from autograde.classroom.rows import all_rows

    prepare_process()
    lessons = insist_on_graded(course, args.lesson)
    if args.zip is not None:
        if len(lessons) != 1:
            raise CourseError(
                f"--zip: platforms take one lesson's pages at a time: add --lesson with one of {', '.join(lessons)}"
            )
        insist_on_new_file(args.zip, "--zip", args.force)
        names = names_in(course, lessons[0])
    exchange = Returned(course, args.exchange) if args.exchange is not None else None
    pages = {lesson: graded_in(course, lesson) for lesson in lessons}
    written = "would be written" if args.dry_run else "written"
    problems: list[str] = []
    if not args.dry_run:
        with only_run(course.classroom):
            problems = [problem for lesson in lessons for problem in _write(course, lesson, pages[lesson])]
            report.write_index(all_rows(course), course.feedback)
    for lesson in lessons:
        print(f"{lesson}: {len(pages[lesson])} pages {written}")
    if args.zip is not None:
        problems += write_return_zip(course, lessons[0], pages[lessons[0]], names, None if args.dry_run else args.zip)
        print(f"zip {written}  {args.zip}")
    if exchange is not None:
        problems += [line for lesson in lessons for line in exchange.put(lesson, pages[lesson], args.dry_run)]
        print(f"exchange {written}  {exchange.folder}")
    return problems


def graded_in(course: Course, lesson: str) -> list[str]:
    """Students who have a graded notebook of this lesson."""
    return sorted(path.parents[1].name for path in course.autograded.glob(f"*/{lesson}/{lesson}.ipynb"))


def _write(course: Course, lesson: str, students: list[str]) -> list[str]:
    from tqdm import tqdm

    from autograde.classroom.feedback import Pages
    from autograde.classroom.record import failure
    from autograde.classroom.schedule import cores

    problems = []
    with (
        closing(Pages(course, lesson, len(students), cores())) as pages,
        tqdm(total=len(students), desc=f"{lesson}, pages", unit="", dynamic_ncols=True, disable=None) as bar,
    ):
        for student in students:
            pages.recorded(student)
        for student, problem in pages.finish():
            bar.update()
            if problem:
                problems.append(f"{student}: no page for {lesson}: {failure({'log': problem})}")
    return problems
