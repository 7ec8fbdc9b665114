"""Files that are no notebooks, notebooks that are broken, names that are paths; and a whole class of all kinds."""

# ruff: noqa: E501 - what is handed in stays on one line where it can
from __future__ import annotations

import copy
import json
import os
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat import NotebookNode

from autograde.classroom.course import Course
from autograde.classroom.grade import Options, grade_class
from autograde.classroom.plan import make_job
from autograde.classroom.run import run_job
from autograde.classroom.take_in import take_in
from autograde.exercises import load
from autograde.sandbox.limits import Limits
from autograde.sandbox.tiers import BUBBLEWRAP
from tests.classroom.conftest import LESSON
from tests.hostile.conftest import Watched

BOM = b"\xef\xbb\xbf"


def text(notebook: NotebookNode) -> bytes:
    return nbformat.writes(notebook).encode()


def deep(notebook: NotebookNode) -> bytes:
    return b'{"cells": ' + b"[" * 100_000 + b"]" * 100_000 + b', "nbformat": 4}'


def many(notebook: NotebookNode) -> bytes:
    return json.dumps({"cells": [{"cell_type": "code", "source": "1"}] * 800, "nbformat": 4, "metadata": {}}).encode()


REFUSED: dict[str, Callable[[NotebookNode], bytes]] = {
    "E01 half a file": lambda nb: text(nb)[:500],
    "E01 an empty file": lambda nb: b"",
    "E01 a list": lambda nb: b"[]",
    "E01 a number": lambda nb: b"1",
    "E01 random bytes": lambda nb: os.urandom(2000),
    "E01 UTF-16": lambda nb: text(nb).decode().encode("utf-16"),
    "E01 a zip": lambda nb: b"PK\x03\x04" + bytes(100),
    "E01 JSON twice": lambda nb: text(nb) * 2,
    "E03 format 3": lambda nb: text(nb).replace(b'"nbformat": 4', b'"nbformat": 3'),
    "E03 format 4.5 as a text": lambda nb: text(nb).replace(b'"nbformat": 4', b'"nbformat": "4"'),
    "E04 six megabytes": lambda nb: text(nb) + b" " * (6 << 20),
    "E04 800 cells": many,
    "E04 a cell of 300 kB": lambda nb: text(nb).replace(b"import numpy", b"#" * 300_000 + b"\\nimport numpy"),
    "E04 100,000 lists deep": deep,
    "E04 a number of 10,000 digits": lambda nb: text(nb).replace(b'"nbformat": 4', b'"nbformat": ' + b"4" * 10_000),
    "E05 cells are null": lambda nb: b'{"cells": null, "nbformat": 4}',
    "E05 cells are an object": lambda nb: b'{"cells": {}, "nbformat": 4}',
}
PLACES: dict[str, Callable[[Path, Path], Any]] = {
    "E07 a FIFO": lambda path, other: os.mkfifo(path),
    "E07 a folder": lambda path, other: path.mkdir(),
    "E07 nothing": lambda path, other: None,
    "E07 a device": lambda path, other: path.symlink_to("/dev/zero"),
    "B11 a link to the gradebook": lambda path, other: path.symlink_to(other),
    "B11 a link to /etc/passwd": lambda path, other: path.symlink_to("/etc/passwd"),
    "B11 a link to itself": lambda path, other: path.symlink_to(path),
}


def graded(bench: Any, course: Course, student: str = "ann") -> dict[str, Any]:
    """The result of what lies in submitted/."""
    work = take_in(course, student, LESSON)
    assert work is not None
    job = make_job(work, student, LESSON, (), "secret", BUBBLEWRAP, Limits(cell_seconds=5.0))
    return run_job(job, lambda: Watched(bench.spawner, bench.view, BUBBLEWRAP, job.limits), load())


def marks(result: dict[str, Any]) -> dict[str, tuple[str, float]]:
    return {name: (one["status"], one["points"]) for name, one in result["exercises"].items()}


NOTHING = {"0.1": ("malformed", 0.0), "1.2": ("malformed", 0.0)}


@pytest.mark.parametrize("spoil", REFUSED.values(), ids=REFUSED)
def test_what_is_no_notebook(bench, course: Course, answered: NotebookNode, hand_in, spoil: Callable) -> None:
    """0 and a reason, at once."""
    hand_in("ann", spoil(answered))
    result = graded(bench, course)
    assert marks(result) == NOTHING
    assert 5 < len(result["refused"]) < 200


