"""Writes students' pages, several at a time: it takes longer than everything else that nbgrader does."""

from __future__ import annotations

from collections.abc import Iterator

from joblib import Parallel, delayed
from nbgrader.apps import NbGraderAPI

from autograde.classroom.course import Course, prepare_process

WORTH_IT = 12  # pages from which on starting processes pays


def write_pages(course: Course, lesson: str, students: list[str], workers: int) -> Iterator[tuple[str, dict]]:
    """Write each student's page; tell what nbgrader said of it. Only reads the gradebook."""
    if workers <= 1 or len(students) < WORTH_IT:
        yield from _pages(course, lesson, students)
        return
    shares = [students[number::workers] for number in range(workers)]
    parallel = Parallel(n_jobs=workers, return_as="generator_unordered")
    for pages in parallel(delayed(_list)(course, lesson, share) for share in shares):
        yield from pages


def _list(course: Course, lesson: str, students: list[str]) -> list[tuple[str, dict]]:
    return list(_pages(course, lesson, students))


def _pages(course: Course, lesson: str, students: list[str]) -> Iterator[tuple[str, dict]]:
    prepare_process()
    api = NbGraderAPI(config=course.grading_settings())
    for student in students:
        yield student, api.generate_feedback(lesson, student, force=True)
