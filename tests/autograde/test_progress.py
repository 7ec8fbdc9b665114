"""The little file with what passes, which must never be in the way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from autograde import check
from autograde.exercises import load as load_exercises
from autograde.lessons import LESSONS
from autograde.progress import keep, load, progress, progress_file
from kvlib.attention import attend

FULL = float(load_exercises()["1.1"].points)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for progress that does not exist yet."""
    folder = tmp_path / "some" / "where"
    monkeypatch.setenv("AUTOGRADE_PROGRESS", str(folder))
    return folder


def test_a_check_is_kept_in_the_home(home) -> None:
    """Tomorrow the kernel is gone; what passes is not."""
    check("1.1", attend)
    assert json.loads((home / ".kvcourse" / "progress.json").read_text()) == {"1.1": FULL}
    check("1.1", lambda q, K, V: None)
    check("1.2", lambda prompt, new: None)
    assert load() == {"1.1": 0.0, "1.2": 0.0}, "the newest check counts"


def test_another_folder(home, folder) -> None:
    """A machine whose home is thrown away, as on a cloud notebook, has another place."""
    keep("1.1", 2.0)
    assert load() == {"1.1": 2.0}
    assert (folder / "progress.json").is_file()
    assert list(home.iterdir()) == []
    assert [path.name for path in folder.iterdir()] == ["progress.json"], "no temporary file is left"


@pytest.mark.parametrize(("name", "value"), [("AUTOGRADE_PROGRESS", "off"), ("NBGRADER_EXECUTION", "autograde")])
def test_nothing_is_kept(home, monkeypatch, name, value) -> None:
    """Switched off; or nbgrader runs somebody's notebook in the instructor's home."""
    monkeypatch.setenv(name, value)
    assert progress_file() is None
    check("1.1", attend)
    assert load() == {}
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"3", b'{"1.1": "x"}', b"\xff\xfe", b"[" * 100_000])
def test_a_spoilt_file_counts_as_empty(folder, content, capsys) -> None:
    """A full disk or an editor left half a file. The next check writes a whole one."""
    folder.mkdir(parents=True)
    (folder / "progress.json").write_bytes(content)
    assert load() == {}
    progress()
    keep("1.1", 1.0)
    assert load() == {"1.1": 1.0}


def blocked(folder: Path) -> None:
    folder.parent.mkdir(parents=True)
    folder.write_text("a file where the folder should be")


def occupied(folder: Path) -> None:
    (folder / "progress.json" / "full").mkdir(parents=True)


@pytest.mark.parametrize("spoil", [blocked, occupied])
def test_a_folder_that_cannot_be_used(folder, spoil, checked) -> None:
    """Marks do not depend on a disk."""
    spoil(folder)
    assert load() == {}
    assert checked("1.1", attend).points == FULL
    progress()
    assert not [path for path in folder.parent.rglob("tmp*") if path.is_file()], "no temporary file is left"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission(folder, checked) -> None:
    """A home on a read-only share."""
    folder.mkdir(parents=True)
    folder.chmod(0o500)
    try:
        assert checked("1.1", attend).points == FULL
    finally:
        folder.chmod(0o700)


def test_without_a_home(monkeypatch, checked) -> None:
    """A container whose user has no home raised RuntimeError out of the check."""

    def nobody() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nobody)
    assert checked("1.1", attend).points == FULL
    assert load() == {}


def test_the_file_is_whole_at_every_moment(folder) -> None:
    """Two notebooks check at once. Whoever reads in between reads an old file or a new one, never half of one."""
    keep("1.1", 1.0)
    code = "from autograde.progress import keep\nfor i in range(300): keep(f'1.{i % 40}', float(i))"
    root = Path(__file__).resolve().parents[2]
    writers = [subprocess.Popen([sys.executable, "-c", code], cwd=root) for _ in range(2)]
    reads = 0
    while any(writer.poll() is None for writer in writers):
        assert json.loads((folder / "progress.json").read_text())
        reads += 1
    assert [writer.returncode for writer in writers] == [0, 0]
    assert reads > 0


def test_progress_is_told_lesson_by_lesson(folder, capsys) -> None:
    """Passed, partly, not tried; and the points of each lesson and of all."""
    keep("1.1", FULL)
    keep("1.2", 0.5)
    progress()
    out = capsys.readouterr().out
    lines = {line.split()[0]: " ".join(line.split()) for line in out.splitlines()}
    full = load_exercises()["1.2"].points
    assert lines["1.1"] == "1.1 attend passed"
    assert lines["1.2"] == f"1.2 count_positions 0.5 of {full}"
    assert lines["1.3"] == "1.3 ToyCache not tried"
    assert f"{FULL + 0.5:.1f} of {LESSONS[1].points} points" in lines["01-toy-cache"]
    in_all = sum(lesson.points for lesson in LESSONS)
    assert f"{FULL + 0.5:.1f} of {in_all} points" in " ".join(out.splitlines()[-1].split())
