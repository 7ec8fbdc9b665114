"""Makes a sample class from the answers in tests/sample_class/LESSON/STUDENT.py and the current release.

A file of answers is a few header comments and cells:

    # about: what this student shows
    # expect: 1.1 full, 1.2 part, 1.3 none
    # damage: rename exercise-1-2

    # %% exercise-1-1     the new source of that cell; a second one becomes a copy, as pasting a cell does
    # %% own              a code cell of the student's own, after the cell before it

Damage is one of: rename ID, delete ID, break ID (a syntax error), lose-ids, not-json, empty-file, new-name.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from autograde.classroom.course import Course, CourseError
from autograde.classroom.graft import skeleton

MARKER = ".made-by-demo"


@dataclass(frozen=True)
class Answers:
    """One student's file of answers."""

    student: str
    about: str
    expect: dict[str, str]  # exercise to "full", "part" or "none"
    damage: tuple[str, ...]
    cells: tuple[tuple[str, str], ...]  # grade id or "own", and the source


def read_answers(path: Path) -> Answers:
    """Read a file of answers."""
    head, *parts = re.split(r"^# %% ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    header = re.findall(r"^# (about|expect|damage): (.+)$", head, flags=re.MULTILINE)
    cells = tuple((part.partition("\n")[0].strip(), part.partition("\n")[2].strip()) for part in parts)
    value = dict(header)
    expect = dict(item.split() for item in value.get("expect", "").split(",") if item.strip())
    damage = tuple(what for key, what in header if key == "damage")
    return Answers(path.stem, value.get("about", ""), expect, damage, cells)


def sample_folder(course: Course) -> Path:
    """Where the course keeps its sample class."""
    return course.root / "tests" / "sample_class"


def make_class(course: Course) -> int:
    """Write submitted/ of a fresh class and return the number of notebooks in it.

    Raises `CourseError` when the folder exists and was not made here, or when there is nothing to make.
    """
    files = [p for p in sorted(sample_folder(course).glob("*/*.py")) if course.release(p.parent.name).exists()]
    if not files:
        raise CourseError(f"no lesson in {course.root} has both a release and a sample class")
    if course.classroom.exists():
        if not (course.classroom / MARKER).is_file():
            raise CourseError(f"{course.classroom} exists and is not a sample class; it is left alone")
        shutil.rmtree(course.classroom)
    course.classroom.mkdir(parents=True)
    (course.classroom / MARKER).write_text("A sample class. `autograde demo` deletes and remakes this folder.\n")
    for path in files:
        lesson = path.parent.name
        submit(course, read_answers(path), lesson)
    return len(files)


def submit(course: Course, answers: Answers, lesson: str) -> None:
    """Hand in one student's notebook."""
    release = nbformat.read(course.release(lesson), as_version=4)
    text = nbformat.writes(fill_in(release, answers))
    name = f"{lesson}.ipynb"
    if "not-json" in answers.damage:
        text = "<!DOCTYPE html><title>Log in to continue</title>\n"
    if "empty-file" in answers.damage:
        text = ""
    if "new-name" in answers.damage:
        name = f"{lesson} (1).ipynb"
    folder = course.submitted / answers.student / lesson
    folder.mkdir(parents=True)
    (folder / name).write_text(text, encoding="utf-8")


def fill_in(release: NotebookNode, answers: Answers) -> NotebookNode:
    """The release with a student's answers typed in, and damaged."""
    notebook = skeleton(release)
    last, seen = -1, set()
    for number, (grade_id, source) in enumerate(answers.cells):
        if grade_id == "own":
            last += 1
            notebook.cells.insert(last, nbformat.v4.new_code_cell(source, id=f"new-{number}"))
            continue
        index = max(i for i, cell in enumerate(notebook.cells) if _grade_id(cell) == grade_id)
        if grade_id in seen:
            index += 1
            notebook.cells.insert(index, nbformat.from_dict(notebook.cells[index - 1]))
            notebook.cells[index].id = f"new-{number}"
        notebook.cells[index].source = source
        seen.add(grade_id)
        last = index
    for what in answers.damage:
        _damage(notebook, *what.split())
    return notebook


def _damage(notebook: NotebookNode, what: str, grade_id: str = "") -> None:
    if what == "delete":
        notebook.cells = [cell for cell in notebook.cells if _grade_id(cell) != grade_id]
    for number, cell in enumerate(notebook.cells):
        if what == "rename" and _grade_id(cell) == grade_id:
            cell.metadata.nbgrader.grade_id = cell.id = f"{grade_id}-mine"
        if what == "break" and _grade_id(cell) == grade_id:
            cell.source = cell.source.replace("):", ")", 1)
        if what == "lose-ids":
            cell.metadata, cell.id = NotebookNode(), f"cell-{number}"


def _grade_id(cell: NotebookNode) -> str:
    return cell.metadata.get("nbgrader", {}).get("grade_id", "")
