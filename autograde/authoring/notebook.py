"""A lesson's text as a notebook that nbgrader understands: the same bytes from the same text, on any machine."""

from __future__ import annotations

import copy
import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_raw_cell, reads_json

from autograde.authoring.cards import card, hints
from autograde.authoring.course import Course, LessonError
from autograde.authoring.header import header
from autograde.authoring.source import WRITTEN, Part, read_source
from autograde.lessons import Lesson

KERNELSPEC = {"display_name": "Python 3", "language": "python", "name": "python3"}
# No version: a notebook must not change with the Python that built it.
LANGUAGE_INFO = {"file_extension": ".py", "mimetype": "text/x-python", "name": "python", "pygments_lexer": "ipython3"}
NEW_CELL = {"code": new_code_cell, "markdown": new_markdown_cell, "raw": new_raw_cell}
BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"


def compose(course: Course, lesson: Lesson) -> nbformat.NotebookNode:
    """The lesson's notebook, not executed. Raises `LessonError` where the text cannot be expanded."""
    source = read_source(course, lesson)
    below_title = header(course, lesson, source)
    taken = {cell.id for cell in below_title}
    top, *rest = _title_apart(source.parts)
    cells = [_cell(course, lesson, top, taken), *below_title, *(_cell(course, lesson, part, taken) for part in rest)]
    return new_notebook(cells=cells, metadata=notebook_metadata(lesson))


def notebook_metadata(lesson: Lesson) -> dict[str, Any]:
    """All that a lesson's notebook says about itself."""
    return {"kernelspec": KERNELSPEC, "kvcourse": {"lesson": lesson.slug}, "language_info": LANGUAGE_INFO}


def grade_id(kind: str, exercise_id: str) -> str:
    """The name that the gradebook knows a cell by: "check-1-3"."""
    return f"{kind}-{exercise_id.replace('.', '-')}"


def describe(cell: nbformat.NotebookNode) -> str:
    """A cell as messages name it: by its grade id, or by its id and the line that it starts with."""
    name = f"cell {cell.get('id')}"
    return name if "nbgrader" in cell.metadata else f"{name} ({cell.source.strip().split(chr(10))[0][:60]!r})"


def without_outputs(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The same notebook as before it was executed."""
    plain = copy.deepcopy(notebook)
    for cell in plain.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return plain


def to_text(notebook: nbformat.NotebookNode) -> str:
    """The notebook as it is written to disk."""
    return nbformat.writes(notebook, version=4) + "\n"


def read_notebook(course: Course, lesson: Lesson, path: Path) -> nbformat.NotebookNode:
    """A built notebook. Raises `LessonError` when it is missing or is no notebook."""
    if not path.is_file():
        raise LessonError(lesson.slug, "", f"{course.relative(path)} is missing")
    try:
        # Not nbformat.read: it silently repairs ids that are there twice.
        return reads_json(path.read_text(encoding="utf-8"))
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise LessonError(lesson.slug, "", f"{course.relative(path)} is not a notebook: {error}") from error


def _title_apart(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """The parts, the first of them cut before its first section: what comes below the title goes there."""
    top, section, rest = parts[0].text.partition("\n## ")
    if not section or parts[0].cell_type != "markdown":
        return parts
    return (replace(parts[0], text=top.rstrip()), replace(parts[0], text=f"## {rest}"), *parts[1:])


def _cell(course: Course, lesson: Lesson, part: Part, taken: set[str]) -> nbformat.NotebookNode:
    source, metadata = _expand(course, lesson, part), dict(part.metadata)
    wanted = "c-" + hashlib.sha256(f"{part.cell_type}\n{source}".encode()).hexdigest()[:10]
    if part.kind in ("exercise", "check"):
        wanted = grade_id(part.kind, part.exercise)
        graded = part.kind == "check"
        metadata["nbgrader"] = {"schema_version": 3, "grade_id": wanted, "grade": graded, "locked": graded}
        metadata["nbgrader"] |= {"solution": not graded, "task": False}
        if graded:
            metadata["nbgrader"]["points"] = course.exercise(lesson, part.where, part.exercise).points
    if part.kind == WRITTEN:
        wanted = grade_id(part.kind, part.exercise)
        if wanted in taken:
            raise LessonError(lesson.slug, part.where, f"two written questions would both be {wanted}")
        metadata["nbgrader"] = {"schema_version": 3, "grade_id": wanted, "grade": True, "locked": False}
        metadata["nbgrader"] |= {"solution": True, "task": False, "points": part.points}
    return NEW_CELL[part.cell_type](source, id=_unused(wanted, taken), metadata=metadata)


def _unused(wanted: str, taken: set[str]) -> str:
    cell_id, repeat = wanted, 1
    while cell_id in taken:
        repeat += 1
        cell_id = f"{wanted}-{repeat}"
    taken.add(cell_id)
    return cell_id


def _expand(course: Course, lesson: Lesson, part: Part) -> str:
    own = part.text.strip()
    if part.kind == WRITTEN:
        return own
    if part.kind:
        exercise = course.exercise(lesson, part.where, part.exercise)
    if part.kind in ("card", "hints"):
        written = card(exercise) if part.kind == "card" else hints(exercise)
        return f"{written}\n\n{own}" if own else written
    if part.kind == "check":
        body = f'check("{exercise.id}")'
        if own not in ("", body):
            raise LessonError(lesson.slug, part.where, f"a check cell is empty or exactly {body}, not {own!r}")
        return body
    _refuse_loose_markers(lesson, part)
    return part.text


def _refuse_loose_markers(lesson: Lesson, part: Part) -> None:
    """nbgrader cuts between any two lines that hold the words; only whole, paired markers are let through here."""
    expected = BEGIN
    marks = [line.strip() for line in part.text.splitlines() if "BEGIN SOLUTION" in line or "END SOLUTION" in line]
    for mark in marks:
        if mark != expected:
            raise LessonError(lesson.slug, part.where, f"found {mark!r} where {expected!r} was due")
        expected = END if expected == BEGIN else BEGIN
    if expected == END:
        raise LessonError(lesson.slug, part.where, f"{BEGIN!r} without {END!r}")
    if bool(marks) != (part.kind == "exercise"):
        raise LessonError(lesson.slug, part.where, f"{BEGIN!r} belongs in exercise cells, and each of them needs it")
