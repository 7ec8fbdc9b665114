"""Both notebooks run from top to bottom, and every check says what it should."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from nbformat import NotebookNode

from autograde.authoring.course import Course, Problem
from autograde.authoring.execute import execute
from autograde.authoring.gates.each import all_cores, each_lesson
from autograde.authoring.notebook import describe, read_notebook, without_outputs
from autograde.lessons import Lesson

NOT_YET = "not implemented yet"


def unsolved(course: Course) -> list[Problem]:
    """Releases in which a cell fails, or a check does not say "not implemented yet" and return 0.0."""
    return each_lesson(course, _unsolved, at_once=all_cores())


def solved(course: Course) -> list[Problem]:
    """Solutions in which a cell fails, or a check does not return all of its points as a plain float."""
    return each_lesson(course, _solved, at_once=all_cores())


def _unsolved(course: Course, lesson: Lesson) -> Iterator[Problem]:
    notebook = _run(course, lesson, course.release(lesson))
    yield from _complaints(lesson, notebook)
    for cell in _checks(notebook):
        yield from _result(lesson, cell, "0.0")
        if NOT_YET not in _text(cell):
            yield Problem(lesson.slug, describe(cell), f"does not say {NOT_YET!r}, but {_text(cell)[:80]!r}")


def _solved(course: Course, lesson: Lesson) -> Iterator[Problem]:
    notebook = _run(course, lesson, course.solution(lesson))
    yield from _complaints(lesson, notebook)
    for cell in _checks(notebook):
        yield from _result(lesson, cell, repr(float(cell.metadata["nbgrader"]["points"])))


def _run(course: Course, lesson: Lesson, path: Path) -> NotebookNode:
    """Run the notebook in a copy of its folder: what a lesson writes, or looks for further up, is not there later."""
    notebook = without_outputs(read_notebook(course, lesson, path))
    with tempfile.TemporaryDirectory() as scratch:
        folder = shutil.copytree(path.parent, Path(scratch) / lesson.slug)
        return execute(notebook, lesson, folder, course.root, stop_at_errors=False)


def _checks(notebook: NotebookNode) -> list[NotebookNode]:
    return [c for c in notebook.cells if c.cell_type == "code" and c.metadata.get("nbgrader", {}).get("grade")]


def _complaints(lesson: Lesson, notebook: NotebookNode) -> Iterator[Problem]:
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            allowed = "raises-exception" in cell.metadata.get("tags", ())
            if output.output_type == "error" and not allowed:
                yield Problem(lesson.slug, describe(cell), f"raises {output.ename}: {output.evalue}")
            if output.output_type == "stream" and output.name == "stderr":
                yield Problem(lesson.slug, describe(cell), f"writes to stderr: {output.text.strip()[:200]}")


def _result(lesson: Lesson, cell: NotebookNode, due: str) -> Iterator[Problem]:
    results = [output.data.get("text/plain") for output in cell.outputs if output.output_type == "execute_result"]
    if results != [due]:
        yield Problem(lesson.slug, describe(cell), f"returns {', '.join(map(str, results)) or 'nothing'}, not {due}")


def _text(cell: NotebookNode) -> str:
    """All that a cell shows as text."""
    return "\n".join(output.get("text", "") or output.get("data", {}).get("text/plain", "") for output in cell.outputs)
