"""A new course's folder: what is in it, what is refused, and that nbgrader works there from the installed package."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from autograde.classroom import quickstart
from autograde.classroom.where import CHECKOUT
from autograde.cli import main

LESSON = "01-toy-cache"


def test_a_folder_of_one_lesson(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    folder = tmp_path / "my course"
    assert main(["quickstart", str(folder), "--lesson", LESSON]) == 0
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*")}
    assert files == {
        *(".gitignore", "nbgrader_config.py", "classroom", "classroom/README.md", "classroom/submitted"),
        *("lessons", f"lessons/{LESSON}", f"lessons/{LESSON}/{LESSON}.ipynb"),
        *("solutions", f"solutions/{LESSON}.py", f"solutions/{LESSON}", f"solutions/{LESSON}/{LESSON}.ipynb"),
    }
    page = (folder / "classroom" / "README.md").read_text(encoding="utf-8")
    for command in ("release", "collect", "grade", "feedback", "export", "report"):
        assert f"autograde {command} classroom" in page
    assert LESSON in page and "next: cd" in capsys.readouterr().out


def test_what_was_left_beside_a_lesson_stays_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "source"
    for part in ("lessons", "solutions"):
        for left in (".ipynb_checkpoints", "__pycache__"):
            (source / part / LESSON / left).mkdir(parents=True)
        for name in (LESSON, f"{LESSON}.before-reset-1"):
            (source / part / LESSON / f"{name}.ipynb").write_text("{}")
    (source / "solutions" / f"{LESSON}.py").write_text("")
    monkeypatch.setattr(quickstart, "course_files", lambda: source)
    assert main(["quickstart", str(tmp_path / "new")]) == 0
    for part in ("lessons", "solutions"):
        assert [path.name for path in (tmp_path / "new" / part / LESSON).iterdir()] == [f"{LESSON}.ipynb"]


def test_all_lessons_by_default(tmp_path: Path) -> None:
    assert main(["quickstart", str(tmp_path)]) == 0  # an empty folder will do
    assert sorted(p.name for p in (tmp_path / "lessons").iterdir()) == sorted(
        p.name for p in (CHECKOUT / "lessons").iterdir()
    )


def test_a_dry_run_makes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["quickstart", str(tmp_path / "new"), "--dry-run"]) == 0
    assert list(tmp_path.iterdir()) == []
    assert "would make" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("before", "options", "said"),
    [
        ("folder", [], "holds something; it is left alone"),
        ("file", [], "wanted a new folder, got the file"),
        ("file", ["--dry-run"], "wanted a new folder, got the file"),
        ("link", [], "wanted a new folder, got the link to nothing"),
        ("", ["--lesson", "99-none"], "there is no lesson '99-none'; there are: 00-start-here"),
    ],
)
def test_what_is_refused(before: str, options: list[str], said: str, tmp_path: Path, capsys) -> None:
    target = tmp_path / "target"
    if before == "folder":
        target.mkdir()
        (target / "mine.txt").write_text("mine")
    if before == "file":
        target.write_text("mine")
    if before == "link":
        target.symlink_to("nothing")
    old = sorted(tmp_path.rglob("*"))
    assert main(["quickstart", str(target), *options]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == old


@pytest.mark.parametrize("options", [[], ["--dry-run"]])
@pytest.mark.parametrize("inside", ["below", "n" * 300])
def test_a_folder_that_cannot_be_made_is_a_sentence(inside: str, options: list[str], tmp_path: Path, capsys) -> None:
    (tmp_path / "file").write_text("mine")
    assert main(["quickstart", str(tmp_path / ("file" if inside == "below" else "") / inside), *options]) == 2
    error = capsys.readouterr().err
    assert "quickstart: wanted a new folder, got" in error and error.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_nbgrader_reads_the_folders_settings(tmp_path: Path) -> None:
    """The package is found where it is installed: nothing of the folder's own is on the path."""
    main(["quickstart", str(tmp_path / "my"), "--lesson", LESSON])
    code = (
        "from traitlets.config import PyFileConfigLoader as P; c = P('nbgrader_config.py', '.').load_config();"
        "print(c.CourseDirectory.root, c.CourseDirectory.submitted_directory, c.CourseDirectory.db_url)"
    )
    environment = {key: value for key, value in os.environ.items() if key not in ("CLASSROOM", "GRADEBOOK")}
    environment["PYTHONPATH"] = str(CHECKOUT)
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        cwd=tmp_path / "my", env=environment, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout.split()[0] == str(tmp_path / "my")
    assert "classroom/submitted" in done.stdout and "gradebook.db" in done.stdout
