"""A lesson uses only what the course has introduced."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from autograde.authoring.course import Course, Problem
from autograde.authoring.gates.each import each_lesson
from autograde.authoring.imported import imported
from autograde.authoring.source import read_source
from autograde.lessons import Lesson

# Third-party packages, and the first lesson that may use them.
PACKAGES = {"autograde": 0, "ipywidgets": 0, "matplotlib": 0, "numpy": 0, "torch": 4}
ANSWERS = "autograde.exercises"


def imports(course: Course) -> list[Problem]:
    """Imports of kvlib modules that no lesson so far introduced, and of packages that the course does not use."""
    return each_lesson(course, _of_lesson)


def _of_lesson(course: Course, lesson: Lesson) -> Iterator[Problem]:
    introduced = {name for other in course.lessons if other.number <= lesson.number for name in other.introduces}
    for part in read_source(course, lesson).parts:
        if part.cell_type != "code":
            continue
        try:
            modules = list(imported(part.text))
        except SyntaxError as error:
            yield Problem(lesson.slug, part.where, f"does not parse: {error}")
            continue
        for module in modules:
            text = _objection(module, lesson, introduced)
            if text:
                yield Problem(lesson.slug, part.where, text)


def _objection(module: str, lesson: Lesson, introduced: set[str]) -> str:
    package = module.split(".")[0]
    if package == "kvlib":
        known = any(module == name or module.startswith(f"{name}.") for name in introduced)
        return "" if known else f"imports {module}, which no lesson up to this one introduces"
    if module == ANSWERS or module.startswith(f"{ANSWERS}."):
        return f"imports {module}, which holds the answers"
    if package in sys.stdlib_module_names or PACKAGES.get(package, lesson.number + 1) <= lesson.number:
        return ""
    later = f" before lesson {PACKAGES[package]}" if package in PACKAGES else ""
    return f"imports {package}, which lessons do not use{later}"
