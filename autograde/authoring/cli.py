"""`python -m autograde lessons build`, `lessons check`, `lessons map` and `lessons address`."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from autograde.authoring.course import REPOSITORY, Course, LessonError


def add_commands(subparsers: argparse._SubParsersAction) -> None:
    """Add `lessons` and what it can do. Each command leaves a function `run(arguments) -> exit status`."""
    lessons = subparsers.add_parser("lessons", help="build the lessons' notebooks, check them, and more")
    commands = lessons.add_subparsers(dest="lessons_command", required=True, metavar="build|check|map|address")
    build = commands.add_parser("build", help="build the notebooks that are out of date")
    build.add_argument("lesson", nargs="*", help="a lesson's number or slug (all of them when left out)")
    build.add_argument("--force", action="store_true", help="build what is up to date as well")
    build.set_defaults(run=run_build)
    check = commands.add_parser("check", help="run every gate on the lessons as they are on disk")
    check.set_defaults(run=run_check)
    the_map = commands.add_parser("map", help="write docs/map.md, the map of the course's facts, from tests/data")
    the_map.set_defaults(run=run_map)
    text = "say where the course is published: badges, links and install commands follow"
    where = commands.add_parser("address", help=text)
    where.add_argument("url", nargs="?", default="", help="the repository (default: the git remote `origin`)")
    where.add_argument("--dry-run", action="store_true", help="show the files that would change; write nothing")
    where.set_defaults(run=run_address)
    text = "the course's folder (default: the current one, if it has solutions/ and lessons/, or the checkout)"
    for command in (build, check, the_map, where):
        command.add_argument("--root", type=Path, default=None, help=text)


def _root(given: Path | None) -> Path:
    if given is not None:
        return given.resolve()
    here = Path.cwd()
    return here if (here / "solutions").is_dir() and (here / "lessons").is_dir() else REPOSITORY


def _course(given: Path | None) -> Course:
    """The course in a folder. One that `quickstart` made has its own choice of lessons, and kvlib elsewhere."""
    course = Course(root=_root(given))
    if (course.root / "kvlib").is_dir():
        return course
    chosen = tuple(lesson for lesson in course.lessons if course.source(lesson).is_file())
    known = course.exercises
    theirs = {name: known[name] for lesson in chosen for name in lesson.exercises if name in known}
    return replace(course, lessons=chosen, registry=lambda: theirs)


def run_build(arguments: argparse.Namespace) -> int:
    """Build; 1 when a lesson could not be built."""
    from autograde.authoring.build import build

    names = [name.zfill(2) if name.isdigit() else name for name in arguments.lesson]
    try:
        build(_course(arguments.root), names, force=arguments.force)
    except LessonError as error:
        print(error)
        return 1
    return 0


def run_check(arguments: argparse.Namespace) -> int:
    """Run the gates; 1 when one of them found something."""
    from autograde.authoring.gates import GATES

    course, seen = _course(arguments.root), set()
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

    root = _root(arguments.root)
    (root / PAGE).write_text(page(root), encoding="utf-8")
    print(f"wrote {PAGE}")
    return 0


def run_address(arguments: argparse.Namespace) -> int:
    """Write another address of the repository wherever it stands; 2 for an address that is none."""
    from autograde.address import REPOSITORY as OLD
    from autograde.authoring.addresses import AddressError, normalised, remote, rewrite

    root = _root(arguments.root)
    try:
        new = normalised(arguments.url) if arguments.url else remote(root)
    except AddressError as error:
        print(f"address: {error}", file=sys.stderr)
        return 2
    if new == OLD:
        print(f"The address is {OLD} already.")
        return 0
    changed = rewrite(root, new, dry_run=arguments.dry_run)
    print(f"{OLD}\n  {'would become' if arguments.dry_run else 'became'} {new} in {len(changed)} files:")
    print("\n".join(f"  {path.relative_to(root).as_posix()}" for path in changed))
    if not new.startswith("https://github.com/"):
        print(
            "Colab, Kaggle and mybinder.org open notebooks of github.com: their badges will not work with this address."
        )
    return 0
