"""What has to be known to grade one submission, anywhere: no path, no secret, nothing of any other student."""

from __future__ import annotations

import ast
import hashlib
import json
import re
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib import metadata
from pathlib import Path

from nbformat import NotebookNode

from autograde.classroom.cells import cell_name, exercise_in, is_auto_graded, is_students
from autograde.classroom.graft import KEY
from autograde.sandbox.limits import Limits

SLOW_IMPORTS = {"torch": "torch", "matplotlib": "matplotlib.pyplot"}
PACKAGE = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class JobCell:
    """A code cell: what the worker executes, or an exercise that the judge checks in its place."""

    id: str
    name: str  # what notes call it
    source: str = ""
    exercise: str = ""
    grade_id: str = ""
    points: float = 0.0
    students: bool = False
    left_out: str = ""  # why it is not run


@dataclass(frozen=True)
class Job:
    """One submission: its code cells up to the last check, and how they are to be run."""

    student: str
    lesson: str
    cells: tuple[JobCell, ...]
    seeds: dict[str, str]  # by exercise: they follow from the course's secret, the student and the exercise
    tier: str
    limits: Limits = field(default_factory=Limits)
    refused: str = ""  # why nothing of it is run
    preload: tuple[str, ...] = ()  # what the lesson imports that takes long to

    @property
    def key(self) -> str:
        """Stands for everything that the result depends on: the same key, the same result."""
        content = asdict(self) | {"grader": grader_version()}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


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


@cache
def grader_version() -> str:
    """A digest of the checks, the reference and what runs them, with the versions of what they stand on."""
    digest = hashlib.sha256()
    for name in ("numpy", "ipython", "nbgrader"):
        digest.update(f"{name} {metadata.version(name)}\n".encode())
    for package in (PACKAGE, PACKAGE.parent / "kvlib"):
        for path in sorted(package.rglob("*.py")):
            digest.update(path.relative_to(package.parent).as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _job_cell(cell: NotebookNode, answers: tuple[str, ...]) -> JobCell:
    own = str(cell.get("id", ""))
    if is_auto_graded(cell):
        tag = cell.metadata.nbgrader
        return JobCell(own, cell_name(cell), "", exercise_in(cell.source), tag.grade_id, float(tag.points))
    left_out = "" if is_students(cell) else _needs_an_answer(cell.source, answers)
    return JobCell(own, cell_name(cell), cell.source, students=is_students(cell), left_out=left_out)


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
