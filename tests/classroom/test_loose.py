"""Whose a loose notebook is, and for which lesson: every platform's names, and nothing guessed."""

from __future__ import annotations

import io
import json
import os
import tempfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autograde.classroom import sources
from autograde.classroom.archive import Budget
from autograde.classroom.course import Course, CourseError
from autograde.classroom.gradescope import nbgrader_time, read_metadata
from autograde.classroom.intake import STUDENT_NAME, Reason, keep, read_cells
from autograde.classroom.loose import Clues, Found, attribute
from autograde.classroom.naming import Lessons, lesson_of, people, said
from autograde.classroom.roster import Claim, Match, Names, Person, match, read_roster
from autograde.classroom.sources import read_source

TOY, NUMPY = "01-toy-cache", "02-numpy-cache"
LESSONS = Lessons((TOY, NUMPY, "12-serving"))
CLASS = [
    Person("ann", "Ann", "Lee", "Ann.Lee@x.edu", "12345"),
    Person("s2", "Zoë", "O'Brien", "zoe@x.edu"),
    Person("s3", "Lee", "Ann"),
    Person("bob", "Bob", "Bø", "bob@x.edu"),
]
METADATA = """---
submission_11:
  :submitters:
  - :name: Zoë O'Brien
    :sid: 's2'
    :email: zoe@x.edu
  :created_at: 2026-11-30 01:33:03.193915000 -08:00
  :results:
    output: |
      submission_44:
      :submitters:
      - :name: Bob Bø
submission_22:
  :submitters:
  - :name: Ann Lee
    :sid:
    :email: ann.lee@x.edu
  - :name: Bob Bø
    :email: bob@x.edu
  :created_at: soon
"""


def notebook(*grade_ids: str) -> bytes:
    cells = [
        {"cell_type": "code", "source": "", "metadata": {"nbgrader": {"grade_id": grade_id}}} for grade_id in grade_ids
    ]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4}).encode()


IN_TOY, IN_NUMPY, IN_NONE = notebook("exercise-1-1"), notebook("exercise-2-1"), notebook()


@pytest.fixture
def clues(tmp_path: Path) -> Clues:
    """What a course of two lessons and the class's roster say."""
    return Clues(_course(tmp_path), CLASS, Names())


@pytest.fixture
def bare(tmp_path: Path) -> Clues:
    """The same without a roster."""
    return Clues(_course(tmp_path), None, Names())


def _course(tmp_path: Path) -> Course:
    for slug, cells in ((TOY, ("exercise-1-1", "shared")), (NUMPY, ("exercise-2-1", "shared"))):
        folder = tmp_path / "course" / "lessons" / slug
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{slug}.ipynb").write_bytes(notebook(*cells))
    return Course(tmp_path / "course", tmp_path / "class")


def find(tmp_path: Path, clues: Clues, files: dict[str, bytes], packed: bool = False) -> dict[str, Found]:
    """Lay out files and attribute them. Keys of the answer are as those of `files`."""
    source = tmp_path / ("source.zip" if packed else "source")
    if packed:
        source.write_bytes(zipped(files))
    else:
        for name, data in files.items():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes(data)
    (tmp_path / "spool").mkdir()
    found = attribute(read_source(source, tmp_path / "spool"), clues)
    return {one.source[len(str(source)) + 1 :]: one for one in found}


