"""Running a look at one lesson over all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from os import cpu_count

from autograde.authoring.course import Course, LessonError, Problem
from autograde.lessons import Lesson

Look = Callable[[Course, Lesson], Iterable[Problem]]


def each_lesson(course: Course, look: Look, *, at_once: int = 1) -> list[Problem]:
    """What `look` finds in each lesson, in order. A lesson that cannot be read or built is itself a problem."""

    def one(lesson: Lesson) -> list[Problem]:
        found: list[Problem] = []
        try:
            for problem in look(course, lesson):
                found.append(problem)  # one by one, so that what came before an error is kept
        except LessonError as error:
            found.append(error.problem)
        return found

    with ThreadPoolExecutor(at_once) as pool:
        return [problem for found in pool.map(one, course.lessons) for problem in found]


def all_cores() -> int:
    """How many kernels to run at once."""
    return cpu_count() or 1
