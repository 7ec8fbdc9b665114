"""Running a notebook from top to bottom in a kernel of its own."""

from __future__ import annotations

import copy
import os
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellControlSignal, CellTimeoutError, DeadKernelError
from traitlets.config import Config

from autograde.authoring.course import LessonError
from autograde.authoring.notebook import describe, notebook_metadata
from autograde.lessons import Lesson

# A view points at a widget by a random id that only a live kernel knows; its text stays.
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


def environment(root: Path, scratch: Path) -> dict[str, str]:
    """What a lesson's kernel sees: this course's packages first, and nothing of the author's own settings."""
    path = os.pathsep.join(part for part in (str(root), os.environ.get("PYTHONPATH", "")) if part)
    return os.environ | {
        "AUTOGRADE_PROGRESS": str(scratch / "progress"),
        "IPYTHONDIR": str(scratch / "ipython"),
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        "PYTHONHASHSEED": "0",
        "PYTHONPATH": path,
    }


def execute(
    notebook: nbformat.NotebookNode,
    lesson: Lesson,
    folder: Path,
    root: Path,
    *,
    stop_at_errors: bool = True,
    seconds: int = 120,
) -> nbformat.NotebookNode:
    """An executed copy of a lesson's notebook, run in `folder`, with nothing in it that changes from run to run.

    Raises `LessonError`, naming the cell, for a cell that raises (unless it is tagged raises-exception, or
    `stop_at_errors` is False), that takes more than `seconds`, or that takes the kernel down.
    """
    ran = copy.deepcopy(notebook)
    at: dict[str, Any] = {"cell": None}  # the cell that runs
    with tempfile.TemporaryDirectory() as scratch:
        client = NotebookClient(
            ran,
            config=_kernel_settings(Path(scratch)),
            shutdown_kernel="immediate",
            timeout=seconds,
            allow_errors=not stop_at_errors,
            record_timing=False,
            store_widget_state=False,
            coalesce_streams=True,
            on_cell_start=lambda cell, cell_index: at.update(cell=cell),
        )
        try:
            client.execute(cwd=str(folder), env=environment(root, Path(scratch)))
        except (CellControlSignal, CellTimeoutError, DeadKernelError) as error:
            raise LessonError(lesson.slug, describe(at["cell"]), _what_happened(error)) from error
    ran.metadata = nbformat.from_dict(notebook_metadata(lesson))  # nbclient noted the Python version
    for cell in ran.cells:
        for output in cell.get("outputs", ()):
            output.get("data", {}).pop(WIDGET_VIEW, None)
    return ran


def _kernel_settings(scratch: Path) -> Config:
    """Over TCP each kernel warns that it is not encrypted; sockets in a folder of our own need no encryption.

    Given as settings, because a kernel manager that is handed to nbclient is one whose kernel it leaves running.
    """
    config = Config()
    if os.name != "nt":
        config.KernelManager.transport = "ipc"
        # Without a name the sockets would lie in the working directory, which is not the kernel's.
        config.KernelManager.ip = str(scratch / "kernel")
    return config


def _what_happened(error: Any) -> str:
    if isinstance(error, DeadKernelError):
        return "the kernel died"
    if isinstance(error, CellTimeoutError):
        return str(error).strip().splitlines()[0]
    return f"{error.ename}: {error.evalue}"
