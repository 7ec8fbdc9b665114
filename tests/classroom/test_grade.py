"""Whole runs with real kernels. Each submission that is run costs about two seconds, so they share one class."""

from __future__ import annotations

import copy
import csv
import re
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from traitlets.config import Config

from autograde.classroom import record
from autograde.classroom.course import Course, CourseError, prepare_process
from autograde.classroom.execute import MAX_LENGTH, TrustingExecute
from autograde.classroom.grade import BAD_NAME, NOTHING, grade_class
from autograde.classroom.record import Row

LESSON = "07-tiny"
SCRIPT = "from IPython.display import HTML, display\ndisplay(HTML('<img src=x on' + 'error=alert(1)>'))"


def own(notebook: NotebookNode, source: str, before: str) -> NotebookNode:
    """A copy with a code cell of the student's own in front of another cell."""
    result = copy.deepcopy(notebook)
    index = next(i for i, cell in enumerate(result.cells) if cell.id == before)
    result.cells.insert(index, nbformat.v4.new_code_cell(source))
    return result


def answer(notebook: NotebookNode, grade_id: str, source: str) -> NotebookNode:
    """A copy with another source in one cell."""
    result = copy.deepcopy(notebook)
    next(cell for cell in result.cells if cell.id == grade_id).source = source
    return result


def submissions(release: NotebookNode, right: NotebookNode) -> dict[str, NotebookNode | bytes]:
    """By student: what each hands in. The comment says what plain nbgrader makes of it."""
    lost = copy.deepcopy(right)
    for number, cell in enumerate(lost.cells):
        cell.metadata, cell.id = NotebookNode(), f"x{number}"
    pasted = copy.deepcopy(right)
    pasted.cells.append(nbformat.from_dict({**pasted.cells[3], "id": "pasted"}))
    warns = "import sys, warnings\ndef double(x):\n    warnings.warn('?')\n    sys.stderr.write('?')\n    return x + x"
    deaf = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass"
    tampers = own(right, "check = lambda name: -1.0", "check-7-1")
    return {
        "Ann Lee": right,
        "forged": answer(answer(release, "check-7-1", "4.0"), "check-7-2", ""),  # full marks
        "half": own(
            answer(right, "exercise-7-1", "def double(x):\n    return x"), SCRIPT, "exercise-7-2"
        ),  # a live script
        "syntax": answer(right, "exercise-7-2", "class Counter(:"),
        "pasted": pasted,  # stops the whole batch
        "lost": lost,  # no marks at all, for ever
        "warns": answer(right, "exercise-7-1", warns),  # 0
        "tampers": own(tampers, "check = lambda name: None", "check-7-2"),  # full marks
        "dies": own(right, "import os; os._exit(0)", "exercise-7-2"),  # no marks at all
        "loops": own(right, "while True:\n    print('x' * 1000)", "exercise-7-2"),  # a gigabyte of memory
        "deaf": own(right, deaf, "exercise-7-2"),  # no marks at all
        "login": b"<!DOCTYPE html>",
        "empty": b"",
    }


POINTS = {
    "Ann Lee": (4, 2),
    "forged": (0, 0),
    "half": (2, 2),
    "syntax": (4, 0),
    "pasted": (4, 2),
    "lost": (4, 2),
    "warns": (4, 2),
    "tampers": (0, 0),
    "dies": (4, 0),
    "loops": (4, 2),
    "deaf": (4, 0),
    "login": (0, 0),
    "empty": (0, 0),
    "absent": (0, 0),
    "a*b": (0, 0),
    "link": (0, 0),
}
NOTES = {
    "syntax": "exercise-7-2: SyntaxError",
    "lost": "ids were lost; matched by what the cells define",
    "tampers": "7.1: the check gave -1.0, which is not a plain number of points; 7.2: the check gave no mark",
    "dies": "the Python process ended in own cell 1; what follows was not run; 7.2: not run",
    "loops": "own cell 1 was stopped after 6 s",
    "deaf": "the cell could not be interrupted in own cell 1; what follows was not run; 7.2: not run",
    "login": "not graded: the file is not a notebook (not JSON)",
    "empty": "not graded: the notebook file is empty",
    "absent": NOTHING,
    "a*b": BAD_NAME,
    "link": "not graded: the submission's folder is a link or not a folder",
}


