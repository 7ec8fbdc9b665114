"""What is known about one exercise of a class."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class StageCount:
    """In how many students' work a stage held, failed, or was not reached."""

    name: str
    held: int
    failed: int
    not_reached: int


@dataclass(frozen=True)
class MistakeCount:
    """In how many students' work a catalogued mistake was found."""

    name: str
    count: int
    share: float  # of all students who have a result for the exercise
    tells: str = ""  # the catalogue's sentence; empty when the catalogue does not know the name
    seen_in: str = ""


@dataclass(frozen=True)
class Unmatched:
    """Failures that look like nothing in the catalogue and ended the same way."""

    status: str
    stage: str
    fact: str
    students: tuple[str, ...]


@dataclass(frozen=True)
class Item:
    """One exercise."""

    lesson: str
    exercise: str
    name: str  # what the learner defines; empty for an exercise that the catalogue does not know
    title: str
    students: int
    max: float
    mean: float
    median: float
    distribution: tuple[tuple[float, int], ...]  # points and how many students have them, from low to high
    discrimination: float | None  # correlation with the rest of the lesson's points
    stages: tuple[StageCount, ...]
    statuses: tuple[tuple[str, int], ...]
    mistakes: tuple[MistakeCount, ...]  # the most frequent first
    unmatched: tuple[Unmatched, ...]  # the most frequent first
    full: int  # students with full marks
    untouched: int  # students who wrote nothing
    maxima: tuple[float, ...]  # more than one when results come from different versions of the exercise

    @property
    def unmatched_students(self) -> int:
        """How many failures matched nothing."""
        return sum(len(group.students) for group in self.unmatched)


@dataclass(frozen=True)
class LessonItems:
    """The exercises of one lesson."""

    lesson: str
    students: int
    refused: tuple[tuple[str, str], ...]  # student and reason
    items: tuple[Item, ...]
