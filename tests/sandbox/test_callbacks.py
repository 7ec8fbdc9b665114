"""Calls from the learner's side into what the judge lends: nothing but that can be reached, and no error gets out."""

from __future__ import annotations

import builtins
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autograde.exercise import Exercise
from autograde.exercises import load
from autograde.exercises.models import LentCache, MeteredModel, lend_block, lend_cache, lend_model, small_model
from autograde.judge import rng_for, run_stage
from autograde.sandbox.wire import encode
from autograde.subject import MAX_ASKED, MAX_MESSAGE, LocalSubject, Trusted
from autograde.value import Lent, Opaque
from tests.sandbox.trees import FUZZ, any_text, arrays, trees

WHO_LENDS = ("1.3", "2.2", "2.3", "2.4", "4.4", "5.3", "5.4", "5.8", "6.2", "6.8", "7.7")
WHO_LENDS += ("8.3", "9.5", "10.3", "10.4", "11.1", "12.1", "12.3")
LENDING = {id: exercise for id, exercise in load().items() if id in WHO_LENDS}
each_exercise = pytest.mark.parametrize("exercise", LENDING.values(), ids=LENDING)


def after_a_stage(exercise: Exercise) -> LocalSubject:
    """A subject with all that the first stage has lent."""
    subject = LocalSubject(exercise.reference, exercise.tensors)
    assert run_stage(exercise.id, exercise.stages[0], subject, "calls").held
    assert subject._lent
    return subject


def answered(subject: LocalSubject, id: Any, name: Any, *args: Any, **kwargs: Any) -> dict:
    """An answer, and that it is one that can be sent and raised on the other side."""
    reply = subject.answer({"id": id, "name": name, "args": list(args), "kwargs": kwargs})
    encode({"answer": reply})
    if reply.keys() == {"value"}:
        return reply
    assert reply.keys() == {"raised"} and reply["raised"].keys() == {"kind", "message"}
    assert len(reply["raised"]["message"]) <= MAX_MESSAGE
    assert issubclass(getattr(builtins, reply["raised"]["kind"]), Exception)
    return reply


def test_only_these_exercises_lend() -> None:
    """A new exercise that lends something has to be listed above."""
    pytest.importorskip("torch", reason="torch is missing: see `make torch`")
    for exercise in load().values():
        subject = LocalSubject(exercise.reference, exercise.tensors)
        for stage in exercise.stages:
            run_stage(exercise.id, stage, subject, "calls")
        assert bool(subject._lent) == (exercise.id in LENDING)


ODD_NAMES = [
    "__class__", "__dict__", "__init__", "__getattribute__", "__reduce__", "__globals__", "__func__", "__self__", "",
    "_lent", "target", "weight", "weights", "rows ", "held", "decoder", "calls", "model", "blocks", "known", "reset.x",
    "norm.__self__", "project_q.weight", "__getattr__", "append.__func__", "__code__", "width", "max_len", "vocab_size",
]  # fmt: skip
names = st.one_of(
    st.none(),
    st.sampled_from(["append", "rows", "__len__", "norm", "project_q", "project_k", "project_v", "finish", "embed"]),
    st.sampled_from(["unembed", "step", "reset", "__call__", *ODD_NAMES]),
    any_text,
)
few_tokens = st.lists(st.integers(-2, 9), max_size=9)
lent = st.builds(Lent, st.integers(0, 12), st.just("x"), st.booleans())
rows = [np.zeros(5), np.zeros(4), np.zeros((3, 5)), np.full(5, np.inf), np.full(5, 1e308), np.zeros((0, 5))]
things = st.one_of(
    trees, arrays(), few_tokens, st.integers(-9, 9), lent, st.lists(lent, max_size=3), st.sampled_from(rows)
)
keywords = st.dictionaries(
    st.sampled_from(["x", "k", "v", "self", "token", "position", "out", "dtype"]), things, max_size=2
)


@each_exercise
@settings(FUZZ, max_examples=60)
@given(calls=st.lists(st.tuples(st.integers(0, 14), names, st.lists(things, max_size=3), keywords), max_size=12))
def test_any_call(exercise, calls) -> None:
    """Right ids and wrong ones, names lent and not, arguments of every kind, one call after the other."""
    subject = after_a_stage(exercise)
    for id, name, args, kwargs in calls:
        target = subject._lent[id] if id < len(subject._lent) else Trusted(None)
        reply = answered(subject, id, name, *args, **kwargs)
        if (name or "__call__") not in target.methods or name == "":
            assert "raised" in reply, f"{name} of {target.target} was reached"


