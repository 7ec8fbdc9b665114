"""Grades one submission: its cells run in a worker, its exercises are judged here."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from autograde.classroom.job import Job, JobCell
from autograde.exercise import Exercise
from autograde.judge import GraderError, Verdict, judge
from autograde.report_text import broken_text, printable, undefined_text, unsuitable_text, verdict_text
from autograde.sandbox.sandbox import CellResult, Sandbox
from autograde.subject import WorkStopped

SCHEMA = 1
STATUS_OF_STOP = {"time": "timeout"}  # the others are called what they are
CELL_FILE = re.compile(r"<ipython-input-[^>]*>, ")  # what IPython calls a cell, in the text of a SyntaxError
LOST = ("timeout", "memory", "output", "crashed", "protocol")


def run_job(job: Job, start: Callable[[], Sandbox], exercises: Mapping[str, Exercise]) -> dict[str, Any]:
    """The result of a job, as plain data. `start()` gives a fresh worker; each is closed here.

    Raises only when the grader itself is at fault: nothing that a submission does raises here.
    """
    began = time.monotonic()
    run = _Run(job, start, exercises)
    try:
        if not job.refused:
            run.all_cells()
    finally:
        run.close()
    for cell in job.cells:
        if cell.grade_id and cell.grade_id not in run.graded:
            run.graded[cell.grade_id] = _zero(cell, "malformed", job.refused)
    return {
        "schema": SCHEMA,
        "student": job.student,
        "lesson": job.lesson,
        "key": job.key,
        "sandbox": job.tier,
        "seconds": round(time.monotonic() - began, 3),
        "notes": run.notes,
        "refused": job.refused,
        "cells": run.outputs,
        "exercises": {graded.pop("exercise"): graded for graded in run.graded.values()},
    }


class _Run:
    """One pass over a notebook. When a worker is lost, a new one repeats the cells that had worked."""

    def __init__(self, job: Job, start: Callable[[], Sandbox], exercises: Mapping[str, Exercise]) -> None:
        self.job, self.start, self.exercises = job, start, exercises
        self.deadline = time.monotonic() + job.limits.total_seconds
        self.sandbox: Sandbox | None = None
        self.worked: list[str] = []
        self.notes: list[str] = []
        self.outputs: dict[str, dict[str, str]] = {}
        self.graded: dict[str, dict[str, Any]] = {}

    def all_cells(self) -> None:
        for cell in self.job.cells:
            if cell.grade_id:
                self.graded[cell.grade_id] = self.check(cell)
            elif cell.left_out:
                self.outputs[cell.id] = {"status": "left out", "text": cell.left_out, "error": ""}
            elif cell.source.strip():
                result = self.execute(cell)
                self.outputs[cell.id] = {"status": result.status, "text": result.text, "error": result.error}

    def close(self) -> None:
        if self.sandbox is not None:
            self.sandbox.close()
            self.sandbox = None

    def left(self) -> float:
        return self.deadline - time.monotonic()

    def execute(self, cell: JobCell) -> CellResult:
        problem = self.worker()
        if problem:
            return CellResult("not run", "", problem)
        assert self.sandbox is not None  # else there is a problem
        allowed = min(self.job.limits.cell_seconds, max(self.left(), 0.1))
        result = self.sandbox.execute(cell.source, allowed)
        result = replace(result, error=CELL_FILE.sub("", result.error))
        if result.lost or result.status == "time":
            self.notes.append(f"{cell.name}: {result.error}")
        else:
            self.worked.append(cell.source)
            if result.error and cell.students:
                self.notes.append(f"{cell.name}: {result.error}")
        return result

    def worker(self) -> str:
        """See to it that there is a worker in which every good cell has run; return why there is none, or nothing."""
        if self.sandbox is not None and self.sandbox.lost is None:
            return "" if self.left() > 0 else self.too_long()
        self.close()
        if self.left() <= 0:
            return self.too_long()
        self.sandbox = self.start()
        for source in self.worked:
            result = self.sandbox.execute(source, min(self.job.limits.cell_seconds, max(self.left(), 0.1)))
            if result.lost:
                return "a cell that had worked did not work again"
        return ""

    def too_long(self) -> str:
        return f"not run: the notebook ran longer than {self.job.limits.total_seconds:g} s in all"

    def check(self, cell: JobCell) -> dict[str, Any]:
        exercise = self.exercises[cell.exercise]
        problem = self.worker()
        if problem:
            return _zero(cell, "timeout" if self.left() <= 0 else "crashed", problem)
        sandbox = self.sandbox
        assert sandbox is not None  # else there is a problem
        try:
            named = sandbox.find(exercise.name)
            if not named.found:
                return _zero(cell, "missing", undefined_text(exercise, exercise.name))
            if not named.callable:
                return _zero(cell, "error", unsuitable_text(exercise, printable(named.type_name)))
            budget = sandbox.budget(min(exercise.seconds, max(self.left(), 0.1)))
            make = lambda: sandbox.subject(exercise.name, budget)  # noqa: E731
            verdict = judge(exercise, make, self.job.seeds[cell.exercise])
        except WorkStopped as stop:  # before the first question
            return _zero(cell, STATUS_OF_STOP.get(stop.status, stop.status), stop.fact)
        except GraderError as error:
            self.notes.append(f"{cell.exercise}: the check itself failed; tell the instructor")
            return _zero(cell, "grader", broken_text(exercise, error))
        finally:
            if sandbox.lost is None:
                sandbox.forget_output()
        return _graded(cell, verdict)


def _graded(cell: JobCell, verdict: Verdict) -> dict[str, Any]:
    """An exercise's part of the result."""
    points = 0.0 if verdict.exercise.points == 0 else verdict.points / verdict.exercise.points * cell.points
    failure = verdict.failure
    status = "ok" if failure is None else "failed"
    if failure is not None and failure.finding is not None:
        key = STATUS_OF_STOP.get(failure.finding.key, failure.finding.key)
        stopped = failure.finding.events is None  # a stage's own finding may be called "output" too
        status = key if stopped and key in LOST else "error" if key == "raised" else "failed"
    diagnosis = verdict.diagnosis
    return {
        "exercise": cell.exercise,
        "grade_id": cell.grade_id,
        "points": min(max(round(points, 2), 0.0), cell.points),
        "max": cell.points,
        "status": status,
        "text": verdict_text(verdict),
        "diagnosis": [mistake.name for mistake in diagnosis.mistakes] if diagnosis else [],
        "whole": diagnosis.whole if diagnosis else True,
        "remark": f"{diagnosis.label}: {diagnosis.text}" if diagnosis else "",
        "stages": [
            {
                "name": outcome.stage.name,
                "weight": outcome.stage.weight,
                "held": outcome.held if outcome.reached else None,
                "fact": outcome.finding.fact if outcome.finding is not None and not outcome.held else "",
            }
            for outcome in verdict.outcomes
        ],
    }


def _zero(cell: JobCell, status: str, text: str) -> dict[str, Any]:
    return {
        "exercise": cell.exercise,
        "grade_id": cell.grade_id,
        "points": 0.0,
        "max": cell.points,
        "status": status,
        "text": text,
        "diagnosis": [],
        "whole": True,
        "remark": "",
        "stages": [],
    }
