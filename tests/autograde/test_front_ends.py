"""The same check in plain Python, in IPython and in a kernel, and what nbgrader itself makes of its output.

nbgrader gives a test cell that ends in nothing, False, a NumPy scalar, a negative number or NaN full marks, and one
with a line on stderr none. Each of these traps is shown with the naive cell, and then avoided by `check`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat import NotebookNode
from nbgrader.utils import determine_grade

from autograde.exercises import load

ROOT = Path(__file__).resolve().parents[2]
FULL = float(load()["1.1"].points)

# What a test cell of 4 points ends with, and what nbgrader gives for it, whatever was meant.
NAIVE = {
    "empty output": ("passed = False", 4.0),
    "False": ("2 + 2 == 5", 4.0),
    "a failure that is only printed": ("print('FAILED')", 4.0),
    "a NumPy scalar": ("np.float64(0.5)", 4.0),
    "a torch scalar": ("import torch\ntorch.tensor(0.5)", 4.0),
    "a negative number": ("-1.0", 4.0),
    "NaN": ("float('nan')", 4.0),
    "HTML": ("from IPython.display import HTML\nHTML('<b>0 points</b>')", 4.0),
    "a line on stderr": ("print('mind the step', file=sys.stderr)\n4.0", 0.0),
    "a warning": ("warnings.warn('mind the step')\n4.0", 0.0),
}

# What a learner hands in as `attend`.
WORK = {
    "full": "attend = right",
    "partial": "def attend(q, K, V):\n    return right(q, K, V) if len(K) == 1 else np.float64(0.5)",
    "zero": "def attend(q, K, V):\n    return False",
    "untouched": "def attend(q, K, V):\n    raise NotImplementedError",
    "undefined": "del attend",
    "raising": "def attend(q, K, V):\n    raise ValueError('<script>alert(1)</script>')",
    "exiting": "def attend(q, K, V):\n    raise SystemExit",
    "negative": "def attend(q, K, V):\n    return -V[0]",
    "NaN": "def attend(q, K, V):\n    return np.nan * V[0]",
    "printing": "def attend(q, K, V):\n    print('FAILED')\n    return right(q, K, V)",
    "on stderr": "def attend(q, K, V):\n    print('mind', file=sys.stderr)\n    return right(q, K, V)",
    "warning": (
        "def attend(q, K, V):\n    warnings.simplefilter('always')\n    warnings.warn('mind')\n"
        "    return right(q, K, V)"
    ),
    "logging": (
        "import logging\nlogging.basicConfig()\n"
        "def attend(q, K, V):\n    logging.error('mind')\n    return right(q, K, V)"
    ),
}

# Each trap, with the work for which `check` would have fallen into it.
AVOIDED = {
    "empty output": "undefined",
    "False": "zero",
    "a failure that is only printed": "raising",
    "a NumPy scalar": "partial",
    "a torch scalar": "partial",
    "a negative number": "negative",
    "NaN": "NaN",
    "HTML": "untouched",
    "a line on stderr": "on stderr",
    "a warning": "warning",
}


def graded(name: str, source: str, points: float) -> NotebookNode:
    """A test cell as nbgrader wants it."""
    tag = {"schema_version": 3, "grade_id": name, "grade": True, "locked": True, "solution": False, "task": False}
    return nbformat.v4.new_code_cell(source, metadata={"nbgrader": tag | {"points": points}})


@pytest.fixture(scope="session")
def cells(tmp_path_factory: pytest.TempPathFactory) -> dict[str, NotebookNode]:
    """Every cell by its name, run from top to bottom in one kernel."""
    code = nbformat.v4.new_code_cell
    imports = ("import sys, warnings", "import numpy as np", "from autograde import check")
    setup = "\n".join((*imports, "from kvlib.attention import attend as right"))
    notebook = nbformat.v4.new_notebook(cells=[code(setup)])
    named = {}
    for name, (source, _) in NAIVE.items():
        named[name] = graded(name, source, 4)
        notebook.cells.append(named[name])
    for name, source in WORK.items():
        named[f"check {name}"] = graded(f"check {name}", 'check("1.1")', FULL)
        named[f"returned {name}"] = code('returned = check("1.1")\nprint()\nprint(type(returned) is float, returned)')
        notebook.cells += [code(source), named[f"check {name}"], named[f"returned {name}"]]
    folder = tmp_path_factory.mktemp("kernel")
    path = os.pathsep.join(part for part in (str(ROOT), os.environ.get("PYTHONPATH", "")) if part)
    environment = {"PYTHONPATH": path, "AUTOGRADE_PROGRESS": str(folder / "progress"), "IPYTHONDIR": str(folder)}
    client = NotebookClient(notebook, timeout=120, allow_errors=True, kernel_name="python3")
    client.execute(cwd=str(folder), env=os.environ | environment)
    return named


def streams(cell: NotebookNode, name: str) -> str:
    return "".join(output.text for output in cell.outputs if output.output_type == "stream" and output.name == name)


def card(cell: NotebookNode) -> dict[str, str]:
    """What the verdict was shown as."""
    return next(output.data for output in cell.outputs if output.output_type == "display_data")


@pytest.mark.parametrize("name", WORK)
def test_nbgraders_score_is_the_float_that_check_returns(cells, name) -> None:
    """Nothing on stderr, no error, and exactly one number for nbgrader to find."""
    cell = cells[f"check {name}"]
    score, most = determine_grade(cell)
    is_float, returned = streams(cells[f"returned {name}"], "stdout").split()[-2:]
    assert is_float == "True"
    assert most == FULL
    assert score == float(returned)
    assert streams(cell, "stderr") == ""
    assert [output.output_type for output in cell.outputs].count("execute_result") == 1
    if name in ("full", "printing", "on stderr", "warning", "logging"):
        assert score == FULL
    elif name == "partial":
        assert 0.0 < score < FULL
    else:
        assert score == 0.0


@pytest.mark.parametrize("trap", NAIVE)
def test_a_trap_of_nbgraders_is_avoided(cells, trap) -> None:
    """The naive cell gets marks that it does not deserve, or loses those that it does; the check's cell does not."""
    source, given = NAIVE[trap]
    if "torch" in source and find_spec("torch") is None:
        pytest.skip("torch is not installed")
    naive = cells[trap]
    assert all(output.output_type != "error" for output in naive.outputs)
    assert determine_grade(naive) == (given, 4.0)
    score, _ = determine_grade(cells[f"check {AVOIDED[trap]}"])
    if given == 0.0:
        assert score == FULL
    else:
        assert score < FULL


