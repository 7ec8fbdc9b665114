"""Grading on several cores: the same marks, also when a grading process dies; and one run at a time for a class."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from autograde.classroom import schedule, station
from autograde.classroom.course import Course, CourseError
from autograde.classroom.grade import Options, grade_class
from autograde.classroom.job import Job
from autograde.classroom.lock import only_run
from autograde.classroom.plan import make_job
from autograde.classroom.take_in import take_in
from autograde.sandbox.limits import Limits

LESSON = "07-tiny"
HOLD = """
import sys, time
from pathlib import Path
from autograde.classroom.lock import only_run
with only_run(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def quiet(line: str) -> None:
    """Say nothing."""


def test_two_processes_give_the_rows_that_one_gives(course: Course, sandbox: str, own_tmp, hand_in, works) -> None:
    for number in range(4):
        hand_in(f"student{number}", works(number))
    rows = grade_class(course, Options(workers=1), quiet).rows
    assert [row.total for row in rows] == [6, 5, 4, 3]
    graded = grade_class(course, Options(workers=2, fresh=True), quiet)
    assert (graded.rows, graded.again, graded.faults) == (rows, 0, 0)


def test_a_grading_process_that_is_killed_costs_nobody_anything(
    course: Course, sandbox: str, own_tmp, processes, kill_one, hand_in, works, marks
) -> None:
    for number in range(4):
        hand_in(f"student{number}", works(number, waits=1.5))
    with kill_one("popen_loky") as killed:
        graded = grade_class(course, Options(workers=2), quiet)
    assert killed and killed[0] not in processes()
    assert ([row.total for row in graded.rows], graded.faults) == ([6, 5, 4, 3], 0)
    assert len(marks(course)) == 8


def test_work_that_always_ends_its_grading_process_costs_only_itself(own_tmp, monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(job: Job) -> tuple[Job, str]:
        if job.student == "bob":
            os.kill(os.getpid(), signal.SIGKILL)
        return job, "came back"

    monkeypatch.setattr(schedule, "graded_or_fault", dies)
    jobs = [Job(student, LESSON, (), {}, "none") for student in ("ann", "bob", "cy")]
    results = sorted((job.student, result) for job, result in schedule.results_of(jobs, 2))
    assert results.pop(1) == ("bob", "the grader failed: its process ended three times")
    assert results == [(student, "came back") for student in ("ann", "cy")]


def test_threads_of_one_process_do_not_share_a_template(course: Course, sandbox: str, own_tmp, hand_in, works) -> None:
    """A Dask worker may have several threads; a template talks with one."""
    jobs = []
    for number in range(4):
        hand_in(f"student{number}", works(number, waits=0.5))
        notebook = take_in(course, f"student{number}", LESSON)
        jobs.append(make_job(notebook, f"student{number}", LESSON, (), "a secret of ours", sandbox, Limits()))
    try:
        with ThreadPoolExecutor(2) as threads:
            results = list(threads.map(station.grade_job, jobs))
            assert len(station._stations) == 2
    finally:
        station.close_stations()
    points = [[exercise["points"] for exercise in result["exercises"].values()] for result in results]
    assert points == [[4, 2], [3, 2], [4, 0], [3, 0]]


# ---- one run at a time -----------------------------------------------------------------------------------------------


def test_a_second_run_is_refused_until_the_first_is_gone(
    course: Course, hand_in, answered, no_worker: Callable
) -> None:
    """However the first ends: the kernel lets go of the lock."""
    course = replace(course, trusted=True)
    hand_in("ann", answered)
    command = [sys.executable, "-c", HOLD, str(course.classroom)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as first:
        try:
            assert first.stdout.readline() == "held\n"
            before = sorted(course.classroom.rglob("*"))
            with pytest.raises(CourseError, match=f"is being graded by process {first.pid}; wait until it is done"):
                grade_class(course, Options(workers=1), quiet)
            assert sorted(course.classroom.rglob("*")) == before
        finally:
            first.kill()
    assert [row.total for row in grade_class(course, Options(workers=1), quiet).rows] == [2.0]


def test_the_lock_names_its_last_owner_and_belongs_to_one_class(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "a" / ".lock").write_text("4194304999\n")  # of a process that is gone, and longer than ours
    with only_run(tmp_path / "a"), only_run(tmp_path / "b"):
        assert (tmp_path / "a" / ".lock").read_text() == f"{os.getpid()}\n"
        with pytest.raises(CourseError, match=f"process {os.getpid()};"), only_run(tmp_path / "a"):
            pytest.fail("locked twice")
    with only_run(tmp_path / "a"):
        pass
