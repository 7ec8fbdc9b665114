"""The text, the executed notebook and the release are the same lesson."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from autograde.authoring.course import Course, Problem
from autograde.authoring.gates.each import each_lesson
from autograde.authoring.notebook import compose, describe, read_notebook, to_text, without_outputs
from autograde.authoring.release import release, stage
from autograde.lessons import Lesson


def sync(course: Course) -> list[Problem]:
    """Notebooks that are not what their text builds today, apart from outputs."""
    return each_lesson(course, _of_lesson)  # one at a time: nbgrader changes the working directory


def _of_lesson(course: Course, lesson: Lesson) -> Iterator[Problem]:
    notebook = compose(course, lesson)
    built = read_notebook(course, lesson, course.solution(lesson))
    if to_text(without_outputs(built)) != to_text(notebook):
        yield _first_difference(lesson, "the solution", built, notebook)
    with tempfile.TemporaryDirectory() as staging:
        stage(course, lesson, notebook, Path(staging))
        for due in sorted(release(lesson, Path(staging)).iterdir()):
            found = course.release(lesson).parent / due.name
            if found == course.release(lesson):
                released = read_notebook(course, lesson, found)
                if found.read_bytes() != due.read_bytes():
                    yield _first_difference(lesson, "the release", released, nbformat.read(due, as_version=4))
            elif not found.is_file() or found.read_bytes() != due.read_bytes():
                yield Problem(lesson.slug, "", f"{course.relative(found)} is not the file in solutions/")


def _first_difference(lesson: Lesson, name: str, found: NotebookNode, due: NotebookNode) -> Problem:
    text = f"{name} is not what the text builds: build the lessons"
    for ours, theirs in zip(without_outputs(found).cells, due.cells, strict=False):
        if ours != theirs:
            return Problem(lesson.slug, describe(ours), text)
    if len(found.cells) != len(due.cells):
        return Problem(lesson.slug, "", f"{text} ({len(found.cells)} cells, not {len(due.cells)})")
    return Problem(lesson.slug, "", text)
