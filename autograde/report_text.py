"""A verdict in at most eight lines of plain text."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from autograde.exercise import Exercise
from autograde.finding import Finding
from autograde.judge import Verdict
from autograde.value import Opaque

WIDTH = 100
MOST_LINES = 8
GLUE = "\x1f"  # stands for a space at which a line may not be broken


def points_text(points: float) -> str:
    """2.0 or 2.25: never more decimals than are needed, never fewer than one."""
    return f"{points:.2f}".rstrip("0").ljust(len(f"{points:.0f}") + 2, "0")


def heading(verdict: Verdict) -> str:
    """Exercise, name and points in one line."""
    exercise = verdict.exercise
    state = "passed" if verdict.passed else "not implemented yet" if is_untouched(verdict) else "not passed"
    return f"{exercise.id} {exercise.name}: {state}, {points_text(verdict.points)} of {exercise.points} points"


def is_untouched(verdict: Verdict) -> bool:
    """Whether nothing has been written yet: the very first stage ran into it, and no stage holds."""
    first = verdict.outcomes[0].finding
    return first is not None and first.key == "not implemented" and not any(o.held for o in verdict.outcomes)


def stages_line(verdict: Verdict) -> str:
    """Every stage with its result, in order."""
    words = {True: "held", False: "FAILED", None: "not reached"}
    parts = [
        f"[{words[outcome.held if outcome.reached else None]}] {outcome.stage.name}".replace(" ", GLUE)
        for outcome in verdict.outcomes
    ]
    return "  ".join(parts)


def strip_line(finding: Finding) -> str:
    """Which positions were right: "steps 1-4: ok X X X"."""
    if len(finding.marks) < 2:
        return ""
    last = finding.first + len(finding.marks) - 1
    return f"{finding.axis}s {finding.first}-{last}: " + " ".join("ok" if mark else "X" for mark in finding.marks)


def printed_text(lines: int) -> str:
    """Where the work's own output went."""
    return f"Your code printed {lines} line{'' if lines == 1 else 's'} during the check; not shown."


def unknown_text(exercise_id: object, known: Iterable[str]) -> str:
    """What to say to somebody who names no exercise."""
    there_are = f"There are: {', '.join(known)}."
    if isinstance(exercise_id, str):
        return _paragraph(f'There is no exercise "{exercise_id[:40]}". {there_are}')
    return _paragraph(f'Name the exercise by its number in quotes, such as "1.3". {there_are}')


def undefined_text(exercise: Exercise, name: str) -> str:
    """What to say where the work is not there yet."""
    name = name[:40]
    return _paragraph(f"{exercise.id}: `{name}` is not defined. Run the cell that defines `{name}`, then this one.")


def torchless_text(exercise: Exercise) -> str:
    """What to say where the exercise needs PyTorch and this machine has none."""
    return _paragraph(
        f"{exercise.id}: not checked, since PyTorch is not installed here, or does not import. The set-up cell at the "
        "top says more."
    )


def unsuitable_text(exercise: Exercise, type_name: str) -> str:
    """What to say where the work is no function or class."""
    if type_name == exercise.name:
        return _paragraph(
            f"{exercise.id}: wanted the class `{exercise.name}` itself, got an object of it. The check makes its own."
        )
    kind = "None" if type_name == "NoneType" else str(Opaque(type_name))
    wanted = f"{exercise.id}: wanted the function or class `{exercise.name}`, got {kind}"
    return _paragraph(f"{wanted}. Run the cell that defines it, then this one.")


def broken_text(exercise: Exercise, error: Exception) -> str:
    """What to say where the grader itself is at fault."""
    return _paragraph(f"{exercise.id}: the check itself failed, which is not your fault. Please report: {error}")


def printable(text: str) -> str:
    """The text without what would move a terminal's cursor, hide something or stop a print."""
    return "".join(letter if letter.isprintable() else " " if letter.isspace() else "?" for letter in text)


def verdict_text(verdict: Verdict) -> str:
    """The whole verdict: what held, the first thing that did not, where, expected and got, and the diagnosis."""
    lines = [heading(verdict)]
    if is_untouched(verdict):
        lines.append(f"  Write {verdict.exercise.name} in the cell above, run that cell, then run this one again.")
        return "\n".join(lines)
    lines += _wrap("  ", stages_line(verdict), 2)
    notes = [note for outcome in verdict.outcomes for note in outcome.notes]
    if notes:
        lines += _wrap("  note: ", notes[0], 1)
    failure = verdict.failure
    if failure is not None and failure.finding is not None:
        lines += _failure_lines(verdict, failure.stage.name, failure.stage.why, failure.finding)
    if not verdict.passed and verdict.printed and len(lines) < MOST_LINES:
        lines.append(f"  ({printed_text(verdict.printed)})")
    return "\n".join(lines[:MOST_LINES])


def _failure_lines(verdict: Verdict, name: str, why: str, finding: Finding) -> list[str]:
    where = f", {finding.where}" if finding.where else ""
    lines = _wrap("  ", f"{name}{where}: {finding.fact}", 2 if finding.expected else 3)
    values = f"expected {finding.expected}, got {finding.got}" if finding.expected else ""
    strip = strip_line(finding)
    if values or strip:
        lines += _wrap("  ", "   ".join(part for part in (values, strip) if part), 1)
    if verdict.diagnosis is not None:
        lines += _wrap(f"  {verdict.diagnosis.label}: ", verdict.diagnosis.text, 2)
    else:
        lines += _wrap("  why it is asked: ", why, 2)
    return lines


def _paragraph(text: str) -> str:
    return "\n".join(_wrap("", text, 4))


def _wrap(indent: str, text: str, most: int) -> list[str]:
    lines = textwrap.wrap(
        GLUE.join(printable(part) for part in text.split(GLUE)),
        WIDTH,
        initial_indent=indent,
        subsequent_indent=" " * len(indent),
        max_lines=most,
        placeholder=" ...",
        break_on_hyphens=False,
    )
    return [line.replace(GLUE, " ") for line in lines]