def zipped(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        for name, data in files.items():
            made.writestr(name, data)
    return out.getvalue()


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("path", "student", "lesson"),
    [
        ("Ann Lee_12_assignsubmission_file_/01-toy-cache.ipynb", "ann", TOY),
        ("Zoe O'Brien_12_assignsubmission_file_/work/Untitled.ipynb", "s2", TOY),
        ("Bob Bo_7_assignsubmission_file_01_Toy Cache (2).ipynb", "bob", TOY),
        ("obrienzoe_LATE_999_67890_01-toy-cache-2.ipynb", "s2", TOY),
        ("obrienzoe_999_67890_lesson-1.ipynb", "s2", TOY),
        ("whoever_12345_67890_01-toy-cache.ipynb", "ann", TOY),
        ("ann_01-toy-cache.ipynb", "ann", TOY),
        ("01-toy-cache_bob.ipynb", "bob", TOY),
        ("s2/01-toy-cache (1).ipynb", "s2", TOY),
        ("s2/Copy of 01_TOY_cache-Copy1.ipynb", "s2", TOY),
        ("week 1/s2/anything.ipynb", "s2", TOY),
        ("s2/01-toy-cache/01-toy-cache.ipynb", "s2", TOY),
        ("O'Brien, Zoë/01.ipynb", "s2", TOY),
        ("01-toy-cache/bob.ipynb", "bob", TOY),
        ("ann+01-toy-cache+2026-11-30 09:20:44.123456 UTC+aB-_=/01-toy-cache.ipynb", "ann", TOY),
    ],
)
def test_names_with_a_roster(tmp_path: Path, clues: Clues, path: str, student: str, lesson: str, packed: bool) -> None:
    (one,) = find(tmp_path, clues, {path: IN_TOY}, packed).values()
    assert (one.student, one.lesson) == (student, lesson), one


def test_moodle_canvas_and_the_exchange_without_a_roster(tmp_path: Path, bare: Clues) -> None:
    got = find(
        tmp_path,
        bare,
        {
            "Ann Lee_12_assignsubmission_file_/01-toy-cache.ipynb": IN_TOY,
            "leeann_LATE_12345_67890_01-toy-cache-2.ipynb": IN_TOY,
            "cat+01-toy-cache+2026-11-30 09:20:44.123456 UTC+aB-_=/01-toy-cache.ipynb": IN_TOY,
        },
    ).values()
    assert [one.student for one in got] == ["Ann_Lee", "cat", "leeann"]
    assert [one.time for one in got] == ["", "2026-11-30 09:20:44.123456 UTC", ""]
    assert [one.attempt for one in got] == [0, 0, 2]


@pytest.mark.parametrize("packed", [False, True])
def test_gradescope(tmp_path: Path, clues: Clues, packed: bool) -> None:
    files = {
        "export/submission_metadata.yml": METADATA.encode(),
        "export/submission_11/x.ipynb": IN_TOY,
        "export/submission_33/01-toy-cache.ipynb": IN_TOY,
    }
    got = find(tmp_path, clues, files, packed)
    one = got["export/submission_11/x.ipynb"]
    assert (one.student, one.lesson, one.time) == ("s2", TOY, "2026-11-30 09:33:03.193915 UTC")
    assert "says whose submission_33 is" in got["export/submission_33/01-toy-cache.ipynb"].note


def test_a_group_hands_in_for_each(tmp_path: Path, clues: Clues) -> None:
    source = tmp_path / "export"
    (source / "submission_22").mkdir(parents=True)
    (source / "submission_metadata.yml").write_text(METADATA)
    (source / "submission_22" / "02.ipynb").write_bytes(IN_NUMPY)
    (tmp_path / "spool").mkdir()
    found = attribute(read_source(source, tmp_path / "spool"), clues)
    assert [(one.student, one.lesson, one.time, one.note) for one in found] == [
        ("ann", NUMPY, "", "handed in by a group"),
        ("bob", NUMPY, "", "handed in by a group"),
    ]


def test_what_a_program_printed_is_no_submitter() -> None:
    read = read_metadata(METADATA.encode())
    assert list(read) == ["submission_11", "submission_22"]
    assert [claim.name for claim in read["submission_11"].people] == ["Zoë O'Brien"]
    assert [claim.email for claim in read["submission_22"].people] == ["ann.lee@x.edu", "bob@x.edu"]
    assert nbgrader_time("2026-11-30 01:33:03") == "" and nbgrader_time("2026-13-30 01:33:03 Z") == ""


@pytest.mark.parametrize(
    ("name", "lesson", "how"),
    [
        ("01-toy-cache", TOY, "exact name"),
        ("01_Toy  Cache", TOY, "name up to case, spaces, copies"),
        ("Copy of 01-toy-cache", TOY, "name up to case, spaces, copies"),
        ("01-toy-cache-Copy12", TOY, "name up to case, spaces, copies"),
        ("01-toy-cache (1) (2)", TOY, "name up to case, spaces, copies"),
        ("01-toy-cache-final", TOY, "part of the name"),
        ("lesson 1", TOY, "number"),
        ("Lesson_02", NUMPY, "number"),
        ("1", TOY, "number"),
        ("12", "12-serving", "number"),
        ("3", None, ""),
        ("2026", None, ""),
        ("101-toy-cache", None, ""),
        ("toy", None, ""),
        ("", None, ""),
    ],
)
def test_lessons_in_names(name: str, lesson: str | None, how: str) -> None:
    found = LESSONS.named(name)
    assert (found[:2] if found else None) == ((lesson, how) if lesson else None)


