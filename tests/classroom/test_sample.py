"""The sample class: each student shows what their file says, and `demo` grades it without touching a real class."""

from __future__ import annotations

import contextlib
import shutil
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import nbformat
import pytest

from autograde.classroom import sample
from autograde.classroom.cells import is_students
from autograde.classroom.cli import ROOT
from autograde.classroom.course import Course, CourseError
from autograde.classroom.graft import graft
from autograde.classroom.intake import read_cells
from autograde.classroom.sample import MARKER, fill_in, make_class, read_answers
from autograde.cli import main
from autograde.exercises import load
from autograde.judge import judge_here
from autograde.lessons import LESSONS

COURSE = Course(ROOT, ROOT / "classroom" / "demo")
FILES = sorted(sample.sample_folder(COURSE).glob("*/*.py"))
EXERCISES = {lesson.slug: lesson.exercises for lesson in LESSONS}
NAMES = [f"{path.parent.name}/{path.stem}" for path in FILES]


def verdict(exercise_id: str, namespace: dict[str, Any]) -> str:
    """What an exercise is worth, in the words of the files: "full", "part" or "none"."""
    exercise = replace(load()[exercise_id], seconds=1.0)
    work = namespace.get(exercise.name)
    points = judge_here(exercise, work).points if work else 0.0
    return "full" if points == exercise.points else "part" if points else "none"


def test_the_class_is_large_enough_and_shows_every_kind_of_damage() -> None:
    answers = [read_answers(path) for path in FILES]
    assert len([path for path in FILES if path.parent.name == "01-toy-cache"]) >= 12
    assert {what.split()[0] for a in answers for what in a.damage} == {
        "rename", "delete", "break", "lose-ids", "not-json", "empty-file", "new-name"
    }  # fmt: skip
    assert all(a.about and tuple(a.expect) == EXERCISES[p.parent.name] for a, p in zip(answers, FILES, strict=True))


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_answers_are_worth_what_their_file_says(path: Path) -> None:
    """The students' cells alone, after grafting, run in this process: no kernel, and what never ends is left out."""
    lesson, answers = path.parent.name, read_answers(path)
    release = nbformat.read(COURSE.release(lesson), as_version=4)
    if not {"not-json", "empty-file"} & set(answers.damage):
        submitted = nbformat.writes(fill_in(release, answers)).encode()
        release = graft(release, read_cells(submitted))
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for cell in release.cells:
        if is_students(cell) and not cell.source.startswith("total = 0\nwhile"):
            with contextlib.suppress(Exception), warnings.catch_warnings(action="ignore"):
                exec(compile(cell.source, cell.id, "exec"), namespace)
    assert {name: verdict(name, namespace) for name in answers.expect} == answers.expect


@pytest.fixture
def small_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three of the students only: two to run and one to refuse."""
    for name in ("01-toy-cache/hana.py", "01-toy-cache/lucia.py", "02-numpy-cache/hana.py"):
        target = tmp_path / "sample" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(sample.sample_folder(COURSE) / name, target)
    monkeypatch.setattr(sample, "sample_folder", lambda course: tmp_path / "sample")
    return tmp_path


def test_demo_grades_the_real_lessons(small_sample: Path, capsys: pytest.CaptureFixture[str]) -> None:
    classroom = small_sample / "demo"
    assert main(["demo", str(classroom)]) == 0
    said = capsys.readouterr().out
    assert "sandbox: bubblewrap (own namespaces" in said
    assert "1.3: looks like: The numbers are right, but every step projects all tokens again" in said
    assert "not graded: the file is not a notebook (not JSON)" in said
    assert said.count("nothing handed in") == 1  # lucia, lesson 02
    for name in ("gradebook.db", "grades.csv", "nbgrader.csv", "feedback/index.html"):
        assert (classroom / name).stat().st_size > 0
    page = (classroom / "feedback" / "hana" / "01-toy-cache" / "01-toy-cache.html").read_text(encoding="utf-8")
    assert "looks like: The numbers are right" in page


def test_demo_leaves_a_real_class_alone(small_sample: Path, capsys: pytest.CaptureFixture[str]) -> None:
    classroom = small_sample / "class"
    (classroom / "submitted" / "ann").mkdir(parents=True)
    assert main(["demo", str(classroom)]) == 2
    assert "exists and is not a sample class; it is left alone" in capsys.readouterr().err
    assert [path.name for path in classroom.iterdir()] == ["submitted"]


def test_a_sample_class_is_made_afresh(small_sample: Path) -> None:
    course = Course(ROOT, small_sample / "demo")
    assert make_class(course) == 3
    (course.submitted / "old").mkdir()
    assert make_class(course) == 3
    assert (course.classroom / MARKER).exists() and not (course.submitted / "old").exists()


def test_without_a_lesson_there_is_no_class(tmp_path: Path) -> None:
    with pytest.raises(CourseError, match="no lesson"):
        make_class(Course(tmp_path, tmp_path / "demo"))
    assert not (tmp_path / "demo").exists()


def test_grade_says_what_is_wrong_with_the_class(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["grade", str(tmp_path)]) == 2
    assert "there is no folder" in capsys.readouterr().err
