"""A run that is killed at any moment leaves nothing behind, and the next one goes on where it was."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from autograde.classroom.cli import ROOT
from autograde.classroom.course import Course
from autograde.classroom.grade import Options, grade_class
from autograde.classroom.store import course_secret
from autograde.sandbox.scratch import Scratch, remove_leftovers

LESSON = "07-tiny"
STUDENTS = 4
OWNER = """
import time
from autograde.sandbox.scratch import Scratch
for kind in ("view", "template", "worker"):
    print(Scratch(kind).path, flush=True)
time.sleep(600)
"""


def start(course: Course) -> subprocess.Popen:
    """`autograde grade`, with two grading processes; what it says goes to a file beside the class."""
    command = [sys.executable, "-m", "autograde", "grade", course.classroom, "--course", course.root, "--jobs", "2"]
    with open(f"{course.classroom}.log", "w") as log:
        return subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)


def finish(course: Course) -> str:
    """Grade to the end, and return what was said."""
    run = start(course)
    try:
        code = run.wait(600)
    finally:
        run.kill()
    said = Path(f"{course.classroom}.log").read_text()
    assert code == 0, said
    return said


def results(course: Course) -> dict[str, dict]:
    """All results, without how long they took."""
    files = (course.results / LESSON).glob("*.json")
    return {path.name: {**json.loads(path.read_text()), "seconds": 0} for path in files}


def times(course: Course) -> dict[str, int]:
    """When each result was written."""
    return {path.name: path.stat().st_mtime_ns for path in (course.results / LESSON).glob("*.json")}


def at_the_start(course: Course) -> bool:
    return (course.classroom / ".lock").exists()


def with_a_first_result(course: Course) -> bool:
    return len(times(course)) >= 1


def while_one_is_recorded(course: Course) -> bool:
    return len(list(course.autograded.glob("*"))) >= 2


def test_a_run_killed_again_and_again_ends_like_one_that_was_not(
    course: Course, sandbox: str, own_tmp: Path, processes, end_grading_processes, until, hand_in, works, marks
) -> None:
    for number in range(STUDENTS):
        hand_in(f"student{number}", works(number, waits=0.5))
    course_secret(course)  # both classes are asked the same
    whole = Course(course.root, course.classroom.with_name("undisturbed"))
    shutil.copytree(course.classroom, whole.classroom)
    grade_class(whole, Options(workers=2), lambda line: None)
    end_grading_processes()
    kept: dict[str, int] = {}
    for moment in (at_the_start, with_a_first_result, while_one_is_recorded):
        run = start(course)
        try:
            assert until(lambda moment=moment: moment(course))
            assert run.poll() is None, moment.__name__
        finally:
            run.kill()
            run.wait()
        assert until(lambda: not processes()), (moment.__name__, processes())
        assert kept.items() <= times(course).items(), moment.__name__
        kept = times(course)
    assert 1 <= len(kept) < STUDENTS
    (course.results / LESSON / ".part-x").write_text("{")
    said = finish(course)
    assert f"{STUDENTS} rows, {len(kept)} of them from an earlier run" in said
    assert kept.items() <= times(course).items()
    assert results(course) == results(whole)
    assert len(results(course)) == STUDENTS
    assert marks(course) == marks(whole)
    for table in ("grades.csv", "nbgrader.csv"):
        assert (course.classroom / table).read_bytes() == (whole.classroom / table).read_bytes()
    assert not list(own_tmp.glob("autograde-*"))
    assert until(lambda: not processes()), processes()


def test_folders_of_a_killed_grader_are_removed_and_others_are_not(own_tmp: Path) -> None:
    others = own_tmp / "autograde-viewer", own_tmp / "results"
    for folder in others:
        folder.mkdir()
    (own_tmp / "autograde-view-link").symlink_to(others[0])
    ours = Scratch("view")
    with subprocess.Popen([sys.executable, "-c", OWNER], cwd=ROOT, stdout=subprocess.PIPE, text=True) as owner:
        theirs = [Path(owner.stdout.readline().strip()) for _ in range(3)]
        try:
            (theirs[0] / "file").write_text("x")
            remove_leftovers()
            assert all(path.is_dir() for path in (*theirs, Path(ours.path)))
        finally:
            owner.kill()
    remove_leftovers()
    assert not any(path.exists() for path in theirs)
    assert all(path.is_dir() for path in (*others, Path(ours.path)))
    ours.close()
    assert sorted(os.listdir(own_tmp)) == ["autograde-view-link", "autograde-viewer", "results"]
