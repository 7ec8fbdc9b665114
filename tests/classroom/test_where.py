"""Which course a command works on."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograde.classroom import where
from autograde.classroom.course import CourseError


def make(folder: Path) -> Path:
    for part in ("lessons", "solutions"):
        (folder / part).mkdir(parents=True)
    return folder


def test_what_is_named_counts_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named, here = make(tmp_path / "named"), make(tmp_path / "here")
    monkeypatch.chdir(here)
    assert where.course_root(named) == named
    assert where.course_root(None) == here


def test_a_class_is_of_the_course_that_it_lies_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs, here = make(tmp_path / "theirs"), make(tmp_path / "here")
    monkeypatch.chdir(tmp_path)
    assert where.course_root(None, Path("theirs/classroom")) == theirs
    monkeypatch.chdir(here)
    assert where.course_root(None, Path("../theirs/classroom")) == theirs
    assert where.course_root(None, Path("classroom")) == here
    assert where.course_root(None, tmp_path / "elsewhere") == here
    assert where.course_root(here, Path("../theirs/classroom")) == here


def test_the_checkout_is_the_last_resort(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert where.course_root(None) == where.CHECKOUT


def test_folders_beside_an_installed_package_are_no_course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(where, "CHECKOUT", make(tmp_path / "site-packages"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CourseError, match="no course: wanted .*autograde quickstart FOLDER"):
        where.course_root(None)


def test_a_folder_that_is_no_course_is_named(tmp_path: Path) -> None:
    with pytest.raises(CourseError, match="--course: there is no folder"):
        where.course_root(tmp_path / "none")
    for part in ("lessons", "solutions"):
        (tmp_path / part / part).mkdir(parents=True)
        with pytest.raises(CourseError, match="--course: wanted a folder with solutions/ and lessons/"):
            where.course_root(tmp_path / part)
