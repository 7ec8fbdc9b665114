"""Nothing of an answer reaches a student."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from autograde.authoring.course import Course, Problem
from autograde.authoring.gates.each import each_lesson
from autograde.authoring.notebook import BEGIN, END, compose, describe, read_notebook
from autograde.authoring.source import WRITTEN
from autograde.lessons import Lesson

MARKERS = re.compile(r"(BEGIN|END) (SOLUTION|HIDDEN TESTS|MARK SCHEME)")
TRIVIAL = ("pass", "else:", "try:", "finally:", "return", "break", "continue")


def leaks(course: Course) -> list[Problem]:
    """Lines of answers, markers of answers and hidden tests, and outputs, in the releases and the files beside them."""
    return each_lesson(course, _of_lesson)


def _of_lesson(course: Course, lesson: Lesson) -> Iterator[Problem]:
    composed = compose(course, lesson).cells
    answers = answer_lines(cell.source for cell in composed)
    written = [cell.source for cell in composed if cell.id.startswith(f"{WRITTEN}-")]
    answers |= {line.strip() for text in written for line in text.splitlines() if line.strip()}
    path = course.release(lesson)
    for cell in read_notebook(course, lesson, path).cells:
        for text in _of_text(cell.source, answers):
            yield Problem(lesson.slug, describe(cell), f"{course.relative(path)} {text}")
        if cell.get("outputs") or cell.get("execution_count"):
            yield Problem(lesson.slug, describe(cell), f"{course.relative(path)} holds output")
    for file in sorted(path.parent.iterdir()):
        if file.is_file() and file != path:
            for text in _of_text(file.read_text(encoding="utf-8", errors="ignore"), answers):
                yield Problem(lesson.slug, "", f"{course.relative(file)} {text}")


def _of_text(text: str, answers: set[str]) -> Iterator[str]:
    for line in text.splitlines():
        if MARKERS.search(line):
            yield f"holds a marker: {line.strip()}"
        elif line.strip() in answers:
            yield f"holds a line of an answer: {line.strip()}"


def answer_lines(sources: Iterable[str]) -> set[str]:
    """The lines that stand only between solution markers, stripped, without those that give nothing away."""
    inside: set[str] = set()
    outside: set[str] = set()
    for source in sources:
        lines = outside
        for line in source.splitlines():
            if line.strip() in (BEGIN, END):
                lines = inside if line.strip() == BEGIN else outside
            elif re.search(r"\w", line) and line.strip() not in TRIVIAL:
                lines.add(line.strip())
    return inside - outside
