"""Grades a class: submissions are taken in, run and judged in parallel, and recorded one by one.

Nobody's work stops the others. A run that was stopped goes on where it was: what has a result is not run again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import nbformat
from nbgrader.apps import NbGraderAPI
from tqdm import tqdm

from autograde.classroom import record, report
from autograde.classroom.course import Course, prepare_process
from autograde.classroom.feedback import Pages
from autograde.classroom.graft import refused
from autograde.classroom.handed_in import (
    BAD_NAME,
    GONE,
    NOTHING,
    insist_on_known_exercises,
    lessons_of,
    students_of,
    tier_of,
)
from autograde.classroom.intake import STUDENT_NAME, one_line
from autograde.classroom.job import Job
from autograde.classroom.lock import only_run
from autograde.classroom.plan import make_job
from autograde.classroom.record import Row
from autograde.classroom.schedule import cores, results_of
from autograde.classroom.station import lesson_called
from autograde.classroom.store import course_secret, drop_result, keep_result, load_result
from autograde.classroom.take_in import put, take_in
from autograde.sandbox.limits import Limits
from autograde.sandbox.scratch import remove_leftovers


@dataclass(frozen=True)
class Options:
    """How a class is graded."""

    lesson: str = ""  # this one only
    workers: int = 0  # grading processes; 0 for one on each core
    scheduler: str = ""  # of a Dask cluster, which then does the work
    fresh: bool = False  # grade again what has a result


@dataclass(frozen=True)
class Graded:
    """What a run did."""

    rows: list[Row]
    tier: str
    again: int  # submissions whose result was kept from an earlier run
    faults: int  # submissions that the grader failed on


def grade_class(course: Course, options: Options = Options(), say: Callable[[str], None] = print) -> Graded:  # noqa: B008
    """Grade every submission of one lesson, or of every lesson that somebody handed in.

    Every student has a row for every lesson graded. Raises `CourseError` when there is nothing to grade or the course
    itself is at fault, when submissions cannot be locked in on this machine, or when another run grades this class.
    """
    prepare_process()
    students = students_of(course)
    lessons = lessons_of(course, students, options.lesson)
    record.insist_on_gradebook(course)
    with only_run(course.classroom), record.database_faults_told(course):
        tier = tier_of(course)
        remove_leftovers()
        return _grade(course, lessons, students, tier, options, say)


def _grade(
    course: Course, lessons: list[str], students: list[str], tier: str, options: Options, say: Callable[[str], None]
) -> Graded:
    (course.classroom / "grading.log").unlink(missing_ok=True)
    rows: list[Row] = []
    again = faults = 0
    for name in lessons:
        for_one = _Lesson(course, name, tier, students, say)
        rows += for_one.grade(options)
        again, faults = again + for_one.again, faults + len(for_one.faults)
    everything = sorted(
        [*rows, *record.other_rows(course, lessons, NOTHING)], key=lambda row: (row.lesson, row.student)
    )
    report.write_csv(everything, course.grades)
    record.export(course, course.classroom / "nbgrader.csv")
    report.write_index(everything, course.feedback)
    return Graded(rows, tier, again, faults)


class _Lesson:
    """One lesson of a class."""

    def __init__(self, course: Course, lesson: str, tier: str, students: list[str], say: Callable[[str], None]) -> None:
        self.course, self.lesson, self.tier, self.say = course, lesson, tier, say
        self.students = students
        self.rows: dict[str, Row] = {}
        self.faults: list[str] = []
        self.recorded: dict[str, tuple[str, ...]] = {}  # students in the gradebook, with what went wrong there
        self.again = self.told = 0

    def grade(self, options: Options) -> list[Row]:
        """Take everybody in, grade what has no result yet, and record each as soon as it has one."""
        record.insist_on_files(self.course, self.lesson)
        insist_on_known_exercises(self.course, self.lesson)
        jobs = {student: job for student in self.students if (job := self._job(student)) is not None}
        kept = {} if options.fresh else {student: result for student in jobs if (result := self._kept(jobs[student]))}
        workers = options.workers or cores()
        waiting = [jobs[student] for student in jobs if student not in kept]
        with (
            closing(results_of(waiting, workers, options.scheduler)) as results,
            closing(Pages(self.course, self.lesson, len(jobs), workers)) as self.pages,
        ):
            # While the grading processes start:
            record.register(self.course, self.lesson)
            usable = [student for student in self.students if STUDENT_NAME.fullmatch(student)]
            everybody = sorted({*self.students, *record.add_students(self.course, usable)})
            self.api = NbGraderAPI(config=self.course.grading_settings())
            with tqdm(total=len(everybody), desc=self.lesson, unit="", dynamic_ncols=True, disable=None) as self.bar:
                for student in everybody:
                    if student not in jobs:
                        self._without_work(student)
                for student, earlier in kept.items():
                    self.again += 1
                    self._record(student, earlier)
                for job, arrived in results:
                    self._arrived(job, arrived)
                self.bar.set_description(f"{self.lesson}, pages")
                for student, problem in self.pages.finish():
                    self._finish(student, problem)
        return [self.rows[student] for student in everybody]

    def _job(self, student: str) -> Job | None:
        """What is to be graded, if anything."""
        notebook = take_in(self.course, student, self.lesson)
        if notebook is None:
            return None
        answers = lesson_called(self.lesson).answers
        limits = Limits(cell_seconds=float(self.course.cell_seconds))  # 2 and 2.0 give different keys
        return make_job(notebook, student, self.lesson, answers, course_secret(self.course), self.tier, limits)

    def _kept(self, job: Job) -> dict[str, Any] | None:
        return load_result(self.course, job.student, self.lesson, job.key)

    def _without_work(self, student: str) -> None:
        note = NOTHING if STUDENT_NAME.fullmatch(student) else BAD_NAME
        if note == NOTHING:
            drop_result(self.course, student, self.lesson)
            if record.has_marks(self.course, student, self.lesson):  # the gradebook keeps them, so the tables do
                self._row(student, record.read_row(self.course, student, self.lesson, (GONE,)))
                return
        shown = student if one_line(student) == student else one_line(repr(student))
        self._row(student, record.empty_row(self.course, shown, self.lesson, note))

    def _arrived(self, job: Job, result: dict[str, Any] | str) -> None:
        if isinstance(result, str):
            drop_result(self.course, job.student, self.lesson)
            self.faults.append(job.student)
            note = f"not graded, and not the student's fault: {one_line(result)}"
            _log(self.course, job.student, self.lesson, {"error": result})
            self._row(job.student, record.empty_row(self.course, job.student, self.lesson, note))
            return
        try:
            keep_result(self.course, result)
        except OSError as error:
            self._arrived(job, f"the result could not be kept: {error.strerror}")
            return
        if any(graded["status"] == "grader" for graded in result["exercises"].values()):
            self.faults.append(job.student)
        self._record(job.student, result)

    def _row(self, student: str, row: Row) -> None:
        """A row that is known without grading."""
        self.rows[student] = row
        self.bar.update()
        self._tell(row.student, row.total, row.max)

    def _tell(self, student: str, points: float, most: float) -> None:
        """One line for each student, where there is no terminal for a bar."""
        self.told += 1
        if self.bar.disable:
            self.say(f"[{self.told}/{self.bar.total}] {self.lesson}  {student}  {points:g}/{most:g}")

    def _record(self, student: str, result: dict[str, Any]) -> None:
        """Let nbgrader record a result. Whatever goes wrong ends in a row with a reason."""
        course, lesson = self.course, self.lesson
        self.recorded[student] = ()
        if problem := self._autograde(student):
            release = nbformat.read(course.release(lesson), as_version=4)
            put(course, student, lesson, refused(release, f"nbgrader failed: {problem}"))
            record.record_zero(course, student, lesson)
            self.recorded[student] = (f"not graded: nbgrader failed: {problem}",)
        self.bar.update(0.5)
        self.pages.recorded(student)
        graded = result["exercises"].values()
        self._tell(student, sum(one["points"] for one in graded), sum(one["max"] for one in graded))

    def _finish(self, student: str, problem: str) -> None:
        """Read the row, once the page is written."""
        notes = self.recorded[student]
        if problem:
            _log(self.course, student, self.lesson, {"log": problem})
            notes += (f"no feedback page: {one_line(record.failure({'log': problem}))}",)
        self.rows[student] = record.read_row(self.course, student, self.lesson, notes)
        self.bar.update(0.5)

    def _autograde(self, student: str) -> str:
        """Run nbgrader's autograding, which finds the result; return what went wrong, or nothing."""
        result = self.api.autograde(self.lesson, student, force=True, create=True)
        _log(self.course, student, self.lesson, result)
        return "" if result["success"] else one_line(record.failure(result))


def _log(course: Course, student: str, lesson: str, result: dict) -> None:
    with open(course.classroom / "grading.log", "a", encoding="utf-8", errors="replace") as log:
        log.write(f"==== {student} {lesson}\n{result.get('log', '')}\n{result.get('error', '')}\n")
