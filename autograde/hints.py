"""`hint("1.3")`: the next hint, one at a time."""

from __future__ import annotations

from autograde.exercises import load
from autograde.report_text import unknown_text

_given: dict[str, int] = {}


def hint(exercise_id: str, number: int | None = None) -> None:
    """Print the next hint of an exercise, from a nudge to almost the answer, or hint `number` (1 to 3)."""
    exercise = load().get(exercise_id) if isinstance(exercise_id, str) else None
    if exercise is None:
        print(unknown_text(exercise_id, load()))
        return
    last = len(exercise.hints)
    if number is None and _given.get(exercise_id, 0) >= last:
        print(f"That was the last of the {last} hints for {exercise_id}; here it is again.")
    if number is None:
        number = min(_given.get(exercise_id, 0) + 1, last)
    if number not in range(1, last + 1):
        print(f"There is no hint {number} of exercise {exercise_id}: there are hints 1 to {last}.")
        return
    _given[exercise_id] = number
    print(f"Hint {number} of {last} for {exercise_id}: {exercise.hints[number - 1]}")
