"""A lesson's page: the released notebook, with what its plots and experiments show, and without a line of an answer."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autograde.authoring.course import Course
from autograde.authoring.header import SET_UP
from autograde.authoring.site.links import relink
from autograde.lessons import Lesson

if TYPE_CHECKING:
    from nbformat import NotebookNode

SLIDER = re.compile(r"\bexplore\w*\(")
SLIDER_NOTE = "*This slider works in the notebook. Here you see its last picture.*"


def write_lessons(course: Course, folder: Path) -> None:
    """Write a page for each lesson, and their index."""
    import nbformat

    folder.mkdir(parents=True)
    for lesson in course.lessons:
        # A page needs no validation: the build's own gates hold the notebooks.
        text = nbformat.writes(page(course, lesson))
        (folder / f"{lesson.slug}.ipynb").write_text(text, encoding="utf-8")
    (folder / "index.md").write_text(index(course), encoding="utf-8")


def page(course: Course, lesson: Lesson) -> NotebookNode:
    """The released notebook, with the solved one's outputs in the cells that hold neither an exercise nor a check."""
    import nbformat

    notebook = nbformat.read(course.release(lesson), as_version=4)
    solved = {cell.id: cell for cell in nbformat.read(course.solution(lesson), as_version=4).cells}
    cells: list[Any] = []
    for cell in notebook.cells:
        if cell.id == SET_UP:  # a page has nothing to set up
            continue
        if cell.cell_type == "markdown":
            cell.source = relink(cell.source, f"lessons/{lesson.slug}", course.root)
        elif "nbgrader" not in cell.metadata and cell.id in solved:
            cell.outputs = [_with_alt(cell, output) for output in solved[cell.id].outputs if not _is_result(output)]
        cells.append(cell)
        if cell.cell_type == "code" and SLIDER.search(cell.source) and cell.outputs:
            cells.append(nbformat.v4.new_markdown_cell(SLIDER_NOTE, id=f"{cell.id}-slider"))
    notebook.cells = cells
    return notebook


def _is_result(output: Any) -> bool:
    """Whether an output is a check's result: coloured for a notebook, not for a page that can be dark."""
    return "text/html" in output.get("data", {}) and "image/png" not in output.data


def _with_alt(cell: Any, output: Any) -> Any:
    """The output; the cell learns what its picture shows, in words, which the picture carries as its text."""
    if "image/png" in output.get("data", {}):
        cell.metadata["mystnb"] = {"image": {"alt": " ".join(output.data["text/plain"].split())}}
    return output


def index(course: Course) -> str:
    """All lessons in a table, and the list from which the site's sidebar is made."""
    lines = [
        "# Lessons",
        "",
        "Each page is the notebook that you get, with its plots, and without answers. To work on it, open it in a",
        "notebook: by its badges, or as [the first page](/index.md) says.",
        "",
        "| lesson | exercises | points | it brings |",
        "|---|---:|---:|---|",
    ]
    for lesson in course.lessons:
        modules = ", ".join(
            f"[{name.removeprefix('kvlib.')}](/_generated/reference/{name}.rst)" for name in lesson.introduces
        )
        link = f"[{lesson.number:02} {lesson.title}]({lesson.slug}.ipynb)"
        lines.append(f"| {link} | {len(lesson.exercises)} | {lesson.points} | {modules} |")
    lines += [
        "",
        "```{toctree}",
        ":hidden:",
        ":titlesonly:",
        "",
        *(lesson.slug for lesson in course.lessons),
        "```",
        "",
    ]
    return "\n".join(lines)
