"""Whole runs: once with real workers, which share one class, and then with stand-ins for them."""

from __future__ import annotations

import copy
import csv
import json
import os
import re
import shutil
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from traitlets.config import Config

from autograde.classroom import handed_in, record, schedule
from autograde.classroom.course import Course, CourseError, prepare_process
from autograde.classroom.execute import SandboxExecute
from autograde.classroom.grade import BAD_NAME, NOTHING, Options, grade_class
from autograde.classroom.handed_in import GONE
from autograde.classroom.job import Job
from autograde.classroom.record import Row
from autograde.classroom.rows import all_rows
from autograde.sandbox.tiers import NoSandbox

LESSON = "07-tiny"
SCRIPT = "from IPython.display import HTML, display\ndisplay(HTML('<img src=x on' + 'error=alert(1)>'))"
NAIVE = "def softmax(scores):\n    e = np.exp(scores)\n    return e / e.sum(axis=-1, keepdims=True)"


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
    warns = (
        "import sys, warnings\ndef softmax(scores):\n    warnings.warn('?')\n    sys.stderr.write('?')\n"
        "    e = np.exp(scores - scores.max(axis=-1, keepdims=True))\n    return e / e.sum(axis=-1, keepdims=True)"
    )
    deaf = (
        "import signal\nfor number in (signal.SIGINT, signal.SIGALRM, signal.SIGTERM):\n"
        "    signal.signal(number, signal.SIG_IGN)\nwhile True: pass"
    )
    tampers = own(right, "check = lambda name: -1.0\nnp.allclose = lambda *a: True", "check-7-1")
    return {
        "Ann Lee": right,
        "forged": answer(answer(release, "check-7-1", "4.0"), "check-7-2", ""),  # full marks
        "half": own(answer(right, "exercise-7-1", NAIVE), SCRIPT, "exercise-7-2"),  # a live script
        "syntax": answer(right, "exercise-7-2", "def count_positions(prompt, new:"),
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
    "half": (3, 2),
    "syntax": (4, 0),
    "pasted": (4, 2),
    "lost": (4, 2),
    "warns": (4, 2),
    "tampers": (4, 2),
    "dies": (4, 2),
    "loops": (4, 2),
    "deaf": (4, 2),
    "login": (0, 0),
    "empty": (0, 0),
    "absent": (0, 0),
    "a*b": (0, 0),
    "link": (0, 0),
}
NOTES = {
    "forged": "0.1: ",
    "half": "0.1: looks like: ",
    "syntax": "exercise-7-2: SyntaxError",
    "lost": "ids were lost; matched by what the cells define",
    "dies": "own cell 1: the Python process ended: a crash, or an exit",
    "loops": "own cell 1: printed more than 8 MiB",
    "deaf": "own cell 1: stopped after 2 s",
    "login": "not graded: the file is not a notebook (not JSON)",
    "empty": "not graded: the notebook file is empty",
    "absent": NOTHING,
    "a*b": BAD_NAME,
    "link": "not graded: the submission's folder is a link or not a folder",
}


def test_a_whole_class(tiny_root: Path, tmp_path: Path) -> None:
    """Right, wrong, broken and hostile work, graded once and looked at from all sides."""
    course = Course(tiny_root, tmp_path / "class {b} + (2)", cell_seconds=2)
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
    graded = grade_class(course, Options(workers=2), say=lambda line: None)
    rows = graded.rows
    assert (graded.tier, graded.again, graded.faults) == ("bubblewrap", 0, 0)
    every_student_has_one_row_with_the_right_points(rows)
    rows_say_what_happened(rows)
    the_gradebook_and_both_tables_say_the_same(course)
    everybody_who_handed_in_has_a_page(course)
    scripts_in_outputs_are_dead_on_the_page(course)
    assert (course.submitted / "login" / LESSON / f"{LESSON}.ipynb").read_bytes() == b"<!DOCTYPE html>"
    assert not list(course.submitted.glob("*/*/*.html"))


