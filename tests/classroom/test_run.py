"""One submission's run, with stand-ins for workers: what is repeated, what is given up, what is said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from autograde.classroom.job import Job, JobCell
from autograde.classroom.run import run_job
from autograde.exercises import load
from autograde.sandbox.limits import Limits
from autograde.sandbox.remote import Budget
from autograde.sandbox.sandbox import CellResult, Named
from autograde.subject import LocalSubject, Subject, WorkStopped
from kvlib.attention import softmax

CELLS = (
    JobCell("a", "a", "x = 1"),
    JobCell("e", "exercise", "def softmax", students=True),
    JobCell("c1", "c1", exercise="0.1", grade_id="c1", points=4.0),
    JobCell("o", "own cell 1", "boom", students=True),
    JobCell("l", "l", "experiment", left_out="not run while grading"),
    JobCell("c2", "c2", exercise="1.2", grade_id="c2", points=2.0),
)


class FakeWorker:
    """Defines what it is told to, and fails on sources that say so."""

    def __init__(self, works: Mapping[str, Any], ends: Mapping[str, CellResult]) -> None:
        self.works, self.ends = works, ends
        self.ran: list[str] = []
        self.lost: WorkStopped | None = None
        self.closed = False

    def execute(self, source: str, seconds: float) -> CellResult:
        self.ran.append(source)
        result = self.ends.get(source, CellResult("ok", "", ""))
        if result.lost:
            self.lost = WorkStopped(result.status, result.error)
        return result

    def find(self, name: str) -> Named:
        if self.lost is not None:
            raise self.lost
        work = self.works.get(name)
        return Named(name in self.works, callable(work), type(work).__name__)

    def budget(self, seconds: float) -> Budget:
        return Budget(seconds)

    def subject(self, name: str, budget: Budget) -> Subject:
        if isinstance(self.works[name], WorkStopped):
            self.lost = self.works[name]
            raise self.lost
        return LocalSubject(self.works[name])

    def forget_output(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


class Stopped(WorkStopped):
    """A work on which the worker is lost as soon as it is asked."""

    def __call__(self) -> None: ...


def counts(prompt: int, new: int) -> tuple[int, int]:
    return sum(prompt + i for i in range(new)), prompt + new - 1


def run(
    works: Mapping[str, Any],
    ends: Mapping[str, CellResult] | None = None,
    cells: tuple[JobCell, ...] = CELLS,
    **how: Any,
) -> tuple[dict[str, Any], list[FakeWorker]]:
    started: list[FakeWorker] = []

    def start() -> FakeWorker:
        started.append(FakeWorker(works, ends or {}))
        return started[-1]

    job = Job("ann", "07-tiny", cells, {"0.1": "s", "1.2": "s"}, "bubblewrap", **how)
    result = run_job(job, start, load())
    assert all(worker.closed for worker in started)
    return result, started


RIGHT = {"softmax": softmax, "count_positions": counts}


def points(result: dict[str, Any]) -> dict[str, tuple[float, str]]:
    return {name: (graded["points"], graded["status"]) for name, graded in result["exercises"].items()}


def test_right_work_has_the_points_of_its_cells() -> None:
    result, (worker,) = run(RIGHT)
    assert points(result) == {"0.1": (4.0, "ok"), "1.2": (2.0, "ok")}
    assert worker.ran == ["x = 1", "def softmax", "boom"]
    assert result["cells"]["l"] == {"status": "left out", "text": "not run while grading", "error": ""}
    assert result["notes"] == []


def test_a_lost_worker_is_replaced_and_what_had_worked_is_repeated() -> None:
    """Cells that ended in an error too: they may have defined something. The one that lost the worker is not."""
    ends = {
        "x = 1": CellResult("error", "", "NameError: x"),
        "boom": CellResult("crashed", "text", "the Python process ended", lost=True),
    }
    result, workers = run(RIGHT, ends)
    assert points(result) == {"0.1": (4.0, "ok"), "1.2": (2.0, "ok")}
    assert [worker.ran for worker in workers] == [["x = 1", "def softmax", "boom"], ["x = 1", "def softmax"]]
    assert result["notes"] == ["own cell 1: the Python process ended"]
    assert result["cells"]["o"] == {"status": "crashed", "text": "text", "error": "the Python process ended"}


def test_a_cell_that_ran_out_of_time_is_not_repeated() -> None:
    ends = {
        "x = 1": CellResult("time", "", "stopped after 30 s"),
        "boom": CellResult("crashed", "", "gone", lost=True),
    }
    _, workers = run(RIGHT, ends)
    assert workers[1].ran == ["def softmax"]


@pytest.mark.parametrize(
    ("status", "said"), [("time", "timeout"), ("memory", "memory"), ("crashed", "crashed"), ("protocol", "protocol")]
)
def test_a_check_that_loses_the_worker_costs_its_own_exercise_only(status: str, said: str) -> None:
    result, workers = run({"softmax": Stopped(status, "it is gone"), "count_positions": counts})
    assert points(result) == {"0.1": (0.0, said), "1.2": (2.0, "ok")}
    assert len(workers) == 2


def test_partial_credit_follows_the_stages() -> None:
    def naive(scores: np.ndarray) -> np.ndarray:
        e = np.exp(scores)
        return e / e.sum(axis=-1, keepdims=True)

    result, _ = run({**RIGHT, "softmax": naive})
    graded = result["exercises"]["0.1"]
    weights = {stage["held"]: 0 for stage in graded["stages"]}
    for stage in graded["stages"]:
        weights[stage["held"]] += stage["weight"]
    assert graded["points"] == pytest.approx(4.0 * weights[True] / sum(weights.values()), abs=0.01)
    assert (graded["status"], graded["diagnosis"]) == ("failed", ["overflow"])


@pytest.mark.parametrize(
    ("work", "status"), [({}, "missing"), ({"softmax": 3}, "error"), ({"softmax": lambda x: 1 / 0}, "error")]
)
def test_work_that_is_not_there_or_not_callable_or_raises(work: dict, status: str) -> None:
    result, _ = run({"count_positions": counts, **work})
    assert points(result) == {"0.1": (0.0, status), "1.2": (2.0, "ok")}


def test_a_notebook_that_always_dies_costs_one_worker_a_cell() -> None:
    ends = {"def softmax": CellResult("crashed", "", "gone", lost=True), "boom": CellResult("ok", "", "")}
    cells = tuple(JobCell(f"e{i}", f"e{i}", "def softmax", students=True) for i in range(9)) + CELLS[2:]
    result, workers = run({}, ends, cells)
    assert len(workers) <= len(cells) + 1
    assert {status for _, status in points(result).values()} <= {"missing", "crashed"}


def test_the_whole_notebook_has_a_time_limit() -> None:
    result, workers = run(RIGHT, limits=Limits(total_seconds=0.0))
    assert points(result) == {"0.1": (0.0, "timeout"), "1.2": (0.0, "timeout")}
    assert "longer than 0 s in all" in result["exercises"]["0.1"]["text"]
    assert not workers


def test_refused_work_is_not_run() -> None:
    result, workers = run(RIGHT, refused="the notebook file is empty")
    assert points(result) == {"0.1": (0.0, "malformed"), "1.2": (0.0, "malformed")}
    assert not workers and result["refused"] == "the notebook file is empty"


def test_a_check_that_breaks_by_itself_is_not_the_students_fault_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from autograde import judge
    from autograde.classroom import run as module

    def breaks(*args: Any, **kwargs: Any) -> None:
        raise judge.GraderError("stage 'one row' of exercise 0.1 broke")

    monkeypatch.setattr(module, "judge", breaks)
    result, _ = run(RIGHT)
    assert points(result) == {"0.1": (0.0, "grader"), "1.2": (0.0, "grader")}
    assert result["notes"][0] == "0.1: the check itself failed; tell the instructor"
