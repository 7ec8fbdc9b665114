"""An instructor edits a lesson as a notebook in JupyterLab, and its text stays in step.

These run jupytext itself with the course's own jupytext.toml: the gate looks at the form of the texts only.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from autograde.authoring.course import REPOSITORY


@pytest.fixture
def workplace(course):
    """The made-up course with the course's jupytext.toml, and a function that syncs a file of it."""
    shutil.copy(REPOSITORY / "jupytext.toml", course.root)

    def sync(*names):
        command = [sys.executable, "-m", "jupytext", "--sync", *names]
        return subprocess.run(command, cwd=course.root, capture_output=True, text=True, check=True)

    return course, sync


def test_a_round_trip_leaves_the_text_as_it_is_and_an_edit_comes_back_into_it(workplace, edit):
    course, sync = workplace
    text, notebook = course.source(course.lessons[0]), course.root / "workbench" / "01-double.ipynb"
    before = text.read_bytes()
    sync("solutions/01-double.py")
    assert text.read_bytes() == before
    assert '"card": "1.1"' in notebook.read_text()

    edit(notebook, "A small lesson", "A tiny lesson")
    newer = text.stat().st_mtime + 10
    os.utime(notebook, (newer, newer))
    sync("workbench/01-double.ipynb")
    assert text.read_bytes() == before.replace(b"A small lesson", b"A tiny lesson")


def test_built_notebooks_are_not_paired(workplace):
    course, sync = workplace
    names = ["solutions/01-double/01-double.ipynb", "lessons/01-double/01-double.ipynb"]
    assert sync(*names).stderr.count("is not a paired notebook") == 2
    assert not (course.root / "workbench").exists()
