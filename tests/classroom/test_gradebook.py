"""A gradebook that is not there is not made by those who only look, and one that is none is named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from nbformat import NotebookNode

from autograde.classroom import record
from autograde.classroom.course import Course, CourseError
from autograde.classroom.grade import grade_class
from autograde.classroom.preview import preview


@pytest.fixture
def handed_in(course: Course, hand_in: Callable[..., Path], answered: NotebookNode) -> Course:
    hand_in("ann", answered)
    return course


def test_looking_makes_no_gradebook(handed_in: Course, tmp_path: Path) -> None:
    elsewhere = replace(handed_in, db_url=f"sqlite:///{tmp_path / 'typo.db'}")
    for course in (handed_in, elsewhere):
        with pytest.raises(CourseError, match="there is no gradebook"):
            record.insist_on_graded(course)
        preview(course)
    assert not (tmp_path / "typo.db").exists() and not (handed_in.classroom / "gradebook.db").exists()


def test_an_empty_file_is_none(handed_in: Course) -> None:
    (handed_in.classroom / "gradebook.db").touch()
    with pytest.raises(CourseError, match="there is no gradebook"):
        record.insist_on_graded(handed_in)


@pytest.mark.parametrize("kind", ["text", "folder"])
@pytest.mark.parametrize("command", [record.insist_on_graded, preview, grade_class])
def test_what_is_no_database_is_named(handed_in: Course, kind: str, command) -> None:
    file = handed_in.classroom / "gradebook.db"
    if kind == "folder":
        (file / "inside").mkdir(parents=True)
    else:
        file.write_text("marks: all good\n")
    with pytest.raises(CourseError, match=r"the gradebook sqlite:.*gradebook\.db does not work: "):
        command(handed_in)
