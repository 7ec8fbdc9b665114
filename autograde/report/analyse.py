"""Counts what a class did, exercise by exercise."""

from __future__ import annotations

import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from autograde.diagnosis import LEAKS
from autograde.exercise import Exercise
from autograde.report.item import Item, LessonItems, MistakeCount, StageCount, Unmatched
from autograde.report.result import ExerciseResult, Result

Work = tuple[str, ExerciseResult]  # a student and one exercise of theirs


def analyse(results: Iterable[Result], catalogue: Mapping[str, Exercise]) -> list[LessonItems]:
    """Every lesson that has results, with its exercises in order. `catalogue` gives names and sentences.

    Refused work is listed and in no number: nobody has looked at it, so its zeros say nothing of an exercise.
    """
    lessons: defaultdict[str, list[Result]] = defaultdict(list)
    for result in results:
        lessons[result.lesson].append(result)
    return [_lesson(name, lessons[name], catalogue) for name in sorted(lessons, key=natural)]


def natural(name: str) -> list[tuple[int, int, str]]:
    """A key that sorts numbers in names as numbers: "1.9" before "1.10"."""
    parts = re.findall(r"[0-9]+|[^0-9]+", name)
    # int() refuses thousands of digits.
    return [(0, int(part[:300]), "") if part[0] in "0123456789" else (1, 0, part) for part in parts]


def correlation(xs: Sequence[float], ys: Sequence[float]) -> float | None:
    """Pearson's correlation; None where it is not defined: fewer than two pairs, or one side all equal."""
    try:
        return statistics.correlation(xs, ys)
    except statistics.StatisticsError:
        return None


def discrimination(exercise: str, results: Sequence[Result]) -> float | None:
    """How far the points in an exercise go with the points in the rest of its lesson; None where not defined."""
    having = [result.exercises for result in results if exercise in result.exercises]
    # Rounded, so that sums of the same points in another order are equal.
    rest = [round(sum(w.points for name, w in works.items() if name != exercise), 6) for works in having]
    return correlation([works[exercise].points for works in having], rest)


def _lesson(lesson: str, results: list[Result], catalogue: Mapping[str, Exercise]) -> LessonItems:
    refused = tuple((result.student, result.refused) for result in results if result.refused)
    graded = [result for result in results if not result.refused]
    names = sorted({name for result in graded for name in result.exercises}, key=natural)
    items = tuple(_item(lesson, name, graded, catalogue.get(name)) for name in names)
    return LessonItems(lesson, len(results), refused, items)


def _item(lesson: str, name: str, results: list[Result], exercise: Exercise | None) -> Item:
    works = [(result.student, result.exercises[name]) for result in results if name in result.exercises]
    points = [work.points for _, work in works]
    return Item(
        lesson=lesson,
        exercise=name,
        name=exercise.name if exercise else "",
        title=exercise.title if exercise else "",
        students=len(works),
        max=max(work.max for _, work in works),
        mean=statistics.fmean(points),
        median=statistics.median(points),
        distribution=tuple(sorted(Counter(points).items())),
        discrimination=discrimination(name, results),
        stages=_stages(works),
        statuses=tuple(Counter(work.status for _, work in works).most_common()),
        mistakes=_mistakes(works, exercise),
        unmatched=_unmatched(works),
        full=sum(work.full for _, work in works),
        untouched=sum(work.untouched for _, work in works),
        maxima=tuple(sorted({work.max for _, work in works})),
    )


def _stages(works: list[Work]) -> tuple[StageCount, ...]:
    """Each stage, in order. Work without any stages, such as a crash, reached none of them."""
    ended: dict[str, Counter] = {stage.name: Counter() for _, work in works for stage in work.stages}
    for _, work in works:
        for stage in work.stages:
            ended[stage.name][stage.held] += 1
    return tuple(
        StageCount(name, count[True], count[False], len(works) - count[True] - count[False])
        for name, count in ended.items()
    )


def _mistakes(works: list[Work], exercise: Exercise | None) -> tuple[MistakeCount, ...]:
    known = {mistake.name: mistake for mistake in (*(exercise.mistakes if exercise else ()), LEAKS)}
    counts = Counter(name for _, work in works for name in dict.fromkeys(work.diagnosis))
    return tuple(
        MistakeCount(name, count, count / len(works), known[name].tells, known[name].seen_in)
        if name in known
        else MistakeCount(name, count, count / len(works))
        for name, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    )


def _unmatched(works: list[Work]) -> tuple[Unmatched, ...]:
    """Work that lost points, was begun, and looks like nothing in the catalogue, together with what ended like it."""
    groups: defaultdict[tuple[str, str, str], list[str]] = defaultdict(list)
    for student, work in works:
        if not work.full and not work.diagnosis and not work.untouched:
            failure = work.failure
            ended = (failure.name, failure.fact) if failure else ("", "")
            groups[(work.status, *ended)].append(student)
    groups_in_order = sorted(groups.items(), key=lambda pair: (-len(pair[1]), pair[0]))
    return tuple(Unmatched(*ended, tuple(sorted(students))) for ended, students in groups_in_order)
