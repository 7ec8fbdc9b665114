"""The proof of the grader as a table: which stage kills each catalogued mistake, and what the mistake is taken for.

`python -m autograde matrix` writes the table, `--check` says whether it is up to date. The mutation tests hold every
line of it against the verdicts that they have just seen.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autograde.exercise import Exercise, Mistake, Variant
    from autograde.judge import Verdict

FILE = Path(__file__).parent / "exercises" / "MATRIX.md"
SEEDS = ("practice", *(f"seed {number}" for number in range(19)))  # the notebooks' own inputs, and 19 others


def add_commands(subparsers: argparse._SubParsersAction) -> None:
    """Add `matrix`."""
    parser = subparsers.add_parser("matrix", help="write the table of mistakes and what the checks make of them")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 when the table is out of date")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Write the table, or compare it. Takes some twenty minutes of a core's time, on all cores."""
    text = "\n".join(lines()) + "\n"
    if not arguments.check:
        FILE.write_text(text, encoding="utf-8")
        print(f"{FILE.name} is written.")
        return 0
    kept = FILE.read_text(encoding="utf-8") if FILE.is_file() else ""
    if kept == text:
        print(f"{FILE.name} is up to date.")
        return 0
    old, new = set(kept.splitlines()), set(text.splitlines())
    for mark, some in (("-", old - new), ("+", new - old)):
        for line in sorted(some):
            print(mark, line, file=sys.stderr)
    print(f"{FILE.name} is out of date: run `python -m autograde matrix`.", file=sys.stderr)
    return 1


def lines() -> Iterator[str]:
    """The whole table, judged anew."""
    from autograde.exercises import load

    exercises = load()
    judged = dict(zip(exercises, _on_all_cores(list(exercises)), strict=True))
    yield from heading(list(exercises.values()))
    for id, exercise in exercises.items():
        yield from section(exercise)
        yield from judged[id][0]
    yield from variants_heading()
    for id in exercises:
        yield from judged[id][1]


Rows = tuple[list[str], list[str]]  # of an exercise's mistakes, and of its variants


def _on_all_cores(ids: list[str]) -> Iterator[Rows]:
    if len(ids) == 1:
        yield judge_exercise(ids[0])
        return
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        yield from pool.map(judge_exercise, ids)


def judge_exercise(id: str) -> Rows:
    """The rows of one exercise. Seed by seed: what a mistake does with a seed is worked out once for all diagnoses."""
    from autograde.exercises import load
    from autograde.judge import judge_here

    exercise = load()[id]
    work: list[Callable[[], Any]] = [mistake.fresh for mistake in exercise.mistakes]
    work += [partial(attrgetter("candidate"), variant) for variant in exercise.variants]
    verdicts: list[list[Verdict]] = [[] for _ in work]
    for seed in SEEDS:
        for row, candidate in zip(verdicts, work, strict=True):
            verdict = judge_here(exercise, candidate(), seed)
            row.append(replace(verdict, outcomes=tuple(replace(outcome, record=()) for outcome in verdict.outcomes)))
    count = len(exercise.mistakes)
    mistakes = [mistake_line(exercise, *pair) for pair in zip(exercise.mistakes, verdicts[:count], strict=True)]
    variants = [variant_line(exercise, *pair) for pair in zip(exercise.variants, verdicts[count:], strict=True)]
    return mistakes, variants


def heading(exercises: Sequence[Exercise]) -> list[str]:
    """What the table is about, and how large the catalogue is."""
    totals = {
        "exercises": len(exercises),
        "mistakes": sum(len(exercise.mistakes) for exercise in exercises),
        "variants": sum(len(exercise.variants) for exercise in exercises),
        "seeds": len(SEEDS),
    }
    return [
        "# What the checks make of wrong and of right work",
        "",
        "Written by `python -m autograde matrix`. Every wrong way to solve an exercise is judged once for each seed:",
        "it must lose marks, first at the stage named here, and be taken for what it is. Every right way must get full",
        "marks.",
        "",
        _row(*totals),
        _row(*("---:" for _ in totals)),
        _row(*totals.values()),
    ]


def section(exercise: Exercise) -> list[str]:
    """The head of one exercise's mistakes."""
    columns = ("exercise", "mistake", "killed by", "diagnosed as", "lost marks")
    return ["", f"## {exercise.id} {exercise.name}", "", _row(*columns), _row(*("---" for _ in columns))]


def mistake_line(exercise: Exercise, mistake: Mistake, verdicts: Sequence[Verdict]) -> str:
    """One mistake: the first stage that failed and the diagnosis, as seen in these verdicts."""
    killed_by = {verdict.failure.stage.name for verdict in verdicts if verdict.failure is not None}
    named = {
        other.name for verdict in verdicts if verdict.diagnosis is not None for other in verdict.diagnosis.mistakes
    }
    lost = sum(verdict.points < exercise.points for verdict in verdicts)
    return _row(
        exercise.id, mistake.name, ", ".join(sorted(killed_by)), ", ".join(sorted(named)), f"{lost} of {len(verdicts)}"
    )


def variants_heading() -> list[str]:
    """The head of all variants."""
    columns = ("exercise", "variant", "full marks")
    return ["", "## Right work, built differently", "", _row(*columns), _row(*("---" for _ in columns))]


def variant_line(exercise: Exercise, variant: Variant, verdicts: Sequence[Verdict]) -> str:
    """One variant: how often it got full marks."""
    full = sum(verdict.points == exercise.points for verdict in verdicts)
    return _row(exercise.id, variant.name, f"{full} of {len(verdicts)}")


def _row(*cells: object) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"
