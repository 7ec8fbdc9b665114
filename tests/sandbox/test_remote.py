"""Wherever a learner's work runs, a stage sees the same: the same replies, findings and marks."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest

from autograde.exercises import MODULES, load
from autograde.judge import judge, judge_here
from autograde.sandbox.view import PACKAGE

SEED = "the other side"
WORK = """
import importlib.util
import autograde, kvlib
autograde.__path__.append({known!r} + "/autograde")
kvlib.__path__.insert(0, {known!r} + "/kvlib")
spec = importlib.util.spec_from_file_location("fresh", {path!r})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
entries = {{("mistake", entry.name): entry.candidate for entry in module.MISTAKES}}
entries |= {{("variant", entry.name): entry.candidate for entry in module.VARIANTS}}
work = entries[{kind!r}, {name!r}]
"""


def candidates(exercise_id: str) -> Any:
    """The catalogue from a module that nobody has used yet: state that a mistake leaks is fresh."""
    path = PACKAGE / "exercises" / MODULES[exercise_id] / "candidates.py"
    spec = importlib.util.spec_from_file_location(f"fresh_{MODULES[exercise_id]}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def alike(a: Any, b: Any, units: int = 0) -> bool:
    """Whether two trees are the same, to the last bit or up to so many units of rounding.

    torch sums in another order where memory is aligned otherwise, or there are more threads.
    """
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            return False
        if a.dtype.kind != "f" or not units:
            return a.tobytes() == b.tobytes()
        near = units * float(np.finfo(a.dtype).eps)
        largest = float(np.abs(b[np.isfinite(b)]).max(initial=1.0))
        return np.allclose(a, b, rtol=near, atol=near * largest, equal_nan=True)
    if isinstance(a, list):
        return len(a) == len(b) and all(alike(x, y, units) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(alike(a[key], b[key], units) for key in a)
    return a == b or a != a != b  # NaN


@pytest.mark.parametrize("exercise", load().values(), ids=lambda exercise: exercise.id)
def test_every_outcome_is_the_same(worker, view, exercise) -> None:
    """The reference, every variant and every mistake of an exercise, stage by stage and reply by reply."""
    module = candidates(exercise.id)
    known = view / "autograde" / "known"  # inside the package: a line in it is not the learner's
    path = known / "autograde" / "exercises" / MODULES[exercise.id] / "candidates.py"
    sandbox = worker()
    works = [("mistake", entry.name, entry.candidate) for entry in module.MISTAKES]
    works += [("variant", entry.name, entry.candidate) for entry in module.VARIANTS]
    for kind, name, candidate in works:
        here = judge_here(exercise, candidate, SEED)
        source = WORK.format(known=str(known), path=str(path), kind=kind, name=name)
        assert sandbox.execute(source).error == ""
        budget = sandbox.budget(exercise.seconds)
        there = judge(exercise, lambda budget=budget: sandbox.subject("work", budget), SEED)
        assert there.points == here.points, name
        assert (there.points == exercise.points) == (kind != "mistake"), name
        assert there.diagnosis == here.diagnosis, name
        for ours, theirs in zip(here.outcomes, there.outcomes, strict=True):
            assert (ours.held, ours.finding, ours.notes) == (theirs.held, theirs.finding, theirs.notes), name
            assert [(event.op, event.raised) for event in ours.record] == [
                (event.op, event.raised) for event in theirs.record
            ], name
            units = 64 if exercise.tensors else 0
            assert all(alike(x.value, y.value, units) for x, y in zip(ours.record, theirs.record, strict=True)), name


def test_rounding_is_not_a_difference() -> None:
    one, next_to_it, other = np.array([1.0, np.inf]), np.array([1.0 + 1e-15, np.inf]), np.array([1.0 + 1e-9, np.inf])
    assert alike([one], [next_to_it], 64) and not alike([one], [next_to_it])
    assert not alike([one], [other], 64) and not alike([one], [one.astype("f4")], 64)


TORCH = """
import torch
def softmax(scores):
    return torch.softmax(torch.as_tensor(scores, dtype=torch.{dtype}), dim=-1)
"""


@pytest.mark.parametrize(("dtype", "points"), [("float64", 2.0), ("float32", 2.0), ("bfloat16", 0.0)])
def test_tensors_come_back_as_numbers(worker, dtype: str, points: float) -> None:
    """Work in torch is judged like work in NumPy, with the rounding of its own type."""
    pytest.importorskip("torch")
    exercise = load()["0.1"]
    sandbox = worker(cell_seconds=60.0)
    assert sandbox.execute(TORCH.format(dtype=dtype)).error == ""
    budget = sandbox.budget(exercise.seconds)
    verdict = judge(exercise, lambda: sandbox.subject("softmax", budget), SEED)
    assert verdict.points == points, verdict.failure
    if points == 0:
        assert verdict.outcomes[0].finding.key == "row"  # numbers, and too coarse
