"""`python -m autograde lessons build`, `lessons check` and `lessons map`."""

from __future__ import annotations

import argparse
from pathlib import Path

from autograde.authoring.course import REPOSITORY, Course, LessonError


def add_commands(subparsers: argparse._SubParsersAction) -> None:
    """Add `lessons` and what it can do. Each command leaves a function `run(arguments) -> exit status`."""
    lessons = subparsers.add_parser("lessons", help="build the lessons' notebooks, check them, or map their facts")
    commands = lessons.add_subparsers(dest="lessons_command", required=True, metavar="build|check|map")
    build = commands.add_parser("build", help="build the notebooks that are out of date")
    build.add_argument("lesson", nargs="*", help="a lesson's number or slug (all of them when left out)")
    build.add_argument("--force", action="store_true", help="build what is up to date as well")
    build.set_defaults(run=run_build)
    check = commands.add_parser("check", help="run every gate on the lessons as they are on disk")
    check.set_defaults(run=run_check)
    the_map = commands.add_parser("map", help="write docs/map.md, the map of the course's facts, from tests/data")
    the_map.set_defaults(run=run_map)
    for command in (build, check, the_map):
        command.add_argument("--root", type=Path, default=REPOSITORY, help="the course's folder")


def run_build(arguments: argparse.Namespace) -> int:
    """Build; 1 when a lesson could not be built."""
    from autograde.authoring.build import build

    names = [name.zfill(2) if name.isdigit() else name for name in arguments.lesson]
    try:
        build(Course(root=arguments.root.resolve()), names, force=arguments.force)
    except LessonError as error:
        print(error)
        return 1
    return 0


def run_check(arguments: argparse.Namespace) -> int:
    """Run the gates; 1 when one of them found something."""
    from autograde.authoring.gates import GATES

    course, seen = Course(root=arguments.root.resolve()), set()
    for name, gate in GATES.items():
        problems = gate(course)
        print(f"{name}: {'ok' if not problems else f'{len(problems)} found'}", flush=True)
        for problem in problems:
            if problem not in seen:  # a missing notebook is said once, not by every gate that wanted to look at it
                print(f"  {problem}")
            seen.add(problem)
    return 1 if seen else 0


def run_map(arguments: argparse.Namespace) -> int:
    """Write the map of the course's facts."""
    from autograde.authoring.facts_map import PAGE, page

    root = arguments.root.resolve()
    (root / PAGE).write_text(page(root), encoding="utf-8")
    print(f"wrote {PAGE}")
    return 0
