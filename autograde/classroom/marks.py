"""Makes every graded cell end in exactly one plain number in [0, max], because nbgrader gives full marks otherwise.

For nbgrader an empty output, a negative number, NaN, False and anything that is not a number are all full marks, a
number above the maximum aborts the submission, and any text on stderr is 0.
"""

from __future__ import annotations

import html
import re

import nbformat
from nbformat import NotebookNode
from nbgrader.preprocessors import NbGraderPreprocessor
from nbgrader.utils import is_grade, is_solution

from autograde.classroom.graft import KEY, NOT_RUN, STOPPED, cell_name, is_students
from autograde.classroom.intake import one_line

PLAIN_NUMBER = re.compile(r"[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")
ROUNDING = 1e-9  # how far a sum of parts may exceed the maximum
REMARK = re.compile(r"looks like: .+(?:\n {8,}.+)*|not implemented yet|stopped after .+")
CELL_FILE = re.compile(r"\(\d+\.py, ")  # "(226014146.py, line 1)": what a kernel calls a cell
NOTES_CELL = "grading-notes"


class Marks(NbGraderPreprocessor):
    """Runs right before SaveAutoGrades, and shows the notes of the whole run on top of the notebook."""

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        """Settle every graded cell, then write the notes into a first cell for the feedback page."""
        ours = nb.metadata.setdefault(KEY, NotebookNode())
        notes = ours.setdefault("notes", [])
        refused = ours.get("refused")
        if refused:
            notes.insert(0, f"not graded: {refused}")
        for cell in nb.cells:
            if is_auto_graded(cell):
                reason = settle(cell, refused) or remark(cell)
                if reason and not refused:
                    notes.append(f"{exercise_of(cell)}: {reason}")
            elif is_students(cell) and (error := error_of(cell)) and not _ended_by_grader(cell):
                notes.append(f"{cell_name(cell)}: {error}")
        if notes:
            lines = [f"- {html.escape(note)}" for note in notes]
            text = "\n".join(["**Notes from grading**", "", *lines])
            nb.cells.insert(0, nbformat.v4.new_markdown_cell(text, id=NOTES_CELL))
        return nb, resources


def is_auto_graded(cell: NotebookNode) -> bool:
    """Whether the cell's output decides points. A cell that is graded by hand is a solution cell as well."""
    return cell.cell_type == "code" and is_grade(cell) and not is_solution(cell)


def exercise_of(cell: NotebookNode) -> str:
    """The exercise that a graded cell checks: "1.3" for `check("1.3")`, else its grade id."""
    return exercise_in(cell.source) or cell.metadata.nbgrader.grade_id


def exercise_in(source: str) -> str:
    """The exercise named in `check("1.3")`, or nothing."""
    found = re.search(r"\bcheck\(\s*[\"']([\w.-]+)[\"']", source)
    return found.group(1) if found else ""


def settle(cell: NotebookNode, refused: str = "") -> str:
    """Rewrite the outputs of a graded cell and return why it has 0 points, or nothing when it gave a mark itself.

    What it printed and drew stays; stderr becomes stdout, which costs nothing; a card becomes text; the last output is
    the mark.
    """
    points, reason = (0.0, refused) if refused else mark_of(cell)
    kept = []
    for output in cell.outputs:
        if output.output_type == "execute_result":
            continue
        if output.output_type == "stream":
            output.name = "stdout"
        if output.output_type == "display_data" and "text/plain" in output.data:
            output.data.pop("text/html", None)  # the pages' sanitiser takes its styles, and text keeps its lines
        kept.append(output)
    if reason:
        kept.append(nbformat.v4.new_output("stream", name="stdout", text=f"0 points: {reason}\n"))
    kept.append(nbformat.v4.new_output("execute_result", {"text/plain": repr(points)}))
    cell.outputs = kept
    return reason


def error_of(cell: NotebookNode) -> str:
    """The first error among a cell's outputs, or nothing."""
    for output in cell.get("outputs", []):
        if output.output_type == "error":
            value = CELL_FILE.sub("(", output.evalue)
            return one_line(f"{output.ename}: {value}".rstrip(": "))
    return ""


def remark(cell: NotebookNode) -> str:
    """What the check's own text says, in short: the mistake it looks like, or that nothing is written yet."""
    text = "\n".join(str(o.get("text") or o.get("data", {}).get("text/plain", "")) for o in cell.outputs)
    found = REMARK.search(text)
    return one_line(found.group()) if found else ""


def mark_of(cell: NotebookNode) -> tuple[float, str]:
    """The points that a graded cell's outputs say, or 0.0 and the reason why they say nothing usable."""
    maximum = float(cell.metadata.nbgrader.points)
    if error := error_of(cell):
        return 0.0, error
    results = [output for output in cell.outputs if output.output_type == "execute_result"]
    if len(results) != 1:
        return 0.0, "the check gave no mark" if not results else "the check gave more than one mark"
    text = results[0].data.get("text/plain", "")
    text = "".join(text).strip() if isinstance(text, (str, list)) else ""
    if not PLAIN_NUMBER.fullmatch(text):
        return 0.0, one_line(f"the check gave {text or 'nothing'}, which is not a plain number of points")
    if float(text) > maximum + ROUNDING:
        return 0.0, one_line(f"the check gave {text} points of {maximum:g}")
    return min(float(text), maximum), ""


def _ended_by_grader(cell: NotebookNode) -> bool:
    """Whether the notes say already why the cell failed."""
    return any(output.get("ename") in (STOPPED, NOT_RUN) for output in cell.outputs)
