"""The gates: each looks at the lessons as they are on disk and returns what is wrong with them.

A gate is a function `gate(course) -> list[Problem]`; an empty list means that it holds.
"""

from __future__ import annotations

from collections.abc import Callable

from autograde.authoring.course import Course, Problem
from autograde.authoring.gates.exercises import exercises
from autograde.authoring.gates.files import files
from autograde.authoring.gates.ids import ids
from autograde.authoring.gates.imports import imports
from autograde.authoring.gates.leaks import leaks
from autograde.authoring.gates.pairing import pairing
from autograde.authoring.gates.points import points
from autograde.authoring.gates.runs import solved, unsolved
from autograde.authoring.gates.size import size
from autograde.authoring.gates.structure import structure
from autograde.authoring.gates.sync import sync

Gate = Callable[[Course], list[Problem]]

GATES: dict[str, Gate] = {
    "files": files,
    "exercises": exercises,
    "size": size,
    "imports": imports,
    "pairing": pairing,
    "structure": structure,
    "sync": sync,
    "points": points,
    "ids": ids,
    "leaks": leaks,
    "unsolved": unsolved,
    "solved": solved,
}