@pytest.mark.parametrize(
    ("name", "rest", "attempt"),
    [
        ("lesson-1.ipynb", "lesson-1.ipynb", 1),
        ("01-toy-cache-2.ipynb", "01-toy-cache.ipynb", 2),
        ("x.ipynb", "x.ipynb", 0),
    ],
)
def test_canvas_numbers_resubmissions(name: str, rest: str, attempt: int) -> None:
    mark = said((f"leeann_12345_678_{name}",), LESSONS)
    assert mark and (mark.rest, mark.attempt) == ((rest,), attempt)


def test_a_folder_of_a_bare_number_may_be_a_student() -> None:
    assert people(("12", "x.ipynb"), LESSONS) == ["12"]
    assert people(("lesson 12", "x.ipynb"), LESSONS) == []


def test_lessons_by_content(tmp_path: Path, clues: Clues) -> None:
    both = notebook("exercise-1-1", "exercise-2-1")
    got = find(
        tmp_path,
        clues,
        {
            "ann/a.ipynb": IN_NUMPY,
            "ann/b.ipynb": both,
            "ann/c.ipynb": notebook("shared"),
            "ann/01.ipynb": IN_NUMPY,
            "ann/01-toy-cache.ipynb": IN_NUMPY,
            "ann/02-numpy-cache.ipynb": b"<html>",
        },
    )
    assert (got["ann/a.ipynb"].lesson, got["ann/a.ipynb"].lesson_by) == (NUMPY, "its exercises")
    assert "it holds exercises of 01-toy-cache, 02-numpy-cache" in got["ann/b.ipynb"].note
    assert "nothing says which lesson" in got["ann/c.ipynb"].note
    assert got["ann/01.ipynb"].lesson == "" and "by number, but its exercises" in got["ann/01.ipynb"].note
    assert got["ann/01-toy-cache.ipynb"].lesson == TOY
    assert "its exercises are those of 02-numpy-cache" in got["ann/01-toy-cache.ipynb"].note
    assert got["ann/02-numpy-cache.ipynb"].lesson == NUMPY and "not JSON" in got["ann/02-numpy-cache.ipynb"].note


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        (Claim("Ann Lee"), ("ann", "exact name")),
        (Claim("Lee Ann"), ("s3", "exact name")),
        (Claim("annlee"), "annlee could be ann, s3"),
        (Claim("ANN.LEE@X.EDU"), ("ann", "e-mail up to case")),
        (Claim("ANN"), ("ann", "name or id up to case, accents, punctuation")),
        (Claim("zoe obrien"), ("s2", "name or id up to case, accents, punctuation")),
        (Claim("OBRIEN  zoe"), ("s2", "name or id up to case, accents, punctuation")),
        (Claim("x", lms="12345"), ("ann", "platform's number")),
        (Claim("Bob Bø", lms="12345"), "Bob Bø: by name this is bob, by platform's number it is ann"),
        (Claim("Bob Bø", id="ann"), "Bob Bø: by name this is bob, by id or e-mail it is ann"),
        (Claim("nobody", id="bob"), ("bob", "id or e-mail")),
        (Claim("\u0430nn"), "\u0430nn is not in the roster"),  # a Cyrillic a
        (Claim("Ann"), ("ann", "name or id up to case, accents, punctuation")),
        (Claim("O'Brien"), "O'Brien is not in the roster"),
        (Claim(""), " is not in the roster"),
    ],
)
def test_matching(claim: Claim, expected: tuple[str, str] | str) -> None:
    assert match(CLASS, claim) == (Reason(expected) if isinstance(expected, str) else Match(*expected))


