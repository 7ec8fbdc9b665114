"""A result file is read field by field, and a wrong one is named with the field."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autograde.report.result import ResultError, parse


@pytest.fixture
def good(make: SimpleNamespace) -> dict:
    work = make.exercise(2, 4, "failed", ("slow",), (make.stage("one", True), make.stage("two", None)))
    cell = {"status": "ok", "text": "hi", "error": ""}
    return make.result("ann", {"7.1": work}, cells={"a": cell}, notes=["late"])


def test_a_result_is_read(good: dict) -> None:
    read = parse(good)
    assert (read.student, read.lesson, read.refused) == ("ann", "07-tiny", "")
    work = read.exercises["7.1"]
    assert (work.points, work.max, work.status, work.diagnosis) == (2.0, 4.0, "failed", ("slow",))
    assert [(s.name, s.held) for s in work.stages] == [("one", True), ("two", None)]
    assert not work.full and work.failure is None


WRONG: list[tuple[tuple, Any, str]] = [
    (("schema",), 2, "schema: wanted 1"),
    (("schema",), True, "schema: wanted 1, got True"),
    (("schema",), 1.0, "schema: wanted 1"),
    (("student",), "", "student: wanted a text"),
    (("student",), 3, "student: wanted a text, got int"),
    (("key",), None, "key: wanted a text, got None"),
    (("sandbox",), "hope", "sandbox: wanted one of"),
    (("seconds",), -1, "seconds: wanted a number"),
    (("seconds",), float("nan"), "seconds: wanted a number"),
    (("notes",), "late", "notes: wanted a list"),
    (("notes", 0), 5, "notes.0: wanted a text"),
    (("refused",), False, "refused: wanted a text"),
    (("cells",), [], "cells: wanted an object"),
    (("cells", "a"), 1, "cells.a: wanted an object"),
    (("cells", "a", "error"), None, "cells.a.error: wanted a text"),
    (("exercises",), [], "exercises: wanted an object"),
    (("exercises", "7.1"), None, "exercises.7.1: wanted an object"),
    (("exercises", "7.1", "points"), "2", "exercises.7.1.points: wanted a number"),
    (("exercises", "7.1", "points"), True, "exercises.7.1.points: wanted a number"),
    (("exercises", "7.1", "points"), 4.5, "exercises.7.1.points: wanted at most the maximum 4, got 4.5"),
    (("exercises", "7.1", "points"), 10**400, "exercises.7.1.points: wanted a number"),
    (("exercises", "7.1", "max"), float("inf"), "exercises.7.1.max: wanted a number"),
    (("exercises", "7.1", "status"), "fine", "exercises.7.1.status: wanted one of"),
    (("exercises", "7.1", "whole"), 1, "exercises.7.1.whole: wanted true or false"),
    (("exercises", "7.1", "diagnosis"), "slow", "exercises.7.1.diagnosis: wanted a list"),
    (("exercises", "7.1", "diagnosis", 0), [], "exercises.7.1.diagnosis.0: wanted a text"),
    (("exercises", "7.1", "stages", 0), [], "exercises.7.1.stages.0: wanted an object"),
    (("exercises", "7.1", "stages", 0, "held"), 1, "exercises.7.1.stages.0.held: wanted true, false or null"),
    (("exercises", "7.1", "stages", 0, "weight"), "1", "exercises.7.1.stages.0.weight: wanted a number"),
    (("exercises", "7.1", "stages", 0, "name"), "two", "exercises.7.1.stages: wanted a name of its own"),
]


@pytest.mark.parametrize(
    ("path", "value", "says"), WRONG, ids=[f"{'.'.join(map(str, p))}-{i}" for i, (p, _, _) in enumerate(WRONG)]
)
def test_a_wrong_field_is_named(good: dict, path: tuple, value: Any, says: str) -> None:
    data: Any = good
    for step in path[:-1]:
        data = data[step]
    data[path[-1]] = value
    with pytest.raises(ResultError) as error:
        parse(good)
    assert str(error.value).startswith(says)


def test_every_field_is_needed(good: dict) -> None:
    """Without any one of its fields the file is refused, and the message names the field."""

    def holders(data: Any, path: str) -> list[tuple[Any, str]]:
        if isinstance(data, list):
            return [found for i, part in enumerate(data) for found in holders(part, f"{path}{i}.")]
        if not isinstance(data, dict):
            return []
        named = [] if path in ("cells.", "exercises.") else [(data, path)]  # their keys are names, not fields
        return named + [found for key, part in data.items() for found in holders(part, f"{path}{key}.")]

    fields = [(i, key, where + key) for i, (data, where) in enumerate(holders(good, "")) for key in data]
    assert len(fields) == 10 + 3 + 8 + 2 * 4
    for i, key, name in fields:
        broken = copy.deepcopy(good)
        del holders(broken, "")[i][0][key]
        with pytest.raises(ResultError) as error:
            parse(broken)
        assert str(error.value).startswith(f"{name}:")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["schema", "student", "x"]), inner),
    max_leaves=8,
)


@given(data=JSON)
def test_any_other_json_is_refused(data: Any) -> None:
    with pytest.raises(ResultError):
        parse(data)
