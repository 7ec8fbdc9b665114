"""What nbgrader's gradebook knows: registering a lesson, reading a student's row, recording a zero."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import nbformat
from nbgrader.api import Gradebook
from nbgrader.apps import NbGraderAPI
from nbgrader.plugins import CsvExportPlugin
from sqlalchemy import create_engine, inspect
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from autograde.classroom.cells import exercise_in
from autograde.classroom.course import Course, CourseError
from autograde.classroom.graft import KEY
from autograde.classroom.roster import read_roster


@dataclass(frozen=True)
class Row:
    """One student's result in one lesson."""

    student: str
    lesson: str
    points: dict[str, float | None] = field(default_factory=dict)  # by exercise; None waits for marking by hand
    total: float = 0.0  # after any late penalty
    max: float = 0.0
    penalty: float = 0.0
    notes: tuple[str, ...] = ()

    @property
    def remark(self) -> str:
        """All notes on one line."""
        return "; ".join(note.removesuffix(".") for note in self.notes)


def open_gradebook(course: Course) -> Gradebook:
    """The gradebook, to be used as a context manager."""
    settings = course.settings().CourseDirectory
    return Gradebook(settings.db_url, settings.course_id)


def masked(url: str) -> str:
    """The address of a database without its password: up to the last @, since a password may hold any character."""
    url = re.sub(r"(://[^:/?@]*:).*@", r"\1***@", url, flags=re.DOTALL)
    return re.sub(r"([?&][^=&]*pass[^=&]*=)[^&]*", r"\1***", url, flags=re.IGNORECASE)


def insist_on_gradebook(course: Course) -> None:
    """Raise `CourseError` where the gradebook is there and cannot be read. Nothing is written, nor made."""
    url = _address(course)
    if not has_gradebook(course):
        return
    patience = {"connect_timeout": 10} if url.get_backend_name() == "postgresql" else {}
    with database_faults_told(course):
        inspect(create_engine(url, poolclass=NullPool, connect_args=patience)).get_table_names()


def _address(course: Course) -> URL:
    try:
        return make_url(course.gradebook)
    except (ArgumentError, ValueError):
        shown = masked(course.db_url)
        raise CourseError(f"{shown} is no address of a database, such as postgresql+psycopg://USER@HOST/NAME") from None


@contextmanager
def database_faults_told(course: Course) -> Iterator[None]:
    """Make a `CourseError` of what goes wrong with the gradebook's database."""
    shown = masked(course.gradebook)
    try:
        yield
    except ImportError as error:
        raise CourseError(f"no driver for the gradebook {shown}: {error}; see the extra 'postgres'") from None
    except SQLAlchemyError as error:
        said = " ".join(str(getattr(error, "orig", None) or error).split())
        raise CourseError(f"the gradebook {shown} does not work: {said}") from None


def insist_on_files(course: Course, lesson: str) -> None:
    """Raise `CourseError` where the course does not have the lesson."""
    for path in (course.source(lesson), course.release(lesson)):
        if not path.exists():
            raise CourseError(f"lesson {lesson} has no {path.relative_to(course.root)}")


def register(course: Course, lesson: str) -> None:
    """Tell the gradebook which cells the lesson grades, from its source. lessons/ is left alone.

    Raises `CourseError` when nbgrader refuses, for example because graded cells came or went since a class was graded.
    """
    with tempfile.TemporaryDirectory() as staging:
        settings = course.settings()
        settings.CourseDirectory.root = staging
        folder = Path(staging, "solutions", lesson)
        folder.mkdir(parents=True)
        shutil.copy(course.source(lesson), folder)
        result = NbGraderAPI(config=settings).generate_assignment(lesson, force=True)
    if not result["success"]:
        raise CourseError(f"nbgrader refused lesson {lesson}: {failure(result)}")


def insist_on_graded(course: Course, lesson: str = "") -> list[str]:
    """Lessons that were graded; only this one, if one is named. Raises `CourseError` where there is none."""
    if not course.classroom.is_dir():
        what = "the file" if course.classroom.exists() else "nothing at"
        raise CourseError(f"wanted a class's folder, got {what} {course.classroom}")
    insist_on_gradebook(course)
    if not has_gradebook(course):
        raise CourseError(f"there is no gradebook in {course.classroom}: grade the class first")
    with database_faults_told(course), open_gradebook(course) as gradebook:
        names = [assignment.name for assignment in gradebook.assignments]
        graded = sorted(name for name in names if gradebook.assignment_submissions(name))
    if not graded or (lesson and lesson not in graded):
        raise CourseError(
            f"nobody's work for {lesson or 'any lesson'} was graded; graded: {', '.join(graded) or 'none'}"
        )
    return [lesson] if lesson else graded


def has_gradebook(course: Course) -> bool:
    """Whether there is one to read. Opening a file that is not there would make it."""
    url = _address(course)
    if url.get_backend_name() != "sqlite":
        return True  # a server says by itself whether it has it
    file = Path(url.database or "")
    return file.exists() and file.stat().st_size > 0


def set_due(course: Course, lesson: str, due: datetime) -> None:
    """Set when a lesson is due, in UTC without a zone."""
    with open_gradebook(course) as gradebook:
        gradebook.update_or_create_assignment(lesson, duedate=due)