def test_name_parts_in_another_order() -> None:
    people = [Person("s1", "Mary Jane", "van Dyk"), Person("s2", "Mary", "Jane")]
    assert match(people, Claim("Dyk, Mary-Jane van")) == Match("s1", "name in another order")


def test_rosters(tmp_path: Path) -> None:
    path = tmp_path / "roster.csv"
    path.write_bytes(
        "\ufeffLast Name;E-mail;ID;Email;first_name;LMS_User_ID\r\nLee;x;ann;a@x.edu;Ann;9\r\n\r\n".encode()
    )
    assert read_roster(path) == [Person("ann", "Ann", "Lee", "a@x.edu", "9")]
    path.write_text("id\nann,with,more\nbob\n")
    assert [person.id for person in read_roster(path)] == ["ann", "bob"]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "no column id"),
        (b"name,email\nann,a@x.edu\n", "no column id (found: name, email)"),
        (b"id\n..x\n", "cannot be a student's: '..x'"),
        (b"id\nann\nann\n", "an id twice: ann"),
        (b"id\n\xff\n", "not CSV in UTF-8"),
        (b"id,email\nann,\0\n" + b'"' + b"x" * 200_000, "not CSV"),
    ],
)
def test_bad_rosters(tmp_path: Path, data: bytes, words: str) -> None:
    path = tmp_path / "roster.csv"
    path.write_bytes(data)
    with pytest.raises(CourseError) as error:
        read_roster(path)
    assert words in str(error.value)
    with pytest.raises(CourseError, match="cannot be read"):
        read_roster(tmp_path)


def test_ids_from_names_are_usable_and_never_shared() -> None:
    hostile = ["..x", "x", "-rf", "rf", "a;touch pwned", "a touch pwned", "X", "a" * 300, "a" * 301, "\u0430nn", "ann"]
    hostile += ["ann\u202e", "李雷", "李 雷", "$(reboot)", "~root", "a\nb", "con", "\udcff", "\ud800", "=1+1", "𝔸" * 99]
    names = Names()
    got = {name: names.match(Claim(name)) for name in hostile}
    ids = [found.student for found in got.values() if isinstance(found, Match)]
    assert len({one.casefold() for one in ids}) == len(hostile)
    assert [one for one in ids if not STUDENT_NAME.fullmatch(one) or len(one.encode()) > 100] == []
    assert got["..x"] == Match("x", "from the name")
    assert isinstance(got["x"], Match) and got["x"].how == "from the name, apart from '..x', which gives the same id"
    assert {name: names.match(Claim(name)).student for name in hostile} == {n: m.student for n, m in got.items()}
    assert names.match(Claim("...")) == Reason("no id can be made from the name '...'")


def test_without_a_roster_two_names_are_not_chosen_between(tmp_path: Path, bare: Clues) -> None:
    got = find(
        tmp_path,
        bare,
        {
            "ann/bob_01-toy-cache.ipynb": IN_TOY,
            "ann/work/01-toy-cache.ipynb": IN_TOY,
            "ann/01-toy-cache_final.ipynb": IN_TOY,
            "cat/CAT_01-toy-cache.ipynb": IN_TOY,
            "01-toy-cache.ipynb": IN_TOY,
            "dan.ipynb": IN_TOY,
        },
    )
    assert "(ann, bob): a roster would tell" in got["ann/bob_01-toy-cache.ipynb"].note
    assert "(ann, work): a roster would tell" in got["ann/work/01-toy-cache.ipynb"].note
    assert got["ann/01-toy-cache_final.ipynb"].student == "ann"
    assert got["cat/CAT_01-toy-cache.ipynb"].student == "cat"
    assert "nothing in its path says whose" in got["01-toy-cache.ipynb"].note
    assert got["dan.ipynb"].student == ""


def test_with_a_roster_two_students_are_not_chosen_between(tmp_path: Path, clues: Clues) -> None:
    got = find(tmp_path, clues, {"ann/bob_01-toy-cache.ipynb": IN_TOY, "cat/x.ipynb": IN_TOY})
    assert "more than one student: ann, bob" in got["ann/bob_01-toy-cache.ipynb"].note
    assert got["cat/x.ipynb"].student == "" and "cat is not in the roster" in got["cat/x.ipynb"].note


