"""Plain nbgrader, with the settings in nbgrader_config.py, on the same class."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from nbformat import NotebookNode

from autograde.classroom import record
from autograde.classroom.cli import ROOT
from autograde.classroom.course import EXECUTE, Course, prepare_process

LESSON = "07-tiny"


def test_nothing_of_nbgraders_runs_code() -> None:
    """Its Execute starts a kernel with the rights of whoever grades."""
    settings = Course(Path("/a"), Path("/a/b")).settings()
    assert settings.Autograde.autograde_preprocessors[0] == EXECUTE
    steps = [*settings.Autograde.autograde_preprocessors, *settings.Autograde.sanitize_preprocessors]
    assert not [step for step in steps if step.endswith(".Execute")]


def test_alembic_is_found_without_an_activated_environment(monkeypatch) -> None:
    """nbgrader starts it by name when it makes a gradebook."""
    monkeypatch.setenv("PATH", "/nowhere")
    assert shutil.which("alembic") is None
    prepare_process()
    assert shutil.which("alembic") is not None
    assert os.environ["PATH"].endswith(os.pathsep + "/nowhere")


def test_plain_nbgrader_grades_what_it_would_stumble_over(
    tiny_root: Path, tmp_path: Path, answered: NotebookNode
) -> None:
    """Alone it would give the first no marks, stop at the second and copy what the third points to."""
    root = tmp_path / "course"
    shutil.copytree(tiny_root, root)
    shutil.copy(ROOT / "nbgrader_config.py", root)
    for package in ("autograde", "kvlib"):
        shutil.copytree(ROOT / package, root / package, ignore=shutil.ignore_patterns("__pycache__"))
    course = Course(root, root / "classroom")
    for cell in answered.cells:
        cell.metadata = NotebookNode()
    answered.cells.insert(4, {**answered.cells[1], "source": "check = lambda name: -1.0", "id": "mine"})
    folder = course.submitted / "ann" / LESSON
    folder.mkdir(parents=True)
    (folder / f"{LESSON}.ipynb").write_text(json.dumps(answered))
    unreadable, linked = (course.submitted / who / LESSON for who in ("bob", "cy"))
    for folder in (unreadable, linked):
        folder.mkdir(parents=True)
    (unreadable / f"{LESSON}.ipynb").write_text("{")
    (linked / f"{LESSON}.ipynb").symlink_to(tmp_path / "outside.txt")
    (linked / "link.txt").symlink_to(tmp_path / "outside.txt")
    (tmp_path / "outside.txt").write_text("not for students")
    record.register(course, LESSON)
    command = [sys.executable, "-m", "nbgrader", "autograde", LESSON]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert record.read_row(course, "ann", LESSON).points == {"0.1": 4.0, "1.2": 2.0}
    for who, why in (("bob", "not JSON"), ("cy", "is a link or could not be opened")):
        row = record.read_row(course, who, LESSON)
        assert row.points == {"0.1": 0.0, "1.2": 0.0}
        assert why in row.notes[0]
    assert not [path for path in course.classroom.rglob("*") if path.name == "link.txt" and not path.is_symlink()]


ELSEWHERE = """
import sys
sys.platform = {system!r}
for name in ("fcntl", "resource", "pwd"):
    sys.modules[name] = None
import os
del os.O_NOFOLLOW, os.O_NONBLOCK
from autograde.cli import main
sys.exit(main({arguments!r}))
"""


@pytest.mark.parametrize("system", ["win32", "darwin"])
@pytest.mark.parametrize("command", ["grade", "demo", "collect"])
def test_elsewhere_than_on_linux_grading_is_refused_in_a_sentence(tmp_path: Path, system: str, command: str) -> None:
    """Before anything is imported that is not there."""
    if command == "grade":
        (tmp_path / "submitted" / "ann").mkdir(parents=True)
    more = ["."] if command == "collect" else []
    arguments = [command, str(tmp_path / ("x" if command == "demo" else ".")), *more]
    source = ELSEWHERE.format(system=system, arguments=arguments)
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert f"needs Linux, which can lock submissions in, and this is {system}" in done.stderr
    assert not (tmp_path / "x").exists()
