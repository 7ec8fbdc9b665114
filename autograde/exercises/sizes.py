"""What the exercises on sizes share: prime sizes, so that a missing factor names itself, and answers that are whole."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from autograde.expect import equals
from autograde.finding import Finding
from autograde.subject import Subject

PRIMES = (3, 5, 7, 11, 13, 17, 19, 23)
LARGEST = 4096  # a factor beyond it tells nobody anything


def primes(rng: np.random.Generator, count: int) -> list[int]:
    """So many different odd primes."""
    return [int(p) for p in rng.choice(PRIMES, size=count, replace=False)]


def whole(subject: Subject, got: Any, want: int, *, key: str, fact: str, call: str = "") -> Finding:
    """Whether a whole number is exactly the right one; if not, by which factor it is off, where there is one."""
    finding = equals(subject, got, want, key=key, fact=fact, what=call)
    clue = "" if finding.ok else factor(got, want)
    return replace(finding, fact=f"{finding.fact}; {clue}") if clue else finding


def factor(got: Any, want: int) -> str:
    """ "7 times too small", or "" when the one is no small multiple of the other."""
    if isinstance(got, float) and got.is_integer():
        got = int(got)
    if isinstance(got, bool) or not isinstance(got, int) or got <= 0 or want <= 0 or got == want:
        return ""
    larger, smaller = max(got, want), min(got, want)
    times, rest = divmod(larger, smaller)
    if rest or times > LARGEST:
        return ""
    return f"it is {times} times too {'large' if got > want else 'small'}"
