"""Writes students' pages, several at a time: it takes longer than everything else that nbgrader does."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool

from joblib import Parallel, delayed
from nbgrader.apps import NbGraderAPI

from autograde.classroom.course import Course, prepare_process
from autograde.classroom.schedule import backend

WORTH_IT = 12  # pages from which on starting processes pays


def write_pages(course: Course, lesson: str, students: list[str], workers: int) -> Iterator[tuple[str, dict]]:
    """Write each student's page; tell what nbgrader said of it. Only reads the gradebook."""
    left = set(students)
    if workers > 1 and len(students) >= WORTH_IT:
        shares = [students[number::workers] for number in range(workers)]
        with backend("", workers):
            parallel = Parallel(n_jobs=workers, return_as="generator_unordered")
            try:
                for pages in parallel(delayed(_pages)(course, lesson, share) for share in shares):
                    left -= {student for student, _ in pages}
                    yield from pages
            except BrokenProcessPool:
                pass  # somebody ended a process: what is left is written here
    yield from _pages(course, lesson, sorted(left))


def _pages(course: Course, lesson: str, students: list[str]) -> list[tuple[str, dict]]:
    if not students:
        return []
    prepare_process()
    api = NbGraderAPI(config=course.grading_settings())
    return [(student, api.generate_feedback(lesson, student, force=True)) for student in students]
