"""The mutation matrix as pages: one for each lesson, and an index with counts."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from autograde.authoring.course import Course
from autograde.lessons import Lesson

Table = list[list[str]]  # rows of cells; the first is an exercise's id


def write_matrix(course: Course, folder: Path) -> None:
    """Write the pages from autograde/exercises/MATRIX.md, whose lines the mutation tests hold."""
    from autograde.matrix import FILE

    titles, mistakes, variants = read(FILE.read_text(encoding="utf-8"))
    folder.mkdir(parents=True)
    for lesson in course.lessons:
        text = _page(lesson, titles, mistakes, variants)
        (folder / f"{lesson.slug}.md").write_text(text, encoding="utf-8")
    (folder / "index.md").write_text(_index(course, mistakes, variants), encoding="utf-8")


def read(text: str) -> tuple[dict[str, str], Table, Table]:
    """What the report holds: each exercise's name by its id, the rows of mistakes, and those of right ways."""
    titles: dict[str, str] = {}
    mistakes: Table = []
    variants: Table = []
    rows = mistakes
    for line in text.splitlines():
        if line.startswith("## "):
            id, _, name = line[3:].partition(" ")
            if id[0].isdigit():
                titles[id] = name
            else:
                rows = variants
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and cells[0] in titles:
            rows.append(cells)
    return titles, mistakes, variants


def _page(lesson: Lesson, titles: dict[str, str], mistakes: Table, variants: Table) -> str:
    lines = [f"# {lesson.number:02} {lesson.title}: the matrix", ""]
    lines += [f"Of the lesson [{lesson.title}](../lessons/{lesson.slug}.ipynb). [How to read it](index.md).", ""]
    for id in lesson.exercises:
        lines += [f"## {id} {titles[id]}", "", "### Mistakes", ""]
        lines += ["| mistake | killed by | taken for | lost marks |", "|---|---|---|---:|"]
        lines += [_row(cells) for cells in mistakes if cells[0] == id]
        lines += ["", "### Right, but unusual", "", "| variant | full marks |", "|---|---:|"]
        lines += [_row(cells) for cells in variants if cells[0] == id]
        lines.append("")
    return "\n".join(lines)


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells[1:]) + " |"


def _index(course: Course, mistakes: Table, variants: Table) -> str:
    wrong, right = Counter(row[0] for row in mistakes), Counter(row[0] for row in variants)
    lines = [
        "# What the checks make of wrong and of right work",
        "",
        f"{len(wrong)} exercises, {len(mistakes)} mistakes, {len(variants)} unusual right solutions. Each mistake is",
        "a way in which people really write an exercise wrong. It is judged with 20 random seeds: it must lose marks",
        "each time, first at the stage under *killed by*, and be taken for what it is. Each unusual right solution",
        "must get full marks each time.",
        "",
        "| lesson | exercises | mistakes | right, but unusual |",
        "|---|---:|---:|---:|",
    ]
    for lesson in course.lessons:
        ids = lesson.exercises
        counts = f"{len(ids)} | {sum(wrong[id] for id in ids)} | {sum(right[id] for id in ids)}"
        lines.append(f"| [{lesson.number:02} {lesson.title}]({lesson.slug}.md) | {counts} |")
    lines += [
        "",
        "```{toctree}",
        ":hidden:",
        ":titlesonly:",
        "",
        *(f"{lesson.number:02} {lesson.title} <{lesson.slug}>" for lesson in course.lessons),
        "```",
        "",
    ]
    return "\n".join(lines)
