"""Which mistake it looks like, and when nothing may be said."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from autograde.diagnosis import diagnose, same, same_tree
from autograde.exercise import Mistake
from autograde.exercises import load
from autograde.finding import Finding
from autograde.judge import judge_here
from autograde.outcome import Outcome
from autograde.report_text import verdict_text
from autograde.subject import Event
from kvlib.toy import ToyCache


def names(verdict) -> list[str]:
    return [mistake.name for mistake in verdict.diagnosis.mistakes] if verdict.diagnosis else []


def test_a_known_mistake_is_named(double) -> None:
    """The same wrong number by other code is the same mistake."""
    verdict = judge_here(double, lambda x: x + x + x)
    assert names(verdict) == ["triples"]
    assert "looks like: This is three times the number." in verdict_text(verdict)


def test_the_other_stages_tell_mistakes_apart(double) -> None:
    """Both triple a 3. What they make of the 5 decides."""
    assert names(judge_here(double, lambda x: {3: 9, 5: 10}[x])) == ["triples-small-ones"]


def test_mistakes_that_cannot_be_told_apart_are_both_named(double) -> None:
    """Neither number is nearer: the learner reads of both."""
    twin = Mistake("adds-six", lambda x: x + 6 if x == 3 else 15, "Six is added.", "small")
    verdict = judge_here(replace(double, mistakes=(*double.mistakes, twin)), lambda x: 3 * x)
    assert names(verdict) == ["triples", "adds-six"]
    assert "This is three times the number. Or: Six is added." in verdict_text(verdict)


def test_a_mistake_that_fails_elsewhere_first_is_still_found(double) -> None:
    """Work that gets further than any catalogued mistake with this signature, for a reason of its own."""
    only_late = Mistake("minus", lambda x: -x, "The sign is wrong.", "small")
    exercise = replace(double, mistakes=(only_late,))
    assert names(judge_here(exercise, lambda x: -x if x == 5 else 2 * x)) == ["minus"]


def test_an_unknown_wrong_answer_is_not_explained(double) -> None:
    """A wrong diagnosis costs more than none: the learner looks in the wrong place for an hour."""
    verdict = judge_here(double, lambda x: 7 * x)
    assert verdict.diagnosis is None
    assert "why it is asked: 3 and 3 are 6." in verdict_text(verdict)


def test_an_exception_is_not_a_wrong_number(double) -> None:
    """Another kind is another mistake. Other words are, when a library chose them."""

    def raises(kind, words="no such key"):
        def work(x):
            raise kind(words)

        return work

    known = Mistake("raises", raises(KeyError), "There is no such key.", "small")
    exercise = replace(double, mistakes=(known,))
    assert names(judge_here(exercise, raises(KeyError))) == ["raises"]
    assert names(judge_here(exercise, raises(ValueError))) == []
    assert names(judge_here(exercise, raises(KeyError, "in words of my own"))) == ["raises"]
    assert names(judge_here(exercise, lambda x: {}["something else"])) == []

    def in_one_line(x):
        if x: raise KeyError("my own words, behind an if")  # fmt: skip # noqa: E701

    def in_the_condition(x):
        if {}["what the library says"]: raise ValueError("never reached")  # fmt: skip # noqa: E701

    assert names(judge_here(exercise, in_one_line)) == ["raises"]
    assert names(judge_here(exercise, in_the_condition)) == []


def test_a_right_answer_and_an_unwritten_one_have_no_diagnosis(double) -> None:
    """Nothing to name: all is right, or nothing is there."""

    def stub(x):
        raise NotImplementedError

    known = Mistake("stub", stub, "Nothing is written.", "small")
    exercise = replace(double, mistakes=(*double.mistakes, known))
    assert judge_here(exercise, exercise.reference).diagnosis is None
    assert judge_here(exercise, stub).diagnosis is None


def test_a_loop_without_end_is_not_compared(double) -> None:
    """Catalogued mistakes run without a limit: one that loops would be waited for."""

    def never(mistake, stage):
        raise AssertionError("nothing may be run")

    late = [Outcome(double.stages[0], Finding(False, "time", "stopped after 10 s"))]
    assert diagnose(double, late, never) is None


def test_the_kind_of_every_exception_on_the_way_counts(double) -> None:
    """A refusal that was expected, by another kind of exception, is another way of going wrong later."""

    def outcome(kind):
        record = (Event("call step", raised=kind), Event("len", 3))
        return Outcome(double.stages[0], Finding(False, "length", "not so", events=2), record)

    assert same(outcome("ValueError"), outcome("ValueError"))
    assert not same(outcome("ValueError"), outcome("IndexError"))


def test_random_answers_are_called_unsteady(double) -> None:
    """The second answer to the first wrong question differs. Every catalogued name would be a lie about it."""
    counter = itertools.count(100)
    verdict = judge_here(double, lambda x: next(counter))
    assert names(verdict) == ["state-outside-the-object"]
    assert "Asked twice with the same inputs, your code answered differently" in " ".join(verdict_text(verdict).split())


def test_state_outside_the_object_is_named() -> None:
    """Two caches in one notebook share their rows: the exercise's own words for it, where it has some."""
    rows = ([], [])

    class Shared(ToyCache):
        def __init__(self, *projections):
            super().__init__(*projections)
            self.keys, self.values = rows

    verdict = judge_here(load()["1.3"], Shared)
    assert all(mistake.leaks for mistake in verdict.diagnosis.mistakes)
    assert verdict.points < load()["1.3"].points


def test_steady_work_is_asked_once_more_only_where_it_fails(double) -> None:
    """Right work pays nothing for the search for hidden state."""
    asked = []

    def counted(x):
        asked.append(x)
        return 2 * x

    assert judge_here(double, counted).passed
    assert asked == [3, 5]


ARRAY = np.array([[1.0, 2.0]])


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (ARRAY, ARRAY.tolist()),
        (ARRAY, ARRAY.ravel()),
        (ARRAY, ARRAY * (1 + 1e-7)),
        (np.array([np.nan, np.inf]), np.array([np.nan, np.inf])),
        (3, 3.0),
        ([None, "x", [1, 2]], [None, "x", np.array([1, 2])]),
        ({"K": ARRAY}, {"K": ARRAY.copy()}),
        (ARRAY + 0j, ARRAY),
        (None, None),
    ],
)
def test_trees_that_hold_the_same(a, b) -> None:
    """The same answer as a list, in float32 or with another axis of one is the same mistake."""
    assert same_tree(a, b)
    assert same_tree(b, a)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (ARRAY, ARRAY * 1.001),
        (ARRAY, np.array([1.0, 2.0, 3.0])),
        (ARRAY, None),
        (np.zeros((2, 3)), np.zeros((3, 2))),
        (np.array([np.nan, 1.0]), np.array([1.0, 1.0])),
        (np.array([np.inf]), np.array([-np.inf])),
        (np.array([np.inf]), np.array([1.0])),
        ("1", 1),
        (True, 1),
        (ARRAY > 0, np.ones((1, 2))),
        ("x", "y"),
        ([1, [2, 3]], [1, [2, 4]]),
        ([None], [None, None]),
        ({"K": ARRAY}, {"V": ARRAY}),
        (ARRAY + 1j, ARRAY),
    ],
)
def test_trees_that_differ(a, b) -> None:
    """A signature that is too forgiving names the wrong mistake."""
    assert not same_tree(a, b)
    assert not same_tree(b, a)
