"""The wheel holds the two packages and the course's notebooks, and nothing of a class.

The notebooks are in it, the solved ones too, so that `autograde quickstart` and `reset` work without a checkout. That
gives nothing away: the reference solutions have always been in the package. A submission sees none of it, because the
sandbox masks the package wherever it is installed.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from autograde.course_files import CourseFilesError, course_files

PLACES = {"kvlib": "kvlib", "autograde": "autograde"}
PLACES |= {name: f"autograde/course/{name}" for name in ("lessons", "solutions")}
JUNK = {"__pycache__", ".ipynb_checkpoints"}
PRIVATE = (  # what lies in a tree in use, and belongs in no package
    "classroom/gradebook.db",
    "classroom/.secret",
    "classroom/submitted/ada/01-toy-cache/01-toy-cache.ipynb",
    "lessons/01-toy-cache/.ipynb_checkpoints/01-toy-cache-checkpoint.ipynb",
    "lessons/01-toy-cache/01-toy-cache.before-reset.ipynb",
    "lessons/01-toy-cache/01-toy-cache.before-reset-2.ipynb",
    "solutions/__pycache__/01-toy-cache.cpython-311.pyc",
    "tests/test_private.py",
)


def build(tree: Path, folder: Path, *targets: str) -> None:
    """Build there, with what is installed."""
    options = [option for target in targets for option in ("--target", target)]
    command = [sys.executable, "-m", "hatchling", "build", *options, "--directory", str(folder)]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def built(root: Path, tmp_path_factory) -> Path:
    """A folder with the wheel and the source distribution of a tree in use."""
    if importlib.util.find_spec("hatchling") is None:
        pytest.skip("hatchling is not installed, so no wheel was built: pip install hatchling, or make test")
    tree, folder = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("wheel")
    for name in PLACES:
        shutil.copytree(root / name, tree / name, ignore=shutil.ignore_patterns(*JUNK, "*.before-reset*.ipynb"))
    for name in ("pyproject.toml", ".gitignore", "LICENSE", "LICENSE-PROSE"):
        shutil.copy(root / name, tree)
    for name in PRIVATE:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text("private")
    build(tree, folder, "sdist", "wheel")
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> zipfile.ZipFile:
    """The wheel."""
    [path] = built.glob("*.whl")
    return zipfile.ZipFile(path)


@pytest.fixture(scope="module")
def installed(wheel: zipfile.ZipFile, tmp_path_factory) -> Path:
    """A folder to import from, as pip lays it out."""
    folder = tmp_path_factory.mktemp("site-packages")
    wheel.extractall(folder)
    return folder


def run_installed(installed: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    """Run Python on the wheel's files: the folder stands before the editable install on the path."""
    environment = os.environ | {"PYTHONPATH": str(installed), "AUTOGRADE_PROGRESS": "off"}
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )


def test_holds_every_module_data_file_and_notebook(root, wheel):
    here = {
        f"{there}/{path.relative_to(root / name).as_posix()}"
        for name, there in PLACES.items()
        for path in (root / name).rglob("*")
        if path.is_file() and not JUNK & set(path.parts) and path.suffix != ".pyc" and ".before-reset" not in path.name
    }
    there = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert {"autograde/__init__.py", "autograde/course/lessons/01-toy-cache/01-toy-cache.ipynb"} <= here
    assert "autograde/course/solutions/01-toy-cache.py" in here
    assert there == here


def test_holds_nothing_of_a_class_or_of_a_persons_work(built, wheel):
    [source] = built.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        names = wheel.namelist() + archive.getnames()
    parts = {part for name in names for part in name.split("/")[1:]}
    for name in PRIVATE:
        assert not {Path(name).name} & (parts - {"01-toy-cache.ipynb"}), name
    assert not parts & {"classroom.db", "submitted", "tests", *JUNK}
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"kvlib", "autograde"}


def test_the_source_distribution_makes_the_same_wheel(built, wheel, tmp_path):
    """pip builds from it where there is no wheel."""
    [source] = built.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path, filter="data")
    [tree] = tmp_path.iterdir()
    build(tree, tmp_path / "again", "wheel")
    [again] = (tmp_path / "again").glob("*.whl")
    assert sorted(zipfile.ZipFile(again).namelist()) == sorted(wheel.namelist())


def test_says_what_it_is(wheel, project):
    [entry] = [name for name in wheel.namelist() if name.endswith(".dist-info/entry_points.txt")]
    scripts = wheel.read(entry).decode()
    assert "autograde = autograde.cli:main" in scripts
    assert "kvlib = kvlib.cli:main" in scripts
    assert entry.startswith(f"kvcache_course-{project['version']}.dist-info/")
    licences = {name.rsplit("/", 1)[1] for name in wheel.namelist() if ".dist-info/licenses/" in name}
    assert licences == {"LICENSE", "LICENSE-PROSE"}


def test_a_checkout_and_an_editable_install_use_the_checkouts_notebooks(root):
    assert course_files() == root


def test_an_installed_wheel_uses_its_own_copy(installed, tmp_path):
    for stranger in ("lessons", "solutions"):  # another package's folders, beside ours in site-packages
        (installed / stranger).mkdir(exist_ok=True)
    done = run_installed(installed, tmp_path, "-c", "from autograde.course_files import *; print(course_files())")
    assert Path(done.stdout.strip()) == installed / "autograde" / "course", done.stderr


def test_says_so_where_there_are_no_notebooks(tmp_path):
    with pytest.raises(CourseFilesError, match="neither in .* nor beside"):
        course_files(tmp_path / "autograde")


def test_an_installed_wheel_resets_an_exercise(installed, tmp_path, root):
    released = (root / "lessons/01-toy-cache/01-toy-cache.ipynb").read_bytes()
    notebook = tmp_path / "01.ipynb"
    notebook.write_bytes(released.replace(b"def count_positions(prompt, new):", b"def count_positions(prompt):"))
    done = run_installed(installed, tmp_path, "-m", "autograde", "reset", str(notebook), "1.2")
    assert done.returncode == 0, done.stderr
    assert notebook.read_bytes() == released