def test_a_kernel_shows_a_card_and_keeps_the_text(cells) -> None:
    """JupyterLab shows the card; a front end without HTML, nbgrader's feedback and a diff show the text."""
    shown = card(cells["check zero"])
    assert shown["text/plain"].startswith(f"1.1 attend: not passed, 0.0 of {FULL:.0f} points\n  [FAILED] one key")
    assert shown["text/html"].startswith("<div style=")
    assert "returned False, wanted an array" in shown["text/html"]
    assert streams(cells["check zero"], "stdout") == ""


def test_a_card_runs_nothing_of_the_learners(cells) -> None:
    """An exception's message is text, also in a browser."""
    shown = card(cells["check raising"])
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in shown["text/html"]
    assert "<script" not in shown["text/html"]
    assert "<script>alert(1)</script>" in " ".join(shown["text/plain"].split())


def test_what_comes_before_a_verdict_is_text_everywhere(cells) -> None:
    """There is nothing to draw where the name is missing."""
    assert "`attend` is not defined" in streams(cells["check undefined"], "stdout")


SCRIPT = f"""
from autograde import check
{WORK["negative"]}
print("returned", check("1.1"))
"""


def run(*command: str, home: Path) -> str:
    """What a command prints, which must be all on stdout."""
    environment = os.environ | {"AUTOGRADE_PROGRESS": "off", "HOME": str(home), "IPYTHONDIR": str(home), "TERM": "dumb"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize(
    "command", [("-c", SCRIPT), ("-m", "IPython", "--simple-prompt", "--colors=NoColor", "-c", SCRIPT)]
)
def test_a_terminal_shows_the_same_text_as_a_notebook(command, home, cells) -> None:
    """One verdict, wherever it is read: in plain Python, in IPython, in a kernel."""
    text = card(cells["check negative"])["text/plain"]
    assert "1.1 attend: not passed, 0.0" in text
    assert run(sys.executable, *command, home=home) == f"{text}\nreturned 0.0\n"
