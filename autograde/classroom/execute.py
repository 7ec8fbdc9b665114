"""Runs a submission's cells. This is the only module that executes students' code.

A replacement is a preprocessor that fills in `cell.outputs` of every code cell, appends to the notebook's notes, and
says in `sandbox` what protects the machine. It is named in one place, `course.EXECUTE`.
"""

from __future__ import annotations

import os
import tempfile
import time
from typing import Any

import nbformat
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from nbgrader.preprocessors import Execute
from traitlets import Dict, Integer, Unicode

from autograde.classroom.graft import KEY, NOT_RUN, STOPPED, cell_name

OUT_OF_TIME = "the cell ran out of time"
MAX_LENGTH = 1_000_000  # characters of output kept of one cell


class TrustingExecute(Execute):
    """nbgrader's Execute, with the grader's own rights, that always comes to an end and never fails a batch."""

    sandbox = "none (run only submissions you trust)"

    course_root = Unicode("", help="put on the kernel's import path").tag(config=True)
    total_timeout = Integer(300, help="seconds for a whole notebook").tag(config=True)
    error_on_timeout = Dict({"ename": STOPPED, "evalue": OUT_OF_TIME, "traceback": [OUT_OF_TIME]})

    def preprocess(self, nb: NotebookNode, resources: dict, km: Any = None) -> tuple[NotebookNode, dict]:
        """Run the notebook from top to bottom, unless it was refused."""
        self.notes = nb.metadata.setdefault(KEY, NotebookNode()).setdefault("notes", [])
        self.stopped, self.length = "", 0
        self.deadline = time.monotonic() + self.total_timeout
        if not nb.metadata[KEY].get("refused"):
            with tempfile.TemporaryDirectory(prefix="kernel-") as self.sockets:
                super().preprocess(nb, resources, km)
        return nb, resources

    def create_kernel_manager(self) -> Any:
        """A kernel behind sockets in a folder of ours: quieter than TCP, and closed to other users."""
        manager = super().create_kernel_manager()
        manager.transport, manager.ip = "ipc", os.path.join(self.sockets, "k")
        return manager

    def start_new_kernel(self, **kwargs: Any) -> None:
        """Start the kernel with the course on its import path."""
        paths = filter(None, [self.course_root, os.environ.get("PYTHONPATH")])
        kwargs["env"] = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        super().start_new_kernel(**kwargs)

    def preprocess_cell(self, cell: NotebookNode, resources: dict, index: int) -> tuple[NotebookNode, dict]:
        """Run one cell. Once the kernel is lost, or the time for the notebook is up, later cells are not run."""
        if cell.cell_type != "code":
            return cell, resources
        if not self.stopped and time.monotonic() > self.deadline:
            self._stop(f"the notebook ran longer than {self.total_timeout} s in all")
        if self.stopped:
            cell.outputs = [nbformat.v4.new_output("error", ename=NOT_RUN, traceback=[f"not run: {self.stopped}"])]
            return cell, resources
        self.length = 0
        try:
            super().preprocess_cell(cell, resources, index)
        except (DeadKernelError, CellTimeoutError) as error:
            died = isinstance(error, DeadKernelError)
            text = "the Python process ended" if died else "the cell could not be interrupted"
            cell.outputs.append(nbformat.v4.new_output("error", ename=STOPPED, evalue=text, traceback=[text]))
            self._stop(f"{text} in {cell_name(cell)}; what follows was not run")
        if any(output.get("ename") == STOPPED for output in cell.outputs) and not self.stopped:
            self.notes.append(f"{cell_name(cell)} was stopped after {self.timeout} s")
        return cell, resources

    def output(self, outs: list, msg: dict, display_id: str | None, cell_index: int) -> NotebookNode | None:
        """Keep an output, up to `MAX_LENGTH` characters in a cell: a loop that prints must not fill the memory."""
        content = msg["content"]
        size = len(content["text"]) if "text" in content else sum(map(len, map(str, content.get("data", {}).values())))
        if self.length + size > MAX_LENGTH:
            return None
        self.length += size
        return super().output(outs, msg, display_id, cell_index)

    def _stop(self, why: str) -> None:
        self.stopped = why
        self.shutdown_kernel = "immediate"
        self.notes.append(why)
