"""Reading a lesson's text and expanding it into cells."""

from __future__ import annotations

import re

import pytest

from autograde.authoring.course import LessonError
from autograde.authoring.notebook import compose, to_text
from autograde.authoring.source import read_source


def cells(course, number):
    return {cell.id: cell for cell in compose(course, course.lessons[number - 1]).cells}


def test_an_exercise_cell_is_a_solution_cell_to_nbgrader(course):
    cell = cells(course, 1)["exercise-1-1"]
    assert cell.cell_type == "code"
    assert cell.metadata == {
        "nbgrader": {
            "grade": False,
            "grade_id": "exercise-1-1",
            "locked": False,
            "schema_version": 3,
            "solution": True,
            "task": False,
        }
    }


@pytest.mark.parametrize(("cell_id", "points"), [("check-1-1", 2), ("check-1-2", 3)])
def test_a_check_cell_is_a_locked_graded_cell_worth_the_exercise_whether_written_out_or_not(course, cell_id, points):
    cell = cells(course, 1)[cell_id]
    assert cell.cell_type == "code"
    assert cell.source == f'check("1.{cell_id[-1]}")'
    assert cell.metadata == {
        "nbgrader": {
            "grade": True,
            "grade_id": cell_id,
            "locked": True,
            "points": points,
            "schema_version": 3,
            "solution": False,
            "task": False,
        }
    }


def test_a_card_tells_what_to_do_and_keeps_the_authors_text_below(course):
    cards = [cell.source for cell in compose(course, course.lessons[0]).cells if cell.source.startswith("### Exercise")]
    assert cards[0] == (
        "### Exercise 1.1 — Write double\n\n"
        "Write `double` so that it does what it says.\n\n"
        "**2 points** · 5 minutes · difficulty 2 of 5 ●●○○○ · define `double`\n\n"
        "Doubling is adding a number to itself."
    )
    assert cards[1].endswith("define `triple`")


def test_hints_are_folded_with_blank_lines_around_their_markdown(course):
    (hints,) = (cell.source for cell in compose(course, course.lessons[1]).cells if "<details>" in cell.source)
    folded = re.findall(r"<details>\n<summary>(.*?)</summary>\n\n(.*?)\n\n</details>", hints, re.DOTALL)
    assert [title.split(":")[0] for title, _ in folded] == ["Hint 1 of 3", "Hint 2 of 3", "Hint 3 of 3"]
    assert [text for _, text in folded] == ["Look at the name.", "Use `+`:\n\n```python\n1 + 1\n```", "It is one line."]


def test_tags_pass_through_and_the_builds_own_keys_do_not(course):
    found = [cell.metadata for cell in compose(course, course.lessons[0]).cells]
    assert [metadata.tags for metadata in found if "tags" in metadata] == [
        ["nbval-ignore-output"],  # the set-up cell's
        ["nbval-ignore-output"],
        ["raises-exception"],
    ]
    assert {key for metadata in found for key in metadata} == {"jupyter", "nbgrader", "tags"}


def test_cell_ids_are_grade_ids_or_hashes_and_repeats_are_numbered(course):
    title, badges, set_up, in_short, *others = (cell.id for cell in compose(course, course.lessons[1]).cells)
    assert (badges, set_up) == ("badges", "set-up")
    ids = [title, *others]
    assert len({*ids, in_short}) == len(ids) + 1
    assert ids[2] == f"{ids[1]}-2"  # the same text twice
    assert [name for name in ids if not re.fullmatch(r"c-[0-9a-f]{10}(-2)?", name)] == ["exercise-2-1", "check-2-1"]


def test_an_edit_changes_the_id_of_the_edited_cell_only(course, edit):
    before = set(cells(course, 1))
    edit(course.source(course.lessons[0]), "A small lesson", "A tiny lesson")
    after = set(cells(course, 1))
    assert len(before - after) == len(after - before) == 1


def test_the_notebook_says_nothing_that_differs_between_machines(course):
    notebook = compose(course, course.lessons[0])
    assert set(notebook.metadata) == {"kernelspec", "kvcourse", "language_info"}
    assert notebook.metadata.kernelspec == {"display_name": "Python 3", "language": "python", "name": "python3"}
    assert notebook.metadata.kvcourse == {"lesson": "01-double"}
    assert "version" not in notebook.metadata.language_info
    assert to_text(notebook) == to_text(compose(course, course.lessons[0]))


def test_magics_are_uncommented(course):
    assert "\n%matplotlib inline\n" in compose(course, course.lessons[0]).cells[4].source


REFUSED = [
    ('# %% check="1.1"', '# %% chek="1.1"', r"solutions/01-double\.py: unknown key 'chek'", "line 30"),
    ('# %% check="1.1"', '# %% check "1.1"', "unknown key", "line 30"),
    ('# %% check="1.1"', "# %% check=1.1", "takes an exercise id in quotes", "line 30"),
    ('# %% check="1.1"', '# %% check="1.1" exercise="1.1"', "this one has 2", "line 30"),
    ('# %% check="1.1"', '# %% [markdown] check="1.1"', "check= belongs on a code cell", "line 30"),
    ('# %% [markdown] card="1.1"', '# %% card="1.1"', "card= belongs on a markdown cell", "line 17"),
    ('card="1.1"', 'card="9.9"', r"exercise 9\.9 is not in the registry", "line 17"),
    ('check("1.2")', 'check("1.1")', r'exactly check\("1\.2"\)', "line 47"),
    ("    ### BEGIN SOLUTION\n", "", "found '### END SOLUTION' where '### BEGIN SOLUTION' was due", "line 21"),
    ("    ### END SOLUTION\n", "", "'### BEGIN SOLUTION' without '### END SOLUTION'", "line 21"),
    ("### BEGIN SOLUTION", "# BEGIN SOLUTION", "found '# BEGIN SOLUTION'", "line 21"),
    (
        "    result = x",
        "    ### BEGIN SOLUTION\n    result = x",
        "found '### BEGIN SOLUTION' where '### END",
        "line 21",
    ),
    ("2**10", "### BEGIN SOLUTION\n2**10\n### END SOLUTION", "belongs in exercise cells", "line 62"),
    ("    ### BEGIN SOLUTION\n    return 3 * x\n    ### END SOLUTION", "    return 3 * x", "each of them", "line 39"),
]


@pytest.mark.parametrize(("old", "new", "text", "line"), REFUSED)
def test_what_is_not_understood_is_refused_with_its_place(course, edit, old, new, text, line):
    lesson = course.lessons[0]
    edit(course.source(lesson), old, new)
    with pytest.raises(LessonError, match=text) as refusal:
        compose(course, lesson)
    assert refusal.value.problem.lesson == "01-double"
    assert f"({line})" in refusal.value.problem.cell


def test_a_marker_inside_a_string_costs_the_line_number_but_not_the_cell_number(course, edit):
    lesson = course.lessons[0]
    edit(course.source(lesson), "2**10", 'text = """\n# %% not a cell\n"""\n# %% oops="1"\n2')
    with pytest.raises(LessonError, match="oops") as refusal:
        read_source(course, lesson)
    assert refusal.value.problem.cell.startswith("cell 1")


def test_a_missing_text_is_named(course):
    lesson = course.lessons[0]
    course.source(lesson).unlink()
    with pytest.raises(LessonError, match=r"solutions/01-double\.py is missing"):
        read_source(course, lesson)
