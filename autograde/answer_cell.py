"""Which cell of a learner's notebook answers an exercise, even where a platform lost the cells' names."""

from __future__ import annotations

import re

from autograde.notebook_text import NotebookError, NotebookText

DEFINES = re.compile(r"^(?:async\s+)?(?:def|class)\s+(\w+)", re.MULTILINE)  # top level; works on broken code as well


def find_answer(notebook: NotebookText, exercise_id: str, template: str) -> int:
    """The number of the code cell that answers an exercise.

    By its id, else by its grade id, else by its place: after the check before, the last cell that defines what the
    template defines, else the cell right before `check("1.2")`. Raises `NotebookError` where there is none, or where
    two cells share the id, as the halves of a cell that was split do.
    """
    name, code = f"exercise-{exercise_id.replace('.', '-')}", notebook.code()
    for found in (
        [number for number in code if name in notebook.ids(number)],
        [number for number in code if notebook.grade_id(number) == name],
    ):
        if len(found) > 1:
            cells = ", ".join(str(number + 1) for number in found)
            raise NotebookError(f"{notebook.path}: cells {cells} are all called {name}; delete or merge all but one")
        if found:
            return found[0]
    checks = [number for number in code if _checks(notebook.source(number))]
    mine = [number for number in checks if exercise_id in _checks(notebook.source(number))]
    if len(mine) == 1:
        before = max((number for number in checks if number < mine[0]), default=-1)
        between = [number for number in code if before < number < mine[0]]
        names = set(DEFINES.findall(template))
        defining = [number for number in between if names and names <= set(DEFINES.findall(notebook.source(number)))]
        if defining or between[-1:] == [mine[0] - 1]:
            return (defining or between)[-1]
    raise NotebookError(
        f"{notebook.path} has no answer cell for exercise {exercise_id}: no cell is called {name}, and {_why(mine)}"
    )


def _checks(source: str) -> list[str]:
    """The exercises that a cell checks."""
    return re.findall(r"^\s*check\(\s*[\"']([\w.]+)[\"']", source, re.MULTILINE)


def _why(mine: list[int]) -> str:
    if len(mine) == 1:
        return "the cell before its check is no code"
    return "its check is in several cells" if mine else "no cell checks it"
