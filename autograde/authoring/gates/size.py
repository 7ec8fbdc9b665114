"""A lesson is read and done in one sitting."""

from __future__ import annotations

import re
from collections.abc import Iterator

from autograde.authoring.course import Course, Problem
from autograde.authoring.gates.each import each_lesson
from autograde.authoring.source import WRITTEN, Source, read_source
from autograde.lessons import Lesson

NOT_PROSE = re.compile(r"```.*?```|<[^>]+>|\]\([^)]*\)", re.DOTALL)  # code, HTML tags, the addresses of links


def size(course: Course) -> list[Problem]:
    """Lessons with too few or too many words of prose, or too much code. Cards and hints do not count."""
    return each_lesson(course, _of_lesson)


def _of_lesson(course: Course, lesson: Lesson) -> Iterator[Problem]:
    source = read_source(course, lesson)
    low, high = course.words
    if not low <= words(source) <= high:
        yield Problem(lesson.slug, "", f"{words(source)} words of prose, not {low} to {high}")
    if code_lines(source) > course.code_lines:
        yield Problem(lesson.slug, "", f"{code_lines(source)} lines of code, more than {course.code_lines}")


def words(source: Source) -> int:
    """The words that the author wrote in Markdown cells."""
    parts = [part for part in source.parts if part.cell_type == "markdown" and part.kind != WRITTEN]
    prose = "\n".join(NOT_PROSE.sub(" ", part.text) for part in parts)
    return sum(1 for word in prose.split() if re.search(r"\w", word))


def code_lines(source: Source) -> int:
    """The lines of code cells that are not blank, answers included."""
    code = "\n".join(part.text for part in source.parts if part.cell_type == "code")
    return sum(1 for line in code.splitlines() if line.strip())
