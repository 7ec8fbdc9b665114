"""From submitted/ to clean/: a student's answers, and nothing else, in the notebook that was released."""

from __future__ import annotations

import contextlib
import shutil

import nbformat
from nbformat import NotebookNode

from autograde.classroom.course import Course
from autograde.classroom.graft import graft, refused
from autograde.classroom.intake import STUDENT_NAME, Reason, Submission, read_submission


def take_in(course: Course, student: str, lesson: str) -> NotebookNode | None:
    """Clean one submission, write it to clean/ and return it; None when the student handed nothing in.

    Work that cannot be read becomes the untouched release with the reason in it. The student's name must be one.
    """
    if not STUDENT_NAME.fullmatch(student) or not course.release(lesson).exists():
        return None
    submission = read_submission(course, student, lesson)
    if submission is None:
        shutil.rmtree(course.clean / student / lesson, ignore_errors=True)
        return None
    notebook = cleaned(course, lesson, submission)
    put(course, student, lesson, notebook, submission.timestamp)
    return notebook


def cleaned(course: Course, lesson: str, submission: Submission | Reason) -> NotebookNode:
    """A submission's answers in the notebook that was released. Writes nothing."""
    release = nbformat.read(course.release(lesson), as_version=4)
    if isinstance(submission, Reason):
        return refused(release, submission.text)
    return graft(release, submission.cells, submission.notes)


def put(course: Course, student: str, lesson: str, notebook: NotebookNode, timestamp: str = "") -> None:
    """Write a notebook to clean/."""
    folder = course.clean / student / lesson
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    nbformat.write(notebook, folder / f"{lesson}.ipynb")
    if timestamp:
        (folder / "timestamp.txt").write_text(timestamp)
