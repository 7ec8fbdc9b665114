"""Keeps what a learner's work prints, logs and warns out of sight while it is checked."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator

import numpy as np


class Counter(io.TextIOBase):
    """Counts the lines printed by the work and keeps none of them."""

    lines = 0

    def write(self, text: str) -> int:
        self.lines += text.count("\n")
        return len(text)


@contextlib.contextmanager
def quiet(sink: Counter) -> Iterator[None]:
    """Keep the work's output out of the notebook: a stray line on stderr costs marks in nbgrader.

    What the notebook has told NumPy to do about divisions by zero and the like counts for nothing either.
    """
    logged = logging.root.manager.disable
    with (
        warnings.catch_warnings(),
        np.errstate(divide="warn", over="warn", under="ignore", invalid="warn"),  # as NumPy begins
        contextlib.redirect_stdout(sink),
        contextlib.redirect_stderr(sink),
    ):
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        try:
            yield
        finally:
            logging.disable(logged)
