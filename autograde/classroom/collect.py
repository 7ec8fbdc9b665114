"""The command `collect`: loose notebooks in, submitted/STUDENT/LESSON/LESSON.ipynb and a record of each out."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from autograde.classroom.elsewhere import is_elsewhere
from autograde.classroom.release import CONFIGURED

if TYPE_CHECKING:
    from autograde.classroom.course import Course
    from autograde.classroom.loose import Found

RECORD = "collected.csv"


def add_commands(subparsers: argparse._SubParsersAction) -> None:
    """Add `collect` to a command line."""
    collect = subparsers.add_parser("collect", help="put downloaded notebooks where `grade` looks for them")
    collect.add_argument("classroom", type=Path, help="the class folder; the work lands in its submitted/")
    text = "a folder, a zip or a notebook from Moodle, Canvas, Gradescope, nbgrader's exchange (its inbound/) or mail"
    collect.add_argument("sources", type=Path, nargs="*", metavar="SOURCE", help=text)
    text = "nbgrader's exchange: what was handed in there (default: the one that nbgrader_config.py names)"
    collect.add_argument("--exchange", type=Path, nargs="?", const=CONFIGURED, metavar="FOLDER", help=text)
    text = "CSV with the column id and any of first_name, last_name, email, lms_user_id: only these students are placed"
    collect.add_argument("--roster", type=Path, metavar="FILE", help=text)
    collect.add_argument("--dry-run", action="store_true", help="show what would be placed; write nothing")
    collect.add_argument("--force", action="store_true", help="replace different work that is already there")
    collect.add_argument("--course", type=Path, help="the folder with solutions/ and lessons/")
    collect.set_defaults(run=run_collect)


def run_collect(args: argparse.Namespace) -> int:
    """Collect and print a table. Returns 0 whatever was found, 2 when a source is missing or nothing was found."""
    if is_elsewhere("collect"):
        return 2
    from autograde.classroom.collected import table
    from autograde.classroom.course import CourseError, course_at
    from autograde.classroom.where import course_root

    try:
        course = course_at(course_root(args.course, args.classroom), args.classroom)
        if course.classroom.exists() and not course.classroom.is_dir():
            raise CourseError(f"wanted a class's folder, got the file {args.classroom}")
        sources = _sources(course, args)
        found = collect(course, sources, args.roster, args.dry_run, args.force)
    except CourseError as error:
        print(f"collect: {error}", file=sys.stderr)
        return 2
    placed = sum(one.placed for one in found)
    print(f"{table(found)}\n")
    print(f"{placed} {'would be placed' if args.dry_run else 'placed'}, {len(found) - placed} not")
    if not args.dry_run:
        print(f"submitted  {course.submitted}\nrecord     {course.classroom / RECORD}")
    return 0


def _sources(course: Course, args: argparse.Namespace) -> list[Path]:
    """What to read. Raises `CourseError` where nothing is named, and for an exchange without an inbound folder."""
    from autograde.classroom.course import CourseError
    from autograde.classroom.outlets import outbound

    if args.exchange is None:
        if not args.sources:
            raise CourseError("wanted a folder, a zip or a notebook, or --exchange; got none")
        return args.sources
    inbound = outbound(course, args.exchange).with_name("inbound")
    if not inbound.is_dir():
        raise CourseError(f"--exchange: there is no folder {inbound}: nobody handed in through this exchange")
    return [*args.sources, inbound]


def collect(
    course: Course, sources: list[Path], roster: Path | None = None, dry_run: bool = False, force: bool = False
) -> list[Found]:
    """Place every notebook that is clearly one student's work for one lesson. Returns a row for every file found.

    Bytes are copied as they are. Different work that is already there stays, unless `force`. Raises `CourseError` for
    a source that does not exist, a roster that is none, or when nothing is found, never because of one bad file.
    """
    from tqdm import tqdm

    from autograde.classroom.collected import read_record, write_record
    from autograde.classroom.course import CourseError
    from autograde.classroom.intake import STUDENT_NAME
    from autograde.classroom.loose import Clues, attribute
    from autograde.classroom.place import choose, place
    from autograde.classroom.roster import Names, read_roster
    from autograde.classroom.sources import read_source

    earlier = read_record(course.classroom / RECORD)
    names, bar = Names(), {"unit": "", "dynamic_ncols": True, "disable": None}
    for row in earlier:
        if STUDENT_NAME.fullmatch(row["student"]) and row["name"]:
            names.remember(row["name"], row["student"])
    clues = Clues(course, read_roster(roster) if roster else None, names)
    with tempfile.TemporaryDirectory(prefix="collect-") as spool:
        read = tqdm(sources, desc="read", **bar)
        found = [one for path in read for one in attribute(read_source(path, Path(spool)), clues)]
        if not found:
            raise CourseError(f"no file in {', '.join(str(path) for path in sources)}")
        chosen = tqdm(choose(found), desc="place", **bar)
        found = [place(course, one, dry_run, force) if one.placed else one for one in chosen]
    if not dry_run:
        if roster is not None and roster.resolve() != course.roster.resolve():
            shutil.copyfile(roster, course.roster)
        write_record(course.classroom / RECORD, earlier, found)
    return found
