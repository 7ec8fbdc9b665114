"""The lessons, in teaching order: their exercises, what they introduce, and what answers them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Lesson:
    """One lesson of the course."""

    slug: str  # "01-toy-cache": the name of its source, its folder and its notebook
    title: str
    points: int  # declared here, and equal to the sum over its exercises
    exercises: tuple[str, ...]
    introduces: tuple[str, ...]  # kvlib modules that a lesson may import from here on
    answers: tuple[str, ...]  # kvlib modules that hold an answer to one of its exercises

    @property
    def number(self) -> int:
        """The lesson's number: 1 for "01-toy-cache"."""
        return int(self.slug.split("-")[0])


LESSONS: tuple[Lesson, ...] = (
    Lesson(
        slug="00-start-here",
        title="Start here",
        points=2,
        exercises=("0.1",),
        introduces=("kvlib.machine",),
        answers=("kvlib.attention",),
    ),
    Lesson(
        slug="01-toy-cache",
        title="A cache you can check by eye",
        points=12,
        exercises=("1.1", "1.2", "1.3"),
        introduces=("kvlib.attention", "kvlib.counters", "kvlib.counts", "kvlib.plots", "kvlib.toy", "kvlib.widgets"),
        answers=("kvlib.attention", "kvlib.counts", "kvlib.toy"),
    ),
    Lesson(
        slug="02-numpy-cache",
        title="A real decoder, in NumPy",
        points=20,
        exercises=("2.1", "2.2", "2.3", "2.4"),
        introduces=("kvlib.decoder", "kvlib.recompute", "kvlib.numpy_cache"),
        answers=("kvlib.numpy_cache",),
    ),
)
