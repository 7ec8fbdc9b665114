"""The course as its authoring sees it: where it lies, which lessons it has, and the exercises they hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from autograde.lessons import LESSONS, Lesson

if TYPE_CHECKING:
    from autograde.exercise import Exercise

REPOSITORY = Path(__file__).resolve().parents[2]


def load_exercises() -> Mapping[str, Exercise]:
    """The course's own exercises by id; imported only when asked for, because they bring NumPy and more."""
    from autograde.exercises import load

    return load()


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a lesson, and the cell that shows it."""

    lesson: str  # a slug, or "" for the course as a whole
    cell: str  # a cell id, "cell 7 (line 82)", or "" for the lesson as a whole
    text: str

    def __str__(self) -> str:
        place = ", ".join(part for part in (self.lesson, self.cell) if part)
        return f"{place}: {self.text}" if place else self.text


class LessonError(ValueError):
    """A lesson that cannot be built, as a `Problem`."""

    def __init__(self, lesson: str, cell: str, text: str) -> None:
        self.problem = Problem(lesson, cell, text)
        super().__init__(str(self.problem))


@dataclass(frozen=True)
class Course:
    """A folder with `solutions/` and `lessons/`, the lessons it should hold, and the registry of their exercises."""

    root: Path = REPOSITORY
    lessons: tuple[Lesson, ...] = LESSONS
    registry: Callable[[], Mapping[str, Exercise]] = load_exercises
    words: tuple[int, int] = (600, 1600)  # of prose in a lesson
    code_lines: int = 400  # at most, in a lesson

    @cached_property
    def exercises(self) -> Mapping[str, Exercise]:
        """The exercises by id."""
        return self.registry()

    def exercise(self, lesson: Lesson, cell: str, exercise_id: str) -> Exercise:
        """The exercise with this id. Raises `LessonError` when the registry has none."""
        if exercise_id not in self.exercises:
            raise LessonError(lesson.slug, cell, f"exercise {exercise_id} is not in the registry")
        return self.exercises[exercise_id]

    def package(self, name: str) -> Path:
        """Where `kvlib` or `autograde` lies: in the course's folder, or wherever it is installed."""
        own = self.root / name
        return own if own.is_dir() else REPOSITORY / name

    def source(self, lesson: Lesson) -> Path:
        """The text that people edit."""
        return self.root / "solutions" / f"{lesson.slug}.py"

    def solution(self, lesson: Lesson) -> Path:
        """The executed notebook, with the answers."""
        return self.root / "solutions" / lesson.slug / f"{lesson.slug}.ipynb"

    def release(self, lesson: Lesson) -> Path:
        """The notebook that students open."""
        return self.root / "lessons" / lesson.slug / f"{lesson.slug}.ipynb"

    def relative(self, path: Path) -> str:
        """A path as messages write it: from the course's root, with forward slashes."""
        return path.relative_to(self.root).as_posix()
