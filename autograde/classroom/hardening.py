"""Makes nbgrader's Autograde read what our intake has cleaned, instead of what students handed in.

nbgrader follows links out of a submission, copies whatever lies in it, and stops at a notebook that it cannot read. No
setting changes that. So two of its methods are replaced, for its commands, its API and formgrader alike: before it
looks for notebooks, the submissions it was asked for are taken in, and then it reads those. Tied to nbgrader 0.9.6.
"""

from __future__ import annotations

import glob
from pathlib import Path

from nbgrader.converters import Autograde

from autograde.classroom import record
from autograde.classroom.course import CLEAN, Course
from autograde.classroom.take_in import take_in

_original = Autograde.init_notebooks


def harden() -> None:
    """Do it, once for the process."""
    Autograde.init_notebooks = _init_notebooks
    Autograde._input_directory = property(_input_directory)


def _init_notebooks(self: Autograde) -> None:
    course = _course(self)
    if course is not None:
        _register(course, self.coursedir.assignment_id)
        for folder in sorted(course.submitted.glob(self.coursedir.student_id or "*")):
            for lesson in glob.glob(self.coursedir.assignment_id or "*", root_dir=folder):
                take_in(course, folder.name, lesson)
    _original(self)


def _register(course: Course, lesson: str) -> None:
    """Tell the gradebook of a lesson that it does not know. nbgrader's own way to do that writes lessons/ anew."""
    if not course.release(lesson).exists():
        return
    with record.open_gradebook(course) as gradebook:
        known = {assignment.name for assignment in gradebook.assignments}
    if lesson not in known:
        record.register(course, lesson)


def _input_directory(self: Autograde) -> str:
    if not self._sanitizing:
        return self.coursedir.autograded_directory
    if _course(self) is None:
        return self.coursedir.submitted_directory
    return str(Path(self.coursedir.submitted_directory).with_name(CLEAN))


def _course(self: Autograde) -> Course | None:
    """The class that this converter works on; None for a course that is none of ours."""
    settings = self.config.get("SandboxExecute", {})
    if not settings.get("root"):
        return None
    return Course(Path(settings["root"]), Path(settings["classroom"]), db_url=self.coursedir.db_url)
