"""The proof of the grader: every mistake loses marks and is named, every variant gets full marks, for 20 seeds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module

import numpy as np
import pytest

from autograde.exercise import Exercise
from autograde.exercises import load
from autograde.judge import judge_here
from autograde.matrix import FILE, SEEDS, mistake_line, variant_line

EXERCISES = list(load().values())
WRITTEN = FILE.read_text(encoding="utf-8").splitlines() if FILE.is_file() else []
OUT_OF_DATE = f"{FILE.name} is out of date: run `python -m autograde matrix`"

MISTAKES = [pytest.param(e, m, id=f"{e.id}-{m.name}") for e in EXERCISES for m in e.mistakes]
VARIANTS = [pytest.param(e, v, id=f"{e.id}-{v.name}") for e in EXERCISES for v in e.variants]

ORACLES = ("toy_cache.decode_outputs", "block_step.recompute_block")
ORACLES += ("cached_decoder.recompute_logits", "write_the_test.recompute_logits")


def frozen(value):
    """A key for one argument of an oracle: equal keys, equal numbers."""
    if isinstance(value, Mapping):
        return tuple((name, frozen(item)) for name, item in value.items())
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str, value.tobytes()
    return tuple(value) if isinstance(value, Sequence) else value


def remembering(oracle):
    """The same function, which works out each answer once."""
    answers = {}

    def asked(*args):
        key = tuple(map(frozen, args))
        if key not in answers:
            answers[key] = oracle(*args)
        return answers[key].copy()

    return asked


@pytest.fixture(scope="module", autouse=True)
def full_recomputation_once() -> Iterator[None]:
    """All candidates get the same inputs for a seed: the slow loops work out what is right for the first of them."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ORACLES:
            module, _, function = f"autograde.exercises.{name}".rpartition(".")
            patch.setattr(f"{module}.{function}", remembering(getattr(import_module(module), function)))
        yield


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.id)
def test_the_reference_gets_full_marks(exercise: Exercise) -> None:
    for seed in SEEDS:
        verdict = judge_here(exercise, exercise.reference, seed)
        assert verdict.points == exercise.points, verdict.failure
        assert not any(outcome.notes for outcome in verdict.outcomes)


@pytest.mark.parametrize(("exercise", "variant"), VARIANTS)
def test_a_variant_gets_full_marks(exercise, variant) -> None:
    verdicts = []
    for seed in SEEDS:
        verdict = judge_here(exercise, variant.candidate, seed)
        assert verdict.points == exercise.points, (seed, verdict.failure)
        verdicts.append(verdict)
    assert variant_line(exercise, variant, verdicts) in WRITTEN, OUT_OF_DATE


@pytest.mark.parametrize(("exercise", "mistake"), MISTAKES)
def test_a_mistake_loses_marks_and_is_named(exercise, mistake) -> None:
    verdicts = []
    for seed in SEEDS:
        verdict = judge_here(exercise, mistake.fresh(), seed)
        verdicts.append(verdict)
        assert verdict.points < exercise.points, seed
        assert verdict.failure.stage.name == mistake.killed_by, (seed, verdict.failure.finding)
        assert verdict.diagnosis is not None, (seed, verdict.failure.finding)
        assert [found.name for found in verdict.diagnosis.mistakes] == [mistake.name], seed
    assert mistake_line(exercise, mistake, verdicts) in WRITTEN, OUT_OF_DATE


def lazy_candidates():
    """Work that does nothing, or the same for every question."""

    def raising(kind):
        def work(*args, **kwargs):
            raise kind("no")

        return work

    def constant(value):
        return lambda *args, **kwargs: value

    class Nothing:
        def __init__(self, *args, **kwargs):
            pass

        def __len__(self):
            return 0

        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            return lambda *args, **kwargs: None

    class Refuses(Nothing):
        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            return raising(ValueError)

    class Zeros(Nothing):
        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            return lambda *args, **kwargs: np.zeros(3)

    for value in (None, 0, True, False, "text", np.zeros(3), np.zeros((2, 3)), (0, 0), float("nan")):
        yield f"returns {value!r}", constant(value)
    for kind in (ValueError, NotImplementedError, KeyError, SystemExit, GeneratorExit):
        yield f"raises {kind.__name__}", raising(kind)
    yield "an empty class", type("Empty", (), {})
    yield "an object that does nothing", Nothing
    yield "an object that refuses everything", Refuses
    yield "an object that answers zeros", Zeros
    yield "echo", lambda *args, **kwargs: args[0] if args else None


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.id)
@pytest.mark.parametrize(("what", "work"), [pytest.param(*pair, id=pair[0]) for pair in lazy_candidates()])
def test_work_that_does_nothing_earns_nothing(exercise, what, work) -> None:
    assert judge_here(exercise, work).points == 0.0


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.id)
def test_the_catalogue_is_large_enough_and_well_formed(exercise: Exercise) -> None:
    assert len(exercise.mistakes) >= 8
    assert len(exercise.variants) >= 3
    names = [mistake.name for mistake in exercise.mistakes]
    assert len(set(names)) == len(names)
    stages = [stage.name for stage in exercise.stages]
    assert len(set(stages)) == len(stages)
    for mistake in exercise.mistakes:
        assert mistake.killed_by in stages
        assert len(mistake.tells) <= 180, "two lines at most"
    assert len(exercise.hints) == 3
