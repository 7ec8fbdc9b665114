"""Every way in which nbgrader would give full marks for nothing, or stop, judged by its own rule before and after."""

from __future__ import annotations

import copy
from typing import Any

import nbformat
import pytest
from nbformat import NotebookNode
from nbgrader.utils import determine_grade

from autograde.classroom.graft import KEY
from autograde.classroom.marks import Marks, exercise_of, remark, settle

MAX = 4.0
output = nbformat.v4.new_output


def result(text: str) -> NotebookNode:
    return output("execute_result", {"text/plain": text})


def printed(text: str, name: str = "stdout") -> NotebookNode:
    return output("stream", name=name, text=text)


ERROR = output("error", ename="NameError", evalue="name 'double' is not defined", traceback=["..."])


def graded(*outputs: NotebookNode, points: float = MAX) -> NotebookNode:
    tag = {"schema_version": 3, "grade_id": "check-7-1", "grade": True, "locked": True, "solution": False}
    metadata: dict[str, Any] = {"nbgrader": tag | {"task": False, "points": points}}
    return nbformat.v4.new_code_cell('check("7.1")', metadata=metadata, outputs=copy.deepcopy(list(outputs)))


NOT_MARKS = [
    "-1.0", "-0.5", "nan", "inf", "False", "True", "None", "''", "'4.0'", "np.float64(4.0)", "tensor(4.)", "tensor(4)",
    "array([4.])", "[4.0]", "4.0, 4.0", "4.0\n4.0", "1_0", "٤", "0x4", "+4.0", "4.0 points", "", " ",
]  # fmt: skip


@pytest.mark.parametrize("text", NOT_MARKS)
def test_what_is_not_a_plain_number_is_zero(text: str) -> None:
    cell = graded(result(text))
    assert settle(cell)
    assert determine_grade(cell) == (0.0, MAX)


@pytest.mark.parametrize("text", ["-1.0", "nan", "False", "np.float64(4.0)", "tensor(4.)", "[4.0]", "None", "''"])
def test_nbgrader_alone_gives_full_marks_for_it(text: str) -> None:
    """If this fails, nbgrader has changed its rule, and this module can lose some of its own."""
    assert determine_grade(graded(result(text)))[0] in (MAX, pytest.approx(float("nan"), nan_ok=True))


def test_no_output_is_zero_and_full_marks_to_nbgrader_alone() -> None:
    for outputs in ((), (printed("all tests passed"),)):
        assert determine_grade(graded(*outputs))[0] == MAX
        cell = graded(*outputs)
        assert settle(cell) == "the check gave no mark"
        assert determine_grade(cell) == (0.0, MAX)


def test_more_than_the_maximum_is_zero_and_stops_nbgrader_alone() -> None:
    with pytest.raises(ValueError, match="greater than maximum"):
        determine_grade(graded(result("4.5")))
    cell = graded(result("4.5"))
    assert settle(cell) == "the check gave 4.5 points of 4"
    assert determine_grade(cell) == (0.0, MAX)


def test_a_sum_of_parts_may_round_up() -> None:
    cell = graded(result("4.000000000000001"))
    assert settle(cell) == ""
    assert determine_grade(cell) == (MAX, MAX)


@pytest.mark.parametrize(
    ("text", "points"), [("0.0", 0.0), ("0", 0.0), ("2.5", 2.5), ("4", 4.0), ("4.0\n", 4.0), ("1e-1", 0.1)]
)
def test_plain_numbers_count(text: str, points: float) -> None:
    cell = graded(printed("2 of 3 hold\n"), result(text))
    assert settle(cell) == ""
    assert determine_grade(cell) == (points, MAX)
    assert [o.output_type for o in cell.outputs] == ["stream", "execute_result"]


def test_an_error_is_zero_with_its_name() -> None:
    for outputs in ((ERROR,), (result("4.0"), ERROR), (ERROR, result("4.0"))):
        cell = graded(*outputs)
        assert settle(cell) == "NameError: name 'double' is not defined"
        assert determine_grade(cell) == (0.0, MAX)
        assert cell.outputs[-1].data["text/plain"] == "0.0"


def test_two_marks_are_none() -> None:
    cell = graded(result("1.0"), result("4.0"))
    assert settle(cell) == "the check gave more than one mark"
    assert determine_grade(cell) == (0.0, MAX)


def test_text_on_stderr_costs_nothing() -> None:
    outputs = (printed("slow", "stderr"), result("4.0"))
    assert determine_grade(graded(*outputs))[0] == 0
    cell = graded(*outputs)
    assert settle(cell) == ""
    assert determine_grade(cell) == (MAX, MAX)


def test_a_result_without_text_is_zero() -> None:
    for data in ({"text/html": "<b>4.0</b>"}, {}):
        cell = graded(output("execute_result", data))
        assert settle(cell)
        assert determine_grade(cell) == (0.0, MAX)


def test_a_card_becomes_text_and_a_picture_stays() -> None:
    card = output("display_data", {"text/plain": "held", "text/html": "<b>held</b>"})
    picture = output("display_data", {"text/plain": "<Figure>", "image/png": "aGk="})
    cell = graded(card, picture, result("4.0"))
    settle(cell)
    assert [sorted(o.data) for o in cell.outputs[:2]] == [["text/plain"], ["image/png", "text/plain"]]


def test_settling_twice_is_settling_once() -> None:
    for outputs in ((ERROR,), (), (result("2.0"),)):
        cell = graded(*outputs)
        settle(cell)
        marks = determine_grade(cell)
        settle(cell)
        assert determine_grade(cell) == marks


def test_remarks() -> None:
    text = "1.3 ToyCache: not passed\n  looks like: Keys are\n              kept twice.\n  and more"
    assert remark(graded(output("display_data", {"text/plain": text}))) == "looks like: Keys are kept twice."
    assert remark(graded(printed("1.3: not implemented yet, 0.0 of 6"))) == "not implemented yet"
    assert remark(graded(printed("all held"))) == ""


def test_exercises_are_named_as_in_the_lesson() -> None:
    cell = graded()
    assert exercise_of(cell) == "7.1"
    cell.source = "assert double(2) == 4"
    assert exercise_of(cell) == "check-7-1"


def notebook(*cells: NotebookNode, **ours: Any) -> NotebookNode:
    return nbformat.v4.new_notebook(cells=list(cells), metadata={KEY: ours})


def test_notes_come_on_top_escaped() -> None:
    nb, _ = Marks().preprocess(notebook(graded(ERROR), notes=["<script>"]), {})
    assert nb.cells[0].cell_type == "markdown"
    assert "&lt;script&gt;" in nb.cells[0].source and "<script>" not in nb.cells[0].source
    assert nb.metadata[KEY].notes == ["<script>", "7.1: NameError: name 'double' is not defined"]


def test_a_refused_notebook_has_zeros_and_one_note() -> None:
    nb, _ = Marks().preprocess(notebook(graded(result("4.0")), graded(), notes=[], refused="no notebook"), {})
    assert [determine_grade(cell) for cell in nb.cells[1:]] == [(0.0, MAX)] * 2
    assert nb.metadata[KEY].notes == ["not graded: no notebook"]


def test_cells_graded_by_hand_are_left_alone() -> None:
    cell = graded()
    cell.metadata.nbgrader.solution = True
    nb, _ = Marks().preprocess(notebook(cell), {})
    assert nb.cells[0].outputs == []
    assert determine_grade(nb.cells[0]) == (None, MAX)