def test_a_folder_around_the_class_is_not_a_student(tmp_path: Path, bare: Clues) -> None:
    got = find(tmp_path, bare, {"class/ann/x.ipynb": IN_TOY, "class/bob/y.ipynb": IN_TOY}, packed=True)
    assert [one.student for one in got.values()] == ["ann", "bob"]


def test_a_zip_for_each_student(tmp_path: Path, bare: Clues) -> None:
    inner = zipped({"my work.ipynb": IN_TOY, "__MACOSX/._my work.ipynb": b"x"})
    got = find(tmp_path, bare, {"ann.zip": inner, "Bob Bo_7_assignsubmission_file_/x.zip": inner}, packed=True)
    assert {path: one.student for path, one in got.items()} == {
        "ann.zip/my work.ipynb": "ann",
        "Bob Bo_7_assignsubmission_file_/x.zip/my work.ipynb": "Bob_Bo",
    }


def test_a_platforms_mark_cannot_be_forged_from_inside(tmp_path: Path, clues: Clues, bare: Clues) -> None:
    """The outermost mark counts, and a student's folder cannot hold another student's mark."""
    forged = "Bob Bo_7_assignsubmission_file_"
    files = {
        f"Ann Lee_1_assignsubmission_file_/{forged}/01-toy-cache.ipynb": IN_TOY,
        f"leeann_12345_678_{forged}01-toy-cache.ipynb": IN_TOY,
        f"ann/{forged}/01-toy-cache.ipynb": IN_TOY,
        "s2/x.ipynb": IN_TOY,
    }
    for some_clues, folder in ((clues, "with"), (bare, "without")):
        (tmp_path / folder).mkdir()
        got = list(find(tmp_path / folder, some_clues, files).values())
        assert "bob" not in {one.student.casefold()[:3] for one in got}
        assert got[1].student == "" and got[1].note


def test_a_forged_mark_in_a_students_only_folder(tmp_path: Path, clues: Clues) -> None:
    (one,) = find(tmp_path, clues, {"ann/Bob Bo_7_assignsubmission_file_/01-toy-cache.ipynb": IN_TOY}).values()
    assert one.student == "" and one.note == "it lies in ann's folder and says that it is bob's"


def test_links_pipes_and_other_files_are_named(tmp_path: Path, clues: Clues) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (tmp_path / "ann").mkdir()
    (tmp_path / "ann" / "01-toy-cache.ipynb").write_bytes(IN_TOY)
    (source / "bob").mkdir()
    (source / "bob" / "01-toy-cache.ipynb").symlink_to(tmp_path / "ann" / "01-toy-cache.ipynb")
    (source / "s2").symlink_to(tmp_path / "ann")
    (source / "device.ipynb").symlink_to("/dev/zero")
    os.mkfifo(source / "pipe.ipynb")
    (source / "large.ipynb").touch()
    os.truncate(source / "large.ipynb", 500 * 2**20)
    (source / "notes.pdf").touch()
    os.mkdir(source / "folder.ipynb")
    os.close(os.open(os.fsencode(source) + b"/\xff_01-toy-cache.ipynb", os.O_CREAT | os.O_WRONLY))
    got = find(tmp_path, clues, {})
    special = "a link or another special file"
    assert {path: one.note for path, one in got.items() if not one.clear and "\udcff" not in path} == {
        "bob/01-toy-cache.ipynb": special,
        "s2": special,
        "device.ipynb": special,
        "pipe.ipynb": special,
        "large.ipynb": "the notebook is larger than 5 MiB",
        "notes.pdf": "not a notebook",
    }
    assert [one.student for path, one in got.items() if "\udcff" in path] == [""]


