"""Where a grading process keeps its templates: one for each lesson, started when it is first needed."""

from __future__ import annotations

import atexit
import tempfile
from pathlib import Path
from typing import Any

from autograde.classroom.job import Job
from autograde.classroom.run import run_job
from autograde.exercises import load
from autograde.lessons import LESSONS, Lesson
from autograde.sandbox.sandbox import Sandbox
from autograde.sandbox.spawner import Spawner, SpawnError
from autograde.sandbox.view import make_view

_stations: dict[str, Station] = {}


def lesson_called(slug: str) -> Lesson:
    """The lesson of this name; one that the course does not list answers nothing."""
    return next((lesson for lesson in LESSONS if lesson.slug == slug), Lesson(slug, slug, 0, (), (), ()))


class Station:
    """A template, and the folder that it and its workers import from."""

    def __init__(self, lesson: Lesson) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="autograde-view-")
        self.view = Path(self._folder.name)
        make_view(self.view, lesson)
        self.spawner = Spawner(self.view)

    def close(self) -> None:
        """End the template and remove the folder."""
        self.spawner.close()
        self._folder.cleanup()


def grade_job(job: Job) -> dict[str, Any]:
    """Grade a submission in a worker of this process's own template. This is what a cluster's machines are sent."""
    for attempt in (1, 2):
        station = _station(job.lesson)
        try:
            start = lambda station=station: Sandbox(station.spawner, station.view, job.tier, job.limits)  # noqa: E731
            return run_job(job, start, load())
        except SpawnError:  # the template may have been killed: one more try with a new one
            close_station(job.lesson)
            if attempt == 2:
                raise
    raise AssertionError


def close_station(lesson: str) -> None:
    """End one lesson's template, if there is one."""
    station = _stations.pop(lesson, None)
    if station is not None:
        station.close()


def close_stations() -> None:
    """End all templates of this process."""
    for lesson in list(_stations):
        close_station(lesson)


atexit.register(close_stations)


def _station(lesson: str) -> Station:
    key = lesson
    if key not in _stations:
        _stations[key] = Station(lesson_called(lesson))
    return _stations[key]
