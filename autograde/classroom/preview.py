"""What a grading run would do, found out without writing anything."""

from __future__ import annotations

from dataclasses import dataclass

from autograde.classroom.course import Course, prepare_process
from autograde.classroom.handed_in import (
    BAD_NAME,
    NOTHING,
    insist_on_known_exercises,
    lessons_of,
    students_of,
    tier_of,
)
from autograde.classroom.intake import STUDENT_NAME, Reason, one_line, read_submission
from autograde.classroom.plan import make_job
from autograde.classroom.record import insist_on_files, insist_on_gradebook
from autograde.classroom.roster import read_roster
from autograde.classroom.station import lesson_called
from autograde.classroom.store import SECRET, course_secret, load_result
from autograde.classroom.take_in import cleaned
from autograde.sandbox.limits import Limits

KEPT, FRESH = "kept from an earlier run", "would be graded"


@dataclass(frozen=True)
class Preview:
    """(lesson, student, what would happen) for everybody, and the sandbox that would be used."""

    rows: list[tuple[str, str, str]]
    tier: str


def preview(course: Course, lesson: str = "", fresh: bool = False) -> Preview:
    """Look at every submission. Raises `CourseError` as a run would, before it begins."""
    prepare_process()
    students = students_of(course)
    lessons = lessons_of(course, students, lesson)
    insist_on_gradebook(course)
    tier = tier_of(course)
    for name in lessons:
        insist_on_files(course, name)
        insist_on_known_exercises(course, name)
    listed = [person.id for person in read_roster(course.roster)] if course.roster.exists() else []
    everybody = sorted({*students, *listed})
    rows = [(name, one_line(who), _fate(course, who, name, tier, fresh)) for name in lessons for who in everybody]
    return Preview(rows, tier)


def _fate(course: Course, student: str, lesson: str, tier: str, fresh: bool) -> str:
    if not STUDENT_NAME.fullmatch(student):
        return BAD_NAME
    submission = read_submission(course, student, lesson)
    if submission is None:
        return NOTHING
    reason = f"; 0 points: {submission.text}" if isinstance(submission, Reason) else ""
    # Without a secret nothing was graded; asking for it would make one.
    if fresh or not (course.classroom / SECRET).is_file():
        return FRESH + reason
    limits = Limits(cell_seconds=float(course.cell_seconds))
    answers = lesson_called(lesson).answers
    job = make_job(cleaned(course, lesson, submission), student, lesson, answers, course_secret(course), tier, limits)
    return (KEPT if load_result(course, student, lesson, job.key) else FRESH) + reason
