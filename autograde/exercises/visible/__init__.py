"""Exercise 5.1: which key may which query see, told from positions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from autograde.exercise import Exercise, stage
from autograde.exercises.masks import sees_right
from autograde.exercises.visible.candidates import MISTAKES, VARIANTS
from autograde.finding import Finding
from autograde.lazy import Later
from autograde.subject import Subject

RULE = "a query sees the keys at its own position and before"
NOT_THERE = -1


def ask(subject: Subject, q: Sequence[int], k: Sequence[int], key: str, fact: str = RULE) -> Finding:
    """One mask for these positions."""
    got = subject.run(np.array(q, dtype=np.int64), np.array(k, dtype=np.int64))
    return sees_right(subject, got, q, k, key=key, fact=fact)


@stage("a prompt", why="Nothing was held before: the mask is the square triangle, its diagonal included.")
def a_prompt(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    yield ask(subject, range(5), range(5), "five")
    yield ask(subject, range(2), range(2), "two")


@stage("a chunk", weight=2, why="With tokens held, T < S: the mask is a rectangle, and the held keys are all seen.")
def a_chunk(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    yield ask(subject, (3, 4), range(5), "two after three")
    held = int(rng.integers(5, 9))
    yield ask(subject, range(held, held + 3), range(held + 3), "three more")
    yield ask(subject, (held,), range(held + 1), "one", "one new token sees every token held, and itself")


@stage(
    "keys of later positions", why="Slots that come later, or tokens of later chunks, may be there: nobody sees ahead."
)
def keys_of_later_positions(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    start, room = int(rng.integers(2, 5)), 11
    yield ask(subject, range(start, start + 3), range(room), "a buffer with room")
    yield ask(subject, (start,), range(room), "one query", "one query sees nothing that comes after it")


@stage("positions as given", why="A cache may have dropped its oldest tokens, and a query need not follow another.")
def positions_as_given(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    first = int(rng.integers(3, 7))
    dropped = f"the keys are at positions {first} and later"
    yield ask(subject, range(first + 4, first + 6), range(first, first + 6), "oldest dropped", f"{RULE}; {dropped}")
    gaps = [first, first + 1, first + 4, first + 5, first + 9]
    yield ask(subject, (first + 4, first + 9), gaps, "keys with gaps")
    yield ask(subject, (first, first + 3, first + 4), range(first + 7), "queries with gaps")
    far = [first, 300, 690, *range(698, 704)]
    yield ask(subject, (700, 701, 703), far, "far along", f"{RULE}, however long the text is")


@stage("any order", why="Slots of a ring, or of pages, are not in the order of their tokens.")
def any_order(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    turn = int(rng.integers(2, 6))
    ring = [*range(turn, 7), *range(turn)]  # the ring's oldest token lies in the middle
    yield ask(subject, (5, 6), ring, "a ring")
    shuffled = [6, 2, 0, 5, 1, 4, 3]
    yield ask(subject, (4, 6, 1, 3), shuffled, "shuffled", "rows and columns belong to the positions as they are given")


@stage("no token", why="Padding and empty slots have position -1: they are hidden from every query.")
def no_token(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    fact = "a slot at position -1 holds no token, and nobody sees it"
    start = int(rng.integers(4, 8))
    anywhere = [NOT_THERE, 0, 2, NOT_THERE, 1, start - 1, start, NOT_THERE]
    front = [NOT_THERE, NOT_THERE, *range(start)]
    behind = [*range(start), NOT_THERE, NOT_THERE, NOT_THERE]
    yield ask(subject, (start - 1, start), anywhere, "anywhere", fact)
    yield ask(subject, (start - 2, start - 1), front, "in front", fact)
    yield ask(subject, (0, 1), behind, "behind", fact)
    nothing = [NOT_THERE, start + 1, NOT_THERE]
    yield ask(subject, (start, start + 1), nothing, "nothing to see", "a query that may see no key has a row of False")


EXERCISE = Exercise(
    id="5.1",
    name="visible",
    title="The mask from positions",
    goal="Say for every query and every key whether the one may see the other, from their positions alone.",
    points=3,
    minutes=12,
    difficulty=2,
    hints=(
        "A query at position p sees the key at position j when 0 <= j and j <= p. Where a row or a column stands in "
        "the mask has no part in it.",
        "Give the queries an axis for columns, `q_positions[:, None]`, and the keys one for rows, "
        "`k_positions[None, :]`. A comparison of (T, 1) with (1, S) is (T, S).",
        "`q, k = q_positions[:, None], k_positions[None, :]`, then `return (k >= 0) & (k <= q)`. The parentheses "
        "matter: `&` binds more tightly than `<=`.",
    ),
    stages=(a_prompt, a_chunk, keys_of_later_positions, positions_as_given, any_order, no_token),
    reference=Later("kvlib.masks", "visible"),
    mistakes=MISTAKES,
    variants=VARIANTS,
    tensors=True,
)