def test_e04_a_notebook_of_500_mb(bench, course: Course, hand_in) -> None:
    """Is not read to its end."""
    path = hand_in("ann", b"{")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    os.truncate(path, 500 << 20)
    assert marks(graded(bench, course)) == NOTHING
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10


@pytest.mark.parametrize("make", PLACES.values(), ids=PLACES)
def test_what_is_no_file(bench, course: Course, hand_in, make: Callable) -> None:
    other = course.classroom / "gradebook.db"
    other.write_text("secret marks")
    path = hand_in("ann", b"")
    path.unlink()
    make(path, other)
    result = graded(bench, course)
    assert marks(result) == NOTHING
    assert "secret" not in str(result)


def test_b11_a_folder_that_is_a_link(bench, course: Course, answered: NotebookNode, hand_in) -> None:
    hand_in("bob", answered)
    (course.submitted / "ann").symlink_to(course.submitted / "bob")
    assert marks(graded(bench, course)) == NOTHING


Edit = Callable[[dict], Any]


def cell_of(raw: dict, name: str) -> dict:
    return next(cell for cell in raw["cells"] if cell.get("id") == name)


def spoil_first(**fields: Any) -> Edit:
    return lambda raw: cell_of(raw, "exercise-7-1").update(fields)


FULL, HALF = {"0.1": ("ok", 4.0), "1.2": ("ok", 2.0)}, {"0.1": ("missing", 0.0), "1.2": ("ok", 2.0)}
STUB = {"0.1": ("failed", 0.0), "1.2": ("ok", 2.0)}  # what was released runs, and raises NotImplementedError


def duplicate(raw: dict) -> None:
    raw["cells"].insert(3, copy.deepcopy(cell_of(raw, "exercise-7-1")))


def swap(raw: dict) -> None:
    one, two = cell_of(raw, "exercise-7-1"), cell_of(raw, "exercise-7-2")
    one["source"], two["source"] = two["source"], one["source"]


BROKEN: dict[str, tuple[Edit, dict]] = {
    "E05 no solution cell": (lambda raw: raw["cells"].remove(cell_of(raw, "exercise-7-1")), STUB),
    "E05 metadata a text": (spoil_first(metadata="x"), FULL),
    "E05 source an object": (spoil_first(source={}), STUB),
    "E05 source a list of numbers": (spoil_first(source=[1, 2]), STUB),
    "E05 source null": (spoil_first(source=None), STUB),
    "E05 a cell is null": (lambda raw: raw["cells"].insert(0, None), FULL),
    "E05 a cell of an unknown type": (lambda raw: raw["cells"].insert(0, {"cell_type": "x", "source": "1/0"}), FULL),
    "E05 ids that are objects": (lambda raw: [cell.update(id={"a": 1}) for cell in raw["cells"]], FULL),
    "E06 outputs of all kinds": (spoil_first(outputs="x", execution_count="1" * 1000), FULL),
    "E10 half characters and NUL": (spoil_first(source="x = '\ud800\0\u202e\x1b[2J'"), HALF),
    "D11 no checks": (lambda raw: raw.update(cells=[c for c in raw["cells"] if "check" not in c.get("id", "")]), FULL),
    "D11 the checks are texts": (lambda raw: [c.update(cell_type="markdown") for c in raw["cells"] if "check" in c["id"]], FULL),
    "D12 the checks are one's own": (lambda raw: cell_of(raw, "check-7-1").update(source="4.0"), FULL),
    "D12 more points": (lambda raw: cell_of(raw, "check-7-1")["metadata"]["nbgrader"].update(points=1e9), FULL),
    "D13 a check twice": (lambda raw: raw["cells"].append(copy.deepcopy(cell_of(raw, "check-7-1"))), FULL),
    "D14 a solution twice": (duplicate, FULL),
    "D14 the last of two is empty": (
        lambda raw: raw["cells"].append({**copy.deepcopy(cell_of(raw, "exercise-7-1")), "source": ""}), FULL),
    "E17 the other way round": (lambda raw: raw["cells"].reverse(), FULL),
    "E02 another kernel": (lambda raw: raw["metadata"].update(kernelspec={"name": "x; rm -rf /", "display_name": "", "language": "R"}), FULL),
}  # fmt: skip


