"""Runs an exercise's stages on a piece of work and decides every point."""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from autograde.deadline import TimeUp, time_limit
from autograde.diagnosis import OWN_WORDS, Diagnosis, diagnose, same
from autograde.exercise import Exercise, Mistake, Stage
from autograde.finding import Finding
from autograde.host import is_learners, running_line
from autograde.outcome import Outcome
from autograde.poison import poisoned_memory
from autograde.quiet import Counter, quiet
from autograde.subject import LearnerRaised, LocalSubject, Subject, WorkStopped
from autograde.tensors import prepare

PRACTICE = "practice"  # the seed of a check in a notebook: the same inputs every time, so that a message can be studied
MOST_OF_A_MESSAGE = 100  # characters


class GraderError(Exception):
    """A stage itself failed: a defect of the grader's, never the learner's fault."""


@dataclass(frozen=True)
class Verdict:
    """What the stages found, and the points that follow from it."""

    exercise: Exercise
    outcomes: tuple[Outcome, ...]
    diagnosis: Diagnosis | None = None
    printed: int = 0  # lines that the work printed while it was checked

    @property
    def points(self) -> float:
        """Points earned, from 0 to `exercise.points`, by the weight of the stages that hold."""
        total = sum(outcome.stage.weight for outcome in self.outcomes)
        earned = sum(outcome.stage.weight for outcome in self.outcomes if outcome.held)
        return float(self.exercise.points) if earned == total else round(self.exercise.points * earned / total, 2)

    @property
    def passed(self) -> bool:
        """Whether every stage holds."""
        return all(outcome.held for outcome in self.outcomes)

    @property
    def failure(self) -> Outcome | None:
        """The first stage that does not hold."""
        return next((outcome for outcome in self.outcomes if not outcome.held), None)


def judge(
    exercise: Exercise,
    make_subject: Callable[[], Subject],
    seed: str = PRACTICE,
    limit: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext,
) -> Verdict:
    """Run every stage, each with a subject and inputs of its own.

    Whoever makes the subjects also sees to it that they come to an end within the exercise's time: `limit()` raises
    `TimeUp` in this process, a subject of another process raises `WorkStopped`. Raises `GraderError` when a stage
    breaks by itself.
    """

    def ask(stage: Stage) -> Outcome:
        with contextlib.closing(make_subject()) as subject:
            subject.tensors = exercise.tensors
            return run_stage(exercise.id, stage, subject, seed)

    prepare(exercise.tensors)
    outcomes: list[Outcome] = []
    printed = Counter()
    unsteady = False  # the same question, asked twice, was answered differently
    try:
        with quiet(printed), poisoned_memory(), limit():
            for stage in exercise.stages:
                outcomes.append(ask(stage))
            first = next((outcome for outcome in outcomes if not outcome.held), None)
            if first is not None:
                unsteady = not same(first, ask(first.stage))
    except (TimeUp, WorkStopped) as stop:
        if len(outcomes) < len(exercise.stages):  # else all was said, and only the repetition was cut short
            outcomes.append(Outcome(exercise.stages[len(outcomes)], _stopped(exercise, stop)))
    for stage in exercise.stages[len(outcomes) :]:
        outcomes.append(Outcome(stage, None))

    def outcome_of(mistake: Mistake, stage: Stage) -> Outcome:
        return _outcome_of(exercise.id, stage, mistake.candidate, seed, exercise.tensors)

    with quiet(Counter()), poisoned_memory():
        diagnosis = diagnose(exercise, outcomes, outcome_of, unsteady)
    return Verdict(exercise, tuple(outcomes), diagnosis, printed.lines)


def judge_here(exercise: Exercise, work: object, seed: str = PRACTICE) -> Verdict:
    """Judge work that lives in this process, where its time is limited by alarm signals."""
    limit = partial(time_limit, exercise.seconds, may_trace=is_learners)
    return judge(exercise, lambda: LocalSubject(work), seed, limit)


@lru_cache(maxsize=1000)
def _outcome_of(exercise_id: str, stage: Stage, candidate: object, seed: str, tensors: bool | str) -> Outcome:
    """How a catalogued mistake fares. The same every time, so a second wrong try in a notebook is answered at once."""
    with contextlib.closing(LocalSubject(candidate, tensors)) as subject:
        return run_stage(exercise_id, stage, subject, seed)


def rng_for(exercise_id: str, stage: Stage, seed: str) -> np.random.Generator:
    """The random inputs of one stage: they depend on nothing but the seed, the exercise and the stage."""
    digest = hashlib.sha256(f"{seed}|{exercise_id}|{stage.name}".encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "little"))


def run_stage(exercise_id: str, stage: Stage, subject: Subject, seed: str) -> Outcome:
    """Run one stage up to the first finding that does not hold."""
    notes: list[str] = []
    any_finding = False
    try:
        for finding in stage.run(subject, rng_for(exercise_id, stage, seed)):
            any_finding = True
            if not finding.ok:
                return Outcome(stage, finding, tuple(subject.record), tuple(notes))
            if finding.note:
                notes.append(finding.note)
    except LearnerRaised as error:
        return Outcome(stage, _raised(error, subject), tuple(subject.record), tuple(notes))
    except WorkStopped:
        raise
    except Exception as error:
        raise GraderError(f"stage {stage.name!r} of exercise {exercise_id} broke: {error!r}") from error
    if not any_finding:
        raise GraderError(f"stage {stage.name!r} of exercise {exercise_id} asked nothing")
    return Outcome(stage, held=True, record=tuple(subject.record), notes=tuple(notes))


def _raised(error: LearnerRaised, subject: Subject) -> Finding:
    # torch says so of what it lacks in FP8 ("gather" not implemented for 'Float8_e4m3fn'): that is no stub.
    unwritten = error.is_a("NotImplementedError") and "not implemented for '" not in error.message
    key = "not implemented" if unwritten else "raised"
    text = _brief(str(error))
    if error.kind == "Misuse":
        text = error.message
    elif key == "raised":
        text = f"your code raised {text}"
    else:
        text = f"{error.line or 'your code'} still raises NotImplementedError: write it"
    if key == "raised" and error.line:
        text = f"{text} ({error.line})"
    where = subject.asked if key == "raised" and error.kind != "Misuse" else ""
    # A refusal is told in words of one's own. The words of a library are those of one mistake.
    raises = rf"`raise |[:;] *raise [\w.]*\b{re.escape(error.kind)}\b"  # alone on its line, or behind an `if`
    words = OWN_WORDS if re.search(raises, error.line) else error.message
    return Finding(False, key, text, where=where, events=len(subject.record), seen=(error.kind, words))


def _brief(message: str) -> str:
    """A library's words, short enough that the learner's own line has room beside them."""
    # "matmul: Input operand 1 has a mismatch in its core dimension 0, with gufunc signature (n?,k),(k,m?)->(n?,m?)
    # (size 3 is different from 0)": the sizes are what helps.
    message = re.sub(r"Input operand \d+ has a mismatch .* \((size \d+ is different from \d+)\)$", r"\1", message)
    return message if len(message) <= MOST_OF_A_MESSAGE else f"{message[:MOST_OF_A_MESSAGE].rstrip()} ..."


def _stopped(exercise: Exercise, stop: TimeUp | WorkStopped) -> Finding:
    if isinstance(stop, WorkStopped):
        return Finding(False, stop.status, stop.fact, where=stop.where)
    return Finding(False, "time", time_fact(exercise.seconds), where=running_line(stop.frame, stop.outermost))


def time_fact(seconds: float) -> str:
    """What to say of work that ran out of time."""
    return f"stopped after {seconds:g} s: a loop that never ends?"