@each_exercise
def test_no_other_attribute(exercise) -> None:
    """For every object that was lent: neither what Python adds to it, nor its own data, nor the object itself."""
    subject = after_a_stage(exercise)
    for id, lent in enumerate(list(subject._lent)):
        for name in {*dir(lent.target), *ODD_NAMES} - set(lent.methods):
            assert "raised" in answered(subject, id, name), name
        if "__call__" not in lent.methods:
            assert "raised" in answered(subject, id, None), "an object is no function"


@pytest.mark.parametrize("id", [-100, 10**6, 2**64 - 1, "0", None, 0.0, [], Opaque("x")], ids=str)
def test_nobody_has_this_number(id) -> None:
    """Ids that were never given, and what is no id."""
    assert "raised" in answered(after_a_stage(LENDING["1.3"]), id, None, np.zeros(4))


@pytest.mark.parametrize("id", [2**64 - 1, 10**6])
def test_nobody_has_the_number_of_an_argument(id) -> None:
    """The same for what is passed on."""
    subject = after_a_stage(LENDING["2.2"])
    assert "raised" in answered(subject, 0, None, Lent(id, "x", False))
    assert "raised" in answered(subject, 0, None, [[Lent(id, "x", False)]])


def test_a_callable_object_is_lent_without_its_call() -> None:
    """Whoever lends an object's methods does not lend the object as a function."""

    class Both:
        def __call__(self) -> str:
            return "secret"

        def method(self) -> str:
            return "lent"

    subject = LocalSubject(lambda *args: None)
    subject.run(Trusted(Both(), ("method",)), Both())
    assert answered(subject, 0, "method") == {"value": "lent"}
    assert "raised" in answered(subject, 0, None)
    assert "raised" in answered(subject, 0, "__call__")
    assert answered(subject, 1, None) == {"value": "secret"}
    assert "raised" in answered(subject, 1, "method")


def test_large_arguments_cost_nothing() -> None:
    """Two columns and a row make a table of them all: refused before anything is worked out, and said so."""
    model = MeteredModel(small_model(np.random.default_rng(0), num_layers=1))
    subject = LocalSubject(lambda *args: None)
    subject.run(lend_model(model), lend_block(model.model, 0), lend_cache(LentCache(4, 5)))
    block = next(i for i, lent in enumerate(subject._lent) if "finish" in lent.methods)
    many = np.zeros(1 << 20, "i1")
    calls = [
        (0, "embed", many[:, None], many[None, :]),
        (0, "embed", [0] * 99_999, 0),
        (0, "unembed", many[:, None]),
        (block, "norm", many[:, None]),
        (block, "finish", many[:4096, None, None], np.zeros((4096, 5))),
        (block, "project_k", ["0" * 10_000]),
        (block, "norm", {"x": [many]}),
    ]
    tracemalloc.start()
    try:
        for id, name, *args in calls:
            assert "are more than" in answered(subject, id, name, *args)["raised"]["message"], name
            assert "are more than" in answered(subject, id, name, x=args)["raised"]["message"], name
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
    assert model.rows("project_k") == [0]
    half = np.zeros((MAX_ASKED // 2 - 8, 1), "i1")
    tracemalloc.start()
    try:
        answered(subject, 0, "embed", half, half.T)  # the worst that is let through
        assert tracemalloc.get_traced_memory()[1] < 400 << 20
    finally:
        tracemalloc.stop()


def test_a_long_complaint_is_cut() -> None:
    """What a lent function says of what it was given may hold all of it."""

    def complain(value: Any) -> None:
        raise ValueError(f"got {value}")

    subject = LocalSubject(lambda *args: None)
    subject.run(complain)
    raised = answered(subject, 0, None, [2**63] * 1000)["raised"]
    assert raised["kind"] == "ValueError" and raised["message"].startswith("got [922")


def test_what_is_passed_in_is_not_kept() -> None:
    """An array that was given to a lent cache can be written into later without changing it."""
    subject, rng = LocalSubject(lambda *args: None), rng_for("2.2", LENDING["2.2"].stages[0], "x")
    subject.run(lend_cache(LentCache(4, 5)))
    k = rng.normal(size=5)
    want = k.copy()
    answered(subject, 0, "append", k, k)
    k[:] = 0.0
    answered(subject, 0, "rows")["value"][0][:] = 0.0
    assert np.array_equal(answered(subject, 0, "rows")["value"][0], [want])
