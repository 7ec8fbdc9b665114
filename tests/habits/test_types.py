"""Type hints: mypy finds nothing in kvlib and autograde, and it would find what is wrong."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mypy"]
NEEDED = ("mypy", "numpy", "torch", "transformers", "nbgrader", "matplotlib")  # without a package its hints are missing
WRONG = """
import numpy as np

def hinted(rows: np.ndarray | None) -> int:
    return rows.size

def bare():
    number: int = "seven"
    return number

fine: int = 3  # type: ignore[assignment]
"""

pytestmark = pytest.mark.skipif(
    any(find_spec(name) is None for name in NEEDED), reason=f"needs all of {', '.join(NEEDED)}"
)


def mypy(cache: Path, *arguments: object) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "mypy", "--cache-dir", cache, *arguments]
    return subprocess.run(list(map(str, command)), cwd=ROOT, capture_output=True, encoding="utf-8")


def test_nothing_is_found(tmp_path):
    done = mypy(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"no issues found in \d{3} source files", done.stdout)


def test_an_error_would_be_found(tmp_path):
    file = tmp_path / "planted.py"
    file.write_text(WRONG, encoding="utf-8")
    done = mypy(tmp_path / "cache", "--config-file", ROOT / "pyproject.toml", file)
    codes = re.findall(r":(\d+): error: .*\[([\w-]+)\]", done.stdout)
    assert done.returncode == 1
    assert codes == [("5", "union-attr"), ("8", "assignment"), ("11", "unused-ignore")], done.stdout


def test_both_packages_are_looked_into():
    assert SETTINGS["files"] == ["kvlib", "autograde"]
    left_out = [one["module"] for one in SETTINGS["overrides"] if one.get("ignore_errors")]
    assert left_out == [["autograde.exercises.*.candidates"]]


def test_an_exception_names_what_it_is_and_why():
    for path in (path for package in SETTINGS["files"] for path in (ROOT / package).rglob("*.py")):
        for line in path.read_text(encoding="utf-8").splitlines():
            if "# type: ignore" in line:
                assert re.search(r"# type: ignore\[[\w, -]+\]  # \S+ \S+", line), (
                    f"{path.relative_to(ROOT)}: {line.strip()}"
                )
