"""Hostile work, graded: notebooks with two exercises of lesson 01, small limits, and a look around afterwards.

Every call of `grade` asserts what has to hold whatever a submission does: a result comes back, every exercise has a
finite mark between nothing and its maximum, no process of the worker's is left, and no file. At the end of each test an
honest submission on the same template gets full marks.
"""

# ruff: noqa: E501 - what is handed in stays on one line where it can
from __future__ import annotations

import dataclasses
import math
import os
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat import NotebookNode

from autograde.classroom.plan import make_job
from autograde.classroom.run import run_job
from autograde.exercises import load
from autograde.lessons import LESSONS
from autograde.sandbox.limits import MIB, Limits
from autograde.sandbox.sandbox import Sandbox
from autograde.sandbox.spawner import Spawner
from autograde.sandbox.template import descendants
from autograde.sandbox.tiers import BUBBLEWRAP, LANDLOCK, problem_with
from autograde.sandbox.view import make_view
from tests.classroom.conftest import answered, course, hand_in, one_alembic, release, tiny_root  # noqa: F401

LESSON = LESSONS[1]
TICK = os.sysconf("SC_CLK_TCK")
SMALL = {"cell_seconds": 1.5, "total_seconds": 20.0, "memory": 640 * MIB}

CACHE = """
class ToyCache:
    def __init__(self, project_q, project_k, project_v):
        self.project_q, self.project_k, self.project_v = project_q, project_k, project_v
        self.keys, self.values = [], []

    def __len__(self):
        return len(self.keys)

    def step(self, x):
        q = self.project_q(x)
        self.keys.append(self.project_k(x))
        self.values.append(self.project_v(x))
        scores = np.array(self.keys) @ q / np.sqrt(len(q))
        weights = np.exp(scores - scores.max())
        return weights / weights.sum() @ np.array(self.values)
"""
COUNT = """
def count_positions(prompt, new):
    return sum(prompt + i for i in range(new)), prompt + new - 1
"""


def in_step(body: str, setup: str = "") -> str:
    """A right cache whose `step` does something else first."""
    return f"{setup}\n{CACHE}\n_right = ToyCache.step\ndef step(self, x):\n{textwrap.indent(textwrap.dedent(body), '    ')}\n    return _right(self, x)\nToyCache.step = step\n"


def wrong_cache(returned: str = "np.zeros(3)", setup: str = "", before: str = "pass") -> str:
    """A cache that holds nothing and returns something made up."""
    return f"""
{setup}
class ToyCache:
    def __init__(self, *projections):
        self.projections = projections
    def __len__(self):
        return 0
    def step(self, x):
{textwrap.indent(textwrap.dedent(before), "        ")}
        return {returned}
"""


def notebook(own: str = "", cache: str = CACHE, between: str = "", count: str = COUNT) -> NotebookNode:
    """A grafted notebook: own cell, exercise 1.3, another own cell, exercise 1.2."""

    def cell(name: str, source: str) -> NotebookNode:
        return nbformat.v4.new_code_cell(source, id=name)

    def graded(exercise: str, points: int, source: str) -> list[NotebookNode]:
        tag = {"schema_version": 3, "locked": False, "task": False, "points": points}
        name = exercise.replace(".", "-")
        answer, check = cell(f"exercise-{name}", source), cell(f"check-{name}", f'check("{exercise}")')
        answer.metadata.nbgrader = tag | {"grade_id": answer.id, "grade": False, "solution": True}
        check.metadata.nbgrader = tag | {"grade_id": check.id, "grade": True, "solution": False}
        return [answer, check]

    cells = [cell("setup", "import numpy as np\nfrom autograde import check"), cell("own-1", own)]
    cells += [*graded("1.3", 6, cache), cell("own-2", between), *graded("1.2", 2, count)]
    return nbformat.v4.new_notebook(cells=cells)


class Watched(Sandbox):
    """A worker that, once closed, must have left no process."""

    def close(self) -> None:
        space, began = None, time.clock_gettime(time.CLOCK_BOOTTIME)
        if self._room is not None:
            space = os.readlink(f"/proc/{self._room.init}/ns/pid")
        super().close()
        left = [0]
        for _ in range(500):
            left = _in_namespace(space, began) if space else descendants(self._spawner.pid)
            if not left:
                return
            time.sleep(0.01)
        raise AssertionError(f"processes left: {left}")