def test_a_folder_has_limits(tmp_path: Path, clues: Clues, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = "/".join("abcdefghijkl")
    got = find(tmp_path, clues, {f"{deep}/01-toy-cache.ipynb": IN_TOY})
    assert [one.note for one in got.values()] == ["more than 10 folders deep"]
    for limits, words in (({"members": 3}, "too many files"), ({"total": len(IN_TOY)}, "too much in one source")):
        monkeypatch.setattr(sources, "Budget", lambda limits=limits: Budget(**limits))
        folder = tmp_path / words
        folder.mkdir()
        got = find(folder, clues, {"ann/01.ipynb": IN_TOY, "bob/01.ipynb": IN_TOY, "s2/01.ipynb": IN_TOY})
        assert words in list(got.values())[-1].note and list(got.values())[0].clear


def test_the_exchange_folders_owner_is_compared(tmp_path: Path, clues: Clues, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any student may write to inbound/, also under another's name: nbgrader warns there too."""
    monkeypatch.setattr(sources, "_owner", lambda folder: "bob")
    stamp = "2026-11-30 09:20:44 UTC"
    got = find(tmp_path, clues, {f"{who}+{TOY}+{stamp}/{TOY}.ipynb": IN_TOY for who in ("ann", "bob")})
    assert [one.note for one in got.values()] == ["its folder belongs to the login bob", ""]


def test_a_bad_zip_is_named(tmp_path: Path, clues: Clues) -> None:
    got = find(tmp_path, clues, {"ann.zip": b"no zip", "ann/01-toy-cache.ipynb": IN_TOY})
    assert got["ann.zip"].note == "the file is not a zip file, or is damaged"
    assert got["ann/01-toy-cache.ipynb"].clear


KEYS = ["cell_type", "source", "metadata", "id", "nbgrader", "grade_id", "cells", "nbformat"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["code", "markdown", "raw"]),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(KEYS) | st.text(), inner),
    max_leaves=20,
)
NOTEBOOK = st.builds(lambda cells, n: json.dumps({"cells": cells, "nbformat": n}).encode(), JSON, JSON | st.just(4))


def test_utf16_is_named() -> None:
    for encoding in ("utf-16-le", "utf-16-be"):
        with pytest.raises(ValueError, match="saved as UTF-16"):
            read_cells(("\ufeff" + IN_TOY.decode()).encode(encoding))


@settings(max_examples=200, deadline=None)
@given(JSON)
def test_any_cell_is_kept_or_left_out(cell: object) -> None:
    kept = keep(cell)
    assert kept is None or all(isinstance(text, str) for text in (kept.kind, kept.source, kept.id, kept.grade_id))


@settings(max_examples=200, deadline=None)
@given(st.binary() | NOTEBOOK)
def test_any_bytes_are_cells_or_a_reason(data: bytes) -> None:
    try:
        read_cells(data)
    except ValueError as error:
        assert str(error)


PIECES = [
    "ann",
    "Bob Bo",
    "_12_assignsubmission_file_",
    "submission_11",
    "_LATE_12345_678_",
    "+2026-11-30 09:20:44 UTC",
]
PIECES += [
    "01-toy-cache",
    "lesson 1",
    ".ipynb",
    ".zip",
    "/",
    "_",
    "+",
    " (1)",
    "-2",
    "submission_metadata.yml",
    "..",
    "\\",
]
PATH = (
    st.lists(st.sampled_from(PIECES) | st.text(max_size=3), min_size=1, max_size=8)
    .map("".join)
    .filter(lambda text: text.partition("\0")[0])
)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(PATH, st.sampled_from([IN_TOY, IN_NUMPY, b"", b"x", METADATA.encode()]), min_size=1, max_size=6))
def test_any_zip_has_an_answer(files: dict[str, bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder)
        course = _course(top)
        (top / "a.zip").write_bytes(
            zipped({name.encode("utf-8", "replace").decode(): data for name, data in files.items()})
        )
        (top / "spool").mkdir()
        for roster in (None, CLASS):
            for one in attribute(read_source(top / "a.zip", top / "spool"), Clues(course, roster, Names())):
                assert one.note or one.clear, one
                assert not one.student or STUDENT_NAME.fullmatch(one.student)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text(st.characters(exclude_characters="/\0"), min_size=1), min_size=1, max_size=4), st.text())
def test_any_path_has_an_answer(parts: list[str], text: str) -> None:
    for read in (said, people, lesson_of):
        read(tuple(parts), LESSONS)
    read_metadata(text.encode("utf-8", "replace"))
    assert isinstance(match(CLASS, Claim(text)), Match | Reason)
    found = Names().match(Claim(text))
    assert isinstance(found, Reason) or STUDENT_NAME.fullmatch(found.student)
