"""Questions about single numbers, for exercises whose answers are numbers and not arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from autograde.compare import CLOSE, number_pair, shown
from autograde.finding import Finding, held
from autograde.subject import LearnerRaised, Subject


def close(subject: Subject, got: Any, want: float, *, key: str, fact: str, what: str = "") -> Finding:
    """Whether a number is the right one, to float64 rounding on the scale of the number itself, however small it is."""
    value = _scalar(got)
    if value is not None and abs(value - want) <= CLOSE * abs(want):  # never so for a NaN
        return held(key, fact)
    expected, given = (str(want), shown(got)) if value is None else number_pair(want, value)
    return Finding(
        False,
        key,
        f"does not hold: {fact}",
        where=what,
        expected=expected,
        got=given,
        events=len(subject.record),
    )


def exactly(subject: Subject, got: Any, want: str | None, *, key: str, fact: str, what: str = "") -> Finding:
    """Whether a value is this very text, or None."""
    if type(got) is type(want) and got == want:
        return held(key, fact)
    expected, given = (str(value) if value is None else shown(value) for value in (want, got))
    return Finding(
        False,
        key,
        f"does not hold: {fact}",
        where=what,
        expected=expected,
        got=given,
        events=len(subject.record),
    )


def comes_as(subject: Subject, got: Any, names: tuple[str, ...], *, key: str, what: str = "") -> Finding:
    """Whether as many values came back as there are names, in a tuple, a list or a flat array."""
    wanted = f"{len(names)} values come back: ({', '.join(names)})"
    if parts(got, len(names)):
        return held(key, wanted)
    number = f"{len(got)} values" if isinstance(got, list) else shown(got)
    return Finding(
        False,
        key,
        f"does not hold: {wanted}",
        where=what,
        expected=f"{len(names)} values",
        got=number,
        events=len(subject.record),
    )


def parts(got: Any, number: int) -> list[Any]:
    """The values of a tuple, list or flat array of that many (one or more), or none."""
    if isinstance(got, np.ndarray) and got.ndim == 1:
        got = got.tolist()
    return got if isinstance(got, list) and len(got) == number else []


def refused(subject: Subject, *args: Any, key: str, what: str, message: list[str] | None = None) -> Finding:
    """Whether the learner's function refuses a call with `ValueError`. What it answers instead goes into the record.

    The exception's words are put into `message`, where a list is given.
    """
    try:
        got = subject.run(*args)
    except LearnerRaised as error:
        if error.is_a("NotImplementedError"):
            raise
        if error.is_a("ValueError"):
            if message is not None:
                message.append(error.message)
            return held(key, f"{what} is refused")
        fact, given = f"{what} must be refused with ValueError; your code raised something else", str(error)[:80]
    else:
        fact, given = (
            f"{what} must be refused; your code accepted it",
            f"{'None' if got is None else shown(got)} is returned",
        )
    return Finding(False, key, fact, expected="ValueError is raised", got=given, events=len(subject.record))


def _scalar(got: Any) -> float | None:
    if isinstance(got, np.ndarray) and got.size == 1:
        got = got.reshape(()).item()
    if isinstance(got, bool) or not isinstance(got, int | float):
        return None
    return float(got) if math.isfinite(got) else math.nan
