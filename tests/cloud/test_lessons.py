"""Lessons on a cloud notebook: the set-up cell brings the course, touches nothing else, and the lessons run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

from tests.cloud.conftest import ROOT, CannotInstall, Machine

LESSONS = ("00-start-here", "01-toy-cache", "02-numpy-cache", "04-torch-gqa-cache")
PLATFORMS_OWN = ("numpy", "torch", "matplotlib", "ipykernel", "ipywidgets")
ROWS = ("Python ", "NumPy ", "torch ", "GPU ", "FP8 storage", "Triton ")


def open_lesson(slug: str, *, solved: bool = False) -> nbformat.NotebookNode:
    """The notebook that students get; solved: with the answers pasted into its cells."""
    notebook = nbformat.read(ROOT / "lessons" / slug / f"{slug}.ipynb", as_version=4)
    if solved:
        answers = nbformat.read(ROOT / "solutions" / slug / f"{slug}.ipynb", as_version=4)
        sources = {cell.id: cell.source for cell in answers.cells if cell.id.startswith("exercise-")}
        for cell in notebook.cells:
            cell.source = sources.get(cell.id, cell.source)
    return notebook


def run(machine: Machine, notebook: nbformat.NotebookNode, folder: Path) -> None:
    """Run a notebook in a kernel of that machine, in a folder that is not the course's."""
    spec = machine.folder / "kernels" / "cloud"
    spec.mkdir(parents=True, exist_ok=True)
    argv = [str(machine.python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (spec / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": "cloud", "language": "python"}))
    specs = KernelSpecManager(kernel_dirs=[str(spec.parent)], ensure_native_kernel=False)
    manager = AsyncKernelManager(kernel_name="cloud", kernel_spec_manager=specs)
    client = NotebookClient(notebook, km=manager, timeout=300, resources={"metadata": {"path": str(folder)}})
    client.execute(env=machine.environment())


def said(cell: nbformat.NotebookNode) -> str:
    """All text that a cell put out."""
    parts: list[Any] = [out.get("text") or out.get("data", {}).get("text/plain", "") for out in cell.outputs]
    return "".join(parts)


def look(notebook: nbformat.NotebookNode, verdict: str) -> None:
    """No traceback and no red anywhere, the table once, and that verdict at every check."""
    checks = 0
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        red = [out for out in cell.outputs if out.output_type == "error" or out.get("name") == "stderr"]
        assert not red, (cell.id, red)
        if cell.id == "set-up":
            assert all(f"\n{row}" in f"\n{said(cell)}" for row in ROWS), said(cell)
            assert "Installing" not in said(cell) and "could not" not in said(cell), said(cell)
        if cell.id.startswith("check-"):
            checks += 1
            assert verdict in said(cell), (cell.id, said(cell))
    assert checks


@pytest.mark.parametrize("numpy", ["2.0.*", "newest"])
def test_lessons_run_unsolved_and_solved_and_the_platform_stays_as_it_was(
    cloud: Machine, copy_of: Callable[[Machine], Machine], tmp_path: Path, numpy: str
):
    machine, folder = copy_of(cloud), tmp_path / "drive"
    folder.mkdir()
    if numpy != "newest":
        try:
            machine.install(f"numpy=={numpy}")
        except CannotInstall as error:
            pytest.skip(str(error))
    before, everything = machine.files(*PLATFORMS_OWN), set(machine.files())
    assert not [name for name in everything if name.startswith(("nbgrader", "autograde", "kvlib", "kvcache"))]
    for slug in LESSONS:
        notebook = open_lesson(slug)
        run(machine, notebook, folder)
        look(notebook, "not implemented yet")
        if slug == LESSONS[0]:
            after = machine.files()
            assert {name.split("/")[0].split("-")[0] for name in set(after) - everything} == {
                "autograde",
                "kvlib",
                "kvcache_course",
            }
    for slug in LESSONS:
        notebook = open_lesson(slug, solved=True)
        run(machine, notebook, folder)
        look(notebook, "passed")
        assert not [cell.id for cell in notebook.cells if cell.id.startswith("check-") and "not passed" in said(cell)]
    assert machine.files() == after, "a later run of the set-up cell installed something"
    assert machine.files(*PLATFORMS_OWN) == before, "something of the platform's was replaced"
