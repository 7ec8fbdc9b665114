"""Puts a student's answers into the instructor's released notebook; everything else of the submission is dropped.

So a renamed, duplicated or deleted cell, edited tests, foreign metadata and outputs cannot disturb grading.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import nbformat
from nbformat import NotebookNode
from nbgrader.utils import is_solution

from autograde.classroom.cells import OWN
from autograde.classroom.intake import StudentCell

DEFINES = re.compile(r"^(?:async\s+)?(?:def|class)\s+(\w+)", re.MULTILINE)  # top level; works on broken code as well
KEY = "autograde"  # in a notebook's metadata: {"notes": [...], "refused": reason}


def graft(release: NotebookNode, cells: Iterable[StudentCell], notes: Iterable[str] = ()) -> NotebookNode:
    """The release with the sources of its solution cells taken from `cells`, and the student's own code cells.

    A solution cell is found by its grade id, else by its cell id, else by the names that it defines. Of several copies
    the last with work in it is the answer; the others stay where they were, as cells of the student's own, because
    splitting a cell leaves two halves with one id. `notes` and what was repaired are kept in the metadata.
    """
    cells = list(cells)
    result, said = skeleton(release), list(notes)
    place = _places_of_released_cells(release, cells)
    by_name: list[str] = []
    for index, cell in enumerate(result.cells):
        if not is_solution(cell):
            continue
        grade_id, names = cell.metadata.nbgrader.grade_id, defined(cell.source)
        copies, how = _find(cell, cells, place)
        if not copies:
            said.append(f"cell {grade_id} is missing")
            continue
        chosen = _choose(cell, copies, cells)
        cell.source = cells[chosen].source
        for copy in copies:
            if cells[copy].source.strip() == release.cells[index].source.strip():
                place[copy] = -1  # an untouched copy: running it would undo the answer
        place[chosen] = index
        if len(copies) > 1:
            which = "the last one" if chosen == copies[-1] else "the last one with an answer in it"
            said.append(f"cell {grade_id} was found {_times(len(copies))}; {which} was graded")
        if how == "name":
            by_name.append(f"{grade_id} (by the name {' and '.join(names)})")
        elif how == "cell id":
            said.append(f"cell {grade_id} had lost its grade id; matched by its cell id")
    if by_name:
        said.append(f"ids were lost; matched by what the cells define: {', '.join(by_name)}")
    _insert_own_cells(result, cells, place)
    result.metadata[KEY] = {"notes": said}
    return result


def refused(release: NotebookNode, reason: str, notes: Iterable[str] = ()) -> NotebookNode:
    """The untouched release, to be recorded with 0 points and the reason, without running it."""
    result = skeleton(release)
    result.metadata[KEY] = {"notes": list(notes), "refused": reason}
    return result


def skeleton(release: NotebookNode) -> NotebookNode:
    """A copy of the release without outputs."""
    result = nbformat.from_dict(release)
    for cell in result.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return result


def defined(source: str) -> list[str]:
    """Names of the functions and classes that a source defines at top level, in order, each once."""
    return list(dict.fromkeys(DEFINES.findall(source)))


def _places_of_released_cells(release: NotebookNode, cells: list[StudentCell]) -> dict[int, int]:
    """For each student's cell that is a released cell other than a solution cell: where the release has it.

    By id or grade id, edited or not, else by its source.
    """
    place: dict[int, int] = {}
    ids: dict[str | None, int] = {}
    sources: dict[tuple[str, str], int] = {}
    for index, cell in enumerate(release.cells):
        if not is_solution(cell):
            ids[cell.get("id")] = ids[cell.metadata.get("nbgrader", {}).get("grade_id")] = index
            sources.setdefault((cell.cell_type, cell.source.strip()), index)
    ids.pop(None, None)
    for number, cell in enumerate(cells):
        found = ids.get(cell.grade_id or None, ids.get(cell.id or None, sources.get((cell.kind, cell.source.strip()))))
        if found is not None:
            place[number] = found
    return place


def _find(cell: NotebookNode, cells: list[StudentCell], place: dict[int, int]) -> tuple[list[int], str]:
    """Positions of a solution cell's copies among the student's cells, and how they were found."""
    free = [number for number in range(len(cells)) if number not in place]
    grade_id, names = cell.metadata.nbgrader.grade_id, defined(cell.source)
    if copies := [n for n in free if cells[n].grade_id == grade_id]:
        return copies, "grade id"
    if copies := [n for n in free if cells[n].id and cells[n].id == cell.get("id")]:
        return copies, "cell id"
    if names and (copies := [n for n in free if cells[n].kind == "code" and _has(cells[n].source, names)]):
        return copies, "name"
    return [], ""


def _choose(cell: NotebookNode, copies: list[int], cells: list[StudentCell]) -> int:
    """The last copy with work in it that defines what the released cell defines; the last copy if there is none."""
    touched = [n for n in copies if cells[n].source.strip() != cell.source.strip()]
    named = [n for n in touched if _has(cells[n].source, defined(cell.source))]
    return (named or touched or copies)[-1]


def _has(source: str, names: list[str]) -> bool:
    return set(names) <= set(defined(source))


def _times(count: int) -> str:
    return "twice" if count == 2 else f"{count} times"


def _insert_own_cells(result: NotebookNode, cells: list[StudentCell], place: dict[int, int]) -> None:
    """Put the student's own code cells after the released cells that they followed."""
    own: dict[int, list[NotebookNode]] = {}
    after, count = -1, 0
    for number, cell in enumerate(cells):
        if place.get(number, -1) >= 0:
            after = place[number]
        elif number not in place and cell.kind == "code" and cell.source.strip():
            count += 1
            own.setdefault(after, []).append(nbformat.v4.new_code_cell(cell.source, id=f"{OWN}{count}"))
    kept = own.get(-1, [])
    for index, cell in enumerate(result.cells):
        kept += [cell, *own.get(index, [])]
    result.cells = kept
