"""Sees to it that one run at a time fills a class."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from autograde.classroom.course import CourseError

LOCK = ".lock"


@contextmanager
def only_run(classroom: Path) -> Iterator[None]:
    """Hold CLASSROOM/.lock. The kernel lets go of it when this process ends, however it ends.

    Raises `CourseError`, which names the other process, when another run holds it. The file stays: deleting it would
    let a third run lock a new file while the second still waits for the old one.
    """
    import fcntl  # not on Windows, where no submission gets this far

    descriptor = os.open(classroom / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
            raise CourseError(
                f"{classroom} is being graded by process {pid or 'unknown'}; wait until it is done, or end it"
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)
