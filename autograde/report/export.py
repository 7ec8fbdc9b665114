"""The command `export`: grades.csv anew from the gradebook, and files for learning platforms."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path


def add_commands(subparsers: argparse._SubParsersAction) -> None:
    """Add `export` to a command line."""
    export = subparsers.add_parser("export", help="write grades.csv anew, and grades for Canvas or Moodle")
    add = export.add_argument
    add("classroom", type=Path, help="the class folder; grades.csv lands in it, and a platform's file in its report/")
    add("--lesson", help="only this lesson in the platform's file, for example 01-toy-cache")
    add("--lms", choices=("canvas", "moodle"), help="also write CLASSROOM/report/LMS.csv")
    add("--canvas-template", type=Path, metavar="FILE", help="the gradebook as Canvas exports it; grades are filled in")
    text = "what names a student in Moodle (default email)"
    add("--moodle-id", choices=("email", "id", "username"), help=text)
    text = "a CSV with a column student, and Email address, ID number or Username; for Moodle"
    add("--roster", type=Path, metavar="FILE", help=text)
    text = "what the platform calls a lesson (default: the lesson's name); may be given again"
    add("--column", type=_column, action="append", default=[], metavar="LESSON=NAME", help=text)
    add("--db", default=os.environ.get("GRADEBOOK", ""), metavar="URL",
        help="the gradebook; default: what GRADEBOOK says, or CLASSROOM/gradebook.db")  # fmt: skip
    add("--dry-run", action="store_true", help="say what would be written; write nothing")
    add("--course", type=Path, help="the folder with solutions/ and lessons/")
    export.set_defaults(run=run_export)


def run_export(args: argparse.Namespace) -> int:
    """Export. Returns 2, with nothing written, where there is nothing to export or an option does not fit."""
    from autograde.report.grades import ExportError

    try:
        _insist(args)
        with tempfile.TemporaryDirectory(prefix="export-") as scratch:
            _export(args, Path(scratch))
    except ExportError as error:
        print(f"export: {error}", file=sys.stderr)
        return 2
    return 0


def _insist(args: argparse.Namespace) -> None:
    """Raise `ExportError` for options that do not go together, and a class that is no folder."""
    from autograde.report.grades import ExportError

    if not args.classroom.is_dir():
        what = "the file" if args.classroom.exists() else "nothing at"
        raise ExportError(f"wanted a class's folder, got {what} {args.classroom}")
    if args.lms == "canvas" and args.canvas_template is None:
        raise ExportError("--lms canvas needs --canvas-template FILE, the gradebook exported from Canvas")
    fits = {"--canvas-template": "canvas", "--moodle-id": "moodle", "--roster": "moodle"}
    given = {"--canvas-template": args.canvas_template, "--moodle-id": args.moodle_id, "--roster": args.roster}
    for option, value in given.items():
        if value is not None and args.lms != fits[option]:
            raise ExportError(f"{option} goes with --lms {fits[option]}")
    if args.column and not args.lms:
        raise ExportError("--column goes with --lms")


def _export(args: argparse.Namespace, scratch: Path) -> None:
    """Write everything into `scratch` first: a dry run ends there, and a run that fails has changed nothing."""
    from autograde.report import lms

    grades = args.classroom / "grades.csv"
    fresh = _from_gradebook(args, scratch)
    read_from = scratch / "grades.csv" if fresh else grades
    notes: list[str] = []
    files = {name: args.classroom / name for name in fresh}
    if args.lms == "canvas":
        notes = lms.canvas(read_from, args.canvas_template, scratch / "canvas.csv", args.lesson, dict(args.column))
    elif args.lms == "moodle":
        kind = args.moodle_id or "email"
        notes = lms.moodle(read_from, kind, args.roster, scratch / "moodle.csv", args.lesson, dict(args.column))
    if args.lms:
        files[f"{args.lms}.csv"] = args.classroom / "report" / f"{args.lms}.csv"
    for line in notes:
        print(f"not done  {_shown(line)}")
    for name, path in files.items():
        if not args.dry_run:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes((scratch / name).read_bytes())
        print(f"{'would be written' if args.dry_run else 'written'}  {path.resolve()}")


def _from_gradebook(args: argparse.Namespace, scratch: Path) -> list[str]:
    """Write grades.csv and nbgrader.csv into `scratch`, and return their names; none where there is no gradebook.

    The platforms' files can be made from a grades.csv alone, on any system.
    """
    from autograde.report.grades import ExportError

    if not args.db and not (args.classroom / "gradebook.db").is_file():
        if args.lms and (args.classroom / "grades.csv").is_file():
            return []
        raise ExportError(f"there is no gradebook in {args.classroom}: grade the class first")
    from autograde.classroom.elsewhere import lacks_nbgrader

    if lacks_nbgrader("export"):
        raise ExportError("the gradebook cannot be read")
    from autograde.classroom import record, report
    from autograde.classroom.course import CourseError, course_at, prepare_process
    from autograde.classroom.rows import all_rows
    from autograde.classroom.where import course_root

    prepare_process()
    try:
        course = course_at(course_root(args.course, args.classroom), args.classroom, db_url=args.db)
        record.insist_on_graded(course)
        with record.database_faults_told(course):
            rows = all_rows(course)
            record.export(course, scratch / "nbgrader.csv")
    except CourseError as error:
        raise ExportError(str(error)) from None
    report.write_csv(rows, scratch / "grades.csv")
    waiting = sum(value is None for row in rows for value in row.points.values())
    print(f"{len(rows)} rows" + (f", {waiting} marks wait for marking by hand" if waiting else ""))
    return ["grades.csv", "nbgrader.csv"]


def _column(text: str) -> tuple[str, str]:
    lesson, equals, name = text.partition("=")
    if not (lesson and equals and name):
        raise argparse.ArgumentTypeError(f"wanted LESSON=NAME, got {text!r}")
    return lesson, name


def _shown(text: str) -> str:
    from autograde.report_text import printable

    return printable(text)
