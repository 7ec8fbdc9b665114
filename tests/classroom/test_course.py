"""Plain nbgrader, with the settings in nbgrader_config.py, on the same class."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from nbformat import NotebookNode

from autograde.classroom import record
from autograde.classroom.cli import ROOT
from autograde.classroom.course import EXECUTE, Course, prepare_process

LESSON = "07-tiny"


def test_one_class_runs_the_code_and_it_is_named_once() -> None:
    settings = Course(Path("/a"), Path("/a/b")).settings()
    assert settings.Autograde.autograde_preprocessors[0] == EXECUTE
    sources = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "autograde" / "classroom").glob("*.py")}
    assert [name for name, text in sources.items() if '"execute.TrustingExecute"' in text] == ["course.py"]


def test_alembic_is_found_without_an_activated_environment(monkeypatch) -> None:
    """nbgrader starts it by name when it makes a gradebook."""
    monkeypatch.setenv("PATH", "/nowhere")
    assert shutil.which("alembic") is None
    prepare_process()
    assert shutil.which("alembic") is not None
    assert os.environ["PATH"].endswith(os.pathsep + "/nowhere")


def test_plain_nbgrader_grades_a_damaged_notebook(tiny_root: Path, tmp_path: Path, answered: NotebookNode) -> None:
    """`nbgrader autograde` alone would give this one no marks, and a silent check full ones."""
    root = tmp_path / "course"
    shutil.copytree(tiny_root, root)
    shutil.copy(ROOT / "nbgrader_config.py", root)
    shutil.copytree(ROOT / "autograde", root / "autograde", ignore=shutil.ignore_patterns("__pycache__"))
    course = Course(root, root / "classroom")
    for cell in answered.cells:
        cell.metadata = NotebookNode()
    answered.cells.insert(4, {**answered.cells[1], "source": "check = lambda name: None", "id": "mine"})
    folder = course.submitted / "ann" / LESSON
    folder.mkdir(parents=True)
    (folder / f"{LESSON}.ipynb").write_text(json.dumps(answered))
    record.register(course, LESSON)
    command = [sys.executable, "-m", "nbgrader", "autograde", LESSON]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    row = record.read_row(course, "ann", LESSON)
    assert row.points == {"7.1": 4.0, "7.2": 0.0}
    assert "7.2: the check gave no mark" in row.notes