def every_student_has_one_row_with_the_right_points(rows: list[Row]) -> None:
    assert [row.student for row in rows] == sorted(POINTS)
    assert {row.student: (row.points["0.1"], row.points["1.2"]) for row in rows} == POINTS
    assert all(row.total == sum(POINTS[row.student]) and row.max == 6 for row in rows)


def rows_say_what_happened(rows: list[Row]) -> None:
    said = {row.student: "; ".join(row.notes) for row in rows}
    assert {who: said[who] for who, words in NOTES.items() if words not in said[who]} == {}
    assert {who for who, words in said.items() if not words} == {"Ann Lee", "pasted", "warns", "tampers"}


def the_gradebook_and_both_tables_say_the_same(course: Course) -> None:
    recorded = {who: float(sum(points)) for who, points in POINTS.items() if who != "a*b"}
    with open(course.grades, newline="", encoding="utf-8") as file:
        lines = {line["student"]: line for line in csv.DictReader(file)}
    assert {who: (float(line["0.1"]), float(line["1.2"])) for who, line in lines.items()} == POINTS
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
    outputs = [output for cell in executed.cells for output in cell.get("outputs", [])]
    assert {output.output_type for output in outputs} == {"stream", "execute_result"}
    page = (course.feedback / "half" / LESSON / f"{LESSON}.html").read_text(encoding="utf-8")
    assert not re.search("<[^>]*onerror", page)


# ---- without workers -------------------------------------------------------------------------------------------------


ONE = Options(workers=1)


