"""Submissions that are not what they should be: each becomes a reason, none an error, and no link is followed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from nbformat import NotebookNode

from autograde.classroom import intake
from autograde.classroom.course import Course
from autograde.classroom.intake import Reason, Submission, read_cells, read_submission

LESSON = "07-tiny"
HandIn = Callable[..., Path]


def notebook(*cells: object, nbformat: object = 4) -> bytes:
    return json.dumps({"cells": list(cells), "metadata": {}, "nbformat": nbformat, "nbformat_minor": 5}).encode()


def code(source: object, **more: object) -> dict[str, object]:
    return {"cell_type": "code", "source": source, "metadata": {}, "outputs": [], "execution_count": None} | more


def test_a_good_notebook_keeps_sources_and_ids(course: Course, hand_in: HandIn, answered: NotebookNode) -> None:
    hand_in("ann", answered)
    got = read_submission(course, "ann", LESSON)
    assert isinstance(got, Submission)
    assert [cell.grade_id for cell in got.cells if cell.grade_id] == [
        "exercise-7-1",
        "check-7-1",
        "exercise-7-2",
        "check-7-2",
    ]
    assert got.notes == () and got.timestamp == ""


def test_a_byte_order_mark_is_fine(course: Course, hand_in: HandIn, answered: NotebookNode) -> None:
    hand_in("ann", b"\xef\xbb\xbf" + json.dumps(answered).encode())
    assert isinstance(read_submission(course, "ann", LESSON), Submission)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty"),
        (b" \n", "empty"),
        (b"<!DOCTYPE html>", "not JSON"),
        (b'{"cells": [', "not JSON"),
        ("{}".encode("utf-16"), "not JSON"),
        (b"\xff\xfe\x00", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"cells": [' + b"9" * 10_000 + b"]}", "not JSON"),
        (b"[]", "no cells"),
        (b'{"cells": null, "nbformat": 4}', "no cells"),
        (notebook(nbformat=3), "not version 4"),
        (notebook(*[code("1")] * 501), "501 cells, at most 500"),
        (notebook(code("x" * 200_001)), "200001 characters, at most 200000"),
    ],
)
def test_what_is_not_a_notebook_has_a_reason(course: Course, hand_in: HandIn, data: bytes, words: str) -> None:
    hand_in("ann", data)
    got = read_submission(course, "ann", LESSON)
    assert isinstance(got, Reason) and words in got.text


def test_size_is_limited_before_parsing(course: Course, hand_in: HandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake.json, "loads", lambda text: pytest.fail("parsed"))
    path = hand_in("ann", b"{}")
    os.truncate(path, intake.MAX_BYTES + 1)
    assert read_submission(course, "ann", LESSON) == Reason("the notebook is larger than 5 MiB")


def test_cells_that_are_not_cells_are_left_out() -> None:
    odd = [None, 3, code({"a": 1}), code(["a", 2]), {"cell_type": "code"}, {"cell_type": "movie", "source": ""}]
    odd_metadata = [code("a", metadata="text"), code("b", metadata={"nbgrader": [1]}, id=7)]
    got = read_cells(notebook(*odd, *odd_metadata, code(["x = 1\n", "y = 2"])))
    assert [cell.source for cell in got] == ["a", "b", "x = 1\ny = 2"]
    assert {cell.id + cell.grade_id for cell in got} == {""}


def test_characters_that_cannot_be_written_are_replaced() -> None:
    (cell,) = read_cells(notebook(code("a = '\ud800'\0")))
    assert cell.source == "a = '?'"
    cell.source.encode()


def test_colab_keeps_ids_in_the_metadata() -> None:
    (cell,) = read_cells(notebook(code("1", metadata={"id": "exercise-7-1"})))
    assert cell.id == "exercise-7-1"


@pytest.mark.parametrize("linked", ["student", "lesson", "notebook"])
def test_links_are_not_followed(course: Course, hand_in: HandIn, answered: NotebookNode, linked: str) -> None:
    """A link to another student's work, or to the gradebook, must not be read as one's own."""
    real = hand_in("ann", answered)
    mine = course.submitted / "bob"
    if linked == "student":
        mine.symlink_to(course.submitted / "ann")
    elif linked == "lesson":
        mine.mkdir()
        (mine / LESSON).symlink_to(real.parent)
    else:
        (mine / LESSON).mkdir(parents=True)
        (mine / LESSON / f"{LESSON}.ipynb").symlink_to(real)
    got = read_submission(course, "bob", LESSON)
    assert isinstance(got, Reason) and "link" in got.text


def test_a_pipe_does_not_hang_and_a_folder_is_no_notebook(course: Course) -> None:
    for student, make, words in (("pipe", os.mkfifo, "not a plain file"), ("folder", os.mkdir, "could not be opened")):
        folder = course.submitted / student / LESSON
        folder.mkdir(parents=True)
        make(folder / f"{LESSON}.ipynb")
        got = read_submission(course, student, LESSON)
        assert isinstance(got, Reason) and words in got.text


def test_a_renamed_file_is_found(course: Course, hand_in: HandIn, answered: NotebookNode) -> None:
    hand_in("ann", answered, name=f"{LESSON} (1).ipynb")
    got = read_submission(course, "ann", LESSON)
    assert isinstance(got, Submission) and got.notes == (f"the file was called {LESSON} (1).ipynb",)


def test_the_copy_that_a_reset_keeps_is_not_the_work(course: Course, hand_in: HandIn, answered: NotebookNode) -> None:
    hand_in("ann", answered, name=f"{LESSON} (1).before-reset.ipynb")
    hand_in("ann", answered, name=f"{LESSON} (1).ipynb")
    got = read_submission(course, "ann", LESSON)
    assert isinstance(got, Submission) and got.notes == (f"the file was called {LESSON} (1).ipynb",)


def test_two_foreign_files_are_not_guessed_between(course: Course, hand_in: HandIn, answered: NotebookNode) -> None:
    hand_in("ann", answered, name="a.ipynb")
    hand_in("ann", answered, name="b.ipynb")
    assert read_submission(course, "ann", LESSON) == Reason(f"there is no {LESSON}.ipynb (found a.ipynb, b.ipynb)")


def test_nothing_handed_in_is_no_reason(course: Course) -> None:
    (course.submitted / "ann").mkdir()
    assert read_submission(course, "ann", LESSON) is None


def test_timestamps(course: Course, hand_in: HandIn, answered: NotebookNode) -> None:
    path = hand_in("ann", answered).with_name("timestamp.txt")
    path.write_text("2026-12-01 10:00:00 UTC\n")
    got = read_submission(course, "ann", LESSON)
    assert isinstance(got, Submission) and got.timestamp == "2026-12-01 10:00:00 UTC"
    path.write_text("yesterday, I think")
    got = read_submission(course, "ann", LESSON)
    assert isinstance(got, Submission) and got.timestamp == "" and "on time" in got.notes[0]


def test_usable_student_names() -> None:
    good = ["ann", "Ann Lee_12345", "a.b@c.edu", "s-1", "Zoë", "李雷", "a+b"]
    bad = ["..x", "a*b", "a[b]", "-rf", "a;touch x", ".hidden", "a/b", "", "a" * 101, "a\n"]
    assert [name for name in good if not intake.STUDENT_NAME.fullmatch(name)] == []
    assert [name for name in bad if intake.STUDENT_NAME.fullmatch(name)] == []


def test_work_that_cannot_be_read_was_handed_in_when_it_was(course: Course, hand_in) -> None:
    """Else formgrader, which compares the times, thinks that it still has to be graded."""
    hand_in("ann", b"{").with_name("timestamp.txt").write_text("2026-12-03 10:00:00 UTC")
    assert read_submission(course, "ann", LESSON) == Reason(
        "the file is not a notebook (not JSON)", "2026-12-03 10:00:00 UTC"
    )
