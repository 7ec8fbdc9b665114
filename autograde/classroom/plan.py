"""From a grafted notebook to the job that grades it."""

from __future__ import annotations

import ast
import hashlib
import json
import re

from nbformat import NotebookNode

from autograde.classroom.cells import cell_name, exercise_in, is_auto_graded, is_students
from autograde.classroom.graft import KEY
from autograde.classroom.job import Job, JobCell
from autograde.sandbox.limits import Limits

SET_UP = "set-up"  # the id of the cell that installs the course
SLOW_IMPORTS = {"torch": "torch", "matplotlib": "matplotlib.pyplot"}


def make_job(
    notebook: NotebookNode, student: str, lesson: str, answers: tuple[str, ...], secret: str, tier: str, limits: Limits
) -> Job:
    """The job for a grafted notebook. `answers` names the kvlib modules that answer the lesson.

    Cells after the last check are left out: no mark depends on them.
    """
    refused = str(notebook.metadata.get(KEY, {}).get("refused") or "")
    cells = [_job_cell(cell, answers) for cell in notebook.cells if cell.cell_type == "code"]
    last = max((number for number, cell in enumerate(cells) if cell.grade_id), default=-1)
    cells = cells[: last + 1]
    seeds = {cell.exercise: seed(secret, student, cell.exercise) for cell in cells if cell.exercise}
    return Job(student, lesson, tuple(cells), seeds, tier, limits, refused, _preload(notebook))


def seed(secret: str, student: str, exercise: str) -> str:
    """The seed of a student's inputs in an exercise. A regrade asks the same; others are asked something else."""
    return hashlib.sha256(json.dumps([secret, student, exercise]).encode()).hexdigest()


def _preload(notebook: NotebookNode) -> tuple[str, ...]:
    """Slow modules that the lesson itself speaks of: what only a student uses is not imported for everybody."""
    text = " ".join(cell.source for cell in notebook.cells if not is_students(cell))
    return tuple(module for word, module in SLOW_IMPORTS.items() if re.search(rf"\b{word}\b", text))


def _job_cell(cell: NotebookNode, answers: tuple[str, ...]) -> JobCell:
    own = str(cell.get("id", ""))
    if is_auto_graded(cell):
        tag = cell.metadata.nbgrader
        return JobCell(own, cell_name(cell), "", exercise_in(cell.source), tag.grade_id, float(tag.points))
    left_out = "" if is_students(cell) else _left_out(own, cell.source, answers)
    return JobCell(own, cell_name(cell), cell.source, students=is_students(cell), left_out=left_out)


def _left_out(cell_id: str, source: str, answers: tuple[str, ...]) -> str:
    """Why a cell of the lesson's own is not run, or nothing."""
    if cell_id == SET_UP:
        return "not run while grading: the set-up is for the learner's machine"
    return _needs_an_answer(source, answers)


def _needs_an_answer(source: str, answers: tuple[str, ...]) -> str:
    """Why a cell of the lesson's own cannot run while the lesson is graded, or nothing."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except SyntaxError:  # a magic
        return ""
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    found = sorted(names & set(answers))
    return f"not run while grading: {found[0]} answers an exercise of this lesson" if found else ""
