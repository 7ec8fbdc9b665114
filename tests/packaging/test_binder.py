"""What a Binder service reads. No such service was asked: the files are held against the rest of the project."""

from __future__ import annotations

import json
import os
import re
import subprocess

from autograde import address


def test_it_installs_the_course_with_the_versions_of_everybody_else(root, project):
    text = (root / "binder/requirements.txt").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert lines[0] == "-c ../constraints.txt"
    assert "--extra-index-url https://download.pytorch.org/whl/cpu" in lines  # nowhere else is a +cpu build
    [torch] = [line for line in lines if line.startswith("torch")]
    pins = (root / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert torch.removesuffix("+cpu") in pins and torch.endswith("+cpu")
    [course] = [line for line in lines if line.startswith("-e")]
    assert re.fullmatch(r"-e \.\[(\w+)\]", course)[1] in project["optional-dependencies"]
    version = (root / "binder/runtime.txt").read_text(encoding="utf-8").strip()
    assert version == f"python-{project['requires-python'].split(',')[0].removeprefix('>=')}"


def test_what_runs_after_it_writes_settings(root, tmp_path):
    script = root / "binder/postBuild"
    assert os.access(script, os.X_OK)
    fake = tmp_path / "python"
    fake.write_text(f'#!/bin/sh\necho "{tmp_path}/env"\n')
    fake.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(["bash", script], env=os.environ | {"PATH": path}, stdin=subprocess.DEVNULL)
    assert done.returncode == 0
    settings = json.loads((tmp_path / "env/share/jupyter/lab/settings/overrides.json").read_text(encoding="utf-8"))
    wanted = {"fetchNews": "false", "checkForUpdates": False}
    assert settings == {"@jupyterlab/apputils-extension:notification": wanted}


def test_its_link_opens_a_lesson_that_is_there(root):
    page = (root / "docs/install.md").read_text(encoding="utf-8")
    [link] = re.findall(r"https://mybinder\.org/v2/gh/([^)\s]+)", page)
    place, _, opens = link.partition("?urlpath=lab/tree/")
    assert place == "/".join([*address.REPOSITORY.split("/")[-2:], address.BRANCH])
    assert (root / opens).is_file()
