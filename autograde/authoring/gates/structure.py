"""A lesson can be walked through by its headings, and nothing in it is only for the eye."""

from __future__ import annotations

import re
from collections.abc import Iterator

from nbformat import NotebookNode

from autograde.authoring.course import Course, Problem
from autograde.authoring.gates.each import each_lesson
from autograde.authoring.notebook import describe, read_notebook
from autograde.lessons import LESSONS, Lesson

CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
HEADING = re.compile(r"^(#{1,6}) +(\S.*)$", re.MULTILINE)
IMAGE = re.compile(r"!\[([^\]]*)\]\(")
LINK = re.compile(r"\]\((?![a-z]+:|#)([^)#\s]+)")


def structure(course: Course) -> list[Problem]:
    """A title that is not the first cell or not the only one, skipped levels, images without words, dead links."""
    return each_lesson(course, _of_lesson)


def _of_lesson(course: Course, lesson: Lesson) -> Iterator[Problem]:
    path, level = course.release(lesson), 0
    # Somebody's course may hold some of the lessons; those that it left out may still be spoken of.
    left_out = {other.slug for other in LESSONS} - {other.slug for other in course.lessons}
    elsewhere = {f"../{slug}/{slug}.ipynb" for slug in left_out}
    for number, cell in enumerate(read_notebook(course, lesson, path).cells):
        if cell.cell_type != "markdown":
            continue
        text = CODE.sub(" ", cell.source)
        for marks, title in HEADING.findall(text):
            if (len(marks) == 1) != (level == 0):
                wanted = "one title, as its first heading" if level else "a title (#) before any other heading"
                yield _problem(lesson, cell, f"the lesson has {wanted}: {title!r}")
            elif len(marks) > level + 1:
                yield _problem(lesson, cell, f"{title!r} skips from level {level} to {len(marks)}")
            level = len(marks)
        if number == 0 and not text.lstrip().startswith("# "):
            yield _problem(lesson, cell, "the first cell is the title")
        for words in IMAGE.findall(text):
            if not words.strip():
                yield _problem(lesson, cell, "an image without a description: ![what it shows](file)")
        for target in LINK.findall(text):
            if not (path.parent / target).exists() and target not in elsewhere:
                yield _problem(lesson, cell, f"a link to {target}, which is not there")


def _problem(lesson: Lesson, cell: NotebookNode, text: str) -> Problem:
    return Problem(lesson.slug, describe(cell), text)
