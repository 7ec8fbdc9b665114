"""The lessons' list, the registry of exercises and the texts agree."""

from __future__ import annotations

from collections.abc import Iterator

from autograde.authoring.course import Course, Problem
from autograde.authoring.gates.each import each_lesson
from autograde.authoring.source import KINDS, Part, read_source
from autograde.lessons import Lesson


def exercises(course: Course) -> list[Problem]:
    """Exercises that are unknown, undeclared, homeless or shared, and cells that are missing or out of order."""
    return each_lesson(course, _of_lesson) + list(_of_registry(course))


def _of_lesson(course: Course, lesson: Lesson) -> Iterator[Problem]:
    parts = [part for part in read_source(course, lesson).parts if part.kind in KINDS]
    for part in parts:
        if part.exercise not in course.exercises:
            yield Problem(lesson.slug, part.where, f"exercise {part.exercise} is not in the registry")
        if part.exercise not in lesson.exercises:
            yield Problem(lesson.slug, part.where, f"exercise {part.exercise} is not declared by this lesson")
    for exercise_id in lesson.exercises:
        yield from _of_exercise(lesson, exercise_id, [part for part in parts if part.exercise == exercise_id])


def _of_exercise(lesson: Lesson, exercise_id: str, parts: list[Part]) -> Iterator[Problem]:
    found, due = [part.kind for part in parts], list(KINDS)
    for kind in due:
        if found.count(kind) != 1:
            yield Problem(lesson.slug, "", f"exercise {exercise_id} has {found.count(kind)} {kind} cells, not one")
    if sorted(found) == sorted(due) and found != due:
        order = f"{', '.join(found)} instead of {', '.join(due)}"
        yield Problem(lesson.slug, parts[0].where, f"exercise {exercise_id}: cells in the order {order}")


def _of_registry(course: Course) -> Iterator[Problem]:
    for exercise_id in course.exercises:
        holders = [lesson.slug for lesson in course.lessons if exercise_id in lesson.exercises]
        if len(holders) != 1:
            where = f"declared by {', '.join(holders)}" if holders else "declared by no lesson"
            yield Problem("", "", f"exercise {exercise_id} is {where}, not by one")