def failure(result: dict) -> str:
    """What went wrong in a failed run of nbgrader's. Raises `KeyboardInterrupt` for Ctrl-C.

    nbgrader catches everything, Ctrl-C included, and hides the error itself in its log: the last line that is indented
    by four, as the end of a traceback is.
    """
    error = result.get("error", "").strip()
    if error.endswith("KeyboardInterrupt"):
        raise KeyboardInterrupt
    log = result.get("log", "")
    logged = re.findall(r"^ {4}((?:\w+\.)*[A-Z]\w*: .*)$", log, flags=re.MULTILINE)  # "jinja2.exceptions.Error: text"
    logged = logged or re.findall(r"^ {4}(\S.*)$", log, flags=re.MULTILINE)
    return (logged or error.splitlines() or ["no reason given"])[-1]


def read_row(course: Course, student: str, lesson: str, notes: tuple[str, ...] = ()) -> Row:
    """A student's row as the gradebook has it, with the notes of the autograded notebook after `notes`."""
    said = [*notes, *_notes_in(course.autograded / student / lesson / f"{lesson}.ipynb")]
    with open_gradebook(course) as gradebook:
        submission = gradebook.find_submission(lesson, student)
        points: dict[str, float | None] = dict.fromkeys(_exercises(gradebook, lesson).values(), 0.0)
        for notebook in submission.notebooks:
            for grade in notebook.grades:
                name = _exercises(gradebook, lesson)[grade.name]
                waits = grade.auto_score is None and grade.manual_score is None
                points[name] = None if waits else grade.score
                if waits:
                    said.append(f"{name} waits for marking by hand")
        penalty = submission.late_submission_penalty or 0.0
        if penalty:
            said.append(f"late: {penalty:g} points off")
        return Row(student, lesson, points, max(0.0, submission.score - penalty), submission.max_score, penalty,
                   tuple(said))  # fmt: skip


def has_marks(course: Course, student: str, lesson: str) -> bool:
    """Whether the gradebook has a submission of this student's, as after an earlier grading."""
    with open_gradebook(course) as gradebook:
        return any(one.student.id == student for one in gradebook.assignment_submissions(lesson))


def other_rows(course: Course, lessons: list[str], nothing: str) -> list[Row]:
    """The rows of the lessons that were graded before and are not among these."""
    with open_gradebook(course) as gradebook:
        ours = {a.name for a in gradebook.assignments if a.name in {notebook.name for notebook in a.notebooks}}
        others = sorted(ours - set(lessons))
        students = sorted(student.id for student in gradebook.students)
        have = {(lesson, s.student.id) for lesson in others for s in gradebook.assignment_submissions(lesson)}
    return [
        read_row(course, who, lesson) if (lesson, who) in have else empty_row(course, who, lesson, nothing)
        for lesson in others
        for who in students
    ]


def empty_row(course: Course, student: str, lesson: str, note: str) -> Row:
    """A row of zeros for work that has no submission in the gradebook."""
    with open_gradebook(course) as gradebook:
        points: dict[str, float | None] = dict.fromkeys(_exercises(gradebook, lesson).values(), 0.0)
        return Row(student, lesson, points, max=gradebook.find_assignment(lesson).max_score, notes=(note,))


def record_zero(course: Course, student: str, lesson: str) -> None:
    """Write 0 for every exercise that has no mark, so that no export shows a blank."""
    with open_gradebook(course) as gradebook:
        gradebook.update_or_create_student(student)
        submission = gradebook.update_or_create_submission(lesson, student)
        for notebook in submission.notebooks:
            for grade in notebook.grades:
                grade.auto_score, grade.needs_manual_grade = 0.0, False
        gradebook.db.commit()


def add_students(course: Course, students: list[str]) -> list[str]:
    """Make sure that these students, and those of the class's roster, are in the gradebook; return everybody who is."""
    people = read_roster(course.roster) if course.roster.exists() else []
    with open_gradebook(course) as gradebook:
        for student in students:
            gradebook.update_or_create_student(student)
        for person in people:
            known = {"first_name": person.first, "last_name": person.last, "email": person.email}
            gradebook.update_or_create_student(person.id, **{key: value for key, value in known.items() if value})
        return sorted(student.id for student in gradebook.students)


def export(course: Course, path: Path) -> None:
    """nbgrader's own CSV: totals only."""
    with open_gradebook(course) as gradebook:
        CsvExportPlugin(to=str(path)).export(gradebook)


def _exercises(gradebook: Gradebook, lesson: str) -> dict[str, str]:
    """The lesson's graded cells in notebook order: grade id to exercise."""
    notebook = gradebook.find_notebook(lesson, lesson)
    graded = {cell.name for cell in notebook.grade_cells}
    return {
        cell.name: exercise_in(cell.source or "") or cell.name for cell in notebook.source_cells if cell.name in graded
    }


def _notes_in(path: Path) -> list[str]:
    if not path.exists():
        return []
    return list(nbformat.read(path, as_version=4).metadata.get(KEY, {}).get("notes", []))
