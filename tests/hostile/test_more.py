"""Work that is aimed at the judge and at the class: its memory, its pages, its names, the next student."""

# ruff: noqa: E501 - what is handed in stays on one line where it can
from __future__ import annotations

import copy
import json
import os
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import nbformat
import numpy as np
import pytest
from nbformat import NotebookNode

from autograde.classroom.course import Course
from autograde.classroom.grade import Options, grade_class
from autograde.exercises import load
from autograde.exercises.models import MeteredModel, lend_block, lend_model, small_model
from autograde.judge import run_stage
from autograde.sandbox.limits import MIB
from autograde.sandbox.tiers import BUBBLEWRAP, LANDLOCK
from autograde.subject import LocalSubject
from tests.classroom.conftest import LESSON
from tests.hostile.conftest import FULL, GOOD, in_step, wrong_cache

BOTH = pytest.mark.parametrize("tier", [BUBBLEWRAP, LANDLOCK], indirect=True)
IS_ROOT = os.geteuid() == 0


@contextmanager
def little_memory(most: int = 24 * MIB) -> Iterator[None]:
    """What the judge's own process takes at most, at any moment."""
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < most, f"the judge needed {peak // MIB} MiB"


# The judge's memory. Each is small here; a few more zeros, and it is gigabytes.

LISTS = {
    "texts": "['a' * 10_000] + [''] * 3_000",
    "a text among numbers": "[1.0] * 3_000 + ['a' * 10_000]",
}


@pytest.mark.parametrize("returned", LISTS.values(), ids=LISTS)
def test_a_list_with_one_long_text(grade, returned: str) -> None:
    with little_memory():
        assert grade(cache=wrong_cache(returned)).cache == ("failed", 0.0)


def flat(*shape: int) -> np.ndarray:
    """An array of no number at all, whatever its shape is."""
    return np.zeros((*shape, 0))


