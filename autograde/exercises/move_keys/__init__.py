"""Exercise 9.2: keys that are turned already, moved to other positions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from autograde.exercise import Exercise, stage
from autograde.exercises.axes import named
from autograde.exercises.move_keys.candidates import MISTAKES, VARIANTS
from autograde.exercises.oracle_gqa import rope_rows
from autograde.expect import agrees
from autograde.finding import Finding
from autograde.lazy import Later
from autograde.subject import Subject

RULE = "each key is as if it had been turned to its new position at once"
AXES = ("KV head", "key", "feature")
HKV = 3


class Case:
    """Keys that were never turned, and where they stand and go to."""

    def __init__(self, rng: np.random.Generator, old: Sequence[int], new: Sequence[int], D: int, base: float) -> None:
        raw = rng.uniform(0.5, 2.0, (HKV, len(old), D)) * rng.choice([-1.0, 1.0], (HKV, len(old), D))
        self.old, self.new, self.base = np.array(old), np.array(new), base
        self.k, self.want = rope_rows(raw, old, base), rope_rows(raw, new, base)

    def ask(self, subject: Subject, key: str, fact: str = RULE) -> Finding:
        """Whether the keys come out right."""
        got = subject.run(self.k, self.old, self.new, self.base)
        return named(agrees(subject, got, self.want, key=key, fact=fact, exact=True), AXES, self.moved())

    def moved(self) -> str:
        """From where to where, in words."""
        return f"from {self.old.tolist()} to {self.new.tolist()}"


@stage("to the front", weight=2, why="What was kept closes up: the gaps go, and each key moves its own way.")
def to_the_front(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    start = int(rng.integers(5, 9))
    yield Case(rng, [0, 1, start, start + 1, start + 4], range(5), 6, 50.0).ask(subject, "closing up")
    yield Case(rng, [3, start + 2], [0, 1], 2, 50.0).ask(subject, "one pair")


@stage("any way", weight=2, why="Keys may move on as well, stay, change places, and stand in any order.")
def any_way(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    start = int(rng.integers(4, 8))
    yield Case(rng, range(4), [start, start + 1, start + 2, start + 5], 8, 100.0).ask(subject, "moving on")
    fact = "keys whose position stays come back as they were"
    yield Case(rng, [2, 5, 11], [2, 5, 11], 4, 100.0).ask(subject, "staying", fact)
    yield Case(rng, [9, 2, start + 10, 4], [1, 3, 0, 12], 6, 30.0).ask(subject, "any order")
    yield Case(rng, [2, 5, 11, 6], [2, 11, 6, 5], 4, 100.0).ask(subject, "changing places")


@stage("far along", why="Positions have no end, and a long text moves keys a long way.")
def far_along(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    yield Case(rng, [0, 1, 403, 404, 1001], range(5), 6, 10000.0).ask(subject, "a long way")
    yield Case(rng, [4097, 4098, 4101], [4096, 4097, 4099], 4, 100.0).ask(subject, "neighbours far along")
    far = 2**24  # behind it, float32 has no odd numbers
    yield Case(rng, [far + 1, far + 4, far + 7], [far, far + 3, far + 5], 4, 100.0).ask(subject, "very far along")


@stage("left alone", why="The caller may need the keys as they were, and the positions too.")
def left_alone(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    case = Case(rng, [0, 4, 7], [0, 1, 2], 4, 20.0)
    k, old, new = (subject.put(part) for part in (case.k, case.old, case.new))
    got = subject.run(k, old, new, case.base)
    yield named(agrees(subject, got, case.want, key="first", fact=RULE), AXES)
    yield named(agrees(subject, subject.read(k), case.k, key="k", fact="k is as it was before the call"), AXES)
    for name, handle, positions in (("old", old, case.old), ("new", new, case.new)):
        fact = f"`{name}` is as it was before the call"
        yield agrees(subject, subject.read(handle), positions, key=name, fact=fact, columns="key")


EXERCISE = Exercise(
    id="9.2",
    name="move_keys",
    title="Keys that move",
    goal="Move keys that are turned already to other positions, without the keys as they were before.",
    points=3,
    minutes=10,
    difficulty=3,
    hints=(
        "A turn by one angle, then by another, is a turn by their sum. By which turn does a key at position 7 get to "
        "position 2?",
        "Each key has its own way, `new - old`; it may be negative. `rope(x, positions, base)` turns each row by its "
        "position, and takes negative ones too.",
        "`return rope(k, new - old, base)`. By hand: `angles = (new - old)[:, None] * base ** "
        "(-torch.arange(half) / half)`, then (a cos - b sin, a sin + b cos) for the halves a and b of k.",
    ),
    stages=(to_the_front, any_way, far_along, left_alone),
    reference=Later("kvlib.move_keys", "move_keys"),
    mistakes=MISTAKES,
    variants=VARIANTS,
    tensors=True,
)