def test_a_whole_class(tiny_root: Path, tmp_path: Path) -> None:
    """Right, wrong, broken and hostile work, graded once and looked at from all sides."""
    course = Course(tiny_root, tmp_path / "class {b} + (2)", cell_timeout=6)
    release = nbformat.read(course.release(LESSON), as_version=4)
    right = nbformat.read(course.source(LESSON), as_version=4)
    for student, work in submissions(release, right).items():
        folder = course.submitted / student / LESSON
        folder.mkdir(parents=True)
        data = work if isinstance(work, bytes) else nbformat.writes(work).encode()
        (folder / f"{LESSON}.ipynb").write_bytes(data)
    (course.submitted / "absent").mkdir()
    (course.submitted / "a*b" / LESSON).mkdir(parents=True)
    (course.submitted / "link").symlink_to(course.submitted / "Ann Lee")
    (course.submitted / "notes.txt").write_text("not a student")
    rows = grade_class(course, say=lambda line: None)
    every_student_has_one_row_with_the_right_points(rows)
    rows_say_what_happened(rows)
    the_gradebook_and_both_tables_say_the_same(course)
    everybody_who_handed_in_has_a_page(course)
    scripts_in_outputs_are_dead_on_the_page(course)
    assert (course.submitted / "login" / LESSON / f"{LESSON}.ipynb").read_bytes() == b"<!DOCTYPE html>"
    assert not list(course.submitted.glob("*/*/*.html"))


def every_student_has_one_row_with_the_right_points(rows: list[Row]) -> None:
    assert [row.student for row in rows] == sorted(POINTS)
    assert {row.student: (row.points["7.1"], row.points["7.2"]) for row in rows} == POINTS
    assert all(row.total == sum(POINTS[row.student]) and row.max == 6 for row in rows)


def rows_say_what_happened(rows: list[Row]) -> None:
    said = {row.student: "; ".join(row.notes) for row in rows}
    assert {who: said[who] for who, words in NOTES.items() if words not in said[who]} == {}
    assert {who for who, words in said.items() if not words} == {"Ann Lee", "forged", "half", "pasted", "warns"}


def the_gradebook_and_both_tables_say_the_same(course: Course) -> None:
    recorded = {who: float(sum(points)) for who, points in POINTS.items() if who != "a*b"}
    with open(course.grades, newline="", encoding="utf-8") as file:
        lines = {line["student"]: line for line in csv.DictReader(file)}
    assert {who: (float(line["7.1"]), float(line["7.2"])) for who, line in lines.items()} == POINTS
    with open(course.classroom / "nbgrader.csv", newline="", encoding="utf-8") as file:
        assert {line["student_id"]: float(line["score"]) for line in csv.DictReader(file)} == recorded
    with record.open_gradebook(course) as gradebook:
        assert {student.id: student.score for student in gradebook.students} == recorded
        grades = [g for s in gradebook.assignment_submissions(LESSON) for n in s.notebooks for g in n.grades]
        assert not [g.name for g in grades if g.auto_score is None or g.needs_manual_grade]


def everybody_who_handed_in_has_a_page(course: Course) -> None:
    index = (course.feedback / "index.html").read_text(encoding="utf-8")
    for student in set(POINTS) - {"absent", "a*b"}:
        page = (course.feedback / student / LESSON / f"{LESSON}.html").read_text(encoding="utf-8")
        assert f"Score: {float(sum(POINTS[student]))} / 6.0" in page
        assert ("Notes from grading" in page) == (student in NOTES)
        assert f">{student}</a>" in index


def scripts_in_outputs_are_dead_on_the_page(course: Course) -> None:
    executed = nbformat.read(course.autograded / "half" / LESSON / f"{LESSON}.ipynb", as_version=4)
    assert "<img src=x" in str([cell.get("outputs") for cell in executed.cells])
    page = (course.feedback / "half" / LESSON / f"{LESSON}.html").read_text(encoding="utf-8")
    assert "onerror" in page and not re.search("<[^>]*onerror", page)  # it is there as text


def test_a_flood_of_output_is_cut_as_it_comes_in() -> None:
    """nbclient keeps all of it in this process: a loop that prints for 30 s makes gigabytes."""
    step, outputs = TrustingExecute(), []
    step.length, step.clear_before_next_output = 0, False
    message = {"msg_type": "stream", "header": {"msg_type": "stream"}, "parent_header": {}}
    for _ in range(30):
        step.output(outputs, {**message, "content": {"name": "stdout", "text": "x" * 100_000}}, None, 0)
    assert sum(len(output.text) for output in outputs) == MAX_LENGTH
    step.output(outputs, {**message, "content": {"name": "stdout", "text": "x"}}, None, 0)
    assert len(outputs) == 10


# ---- without kernels -------------------------------------------------------------------------------------------------


