"""A question that a person marks: `written="1.why"`."""

from __future__ import annotations

import pytest

from autograde.authoring.build import build
from autograde.authoring.course import LessonError
from autograde.authoring.gates import GATES
from autograde.authoring.notebook import compose, read_notebook
from autograde.authoring.source import read_source

MODEL = "The rows before it never change."
CELLS = f'\n# %% [markdown]\n# Why?\n\n# %% [markdown] written="2.why" points="2"\n# {MODEL}\n'


def add(course, text):
    path = course.source(course.lessons[1])
    path.write_text(path.read_text(encoding="utf-8").rstrip("\n") + "\n" + text, encoding="utf-8")


def cell_of(course, which):
    lesson = course.lessons[1]
    [cell] = (c for c in read_notebook(course, lesson, getattr(course, which)(lesson)).cells if c.id == "written-2-why")
    return cell


def test_the_student_gets_a_cell_to_write_in_and_not_the_model_answer(course):
    add(course, CELLS)
    build(course, ["02"], say=lambda line: None)
    assert cell_of(course, "solution").source == MODEL
    cell = cell_of(course, "release")
    assert (cell.cell_type, cell.source) == ("markdown", "YOUR ANSWER HERE")
    tag = cell.metadata.nbgrader
    assert (tag.grade, tag.solution, tag.locked, tag.points) == (True, True, False, 2)
    for name, gate in GATES.items():
        assert gate(course) == [], name


def test_a_model_answer_in_a_release_is_seen(course, edit):
    add(course, CELLS)
    build(course, ["02"], say=lambda line: None)
    edit(course.release(course.lessons[1]), "YOUR ANSWER HERE", MODEL)
    assert any("holds a line of an answer" in str(problem) for problem in GATES["leaks"](course))


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ('[markdown] written="2.why"', "written= needs points"),
        ('[markdown] written="2.why" points="0"', "written= needs points"),
        ('[markdown] written="2.why" points="much"', "written= needs points"),
        ('written="2.why" points="2"', "written= belongs on a markdown cell"),
        ('[markdown] written="Two Why" points="2"', "written= takes a name in quotes"),
        ('[markdown] written="2.why" points="2" card="2.1"', "written= goes with points= alone"),
    ],
)
def test_a_wrong_header_is_refused(course, header, said):
    add(course, f"\n# %% {header}\n# {MODEL}\n")
    with pytest.raises(LessonError, match=said):
        read_source(course, course.lessons[1])


def test_two_of_one_name_are_refused(course):
    add(course, CELLS + CELLS.replace("2.why", "2-why"))
    with pytest.raises(LessonError, match="two written questions would both be written-2-why"):
        compose(course, course.lessons[1])
