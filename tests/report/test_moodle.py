"""Moodle's file: who is in it, under which name, and who is listed instead."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from autograde.report.grades import ExportError, Grade
from autograde.report.moodle import write_moodle

GRADES = [
    Grade("ann", "07-tiny", 4.5, 6),
    Grade("bob", "07-tiny", 0, 6),
    Grade("ann", "08-more", 12, 12),
    Grade("bob", "08-more", 0, 12, waits=True),
]


@pytest.fixture
def roster(tmp_path: Path) -> Path:
    path = tmp_path / "roster.csv"
    path.write_text("Student,Email address,ID number\nann,ann@x.edu,0017\nbob,bob@x.edu,0018\n")
    return path


def read(path: Path) -> list[list[str]]:
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def test_emails_come_from_the_roster(tmp_path: Path, roster: Path) -> None:
    out = tmp_path / "out.csv"
    notes = write_moodle(GRADES, "email", roster, out, {"08-more": "More, please"})
    assert read(out) == [
        ["Email address", "07-tiny", "More, please"],
        ["ann@x.edu", "4.5", "12"],
        ["bob@x.edu", "0", "-"],
    ]
    assert notes == ["bob: 08-more waits for marking by hand; written as no grade"]


def test_numbers_and_usernames(tmp_path: Path, roster: Path) -> None:
    out = tmp_path / "out.csv"
    write_moodle(GRADES[:2], "id", roster, out, {})
    assert read(out) == [["ID number", "07-tiny"], ["0017", "4.5"], ["0018", "0"]]
    assert write_moodle(GRADES[:2], "username", None, out, {}) == []
    assert read(out) == [["Username", "07-tiny"], ["ann", "4.5"], ["bob", "0"]]


def test_the_class_roster_in_other_shapes_does(tmp_path: Path) -> None:
    roster, out = tmp_path / "roster.csv", tmp_path / "out.csv"
    roster.write_bytes(b"\xef\xbb\xbfid;Last-Name;Email;lms_user_id;username\nann;A;a@x;7;annie\nbob;B;b@x;8;bobby\n")
    want = {"email": ["a@x", "b@x"], "id": ["7", "8"], "username": ["annie", "bobby"]}
    for kind, names in want.items():
        assert write_moodle(GRADES[:2], kind, roster, out, {}) == []
        assert [row[0] for row in read(out)[1:]] == names


def test_whoever_has_no_usable_name_is_listed(tmp_path: Path) -> None:
    roster = tmp_path / "roster.csv"
    roster.write_text("id,email\nann,ann@x.edu\nbob,\ncy,=1@x\ndee,no address\nfay,two@x.edu\ngus,two@x.edu\n")
    grades = [Grade(who, "07-tiny", 1, 6) for who in ("ann", "bob", "cy", "dee", "eve", "fay", "gus")]
    notes = write_moodle(grades, "email", roster, tmp_path / "out.csv", {})
    assert notes == [
        "bob: has no Email address",
        "cy: '=1@x' begins like a formula; enter the points by hand",
        "dee: wanted an email address, got 'no address'; --roster FILE gives addresses",
        "eve: not in roster.csv",
        "fay: 2 students have the Email address 'two@x.edu'",
        "gus: 2 students have the Email address 'two@x.edu'",
    ]
    assert read(tmp_path / "out.csv") == [["Email address", "07-tiny"], ["ann@x.edu", "1"]]


def test_without_a_roster_a_name_must_be_an_address(tmp_path: Path) -> None:
    grades = [Grade("ann@x.edu", "07-tiny", 1, 6), Grade("bob", "07-tiny", 1, 6)]
    (note,) = write_moodle(grades, "email", None, tmp_path / "out.csv", {})
    assert note.startswith("bob: wanted an email address")
    assert read(tmp_path / "out.csv")[1:] == [["ann@x.edu", "1"]]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("student\nann\n", "wanted a column called email address or email"),
        ("mail,email\nann,x\n", "wanted a column called student"),
        ("student,email\nann,a@x\nann,b@x\n", "got 'ann' twice"),
        ("", "empty file"),
    ],
)
def test_an_unfit_roster_is_refused(tmp_path: Path, text: str, says: str) -> None:
    roster = tmp_path / "roster.csv"
    roster.write_text(text)
    with pytest.raises(ExportError, match=says):
        write_moodle(GRADES, "email", roster, tmp_path / "out.csv", {})
    with pytest.raises(ExportError, match="there is no file"):
        write_moodle(GRADES, "email", tmp_path / "none.csv", tmp_path / "out.csv", {})
