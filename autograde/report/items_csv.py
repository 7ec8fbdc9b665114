"""items.csv: a line for every stage and every mistake of every exercise. It names no students."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from pathlib import Path

from autograde.report.cell import number, safe
from autograde.report.item import Item, LessonItems

COLUMNS = (
    *("lesson", "exercise", "students", "max", "mean", "median", "discrimination"),
    *("kind", "name", "held", "failed", "not_reached", "held_share", "found", "found_share", "text"),
)


def write_items(lessons: Iterable[LessonItems], path: Path) -> None:
    """Write the file. "stage" lines fill held to held_share, "mistake" lines fill found to text."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for lesson in lessons:
            for item in lesson.items:
                writer.writerows(_lines(item))


def _lines(item: Item) -> Iterator[list[str]]:
    numbers = [item.students, item.max, item.mean, item.median, item.discrimination]
    start = [safe(item.lesson), safe(item.exercise), *map(number, numbers)]
    for stage in item.stages:
        counts = [stage.held, stage.failed, stage.not_reached, stage.held / item.students]
        yield [*start, "stage", safe(stage.name), *map(number, counts), "", "", ""]
    for mistake in item.mistakes:
        counts = [mistake.count, mistake.share]
        yield [*start, "mistake", safe(mistake.name), "", "", "", "", *map(number, counts), safe(mistake.tells)]
