"""The wheel holds the course's two packages, and none of what students must not get with them."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory) -> zipfile.ZipFile:
    """The wheel, built from the tree as it is, with what is installed."""
    if importlib.util.find_spec("hatchling") is None:
        pytest.skip("hatchling is not installed, so no wheel was built: pip install hatchling, or make test")
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout + done.stderr
    [path] = folder.glob("*.whl")
    return zipfile.ZipFile(path)


def test_holds_every_module_and_data_file(root, wheel):
    here = {
        path.relative_to(root).as_posix()
        for package in ("kvlib", "autograde")
        for path in (root / package).rglob("*")
        if path.is_file() and not {"__pycache__", ".ipynb_checkpoints"} & set(path.parts) and path.suffix != ".pyc"
    }
    there = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert "autograde/__init__.py" in here
    assert there == here


def test_holds_no_tests_and_no_solutions(wheel):
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} <= {"kvlib", "autograde"}
    assert not [name for name in wheel.namelist() if name.endswith(".ipynb")]


def test_says_what_it_is(wheel, project):
    [entry] = [name for name in wheel.namelist() if name.endswith(".dist-info/entry_points.txt")]
    scripts = wheel.read(entry).decode()
    assert "autograde = autograde.cli:main" in scripts
    assert "kvlib = kvlib.cli:main" in scripts
    assert entry.startswith(f"kvcache_course-{project['version']}.dist-info/")
    licences = {name.rsplit("/", 1)[1] for name in wheel.namelist() if ".dist-info/licenses/" in name}
    assert licences == {"LICENSE", "LICENSE-PROSE"}
