"""Result files made by hand, and the command line with the report in it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from autograde.report.cli import add_commands

LESSON = "07-tiny"


def stage(name: str, held: bool | None, fact: str = "") -> dict:
    """One stage of a result file."""
    return {"name": name, "weight": 1, "held": held, "fact": fact}


def exercise(points: float, maximum: float, status: str = "", diagnosis: tuple = (), stages: tuple = ()) -> dict:
    """One exercise of a result file."""
    return {
        **{"grade_id": "check", "points": points, "max": maximum, "text": "", "whole": True},
        **{"status": status or ("ok" if points == maximum else "failed")},
        **{"diagnosis": list(diagnosis), "stages": list(stages)},
    }


def result(student: str, exercises: dict[str, dict], lesson: str = LESSON, **more: Any) -> dict:
    """A whole result file."""
    return {
        **{"schema": 1, "student": student, "lesson": lesson, "key": "0" * 64, "sandbox": "none", "seconds": 0.5},
        **{"notes": [], "refused": "", "cells": {}, "exercises": exercises, **more},
    }


@pytest.fixture
def make() -> SimpleNamespace:
    """`make.stage`, `make.exercise` and `make.result`."""
    return SimpleNamespace(stage=stage, exercise=exercise, result=result)


@pytest.fixture
def small(make: SimpleNamespace) -> list[dict]:
    """Four students and two exercises, small enough to count by hand."""

    def stages(one: bool | None, two: bool | None) -> tuple:
        return make.stage("one", one), make.stage("two", two, "two does not hold" if two is False else "")

    def second(points: float) -> dict:
        return make.exercise(points, 2)

    return [
        make.result("ann", {"7.1": make.exercise(4, 4, stages=stages(True, True)), "7.2": second(2)}),
        make.result("bob", {"7.1": make.exercise(2, 4, "failed", ("slow",), stages(True, False)), "7.2": second(2)}),
        make.result("cy", {"7.1": make.exercise(0, 4, "timeout", (), stages(None, None)), "7.2": second(0)}),
        make.result(
            "dee", {"7.1": make.exercise(2, 4, "failed", ("leaky", "slow"), stages(True, False)), "7.2": second(0)}
        ),
    ]


@pytest.fixture
def classroom(tmp_path: Path) -> Path:
    """A class that has a folder for results and nothing in it."""
    folder = tmp_path / "class"
    (folder / "results").mkdir(parents=True)
    return folder


@pytest.fixture
def put(classroom: Path) -> Callable[..., Path]:
    """`put(result(...))` writes a result file where it belongs. Returns its path."""

    def write(data: dict) -> Path:
        path = classroom / "results" / data["lesson"] / f"{data['student']}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(data), encoding="utf-8")
        return path

    return write


@pytest.fixture
def report(classroom: Path) -> Callable[..., int]:
    """`report("--lesson", "07-tiny")` runs the command on the class. Returns its exit code."""

    def run(*more: str) -> int:
        parser = argparse.ArgumentParser()
        add_commands(parser.add_subparsers())
        args = parser.parse_args(["report", str(classroom), *more])
        return args.run(args)

    return run
