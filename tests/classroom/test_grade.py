"""Whole runs with real kernels. Each submission that is run costs about two seconds, so they share one class."""

from __future__ import annotations

import copy
import csv
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode

from autograde.classroom import record, report
from autograde.classroom.course import Course, CourseError
from autograde.classroom.grade import grade_class
from autograde.classroom.record import Row

LESSON = "07-tiny"


def with_own_cell(notebook: NotebookNode, source: str, before: str) -> NotebookNode:
    """A copy with a code cell of the student's own in front of another cell."""
    result = copy.deepcopy(notebook)
    index = next(i for i, cell in enumerate(result.cells) if cell.id == before)
    result.cells.insert(index, nbformat.v4.new_code_cell(source))
    return result


def with_answer(notebook: NotebookNode, grade_id: str, source: str) -> NotebookNode:
    """A copy with another answer in one cell."""
    result = copy.deepcopy(notebook)
    next(cell for cell in result.cells if cell.id == grade_id).source = source
    return result


@pytest.fixture(scope="module")
def graded(tiny_root: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Course, dict[str, Row]]:
    """A class of right, wrong, broken and hostile work, graded once."""
    course = Course(tiny_root, tmp_path_factory.mktemp("class") / "class {b} + (2)")
    release = nbformat.read(course.release(LESSON), as_version=4)
    right = nbformat.read(course.source(LESSON), as_version=4)
    duplicated = copy.deepcopy(right)
    duplicated.cells.append(copy.deepcopy(next(cell for cell in right.cells if cell.id == "check-7-1")))
    lost = copy.deepcopy(right)
    for number, cell in enumerate(lost.cells):
        cell.metadata, cell.id = NotebookNode(), f"x{number}"
    forged = with_answer(release, "check-7-1", "4.0")
    warns = "import warnings, sys\ndef double(x):\n    warnings.warn('slow')\n    print('?', file=sys.stderr)\n    return 2 * x"
    work: dict[str, NotebookNode | bytes] = {
        "right": right,
        "Ann Lee": right,
        "untouched": release,
        "half": with_answer(right, "exercise-7-1", "def double(x):\n    return x"),
        "syntax": with_answer(right, "exercise-7-2", "class Counter(:"),
        "duplicated": duplicated,
        "lost": lost,
        "forged": forged,
        "warns": with_answer(right, "exercise-7-1", warns),
        "negative": with_own_cell(right, "check = lambda name: -1.0", "check-7-1"),
        "silent": with_own_cell(right, "check = lambda name: None", "check-7-1"),
        "dies": with_own_cell(right, "import os; os._exit(0)", "exercise-7-2"),
        "loops": with_own_cell(right, "while True:\n    print('x' * 1000)", "exercise-7-2"),
        "stuck": with_own_cell(right, "while True:\n    try:\n        while True: pass\n    except: pass", "check-7-2"),
        "asks": with_own_cell(right, "input('name? ')", "exercise-7-2"),
        "login": b"<!DOCTYPE html>",
        "empty": b"",
    }
    for student, notebook in work.items():
        folder = course.submitted / student / LESSON
        folder.mkdir(parents=True)
        data = notebook if isinstance(notebook, bytes) else nbformat.writes(notebook).encode()
        (folder / f"{LESSON}.ipynb").write_bytes(data)
    (course.submitted / "absent").mkdir()
    (course.submitted / "a*b" / LESSON).mkdir(parents=True)
    (course.submitted / "link").symlink_to(course.submitted / "right")
    (course.submitted / "notes.txt").write_text("not a student")
    with pytest.MonkeyPatch.context() as patch:
        settings = Course.grading_settings

        def impatient(self: Course):
            c = settings(self)
            c.Execute.timeout = 3
            return c

        patch.setattr(Course, "grading_settings", impatient)
        rows = grade_class(course, say=lambda line: None)
    print(report.table(rows))
    return course, {row.student: row for row in rows}

def test_x(graded):
    pass
