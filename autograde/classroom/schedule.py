"""Spreads jobs over this machine's cores or a cluster's, and brings the results as they come."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Generator, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any

from joblib import Parallel, delayed, parallel_config

from autograde.classroom.course import CourseError
from autograde.classroom.job import Job
from autograde.classroom.station import close_stations, grade_job

Result = tuple[Job, "dict[str, Any] | str"]  # the fault of the grader's in words, where there is no result


def results_of(jobs: list[Job], workers: int, scheduler: str = "") -> Generator[Result, None, None]:
    """Each job with its result, in the order in which they are done. The processes start at once, not at the first one.

    `workers` grading processes run on this machine; with `scheduler`, the address of a Dask scheduler, the jobs run
    where its workers are, and nothing but jobs and results travels. Close it when the results are not wanted any more.
    """
    results = _results(jobs, workers, scheduler)
    next(results)
    return results


def _results(jobs: list[Job], workers: int, scheduler: str) -> Generator[Any, None, None]:
    if not scheduler and (workers <= 1 or len(jobs) <= 1):
        yield None
        try:
            yield from map(graded_or_fault, jobs)
        finally:
            close_stations()
        return
    with backend(scheduler, workers):
        number = -1 if scheduler else workers
        stream = _start(jobs, number)
        yield None
        left = yield from _together(jobs, stream)
        left = yield from _together(left, _start(left, number))
        for job in left:  # alone, so that the others do not pay for the one that ends its process
            if (yield from _together([job], _start([job], 2))):
                yield job, "the grader failed: its process ended three times"


def _start(jobs: list[Job], number: int) -> Iterator[Result]:
    parallel = Parallel(n_jobs=number, return_as="generator_unordered", batch_size=1)
    return parallel(delayed(graded_or_fault)(job) for job in jobs)


def _together(jobs: list[Job], stream: Iterator[Result]) -> Generator[Result, None, list[Job]]:
    """Results as they come; returns the jobs that have none because a grading process ended."""
    left = {(job.lesson, job.student): job for job in jobs}
    try:
        for job, result in stream:
            del left[job.lesson, job.student]
            yield job, result
    except Exception as error:
        if not isinstance(error, BrokenProcessPool) and type(error).__name__ != "KilledWorker":
            raise
    return list(left.values())


def graded_or_fault(job: Job) -> Result:
    """A job's result. A fault of the grader's costs this job only: it is told, and no mark is made up."""
    try:
        return job, grade_job(job)
    except Exception as error:
        return job, f"the grader failed: {type(error).__name__}: {error}"


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def end_with(run: int) -> None:
    """Make a grading process end soon after the run that started it: it would wait for minutes, or go on for nobody."""

    def watch() -> None:
        while os.getppid() == run:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def backend(scheduler: str, workers: int) -> Iterator[None]:
    """Where joblib runs things: on this machine's cores, or on a cluster."""
    if not scheduler:
        with parallel_config("loky", n_jobs=workers, initializer=end_with, initargs=(os.getpid(),)):
            yield
        return
    try:
        from distributed import Client
    except ImportError:
        raise CourseError("--scheduler needs Dask: pip install 'kvcache-course[cluster]'") from None
    try:
        client = Client(scheduler, timeout=10)
    except (OSError, ValueError) as error:
        raise CourseError(f"no Dask scheduler answers at {scheduler}: {error}") from None
    with client:
        try:
            client.wait_for_workers(1, timeout=10)
        except TimeoutError:
            raise CourseError(f"the Dask scheduler at {scheduler} has no workers") from None
        with parallel_config("dask"):
            yield
