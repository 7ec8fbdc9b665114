"""What an exercise is: declared once, and everything else follows from it.

The card, the hints and the check cell of a notebook are written from it; `check` runs its stages on the learner's
work; the mutation suite runs the same stages on its reference, its mistakes and its variants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from autograde.finding import Finding
    from autograde.subject import Subject

StageFunction = Callable[["Subject", "np.random.Generator"], Iterable["Finding"]]


@dataclass(frozen=True)
class Stage:
    """One question put to the learner's work, asked with fresh inputs.

    `run(subject, rng)` builds the inputs from `rng`, drives the learner's object through `subject`, works out the right
    answer by itself, and yields findings. The first finding that does not hold ends the stage.
    """

    name: str  # what the learner reads: "every step"
    why: str  # one line: why this is asked
    run: StageFunction
    weight: int = 1


def stage(name: str, *, why: str, weight: int = 1) -> Callable[[StageFunction], Stage]:
    """Turn a generator function into a `Stage`."""

    def declare(run: StageFunction) -> Stage:
        return Stage(name=name, why=why, run=run, weight=weight)

    return declare


@dataclass(frozen=True)
class Mistake:
    """A wrong piece of work that people really hand in, and what to tell them."""

    name: str  # kebab-case, unique in its exercise
    candidate: Any  # the wrong work, in place of the learner's
    tells: str  # what it is, in a sentence or two, addressed to the learner
    killed_by: str  # the name of the first stage that must fail
    seen_in: str = ""  # real projects that had it
    leaks: bool = False  # its state survives from one object to the next, so that no two runs of it are alike

    def fresh(self) -> Any:
        """The candidate as it was before anything ran: where state leaks, a subclass with empty lists of its own."""
        if not self.leaks:
            return self.candidate
        own = {name: type(value)() for name, value in vars(self.candidate).items() if isinstance(value, list | dict)}
        return type(self.candidate.__name__, (self.candidate,), own)


@dataclass(frozen=True)
class Variant:
    """Right work that is built differently from the reference: it must get full marks."""

    name: str
    candidate: Any


@dataclass(frozen=True)
class Exercise:
    """One graded exercise."""

    id: str  # "1.3": lesson 1, third exercise
    name: str  # the name that the learner defines: "ToyCache"
    title: str
    goal: str  # one sentence for the card
    points: int
    minutes: int
    difficulty: int  # 1 to 5
    hints: tuple[str, str, str]  # Markdown, from a nudge to almost the answer
    stages: tuple[Stage, ...]
    reference: Any
    mistakes: tuple[Mistake, ...]
    variants: tuple[Variant, ...]
    seconds: float = 10.0  # how long a check may run before it is stopped
    # The work is given torch tensors, not arrays. "fp8": and casts to FP8 do not saturate. "tiles": arrays arrive as
    # tiles of `kvlib.tiles`, and `autograde.tensors.pointer(array, name)` as a pointer.
    tensors: bool | str = False

    @property
    def lesson(self) -> int:
        """The lesson's number: 1 for "1.3"."""
        return int(self.id.split(".")[0])
