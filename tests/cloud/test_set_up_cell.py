"""The set-up cell with a real pip, on a machine that has next to nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cloud.conftest import ROOT, CannotInstall, Machine, _new

LESSON = json.loads((ROOT / "lessons" / "01-toy-cache" / "01-toy-cache.ipynb").read_text(encoding="utf-8"))
CELL = next("".join(cell["source"]) for cell in LESSON["cells"] if cell["id"] == "set-up")


@pytest.fixture
def bare(tmp_path: Path, wheel: Path) -> Machine:
    """Python and pip, no NumPy."""
    try:
        return _new(tmp_path / "machine", wheel)
    except CannotInstall as error:
        pytest.skip(str(error))


def test_it_brings_the_course_and_numpy_and_then_only_looks(bare: Machine) -> None:
    first = bare.run("-c", CELL, KVCOURSE_SOURCE=str(bare.wheel))
    if "could not be installed" in first.stdout:
        pytest.skip(first.stdout.splitlines()[0])
    assert first.returncode == 0, first.stderr
    assert "Installing matplotlib ..." in first.stdout and "\nNumPy " in first.stdout
    again = bare.run("-c", CELL + "\nfrom autograde import check", KVCOURSE_SOURCE="/nowhere")
    assert again.returncode == 0 and again.stdout.startswith("Python "), again.stdout + again.stderr


def test_it_says_why_pip_failed(bare: Machine) -> None:
    """A kernel asks for colours, and pip then ends with a line that only resets them."""
    done = bare.run("-c", CELL, KVCOURSE_SOURCE="/nowhere/course.whl", FORCE_COLOR="1")
    [said] = done.stdout.splitlines()
    assert said.startswith("The course could not be installed from /nowhere/course.whl: ERROR: ")
    assert "\x1b" not in said
