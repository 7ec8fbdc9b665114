"""Stops a check that would run for ever.

Where the platform has alarm signals and the check runs in the main thread (JupyterLab, VS Code, Colab and IPython on
Linux and macOS), the running code is interrupted. Elsewhere no pure-Python means is safe, and `can_stop` is False:
the check then says that the interrupt button is the way out.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

AGAIN = 0.25  # seconds between alarms, for code that swallows the first


class TimeUp(BaseException):
    """Raised inside code that ran out of time. Not an `Exception`, so that `except Exception` does not catch it."""

    def __init__(self, frame: FrameType | None = None) -> None:
        super().__init__("time is up")
        self.frame = frame


def can_stop() -> bool:
    """Whether code that loops for ever can be interrupted here."""
    return hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()


@contextmanager
def time_limit(seconds: float, may_trace: Callable[[FrameType], bool] = lambda frame: True) -> Iterator[None]:
    """Raise `TimeUp` inside the block after `seconds`, where `can_stop()`; otherwise do nothing.

    Code that catches `TimeUp` with a bare `except:` is interrupted again and again, the next time on the first line it
    runs outside its own `try`. `may_trace(frame)` says for which frames.
    """
    if not can_stop():
        yield
        return
    alarms = 0

    def trace(frame: FrameType, event: str, _arg: object) -> object:
        if event == "line" and may_trace(frame):
            raise TimeUp(frame)
        return trace

    def alarm(_signal: int, frame: FrameType | None) -> None:
        nonlocal alarms
        alarms += 1
        if alarms > 1:  # the first was swallowed: catch the code in its `except` block as well
            sys.settrace(trace)
            outer = frame
            while outer is not None:
                if may_trace(outer):
                    outer.f_trace = trace
                outer = outer.f_back
        raise TimeUp(frame)

    tracing = sys.gettrace()
    before = signal.signal(signal.SIGALRM, alarm)
    signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if alarms:
            sys.settrace(tracing)
