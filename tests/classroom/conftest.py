"""A tiny course of one lesson with two of the course's exercises, and the means to hand in work for it."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode

from autograde.classroom import schedule
from autograde.classroom.course import Course, prepare_process
from autograde.classroom.job import Job
from autograde.sandbox.spawner import SpawnError

LESSON = "07-tiny"

SOLUTIONS = {
    "exercise-7-1": (
        "def softmax(scores):\n    ### BEGIN SOLUTION\n    e = np.exp(scores - scores.max(axis=-1, keepdims=True))\n"
        "    return e / e.sum(axis=-1, keepdims=True)\n    ### END SOLUTION"
    ),
    "exercise-7-2": (
        "def count_positions(prompt, new):\n    ### BEGIN SOLUTION\n"
        "    return sum(prompt + i for i in range(new)), prompt + new - 1\n    ### END SOLUTION"
    ),
}
RIGHT = {
    "exercise-7-1": (
        "def softmax(scores):\n    big = np.max(scores, axis=1)[:, None]\n    e = np.exp(scores - big)\n"
        "    return e / np.sum(e, axis=1)[:, None]"
    ),
    "exercise-7-2": (
        "def count_positions(prompt, new):\n    return new * prompt + new * (new - 1) // 2, prompt + new - 1"
    ),
}
CHECKS = {"exercise-7-1": ("0.1", 4), "exercise-7-2": ("1.2", 2)}


def make_source() -> NotebookNode:
    """The instructor's notebook."""
    v4 = nbformat.v4
    cells = [
        v4.new_markdown_cell("# Tiny", id="title"),
        v4.new_code_cell("import numpy as np\nfrom autograde import check", id="setup"),
    ]
    for solution, (exercise, points) in CHECKS.items():
        test = solution.replace("exercise", "check")
        tag = {"schema_version": 3, "grade_id": solution, "grade": False, "locked": False, "solution": True}
        cells.append(v4.new_code_cell(SOLUTIONS[solution], id=solution, metadata={"nbgrader": tag | {"task": False}}))
        tag = {"schema_version": 3, "grade_id": test, "grade": True, "locked": True, "solution": False, "task": False}
        source = f'check("{exercise}")'
        cells.append(v4.new_code_cell(source, id=test, metadata={"nbgrader": tag | {"points": points}}))
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return v4.new_notebook(cells=cells, metadata={"kernelspec": kernel, "language_info": {"name": "python"}})


@pytest.fixture(scope="session")
def one_alembic() -> Iterator[None]:
    """nbgrader starts a program for each new gradebook, to ask it for the same number: seconds, where once will do."""
    from nbgrader import api

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(api, "get_alembic_version", cache(api.get_alembic_version))
        yield


@pytest.fixture(scope="session")
def tiny_root(tmp_path_factory: pytest.TempPathFactory, one_alembic: None) -> Path:
    """The tiny course's folder, with characters in its path that mean something to a pattern."""
    from nbgrader.apps import NbGraderAPI

    root = tmp_path_factory.mktemp("course") / "c++ (1)"
    folder = root / "solutions" / LESSON
    folder.mkdir(parents=True)
    nbformat.write(make_source(), folder / f"{LESSON}.ipynb")
    prepare_process()
    staging = tmp_path_factory.mktemp("staging")
    shutil.copytree(root / "solutions", staging / "solutions")
    settings = Course(staging, staging / "classroom").settings()
    (staging / "classroom").mkdir()
    settings.CourseDirectory.root = str(staging)
    assert NbGraderAPI(config=settings).generate_assignment(LESSON)["success"]
    shutil.copytree(staging / "lessons", root / "lessons")
    return root


@pytest.fixture
def course(tiny_root: Path, tmp_path: Path) -> Course:
    """The tiny course with an empty class of its own."""
    classroom = tmp_path / "class {b} + (2)"
    (classroom / "submitted").mkdir(parents=True)
    return Course(tiny_root, classroom)


@pytest.fixture
def release(course: Course) -> NotebookNode:
    """What students of the tiny course were given."""
    return nbformat.read(course.release(LESSON), as_version=4)


@pytest.fixture
def answered(release: NotebookNode) -> NotebookNode:
    """The release with both exercises answered rightly."""
    answered = copy.deepcopy(release)
    for cell in answered.cells:
        cell.source = RIGHT.get(cell.id, cell.source)
    return answered


@pytest.fixture
def hand_in(course: Course) -> Callable[..., Path]:
    """`hand_in("ann", notebook)` writes a submission; bytes are written as they are. Returns the file's path."""

    def write(student: str, work: NotebookNode | dict | bytes, name: str = f"{LESSON}.ipynb") -> Path:
        folder = course.submitted / student / LESSON
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(work if isinstance(work, bytes) else json.dumps(work).encode())
        return folder / name

    return write


class NoWorker:
    """Stands in for a worker's answers: every exercise has 1.0, and what is asked for is counted."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.fails_on = ""

    def __call__(self, job: Job) -> dict:
        self.asked.append(job.student)
        if job.student == self.fails_on:
            raise SpawnError("no room")
        points = 0.0 if job.refused else 1.0
        exercises = {
            cell.exercise: {"grade_id": cell.grade_id, "points": points, "max": cell.points, "status": "ok", "text": "",
                            "diagnosis": [], "whole": True, "remark": "", "stages": []}
            for cell in job.cells if cell.grade_id
        }  # fmt: skip
        return {"schema": 1, "student": job.student, "lesson": job.lesson, "key": job.key, "sandbox": job.tier,
                "seconds": 0.0, "notes": [], "refused": job.refused, "cells": {}, "exercises": exercises}  # fmt: skip


@pytest.fixture
def no_worker(monkeypatch: pytest.MonkeyPatch) -> NoWorker:
    stand_in = NoWorker()
    monkeypatch.setattr(schedule, "grade_job", stand_in)
    return stand_in
