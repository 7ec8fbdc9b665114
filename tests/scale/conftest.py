"""The tiny course of tests/classroom, and what it takes to watch processes come and go."""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing import resource_tracker
from pathlib import Path

import pytest
from joblib.externals.loky import get_reusable_executor
from nbformat import NotebookNode

from autograde.classroom import record, schedule
from autograde.classroom.course import Course
from autograde.classroom.execute import tier_for
from autograde.classroom.job import Job
from autograde.sandbox.template import descendants
from autograde.sandbox.tiers import NoSandbox

_spec = importlib.util.spec_from_file_location("tiny_course", Path(__file__).parents[1] / "classroom" / "conftest.py")
_tiny = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_tiny)
tiny_root, one_alembic, course, release, answered, hand_in = (
    getattr(_tiny, name) for name in ("tiny_root", "one_alembic", "course", "release", "answered", "hand_in")
)

LESSON = _tiny.LESSON
NAIVE = "def softmax(scores):\n    e = np.exp(scores)\n    return e / e.sum(axis=-1, keepdims=True)"
WRONG = "def count_positions(prompt, new):\n    return 0, 0"


@pytest.fixture(scope="session")
def sandbox() -> str:
    """The best sandbox that works here."""
    try:
        return tier_for(False, "")
    except NoSandbox as error:
        pytest.skip(str(error))


@pytest.fixture
def works(answered: NotebookNode) -> Callable[..., NotebookNode]:
    """`works(3)` is the fourth of four kinds of work, 6, 5, 4 and 3 points; `waits=2` makes it sleep for 2 s first."""

    def make(kind: int, waits: float = 0) -> NotebookNode:
        work = copy.deepcopy(answered)
        cells = {cell.id: cell for cell in work.cells}
        if kind & 1:
            cells["exercise-7-1"].source = NAIVE
        if kind & 2:
            cells["exercise-7-2"].source = WRONG
        if waits:
            cells["exercise-7-1"].source += f"\nimport time\ntime.sleep({waits})"
        return work

    return make


@pytest.fixture
def no_worker(monkeypatch: pytest.MonkeyPatch) -> Callable[[Job], dict]:
    """Grading without a worker, for tests of what is done with results: every exercise has 1.0."""

    def grade(job: Job) -> dict:
        exercises = {
            cell.exercise: {"grade_id": cell.grade_id, "points": 1.0, "max": cell.points, "status": "ok", "text": "",
                            "diagnosis": [], "whole": True, "remark": "", "stages": []}
            for cell in job.cells if cell.grade_id
        }  # fmt: skip
        return {"schema": 1, "student": job.student, "lesson": job.lesson, "key": job.key, "sandbox": job.tier,
                "seconds": 0.0, "notes": [], "refused": "", "cells": {}, "exercises": exercises}  # fmt: skip

    monkeypatch.setattr(schedule, "grade_job", grade)
    return grade


@pytest.fixture
def own_tmp(monkeypatch: pytest.MonkeyPatch, end_grading_processes: Callable[[], None]) -> Iterator[Path]:
    """A temporary folder for this test's graders only. Its name tells their processes from others on this machine."""
    folder = Path(tempfile.mkdtemp(prefix="scale-"))
    folder.chmod(0o755)  # root's workers are somebody else
    end_grading_processes()
    resource_tracker.ensure_running()  # this process's own, kept to its end: it must not look like a grader's
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield folder
    end_grading_processes()
    shutil.rmtree(folder)


@pytest.fixture
def end_grading_processes() -> Callable[[], None]:
    """joblib keeps them for the next run, with the environment that they were started with. This ends them."""
    return lambda: get_reusable_executor(timeout=1).shutdown(wait=True, kill_workers=True)


@pytest.fixture
def processes(own_tmp: Path) -> Callable[[str], list[int]]:
    """`processes()` gives this test's grading processes, templates and rooms; `processes("loky")` those so called."""

    def find(name: str = "") -> list[int]:
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                command = Path("/proc", pid, "cmdline").read_bytes()
                known = command + Path("/proc", pid, "environ").read_bytes()
                if str(own_tmp).encode() in known and name.encode() in command and int(pid) != os.getpid():
                    found.append(int(pid))
        return found

    return find


@pytest.fixture
def until() -> Callable[..., bool]:
    """`until(what)` says whether what() comes true. The limit only ends a wait for what never comes.

    A process that is just starting imports for many seconds on a busy machine before it can notice anything.
    """

    def wait(what: Callable[[], object], seconds: float = 300) -> bool:
        end = time.monotonic() + seconds
        while not what():
            if time.monotonic() > end:
                return False
            time.sleep(0.05)
        return True

    return wait


@pytest.fixture
def kill_one(processes, until) -> Callable[..., contextlib.AbstractContextManager[list[int]]]:
    """`with kill_one("loky") as killed` kills one such process while it grades."""

    @contextlib.contextmanager
    def killing(name: str) -> Iterator[list[int]]:
        killed: list[int] = []

        def kill_a_busy_one() -> bool:
            busy = [pid for pid in processes(name) if len(descendants(pid)) > 1]  # more than its template: it grades
            if busy:
                os.kill(busy[0], signal.SIGKILL)
                killed.append(busy[0])
            return bool(killed)

        thread = threading.Thread(target=until, args=(kill_a_busy_one,))
        thread.start()
        yield killed
        thread.join()

    return killing


@pytest.fixture
def marks() -> Callable[[Course], dict]:
    """`marks(course)` is all that the gradebook knows: by student and graded cell, the marks."""

    def read(course: Course) -> dict:
        with record.open_gradebook(course) as gradebook:
            return {
                (submission.student.id, grade.name): (grade.auto_score, grade.manual_score, grade.needs_manual_grade)
                for submission in gradebook.assignment_submissions(LESSON)
                for notebook in submission.notebooks
                for grade in notebook.grades
            }

    return read
