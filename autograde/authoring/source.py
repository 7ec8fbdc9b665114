"""Reading a lesson's text: jupytext py:percent, with short keys in the cell headers.

# %% [markdown] card="1.3"     the exercise's card, then whatever the cell holds
# %% exercise="1.3"            the cell that a learner fills in
# %% check="1.3"               the graded cell
# %% [markdown] hints="1.3"    the exercise's three hints, folded
# %% [markdown] written="1.why" points="2"    the model answer to a question that a person marks
# %% tags=["a-tag"]            tags pass through
# %% files=["table.csv"]       files of solutions/NN-slug/ that go out with the lesson
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from autograde.authoring.course import Course, LessonError
from autograde.lessons import Lesson

KINDS = {"card": "markdown", "exercise": "code", "check": "code", "hints": "markdown"}
WRITTEN = "written"  # no exercise of the course: the question is in the cell above, the points are the lesson's own
PASSED_THROUGH = ("tags", "jupyter")
FORMAT = "py:percent"
# What jupytext notes about blank lines and quotes, so that it can write the text back as it was.
JUPYTEXT_NOTES = ("cell_marker", "lines_to_next_cell", "lines_to_end_of_cell_marker")
HEADER = re.compile(r"^# %%(?= |$)")
NAME = re.compile(r"[a-z0-9]+([.-][a-z0-9]+)*")


@dataclass(frozen=True)
class Part:
    """One cell of the text."""

    kind: str  # a key of KINDS, WRITTEN, or "" for an ordinary cell
    exercise: str  # the id of the exercise it belongs to, the name of a written question, or ""
    cell_type: str
    text: str
    where: str  # "cell 7 (line 82)"
    metadata: dict[str, Any] = field(default_factory=dict)
    points: int = 0  # of a written question


@dataclass(frozen=True)
class Source:
    """A lesson's text, cell by cell, and the files that go out with it."""

    parts: tuple[Part, ...]
    files: tuple[str, ...]


def read_text(course: Course, lesson: Lesson) -> str:
    """The lesson's text as it is on disk. Raises `LessonError` when there is none."""
    path = course.source(lesson)
    if not path.is_file():
        raise LessonError(lesson.slug, "", f"{course.relative(path)} is missing")
    return path.read_text(encoding="utf-8")


def read_source(course: Course, lesson: Lesson) -> Source:
    """Cut a lesson's text into cells. Raises `LessonError`, naming file and line, for a key nobody knows."""
    import jupytext

    text = read_text(course, lesson)
    cells = jupytext.reads(text, fmt=FORMAT).cells
    lines = [number for number, line in enumerate(text.splitlines(), start=1) if HEADER.match(line)]
    parts, files = [], []
    for index, cell in enumerate(cells):
        # A "# %%" inside a string is no cell: when the two counts differ, the cell's number has to do.
        where = f"cell {index + 1}" + (f" (line {lines[index]})" if len(lines) == len(cells) else "")
        metadata = {key: value for key, value in cell.metadata.items() if key not in JUPYTEXT_NOTES}
        files += metadata.pop("files", [])
        parts.append(_part(course, lesson, cell, metadata, where))
    return Source(tuple(parts), tuple(files))


def _part(course: Course, lesson: Lesson, cell: Any, metadata: dict[str, Any], where: str) -> Part:
    def refuse(text: str) -> LessonError:
        return LessonError(lesson.slug, where, f"{course.relative(course.source(lesson))}: {text}")

    if WRITTEN in metadata:
        return _written(cell, metadata, where, refuse)
    kinds = [key for key in metadata if key in KINDS]
    unknown = [key for key in metadata if key not in KINDS and key not in PASSED_THROUGH]
    if unknown:
        known = ", ".join((*KINDS, WRITTEN, *PASSED_THROUGH, "files"))
        raise refuse(f"unknown key {unknown[0]!r}: a header knows {known}")
    if len(kinds) > 1:
        raise refuse(f"a cell has one of {', '.join(KINDS)}, this one has {len(kinds)}: {', '.join(kinds)}")
    kind = kinds[0] if kinds else ""
    if kind and cell.cell_type != KINDS[kind]:
        raise refuse(f"{kind}= belongs on a {KINDS[kind]} cell, this is a {cell.cell_type} cell")
    exercise = metadata.pop(kind) if kind else ""
    if not isinstance(exercise, str):
        raise refuse(f'{kind}= takes an exercise id in quotes, like {kind}="1.3", not {exercise!r}')
    return Part(kind, exercise, cell.cell_type, cell.source, where, metadata)


def _written(cell: Any, metadata: dict[str, Any], where: str, refuse: Callable[[str], LessonError]) -> Part:
    name, points = metadata.pop(WRITTEN), metadata.pop("points", "")
    if cell.cell_type != "markdown":
        raise refuse(f"written= belongs on a markdown cell, this is a {cell.cell_type} cell")
    if set(metadata) - set(PASSED_THROUGH):
        raise refuse(f"written= goes with points= alone, not with {sorted(metadata)[0]!r}")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise refuse(f'written= takes a name in quotes, like written="1.why", not {name!r}')
    if not isinstance(points, str) or not points.isdecimal() or int(points) < 1:
        raise refuse(f'written= needs points, like points="2", not {points!r}')
    return Part(WRITTEN, name, cell.cell_type, cell.source, where, metadata, int(points))
