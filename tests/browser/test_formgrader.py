"""An instructor in formgrader: the class is there, the Autograde button is locked in, an answer is marked by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from autograde.classroom.course import Course
from autograde.classroom.execute import tier_for
from autograde.classroom.record import open_gradebook
from autograde.cli import main
from autograde.sandbox.tiers import NoSandbox
from tests.browser.lab import Lab
from tests.browser.taught import LESSON, QUESTION, STUDENTS, hand_in, make_course

LATE = "brahma"  # hands in after the class was graded


@pytest.fixture(scope="module")
def taught(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Course, Lab]]:
    """A class that was graded but for one student, and a JupyterLab in the course's folder."""
    try:
        tier_for(False, "")
    except NoSandbox as error:
        pytest.skip(f"no sandbox works here: {error}")
    folder = tmp_path_factory.mktemp("taught")
    course = make_course(folder / "course")
    where = [str(course.classroom), "--course", str(course.root)]
    assert main(["release", *where, LESSON, "--to", str(folder / "given"), "--due", "2027-01-31"]) == 0
    hand_in(course, *(student for student in STUDENTS if student != LATE))
    assert main(["grade", *where]) == 0
    hand_in(course, LATE)
    lab = Lab(folder)
    yield course, lab
    lab.stop()


def visit(page: Any, lab: Lab, path: str) -> None:
    """Open one of formgrader's pages, and wait for its table."""
    page.goto(f"{lab.url}/formgrader/{path}")
    page.wait_for_function("() => !document.querySelector('tbody').innerText.includes('Loading')")


def test_the_lesson_and_the_class_are_there(taught, page):
    course, lab = taught
    visit(page, lab, "manage_assignments")
    row = page.inner_text(f"tr:has-text('{LESSON}')")
    assert "2027-01-31" in row and row.split()[-1] == str(len(STUDENTS))
    visit(page, lab, "manage_students")
    for name in ("Okoye, Ada", "Rao, Brahma", "Haddad, Fatima"):
        assert name in page.inner_text("tbody")


def test_the_autograde_button_takes_the_locked_in_path(taught, page):
    course, lab = taught
    result = course.results / LESSON
    before = set(result.rglob("*.json"))
    assert len(before) == len(STUDENTS) - 1
    visit(page, lab, f"manage_submissions/{LESSON}")
    row = f"tr:has-text('{LATE}')"
    assert "needs autograding" in page.inner_text(row)
    page.click(f"{row} .autograde a")
    page.wait_for_selector(".modal.in:has-text('Success'), .modal.show:has-text('Success')")
    [new] = set(result.rglob("*.json")) - before  # what only our own path leaves behind
    assert json.loads(new.read_text(encoding="utf-8"))
    assert (course.clean / LATE / LESSON / f"{LESSON}.ipynb").is_file()
    with open_gradebook(course) as gradebook:
        assert gradebook.find_submission(LESSON, LATE).score == 12
    visit(page, lab, f"manage_submissions/{LESSON}")
    assert "needs manual grading" in page.inner_text(row) and "12 / 14" in page.inner_text(row)


def test_an_answer_is_marked_by_hand_and_the_student_reads_it(taught, page):
    course, lab = taught
    with open_gradebook(course) as gradebook:
        submission = gradebook.find_submission_notebook(LESSON, LESSON, "ada").id
    page.goto(f"{lab.url}/formgrader/submissions/{submission}")
    typed = {f"#{QUESTION}": "1.5", f"#{QUESTION}-comment": "Right. Which layers does this hold for?"}
    for field, text in typed.items():
        page.wait_for_selector(field)
        with page.expect_response(lambda answer: "/api/" in answer.url and answer.request.method == "PUT"):
            page.fill(field, text)
            page.press(field, "Tab")
    page.reload()
    for field, text in typed.items():
        page.wait_for_function("([field, text]) => document.querySelector(field)?.value === text", arg=[field, text])
    with open_gradebook(course) as gradebook:
        assert gradebook.find_grade(QUESTION, LESSON, LESSON, "ada").manual_score == 1.5
    where = [str(course.classroom), "--course", str(course.root)]
    assert main(["feedback", *where, "--lesson", LESSON]) == 0
    assert main(["export", *where]) == 0
    told = (course.feedback / "ada" / LESSON / f"{LESSON}.html").read_text(encoding="utf-8")
    assert "Which layers does this hold for?" in told
    row = next(line for line in course.grades.read_text(encoding="utf-8").splitlines() if line.startswith("ada,"))
    assert "1.5" in row and "13.5" in row and "waits" not in row
