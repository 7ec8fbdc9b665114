"""Where a course and a class live, and the nbgrader settings that follow from it."""

from __future__ import annotations

import os
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path

from traitlets.config import Config

OURS, THEIRS = "autograde.classroom.", "nbgrader.preprocessors."
EXECUTE = OURS + "execute.TrustingExecute"  # the one class that runs students' code
GRAFT = OURS + "graft.Graft"


class CourseError(Exception):
    """Something is wrong with the course or the class folder, as opposed to with one submission."""


@dataclass(frozen=True)
class Course:
    """The course (`root`: solutions/ and lessons/) and one class of it (`classroom`: submitted/ and all results)."""

    root: Path
    classroom: Path
    cell_timeout: int = 30  # seconds; a check alone may take 10

    @property
    def submitted(self) -> Path:
        """Students' work as it came in: submitted/STUDENT/LESSON/LESSON.ipynb. Never written to."""
        return self.classroom / "submitted"

    @property
    def clean(self) -> Path:
        """What is graded: the released notebook with a student's answers in it."""
        return self.classroom / "clean"

    @property
    def autograded(self) -> Path:
        """The executed and marked notebooks."""
        return self.classroom / "autograded"

    @property
    def feedback(self) -> Path:
        """The pages for students."""
        return self.classroom / "feedback"

    @property
    def gradebook(self) -> Path:
        """nbgrader's database."""
        return self.classroom / "gradebook.db"

    @property
    def grades(self) -> Path:
        """Our table of marks."""
        return self.classroom / "grades.csv"

    def release(self, lesson: str) -> Path:
        """The notebook that students were given."""
        return self.root / "lessons" / lesson / f"{lesson}.ipynb"

    def source(self, lesson: str) -> Path:
        """The notebook that it was made from."""
        return self.root / "solutions" / lesson / f"{lesson}.ipynb"

    def settings(self) -> Config:
        """nbgrader settings with the course as its root: for `nbgrader` commands and formgrader."""
        c = _settings(self.root)
        c.Execute.timeout = self.cell_timeout
        steps, classroom = c.CourseDirectory, os.path.relpath(self.classroom, self.root)
        steps.root = str(self.root)
        steps.source_directory, steps.release_directory = "solutions", "lessons"
        for step in ("submitted", "autograded", "feedback", "solution", "source_with_tests"):
            steps[f"{step}_directory"] = os.path.join(classroom, step)
        steps.db_url = self._db_url
        c.ZipCollectApp.downloaded_directory = os.path.join(classroom, "downloaded")
        return c

    def grading_settings(self) -> Config:
        """The same with the class as its root and `clean` as what is graded.

        nbgrader escapes only its root when it matches paths, so a class folder named "C++ (2)" has to be the root.
        """
        c = self.settings()
        steps = c.CourseDirectory
        steps.root = str(self.classroom)
        steps.source_directory, steps.submitted_directory = str(self.root / "solutions"), "clean"
        steps.autograded_directory, steps.feedback_directory = "autograded", "feedback"
        c.Autograde.sanitize_preprocessors.remove(GRAFT)  # done, and its notes would be lost
        return c

    @property
    def _db_url(self) -> str:
        return f"sqlite:///{self.gradebook}?timeout=60"  # seconds to wait for a lock; the default is 5


def course_at(root: str | os.PathLike[str], classroom: str | os.PathLike[str], cell_timeout: int = 30) -> Course:
    """A course from two paths, made absolute."""
    return Course(Path(root).resolve(), Path(classroom).resolve(), cell_timeout)


def prepare_process() -> None:
    """Make nbgrader work in this process: `alembic` is found, and its session warnings stay quiet."""
    from sqlalchemy.exc import SAWarning

    beside = os.path.dirname(sys.executable)  # nbgrader starts `alembic` by name when it creates a gradebook
    if beside not in os.environ.get("PATH", "").split(os.pathsep):
        os.environ["PATH"] = os.pathsep.join(filter(None, [beside, os.environ.get("PATH")]))
    warnings.filterwarnings("ignore", category=SAWarning)


def _settings(root: Path) -> Config:
    c = Config()
    c.CourseDirectory.course_id = "kvcache"
    ignored = [".ipynb_checkpoints", "*.pyc", "__pycache__", "feedback", ".*"]
    # nbgrader copies what lies beside a lesson's source to students: nothing that looks like an answer
    c.CourseDirectory.ignore = [*ignored, "*_solution*", "*.src.py", "*.md"]
    c.Autograde.sanitize_preprocessors = [
        THEIRS + "ClearOutput",
        GRAFT,
        THEIRS + "DeduplicateIds",
        THEIRS + "OverwriteKernelspec",
        THEIRS + "OverwriteCells",
        THEIRS + "CheckCellMetadata",
    ]
    c.Autograde.autograde_preprocessors = [
        EXECUTE,
        THEIRS + "IgnorePattern",
        THEIRS + "LimitOutput",
        OURS + "marks.Marks",
        THEIRS + "SaveAutoGrades",
        THEIRS + "AssignLatePenalties",
        THEIRS + "CheckCellMetadata",
    ]
    c.Graft.lessons = str(root / "lessons")
    c.TrustingExecute.course_root = str(root)
    c.OverwriteCells.add_missing_cells = True
    c.LimitOutput.max_lines = 200
    c.IgnorePattern.enabled = True  # else a warning on stderr costs a graded cell all its points
    c.IgnorePattern.pattern = r"(Warning|warn\()"
    c.HTMLExporter.sanitize_html = True
    return c
