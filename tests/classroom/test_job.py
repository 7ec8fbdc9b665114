"""What a job holds, and what its key stands for."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import pytest
from nbformat import NotebookNode

from autograde.classroom import job as job_module
from autograde.classroom.graft import graft, refused
from autograde.classroom.intake import StudentCell, keep
from autograde.classroom.job import Job
from autograde.classroom.plan import make_job, seed
from autograde.lessons import LESSONS
from autograde.sandbox.limits import Limits

LESSON = "07-tiny"


def job_of(notebook: NotebookNode, student: str = "ann", secret: str = "s", answers: tuple[str, ...] = ()) -> Job:
    return make_job(notebook, student, LESSON, answers, secret, "bubblewrap", Limits())


@pytest.fixture
def grafted(release: NotebookNode, answered: NotebookNode) -> NotebookNode:
    own = StudentCell("code", "from kvlib import toy")
    return graft(release, [*filter(None, map(keep, answered.cells)), own])


def test_cells_up_to_the_last_check_are_kept(grafted: NotebookNode) -> None:
    job = job_of(grafted)
    assert [(cell.name, cell.exercise, cell.points, cell.students) for cell in job.cells] == [
        ("setup", "", 0.0, False),
        ("exercise-7-1", "", 0.0, True),
        ("check-7-1", "0.1", 4.0, False),
        ("exercise-7-2", "", 0.0, True),
        ("check-7-2", "1.2", 2.0, False),
    ]
    assert not any(cell.source for cell in job.cells if cell.exercise)


def test_the_key_follows_everything_that_the_result_depends_on(
    grafted: NotebookNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = job_of(grafted)
    before = job.key
    assert job_of(grafted).key == before
    others = {
        job_of(grafted, "bob").key,
        job_of(grafted, secret="t").key,
        replace(job, tier="landlock").key,
        replace(job, limits=Limits(memory=1)).key,
        replace(job, cells=job.cells[1:]).key,
        job_of(refused(grafted, "why")).key,
    }
    changed = next(cell for cell in grafted.cells if cell.id == "exercise-7-1")
    changed.source += "\n"
    others.add(job_of(grafted).key)
    monkeypatch.setattr(job_module, "grader_version", lambda: "another")
    others.add(job.key)
    assert len(others) == 8 and before not in others


def test_seeds_differ_by_secret_student_and_exercise_and_do_not_tell_the_secret() -> None:
    seeds = {seed(a, b, c) for a in ("s", "t") for b in ("ann", "bob") for c in ("0.1", "1.2")}
    assert len(seeds) == 8
    assert seed("s|a", "b", "c") != seed("s", "a|b", "c") != seed("s", "a", "b|c")


def test_a_job_travels_without_the_secret_or_a_path(grafted: NotebookNode) -> None:
    secret = "a-secret-that-must-stay-here"
    travelling = pickle.dumps(job_of(grafted, secret=secret))
    assert secret.encode() not in travelling and b"/home" not in travelling and b"/tmp/" not in travelling
    assert pickle.loads(travelling) == job_of(grafted, secret=secret)


@pytest.mark.parametrize(
    ("source", "left_out"),
    [
        ("from kvlib import toy", True),
        ("from kvlib.toy import ToyCache", True),
        ("import kvlib.toy as t\nprint(t)", True),
        ("if True:\n    from kvlib import plots, toy", True),
        ("from kvlib import plots", False),
        ("toy = 1", False),
        ("%matplotlib inline", False),
    ],
)
def test_cells_of_the_lessons_own_that_need_an_answer_are_left_out(
    release: NotebookNode, source: str, left_out: bool
) -> None:
    next(cell for cell in release.cells if cell.id == "setup").source = source
    (cell,) = [cell for cell in job_of(release, answers=("kvlib.toy",)).cells if cell.name == "setup"]
    assert cell.left_out == ("not run while grading: kvlib.toy answers an exercise of this lesson" * left_out)


def test_a_students_cell_is_never_left_out(release: NotebookNode) -> None:
    """It runs, and the import says why it is refused."""
    notebook = graft(release, [StudentCell("code", "from kvlib import toy")])
    (own,) = [cell for cell in job_of(notebook, answers=("kvlib.toy",)).cells if cell.id == "own-1"]
    assert own.students and not own.left_out


def test_what_takes_long_to_import_is_imported_once_where_the_lesson_speaks_of_it(release: NotebookNode) -> None:
    assert job_of(release).preload == ()
    next(cell for cell in release.cells if cell.id == "setup").source += "\nimport torch"
    assert job_of(release).preload == ("torch",)
    own = graft(release, [StudentCell("code", "import matplotlib")])
    assert job_of(own).preload == ("torch",)


def test_every_lesson_of_the_course_makes_a_job() -> None:
    """Every graded cell checks an exercise that the lesson lists, in order."""
    import nbformat

    from autograde.classroom.cli import ROOT

    for lesson in LESSONS:
        notebook = nbformat.read(ROOT / "lessons" / lesson.slug / f"{lesson.slug}.ipynb", as_version=4)
        job = make_job(notebook, "ann", lesson.slug, lesson.answers, "s", "bubblewrap", Limits())
        assert tuple(cell.exercise for cell in job.cells if cell.grade_id) == lesson.exercises
        json.dumps(job.seeds)


def test_the_set_up_cell_is_not_run(grafted: NotebookNode) -> None:
    """It is for the learner's machine: in here there is nothing to install, and nothing to install it from."""
    grafted.cells[1].id = "set-up"
    cell = next(cell for cell in job_of(grafted).cells if cell.id == "set-up")
    assert cell.left_out.startswith("not run while grading")
