"""Writes students' pages in processes of its own, while others are still being recorded."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any

from nbgrader.apps import NbGraderAPI

from autograde.classroom.course import Course, prepare_process
from autograde.classroom.schedule import end_with

WORTH_IT = 12  # pages from which on starting a process pays
TOGETHER = 6  # pages for which nbgrader is called once: it reads its templates anew each time

Page = tuple[str, str]  # a student, and what nbgrader said where there is no page


class Pages:
    """The pages of one lesson's students. Only reads the gradebook. Close it when it is not wanted any more."""

    def __init__(self, course: Course, lesson: str, expected: int, workers: int) -> None:
        self.course, self.lesson = course, lesson
        self._waiting: list[str] = []
        self._started: list[tuple[list[str], Future]] = []
        self._pool: ProcessPoolExecutor | None = None
        if workers > 1 and expected >= WORTH_IT:
            self._pool = ProcessPoolExecutor(workers - 1, get_context("spawn"), end_with, (os.getpid(),))
            self._pool.submit(prepare_process)  # to import what takes seconds while nobody waits for it

    def recorded(self, student: str) -> None:
        """This student's page can be written."""
        self._waiting.append(student)
        if self._pool is not None and len(self._waiting) == TOGETHER:
            self._submit()

    def finish(self) -> Iterator[Page]:
        """Write what is not written yet, here too; tell of every page."""
        rest, self._waiting = self._waiting, []
        yield from write_pages(self.course, self.lesson, rest)
        taken = [students for students, future in reversed(self._started) if future.cancel()]
        for students in taken:
            yield from write_pages(self.course, self.lesson, students)
        for students, future in self._started:
            if not future.cancelled():
                try:
                    yield from future.result()
                except BrokenProcessPool:  # somebody ended the process
                    yield from write_pages(self.course, self.lesson, students)

    def close(self) -> None:
        """End the processes."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def _submit(self) -> None:
        students, self._waiting = self._waiting, []
        assert self._pool is not None  # `add` looks
        try:
            future = self._pool.submit(write_pages, self.course, self.lesson, students)
        except BrokenProcessPool:
            self._waiting, self._pool = students, None
        else:
            self._started.append((students, future))


def numbered(page: str) -> str:
    """nbgrader's list of points calls every check "Test cell": say which exercise it is."""
    return re.sub(r'<a href="#check-(\d+)-(\d+)">Test cell</a>', r'<a href="#check-\1-\2">Exercise \1.\2</a>', page)


def write_pages(course: Course, lesson: str, students: list[str]) -> list[Page]:
    """Write some students' pages with one call of nbgrader's, which goes on to the next where one fails."""
    if not students:
        return []
    prepare_process()
    settings = course.grading_settings()
    others = {path.name for path in course.autograded.iterdir()} - set(students)
    settings.CourseDirectory.student_id_exclude = ",".join(sorted(others))
    pages = {student: course.feedback / student / lesson / f"{lesson}.html" for student in students}
    for page in pages.values():
        page.unlink(missing_ok=True)
    said: dict[str, Any] = NbGraderAPI(config=settings).generate_feedback(lesson, force=True)
    if str(said.get("error", "")).strip().endswith("KeyboardInterrupt"):  # nbgrader catches it
        raise KeyboardInterrupt
    log = str(said.get("log", ""))
    for page in pages.values():
        if page.exists():
            page.write_text(numbered(page.read_text(encoding="utf-8")), encoding="utf-8")
    return [(student, "" if page.exists() else log or "no reason given") for student, page in pages.items()]
