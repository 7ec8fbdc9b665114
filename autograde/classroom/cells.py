"""What kind of cell a cell of a grafted notebook is."""

from __future__ import annotations

import re

from nbformat import NotebookNode
from nbgrader.utils import is_grade, is_solution

OWN = "own-"  # starts the ids of the student's own cells


def is_auto_graded(cell: NotebookNode) -> bool:
    """Whether the cell's output decides points. A cell that is graded by hand is a solution cell as well."""
    return cell.cell_type == "code" and is_grade(cell) and not is_solution(cell)


def is_students(cell: NotebookNode) -> bool:
    """Whether the cell holds the student's code."""
    return is_solution(cell) or str(cell.get("id", "")).startswith(OWN)


def exercise_of(cell: NotebookNode) -> str:
    """The exercise that a graded cell checks: "1.3" for `check("1.3")`, else its grade id."""
    return exercise_in(cell.source) or cell.metadata.nbgrader.grade_id


def exercise_in(source: str) -> str:
    """The exercise named in `check("1.3")`, or nothing."""
    found = re.search(r"\bcheck\(\s*[\"']([\w.-]+)[\"']", source)
    return found.group(1) if found else ""


def cell_name(cell: NotebookNode) -> str:
    """What notes call a cell: its grade id, "own cell 2" for one of the student's own, else its id."""
    name = cell.metadata.get("nbgrader", {}).get("grade_id") or str(cell.get("id", "without an id"))
    return f"own cell {name.removeprefix(OWN)}" if name.startswith(OWN) else name
