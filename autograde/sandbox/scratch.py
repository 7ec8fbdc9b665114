"""Temporary folders that do not pile up: what a killed grader left behind, the next one removes."""

from __future__ import annotations

import contextlib
import itertools
import os
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
        remove(self.path)
        with contextlib.suppress(OSError):
            os.close(self._lock)


def remove(top: str) -> None:
    """Remove a folder as students leave it: closed to its owner, or nested too deep for a recursion, or for a path.

    What lies in an inner folder is moved up, next to it: so nothing is ever deeper than two levels. What cannot be
    removed stays.
    """
    numbers = itertools.count()
    with contextlib.suppress(OSError):
        os.chmod(top, 0o700)
        while inner := [entry for entry in os.scandir(top) if not _unlinked(entry)]:
            for folder in inner:
                os.chmod(folder.path, 0o700)
                for entry in os.scandir(folder.path):
                    if not _unlinked(entry):
                        os.chmod(entry.path, 0o700)  # else its owner may not move it
                        os.rename(entry.path, os.path.join(top, f".{next(numbers)}-{os.path.basename(top)}"))
                os.rmdir(folder.path)
        os.rmdir(top)


def _unlinked(entry: os.DirEntry) -> bool:
    """Whether an entry was no folder, and is gone."""
    if entry.is_dir(follow_symlinks=False):
        return False
    os.unlink(entry.path)
    return True


def remove_leftovers() -> None:
    """Remove the folders whose owner is gone. A process number would not do: containers may share the folder."""
    import fcntl

    from autograde.sandbox.sandbox import FIRST_UID, UIDS

    mine = {os.geteuid(), *range(FIRST_UID, FIRST_UID + UIDS)}  # root removes nothing that somebody else could swap
    folder = Path(tempfile.gettempdir())
    for path in (path for kind in KINDS for path in folder.glob(f"autograde-{kind}-*")):
        with contextlib.suppress(OSError):  # in use, or not ours
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(lock).st_uid in mine:
                    remove(str(path))
            finally:
                os.close(lock)
