"""The container for VS Code and codespaces: what it runs when it starts is in the Makefile."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SETTINGS = json.loads((ROOT / ".devcontainer/devcontainer.json").read_text(encoding="utf-8"))
COMMANDS = [SETTINGS["postCreateCommand"], SETTINGS["postAttachCommand"]]


def test_the_image_has_a_name_and_a_version_that_the_course_runs_on():
    name, _, version = SETTINGS["image"].partition(":")
    assert name and re.search(r"3\.1[123]\b", version)
    assert "features" not in SETTINGS
    assert SETTINGS["forwardPorts"] == [8888]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_made_of_targets_of_the_makefile(command, tmp_path):
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    program, *targets = command.split()
    assert program == "make" and targets
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    done = subprocess.run(
        ["make", "--dry-run", *targets], cwd=tmp_path, capture_output=True, encoding="utf-8", stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stderr
    assert "lab" in done.stdout


def test_the_editor_gets_python_jupyter_and_ruff():
    extensions = {name.split(".")[-1] for name in SETTINGS["customizations"]["vscode"]["extensions"]}
    assert extensions >= {"python", "jupyter", "ruff"}
