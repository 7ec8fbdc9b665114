"""`collect --exchange`: what was handed in there is placed, and what is no exchange is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograde.classroom.course import Course
from autograde.cli import main

LESSON = "07-tiny"


def collect(course: Course, *more: str) -> int:
    return main(["collect", str(course.classroom), "--course", str(course.root), *more])


def test_work_in_the_exchange_is_placed(course: Course, tmp_path: Path) -> None:
    folder = tmp_path / "exchange" / "kvcache" / "inbound" / f"ann+{LESSON}+2026-01-02 10:00:00.0 UTC+Xy1"
    folder.mkdir(parents=True)
    (folder / f"{LESSON}.ipynb").write_bytes(course.release(LESSON).read_bytes())
    assert collect(course, "--exchange", str(tmp_path / "exchange")) == 0
    assert (course.submitted / "ann" / LESSON / f"{LESSON}.ipynb").is_file()
    assert "2026-01-02 10:00:00" in (course.submitted / "ann" / LESSON / "timestamp.txt").read_text()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "wanted a folder, a zip or a notebook, or --exchange; got none"),
        (["--exchange", "none"], "nobody handed in through this exchange"),
    ],
)
def test_what_is_refused(options: list[str], said: str, course: Course, tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    assert collect(course, *options) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


def test_a_class_that_is_a_file(course: Course, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "file").write_text("mine")
    assert main(["collect", str(tmp_path / "file"), str(tmp_path), "--course", str(course.root)]) == 2
    assert "wanted a class's folder, got the file" in capsys.readouterr().err
