"""Collecting a class: the newest work of each student lands in submitted/, and nothing is lost or overwritten."""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from nbformat import NotebookNode

from autograde.classroom import place
from autograde.classroom.collect import add_commands, collect
from autograde.classroom.course import Course, CourseError
from autograde.classroom.intake import Submission, read_submission
from autograde.classroom.loose import Found

LESSON = "07-tiny"


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    """A folder for what was downloaded."""
    (tmp_path / "inbox").mkdir()
    return tmp_path / "inbox"


@pytest.fixture
def work(answered: NotebookNode) -> bytes:
    """A right notebook."""
    return json.dumps(answered).encode()


def put(path: Path, data: bytes, time: int = 1_000_000_000) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    os.utime(path, (time, time))


def written(course: Course) -> dict[str, bytes]:
    """What lies in submitted/."""
    top = course.submitted
    return {str(p.relative_to(top)): p.read_bytes() for p in sorted(top.rglob("*")) if p.is_file()}


def record(course: Course) -> list[dict[str, str]]:
    with open(course.classroom / "collected.csv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def notes(found: list[Found]) -> dict[str, str]:
    """File names with their notes."""
    return {Path(one.source).name: one.note for one in found}


def test_bytes_arrive_as_they_are_and_can_be_graded(course: Course, inbox: Path, work: bytes) -> None:
    put(inbox / f"ann_{LESSON}.ipynb", work)
    put(inbox / f"bob_{LESSON}.ipynb", b"\xff no notebook")
    collect(course, [inbox])
    assert written(course) == {
        f"ann/{LESSON}/{LESSON}.ipynb": work,
        f"bob/{LESSON}/{LESSON}.ipynb": b"\xff no notebook",
    }
    assert isinstance(read_submission(course, "ann", LESSON), Submission)
    rows = record(course)
    assert [(r["student"], r["lesson"], r["lesson matched by"], r["placed"]) for r in rows] == [
        ("ann", LESSON, "part of the name and its exercises", "yes"),
        ("bob", LESSON, "part of the name", "yes"),
    ]
    assert rows[0]["source"] == str(inbox / f"ann_{LESSON}.ipynb") and "not JSON" in rows[1]["note"]


def test_a_dry_run_writes_nothing(course: Course, inbox: Path, work: bytes) -> None:
    put(inbox / f"ann_{LESSON}.ipynb", work)
    (one,) = collect(course, [inbox], dry_run=True)
    assert one.placed and written(course) == {} and not (course.classroom / "collected.csv").exists()


def test_the_newest_counts(course: Course, inbox: Path, work: bytes) -> None:
    put(inbox / "ann" / f"{LESSON}.ipynb", b"old", time=1_000_000_000)
    put(inbox / "ann" / f"{LESSON} (1).ipynb", work, time=1_000_000_001)
    put(inbox / f"leebob_11111_222_{LESSON}-1.ipynb", b"old", time=1_000_000_009)
    put(inbox / f"leebob_11111_222_{LESSON}-2.ipynb", work, time=1_000_000_000)
    found = notes(collect(course, [inbox]))
    assert set(written(course).values()) == {work}
    assert found[f"{LESSON} (1).ipynb"] == "the newest of 2 files" and "an older file" in found[f"{LESSON}.ipynb"]
    assert found[f"leebob_11111_222_{LESSON}-2.ipynb"] == "the newest of 2 files"


def test_two_that_are_as_new_do_not_count(course: Course, inbox: Path, work: bytes) -> None:
    put(inbox / "ann" / f"{LESSON}.ipynb", b"one")
    put(inbox / "ann" / f"{LESSON} (1).ipynb", b"two")
    put(inbox / "bob" / f"{LESSON}.ipynb", work)
    put(inbox / "bob" / f"{LESSON} (1).ipynb", work)
    found = collect(course, [inbox])
    assert list(written(course)) == [f"bob/{LESSON}/{LESSON}.ipynb"]
    assert sum("is as new: neither counts" in one.note for one in found) == 2
    assert sum("the same as another file" in one.note for one in found) == 1


def test_a_stray_notebook_does_not_displace_the_work(course: Course, inbox: Path, work: bytes) -> None:
    """It is newer and lies in the lesson's folder, but neither its name nor its content is the lesson's."""
    put(inbox / "ann" / LESSON / f"{LESSON}.ipynb", work)
    put(inbox / "ann" / LESSON / "scratch.ipynb", b'{"cells": [], "nbformat": 4}', time=1_100_000_000)
    collect(course, [inbox])
    assert written(course) == {f"ann/{LESSON}/{LESSON}.ipynb": work}


def test_other_work_stays_unless_forced(course: Course, inbox: Path, work: bytes) -> None:
    place = course.submitted / "ann" / LESSON
    put(place / f"{LESSON}.ipynb", b"earlier")
    put(place / "timestamp.txt", b"2026-11-30 09:20:44 UTC")
    put(inbox / "ann" / f"{LESSON}.ipynb", work)
    (one,) = collect(course, [inbox])
    assert not one.placed and "different work: it stays; --force replaces it" in one.note
    assert (place / f"{LESSON}.ipynb").read_bytes() == b"earlier" and record(course)[0]["placed"] == "no"
    (one,) = collect(course, [inbox], force=True)
    assert one.placed and one.note == "replaces different work"
    assert written(course) == {f"ann/{LESSON}/{LESSON}.ipynb": work}  # no time of the work that is gone
    (one,) = collect(course, [inbox])
    assert one.placed and one.note == "already there"


def test_work_under_another_name_is_other_work(course: Course, inbox: Path, work: bytes) -> None:
    """`grade` reads the only notebook in a folder; a second one must not displace it unasked."""
    put(course.submitted / "ann" / LESSON / f"{LESSON} (1).ipynb", b"earlier")
    put(inbox / "ann" / f"{LESSON}.ipynb", work)
    (one,) = collect(course, [inbox])
    assert not one.placed and list(written(course).values()) == [b"earlier"]


def test_the_exchange_brings_its_times(course: Course, tmp_path: Path, work: bytes) -> None:
    inbound = tmp_path / "exchange" / "kv" / "inbound"
    for second, data in ((44, b"old"), (45, work)):
        name = f"ann+{LESSON}+2026-11-30 09:20:{second}.123456 UTC+aB-_{second}"
        put(inbound / name / f"{LESSON}.ipynb", data, time=1_000_000_100 - second)
        put(inbound / name / "timestamp.txt", b"1999-01-01 00:00:00 UTC")
    put(inbound / f"bob+{LESSON}+2026-11-30 09:20:44 UTC" / "renamed.ipynb", work)
    put(inbound / "bob+99-none+2026-11-30 09:20:44 UTC" / "renamed.ipynb", work)
    found = collect(course, [inbound.parent])
    assert written(course) == {
        f"ann/{LESSON}/{LESSON}.ipynb": work,
        f"ann/{LESSON}/timestamp.txt": b"2026-11-30 09:20:45.123456 UTC",
        f"bob/{LESSON}/{LESSON}.ipynb": work,
        f"bob/{LESSON}/timestamp.txt": b"2026-11-30 09:20:44 UTC",
    }
    got = read_submission(course, "ann", LESSON)
    assert isinstance(got, Submission) and got.timestamp == "2026-11-30 09:20:45.123456 UTC" and got.notes == ()
    assert any("the course has no lesson 99-none" in one.note for one in found)


@pytest.mark.parametrize("linked", ["student", "lesson", "notebook"])
def test_no_link_in_submitted_is_followed(course: Course, inbox: Path, work: bytes, linked: str) -> None:
    other = course.submitted / "zed" / LESSON
    put(other / f"{LESSON}.ipynb", work)
    mine = course.submitted / "ann"
    if linked == "student":
        mine.symlink_to(other.parent)
    elif linked == "lesson":
        mine.mkdir()
        (mine / LESSON).symlink_to(other)
    else:
        (mine / LESSON).mkdir(parents=True)
        (mine / LESSON / f"{LESSON}.ipynb").symlink_to(other / f"{LESSON}.ipynb")
    for data in (work, b"mine"):
        put(inbox / "ann" / f"{LESSON}.ipynb", data)
        (one,) = collect(course, [inbox], force=True)
        assert not one.placed and "is a link or cannot be written" in one.note
    assert (other / f"{LESSON}.ipynb").read_bytes() == work


def test_hostile_names_stay_in_their_folders(course: Course, inbox: Path, work: bytes) -> None:
    names = ["..x", "a;touch pwned", "-rf", "\u0430nn", "ann", "a" * 240, "$(id)", "\u202enna"]
    for name in names:
        put(inbox / name / f"{LESSON}.ipynb", work)
    found = collect(course, [inbox])
    assert sum(one.placed for one in found) == len(names) == len(os.listdir(course.submitted))
    assert {p.name for p in course.classroom.iterdir()} == {"submitted", "collected.csv"}
    again = collect(course, [inbox])
    assert [one.note for one in again if one.note != "already there"] == []


def test_a_roster_refuses_who_is_not_in_it(course: Course, inbox: Path, tmp_path: Path, work: bytes) -> None:
    roster = tmp_path / "roster.csv"
    roster.write_text("id,first_name,last_name\nann,Ann,Lee\n")
    put(inbox / f"Ann Lee_12_assignsubmission_file_{LESSON}.ipynb", work)
    put(inbox / f"Bob Bo_13_assignsubmission_file_{LESSON}.ipynb", work)
    collect(course, [inbox], roster, dry_run=True)
    assert not course.roster.exists()
    found = collect(course, [inbox], roster)
    assert course.roster.read_bytes() == roster.read_bytes()  # `grade` gives everybody in it a row
    assert list(written(course)) == [f"ann/{LESSON}/{LESSON}.ipynb"]
    assert [one.note for one in found] == ["", "Bob Bo is not in the roster"]


def test_names_keep_their_ids_between_runs(course: Course, inbox: Path, work: bytes) -> None:
    """The record remembers which name has which id, so that a second name cannot take it a week later."""
    put(inbox / "1" / f"Ann Lee_12_assignsubmission_file_{LESSON}.ipynb", work)
    put(inbox / "2" / f"Ann_Lee_{LESSON}.ipynb", b"another Ann Lee")
    (first,) = collect(course, [inbox / "1"])
    (second,) = collect(course, [inbox / "2"])
    assert first.student == "Ann_Lee" and second.student.startswith("Ann_Lee-") and second.placed
    assert "apart from 'Ann Lee'" in second.student_by
    assert [row["student"] for row in record(course)] == [first.student, second.student]
    collect(course, [inbox / "1"])
    assert len(record(course)) == 2


def test_the_record_holds_no_formulas(course: Course, inbox: Path, work: bytes) -> None:
    put(inbox / "=HYPERLINK(1)" / f"{LESSON}.ipynb", work)
    collect(course, [inbox])
    collect(course, [inbox])
    (row,) = record(course)
    assert row["name"] == "'=HYPERLINK(1)" and row["student"] == "HYPERLINK_1"


def test_missing_sources_and_empty_ones(course: Course, inbox: Path) -> None:
    with pytest.raises(CourseError, match="there is no file or folder"):
        collect(course, [inbox / "none"])
    with pytest.raises(CourseError, match="no file in"):
        collect(course, [inbox])
    put(course.classroom / "collected.csv", b"\xff")
    put(inbox / "a.ipynb", b"")
    with pytest.raises(CourseError, match="move it away"):
        collect(course, [inbox])


def test_a_failed_write_is_a_note(course: Course, inbox: Path, work: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object, **more: object) -> None:
        raise OSError(28, "No space left on device")

    put(inbox / "ann" / f"{LESSON}.ipynb", work)
    with monkeypatch.context() as patch:
        patch.setattr(place, "_write", full)
        (one,) = collect(course, [inbox])
    assert not one.placed and "No space left on device" in one.note


def test_the_command_prints_a_table(
    course: Course, inbox: Path, work: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    parser = argparse.ArgumentParser()
    add_commands(parser.add_subparsers())
    put(inbox / f"ann_{LESSON}.ipynb", work)
    put(inbox / "notes.pdf", b"")
    line = ["collect", str(course.classroom), str(inbox), "--course", str(course.root)]
    for more, said in ((["--dry-run"], "1 would be placed, 1 not"), ([], "1 placed, 1 not")):
        args = parser.parse_args([*line, *more])
        assert args.run(args) == 0
        out = capsys.readouterr().out
        assert said in out and "not a notebook" in out and out.splitlines()[1].startswith(f"ann      {LESSON}")
    args = parser.parse_args(["collect", str(course.classroom), str(inbox / "none"), "--course", str(course.root)])
    assert args.run(args) == 2 and capsys.readouterr().err.startswith("collect: there is no file or folder")


def test_the_command_imports_nothing_heavy() -> None:
    code = "import sys, autograde.classroom.collect; print({'nbgrader', 'traitlets', 'nbformat'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
