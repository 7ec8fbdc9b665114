"""The command `export`, from a grades.csv alone: what it writes, what it says, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from autograde.cli import main

GRADES = "student,lesson,7.1,late_penalty,total,max,note\nann,07-tiny,4,0,4,6,\neve\u202e,07-tiny,1,0,1,6,\n"
CANVAS = "Student,ID,SIS Login ID,Section,07-tiny (9)\n    Points Possible,,,,6\nAnn,1,ann,A,\n"


@pytest.fixture
def export(classroom: Path) -> Callable[..., int]:
    """`export("--lms", "moodle")` runs the command on a class that has grades.csv and no gradebook."""
    (classroom / "grades.csv").write_text(GRADES, encoding="utf-8")
    return lambda *more: main(["export", str(classroom), *more])


def test_canvas(classroom: Path, export: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "export.csv").write_text(CANVAS)
    assert export("--lms", "canvas", "--canvas-template", str(tmp_path / "export.csv")) == 0
    assert "not done  eve?: no row has this login or id" in capsys.readouterr().out
    assert (classroom / "report" / "canvas.csv").read_text().splitlines()[2] == "Ann,1,ann,A,4"


def test_canvas_by_another_name(classroom: Path, export: Callable[..., int], tmp_path: Path) -> None:
    (tmp_path / "export.csv").write_text(CANVAS.replace("07-tiny", "Tiny one"))
    options = ["--lms", "canvas", "--canvas-template", str(tmp_path / "export.csv")]
    assert export(*options, "--column", "07-tiny=Tiny one") == 0
    assert (classroom / "report" / "canvas.csv").read_text().splitlines()[2] == "Ann,1,ann,A,4"


def test_moodle(classroom: Path, export: Callable[..., int]) -> None:
    assert export("--lms", "moodle", "--moodle-id", "username", "--column", "07-tiny=Tiny one") == 0
    lines = (classroom / "report" / "moodle.csv").read_text(encoding="utf-8").splitlines()
    assert lines == ["Username,Tiny one", "ann,4", "eve\u202e,1"]


def test_a_dry_run_writes_nothing(classroom: Path, export: Callable[..., int], capsys: pytest.CaptureFixture) -> None:
    before = sorted(classroom.rglob("*"))
    assert export("--lms", "moodle", "--moodle-id", "username", "--dry-run") == 0
    assert "would be written" in capsys.readouterr().out
    assert sorted(classroom.rglob("*")) == before


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "there is no gradebook in"),
        (["--lms", "canvas"], "--lms canvas needs --canvas-template FILE"),
        (["--lms", "canvas", "--canvas-template", "x.csv", "--roster", "r.csv"], "--roster goes with --lms moodle"),
        (["--lms", "moodle", "--canvas-template", "x.csv"], "--canvas-template goes with --lms canvas"),
        (["--moodle-id", "id"], "--moodle-id goes with --lms moodle"),
        (["--column", "07-tiny=Tiny"], "--column goes with --lms"),
        (["--lms", "moodle", "--lesson", "09-none"], "wanted grades of 09-none, found 07-tiny"),
    ],
)
def test_what_is_refused(
    options: list[str], said: str, classroom: Path, export: Callable[..., int], capsys: pytest.CaptureFixture
) -> None:
    before = sorted(classroom.rglob("*"))
    assert export(*options) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
    assert sorted(classroom.rglob("*")) == before


def test_a_class_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    assert main(["export", str(tmp_path / "file")]) == 2
    assert "wanted a class's folder, got the file" in capsys.readouterr().err
    assert main(["export", str(tmp_path / "none")]) == 2
    assert "wanted a class's folder, got nothing at" in capsys.readouterr().err


def test_a_column_needs_an_equals_sign(export: Callable[..., int]) -> None:
    with pytest.raises(SystemExit):
        export("--lms", "moodle", "--column", "07-tiny")