class NoKernel:
    """Stands in for the step that runs code: every check says 1.0."""

    def __init__(self, breaks_on: str = "") -> None:
        self.breaks_on = breaks_on

    def __call__(self, step: TrustingExecute, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        refused = nb.metadata.get("autograde", {}).get("refused")
        if resources["nbgrader"]["student"] == "bob" and self.breaks_on in ("always", "" if refused else "run"):
            raise RuntimeError("the disk is full")
        for cell in nb.cells:
            if cell.source.startswith("check("):
                cell.outputs = [nbformat.v4.new_output("execute_result", {"text/plain": "1.0"})]
        return nb, resources


@pytest.fixture
def no_kernel(monkeypatch: pytest.MonkeyPatch) -> NoKernel:
    stand_in = NoKernel()
    monkeypatch.setattr(TrustingExecute, "preprocess", lambda step, nb, res: stand_in(step, nb, res))
    return stand_in


@pytest.mark.parametrize("breaks_on", ["run", "always"])
def test_when_nbgrader_fails_on_one_student_the_others_are_graded(
    course: Course, hand_in, answered: NotebookNode, no_kernel: NoKernel, breaks_on: str
) -> None:
    no_kernel.breaks_on = breaks_on
    for student in ("ann", "bob", "cy"):
        hand_in(student, answered)
    rows = grade_class(course, say=lambda line: None)
    assert [(row.student, row.total) for row in rows] == [("ann", 2.0), ("bob", 0.0), ("cy", 2.0)]
    assert "not graded: nbgrader failed: RuntimeError: the disk is full" in rows[1].notes[0]
    with record.open_gradebook(course) as gradebook:
        grades = gradebook.find_submission(LESSON, "bob").notebooks[0].grades
        assert [(g.auto_score, g.needs_manual_grade) for g in grades] == [(0.0, False), (0.0, False)]


def test_late_work_loses_what_the_course_says(
    course: Course, hand_in, answered: NotebookNode, no_kernel: NoKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    for student, day in (("ann", 1), ("bob", 3)):
        hand_in(student, answered).with_name("timestamp.txt").write_text(f"2026-12-0{day} 10:00:00 UTC")
    settings = Course.grading_settings

    def strict(self: Course) -> Config:
        c = settings(self)
        c.LateSubmissionPlugin.penalty_method = "zero"
        return c

    monkeypatch.setattr(Course, "grading_settings", strict)
    prepare_process()
    record.register(course, LESSON)
    with record.open_gradebook(course) as gradebook:
        gradebook.update_or_create_assignment(LESSON, duedate="2026-12-02 00:00:00 UTC")
    ann, bob = grade_class(course, say=lambda line: None)
    assert (ann.total, ann.penalty, bob.total, bob.penalty) == (2.0, 0.0, 0.0, 2.0)
    assert "late: 2 points off" in bob.notes


def test_a_second_run_keeps_marks_given_by_hand(
    course: Course, hand_in, answered: NotebookNode, no_kernel: NoKernel
) -> None:
    hand_in("ann", answered)
    grade_class(course, say=lambda line: None)
    with record.open_gradebook(course) as gradebook:
        gradebook.find_grade("check-7-1", LESSON, LESSON, "ann").manual_score = 3.5
        gradebook.db.commit()
    (row,) = grade_class(course, say=lambda line: None)
    assert row.points == {"7.1": 3.5, "7.2": 1.0}


def test_faults_of_the_course_are_said_before_anybody_is_graded(
    course: Course, hand_in, answered: NotebookNode
) -> None:
    with pytest.raises(CourseError, match="holds no student's folder"):
        grade_class(course)
    hand_in("ann", answered)
    with pytest.raises(CourseError, match="lesson 08-none has no"):
        grade_class(course, lesson="08-none")
    with pytest.raises(CourseError, match="there is no folder"):
        grade_class(Course(course.root, course.classroom / "elsewhere"))
    with pytest.raises(CourseError, match=r"holds \["):
        grade_class(Course(course.root, course.classroom / "[a"))


def test_a_lesson_whose_graded_cells_changed_is_refused_and_its_release_kept(
    course: Course,
    hand_in,
    answered: NotebookNode,
    no_kernel: NoKernel,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """nbgrader cannot add or remove graded cells once there are submissions, and deletes the release before it says so.

    Here it can only delete a copy."""
    hand_in("ann", answered)
    grade_class(course, say=lambda line: None)
    changed = nbformat.read(course.source(LESSON), as_version=4)
    del changed.cells[3]
    nbformat.write(changed, tmp_path / "changed.ipynb")
    before = course.release(LESSON).read_bytes()
    monkeypatch.setattr(Course, "source", lambda self, lesson: tmp_path / "changed.ipynb")
    with pytest.raises(CourseError, match="nbgrader refused lesson"):
        record.register(course, LESSON)
    assert course.release(LESSON).read_bytes() == before


def test_interrupting_stops_the_batch(
    course: Course, hand_in, answered: NotebookNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """nbgrader swallows Ctrl-C and would go on with the next student."""
    hand_in("ann", answered)

    def interrupted(step, nb, resources):
        raise KeyboardInterrupt

    monkeypatch.setattr(TrustingExecute, "preprocess", interrupted)
    with pytest.raises(KeyboardInterrupt):
        grade_class(course, say=lambda line: None)
