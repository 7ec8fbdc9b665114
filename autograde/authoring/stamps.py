"""Which lessons are up to date, so that a build with nothing to do takes no time.

A stamp holds the hash of all that a lesson is made from and the hashes of what was made. It is kept in
`.cache/lessons.json`, which git ignores: without it everything is built once.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

from autograde.authoring.course import Course
from autograde.lessons import Lesson

TOOLS = ("jupytext", "nbconvert", "nbformat", "nbgrader")
LEFT_OUT = ("__pycache__", ".ipynb_checkpoints")


def cache(course: Course) -> Path:
    """The course's `.cache` folder, made when needed, and ignored by git whatever the course's own rules say."""
    folder = course.root / ".cache"
    folder.mkdir(exist_ok=True)
    (folder / ".gitignore").write_text("*\n", encoding="utf-8")
    return folder


def ingredients(course: Course, lesson: Lesson) -> str:
    """A hash of the lesson's text, its files, every file of kvlib and autograde, and the tools that convert."""
    root, folder = course.root, course.solution(lesson).parent
    files = [course.source(lesson)]
    files += [file for file in _files(folder) if file.suffix != ".ipynb"]
    named = [(file.relative_to(root), file) for file in files]
    for package in (course.package("kvlib"), course.package("autograde")):
        named += [(file.relative_to(package.parent), file) for file in _files(package)]
    digest = hashlib.sha256(repr([(tool, version(tool)) for tool in TOOLS] + [lesson]).encode())
    for name, file in named:
        digest.update(f"\n{name.as_posix()} {hash_of(file)}".encode())
    return digest.hexdigest()


def is_fresh(course: Course, lesson: Lesson) -> bool:
    """Whether the lesson was built from just these ingredients, and what was built is still there, untouched."""
    stamp = _read(course).get(lesson.slug)
    if stamp is None or stamp["ingredients"] != ingredients(course, lesson):
        return False
    return all(hash_of(course.root / name) == made for name, made in stamp["made"].items())


def record(course: Course, lesson: Lesson, made_from: str, made: Iterable[Path]) -> None:
    """Note what a lesson was made from and what was made."""
    stamps, path = _read(course), cache(course) / "lessons.json"
    stamps[lesson.slug] = {"ingredients": made_from, "made": {course.relative(file): hash_of(file) for file in made}}
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(stamps, indent=1, sort_keys=True), encoding="utf-8")
    os.replace(fresh, path)


def hash_of(file: Path) -> str:
    """The hash of a file's bytes; "" when there is no such file."""
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""


def _files(folder: Path) -> list[Path]:
    found = (file for file in folder.rglob("*") if file.is_file())
    return sorted(file for file in found if not set(LEFT_OUT) & set(file.relative_to(folder).parts))


def _read(course: Course) -> dict[str, dict]:
    try:
        return json.loads((course.root / ".cache" / "lessons.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
