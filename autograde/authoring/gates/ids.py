"""Notebooks are valid, and the names that gradebooks and submissions go by never change."""

from __future__ import annotations

import copy
import re
import warnings
from collections import Counter
from collections.abc import Iterator

import nbformat
from nbgrader.nbgraderformat import MetadataValidator, SchemaTooNewError, SchemaTooOldError, ValidationError

from autograde.authoring.course import Course, Problem
from autograde.authoring.gates.each import each_lesson
from autograde.authoring.notebook import grade_id, notebook_metadata, read_notebook
from autograde.authoring.source import WRITTEN, read_source
from autograde.lessons import Lesson

CELL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


def ids(course: Course) -> list[Problem]:
    """Grade ids that are not "exercise-N-M", "check-N-M" or "written-NAME", bad or repeated ids, odd metadata."""
    return each_lesson(course, _of_lesson)


def _of_lesson(course: Course, lesson: Lesson) -> Iterator[Problem]:
    for path in (course.solution(lesson), course.release(lesson)):
        notebook = read_notebook(course, lesson, path)
        for cell, text in _of_notebook(lesson, _due(course, lesson), notebook):
            yield Problem(lesson.slug, cell, f"{course.relative(path)}: {text}")


def _due(course: Course, lesson: Lesson) -> list[str]:
    due = [grade_id(kind, name) for name in lesson.exercises for kind in ("exercise", "check")]
    return due + [grade_id(WRITTEN, p.exercise) for p in read_source(course, lesson).parts if p.kind == WRITTEN]


def _of_notebook(lesson: Lesson, due: list[str], notebook: nbformat.NotebookNode) -> Iterator[tuple[str, str]]:
    yield from _of_cell_ids(notebook)
    yield from _of_grade_ids(due, notebook)
    if dict(notebook.metadata) != notebook_metadata(lesson):
        yield "", f"notebook metadata {sorted(notebook.metadata)} is not what a build writes"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", nbformat.warnings.DuplicateCellId)  # it would repair what was found above
            nbformat.validate(copy.deepcopy(notebook))
        MetadataValidator().validate_nb(notebook)
    except (nbformat.ValidationError, ValidationError, SchemaTooNewError, SchemaTooOldError) as error:
        yield "", f"not valid: {str(error).splitlines()[0]}"


def _of_cell_ids(notebook: nbformat.NotebookNode) -> Iterator[tuple[str, str]]:
    names = [cell.get("id", "") for cell in notebook.cells]
    for name, count in Counter(names).items():
        if not CELL_ID.fullmatch(name):
            yield f"cell {name!r}", "not a valid cell id"
        if count > 1:
            yield f"cell {name}", f"{count} cells have this id"


def _of_grade_ids(due: list[str], notebook: nbformat.NotebookNode) -> Iterator[tuple[str, str]]:
    grade_ids = [cell.metadata["nbgrader"]["grade_id"] for cell in notebook.cells if "nbgrader" in cell.metadata]
    for name in sorted((Counter(grade_ids) - Counter(due)).keys() | (Counter(due) - Counter(grade_ids)).keys()):
        yield f"cell {name}", f"grade id found {grade_ids.count(name)} times, not {due.count(name)}"
