"""Exercise 12.2: what one step computes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from autograde.compare import shown
from autograde.exercise import Exercise, stage
from autograde.exercises.plan_step.candidates import MISTAKES, VARIANTS
from autograde.finding import Finding, held
from autograde.subject import Subject
from kvlib.plan_step import plan_step


def right_plan(decoding: Sequence[int], prefilling: Sequence[Sequence[int]], max_tokens: int) -> list[list[int]]:
    """Token by token: each goes to the first who still needs one."""
    needs = [[i, 1] for i in decoding] + [list(entry) for entry in prefilling]
    plan: list[list[int]] = []
    for _ in range(max_tokens):
        k = next((k for k, (_, need) in enumerate(needs) if need > 0), None)
        if k is None:
            break
        needs[k][1] -= 1
        if not plan or plan[-1][0] != needs[k][0]:
            plan.append([needs[k][0], 0])
        plan[-1][1] += 1
    return plan


def ask(
    subject: Subject, rng: np.random.Generator, decoding: int, remaining: Sequence[int], max_tokens: int
) -> Finding:
    """Asks for one plan: so many decode, and these numbers of tokens remain of the prompts."""
    ids = [int(i) for i in rng.permutation(90)[: decoding + len(remaining)] + 7]
    if len(ids) > 2:
        ids[rng.integers(2)] = 0  # an id like any other
    first, prompts = ids[:decoding], [[i, n] for i, n in zip(ids[decoding:], remaining, strict=True)]
    got = subject.run(first, prompts, max_tokens)
    return judged(subject, got, first, prompts, max_tokens)


def judged(subject: Subject, got: Any, decoding: list[int], prefilling: list[list[int]], max_tokens: int) -> Finding:
    """Whether this is the plan."""
    want = right_plan(decoding, prefilling, max_tokens)
    if isinstance(got, np.ndarray) and got.dtype.kind in "iu":
        got = got.tolist()
    where = f"decoding {decoding}, prefilling {prefilling}, max_tokens {max_tokens}"
    where = where if len(where) < 130 else f"{len(decoding)} decode, prefilling {prefilling}, max_tokens {max_tokens}"
    events = len(subject.record)
    is_list = isinstance(got, list) and len(got) < 1000
    if not is_list or not all(isinstance(entry, list) and len(entry) == 2 for entry in got):
        given = "a list of something else" if isinstance(got, list) else shown(got)
        return Finding(
            False, "list", "a list of [id, num_tokens] is returned", where, str(want)[:90], given, events=events
        )
    if not all(type(number) is int for entry in got for number in entry):
        fact = "ids and numbers of tokens are whole numbers"
        return Finding(False, "list", fact, where, str(want)[:90], "something else", events=events)
    if got == want:
        return held("plan", "everybody who decodes gets a token, and prompts in order what is left")
    total = sum(count for _, count in got)
    if total > max_tokens:
        fact = "does not hold: a plan has at most max_tokens tokens in all"
        return Finding(False, "total", fact, where, f"{max_tokens} at most", f"{total}: {got}"[:90], events=events)
    k = next((k for k, (a, b) in enumerate(zip(want, got, strict=False)) if a != b), min(len(want), len(got)))
    expected, given = (str(plan[k]) if k < len(plan) else "nothing more" for plan in (want, got))
    clue = "; an entry has one token at least" if any(count < 1 for _, count in got) else ""
    fact = f"does not hold: everybody who decodes gets a token, and prompts in order what is left{clue}"
    return Finding(False, "plan", fact, f"{where}; entry {k}", expected, given, events=events)


@stage("who decodes", why="Each of them needs one token, in every step.")
def who_decodes(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for decoding, max_tokens in ((3, 8), (1, 5), (5, 5), (4, 97)):
        yield ask(subject, rng, decoding, [], max_tokens)


@stage("one prompt", why="A prompt gets what is left of the budget, and no more than remains of it.")
def one_prompt(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for decoding, remaining, max_tokens in (
        (0, 3, 8),
        (0, 23, 8),
        (3, 23, 8),
        (2, 4, 11),
        (3, 5, 8),
        (2, 1, 9),
        (4, 7, 10),
    ):
        yield ask(subject, rng, decoding, [remaining], max_tokens)


@stage("several prompts", weight=2, why="They share what is left, in order: the first as much as it can use.")
def several_prompts(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for decoding, remaining, max_tokens in (
        (0, [3, 5, 2], 17),
        (2, [3, 5, 2], 13),
        (2, [9, 4], 8),
        (1, [3, 11, 5], 9),
        (3, [2, 7, 6, 4], 17),
        (0, [1, 1, 30, 1], 7),
        (2, [6, 1, 5, 3], 12),
        (13, [43, 5, 2, 31, 7, 19], 103),
    ):
        yield ask(subject, rng, decoding, remaining, max_tokens)


@stage("nothing left", weight=2, why="A budget may be too small for all who decode, and it may be used up just so.")
def nothing_left(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for decoding, remaining, max_tokens in (
        (5, [], 3),
        (4, [6], 4),
        (7, [3, 2], 5),
        (3, [4, 6], 7),
        (1, [2, 3], 1),
        (0, [5, 3], 5),
        (0, [3, 4, 2], 7),
        (2, [4], 1),
        (2, [3, 4, 6], 6),
    ):
        yield ask(subject, rng, decoding, remaining, max_tokens)


@stage("nothing to do", why="Nobody there, or a prompt of which nothing remains: no entry.")
def nothing_to_do(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    yield ask(subject, rng, 2, [5], 11)
    yield ask(subject, rng, 1, [0, 4, 0], 7)
    yield ask(subject, rng, 0, [0], 7)
    yield ask(subject, rng, 0, [], 4)


EXERCISE = Exercise(
    id="12.2",
    name="plan_step",
    title="What one step computes",
    goal="Share the tokens of one step out between those who decode and prompts.",
    points=5,
    minutes=15,
    difficulty=2,
    hints=(
        "Those who decode come first, one token each, and no more of them than the budget has tokens. Then go through "
        "the prompts in order, and keep count of what is left.",
        "`decoding[:max_tokens]` are those that get their token. A prompt gets the smaller of two numbers: what "
        "remains of it, and what is left of the budget. When that is 0, it has no entry.",
        "`plan = [[i, 1] for i in decoding[:max_tokens]]`, `left = max_tokens - len(plan)`; then for each "
        "`i, remaining`: `count = min(remaining, left)`, and if it is above 0, append `[i, count]` and take it off "
        "`left`.",
    ),
    stages=(who_decodes, one_prompt, several_prompts, nothing_left, nothing_to_do),
    reference=plan_step,
    mistakes=MISTAKES,
    variants=VARIANTS,
)
