"""Where a grading process keeps its templates: one for each lesson, started when it is first needed."""

from __future__ import annotations

import atexit
import threading
from pathlib import Path
from typing import Any

from autograde.classroom.job import Job
from autograde.classroom.run import run_job
from autograde.exercises import load
from autograde.lessons import LESSONS, Lesson
from autograde.sandbox.sandbox import Sandbox
from autograde.sandbox.scratch import Scratch, remove_leftovers
from autograde.sandbox.spawner import Spawner, SpawnError
from autograde.sandbox.view import make_view

Key = tuple[int, str, tuple[str, ...]]  # thread, lesson, preload
_stations: dict[Key, Station] = {}


def lesson_called(slug: str) -> Lesson:
    """The lesson of this name; one that the course does not list answers nothing."""
    return next((lesson for lesson in LESSONS if lesson.slug == slug), Lesson(slug, slug, 0, (), (), ()))


class Station:
    """A template, and the folder that it and its workers import from."""

    def __init__(self, lesson: Lesson, preload: tuple[str, ...]) -> None:
        self._folder = Scratch("view")
        self.view = Path(self._folder.path)
        make_view(self.view, lesson)
        self.spawner = Spawner(self.view, preload)

    def close(self) -> None:
        """End the template and remove the folder."""
        self.spawner.close()
        self._folder.close()


def grade_job(job: Job) -> dict[str, Any]:
    """Grade a submission in a worker of this process's own template. This is what a cluster's machines are sent."""
    for attempt in (1, 2):
        station = _station(job)
        try:
            start = lambda station=station: Sandbox(station.spawner, station.view, job.tier, job.limits)  # noqa: E731
            return run_job(job, start, load())
        except SpawnError:  # the template may have been killed: one more try with a new one
            _close(_key(job))
            if attempt == 2:
                raise
    raise AssertionError


def close_stations() -> None:
    """End all templates of this process."""
    for key in list(_stations):
        _close(key)


atexit.register(close_stations)


def _key(job: Job) -> Key:
    return threading.get_ident(), job.lesson, job.preload


def _station(job: Job) -> Station:
    key = _key(job)
    if key not in _stations:
        if not _stations:
            remove_leftovers()
        _stations[key] = Station(lesson_called(job.lesson), job.preload)
    return _stations[key]


def _close(key: Key) -> None:
    station = _stations.pop(key, None)
    if station is not None:
        station.close()