CALLS: dict[str, tuple[str, str, list[Any]]] = {
    "nothing, normed": ("block", "norm", [flat(1 << 20, 8)]),
    "tables looked up crosswise": ("model", "embed", [np.zeros((1_000, 1, 1), int), np.zeros(1_000, int)]),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_small_question_with_a_large_answer(call: tuple[str, str, list[Any]]) -> None:
    """Rows of no number cost nothing to send; the mean of each is a number."""
    which, name, args = call
    model = small_model(np.random.default_rng(0), num_layers=1)
    lent = {"block": lend_block(model, 0), "model": lend_model(MeteredModel(model))}[which]
    with closing(LocalSubject(None)) as subject, little_memory():
        subject.answer({"id": subject._lend(lent).id, "name": name, "args": args, "kwargs": {}})


def test_a_million_rows_of_nothing_recomputed() -> None:
    def accepts(make_decoder, recompute, vocab_size, max_len):
        recompute(flat(1 << 18))
        return True

    exercise = load()["2.4"]
    with closing(LocalSubject(accepts)) as subject, little_memory():
        assert not run_stage(exercise.id, exercise.stages[0], subject, "seed").held


# The count of rows.

TWO_IN_ONE = """
class ToyCache:
    def __init__(self, *projections):
        self.projections, self.X, self.weights, self.held = projections, [], ([], [], []), ([], [], [])
    def __len__(self):
        return len(self.X)
    def step(self, x):
        unit = np.eye(len(x))
        self.X.append(x)
        for project, weight, held in zip(self.projections, self.weights, self.held):
            known = len(weight) == len(x)
            both = project(x + 1j * (0 * x if known else unit[len(weight)]))
            held.append(both.real)
            if not known:
                weight.append(both.imag)
        q, K, V = (np.array(self.X) @ np.array(w) if len(w) == len(x) else np.array(h) for w, h in zip(self.weights, self.held))
        scores = K @ q[-1] / np.sqrt(q.shape[1])
        weights = np.exp(scores - scores.max())
        return weights / weights.sum() @ V
"""


def test_two_rows_in_one(grade) -> None:
    """It learns the weights in the imaginary part, and recomputes every row at every step."""
    assert grade(cache=TWO_IN_ONE).cache != GOOD


ROWS = {
    "no row": "self.project_k(np.zeros((0, len(x))))",
    "another projection": "try: self.project_k(self.project_v)\nexcept Exception: pass",
    "keywords": "try: self.project_k(x=x, rows=-1)\nexcept TypeError: pass",
}


@pytest.mark.parametrize("line", ROWS.values(), ids=ROWS)
def test_calls_that_project_nothing_change_no_count(grade, line: str) -> None:
    assert grade(cache=in_step(line)).cache == GOOD


# The class.


def graded_with(course: Course, hand_in: Callable, answered: NotebookNode, student: str, own: str = "") -> Any:
    """Grade a class of this student, with a cell of their own, and an honest one."""
    work = copy.deepcopy(answered)
    if own:
        work.cells.insert(2, nbformat.v4.new_code_cell(own))
    hand_in(student, json.loads(json.dumps(work)))
    hand_in("zoe", answered)
    done = grade_class(course, Options(workers=1), say=lambda line: None)
    assert len({row.student for row in done.rows}) == len({student, "zoe"})
    assert done.faults == 0
    assert next(row.total for row in done.rows if row.student == "zoe") == 6.0
    return done


NAMES = {
    "the name of our page": "index.html",
    "251 bytes": "\U0001d400" * 62 + "abc",
    "an honest one and a space": "zoe ",
}


@pytest.mark.parametrize("student", NAMES.values(), ids=NAMES)
def test_a_name_that_ends_the_run(course: Course, hand_in, answered: NotebookNode, student: str) -> None:
    graded_with(course, hand_in, answered, student)


SCRIPTS = (
    "[marks](javascript:alert(1)) <javascript:alert(1)> ![x](http://evil.example/a.png) <img src=http://evil.example/b>"
)
VOICE = "[your marks](http://evil.example/c) **full marks**"


def note_of(course: Course, hand_in: Callable, answered: NotebookNode, said: str) -> str:
    """The page of a student whose cell raised this message, up to their first cell of code: the notes are on top."""
    graded_with(course, hand_in, answered, "ann", f"raise Exception({said!r})")
    page = (course.feedback / "ann" / LESSON / f"{LESSON}.html").read_text(encoding="utf-8")
    notes = page[page.index("Notes from grading</strong>") :]
    return notes[: notes.index("</ul>")]


def test_a_message_runs_and_fetches_nothing(course: Course, hand_in, answered: NotebookNode) -> None:
    notes = note_of(course, hand_in, answered, SCRIPTS)
    assert 'href="javascript:' not in notes and "<img" not in notes


def test_a_message_is_text(course: Course, hand_in, answered: NotebookNode) -> None:
    notes = note_of(course, hand_in, answered, VOICE)
    assert "evil" in notes and 'href="http://evil' not in notes and "<strong>full" not in notes


SLOW = "x = 1\n" + "\n" * 50_000 + "#\n" + "a." * 50_000 + "b"


def test_what_takes_hours_to_colour(
    course: Course, hand_in, answered: NotebookNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page has no time limit, and IPython's lexer takes time with the square of empty lines. Nothing is coloured here."""
    import pygments

    lexers = set()

    def highlight(code: str, lexer: Any, *rest: Any) -> str:
        lexers.add(type(lexer).__name__)
        return ""

    monkeypatch.setattr(pygments, "highlight", highlight)
    graded_with(course, hand_in, answered, "ann", SLOW)
    assert lexers == {"PythonLexer"}


# The next student, and the machine.


@BOTH
def test_nobody_elses_file_is_changed(grade, bench, tier: str) -> None:
    kept, lesson = bench.folder / "kept", bench.view / "kvlib"
    kept.write_text("the instructor's")
    kept.chmod(0o644)
    before = [(path.stat().st_mode, path.stat().st_mtime_ns) for path in (kept, lesson)]
    try:
        tried = "\n".join(
            f"try: os.chmod({str(path)!r}, 0)\nexcept OSError: pass\ntry: os.utime({str(path)!r}, (1, 1))\nexcept OSError: pass"
            for path in (kept, lesson)
        )
        grade(own=f"import os\n{tried}")
        assert [(path.stat().st_mode, path.stat().st_mtime_ns) for path in (kept, lesson)] == before
        assert grade(own="import kvlib.counters\nprint('here')").text() == "here\n"
    finally:
        lesson.chmod(0o755)
        kept.unlink()


PRIORITIES = """
import ctypes, os
libc, template = ctypes.CDLL(None, use_errno=True), os.getppid()
for call in (
    lambda: os.setpriority(os.PRIO_PROCESS, template, 3),
    lambda: os.setpriority(os.PRIO_USER, os.getuid(), 3),
    lambda: os.sched_setscheduler(template, os.SCHED_BATCH, os.sched_param(0)),
    lambda: os.sched_setaffinity(template, [min(os.sched_getaffinity(template))]),
    lambda: libc.syscall(251, 1, template, 3 << 13),
):
    try:
        call()
    except OSError:
        pass
"""
SHOW = "import os\nprint(os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0), len(os.sched_getaffinity(0)))"


@BOTH
def test_nobody_else_becomes_slower(grade, bench, tier: str) -> None:
    """In Landlock the parent is the template: what becomes of it, every later worker inherits."""
    before = grade(own=SHOW).text(), os.getpriority(os.PRIO_PROCESS, 0)
    grade(own=PRIORITIES)
    assert (grade(own=SHOW).text(), os.getpriority(os.PRIO_PROCESS, 0)) == before


SIBLINGS = """
import ctypes, os, time
libc = ctypes.CDLL(None, use_errno=True)
for _ in range(5):
    if libc.syscall({clone}, 0x8000 | 17, 0, 0, 0, 0) == 0:  # CLONE_PARENT
        time.sleep(600)
        os._exit(0)
"""


@BOTH
def test_siblings_instead_of_children(grade, tier: str) -> None:
    """A worker makes children of the template's. They are killed like its own."""
    clone = {"x86_64": 56, "aarch64": 220}.get(os.uname().machine)
    if clone is None:
        pytest.skip("the number of clone on this machine is not known here")
    result = grade(own=SIBLINGS.format(clone=clone))
    assert (result.cache, result.count) == (GOOD, FULL)
