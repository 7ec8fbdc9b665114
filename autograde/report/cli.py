"""The command `report`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def add_commands(subparsers: argparse._SubParsersAction) -> None:
    """Add `report` to a command line. It sets `run`, which takes the arguments and returns an exit code."""
    report = subparsers.add_parser("report", help="show what a class got wrong, and write grades for Canvas or Moodle")
    report.add_argument("classroom", type=Path, help="the class folder; results are read from it, report/ lands in it")
    report.add_argument("--lesson", help="this lesson only, for example 01-toy-cache")
    report.add_argument(
        "--lms", choices=("canvas", "moodle"), help="also write CLASSROOM/report/LMS.csv from grades.csv"
    )
    text = "the gradebook as Canvas exports it; the grades are filled in"
    report.add_argument("--canvas-template", type=Path, metavar="FILE", help=text)
    text = "what names a student in Moodle (default email)"
    report.add_argument("--moodle-id", choices=("email", "id", "username"), default="email", help=text)
    text = "a CSV with a column student, and Email address, ID number or Username; for Moodle"
    report.add_argument("--roster", type=Path, metavar="FILE", help=text)
    text = "what the platform calls a lesson (default: the lesson's name); may be given again"
    report.add_argument("--column", type=_column, action="append", default=[], metavar="LESSON=NAME", help=text)
    report.set_defaults(run=run_report)


def run_report(args: argparse.Namespace) -> int:
    """Write the report, and the platform's file where one is asked for. Returns 2 when there is nothing to work on."""
    from autograde.report.grades import ExportError

    if args.lms == "canvas" and args.canvas_template is None:
        print("report: --lms canvas needs --canvas-template FILE, the gradebook exported from Canvas", file=sys.stderr)
        return 2
    analysed = _analyse(args.classroom, args.lesson, needed=args.lms is None)
    if args.lms is None:
        return 0 if analysed else 2
    try:
        _export(args)
    except ExportError as error:
        print(f"report: {error}", file=sys.stderr)
        return 2
    return 0


def _analyse(classroom: Path, lesson: str | None, needed: bool) -> bool:
    """Write the page and items.csv. Returns whether there was anything to read; `needed` makes that an error."""
    from autograde.report.results import lessons_in, read_results
    from autograde.report.write import write_report

    folder, problem = classroom / "results", ""
    if not folder.is_dir():
        problem = f"there is no folder {folder}"
    elif lesson is not None and lesson not in (lessons := lessons_in(folder)):
        problem = f"no results of {lesson}; there are: {', '.join(lessons) or 'none'}"
    if problem:
        print(f"report: {problem}" + ("" if needed else "; no report is written"), file=sys.stderr)
        return False
    found = read_results(folder, lesson)
    page = write_report(classroom.resolve(), found)
    for line in found.problems:
        print(f"left out  {_shown(line)}")
    print(f"{len(found.results)} results, {len(found.problems)} files left out")
    print(f"report    {page}")
    print(f"CSV       {page.with_name('items.csv')}")
    return True


def _export(args: argparse.Namespace) -> None:
    from autograde.report import lms

    columns = dict(args.column)
    if args.lms == "canvas":
        path, notes = lms.canvas(args.classroom, args.canvas_template, args.lesson, columns)
    else:
        path, notes = lms.moodle(args.classroom, args.moodle_id, args.roster, args.lesson, columns)
    for line in notes:
        print(f"not done  {_shown(line)}")
    print(f"{args.lms:9} {path.resolve()}")


def _column(text: str) -> tuple[str, str]:
    lesson, equals, name = text.partition("=")
    if not (lesson and equals and name):
        raise argparse.ArgumentTypeError(f"wanted LESSON=NAME, got {text!r}")
    return lesson, name


def _shown(text: str) -> str:
    from autograde.report_text import printable

    return printable(text)
