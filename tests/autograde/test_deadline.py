"""Work that never ends. The limits here are short; no test looks at a clock."""

# ruff: noqa: E722, SIM105 -- what learners write

from __future__ import annotations

import contextlib
import inspect
import io
import re
import signal
import sys
import threading
import time
from dataclasses import replace
from importlib import import_module

import pytest

from autograde import check
from autograde.deadline import TimeUp, can_stop, time_limit
from autograde.exercises import load
from autograde.judge import judge_here
from autograde.report_text import verdict_text

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this platform has no alarm signals")
ATTEND = replace(load()["1.1"], seconds=0.2)
TOY = replace(load()["1.3"], seconds=0.2)


def loops(q, K, V):
    while True:
        q = q + 1


def sleeps(q, K, V):
    time.sleep(600)


def swallows(q, K, V):
    while True:
        try:
            time.sleep(0.001)
        except:
            pass


def swallows_while_asleep(q, K, V):
    while True:
        try:
            time.sleep(600)
        except BaseException:
            pass


def keeps_what_it_swallows(q, K, V):
    kept = []
    while True:
        try:
            time.sleep(600)
        except BaseException as error:
            kept.append(error)


def swallows_twice(q, K, V):
    def inner():
        while True:
            try:
                time.sleep(600)
            except:
                pass

    while True:
        try:
            inner()
        except:
            continue


def suppresses(q, K, V):
    while True:
        with contextlib.suppress(BaseException):
            swallows_twice(q, K, V)


def goes_on_in_finally(q, K, V):
    while True:
        try:
            time.sleep(600)
        finally:
            continue  # noqa: B012


class LoopsInInit:
    def __init__(self, project_q, project_k, project_v):
        while True:
            self.k = project_k


class LoopsInCallback:
    def __init__(self, *projections):
        self.projections = projections

    def step(self, x):
        while True:
            self.projections[0](x)


def lines_of(work) -> range:
    lines, first = inspect.getsourcelines(work)
    return range(first, first + len(lines))


@pytest.mark.parametrize(
    ("exercise", "work"),
    [
        (ATTEND, loops),
        (ATTEND, sleeps),
        (ATTEND, swallows),
        (ATTEND, swallows_while_asleep),
        (ATTEND, keeps_what_it_swallows),
        (ATTEND, swallows_twice),
        (ATTEND, suppresses),
        (ATTEND, goes_on_in_finally),
        (TOY, LoopsInInit),
        (TOY, LoopsInCallback),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_work_that_never_ends_is_stopped(exercise, work) -> None:
    """A bare `except:` in a loop swallowed the alarm, and one around another swallowed the second: the kernel hung.

    The message names the limit, and a line of the work. Handlers, timers and trace functions are as they were.
    """
    handler, tracing = signal.getsignal(signal.SIGALRM), sys.gettrace()
    verdict = judge_here(exercise, work)
    assert verdict.points == 0.0
    assert verdict.failure.finding.key == "time"
    text = verdict_text(verdict)
    assert "stopped after 0.2 s: a loop that never ends?" in text
    named = int(re.search(r"line (\d+): `", text).group(1))
    assert any(named in lines_of(part) for part in (work, swallows_twice)), text
    assert "[not reached]" in text
    assert len(text.splitlines()) <= 8
    assert signal.getsignal(signal.SIGALRM) == handler
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert sys.gettrace() is tracing


def test_stages_that_held_before_keep_their_points(double) -> None:
    """Only what was not answered in time is lost."""

    def slow_with_large_numbers(x):
        while x > 3:
            pass
        return 2 * x

    verdict = judge_here(replace(double, seconds=0.2), slow_with_large_numbers)
    assert [outcome.held for outcome in verdict.outcomes] == [True, False]
    assert verdict.points == 2.0


def test_the_repetition_costs_nothing(double) -> None:
    """The first wrong answer is asked for twice. When the time ran out only then, the last stage was lost for it."""
    asked = []

    def wrong_then_slow(x):
        asked.append(x)
        while len(asked) > 2:
            pass
        return 2 * x if x > 3 else 0

    verdict = judge_here(replace(double, seconds=0.2), wrong_then_slow)
    assert asked == [3, 5, 3]
    assert [outcome.held for outcome in verdict.outcomes] == [False, True]


def test_work_that_ends_in_time_is_left_alone() -> None:
    """No alarm is left behind that strikes a later cell."""
    with time_limit(0.2):
        pass
    time.sleep(0.4)


def test_an_alarm_that_was_set_before_rings_afterwards() -> None:
    """Somebody else's timer, such as a test runner's, was switched off for good by a check."""
    rung = []
    before = signal.signal(signal.SIGALRM, lambda *_: rung.append(1))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with time_limit(60):
            time.sleep(0.2)
            assert not rung, "inside, the alarm is ours"
        time.sleep(0.1)
        assert rung == [1]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_only_the_learners_lines_are_interrupted_by_tracing() -> None:
    """Whoever set the limit is outside: neither its caller's frame nor a debugger's trace function is touched."""
    frame = sys._getframe()
    seen = []

    def debugger(frame, event, arg):
        seen.append(event)
        return debugger

    old = sys.gettrace()
    sys.settrace(debugger)
    try:
        with pytest.raises(TimeUp), time_limit(0.1):
            swallows(0, 0, 0)
        assert sys.gettrace() is debugger
        assert frame.f_trace is None
    finally:
        sys.settrace(old)


def test_where_nothing_can_be_stopped_it_says_so(monkeypatch) -> None:
    """In a thread, or on Windows, the check used to hang without a word. Now it names the interrupt button."""
    told = threading.Event()

    class Out(io.StringIO):
        def write(self, text: str) -> int:
            if "interrupt button" in text:
                told.set()
            return super().write(text)

    def patient(q, K, V):  # until the message is there
        assert told.wait(60)

    out, results = Out(), []
    monkeypatch.setattr(import_module("autograde.check"), "load", lambda: {"1.1": ATTEND})
    monkeypatch.setattr(sys, "stdout", out)
    thread = threading.Thread(target=lambda: results.append((can_stop(), check("1.1", patient))))
    thread.start()
    thread.join(60)
    assert results == [(False, 0.0)]
    assert "1.1: still running after 0.2 s: a loop that never ends?" in out.getvalue()
    assert "returned None" in out.getvalue()
