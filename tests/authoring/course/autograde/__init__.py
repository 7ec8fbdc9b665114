"""A stand-in for the grader: it looks the learner's name up and calls it."""

from __future__ import annotations

import sys

JUDGES = {
    "1.1": ("double", 2, lambda double: double(3) == 6),
    "1.2": ("triple", 3, lambda triple: triple(3) == 9),
    "2.1": ("add_up", 1, lambda add_up: add_up([1, 2, 3]) == 6),
}


def check(exercise_id: str) -> float:
    """Print a verdict and return the points."""
    name, points, judge = JUDGES[exercise_id]
    try:
        right = judge(sys._getframe(1).f_globals[name])
    except NotImplementedError:
        print(f"{exercise_id}: not implemented yet")
        return 0.0
    print(f"{exercise_id}: {'right' if right else 'wrong'}")
    return float(points) if right else 0.0
