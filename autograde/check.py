"""`check("1.3")`: what a learner calls.

It works in JupyterLab, VS Code, Colab, IPython, plain Python and pytest: a card where the front end can show one, text
where it cannot. It never raises for a wrong answer, and returns a plain float, so that a cell that ends with it is
worth exactly that number to nbgrader.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

from autograde import progress
from autograde.deadline import can_stop
from autograde.exercise import Exercise
from autograde.exercises import load
from autograde.judge import PRACTICE, GraderError, Verdict, judge_here
from autograde.report_html import verdict_html
from autograde.report_text import (
    broken_text,
    torchless_text,
    undefined_text,
    unknown_text,
    unsuitable_text,
    verdict_text,
)

_NOT_GIVEN = object()
_verdicts: dict[str, tuple[Any, Verdict]] = {}  # the newest verdict in this process, and the work it is about


def check(exercise_id: str, work: Any = _NOT_GIVEN, *, seed: str = PRACTICE) -> float:
    """Check the learner's work on one exercise, show the verdict, and return the points as a plain float.

    `exercise_id` is a string such as "1.3". `work` is the class or function; without it, the name that the exercise
    asks for is looked up where `check` is called, so that the cell also works before that name is defined. A string is
    looked up in the same way.
    """
    exercise = load().get(exercise_id) if isinstance(exercise_id, str) else None
    if exercise is None:
        _show_text(unknown_text(exercise_id, load()))
        return 0.0
    if work is _NOT_GIVEN or isinstance(work, str):
        name = work if isinstance(work, str) else exercise.name
        work = _look_up(name, sys._getframe(1))
        if work is _NOT_GIVEN:
            _show_text(undefined_text(exercise, name))
            return 0.0
    if not callable(work):
        _show_text(unsuitable_text(exercise, type(work).__name__))
        return 0.0
    return _judged(exercise, work, seed)


def _judged(exercise: Exercise, work: Any, seed: str) -> float:
    try:
        with _told_after(exercise):
            verdict = judge_here(exercise, work, seed)
    except GraderError as error:
        _show_text(broken_text(exercise, error))
        return 0.0
    if exercise.tensors in (True, "fp8") and not verdict.passed and not _has_torch():
        _show_text(torchless_text(exercise))  # a verdict would blame the work
        return 0.0
    _verdicts[exercise.id] = (work, verdict)
    progress.keep(exercise.id, verdict.points)
    show(verdict)
    return verdict.points


def _has_torch() -> bool:
    with contextlib.suppress(Exception):  # one that does not fit the machine raises whatever it likes
        import torch  # noqa: F401

        return True
    return False


@contextlib.contextmanager
def _told_after(exercise: Exercise) -> Iterator[None]:
    """Where a loop without end cannot be stopped, say at least what the learner can do about it."""
    if can_stop():
        yield
        return
    text = (
        f"{exercise.id}: still running after {exercise.seconds:g} s: a loop that never ends? "
        "Python cannot stop it by itself here: use the interrupt button."
    )
    timer = threading.Timer(exercise.seconds, print, [text], {"file": sys.stdout, "flush": True})
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def passed(exercise_id: str) -> bool:
    """Whether the newest check of an exercise in this session earned full marks."""
    return exercise_id in _verdicts and _verdicts[exercise_id][1].passed


def mine_or(exercise_id: str, fallback: Any) -> Any:
    """The learner's own work once its check has passed in this session, else `fallback`; says which."""
    mine = passed(exercise_id)
    whose = "your" if mine else "kvlib's"
    reason = "" if mine else f" (check {exercise_id} has not passed in this session)"
    work = _verdicts[exercise_id][0] if mine else fallback
    print(f"Running on {whose} {getattr(work, '__name__', 'object')}{reason}.")
    return work


def show(verdict: Verdict) -> None:
    """Show a verdict: as a card in a notebook, as text elsewhere."""
    text = verdict_text(verdict)
    if not verdict.passed and os.environ.get("NBGRADER_VALIDATING"):
        print(text, file=sys.stderr)  # what the Validate button shows; of points alone it says "Partial credit"
    if not _in_notebook():
        _show_text(text)
        return
    from IPython.display import display

    display({"text/plain": text, "text/html": verdict_html(verdict)}, raw=True)


def _in_notebook() -> bool:
    """Whether an IPython kernel is running this: only then is there a front end that may show HTML."""
    if "IPython" not in sys.modules:
        return False
    shell = sys.modules["IPython"].get_ipython()
    return shell is not None and hasattr(shell, "kernel")


def _show_text(text: str) -> None:
    """Print, even what the terminal has no letters for."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    print(text.encode(encoding, "replace").decode(encoding))


def _look_up(name: str, frame: FrameType) -> Any:
    for names in (frame.f_locals, frame.f_globals):
        if name in names:
            return names[name]
    return _NOT_GIVEN