def _in_namespace(space: str, before: float) -> list[int]:
    """Processes in a process namespace that began before a time: its number may belong to another one later."""
    found = []
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and os.readlink(f"/proc/{name}/ns/pid") == space:
                fields = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
                if fields[0] != "Z" and int(fields[19]) / TICK <= before:
                    found.append(int(name))
        except OSError:
            continue
    return found


@dataclasses.dataclass
class Graded:
    """A result, for tests to ask."""

    result: dict[str, Any]

    @property
    def cache(self) -> tuple[str, float]:
        """Status and points of exercise 1.3."""
        return self.of("1.3")

    @property
    def count(self) -> tuple[str, float]:
        """Status and points of exercise 1.2."""
        return self.of("1.2")

    def of(self, exercise: str) -> tuple[str, float]:
        graded = self.result["exercises"][exercise]
        return graded["status"], graded["points"]

    def text(self, cell: str = "own-1") -> str:
        """What a cell printed, and its error."""
        return self.result["cells"][cell]["text"] + self.result["cells"][cell]["error"]


GOOD, FULL = ("ok", 6.0), ("ok", 2.0)


class Bench:
    """A template with its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.view = folder / "view"
        self.view.mkdir()
        make_view(self.view, LESSON)
        folder.chmod(0o755)  # root's workers are somebody else
        self.spawner = Spawner(self.view, ("matplotlib.pyplot", "torch"))
        self.exercises = {name: dataclasses.replace(exercise, seconds=2.0) for name, exercise in load().items()}
        self.exercises["1.2"] = load()["1.2"]

    def grade(self, tier: str, work: NotebookNode, limits: dict[str, float]) -> Graded:
        kept = sorted(os.listdir(self.folder))
        job = make_job(work, "ann", LESSON.slug, LESSON.answers, "secret", tier, Limits(**SMALL | limits))
        result = run_job(job, lambda: Watched(self.spawner, self.view, tier, job.limits), self.exercises)
        assert set(result["exercises"]) == {"1.3", "1.2"}
        for graded in result["exercises"].values():
            assert math.isfinite(graded["points"]) and 0 <= graded["points"] <= graded["max"]
            assert graded["status"] != "grader", graded["text"]
        assert sorted(os.listdir(self.folder)) == kept
        return Graded(result)


@pytest.fixture(scope="session")
def bench() -> Iterator[Bench]:
    """The template of this test process. All that the grader leaves for a while, it leaves in a folder of its own."""
    before = tempfile.tempdir
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
        tempfile.tempdir, os.environ["HOSTILE_MARK"] = folder, "the grader's"
        try:
            bench = Bench(Path(folder))
            yield bench
            bench.spawner.close()
        finally:
            tempfile.tempdir = before


@pytest.fixture(scope="session")
def tiers() -> dict[str, str]:
    """What is wrong with each tier here."""
    return {tier: problem_with(tier) for tier in (BUBBLEWRAP, LANDLOCK)}


@pytest.fixture(params=[BUBBLEWRAP])
def tier(request: pytest.FixtureRequest, tiers: dict[str, str]) -> str:
    """The tier, where it works on this machine; tests of escapes ask for both."""
    if tiers.get(request.param):
        pytest.skip(f"{request.param} does not work here: {tiers[request.param]}")
    return request.param


@pytest.fixture
def grade(bench: Bench, tier: str) -> Iterator[Callable[..., Graded]]:
    """`grade(own=..., cache=..., between=..., memory=...)` grades a notebook; afterwards, an honest one still passes."""
    fields = {"own", "cache", "between", "count"}

    def run(**work: Any) -> Graded:
        limits = {name: value for name, value in work.items() if name not in fields}
        return bench.grade(tier, notebook(**{name: work[name] for name in fields & work.keys()}), limits)

    yield run
    honest = run()
    assert (honest.cache, honest.count) == (GOOD, FULL)
