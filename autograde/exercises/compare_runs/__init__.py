"""Exercise 10.3: a comparison of two runs that does not overlook anything."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from autograde.compare import shown
from autograde.exercise import Exercise, stage
from autograde.exercises.compare_runs.candidates import MISTAKES, VARIANTS
from autograde.exercises.compare_runs.model import Lie, TwoArms
from autograde.expect import agrees, counts, equals
from autograde.finding import Finding, held
from autograde.lazy import Later
from autograde.subject import Subject


class Run:
    """One comparison: the model that was lent, and what came back."""

    def __init__(
        self, subject: Subject, rng: np.random.Generator, tokens: int, steps: int, lies: Sequence[Lie]
    ) -> None:
        self.subject, self.steps = subject, steps
        self.prompt = [int(t) for t in rng.integers(0, 11, size=tokens)]
        self.model = TwoArms(int(rng.integers(1 << 30)), self.prompt, lies)
        self.got: Any = subject.run(self.model.lent(), self.prompt, steps)

    def judged(self, key: str) -> Iterable[Finding]:
        if not isinstance(self.got, dict) or not {"same", "first", "largest"} <= set(self.got):
            text = "a dict comes back, with same, first and largest"
            got = (
                f"a dict with {sorted(map(str, self.got))}"[:60]
                if isinstance(self.got, dict)
                else type(self.got).__name__
            )
            yield Finding(False, f"{key} dict", text, got=got, events=len(self.subject.record))
            return
        differing, largest = self.model.expected(self.steps)
        where = f"prompt of {len(self.prompt)}, {self.steps} steps"
        first = differing[0] if differing else None
        same = self.steps - len(differing)
        fact = "same counts the steps with the same best token"
        yield equals(self.subject, self.got["same"], same, key=f"{key} same", fact=fact, what=where)
        fact = "first is the number of the first step that differs, from 0"
        if first is None:
            yield self._none(f"{key} first", where)
        else:
            yield equals(self.subject, self.got["first"], first, key=f"{key} first", fact=fact, what=where)
        fact = "largest is the largest |difference| of any logit at any step"
        got = self.got["largest"]
        one = got.reshape(()).item() if isinstance(got, np.ndarray) and got.size == 1 else got
        if math.isinf(largest):
            yield self._infinite(one, f"{key} largest", where)
        else:
            yield agrees(self.subject, one, largest, key=f"{key} largest", fact=fact)
        alike, due = self.model.fed_alike(self.steps), len(self.prompt) + self.steps - 1
        fact = "the cached arm is fed the best tokens of the other run"
        yield counts(self.subject, alike, due, key=f"{key} fed", fact=fact, clue="counted in tokens from the start")

    def _none(self, key: str, where: str) -> Finding:
        fact = "first is None where no step differs"
        if self.got["first"] is None:
            return Finding(True, key, fact)
        got = str(self.got["first"])[:40]
        events = len(self.subject.record)
        return Finding(False, key, f"does not hold: {fact}", where=where, expected="None", got=got, events=events)

    def _infinite(self, got: Any, key: str, where: str) -> Finding:
        fact = "a NaN among the logits makes largest infinite"
        if isinstance(got, float) and got == math.inf:
            return held(key, fact)
        events, given = len(self.subject.record), shown(got)
        return Finding(False, key, f"does not hold: {fact}", where=where, expected="inf", got=given, events=events)

    def worked(self, key: str) -> Iterable[Finding]:
        """Whether each arm was asked for what it has to do."""
        model, p, n = self.model, len(self.prompt), self.steps
        fact = "the cached arm gets the prompt, then one token a step"
        yield counts(self.subject, model.pushed, p + n - 1, key=f"{key} pushed", fact=fact, clue="counted in tokens")
        fact = "the arm without a cache gets the whole text at every step"
        yield counts(self.subject, model.recomputed, n * p + n * (n - 1) // 2, key=f"{key} full", fact=fact)


@stage("both alike", why="Nothing differs but rounding: all steps are the same, and the largest difference is tiny.")
def both_alike(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for tokens, steps, off in ((5, 4, 0.0), (3, 7, 3e-3), (1, 1, 2e-3)):
        run = Run(subject, rng, tokens, steps, [Lie(step, "add", off * (step + 1)) for step in range(steps)])
        yield from run.judged(f"{tokens} and {steps}")


@stage(
    "another token", weight=2, why="The cached arm prefers another token at some steps. Both go on with the full run's."
)
def another_token(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for name, steps, at in (("middle", 7, [3]), ("several", 8, [2, 3, 6]), ("first", 5, [0]), ("last", 6, [5])):
        lies = [Lie(step, "swap") for step in at]
        if name == "middle":  # what differs otherwise comes later, and is larger
            lies.append(Lie(5, "best", 2.5))
        yield from Run(subject, rng, 4, steps, lies).judged(name)


@stage("anywhere", weight=1, why="The best token can be right while other logits are far off, up or down, at any step.")
def anywhere(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for name, steps, lies in (
        ("down", 6, [Lie(2, "worst", -7.5), Lie(4, "add", 0.25)]),
        ("at the start", 5, [Lie(0, "worst", -4.5), Lie(3, "worst", -1.5)]),
        ("at the end", 5, [Lie(4, "worst", -3.5), Lie(1, "add", -0.5)]),
        ("up", 4, [Lie(1, "best", 2.5), Lie(2, "worst", -0.5)]),
        ("below the best", 5, [Lie(1, "second"), Lie(3, "low")]),
    ):
        yield from Run(subject, rng, 3, steps, lies).judged(name)


@stage("not a number", why="max() and > pass over NaN in silence: a comparison that lets it through is none.")
def not_a_number(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for name, lies in (
        ("another difference, then NaN", [Lie(0, "worst", -2.5), Lie(2, "nan", 4.0)]),
        ("NaN at the best one", [Lie(1, "nan best", 1.0)]),
        ("NaN, then another difference", [Lie(0, "nan"), Lie(1, "add", 0.25), Lie(2, "worst", -2.5)]),
        ("NaN in the run without a cache", [Lie(1, "add", 0.25), Lie(3, "nan full")]),
    ):
        yield from Run(subject, rng, 3, 4, lies).judged(name)
    yield from Run(subject, rng, 4, 3, [Lie(2, "add", 0.125)]).judged("no NaN")


@stage("the work", why="A cache that is fed everything again, or holds another text, is not what you want to compare.")
def the_work(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for tokens, steps in ((5, 6), (2, 3)):
        run = Run(subject, rng, tokens, steps, [Lie(1, "swap")])
        yield from run.judged(f"{tokens} and {steps}")
        yield from run.worked(f"{tokens} and {steps}")


EXERCISE = Exercise(
    id="10.3",
    name="compare_runs",
    title="Is it the same model?",
    goal="Compare a run with a cache and one without, step by step, so that nothing slips through.",
    points=4,
    minutes=20,
    difficulty=3,
    tensors=True,
    hints=(
        "One loop over the steps. The arm without a cache sees all tokens so far, the cached one only those that it "
        "has not seen. What does each of them see in the first step, and in the second?",
        "Both go on with the best token of the arm *without* a cache, also where the other one prefers another. At "
        "each step compare the last rows: their best tokens, and the largest absolute difference.",
        "`model.start()`; `text, new = list(prompt), list(prompt)`; in each step `right = model.full(text)[-1]`, "
        "`got = model.cached(new)[-1]`, then `new = [int(right.argmax())]` and `text = text + new`. Count a difference "
        "that is NaN (`d != d`) as `float('inf')`.",
    ),
    stages=(both_alike, another_token, anywhere, not_a_number, the_work),
    reference=Later("kvlib.compare_runs", "compare_runs"),
    mistakes=MISTAKES,
    variants=VARIANTS,
)