def test_when_nbgrader_fails_on_one_student_the_others_are_graded(
    course: Course, hand_in, answered: NotebookNode, no_worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def preprocess(step: SandboxExecute, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        if resources["nbgrader"]["student"] == "bob":
            raise RuntimeError("the disk is full")
        return original(step, nb, resources)

    original = SandboxExecute.preprocess
    monkeypatch.setattr(SandboxExecute, "preprocess", preprocess)
    for student in ("ann", "bob", "cy"):
        hand_in(student, answered)
    rows = grade_class(course, ONE, say=lambda line: None).rows
    assert [(row.student, row.total) for row in rows] == [("ann", 2.0), ("bob", 0.0), ("cy", 2.0)]
    assert "not graded: nbgrader failed: RuntimeError: the disk is full" in rows[1].notes[0]
    with record.open_gradebook(course) as gradebook:
        grades = gradebook.find_submission(LESSON, "bob").notebooks[0].grades
        assert [(g.auto_score, g.needs_manual_grade) for g in grades] == [(0.0, False), (0.0, False)]


def test_a_fault_of_the_graders_is_told_and_tried_again(
    course: Course, hand_in, answered: NotebookNode, no_worker
) -> None:
    for student in ("ann", "bob"):
        hand_in(student, answered)
    no_worker.fails_on = "bob"
    graded = grade_class(course, ONE, say=lambda line: None)
    assert graded.faults == 1
    assert "not the student's fault: the grader failed: SpawnError: no room" in graded.rows[1].notes[0]
    no_worker.fails_on = ""
    graded = grade_class(course, ONE, say=lambda line: None)
    assert (graded.faults, graded.again) == (0, 1)
    assert no_worker.asked == ["ann", "bob", "bob"]
    assert [row.total for row in graded.rows] == [2.0, 2.0]


def test_what_has_a_result_is_not_run_again(course: Course, hand_in, answered: NotebookNode, no_worker) -> None:
    """Until its content changes, or it is asked for."""
    for student in ("ann", "bob"):
        hand_in(student, answered)
    grade_class(course, ONE, say=lambda line: None)
    hand_in("bob", answer(answered, "exercise-7-1", NAIVE))
    assert grade_class(course, ONE, say=lambda line: None).again == 1
    assert no_worker.asked == ["ann", "bob", "bob"]
    assert grade_class(course, Options(workers=1, fresh=True), say=lambda line: None).again == 0
    assert no_worker.asked == ["ann", "bob", "bob", "ann", "bob"]


def test_a_run_killed_midway_goes_on_where_it_was(
    course: Course, hand_in, answered: NotebookNode, no_worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C between two students: the first has a result, and the second is all that is left to do."""
    for student in ("ann", "bob"):
        hand_in(student, answered)

    def interrupted(job: Job) -> dict:
        if job.student == "bob":
            raise KeyboardInterrupt
        return no_worker(job)

    monkeypatch.setattr(schedule, "grade_job", interrupted)
    with pytest.raises(KeyboardInterrupt):
        grade_class(course, ONE, say=lambda line: None)
    monkeypatch.setattr(schedule, "grade_job", no_worker)
    graded = grade_class(course, ONE, say=lambda line: None)
    assert (graded.again, no_worker.asked) == (1, ["ann", "bob"])


def test_half_a_result_counts_as_none(course: Course, hand_in, answered: NotebookNode, no_worker) -> None:
    hand_in("ann", answered)
    grade_class(course, ONE, say=lambda line: None)
    path = course.results / LESSON / "ann.json"
    path.write_text(path.read_text()[:100])
    assert grade_class(course, ONE, say=lambda line: None).again == 0
    assert json.loads(path.read_text())["student"] == "ann"


def test_late_work_loses_what_the_course_says(
    course: Course, hand_in, answered: NotebookNode, no_worker, monkeypatch: pytest.MonkeyPatch
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
    ann, bob = grade_class(course, ONE, say=lambda line: None).rows
    assert (ann.total, ann.penalty, bob.total, bob.penalty) == (2.0, 0.0, 0.0, 2.0)
    assert "late: 2 points off" in bob.notes


def test_a_second_run_keeps_marks_given_by_hand(course: Course, hand_in, answered: NotebookNode, no_worker) -> None:
    hand_in("ann", answered)
    grade_class(course, ONE, say=lambda line: None)
    with record.open_gradebook(course) as gradebook:
        gradebook.find_grade("check-7-1", LESSON, LESSON, "ann").manual_score = 3.5
        gradebook.db.commit()
    (row,) = grade_class(course, ONE, say=lambda line: None).rows
    assert row.points == {"0.1": 3.5, "1.2": 1.0}


def test_work_that_is_gone_keeps_its_marks_in_every_table(
    course: Course, hand_in, answered: NotebookNode, no_worker
) -> None:
    for student in ("ann", "bob"):
        hand_in(student, answered)
    first = {row.student: row for row in grade_class(course, Options(workers=1)).rows}
    shutil.rmtree(course.submitted / "ann")
    again = {row.student: row for row in grade_class(course, Options(workers=1)).rows}
    assert first["ann"].total == again["ann"].total > 0 and GONE in again["ann"].notes
    with open(course.classroom / "nbgrader.csv", newline="", encoding="utf-8") as file:
        theirs = {line["student_id"]: float(line["score"]) for line in csv.DictReader(file)}
    assert theirs == {name: row.total for name, row in again.items()}
    (ann,) = (row for row in all_rows(course) if row.student == "ann")
    assert ann.total == again["ann"].total and GONE in ann.notes


def test_faults_of_the_course_are_said_before_anybody_is_graded(
    course: Course, hand_in, answered: NotebookNode
) -> None:
    with pytest.raises(CourseError, match="holds no student's folder"):
        grade_class(course)
    hand_in("ann", answered)
    with pytest.raises(CourseError, match="lesson 08-none has no"):
        grade_class(course, Options(lesson="08-none"))
    with pytest.raises(CourseError, match="there is no folder"):
        grade_class(Course(course.root, course.classroom / "elsewhere"))
    with pytest.raises(CourseError, match=r"holds \["):
        grade_class(Course(course.root, course.classroom / "[a"))


def test_a_lesson_whose_graded_cells_changed_is_refused_and_its_release_kept(
    course: Course,
    hand_in,
    answered: NotebookNode,
    no_worker,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """nbgrader cannot add or remove graded cells once there are submissions, and deletes the release before it says so.

    Here it can only delete a copy."""
    hand_in("ann", answered)
    grade_class(course, ONE, say=lambda line: None)
    changed = nbformat.read(course.source(LESSON), as_version=4)
    del changed.cells[3]
    nbformat.write(changed, tmp_path / "changed.ipynb")
    before = course.release(LESSON).read_bytes()
    monkeypatch.setattr(Course, "source", lambda self, lesson: tmp_path / "changed.ipynb")
    with pytest.raises(CourseError, match="nbgrader refused lesson"):
        record.register(course, LESSON)
    assert course.release(LESSON).read_bytes() == before


def test_an_exercise_that_the_course_does_not_have_is_said_first(
    course: Course, hand_in, answered: NotebookNode, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Else everybody would have 0 in it."""
    hand_in("ann", answered)
    changed = nbformat.read(course.source(LESSON), as_version=4)
    next(cell for cell in changed.cells if cell.id == "check-7-1").source = 'check("9.9")'
    nbformat.write(changed, tmp_path / "changed.ipynb")
    monkeypatch.setattr(Course, "source", lambda self, lesson: tmp_path / "changed.ipynb")
    with pytest.raises(CourseError, match=r"no exercise of the course is called 9\.9"):
        grade_class(course, ONE)


def test_without_a_sandbox_nothing_is_run(
    course: Course, hand_in, answered: NotebookNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(trusted: bool, wanted: str) -> str:
        raise NoSandbox("no sandbox works here")

    monkeypatch.setattr(handed_in, "tier_for", none)
    hand_in("ann", answered)
    with pytest.raises(CourseError, match="no sandbox works here"):
        grade_class(course, ONE)


@pytest.mark.parametrize("kind", ["markdown", "code"])
def test_answers_marked_by_hand_wait_for_it_and_keep_their_mark(
    course: Course,
    hand_in,
    answered: NotebookNode,
    no_worker,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    kind: str,
) -> None:
    """Text and code that a person marks: the student's answer is taken, and what the person gave is kept."""
    tag = {"schema_version": 3, "grade_id": "explain", "grade": True, "locked": False, "solution": True, "task": False}
    new = nbformat.v4.new_markdown_cell if kind == "markdown" else nbformat.v4.new_code_cell
    for original in (Course.source, Course.release):
        notebook = nbformat.read(original(course, LESSON), as_version=4)
        notebook.cells.append(new("Why?", id="explain", metadata={"nbgrader": tag | {"points": 3}}))
        path = tmp_path / original.__name__ / f"{LESSON}.ipynb"
        path.parent.mkdir()
        nbformat.write(notebook, path)
        monkeypatch.setattr(Course, original.__name__, lambda self, lesson, path=path: path)
    answered.cells.append(new("# Because <script>alert(1)</script>", id="explain", metadata={"nbgrader": tag}))
    hand_in("ann", answered)
    (row,) = grade_class(course, ONE, say=lambda line: None).rows
    assert row.points == {"0.1": 1.0, "1.2": 1.0, "explain": None}
    assert "explain waits for marking by hand" in row.notes
    page = (course.feedback / "ann" / LESSON / f"{LESSON}.html").read_text(encoding="utf-8")
    assert "Because" in page and "<script>alert" not in page
    with record.open_gradebook(course) as gradebook:
        gradebook.find_grade("explain", LESSON, LESSON, "ann").manual_score = 2.5
        gradebook.db.commit()
    (row,) = grade_class(course, ONE, say=lambda line: None).rows
    assert row.points == {"0.1": 1.0, "1.2": 1.0, "explain": 2.5}


def test_what_the_instructor_set_in_nbgraders_settings_counts(
    tiny_root: Path, tmp_path: Path, answered: NotebookNode, no_worker
) -> None:
    """Late penalties are set there, and `autograde grade` must not take them off again."""
    root = tmp_path / "course"
    shutil.copytree(tiny_root, root)
    (root / "nbgrader_config.py").write_text('c = get_config()\nc.LateSubmissionPlugin.penalty_method = "zero"\n')
    course = Course(root, tmp_path / "class")
    folder = course.submitted / "ann" / LESSON
    folder.mkdir(parents=True)
    (folder / f"{LESSON}.ipynb").write_text(json.dumps(answered))
    (folder / "timestamp.txt").write_text("2026-12-03 10:00:00 UTC")
    prepare_process()
    record.register(course, LESSON)
    with record.open_gradebook(course) as gradebook:
        gradebook.update_or_create_assignment(LESSON, duedate="2026-12-02 00:00:00 UTC")
    (row,) = grade_class(course, ONE, say=lambda line: None).rows
    assert (row.total, row.penalty) == (0.0, 2.0)
    (root / "nbgrader_config.py").write_text("c = get_config(\n")
    with pytest.raises(CourseError, match=r"nbgrader_config.py does not work: SyntaxError"):
        grade_class(course, ONE, say=lambda line: None)


def test_other_lessons_stay_in_the_tables(course: Course, hand_in, answered: NotebookNode, no_worker) -> None:
    hand_in("ann", answered)
    grade_class(course, ONE, say=lambda line: None)
    with record.open_gradebook(course) as gradebook:
        gradebook.update_or_create_assignment("05-without-a-notebook")
        gradebook.update_or_create_assignment("06-before")
        gradebook.update_or_create_notebook("06-before", "06-before")
    graded = grade_class(course, Options(lesson=LESSON, workers=1), say=lambda line: None)
    assert [row.lesson for row in graded.rows] == [LESSON]
    with open(course.grades, newline="", encoding="utf-8") as file:
        assert [(line["student"], line["lesson"]) for line in csv.DictReader(file)] == [
            ("ann", "06-before"),
            ("ann", LESSON),
        ]


def test_a_folder_that_may_not_be_looked_into_costs_nobody_else(
    course: Course, hand_in, answered: NotebookNode, no_worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    for student in ("ann", "bob"):
        hand_in(student, answered)
    closed = course.submitted / "bob"
    original = os.open

    def refuses(path, flags, *args, **how):  # root may look everywhere
        if path == "bob":
            raise PermissionError(13, "Permission denied", path)
        return original(path, flags, *args, **how)

    monkeypatch.setattr(os, "open", refuses)
    rows = grade_class(course, ONE, say=lambda line: None).rows
    assert [(row.student, row.total) for row in rows] == [("ann", 2.0), ("bob", 0.0)]
    assert closed.exists() and "not graded" in rows[1].notes[0]


def test_everybody_in_the_roster_has_a_row_and_a_name(
    course: Course, hand_in, answered: NotebookNode, no_worker
) -> None:
    hand_in("ann", answered)
    course.roster.write_text(
        "id,first_name,last_name,email\nann,Ann,Lee,ann@example.org\nzoe,Zoë,,\n", encoding="utf-8"
    )
    rows = grade_class(course, ONE, say=lambda line: None).rows
    assert [(row.student, row.total, row.notes) for row in rows] == [("ann", 2.0, ()), ("zoe", 0.0, (NOTHING,))]
    with record.open_gradebook(course) as gradebook:
        known = {s.id: (s.first_name, s.last_name, s.email) for s in gradebook.students}
    assert known == {"ann": ("Ann", "Lee", "ann@example.org"), "zoe": ("Zoë", None, None)}
    course.roster.write_text("name\nAnn\n")
    with pytest.raises(CourseError, match="has no column id"):
        grade_class(course, ONE, say=lambda line: None)
