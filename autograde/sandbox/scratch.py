"""Temporary folders that do not pile up: what a killed grader left behind, the next one removes."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

KINDS = ("view", "template", "worker")


class Scratch:
    """A folder in the temporary folder. Its lock says that its owner lives: the kernel lets go of it when that ends."""

    def __init__(self, kind: str) -> None:
        import fcntl  # not on Windows, which is refused with a sentence of its own

        made = tempfile.mkdtemp(prefix="new-")
        self._lock = os.open(made, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self.path = os.path.join(os.path.dirname(made), f"autograde-{kind}-{os.path.basename(made)[4:]}")
        os.rename(made, self.path)  # under this name it is never without its lock

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.path, ignore_errors=True)
        with contextlib.suppress(OSError):
            os.close(self._lock)


def remove_leftovers() -> None:
    """Remove the folders whose owner is gone. A process number would not do: containers may share the folder."""
    import fcntl

    folder = Path(tempfile.gettempdir())
    for path in (path for kind in KINDS for path in folder.glob(f"autograde-{kind}-*")):
        with contextlib.suppress(OSError):  # in use, or not ours
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(lock)
