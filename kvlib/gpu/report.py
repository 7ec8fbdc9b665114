"""A table of checks and times that grows line by line, and that no failure stops."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch


@dataclass
class Line:
    """One line of the table."""

    part: str
    what: str
    batch: int | None = None
    context: int | None = None
    microseconds: float | None = None
    gigabytes_per_second: float | None = None  # 1e9 bytes
    of_copy: float | None = None
    note: str = ""

    def text(self) -> str:
        """The line as it is printed; what is None is left blank.

        >>> Line("time", "a step", batch=8, context=1024, microseconds=12.5, gigabytes_per_second=900.0).text()
        'time    a step                                        8     1024        12.5     900'
        """
        share = None if self.of_copy is None else f"{self.of_copy:.0%}"
        rate = None if self.gigabytes_per_second is None else f"{self.gigabytes_per_second:,.0f}"
        took = None if self.microseconds is None else f"{self.microseconds:,.1f}"
        cells = [(self.batch, 5), (self.context, 7), (took, 10), (rate, 6), (share, 7)]
        figures = "  ".join(f"{'' if value is None else value:>{width}}" for value, width in cells)
        return f"{self.part:6}  {self.what:40}  {figures}  {self.note}".rstrip()


class Report:
    """The table as it grows. Each piece is tried by itself; after `budget` seconds nothing more is begun."""

    def __init__(self, budget: float) -> None:
        """budget: seconds from now on. Prints the table's head."""
        self.began, self.budget = time.perf_counter(), budget
        self.lines: list[Line] = []
        print(f"{'part':6}  {'what':40}  batch  context        µs    GB/s  of copy  note", flush=True)

    def add(self, line: Line, work: Callable[[Line], None]) -> Line:
        """Do the work, which fills in the line, and print it."""
        if time.perf_counter() - self.began > self.budget:
            line.note = f"left out: {self.budget:.0f} s have passed"
        else:
            try:
                work(line)
            except torch.OutOfMemoryError:
                line.note = "left out: it needs more memory than the GPU has free"
            except Exception as error:
                line.note = f"FAILED: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
        self.lines.append(line)
        print(line.text(), flush=True)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        return line
