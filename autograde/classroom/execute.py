"""The step of nbgrader's autograding that would run a notebook: here it looks its result up, or grades it locked in."""

from __future__ import annotations

from nbformat import NotebookNode
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Bool, Float, Unicode

from autograde.classroom.course import course_at
from autograde.classroom.fill import fill
from autograde.classroom.graft import KEY
from autograde.sandbox.limits import Limits
from autograde.sandbox.tiers import choose, insist_on_linux

_tiers: dict[tuple[bool, str], str] = {}


class SandboxExecute(NbGraderPreprocessor):
    """Takes the place of nbgrader's Execute, so that its commands and formgrader grade as `autograde grade` does."""

    root = Unicode("", help="the course's folder").tag(config=True)
    classroom = Unicode("", help="the class's folder").tag(config=True)
    trusted = Bool(False, help="run submissions with the grader's own rights, without a sandbox").tag(config=True)
    tier = Unicode("", help="use this kind of sandbox only: bubblewrap or landlock").tag(config=True)
    cell_seconds = Float(Limits.cell_seconds, help="seconds that one cell may run").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        """Fill in the outputs and the marks of a grafted notebook."""
        insist_on_linux()
        from autograde.classroom.plan import make_job
        from autograde.classroom.station import grade_job, lesson_called
        from autograde.classroom.store import course_secret, keep_result, load_result

        where = resources["nbgrader"]
        student, lesson = where["student"], where["assignment"]
        course = course_at(self.root, self.classroom)
        limits = Limits(cell_seconds=self.cell_seconds)
        tier = tier_for(self.trusted, self.tier)
        job = make_job(nb, student, lesson, lesson_called(lesson).answers, course_secret(course), tier, limits)
        result = load_result(course, student, lesson, job.key)
        if result is None:
            result = grade_job(job)
            keep_result(course, result)
        nb.metadata.setdefault(KEY, NotebookNode())["notes"] = fill(nb, result)
        nb.metadata[KEY]["sandbox"] = result["sandbox"]
        return nb, resources


def tier_for(trusted: bool, wanted: str) -> str:
    """The tier to use, looked for once in a process."""
    if (trusted, wanted) not in _tiers:
        _tiers[trusted, wanted] = choose(trusted, wanted or None)
    return _tiers[trusted, wanted]
