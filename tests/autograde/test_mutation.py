"""The proof of the grader: every mistake loses marks and is named, every variant gets full marks, for 20 seeds."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module

import numpy as np
import pytest

from autograde.exercise import Exercise
from autograde.exercises import load
from autograde.judge import judge_here
from autograde.matrix import FILE, SEEDS

EXERCISES = list(load().values())
WRITTEN = FILE.read_text(encoding="utf-8").splitlines() if FILE.is_file() else []
OUT_OF_DATE = f"{FILE.name} is out of date: run `python -m autograde matrix`"

pytestmark = pytest.mark.usefixtures("one_thread")

# "your code raised call 1, append('A'): IndexError" is none.
SENTENCE = re.compile(r"your code raised ([A-Z]\w*\b|(after|asked|at|for|in|with|when) )")

# One test judges all work on one exercise for one seed: what each mistake does with a seed is then worked out once, and
# serves the diagnosis of all others.
EACH = [pytest.param(exercise, seed, id=f"{exercise.id}-{seed}") for exercise in EXERCISES for seed in SEEDS]

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


@pytest.mark.parametrize(("exercise", "seed"), EACH)
def test_every_variant_gets_full_marks(exercise: Exercise, seed: str) -> None:
    wrong = []
    for variant in exercise.variants:
        verdict = judge_here(exercise, variant.candidate, seed)
        if verdict.points != exercise.points:
            wrong.append((variant.name, verdict.failure.stage.name, verdict.failure.finding))
    assert not wrong


@pytest.mark.parametrize(("exercise", "seed"), EACH)
def test_every_mistake_loses_marks_and_is_named(exercise: Exercise, seed: str) -> None:
    wrong = []
    for mistake in exercise.mistakes:
        verdict = judge_here(exercise, mistake.fresh(), seed)
        if verdict.points >= exercise.points:
            wrong.append((mistake.name, "survives"))
            continue
        names = [found.name for found in verdict.diagnosis.mistakes] if verdict.diagnosis else []
        if (verdict.failure.stage.name, names) != (mistake.killed_by, [mistake.name]):
            wrong.append((mistake.name, verdict.failure.stage.name, names, verdict.failure.finding))
        facts = [outcome.finding.fact for outcome in verdict.outcomes if outcome.finding]
        wrong += [
            (mistake.name, fact) for fact in facts if fact.startswith("your code raised") and not SENTENCE.match(fact)
        ]
    assert not wrong


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.id)
def test_the_table_says_what_the_tests_above_hold(exercise: Exercise) -> None:
    """Its rows are what was seen when it was written: a row that promises less, or else, is out of date."""
    rows = [f"{mistake.name} | {mistake.killed_by} | {mistake.name}" for mistake in exercise.mistakes]
    rows += [variant.name for variant in exercise.variants]
    seeds = f"{len(SEEDS)} of {len(SEEDS)}"
    missing = [row for row in rows if f"| {exercise.id} | {row} | {seeds} |" not in WRITTEN]
    assert not missing, OUT_OF_DATE


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
