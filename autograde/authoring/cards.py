"""The Markdown that is written from an exercise: its card and its hints."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autograde.exercise import Exercise

HINTS = ("a nudge", "the idea", "almost the answer")


def card(exercise: Exercise) -> str:
    """The exercise's card: what to do, what it is worth, how long it takes, how hard it is and what to define."""
    points = f"{exercise.points} point" + ("s" if exercise.points != 1 else "")
    minutes = f"{exercise.minutes} minute" + ("s" if exercise.minutes != 1 else "")
    dots = "●" * exercise.difficulty + "○" * (5 - exercise.difficulty)
    facts = f"**{points}** · {minutes} · difficulty {exercise.difficulty} of 5 {dots} · define `{exercise.name}`"
    return f"### Exercise {exercise.id} — {exercise.title}\n\n{exercise.goal}\n\n{facts}"


def hints(exercise: Exercise) -> str:
    """The exercise's hints, each folded away. The blank lines make front ends render the Markdown inside."""
    folded = [
        f"<details>\n<summary>Hint {number} of {len(exercise.hints)}: {label}</summary>\n\n{text.strip()}\n\n</details>"
        for number, (label, text) in enumerate(zip(HINTS, exercise.hints, strict=True), start=1)
    ]
    return "\n\n".join(folded)
