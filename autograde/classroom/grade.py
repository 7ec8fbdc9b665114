"""Grades a class: submitted/ is cleaned, run, marked and recorded, and nobody's work stops the others."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbgrader.apps import NbGraderAPI

from autograde.classroom import record, report
from autograde.classroom.course import Course, CourseError, prepare_process
from autograde.classroom.graft import graft, refused
from autograde.classroom.intake import STUDENT_NAME, Reason, one_line, read_submission
from autograde.classroom.record import Row

NOTHING = "nothing handed in"
BAD_NAME = "not graded: the folder's name cannot be a student's"


def grade_class(course: Course, lesson: str | None = None, say: Callable[[str], None] = print) -> list[Row]:
    """Grade every submission of one lesson, or of every lesson that somebody handed in.

    Every student has a row for every lesson graded. Raises `CourseError` when there is nothing to grade or the course
    itself is at fault.
    """
    prepare_process()
    students = _students(course)
    lessons = [lesson] if lesson else _lessons(course, students)
    (course.classroom / "grading.log").unlink(missing_ok=True)
    rows = []
    for name in lessons:
        record.register(course, name)
        usable = [student for student in students if STUDENT_NAME.fullmatch(student)]
        everybody = sorted({*students, *record.add_students(course, usable)})
        api = NbGraderAPI(config=course.grading_settings())
        for number, student in enumerate(everybody, 1):
            row = grade_one(course, api, student, name)
            rows.append(row)
            say(f"[{number}/{len(everybody)}] {name}  {student}  {row.total:g}/{row.max:g}")
    report.write_csv(rows, course.grades)
    record.export(course, course.classroom / "nbgrader.csv")
    report.write_index(rows, course.feedback)
    return rows


def grade_one(course: Course, api: NbGraderAPI, student: str, lesson: str) -> Row:
    """Grade one submission and write its feedback page. Whatever goes wrong ends in a row with a reason."""
    if not STUDENT_NAME.fullmatch(student):
        return record.empty_row(course, one_line(student), lesson, BAD_NAME)
    submission = read_submission(course, student, lesson)
    if submission is None:
        return record.empty_row(course, student, lesson, NOTHING)
    release = nbformat.read(course.release(lesson), as_version=4)
    if isinstance(submission, Reason):
        _write(course, student, lesson, refused(release, submission.text))
    else:
        notebook = graft(release, submission.cells, submission.notes)
        _write(course, student, lesson, notebook, submission.timestamp)
    problem = _autograde(course, api, student, lesson)
    notes: tuple[str, ...] = ()
    if problem:
        _write(course, student, lesson, refused(release, f"nbgrader failed: {problem}"))
        if again := _autograde(course, api, student, lesson):
            record.record_zero(course, student, lesson)
            notes = (f"not graded: nbgrader failed: {again}",)
    page = api.generate_feedback(lesson, student, force=True)
    _log(course, student, lesson, page)
    if not page["success"]:
        notes += (f"no feedback page: {one_line(record.failure(page))}",)
    return record.read_row(course, student, lesson, notes)


def _autograde(course: Course, api: NbGraderAPI, student: str, lesson: str) -> str:
    """Run nbgrader's autograding on the cleaned notebook; return what went wrong, or nothing."""
    result = api.autograde(lesson, student, force=True, create=True)
    _log(course, student, lesson, result)
    return "" if result["success"] else one_line(record.failure(result))


def _write(course: Course, student: str, lesson: str, notebook: NotebookNode, timestamp: str = "") -> None:
    folder = course.clean / student / lesson
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    nbformat.write(notebook, folder / f"{lesson}.ipynb")
    if timestamp:
        (folder / "timestamp.txt").write_text(timestamp)


def _log(course: Course, student: str, lesson: str, result: dict) -> None:
    with open(course.classroom / "grading.log", "a", encoding="utf-8", errors="replace") as log:
        log.write(f"==== {student} {lesson}\n{result.get('log', '')}\n{result.get('error', '')}\n")


def _students(course: Course) -> list[str]:
    """Names of the folders in submitted/, links included: they get a row that says so."""
    for path in (course.root, course.classroom):
        if found := set("*?[") & set(str(path)):  # nbgrader takes its paths for patterns
            raise CourseError(f"nbgrader cannot read the path {path}: it holds {' '.join(sorted(found))}")
    if not course.submitted.is_dir():
        raise CourseError(f"there is no folder {course.submitted}")
    names = sorted(p.name for p in course.submitted.iterdir() if p.name != ".ipynb_checkpoints" and not _is_file(p))
    if not names:
        raise CourseError(f"{course.submitted} holds no student's folder")
    return names


def _is_file(path: Path) -> bool:
    return not path.is_symlink() and not path.is_dir()


def _lessons(course: Course, students: list[str]) -> list[str]:
    """Lessons that the course has and somebody handed in."""
    known = sorted(path.name for path in (course.root / "lessons").iterdir() if course.release(path.name).exists())
    lessons = [name for name in known if any((course.submitted / who / name).is_dir() for who in students)]
    if not lessons:
        raise CourseError(f"nobody in {course.submitted} handed in any of: {', '.join(known) or 'no lesson found'}")
    return lessons
