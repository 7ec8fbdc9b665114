"""Writes a result into the notebook that nbgrader records and shows.

Every graded cell ends in exactly one plain number in [0, max]: for nbgrader an empty output, a negative number, NaN and
anything that is not a number are all full marks, a number above the maximum aborts the submission, and any text on
stderr is 0. Of what students' cells printed, only text is kept: nothing that a browser would run.
"""

from __future__ import annotations

import html
import math
import re
from typing import Any

import nbformat
from nbformat import NotebookNode

from autograde.classroom.cells import exercise_of, is_auto_graded, is_students
from autograde.classroom.intake import one_line
from autograde.report_text import printable

NOTES_CELL = "grading-notes"
MOST_LINES = 200  # of what one cell printed
LONGEST_NOTE = 400  # characters: a diagnosis is a sentence or two
MARKDOWN, ESCAPED = re.compile(r"([\\`*_{}\[\]()#+!|~$^=:-])"), r"\\\1"  # what means something in Markdown
ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


def fill(notebook: NotebookNode, result: dict[str, Any]) -> list[str]:
    """Fill in all outputs and put the notes on top; return the notes."""
    notes = notes_of(notebook, result)
    # Pages are coloured by a lexer whose time grows with the length of a cell; IPython's grows with its square.
    notebook.metadata.setdefault("language_info", NotebookNode(name="python"))["pygments_lexer"] = "python3"
    by_grade_id = {graded["grade_id"]: graded for graded in result["exercises"].values()}
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        cell.execution_count = None
        if is_auto_graded(cell):
            cell.outputs = _mark(cell, by_grade_id.get(cell.metadata.nbgrader.grade_id))
        else:
            cell.outputs = _printed(cell, result["cells"].get(str(cell.get("id", ""))))
    if notes:
        lines = [f"- {html.escape(MARKDOWN.sub(ESCAPED, note))}" for note in notes]
        text = "\n".join(["**Notes from grading**", "", *lines])
        notebook.cells.insert(0, nbformat.v4.new_markdown_cell(text, id=NOTES_CELL))
    return notes


def notes_of(notebook: NotebookNode, result: dict[str, Any]) -> list[str]:
    """What the student and the instructor read first: what was repaired, what failed, what it looks like."""
    notes = list(notebook.metadata.get("autograde", {}).get("notes", []))
    if result["refused"]:
        return [f"not graded: {result['refused']}", *notes]
    notes += result["notes"]
    for exercise, graded in result["exercises"].items():
        if graded["status"] != "ok":
            said = graded["remark"] or _first_fact(graded) or graded["text"]
            notes.append(f"{exercise}: {said.removeprefix(f'{exercise}: ')}")
    return [one_line(note, LONGEST_NOTE) for note in notes]


def _first_fact(graded: dict[str, Any]) -> str:
    return next((stage["fact"] for stage in graded["stages"] if stage["fact"]), "")


def _mark(cell: NotebookNode, graded: dict[str, Any] | None) -> list[NotebookNode]:
    maximum = float(cell.metadata.nbgrader.points)
    points, text = 0.0, f"{exercise_of(cell)}: not graded"
    if graded is not None:
        text = graded["text"]
        if math.isfinite(graded["points"]):
            points = min(max(float(graded["points"]), 0.0), maximum)
    number = nbformat.v4.new_output("execute_result", {"text/plain": repr(points)})
    return [_stream(text), number]


def _printed(cell: NotebookNode, ran: dict[str, str] | None) -> list[NotebookNode]:
    if ran is None:
        return []
    text = clean(ran["text"])
    if ran["error"]:
        # A cell of the lesson's own fails where another one is left out: no error of the student's, so none is shown.
        text += clean(ran["error"]) if is_students(cell) else "(did not run to its end while grading)\n"
    return [_stream(text)] if text.strip() else []


def clean(text: str) -> str:
    """Lines of printable characters, not too many of them."""
    lines = [printable(line.expandtabs(4)).rstrip() for line in ANSI.sub("", text).splitlines()]
    if len(lines) > MOST_LINES:
        lines = [*lines[:MOST_LINES], f"({len(lines) - MOST_LINES} more lines)"]
    return "".join(f"{line}\n" for line in lines)


def _stream(text: str) -> NotebookNode:
    return nbformat.v4.new_output("stream", name="stdout", text=text if text.endswith("\n") else f"{text}\n")
