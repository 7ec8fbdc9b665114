"""Watches what all the processes of a worker use together: the kernel's limits are for each of them."""

from __future__ import annotations

import contextlib
import os

from autograde.sandbox.limits import MIB, Limits
from autograde.sandbox.template import descendants

ADDRESS_SPACE, RESIDENT = 0, 1  # fields of /proc/PID/statm
RESERVED = 2  # times the memory that may be used: what all processes together may have mapped
PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


class Memory:
    """The processes below `roots`, which are not counted themselves, and the scratch folder, where it is a real one."""

    def __init__(self, roots: tuple[int, ...], limits: Limits, scratch: str = "") -> None:
        self.roots, self.limits, self.scratch = roots, limits, scratch
        self._base = _statm(roots[0], ADDRESS_SPACE)  # the template's: what a worker begins with

    def too_much(self) -> str:
        """What there is too much of, in words, or nothing."""
        pids = {pid for root in self.roots for pid in descendants(root)}
        if len(pids) > self.limits.processes:
            return f"started more than {self.limits.processes} processes"
        resident = sum(_statm(pid, RESIDENT) for pid in pids)
        if resident > self.limits.memory and sum(map(_own, pids)) > self.limits.memory:
            return f"used more than {self.limits.memory // MIB} MiB of memory"
        # Shared memory can be used and then hidden from the count of resident pages, but not unmapped and kept.
        if sum(max(0, _statm(pid, ADDRESS_SPACE) - self._base) for pid in pids) > RESERVED * self.limits.memory:
            return f"reserved more than {RESERVED * self.limits.memory // MIB} MiB of memory"
        if self.scratch and not self._scratch_is_small():
            return f"wrote more than {self.limits.scratch // MIB} MiB or {self.limits.files} files, or out of sight"
        return ""

    def _scratch_is_small(self) -> bool:
        size = files = 0
        waiting = [self.scratch]  # no recursion: folders may lie as deep as there are files
        while waiting:
            try:
                entries = list(os.scandir(waiting.pop()))
            except FileNotFoundError:
                continue
            except OSError:  # closed to us, or its path is too long: what is in it cannot be seen
                return False
            files += len(entries)
            if files > self.limits.files:
                return False
            for entry in entries:
                with contextlib.suppress(OSError):
                    size += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        return size <= self.limits.scratch


def _statm(pid: int, field: int) -> int:
    """Bytes, pages shared with others included: quick to read."""
    with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[field]) * PAGE
    return 0


def _own(pid: int) -> int:
    """Bytes, with each shared page split among those who share it: slow to read, and fair."""
    with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        for line in file:
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return _statm(pid, RESIDENT)
