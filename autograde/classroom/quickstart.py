"""The command `quickstart`: a folder in which a class can be taught and graded, made from the installed course."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from autograde.classroom.quickstart_files import FILES, class_readme
from autograde.classroom.room import obstacle
from autograde.course_files import CourseFilesError, course_files

LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "*.before-reset*.ipynb")


class QuickstartError(Exception):
    """Nothing was made; the text says why on one line."""


def add_commands(subparsers: argparse._SubParsersAction) -> None:
    """Add `quickstart` to a command line."""
    parser = subparsers.add_parser("quickstart", help="make a folder with the lessons and a class")
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="a new folder, or an empty one")
    text = "take this lesson only, for example 01-toy-cache; may be given again"
    parser.add_argument("--lesson", action="append", default=[], metavar="LESSON", help=text)
    parser.add_argument("--dry-run", action="store_true", help="say what would be made; write nothing")
    parser.set_defaults(run=run_quickstart)


def run_quickstart(args: argparse.Namespace) -> int:
    """Make the folder, and say what is next. Returns 2, with nothing written, where it cannot be made."""
    try:
        lessons = quickstart(args.folder, args.lesson, args.dry_run)
    except (QuickstartError, CourseFilesError) as error:
        print(f"quickstart: {error}", file=sys.stderr)
        return 2
    print(f"{'would make' if args.dry_run else 'made'} {args.folder} with {len(lessons)} lessons: {', '.join(lessons)}")
    for name in ("lessons/", "solutions/", *FILES, "classroom/README.md", "classroom/submitted/"):
        print(f"  {name}")
    if not args.dry_run:
        print(f"next: cd {args.folder}, then read classroom/README.md")
    return 0


def quickstart(folder: Path, only: Sequence[str] = (), dry_run: bool = False) -> list[str]:
    """Make a course's folder and return its lessons. `only`: their names; all of them where it is empty.

    Raises `QuickstartError` for a folder that holds something and for a lesson that does not exist.
    """
    source = course_files()
    known = sorted(path.name for path in (source / "lessons").iterdir() if (path / f"{path.name}.ipynb").is_file())
    if unknown := [name for name in only if name not in known]:
        raise QuickstartError(f"there is no lesson {unknown[0]!r}; there are: {', '.join(known)}")
    if problem := obstacle(folder):
        raise QuickstartError(f"wanted a new folder, {problem}")
    if folder.is_dir() and any(folder.iterdir()):
        raise QuickstartError(f"wanted a new or empty folder, and {folder} holds something; it is left alone")
    lessons = [name for name in known if not only or name in only]
    if not dry_run:
        _make(source, folder, lessons)
    return lessons


def _make(source: Path, folder: Path, lessons: list[str]) -> None:
    for lesson in lessons:
        for part in ("lessons", "solutions"):
            shutil.copytree(source / part / lesson, folder / part / lesson, ignore=LEFT_OUT)
        shutil.copy(source / "solutions" / f"{lesson}.py", folder / "solutions")
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "classroom" / "submitted").mkdir(parents=True)
    (folder / "classroom" / "README.md").write_text(class_readme(lessons), encoding="utf-8")
