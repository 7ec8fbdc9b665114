"""The command `report`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def add_commands(subparsers: argparse._SubParsersAction) -> None:
    """Add `report` to a command line. It sets `run`, which takes the arguments and returns an exit code."""
    report = subparsers.add_parser("report", help="show what a class got wrong, exercise by exercise")
    report.add_argument("classroom", type=Path, help="the class folder; results are read from it, report/ lands in it")
    report.add_argument("--lesson", help="this lesson only, for example 01-toy-cache")
    report.set_defaults(run=run_report)


def run_report(args: argparse.Namespace) -> int:
    """Write the page and items.csv. Returns 2 when there is nothing to work on."""
    from autograde.report.results import lessons_in, read_results
    from autograde.report.write import write_report

    lesson = args.lesson
    folder, problem = args.classroom / "results", ""
    if not folder.is_dir():
        problem = f"there is no folder {folder}"
    elif lesson is not None and lesson not in (lessons := lessons_in(folder)):
        problem = f"no results of {lesson}; there are: {', '.join(lessons) or 'none'}"
    if problem:
        print(f"report: {problem}", file=sys.stderr)
        return 2
    found = read_results(folder, lesson)
    page = write_report(args.classroom.resolve(), found)
    for line in found.problems:
        print(f"left out  {_shown(line)}")
    print(f"{len(found.results)} results, {len(found.problems)} files left out")
    print(f"report    {page}")
    print(f"CSV       {page.with_name('items.csv')}")
    return 0


def _shown(text: str) -> str:
    from autograde.report_text import printable

    return printable(text)
