"""A class that is taught: a quickstart course with lesson 01, a question that a person marks, and five students."""

from __future__ import annotations

from pathlib import Path

import nbformat

from autograde.classroom.course import Course, course_at
from autograde.classroom.sample import fill_in, read_answers
from autograde.cli import main
from tests.browser.lab import ROOT

LESSON = "01-toy-cache"
STUDENTS = ("ada", "brahma", "chen", "esi", "fatima")
ROSTER = """id,first_name,last_name,email
ada,Ada,Okoye,ada@example.edu
brahma,Brahma,Rao,brahma@example.edu
chen,Chen,Li,chen@example.edu
esi,Esi,Mensah,esi@example.edu
fatima,Fatima,Haddad,fatima@example.edu
"""
QUESTION = "written-1-why"
ASKED = """
# %% [markdown]
# **Question.** Why may keys and values be kept?

# %% [markdown] written="1.why" points="2"
# They depend on the past alone.
"""
ANSWERS = {
    "ada": "Keys and values of past tokens depend on those tokens only, so they never change.",
    "brahma": "Because it is faster.",
    "esi": "A later token cannot change an earlier row, since the mask hides it.",
}


def make_course(folder: Path) -> Course:
    """The course in a new `folder`; nothing is handed in yet."""
    assert main(["quickstart", str(folder), "--lesson", LESSON]) == 0
    course = course_at(folder, folder / "classroom")
    with (folder / "nbgrader_config.py").open("a", encoding="utf-8") as settings:  # formgrader complains where none is
        settings.write(f"c.Exchange.root = {str(folder.parent / 'exchange')!r}\n")
    (folder.parent / "exchange").mkdir()
    (folder.parent / "exchange").chmod(0o777)
    course.roster.write_text(ROSTER, encoding="utf-8")
    with (folder / "solutions" / f"{LESSON}.py").open("a", encoding="utf-8") as source:
        source.write(ASKED)
    assert main(["lessons", "build", "--root", str(folder)]) == 0
    return course


def hand_in(course: Course, *students: str) -> None:
    """These students' work, as it would have been collected."""
    release = nbformat.read(course.release(LESSON), as_version=4)
    for student in students:
        work = fill_in(release, read_answers(ROOT / "tests" / "sample_class" / LESSON / f"{student}.py"))
        for cell in work.cells:
            if cell.id == QUESTION and student in ANSWERS:
                cell.source = ANSWERS[student]
        place = course.submitted / student / LESSON
        place.mkdir(parents=True)
        nbformat.write(work, place / f"{LESSON}.ipynb")
