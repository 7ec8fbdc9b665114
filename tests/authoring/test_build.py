"""Building: what is made, when it is made again, and what a failure leaves alone."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace

import pytest

from autograde.authoring.build import build
from autograde.authoring.course import LessonError
from autograde.authoring.notebook import read_notebook, to_text, without_outputs


def quiet(line: str) -> None:
    """Say nothing."""


def everything(root):
    """Every file below a folder, with its bytes, apart from the cache."""
    files = (path for path in root.rglob("*") if path.is_file() and ".cache" not in path.parts)
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in files}


def outputs(notebook):
    return {cell.id: cell.outputs for cell in notebook.cells if cell.cell_type == "code"}


def test_a_build_writes_the_notebooks_and_the_listed_files_and_nothing_else(pristine):
    made = {name for name in everything(pristine.root) if name.endswith((".ipynb", ".csv", ".db"))}
    assert made == {
        "solutions/01-double/01-double.ipynb",
        "solutions/01-double/table.csv",
        "solutions/02-add-up/02-add-up.ipynb",
        "lessons/01-double/01-double.ipynb",
        "lessons/01-double/table.csv",
        "lessons/02-add-up/02-add-up.ipynb",
    }
    assert {path.name for path in (pristine.root / ".cache").iterdir()} == {".gitignore", "lessons.json"}
    assert (pristine.root / ".cache" / ".gitignore").read_text() == "*\n"


def test_solutions_keep_outputs_and_plots_and_no_timing(pristine):
    notebook = read_notebook(pristine, pristine.lessons[0], pristine.solution(pristine.lessons[0]))
    shown = list(outputs(notebook).values())
    assert shown.pop(0) == []  # the set-up cell tells of the machine that built
    assert [output.text for output in shown[0]] == ["1 a,b\n"]  # one stream, and the file beside the notebook
    assert outputs(notebook)["check-1-2"][-1].data["text/plain"] == "3.0"
    assert any("image/png" in output.get("data", {}) for output in shown[5])
    assert shown[7][0].ename == "ZeroDivisionError"  # tagged raises-exception
    assert "execution" not in {key for cell in notebook.cells for key in cell.metadata}
    assert "version" not in notebook.metadata.language_info


def test_releases_hold_the_stub_and_no_output(pristine):
    notebook = read_notebook(pristine, pristine.lessons[1], pristine.release(pristine.lessons[1]))
    (stub,) = (cell.source for cell in notebook.cells if cell.id == "exercise-2-1")
    assert stub.endswith('"""The sum of `numbers`."""\n    # YOUR CODE HERE\n    raise NotImplementedError()')
    assert not any(outputs(notebook).values())


def test_two_builds_are_the_same_bytes_but_for_outputs(pristine, course):
    assert build(course, force=True, say=quiet) == ["01-double", "02-add-up"]
    first, second = everything(pristine.root), everything(course.root)
    for lesson in course.lessons:
        name = course.relative(course.solution(lesson))
        plain = [
            to_text(without_outputs(read_notebook(one, lesson, one.solution(lesson)))) for one in (pristine, course)
        ]
        assert plain[0] == plain[1]
        if lesson.slug == "02-add-up":  # nothing in it depends on the run
            assert first[name] == second[name]
        del first[name], second[name]
    assert first == second


def test_nothing_is_built_when_nothing_changed_and_the_build_says_so(course):
    said, before = [], everything(course.root)
    assert build(course, say=said.append) == []
    assert said == ["Nothing to build: 2 lessons are up to date."]
    assert everything(course.root) == before


def test_a_build_with_nothing_to_do_needs_neither_nbgrader_nor_the_exercises(course, monkeypatch):
    def registry():
        raise AssertionError("the exercises were loaded")

    for name in ("nbgrader", "nbclient", "jupytext"):
        monkeypatch.setitem(sys.modules, name, None)  # an import of it fails
    assert build(replace(course, registry=registry), say=quiet) == []


CHANGES = {
    "the text": lambda course: append(course.root / "solutions/02-add-up.py", "\n# %%\n1 + 1\n"),
    "a deleted release": lambda course: (course.root / "lessons/02-add-up/02-add-up.ipynb").unlink(),
    "a deleted solution": lambda course: shutil.rmtree(course.root / "solutions/02-add-up"),
    "lost outputs": lambda course: strip(course, course.lessons[1]),
}


def append(path, text):
    path.write_text(path.read_text() + text)


def strip(course, lesson):
    path = course.solution(lesson)
    path.write_text(to_text(without_outputs(read_notebook(course, lesson, path))))


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_changed_or_went_missing_is_built_again_and_only_that(course, change):
    change(course)
    assert build(course, say=quiet) == ["02-add-up"]
    assert build(course, say=quiet) == []
    assert any(outputs(read_notebook(course, course.lessons[1], course.solution(course.lessons[1]))).values())
    assert course.release(course.lessons[1]).is_file()


@pytest.mark.parametrize("file", ["kvlib/numbers.py", "autograde/__init__.py", "solutions/01-double/table.csv"])
def test_what_a_lesson_is_made_from_counts_as_a_change(course, file, monkeypatch):
    monkeypatch.setattr("autograde.authoring.build.build_lesson", lambda course, lesson: None)
    append(course.root / file, "\n")
    assert "01-double" in build(course, say=quiet)


def test_lessons_are_named_by_number_or_slug(course, monkeypatch):
    monkeypatch.setattr("autograde.authoring.build.build_lesson", lambda course, lesson: None)
    assert build(course, ["01"], force=True, say=quiet) == ["01-double"]
    assert build(course, ["02-add-up"], force=True, say=quiet) == ["02-add-up"]
    with pytest.raises(LessonError, match="there is no lesson 07"):
        build(course, ["07"], say=quiet)


FAILURES = [
    ("ONE + TWO", "ONE / 0", "ZeroDivisionError: division by zero", "cell c-"),
    ("total = np.sum(numbers)", "total = np.summ(numbers)", "AttributeError", "cell check-2-1"),
    ("ONE + TWO", "import os\n\nos._exit(1)", "the kernel died", "cell c-"),
    ("np.sum(numbers)", "np.sum(numbers)\n    ### END SOLUTION", "found '### END SOLUTION'", "cell 6"),
]


@pytest.mark.parametrize(("old", "new", "text", "cell"), FAILURES)
def test_a_build_that_fails_names_the_cell_and_changes_nothing(course, edit, old, new, text, cell):
    edit(course.source(course.lessons[1]), old, new)
    before = everything(course.root)
    with pytest.raises(LessonError, match=text) as failure:
        build(course, say=quiet)
    assert failure.value.problem.lesson == "02-add-up"
    assert failure.value.problem.cell.startswith(cell)
    assert everything(course.root) == before
    assert {path.name for path in (course.root / ".cache").iterdir()} == {".gitignore", "lessons.json"}


def test_a_file_that_is_not_listed_stays_behind(course):
    lesson = course.lessons[0]
    for name in ("answers.py", "notes.md", "other.ipynb"):
        (course.solution(lesson).parent / name).write_text("{}")
    assert build(course, say=quiet) == ["01-double"]
    assert {path.name for path in course.release(lesson).parent.iterdir()} == {"01-double.ipynb", "table.csv"}


@pytest.mark.parametrize("name", ["missing.csv", "../02-add-up.py", "01-double.ipynb"])
def test_only_files_beside_the_notebook_can_be_listed(course, edit, name):
    edit(course.source(course.lessons[0]), "table.csv", name)
    with pytest.raises(LessonError, match="no such file"):
        build(course, ["01"], say=quiet)


def ran(notebook):
    notebook.cells[3].outputs = [{"name": "stdout", "output_type": "stream", "text": ["hello\n"]}]


def answered(notebook):
    (cell,) = (cell for cell in notebook.cells if cell.id == "exercise-2-1")
    cell.source = ["def add_up(numbers):\n", "    return sum(numbers)"]


@pytest.mark.parametrize("work", [ran, answered])
def test_a_release_that_somebody_worked_in_is_not_overwritten(course, edit, edit_notebook, work):
    """Once a course tool silently replaced students' notebooks, because its own were newer."""
    edit_notebook(course.release(course.lessons[1]), work)
    before = everything(course.root)
    with pytest.raises(LessonError, match="has been worked in"):
        build(course, ["02"], force=True, say=quiet)
    assert everything(course.root) == before


def test_nbgraders_own_words_come_through(course, monkeypatch):
    monkeypatch.setattr(
        "nbgrader.preprocessors.ClearSolutions.preprocess", lambda *a: (_ for _ in ()).throw(RuntimeError("no stub"))
    )
    with pytest.raises(LessonError, match="no stub"):
        build(course, force=True, say=quiet)
