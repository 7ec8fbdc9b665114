"""What nbgrader makes of a filled-in notebook, by its own rule, and what a browser would see of it."""

from __future__ import annotations

from typing import Any

import nbformat
import pytest
from nbformat import NotebookNode
from nbgrader.utils import determine_grade

from autograde.classroom.fill import MOST_LINES, NOTES_CELL, clean, fill
from autograde.classroom.graft import graft, refused
from autograde.classroom.intake import StudentCell


def graded(points: float, **more: Any) -> dict[str, Any]:
    entry = {"grade_id": "check-7-1", "points": points, "max": 4.0, "status": "ok", "text": "0.1 softmax: passed"}
    return entry | {"diagnosis": [], "whole": True, "remark": "", "stages": []} | more


def result(exercises: dict[str, dict], cells: dict[str, dict] | None = None, **more: Any) -> dict[str, Any]:
    return {"notes": [], "refused": "", "cells": cells or {}, "exercises": exercises} | more


def check_cell(notebook: NotebookNode, number: int) -> NotebookNode:
    return next(cell for cell in notebook.cells if cell.id == f"check-7-{number}")


@pytest.mark.parametrize(
    ("points", "recorded"),
    [(4.0, 4.0), (2.37, 2.37), (0.0, 0.0), (-1.0, 0.0), (99.0, 4.0), (float("nan"), 0.0), (float("inf"), 0.0)],
)
def test_nbgrader_records_a_plain_number_in_range(release: NotebookNode, points: float, recorded: float) -> None:
    fill(release, result({"0.1": graded(points)}))
    assert determine_grade(check_cell(release, 1)) == (recorded, 4.0)


def test_a_cell_without_a_result_is_zero(release: NotebookNode) -> None:
    """For nbgrader, a graded cell without outputs has full marks."""
    assert determine_grade(check_cell(release, 2)) == (2.0, 2.0)
    fill(release, result({"0.1": graded(4.0)}))
    assert determine_grade(check_cell(release, 2)) == (0.0, 2.0)


def test_refused_work_has_no_marks_and_says_why(release: NotebookNode) -> None:
    notebook = refused(release, "the file is <b>empty</b>")
    zero = graded(0.0, status="malformed", text="the file is empty")
    notes = fill(notebook, result({"0.1": zero}, refused="the file is <b>empty</b>"))
    assert notes == ["not graded: the file is <b>empty</b>"]
    assert notebook.cells[0].id == NOTES_CELL and "<b>" not in notebook.cells[0].source
    assert determine_grade(check_cell(notebook, 1)) == (0.0, 4.0)


def test_only_text_is_kept_of_what_cells_printed(release: NotebookNode) -> None:
    own = StudentCell("code", "print(1)")
    notebook = graft(release, [own])
    cell = next(cell for cell in notebook.cells if cell.id == "own-1")
    cell.outputs = [nbformat.v4.new_output("display_data", {"text/html": "<script>"})]
    cells = {
        "own-1": {"status": "error", "text": "a\x1b[31mb\x00\u202ec\n", "error": "NameError: name"},
        "setup": {"status": "error", "text": "", "error": "ImportError: kvlib.toy"},
    }
    fill(notebook, result({}, cells))
    assert [(o.output_type, o.get("name"), o.get("text")) for o in cell.outputs] == [
        ("stream", "stdout", "ab??c\nNameError: name\n")
    ]
    setup = next(cell for cell in notebook.cells if cell.id == "setup")
    assert setup.outputs[0].text == "(did not run to its end while grading)\n"


def test_notes_tell_the_diagnosis_else_the_fact_else_the_text(release: NotebookNode) -> None:
    stages = [{"name": "a", "weight": 1, "held": False, "fact": "the rows differ"}]
    exercises = {
        "0.1": graded(1.0, status="failed", remark="looks like: one sum for all rows", stages=stages),
        "1.2": graded(0.0, status="failed", stages=stages, grade_id="check-7-2"),
        "9.9": graded(0.0, status="missing", text="`f` is not defined", grade_id="other"),
    }
    assert fill(release, result(exercises)) == [
        "0.1: looks like: one sum for all rows",
        "1.2: the rows differ",
        "9.9: `f` is not defined",
    ]


def test_long_output_is_cut() -> None:
    text = clean("x\n" * (MOST_LINES + 5))
    assert text.count("\n") == MOST_LINES + 1 and text.endswith("(5 more lines)\n")
