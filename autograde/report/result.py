"""One result file as the grader writes it, checked field by field."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

SCHEMA = 1
STATUSES = (
    *("ok", "failed", "error", "missing", "malformed"),
    *("timeout", "memory", "output", "crashed", "protocol", "grader"),
)
SANDBOXES = ("bubblewrap", "landlock", "none")
ROUNDING = 1e-9  # how far points may exceed the maximum
UNWRITTEN = "still raises NotImplementedError"  # what the judge says of an exercise that nobody has begun
LONGEST = 60  # characters of a wrong value that a message shows


class ResultError(ValueError):
    """A file is not a result file of this course; the text names the field."""


@dataclass(frozen=True)
class StageResult:
    """How one stage ended."""

    name: str
    held: bool | None  # None: not reached
    fact: str = ""


@dataclass(frozen=True)
class ExerciseResult:
    """How one student did in one exercise."""

    points: float
    max: float
    status: str
    diagnosis: tuple[str, ...] = ()
    stages: tuple[StageResult, ...] = ()

    @property
    def full(self) -> bool:
        """Whether it has full marks."""
        return self.points >= self.max - ROUNDING

    @property
    def failure(self) -> StageResult | None:
        """The first stage that failed."""
        return next((stage for stage in self.stages if stage.held is False), None)

    @property
    def untouched(self) -> bool:
        """Whether there is no work to speak of: nothing defined, or nothing written yet."""
        if self.status == "missing":
            return True
        begun = any(stage.held for stage in self.stages)
        return not begun and self.failure is not None and UNWRITTEN in self.failure.fact


@dataclass(frozen=True)
class Result:
    """One student's result in one lesson. `refused` says why the work was not graded."""

    student: str
    lesson: str
    exercises: dict[str, ExerciseResult]
    refused: str = ""


def parse(data: Any) -> Result:
    """The result in a file's JSON. Raises `ResultError` at the first field that is not as it must be."""
    data = _of(data, dict, "the file")
    if type(data.get("schema")) is not int or data["schema"] != SCHEMA:
        raise ResultError(f"schema: wanted {SCHEMA}, got {_shown(data.get('schema'))}")
    for name in ("student", "lesson", "key"):
        if not _field(data, name, str):
            raise ResultError(f"{name}: wanted a text, got an empty one")
    _one_of(data, "sandbox", SANDBOXES)
    _number(data, "seconds")
    _texts(data, "notes")
    for name, cell in _field(data, "cells", dict).items():
        for key in ("status", "text", "error"):
            _field(_of(cell, dict, f"cells.{name}"), key, str, f"cells.{name}.")
    exercises = {
        name: _exercise(_of(found, dict, f"exercises.{name}"), f"exercises.{name}.")
        for name, found in _field(data, "exercises", dict).items()
    }
    return Result(data["student"], data["lesson"], exercises, _field(data, "refused", str))


def _exercise(data: dict, where: str) -> ExerciseResult:
    _field(data, "grade_id", str, where)
    _field(data, "text", str, where)
    _field(data, "whole", bool, where)
    points, maximum = _number(data, "points", where), _number(data, "max", where)
    if points > maximum + ROUNDING:
        raise ResultError(f"{where}points: wanted at most the maximum {maximum:g}, got {points:g}")
    stages = _field(data, "stages", list, where)
    read = tuple(_stage(_of(s, dict, f"{where}stages.{i}"), f"{where}stages.{i}.") for i, s in enumerate(stages))
    if len({stage.name for stage in read}) < len(read):
        raise ResultError(f"{where}stages: wanted a name of its own for each, got one twice")
    return ExerciseResult(
        points, maximum, _one_of(data, "status", STATUSES, where), _texts(data, "diagnosis", where), read
    )


def _stage(data: dict, where: str) -> StageResult:
    _number(data, "weight", where)
    if "held" not in data or not (data["held"] is None or type(data["held"]) is bool):
        raise ResultError(f"{where}held: wanted true, false or null, got {_shown(data.get('held', 'nothing'))}")
    return StageResult(_field(data, "name", str, where), data["held"], _field(data, "fact", str, where))


def _field(data: dict, name: str, kind: type, where: str = "") -> Any:
    if name not in data:
        raise ResultError(f"{where}{name}: is missing")
    return _of(data[name], kind, where + name)


def _of(value: Any, kind: type, where: str) -> Any:
    words = {dict: "an object", list: "a list", str: "a text", bool: "true or false"}
    if type(value) is not kind:
        raise ResultError(f"{where}: wanted {words[kind]}, got {_shown(value)}")
    return value


def _texts(data: dict, name: str, where: str = "") -> tuple[str, ...]:
    return tuple(_of(text, str, f"{where}{name}.{i}") for i, text in enumerate(_field(data, name, list, where)))


def _one_of(data: dict, name: str, known: tuple[str, ...], where: str = "") -> str:
    value = _field(data, name, str, where)
    if value not in known:
        raise ResultError(f"{where}{name}: wanted one of {', '.join(known)}, got {_shown(value)}")
    return value


def _number(data: dict, name: str, where: str = "") -> float:
    value = data.get(name, "nothing")
    if type(value) not in (int, float) or not abs(value) < math.inf or value < 0:
        raise ResultError(f"{where}{name}: wanted a number from 0 up, got {_shown(value)}")
    try:
        return float(value)
    except OverflowError:  # an integer of 400 digits
        raise ResultError(f"{where}{name}: wanted a number from 0 up, got one too large") from None


def _shown(value: Any) -> str:
    text = repr(value) if type(value) in (str, bool, float, type(None)) else type(value).__name__
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."
