"""Students' pages, written here and in another process."""

from __future__ import annotations

import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from autograde.classroom import feedback, schedule
from autograde.classroom.course import Course
from autograde.classroom.feedback import Pages, write_pages
from autograde.classroom.grade import Options, grade_class
from tests.classroom.conftest import NoWorker

LESSON = "07-tiny"
STUDENTS = ["ann", "bob", "cy", "dan", "eve"]


@pytest.fixture(scope="module")
def recorded(tiny_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Course:
    """A class that is recorded and has no page. Nobody may change it: tests get a copy."""
    course = Course(tiny_root, tmp_path_factory.mktemp("recorded") / "class")
    for student in STUDENTS:
        folder = course.submitted / student / LESSON
        folder.mkdir(parents=True)
        shutil.copy(course.release(LESSON), folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schedule, "grade_job", NoWorker())
        grade_class(course, Options(workers=1), say=lambda line: None)
    for student in STUDENTS:
        page(course, student).unlink()
    return course


@pytest.fixture
def graded(recorded: Course, tmp_path: Path) -> Course:
    """A copy of that class."""
    return replace(recorded, classroom=Path(shutil.copytree(recorded.classroom, tmp_path / "class {b} + (2)")))


def page(course: Course, student: str):
    return course.feedback / student / LESSON / f"{LESSON}.html"


def test_pages_are_written_for_those_who_are_named(graded: Course) -> None:
    assert write_pages(graded, LESSON, ["ann", "cy"]) == [("ann", ""), ("cy", "")]
    assert [student for student in STUDENTS if page(graded, student).exists()] == ["ann", "cy"]


def test_one_page_that_cannot_be_written_costs_no_other(graded: Course) -> None:
    notebook = graded.autograded / "bob" / LESSON / f"{LESSON}.ipynb"
    notebook.chmod(0o644)
    notebook.write_text("{")
    pages = dict(write_pages(graded, LESSON, STUDENTS))
    assert [student for student, problem in pages.items() if problem] == ["bob"]
    assert "bob" in pages["bob"] and page(graded, "eve").exists() and not page(graded, "bob").exists()


def test_the_list_of_points_names_the_exercises(graded: Course) -> None:
    write_pages(graded, LESSON, ["ann"])
    text = page(graded, "ann").read_text(encoding="utf-8")
    assert "Exercise 7.1</a> (Score: " in text and "Test cell" not in text.partition('id="notebook"')[0]


def pages_of(course: Course, monkeypatch: pytest.MonkeyPatch) -> Pages:
    monkeypatch.setattr(feedback, "TOGETHER", 2)
    monkeypatch.setattr(feedback, "WORTH_IT", 2)
    return Pages(course, LESSON, len(STUDENTS), 2)


def test_another_process_writes_them_as_they_are_recorded(graded: Course, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = pages_of(graded, monkeypatch)
    for student in STUDENTS:
        pages.recorded(student)
    (_, first), *_ = pages._started
    assert dict(first.result(timeout=120)) == {"ann": "", "bob": ""}
    assert dict(pages.finish()) == dict.fromkeys(STUDENTS, "")
    pages.close()


def test_when_that_process_is_killed_they_are_written_here(graded: Course, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = pages_of(graded, monkeypatch)
    pages.recorded("ann")
    for process in pages._pool._processes.values():
        os.kill(process.pid, signal.SIGKILL)
    for student in STUDENTS[1:]:
        pages.recorded(student)
    assert dict(pages.finish()) == dict.fromkeys(STUDENTS, "")
    assert all(page(graded, student).exists() for student in STUDENTS)
    pages.close()


def test_a_small_class_needs_no_process(graded: Course) -> None:
    pages = Pages(graded, LESSON, len(STUDENTS), 8)
    assert pages._pool is None
    pages.close()
