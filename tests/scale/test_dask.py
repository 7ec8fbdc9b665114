"""Grading on a real Dask cluster of two worker processes, one of which is killed."""

from __future__ import annotations

import json
import os
import pickle
import socket
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from autograde.classroom.cli import ROOT
from autograde.classroom.course import Course, CourseError
from autograde.classroom.grade import Options, grade_class
from autograde.classroom.job import Job
from autograde.classroom.plan import make_job
from autograde.classroom.schedule import results_of
from autograde.classroom.store import course_secret, result_file
from autograde.classroom.take_in import take_in
from autograde.sandbox.limits import Limits

LESSON = "07-tiny"
STUDENTS = [f"student{number}" for number in range(8)]


@pytest.fixture
def cluster(own_tmp: Path, processes, until) -> Iterator[object]:
    """Two worker processes of one thread each. After it is closed, nothing of it is left."""
    distributed = pytest.importorskip("distributed", reason="Dask is not installed")
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, local_directory=str(own_tmp)
    )
    yield cluster
    cluster.close()
    assert until(lambda: not processes("template") + processes("bwrap") + processes("spawn_main"))


def results(course: Course) -> dict[str, dict]:
    """All results on disk, without how long they took."""
    found = {student: json.loads(result_file(course, student, LESSON).read_text()) for student in STUDENTS}
    return {student: {**result, "seconds": 0} for student, result in found.items()}


def test_a_cluster_gives_the_marks_that_this_machine_gives(
    course: Course, sandbox: str, cluster, processes, kill_one, hand_in, works, marks
) -> None:
    """Although one of its two workers is killed while it grades."""
    for number, student in enumerate(STUDENTS):
        hand_in(student, works(number % 4, waits=1 if number % 2 else 0))
    said: list[str] = []
    with kill_one("spawn_main") as killed:
        graded = grade_class(course, Options(scheduler=cluster.scheduler_address), said.append)
    assert killed and killed[0] not in processes()
    assert (graded.again, graded.faults) == (0, 0)
    assert [(row.student, row.total) for row in graded.rows] == list(zip(STUDENTS, [6, 5, 4, 3] * 2, strict=True))
    assert sorted(line.split()[2] for line in said) == STUDENTS
    there, known = results(course), marks(course)
    assert len(known) == 2 * len(STUDENTS)
    here = grade_class(course, Options(workers=1, fresh=True), lambda line: None)
    assert (here.rows, results(course), marks(course)) == (graded.rows, there, known)


def test_what_travels_holds_no_path_and_no_secret(course: Course, hand_in, works) -> None:
    hand_in("ann", works(3))
    secret = course_secret(course)
    job = make_job(take_in(course, "ann", LESSON), "ann", LESSON, (), secret, "bubblewrap", Limits())
    sent = pickle.dumps(job)
    assert pickle.loads(sent) == job
    for private in (secret, str(course.root), str(course.classroom), str(ROOT), str(Path.home()), os.sep + "tmp"):
        assert private.encode() not in sent
    assert "ann" in words(asdict(job))
    assert not [word for word in words(asdict(job)) if Path(word).is_absolute()]


def words(value: object) -> list[str]:
    """All strings in it."""
    if isinstance(value, dict):
        value = [*value.keys(), *value.values()]
    if isinstance(value, list | tuple):
        return [word for item in value for word in words(item)]
    return [value] if isinstance(value, str) else []


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:{port}", "nonsense", "nosuch://127.0.0.1:{port}"])
def test_an_address_where_no_scheduler_answers_is_told(address: str) -> None:
    pytest.importorskip("distributed", reason="Dask is not installed")
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # and does not listen
        address = address.format(port=bound.getsockname()[1])
        with pytest.raises(CourseError, match=f"no Dask scheduler answers at {address}"):
            list(results_of([Job("ann", LESSON, (), {}, "none")], 1, address))
