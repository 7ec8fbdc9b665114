"""What a student's notebook looks like after its cells were put into the released one."""

from __future__ import annotations

import copy

import nbformat
from nbformat import NotebookNode

from autograde.classroom.graft import KEY, defined, graft, refused
from autograde.classroom.intake import StudentCell, keep

HALF = "def softmax(scores):\n    return scores"


def cells_of(notebook: NotebookNode) -> list[StudentCell]:
    return [kept for cell in notebook.cells if (kept := keep(cell)) is not None]


def by_id(notebook: NotebookNode) -> dict[str, NotebookNode]:
    return {cell.id: cell for cell in notebook.cells}


def code(source: str, id: str = "", grade_id: str = "") -> StudentCell:
    return StudentCell("code", source, id, grade_id)


def put(cells: list[StudentCell], grade_id: str, *new: StudentCell) -> list[StudentCell]:
    """The cells with one of them replaced."""
    index = next(i for i, cell in enumerate(cells) if cell.grade_id == grade_id)
    return [*cells[:index], *new, *cells[index + 1 :]]


def test_answers_are_taken_and_the_rest_is_the_release(release: NotebookNode, answered: NotebookNode) -> None:
    got = graft(release, cells_of(answered))
    assert got.cells != release.cells
    assert [cell.source for cell in got.cells] == [cell.source for cell in answered.cells]
    assert got.metadata[KEY].notes == []


def test_edited_tests_titles_outputs_and_points_are_dropped(release: NotebookNode, answered: NotebookNode) -> None:
    honest = [cell.source for cell in answered.cells]
    forged = by_id(answered)
    forged["check-7-1"].source = "4.0"
    forged["check-7-1"].metadata.nbgrader.points = 100
    forged["check-7-1"].outputs = [nbformat.v4.new_output("execute_result", {"text/plain": "4.0"})]
    forged["setup"].source = "check = lambda name: 4.0"
    forged["title"].source = "<script>alert(1)</script>"
    answered.cells.append(nbformat.v4.new_markdown_cell("<script>alert(2)</script>"))
    got = graft(release, cells_of(answered))
    assert [cell.source for cell in got.cells] == honest
    assert by_id(got)["check-7-1"].metadata.nbgrader.points == 4
    assert not any(cell.get("outputs") for cell in got.cells)


def test_the_last_of_two_copies_is_the_answer_and_the_first_stays(
    release: NotebookNode, answered: NotebookNode
) -> None:
    first, last = (
        code(HALF, "a", "exercise-7-1"),
        code("def softmax(scores):\n    return 3 * scores", "b", "exercise-7-1"),
    )
    got = graft(release, put(cells_of(answered), "exercise-7-1", first, last))
    ids = [cell.id for cell in got.cells]
    assert by_id(got)["exercise-7-1"].source == last.source
    assert ids.index("own-1") == ids.index("exercise-7-1") - 1 and by_id(got)["own-1"].source == HALF
    assert got.metadata[KEY].notes == ["cell exercise-7-1 was found twice; the last one was graded"]


def test_an_untouched_last_copy_does_not_undo_the_answer(release: NotebookNode, answered: NotebookNode) -> None:
    stub = by_id(release)["exercise-7-1"].source
    cells = put(cells_of(release), "exercise-7-1", code(HALF, "a", "exercise-7-1"), code(stub, "b", "exercise-7-1"))
    got = graft(release, cells)
    assert by_id(got)["exercise-7-1"].source == HALF
    assert "own-1" not in by_id(got)
    assert "the last one with an answer in it was graded" in got.metadata[KEY].notes[0]


def test_both_halves_of_a_split_cell_run(release: NotebookNode, answered: NotebookNode) -> None:
    """JupyterLab's "Split Cell" leaves two cells with one grade id: a helper, and the function that calls it."""
    helper = code("def twice(x):\n    return x + x", "a", "exercise-7-1")
    rest = code("def softmax(scores):\n    return twice(scores)", "b", "exercise-7-1")
    for halves in ((helper, rest), (rest, helper)):
        got = graft(release, put(cells_of(answered), "exercise-7-1", *halves))
        assert by_id(got)["exercise-7-1"].source == rest.source
        assert by_id(got)["own-1"].source == helper.source


def test_a_lost_grade_id_is_found_by_the_cell_id(release: NotebookNode, answered: NotebookNode) -> None:
    got = graft(release, put(cells_of(answered), "exercise-7-1", code("answer = 1", "exercise-7-1")))
    assert by_id(got)["exercise-7-1"].source == "answer = 1"
    assert got.metadata[KEY].notes == ["cell exercise-7-1 had lost its grade id; matched by its cell id"]


def test_all_ids_lost_are_found_by_what_the_cells_define(release: NotebookNode, answered: NotebookNode) -> None:
    cells = [StudentCell(cell.kind, cell.source) for cell in cells_of(answered)]
    got = graft(release, cells)
    assert [cell.source for cell in got.cells] == [cell.source for cell in answered.cells]
    assert got.metadata[KEY].notes == [
        "ids were lost; matched by what the cells define: "
        "exercise-7-1 (by the name softmax), exercise-7-2 (by the name count_positions)"
    ]


def test_a_name_is_found_in_broken_code_and_beside_helpers(release: NotebookNode, answered: NotebookNode) -> None:
    broken = "def helper():\n    pass\n\ndef softmax(x)\n    return 2 * x"
    got = graft(release, put(cells_of(answered), "exercise-7-1", code(broken)))
    assert by_id(got)["exercise-7-1"].source == broken
    assert defined("async def a():\n    def b(): pass\nclass C: pass\ndef a(): pass") == ["a", "C"]


def test_a_missing_answer_leaves_the_stub(release: NotebookNode, answered: NotebookNode) -> None:
    got = graft(release, put(cells_of(answered), "exercise-7-1"))
    assert by_id(got)["exercise-7-1"].source == by_id(release)["exercise-7-1"].source
    assert got.metadata[KEY].notes == ["cell exercise-7-1 is missing"]


def test_own_code_cells_stay_where_they_were(release: NotebookNode, answered: NotebookNode) -> None:
    cells = cells_of(answered)
    cells = [
        code("a = 1"),
        *cells[:3],
        code("b = 2"),
        StudentCell("markdown", "text"),
        code("  "),
        *cells[3:],
        code("c = 3"),
    ]
    got = graft(release, cells)
    ids = [cell.id for cell in got.cells]
    assert ids == ["own-1", *ids[1:4], "own-2", *ids[5:8], "own-3"]
    assert [by_id(got)[f"own-{n}"].source for n in (1, 2, 3)] == ["a = 1", "b = 2", "c = 3"]


def test_copies_of_checks_are_not_own_cells(release: NotebookNode, answered: NotebookNode) -> None:
    cells = [*cells_of(answered), code('check("0.1")'), code("edited", "x", "check-7-1")]
    assert not [cell.id for cell in graft(release, cells).cells if cell.id.startswith("own-")]


def test_a_refused_notebook_is_the_release_with_a_reason(release: NotebookNode) -> None:
    got = refused(release, "not a notebook")
    assert got.metadata[KEY].refused == "not a notebook"
    assert [cell.source for cell in got.cells] == [cell.source for cell in release.cells]


def test_nothing_of_the_release_is_changed(release: NotebookNode, answered: NotebookNode) -> None:
    before = copy.deepcopy(release)
    graft(release, cells_of(answered))["cells"][2].metadata.nbgrader.points = 1
    assert release == before
