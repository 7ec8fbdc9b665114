"""Wherever the learner's code lives, a stage sees the same: the same replies, findings and marks.

So a sandboxed worker needs a `_send` of its own, and not one line of any stage changes.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autograde.exercises import load
from autograde.judge import judge, judge_here

SPEC = importlib.util.spec_from_file_location("wire_subject", Path(__file__).with_name("wire_subject.py"))
wire_subject = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(wire_subject)
SEED = "the other side"


@pytest.fixture(scope="module")
def wire() -> Iterator[Any]:
    """A connection to one other process for all tests here."""
    process, wire = wire_subject.start()
    yield wire
    process.stdin.close()
    assert process.wait(60) == 0
    process.stdout.close()


def alike(a: Any, b: Any) -> bool:
    """Whether two trees are the same to the last bit."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return (a.shape, a.dtype, a.tobytes()) == (b.shape, b.dtype, b.tobytes())
    if isinstance(a, list):
        return len(a) == len(b) and all(map(alike, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(alike(a[key], b[key]) for key in a)
    return a == b or a != a != b  # NaN


def test_the_work_runs_in_another_process(wire) -> None:
    """Otherwise nothing here proves anything."""
    wire.send(("work", None))
    assert wire_subject.WireSubject(wire).run() not in (None, os.getpid())


def test_only_the_carrying_differs() -> None:
    """What a sandbox has to write is one method."""
    own = set(vars(wire_subject.WireSubject)) - {
        "__init__",
        "__module__",
        "__doc__",
        "__abstractmethods__",
        "_abc_impl",
    }
    assert own == {"_send"}


@pytest.mark.parametrize("exercise", load().values(), ids=lambda exercise: exercise.id)
def test_every_outcome_is_the_same(wire, exercise) -> None:
    """The reference, every variant and every mistake of an exercise, stage by stage and reply by reply."""
    works = [("reference", "")]
    works += [("mistake", mistake.name) for mistake in exercise.mistakes]
    works += [("variant", variant.name) for variant in exercise.variants]
    for kind, name in works:
        here = judge_here(exercise, wire_subject.work_of(exercise.id, kind, name), SEED)
        wire.send(("work", (exercise.id, kind, name)))
        there = judge(exercise, lambda: wire_subject.WireSubject(wire), SEED)
        assert there.points == here.points, name
        assert (there.points == exercise.points) == (kind != "mistake"), name
        assert there.diagnosis == here.diagnosis, name
        for ours, theirs in zip(here.outcomes, there.outcomes, strict=True):
            assert (ours.held, ours.finding, ours.notes) == (theirs.held, theirs.finding, theirs.notes), name
            assert [(event.op, event.raised) for event in ours.record] == [
                (event.op, event.raised) for event in theirs.record
            ], name
            assert all(alike(x.value, y.value) for x, y in zip(ours.record, theirs.record, strict=True)), name
