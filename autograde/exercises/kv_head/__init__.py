"""Exercise 4.1: which KV head a query head reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from autograde.compare import shown
from autograde.exercise import Exercise, stage
from autograde.exercises.kv_head.candidates import MISTAKES, VARIANTS
from autograde.exercises.scalars import refused
from autograde.finding import Finding, held
from autograde.lazy import Later
from autograde.subject import LearnerRaised, Subject
from autograde.value import Opaque


def _by_counting(num_heads: int, num_kv_heads: int) -> list[int]:
    """Give out the query heads one after the other: the first group to KV head 0, the next to KV head 1, and so on."""
    owners: list[int] = []
    for shared in range(num_kv_heads):
        owners.extend(shared for _ in range(num_heads // num_kv_heads))
    return owners


def _map(subject: Subject, num_heads: int, num_kv_heads: int) -> Finding:
    """Ask for every query head, then compare the whole map."""
    sizes = f"{num_heads} query heads on {num_kv_heads} KV heads"
    got = []
    for h in range(num_heads):
        try:
            got.append(_scalar(subject.run(h, num_heads, num_kv_heads)))
        except LearnerRaised as error:
            if error.is_a("NotImplementedError") or error.kind == "Misuse":
                raise
            error.args = (f"for query head {h} of {sizes}: {error}",)
            raise
    want = _by_counting(num_heads, num_kv_heads)
    key = f"map {num_heads}/{num_kv_heads}"
    if got == want and all(type(value) is int for value in got):
        return held(key, "every query head reads the KV head of its group")
    if got == want:
        fact = "a KV head is an index, so a whole number (an int) must come back"
        return Finding(False, f"int {key}", fact, sizes, "ints", _listed(got), events=len(subject.record))
    fact = "does not hold: every query head reads the KV head of its group"
    return Finding(False, key, fact, sizes, _listed(want), _listed(got), events=len(subject.record))


def _scalar(value: object) -> object:
    """An array of one number is that number; a larger one is told by its shape."""
    if not isinstance(value, np.ndarray):
        return value
    return value.reshape(()).item() if value.size == 1 else Opaque(f"array of shape {value.shape}")


def _listed(values: list) -> str:
    """The map, as the learner would print it."""
    return "[" + ", ".join(shown(value) if value is not None else "None" for value in values) + "]"


def _all_refused(subject: Subject, calls: Sequence[tuple[int, int, int]]) -> Iterable[Finding]:
    """Every call is made before the first is judged: which of them are accepted tells one wrong check from another."""
    for finding in [_refused(subject, *call) for call in calls]:
        yield finding if finding.ok else replace(finding, events=len(subject.record))


def _refused(subject: Subject, h: int, num_heads: int, num_kv_heads: int) -> Finding:
    what = f"head {h} of {num_heads} query heads on {num_kv_heads} KV heads"
    return refused(subject, h, num_heads, num_kv_heads, key=f"{h} of {num_heads}/{num_kv_heads}", what=what)


@stage("the map", why="Neighbours share a KV head: with 6 query heads on 2, the first three read head 0.")
def the_map(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    yield _map(subject, 6, 2)
    yield _map(subject, 6, 3)
    shapes = [(15, 3), (10, 5), (14, 2), (12, 4), (21, 7), (35, 5)]
    for i in rng.permutation(len(shapes))[:4]:
        yield _map(subject, *shapes[i])


@stage("both ends", why="One KV head for each query head is multi-head attention, one for all of them multi-query.")
def both_ends(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    some = int(rng.choice([5, 7]))
    for num_heads, num_kv_heads in ((3, 3), (3, 1), (some, some), (some, 1), (1, 1)):
        yield _map(subject, num_heads, num_kv_heads)


@stage("real sizes", why="These are the heads of models that people run: 32 on 8, 64 on 8, 28 on 4, 15 on 5.")
def real_sizes(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for num_heads, num_kv_heads in ((32, 8), (64, 8), (28, 4), (15, 5)):
        yield _map(subject, num_heads, num_kv_heads)


@stage("no such head", why="Python counts -1 from the end, so a wrong head would give a wrong row without any error.")
def no_such_head(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    yield _map(subject, 6, 2)
    calls = [(6, 6, 2), (7, 6, 2), (9, 6, 2), (11, 10, 5), (-1, 6, 2), (-7, 6, 2), (3, 3, 1), (5, 5, 5)]
    yield from _all_refused(subject, calls)
    yield _map(subject, 10, 5)


@stage("no such groups", why="Heads that cannot be shared out evenly are a broken config: refuse, do not round.")
def no_such_groups(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    yield _map(subject, 9, 3)
    shapes = [(6, 4), (7, 2), (9, 6), (2, 4), (3, 5), (5, 10)]
    yield from _all_refused(subject, [(h, *shape) for shape in shapes for h in range(shape[0])])
    yield _map(subject, 10, 2)


EXERCISE = Exercise(
    id="4.1",
    name="kv_head",
    title="Whose keys does this head read?",
    goal="Find the KV head that a query head reads, when several query heads share one.",
    points=2,
    minutes=8,
    difficulty=1,
    hints=(
        "Write the query heads 0 to 5 in a row and draw a line after every third: each part is one group. Which group "
        "is head 4 in?",
        "A group has `G = num_heads // num_kv_heads` query heads. Head `h` has `h // G` whole groups before it. "
        "Before that, look for what must be refused: a remainder, and a head that is not there.",
        "`if num_heads % num_kv_heads or not 0 <= h < num_heads: raise ValueError(...)`, then "
        "`return h // (num_heads // num_kv_heads)`.",
    ),
    stages=(the_map, both_ends, real_sizes, no_such_head, no_such_groups),
    reference=Later("kvlib.gqa", "kv_head"),
    mistakes=MISTAKES,
    variants=VARIANTS,
)
