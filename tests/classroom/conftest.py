"""A tiny course of one lesson with two exercises, and the means to hand in work for it."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode

from autograde.classroom.course import Course, prepare_process

LESSON = "07-tiny"

# Stands in for the course's checks: full marks for double(3) == 6, half for another number. It lies in the course's
# root, so it is also what shows that a kernel finds the course.
CHECKS = """
import inspect

def check(exercise):
    work = inspect.currentframe().f_back.f_globals.get({"7.1": "double", "7.2": "Counter"}[exercise])
    try:
        right = work(3) == 6 if exercise == "7.1" else len(work("abc")) == 3
    except Exception as error:
        print(f"{exercise}: {type(error).__name__}")
        return 0.0
    print(f"{exercise}: {'right' if right else 'wrong'}")
    return {"7.1": 4.0, "7.2": 2.0}[exercise] * (1.0 if right else 0.5 if exercise == "7.1" else 0.0)
"""

SOLUTIONS = {
    "exercise-7-1": "def double(x):\n    ### BEGIN SOLUTION\n    return 2 * x\n    ### END SOLUTION",
    "exercise-7-2": (
        "class Counter:\n    def __init__(self, items):\n        self.items = items\n\n"
        "    def __len__(self):\n        ### BEGIN SOLUTION\n        return len(self.items)\n        ### END SOLUTION"
    ),
}
RIGHT = {
    "exercise-7-1": "def double(x):\n    return x + x",
    "exercise-7-2": (
        "class Counter:\n    def __init__(self, items):\n        self.items = items\n\n"
        "    def __len__(self):\n        return len(list(self.items))"
    ),
}


def make_source() -> NotebookNode:
    """The instructor's notebook."""
    v4 = nbformat.v4
    cells = [v4.new_markdown_cell("# Tiny", id="title"), v4.new_code_cell("from tiny_checks import check", id="setup")]
    for number, points in ((1, 4), (2, 2)):
        solution, test = f"exercise-7-{number}", f"check-7-{number}"
        tag = {"schema_version": 3, "grade_id": solution, "grade": False, "locked": False, "solution": True}
        cells.append(v4.new_code_cell(SOLUTIONS[solution], id=solution, metadata={"nbgrader": tag | {"task": False}}))
        tag = {"schema_version": 3, "grade_id": test, "grade": True, "locked": True, "solution": False, "task": False}
        source = f'check("7.{number}")'
        cells.append(v4.new_code_cell(source, id=test, metadata={"nbgrader": tag | {"points": points}}))
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return v4.new_notebook(cells=cells, metadata={"kernelspec": kernel, "language_info": {"name": "python"}})


@pytest.fixture(scope="session")
def tiny_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny course's folder, with characters in its path that mean something to a pattern."""
    from nbgrader.apps import NbGraderAPI

    root = tmp_path_factory.mktemp("course") / "c++ (1)"
    folder = root / "solutions" / LESSON
    folder.mkdir(parents=True)
    nbformat.write(make_source(), folder / f"{LESSON}.ipynb")
    (root / "tiny_checks.py").write_text(CHECKS)
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
