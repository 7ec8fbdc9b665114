"""Stops a check that would run for ever.

Where the platform has alarm signals and the check runs in the main thread (JupyterLab, VS Code, Colab and IPython on
Linux and macOS), the running code is interrupted. Elsewhere no pure-Python means is safe, and `can_stop` is False:
the check then says that the interrupt button is the way out.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

AGAIN = 0.25  # seconds between alarms, for code that swallows the first


class TimeUp(BaseException):
    """Raised inside code that ran out of time. Not an `Exception`, so that `except Exception` does not catch it.

    `frame` is where the code was, `outermost` the frame that set the limit.
    """

    def __init__(self, limit: _Limit, frame: FrameType | None) -> None:
        super().__init__("time is up")
        self.limit, self.frame, self.outermost = limit, frame, limit.outermost

    def __del__(self) -> None:
        if not self.limit.over and can_stop():  # garbage may be collected in another thread
            self.limit.swallowed(sys._getframe().f_back)


class _Limit:
    """One time limit. Code that catches everything in a loop must not outlive it."""

    def __init__(self, outermost: FrameType, may_trace: Callable[[FrameType], bool]) -> None:
        self.outermost, self.may_trace = outermost, may_trace
        self.over = self.expired = False

    def alarm(self, _signal: int, frame: FrameType | None) -> None:
        if self.over:
            return
        if self.expired:  # and still running: the first `TimeUp` was caught, and is kept somewhere
            self.swallowed(frame)
        self.expired = True
        raise TimeUp(self, frame)

    def swallowed(self, frame: FrameType | None) -> None:
        """Raise again at the next line that the code runs, which is outside the `try` that has just caught `TimeUp`.

        Python stops tracing when a trace function raises. So this is done again by every `TimeUp` that somebody drops,
        until there is no `try` left around the code.
        """
        while frame is not None and frame is not self.outermost:
            frame.f_trace = self.trace
            frame = frame.f_back
        sys.settrace(self.trace)  # last, so that it does not begin with this very function

    def trace(self, frame: FrameType, event: str, _arg: Any) -> Any:
        if event == "line" and not self.over and frame.f_code.co_filename != __file__ and self.may_trace(frame):
            raise TimeUp(self, frame)
        return self.trace


def can_stop() -> bool:
    """Whether code that loops for ever can be interrupted here."""
    return hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()


@contextmanager
def time_limit(seconds: float, may_trace: Callable[[FrameType], bool] = lambda frame: True) -> Iterator[None]:
    """Raise `TimeUp` inside the block after `seconds`, where `can_stop()`; otherwise do nothing.

    Code that catches `TimeUp` with a bare `except:` is interrupted again, on the next line it runs outside its own
    `try`. Two such loops, one around the other, that also keep every exception they catch are beyond this.
    `may_trace(frame)` says for which frames. An alarm that was set before is set again afterwards.
    """
    if not can_stop():
        yield
        return
    limit = _Limit(sys._getframe(2), may_trace)  # past this function and contextlib's: the frame of the `with`
    tracing, began = sys.gettrace(), time.monotonic()
    before = signal.signal(signal.SIGALRM, limit.alarm)
    left, every = signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN)
    try:
        try:
            yield
        finally:
            limit.over = True  # first of all: an alarm from here on does nothing
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL if before is None else before)
        if left:
            signal.setitimer(signal.ITIMER_REAL, max(left - (time.monotonic() - began), 0.001), every)
        if limit.expired:
            sys.settrace(tracing)
