"""The pre-commit hooks: their versions are the course's, and on a scratch repository they do what they say."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import yaml

ROOT = Path(__file__).parents[2]
[REPOSITORY] = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
HOOKS = {hook["id"]: hook for hook in REPOSITORY["hooks"]}
PINS = dict(
    line.lower().replace("_", "-").split("==")
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    if "==" in line
)
LESSONS = sorted((ROOT / "lessons").glob("*/*.ipynb"))
PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
# What JupyterLab writes into a notebook that somebody runs and saves.
KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
LANGUAGE = {"codemirror_mode": {"name": "ipython", "version": 3}, "nbconvert_exporter": "python", "version": "3.12.1"}


@pytest.fixture
def repository(tmp_path):
    """A git repository with the course's settings and the hook's script."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    for name in ("pyproject.toml", ".ci/strip_lessons.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    git(tmp_path, "init", "--quiet")
    return tmp_path


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, encoding="utf-8").stdout


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    git(folder, "add", name)
    return path


def run(folder: Path, hook: str, *more: str) -> int:
    """Run a hook's command over the files that pre-commit would give it."""
    settings = HOOKS[hook]
    names = [name for name in git(folder, "ls-files").splitlines() if re.search(settings.get("files", ""), name)]
    names = [name for name in names if not re.search(settings.get("exclude", "^$"), name)]
    if "python" in settings.get("types_or", ()):
        names = [name for name in names if name.endswith(".py")]
    program, *arguments = settings["entry"].split()
    found = shutil.which(program, path=PATH)
    if found is None:
        pytest.skip(f"{program} is not installed")
    environment = {**os.environ, "PATH": PATH}
    return subprocess.run(
        [found, *arguments, *more, *names], cwd=folder, env=environment, capture_output=True
    ).returncode


def as_run(text: str) -> str:
    """A lesson as JupyterLab saves it after all its cells ran."""
    notebook = nbformat.reads(text, as_version=nbformat.NO_CONVERT)
    notebook.metadata.kernelspec = nbformat.from_dict(KERNEL)
    notebook.metadata.language_info.update(LANGUAGE)
    notebook.metadata["widgets"] = {"application/vnd.jupyter.widget-state+json": {"state": {}}}
    for number, cell in enumerate(notebook.cells):
        if cell.cell_type == "code":
            cell.execution_count = number
            cell.outputs = [nbformat.v4.new_output("stream", text="said\n")]
            cell.metadata.update(collapsed=False, scrolled=True, execution={"iopub.status.busy": "now"}, trusted=True)
            cell.metadata.setdefault("jupyter", {})["outputs_hidden"] = False
    return nbformat.writes(notebook) + "\n"


def test_versions_are_the_courses():
    needed = {need for hook in HOOKS.values() for need in hook["additional_dependencies"]}
    for need in needed:
        name, version = need.lower().replace("_", "-").split("==")
        assert PINS.get(name) == version, f"{need}: constraints.txt has {PINS.get(name)}"


def test_nothing_comes_from_a_code_host():
    assert REPOSITORY["repo"] == "local"
    assert {hook["language"] for hook in HOOKS.values()} == {"python"}
    assert all(hook["additional_dependencies"] for hook in HOOKS.values())


def test_a_badly_formatted_file_is_mended(repository):
    path = write(repository, "bad.py", "import os\nimport sys\nprint( sys.path )\n")
    assert run(repository, "ruff-check") == 0  # --fix took the import out
    assert run(repository, "ruff-format") == 0
    assert path.read_text(encoding="utf-8") == "import sys\n\nprint(sys.path)\n"


def test_what_ruff_cannot_mend_stops_the_commit(repository):
    write(repository, "bad.py", "print(nobody)\n")
    assert run(repository, "ruff-check") == 1


def test_lessons_that_were_run_get_the_builders_bytes_back(repository):
    names = {lesson.relative_to(ROOT).as_posix(): lesson.read_bytes() for lesson in LESSONS}
    for name, data in names.items():
        assert write(repository, name, as_run(data.decode())).read_bytes() != data
    assert run(repository, "strip-lessons") == 1
    assert len(names) >= 13 and {name: (repository / name).read_bytes() for name in names} == names
    assert run(repository, "strip-lessons") == 0


def test_answers_in_a_lesson_stay(repository):
    notebook = nbformat.read(LESSONS[1], as_version=nbformat.NO_CONVERT)
    cell = next(cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("solution"))
    cell.source = "mine = 1"
    path = write(repository, "lessons/01-toy-cache/01-toy-cache.ipynb", nbformat.writes(notebook) + "\n")
    before = path.read_bytes()
    assert run(repository, "strip-lessons") == 0
    assert path.read_bytes() == before


def test_a_solved_notebook_keeps_its_outputs(repository):
    text = as_run(LESSONS[1].read_text(encoding="utf-8"))
    path = write(repository, "solutions/01-toy-cache/01-toy-cache.ipynb", text)
    assert run(repository, "strip-lessons") == 0
    assert path.read_text(encoding="utf-8") == text


def test_what_is_no_notebook_is_named_and_left(repository):
    path = write(repository, "lessons/a/a.ipynb", "{")
    assert run(repository, "strip-lessons") == 2
    assert path.read_text(encoding="utf-8") == "{"


def test_spaces_at_the_end_of_a_line_are_taken_out(repository):
    path = write(repository, "notes.md", "one  \ntwo\n")
    assert run(repository, "trailing-whitespace") == 1
    assert path.read_text(encoding="utf-8") == "one\ntwo\n"
    kept = [write(repository, name, "one  \n") for name in ("LICENSE-PROSE", "lessons/a.ipynb")]
    assert run(repository, "trailing-whitespace") == 0
    assert {path.read_text(encoding="utf-8") for path in kept} == {"one  \n"}


def test_merge_markers_stop_the_commit(repository):
    write(repository, "notes.md", "<<<<<<< mine\none\n=======\ntwo\n>>>>>>> theirs\n")
    assert run(repository, "merge-markers", "--assume-in-merge") == 1


def test_a_large_file_stops_the_commit(repository):
    write(repository, "small.txt", "a" * 1_000_000)
    assert run(repository, "large-files") == 0
    write(repository, "large.txt", "a" * 1_600_000)
    assert run(repository, "large-files") == 1
