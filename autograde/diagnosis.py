"""Names a mistake by its signature.

A wrong piece of work is compared with the catalogued mistakes, driven through the same stages with the same inputs. Two
pieces of work that give the same replies, up to and including the first wrong one, and fail the same question, share
the signature.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np

from autograde.compare import ROUNDED, tolerance
from autograde.exercise import Exercise, Mistake, Stage
from autograde.outcome import Outcome
from autograde.subject import Event
from autograde.value import holds_only_numbers


@dataclass(frozen=True)
class Diagnosis:
    """The catalogued mistakes whose signature the work shares; more than one when the stages cannot tell them apart."""

    mistakes: tuple[Mistake, ...]
    whole: bool = True  # the rest of the stage agrees too, not only what came up to the first wrong reply

    @property
    def label(self) -> str:
        """What stands before the text."""
        return "looks like" if self.whole else "up to here it looks like"

    @property
    def text(self) -> str:
        """What to tell the learner."""
        return " Or: ".join(mistake.tells for mistake in self.mistakes[:2])


OWN_WORDS = "(raised by the learner's own line)"

LEAKS = Mistake(
    "state-outside-the-object",
    None,
    "Asked twice with the same inputs, your code answered differently. Either it keeps something outside the object "
    "(on the class, in a default argument), or it is random.",
    killed_by="",
    leaks=True,
)


def diagnose(
    exercise: Exercise,
    outcomes: Sequence[Outcome],
    outcome_of: Callable[[Mistake, Stage], Outcome],
    unsteady: bool = False,
) -> Diagnosis | None:
    """The mistakes that match at the first failing stage, and among them those that match at most other stages.

    `outcome_of` runs one stage on a catalogued mistake, with the same inputs. `unsteady` work answered the same
    question differently the second time. Its replies depend on what was asked before, so there is no signature to
    compare.
    """
    if unsteady:
        return Diagnosis(tuple(mistake for mistake in exercise.mistakes if mistake.leaks) or (LEAKS,))
    first = next((outcome for outcome in outcomes if outcome.finding is not None), None)
    if first is None or first.finding is None or first.finding.key in ("not implemented", "time"):
        return None
    steady = [mistake for mistake in exercise.mistakes if not mistake.leaks]
    expected = [mistake for mistake in steady if mistake.killed_by == first.stage.name]
    others = [mistake for mistake in steady if mistake.killed_by != first.stage.name]
    for mistakes in (expected, others):  # those that get as far as this work did; the others only if none of them match
        alike = [mistake for mistake in mistakes if same(first, outcome_of(mistake, first.stage))]
        if alike:
            alike = _most_alike(alike, outcomes, outcome_of)
            return Diagnosis(tuple(alike), whole=_same_record(first, outcome_of(alike[0], first.stage)))
    return None


def _most_alike(
    mistakes: list[Mistake], outcomes: Sequence[Outcome], outcome_of: Callable[[Mistake, Stage], Outcome]
) -> list[Mistake]:
    """What came after the first wrong reply, and the other stages, tell them apart."""
    if len(mistakes) == 1:
        return mistakes
    scores = [
        sum(_likeness(outcome, outcome_of(mistake, outcome.stage)) for outcome in outcomes) for mistake in mistakes
    ]
    return [mistake for mistake, score in zip(mistakes, scores, strict=True) if score == max(scores)]


def same(ours: Outcome, theirs: Outcome) -> bool:
    """Whether two outcomes of one stage share the signature."""
    if ours.held or theirs.held or ours.finding is None or theirs.finding is None:
        return ours.held == theirs.held
    a, b = ours.finding, theirs.finding
    if (a.key, a.events) != (b.key, b.events) or not _seen_alike(a.seen, b.seen):
        return False
    mine, other = ours.record[: a.events], theirs.record[: b.events]
    return len(mine) == len(other) and all(map(_same_event, mine, other))


def _seen_alike(ours: Any, theirs: Any) -> bool:
    """Whether the facts that no reply holds are the same. Of an exception raised in words of one's own, the kind is."""
    if isinstance(ours, tuple) and isinstance(theirs, tuple) and OWN_WORDS in ours:
        return ours[:1] == theirs[:1]
    return ours == theirs


def _same_record(ours: Outcome, theirs: Outcome) -> bool:
    return len(ours.record) == len(theirs.record) and all(map(_same_event, ours.record, theirs.record))


def _same_event(x: Event, y: Event) -> bool:
    return x.op == y.op and x.raised == y.raised and same_tree(x.value, y.value)


def _likeness(ours: Outcome, theirs: Outcome) -> float:
    """How much of a stage two pieces of work have in common, from 0 to 2."""
    longest = max(len(ours.record), len(theirs.record), 1)
    common = sum(1 for _ in takewhile(bool, map(_same_event, ours.record, theirs.record)))
    return same(ours, theirs) + common / longest


def same_tree(a: Any, b: Any) -> bool:
    """Whether two trees hold the same values, float32 rounding and the choice of list or array apart."""
    if a is b:
        return True
    if type(a) is np.ndarray and type(b) is np.ndarray:
        return _same_numbers(a, b)
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same_tree(a[key], b[key]) for key in a)
    x, y = _numbers(a), _numbers(b)
    if x is not None and y is not None:
        return _same_numbers(x, y)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(same_tree(x, y) for x, y in zip(a, b, strict=True))
    return type(a) is type(b) and not isinstance(a, np.ndarray) and a == b


def _numbers(tree: Any) -> np.ndarray | None:
    if not holds_only_numbers(tree):
        return None
    try:
        array = np.asarray(tree)
    except ValueError:  # a ragged list
        return None
    return array if array.dtype.kind in "biufc" else None


def _same_numbers(x: np.ndarray, y: np.ndarray) -> bool:
    if (x.dtype.kind == "b") != (y.dtype.kind == "b"):
        return False  # True is not the number 1: another mistake
    if x.shape != y.shape:
        if x.size != y.size or tuple(n for n in x.shape if n != 1) != tuple(n for n in y.shape if n != 1):
            return False
        x = x.reshape(y.shape)
    if "c" not in (x.dtype.kind, y.dtype.kind):
        x, y = x.astype(np.float64), y.astype(np.float64)
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    if same.all():
        return True
    with np.errstate(invalid="ignore"):  # inf - inf
        return bool((same | (np.abs(x - y) <= tolerance(y[np.isfinite(y)], ROUNDED))).all())
