"""Lessons into the gradebook and out to students, and what is refused before anything is written."""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

from autograde.classroom import outlets, record
from autograde.classroom.course import Course, CourseError
from autograde.cli import main

LESSON = "07-tiny"


@pytest.fixture
def release(course: Course) -> Callable[..., int]:
    """`release("--zip", "x.zip")` runs the command for the tiny lesson; other lessons with `lesson=`."""

    def run(*more: str, lesson: str = LESSON) -> int:
        return main(["release", str(course.classroom), lesson, "--course", str(course.root), *more])

    return run


def test_the_gradebook_learns_of_the_lesson_and_of_its_date(course: Course, release: Callable[..., int]) -> None:
    before = sorted((path, path.stat().st_mtime_ns) for path in course.root.rglob("*"))
    assert release("--due", "2027-01-31 18:00+01:00") == 0
    assert release() == 0  # once more, without a date: it stays
    with record.open_gradebook(course) as gradebook:
        lesson = gradebook.find_assignment(LESSON)
        assert lesson.duedate == datetime(2027, 1, 31, 17) and lesson.max_score == 6
    assert sorted((path, path.stat().st_mtime_ns) for path in course.root.rglob("*")) == before


def test_folder_and_zip(course: Course, release: Callable[..., int], tmp_path: Path) -> None:
    assert release("--to", str(tmp_path / "out")) == 0
    assert [p.relative_to(tmp_path / "out").as_posix() for p in (tmp_path / "out").rglob("*.*")] == [
        f"{LESSON}/{LESSON}.ipynb"
    ]
    assert release("--zip", str(tmp_path / "out.zip")) == 0
    with zipfile.ZipFile(tmp_path / "out.zip") as archive:
        assert archive.read(f"{LESSON}/{LESSON}.ipynb") == course.release(LESSON).read_bytes()


def test_what_jupyter_and_reset_left_beside_a_lesson_stays_behind(course: Course, tmp_path: Path) -> None:
    own = Course(Path(shutil.copytree(course.root, tmp_path / "own")), course.classroom)
    folder = own.release(LESSON).parent
    (folder / ".ipynb_checkpoints").mkdir()
    for name in (".ipynb_checkpoints/a.ipynb", f"{LESSON}.before-reset-1.ipynb", "table.csv"):
        (folder / name).write_text("{}")
    outlets.Folder(own, tmp_path / "out").put([LESSON])
    outlets.Zip(own, tmp_path / "out.zip").put([LESSON])
    wanted = [f"{LESSON}/{LESSON}.ipynb", f"{LESSON}/table.csv"]
    there = sorted(path for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert [path.relative_to(tmp_path / "out").as_posix() for path in there] == wanted
    with zipfile.ZipFile(tmp_path / "out.zip") as archive:
        assert sorted(archive.namelist()) == wanted


@pytest.mark.parametrize("part", ["lessons", "solutions"])
def test_the_courses_own_folders_are_no_place_for_them(part: str, course: Course) -> None:
    with pytest.raises(CourseError, match="is the course's own"):
        outlets.Folder(course, course.root / part, force=True).insist([LESSON])


def test_the_exchange(course: Course, release: Callable[..., int], tmp_path: Path) -> None:
    (tmp_path / "exchange").mkdir()
    assert release("--exchange", str(tmp_path / "exchange")) == 0
    out = tmp_path / "exchange" / "kvcache" / "outbound" / LESSON
    assert (out / f"{LESSON}.ipynb").read_bytes() == course.release(LESSON).read_bytes()
    assert release("--exchange", str(tmp_path / "exchange")) == 2
    assert release("--exchange", str(tmp_path / "exchange"), "--force") == 0


@pytest.mark.parametrize("way", ["--to", "--zip", "--exchange"])
def test_a_dry_run_writes_nothing(way: str, release: Callable[..., int], tmp_path: Path, capsys) -> None:
    (tmp_path / "there").mkdir()
    target = {"--to": "out", "--zip": "out.zip", "--exchange": "there"}[way]
    before = sorted(tmp_path.rglob("*"))
    assert release(way, str(tmp_path / target), "--due", "2027-01-31", "--dry-run") == 0
    assert "would be registered, due 2027-01-31" in capsys.readouterr().out
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--zip", "old.zip"], "old.zip is there already; --force replaces it"),
        (["--zip", "none/new.zip"], "--zip: there is no folder"),
        (["--zip", "full"], "--zip: wanted a file, got the folder"),
        (["--to", "full"], "is there already; --force replaces it"),
        (["--to", "old.zip"], "--to: wanted a folder, got the file"),
        (["--to", "old.zip/out"], "--to: wanted a folder, got the file"),
        (["--to", "odd", "--force"], "--to: wanted a folder, got the file"),
        (["--exchange", "none"], "--exchange: there is no folder"),
    ],
)
def test_what_is_in_the_way(
    options: list[str], said: str, release: Callable[..., int], tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old.zip").write_text("mine")
    (tmp_path / "full" / LESSON).mkdir(parents=True)
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / LESSON).write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    assert release(*options) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before and (tmp_path / "old.zip").read_text() == "mine"


def test_an_unknown_lesson_and_a_class_that_is_a_file(course: Course, release: Callable[..., int], capsys) -> None:
    assert release(lesson="99-none") == 2
    assert capsys.readouterr().err == f"release: there is no lesson '99-none'; there are: {LESSON}\n"
    course.classroom.with_name("file").write_text("")
    assert main(["release", str(course.classroom.with_name("file")), LESSON, "--course", str(course.root)]) == 2
    assert "wanted a class's folder, got the file" in capsys.readouterr().err


@pytest.mark.parametrize("options", [["--to", "shut/out"], ["--to", "shut"], ["--zip", "shut/out.zip"]])
def test_a_place_that_cannot_be_written_to_is_found_before_the_gradebook_is(
    options: list[str], course: Course, release: Callable[..., int], tmp_path: Path, monkeypatch, capsys
) -> None:
    (tmp_path / "shut").mkdir()
    monkeypatch.chdir(tmp_path)
    can = os.access
    # As on a file system that is mounted read-only; taking rights away does not stop root.
    monkeypatch.setattr(os, "access", lambda path, *how: "shut" not in str(path) and can(path, *how))
    before = sorted(tmp_path.rglob("*"))
    assert release(*options, "--due", "2027-01-31") == 2
    error = capsys.readouterr().err
    assert f"{tmp_path / 'shut'} cannot be written to" in error and error.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
def test_a_class_below_a_file_is_a_sentence(dry: list[str], course: Course, tmp_path: Path, capsys) -> None:
    (tmp_path / "file").write_text("mine")
    assert main(["release", str(tmp_path / "file" / "class"), LESSON, "--course", str(course.root), *dry]) == 2
    assert capsys.readouterr().err == f"release: wanted a class's folder, got the file {tmp_path / 'file'}\n"


@pytest.mark.parametrize("options", [["--to", "a", "--zip", "b"], ["--due", "tomorrow"]])
def test_options_that_make_no_sense(options: list[str], release: Callable[..., int], tmp_path: Path, capsys) -> None:
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(SystemExit) as stop:
        release(*options)
    error = capsys.readouterr().err
    assert stop.value.code == 2 and ("not allowed with" in error or "wanted a date such as 2027-01-31" in error)
    assert sorted(tmp_path.rglob("*")) == before
