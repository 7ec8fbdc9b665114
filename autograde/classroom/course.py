"""Where a course and a class live, and the nbgrader settings that follow from it."""

from __future__ import annotations

import os
import sys
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from traitlets.config import Config, ConfigFileNotFound, PyFileConfigLoader

THEIRS = "nbgrader.preprocessors."
EXECUTE = "autograde.classroom.execute.SandboxExecute"
CLEAN = "clean"


class CourseError(Exception):
    """Something is wrong with the course or the class folder, as opposed to with one submission."""


@dataclass(frozen=True)
class Course:
    """The course (`root`: solutions/ and lessons/) and one class of it (`classroom`: submitted/ and all results)."""

    root: Path
    classroom: Path
    cell_seconds: float = 30.0  # that one cell may run; a check alone may take 10
    trusted: bool = False  # submissions run with the grader's own rights
    tier: str = ""  # the only kind of sandbox to use; the best that works here where it is empty
    db_url: str = field(default="", repr=False)  # of the gradebook; CLASSROOM/gradebook.db where it is empty

    @property
    def submitted(self) -> Path:
        """Students' work as it came in: submitted/STUDENT/LESSON/LESSON.ipynb. Only `collect` writes there."""
        return self.classroom / "submitted"

    @property
    def clean(self) -> Path:
        """What is graded: the released notebook with a student's answers in it."""
        return self.classroom / CLEAN

    @property
    def autograded(self) -> Path:
        """The executed and marked notebooks."""
        return self.classroom / "autograded"

    @property
    def feedback(self) -> Path:
        """The pages for students."""
        return self.classroom / "feedback"

    @property
    def results(self) -> Path:
        """What the grader found, one file for each submission."""
        return self.classroom / "results"

    @property
    def gradebook(self) -> str:
        """The address of nbgrader's database."""
        return self.db_url or f"sqlite:///{self.classroom / 'gradebook.db'}"

    @property
    def grades(self) -> Path:
        """Our table of marks."""
        return self.classroom / "grades.csv"

    @property
    def roster(self) -> Path:
        """Who is in the class, where `collect` was told: everybody in it has a row, also with nothing handed in."""
        return self.classroom / "roster.csv"

    def release(self, lesson: str) -> Path:
        """The notebook that students were given."""
        return self.root / "lessons" / lesson / f"{lesson}.ipynb"

    def source(self, lesson: str) -> Path:
        """The notebook that it was made from."""
        return self.root / "solutions" / lesson / f"{lesson}.ipynb"

    def settings(self) -> Config:
        """nbgrader settings with the course as its root: for `nbgrader` commands and formgrader."""
        c = _settings()
        ours = c.SandboxExecute
        ours.root, ours.classroom = str(self.root), str(self.classroom)
        ours.trusted, ours.tier, ours.cell_seconds = self.trusted, self.tier, self.cell_seconds
        steps, classroom = c.CourseDirectory, os.path.relpath(self.classroom, self.root)
        steps.root = str(self.root)
        steps.source_directory, steps.release_directory = "solutions", "lessons"
        for step in ("submitted", "autograded", "feedback", "solution", "source_with_tests"):
            steps[f"{step}_directory"] = os.path.join(classroom, step)
        steps.db_url = self._db_url
        c.ZipCollectApp.downloaded_directory = os.path.join(classroom, "downloaded")
        return c

    def grading_settings(self) -> Config:
        """The same with the class as its root, on top of what the course's nbgrader_config.py says, such as penalties.

        nbgrader escapes only its root when it matches paths, so a class folder named "C++ (2)" has to be the root.
        """
        c = self.instructors_settings()
        c.merge(self.settings())
        steps = c.CourseDirectory
        steps.root = str(self.classroom)
        steps.source_directory, steps.submitted_directory = str(self.root / "solutions"), "submitted"
        steps.autograded_directory, steps.feedback_directory = "autograded", "feedback"
        return c

    def instructors_settings(self) -> Config:
        """What the course's nbgrader_config.py says. Raises `CourseError` where it does not work."""
        try:
            return PyFileConfigLoader("nbgrader_config.py", str(self.root)).load_config()
        except ConfigFileNotFound:
            return Config()
        except Exception as error:
            raise CourseError(f"{self.root / 'nbgrader_config.py'} does not work: {error!r}") from None

    @property
    def _db_url(self) -> str:
        # SQLite waits 5 seconds for a lock where nothing else is said.
        return self.gradebook if self.db_url else f"{self.gradebook}?timeout=60"


def course_at(root: str | os.PathLike[str], classroom: str | os.PathLike[str], **how: Any) -> Course:
    """A course from two paths, made absolute."""
    return Course(Path(root).resolve(), Path(classroom).resolve(), **how)


def prepare_process() -> None:
    """Make nbgrader work in this process: `alembic` is found, warnings stay quiet, and it reads what is clean."""
    from sqlalchemy.exc import SAWarning

    beside = os.path.dirname(sys.executable)  # nbgrader starts `alembic` by name when it creates a gradebook
    if beside not in os.environ.get("PATH", "").split(os.pathsep):
        os.environ["PATH"] = os.pathsep.join(filter(None, [beside, os.environ.get("PATH")]))
    warnings.filterwarnings("ignore", category=SAWarning)
    if sys.platform.startswith("linux"):  # elsewhere no submission gets as far as that
        from autograde.classroom.hardening import harden

        harden()


def _settings() -> Config:
    c = Config()
    c.CourseDirectory.course_id = "kvcache"
    ignored = [".ipynb_checkpoints", "*.pyc", "__pycache__", "feedback", ".*"]
    # nbgrader copies what lies beside a lesson's source to students: nothing that looks like an answer
    c.CourseDirectory.ignore = [*ignored, "*_solution*", "*.src.py", "*.md"]
    c.Autograde.sanitize_preprocessors = [
        THEIRS + "ClearOutput",
        THEIRS + "DeduplicateIds",
        THEIRS + "OverwriteKernelspec",
        THEIRS + "OverwriteCells",
        THEIRS + "CheckCellMetadata",
    ]
    c.Autograde.autograde_preprocessors = [
        EXECUTE,
        THEIRS + "SaveAutoGrades",
        THEIRS + "AssignLatePenalties",
        THEIRS + "CheckCellMetadata",
    ]
    c.OverwriteCells.add_missing_cells = True
    c.HTMLExporter.sanitize_html = True
    c.TemplateExporter.filters = {"markdown2html": "autograde.classroom.markdown.to_html"}
    return c