@pytest.mark.parametrize(("edit", "wanted"), BROKEN.values(), ids=BROKEN)
def test_a_broken_notebook(bench, course: Course, answered: NotebookNode, hand_in, edit: Edit, wanted: dict) -> None:
    """What is there is graded."""
    raw = json.loads(text(answered))
    edit(raw)
    hand_in("ann", raw)
    assert marks(graded(bench, course)) == wanted


def test_d14_solutions_changed_places(bench, course: Course, answered: NotebookNode, hand_in) -> None:
    raw = json.loads(text(answered))
    swap(raw)
    hand_in("ann", raw)
    result = marks(graded(bench, course))
    assert result["0.1"][0] in ("ok", "missing") and result["1.2"][0] in ("ok", "missing")


def test_e02_a_byte_order_mark(bench, course: Course, answered: NotebookNode, hand_in) -> None:
    hand_in("ann", BOM + text(answered))
    assert marks(graded(bench, course)) == FULL


# ---- a whole class ---------------------------------------------------------------------------------------------------

HOSTILE = {
    "a01 loop": "while True: pass",
    "a02 deaf": "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\nwhile True: pass",
    "a05 flood": "import os\nwhile True: os.write(2, b'x' * 65536)",
    "a07 memory": "import os, time\nfor _ in range(6):\n    if os.fork() == 0:\n        x = b'x' * (500 << 20)\n        time.sleep(9)\ntime.sleep(9)",
    "a08 forks": "import os, time\nfor _ in range(200):\n    if os.fork() == 0:\n        time.sleep(9)\n        os._exit(0)",
    "a16 crash": "import ctypes; ctypes.string_at(0)",
    "a17 recursion": "import sys\nsys.setrecursionlimit(10**9)\ndef f(): f()\nf()",
    "b08 kill": "import os; os.kill(-1, 9); os.kill(os.getppid(), 9)",
    "c01 garbage": "import os\nfor fd in range(256):\n    try: os.write(fd, os.urandom(9999))\n    except OSError: pass",
    "c02 closes": "import os; os.closerange(0, 256)",
    "d04 display": "import sys\nsys.displayhook = lambda *a: -1.0",
    "d20 script": "from IPython.display import HTML, display\ndisplay(HTML('<script>alert(1)</script>'))\nprint('<script>alert(1)</script>')",
    "e10 escapes": "print('\\ud800', chr(0), chr(27) + '[2J', chr(0x202e))",
}  # fmt: skip
NAMES = ("..x", "a;touch pwned", "-rf", "p\u0430ul", "x" * 200, "$(touch pwned)", "[a]", "{b}", "new\nline", "<b>bold")


def test_a_class_of_all_kinds(
    bench, course: Course, release: NotebookNode, answered: NotebookNode, hand_in, tmp_path: Path, monkeypatch
) -> None:
    """No exception, a row for each student, and full marks for whoever's answers are right."""
    monkeypatch.chdir(tmp_path)
    for student, source in HOSTILE.items():
        work = copy.deepcopy(answered)
        work.cells.insert(2, nbformat.v4.new_code_cell(source))
        hand_in(student, json.loads(json.dumps(work)))
    for student in ("honest 1", "honest 2", *NAMES):
        hand_in(student, answered)
    hand_in("unanswered", release)
    for student, spoil in list(REFUSED.items())[:4]:
        hand_in(student, spoil(answered))
    strict = Course(course.root, course.classroom, cell_seconds=1.5)
    done = grade_class(strict, Options(workers=1), say=lambda line: None)
    assert done.faults == 0
    folders = {path.name for path in course.submitted.iterdir()}
    assert len(done.rows) == len(folders)
    points = {row.student: row.total for row in done.rows}
    assert {points[student] for student in ("honest 1", "honest 2", *HOSTILE)} == {6.0}
    assert points["unanswered"] == 0 and all(points[student] == 0 for student in list(REFUSED)[:4])
    assert not list(tmp_path.rglob("pwned")) and "pwned" not in os.listdir()
    for page in course.feedback.rglob("*.html"):
        assert "<script>alert(1)" not in page.read_text(encoding="utf-8")
