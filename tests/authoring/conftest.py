"""A small made-up course, built once a session, and copies of it to break."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode

from autograde.authoring.build import build
from autograde.authoring.course import Course
from autograde.authoring.execute import environment
from autograde.exercise import Exercise
from autograde.lessons import Lesson

SOURCES = Path(__file__).parent / "course"
LESSONS = (
    Lesson("01-double", "Doubling", 5, ("1.1", "1.2"), ("kvlib.numbers",), ()),
    Lesson("02-add-up", "Adding up", 1, ("2.1",), ("kvlib.later",), ()),
)


def exercise(exercise_id: str, name: str, points: int) -> Exercise:
    """An exercise that a card and hints can be written from. Its stages are the stand-in's business."""
    return Exercise(
        id=exercise_id,
        name=name,
        title=f"Write {name}",
        goal=f"Write `{name}` so that it does what it says.",
        points=points,
        minutes=5,
        difficulty=2,
        hints=("Look at the name.", "Use `+`:\n\n```python\n1 + 1\n```", "It is one line."),
        stages=(),
        reference=None,
        mistakes=(),
        variants=(),
    )


def registry() -> dict[str, Exercise]:
    """The made-up exercises by id."""
    found = (exercise("1.1", "double", 2), exercise("1.2", "triple", 3), exercise("2.1", "add_up", 1))
    return {one.id: one for one in found}


def made_up(root: Path) -> Course:
    """The made-up course as it lies in `root`."""
    return Course(root=root, lessons=LESSONS, registry=registry, words=(10, 40), code_lines=40)


@pytest.fixture(scope="session")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Course:
    """The built course. Nobody may change it."""
    root = tmp_path_factory.mktemp("pristine") / "course"
    shutil.copytree(SOURCES, root, ignore=shutil.ignore_patterns("__pycache__"))
    course = made_up(root)
    build(course, say=lambda line: None)
    return course


@pytest.fixture
def course(pristine: Course, tmp_path: Path) -> Course:
    """A copy of the built course, to break."""
    return replace(pristine, root=Path(shutil.copytree(pristine.root, tmp_path / "course")))


@pytest.fixture
def edit_notebook() -> Callable[[Path, Callable[[NotebookNode], object]], None]:
    """`edit_notebook(file, change)`: read a notebook, call `change(notebook)`, write it back unchecked."""

    def edit_notebook(file: Path, change: Callable[[NotebookNode], object]) -> None:
        notebook = nbformat.from_dict(json.loads(file.read_text(encoding="utf-8")))
        change(notebook)
        file.write_text(json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")

    return edit_notebook


@pytest.fixture
def edit() -> Callable[[Path, str, str], None]:
    """`edit(file, old, new)`: replace a text that must be there, the first time that it stands there."""

    def edit(file: Path, old: str, new: str) -> None:
        text = file.read_text(encoding="utf-8")
        assert old in text, f"{old!r} is not in {file.name}"
        file.write_text(text.replace(old, new, 1), encoding="utf-8")

    return edit


@pytest.fixture
def nbval(tmp_path: Path) -> Callable[[Course, Lesson], subprocess.CompletedProcess[str]]:
    """`nbval(course, lesson)`: run a committed solution again and compare every output with the stored one.

    Cells tagged nbval-ignore-output only have to run. It is a pytest of its own, in a copy of the lesson's folder, so
    that neither this suite's settings nor what a lesson writes gets in the way.
    """

    def run(course: Course, lesson: Lesson) -> subprocess.CompletedProcess[str]:
        folder = shutil.copytree(course.solution(lesson).parent, tmp_path / "nbval" / lesson.slug)
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--color=no", f"--rootdir={folder}"]
        command += ["--nbval", "--nbval-current-env", "--nbval-cell-timeout=60", f"{lesson.slug}.ipynb"]
        outer = ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "PYTEST_CURRENT_TEST")
        env = {name: value for name, value in environment(course.root, tmp_path).items() if name not in outer}
        return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)

    return run
