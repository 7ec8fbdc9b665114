"""Takes the file system, TCP and signals to others away from this process, with the Linux kernel's Landlock.

It works without root and without namespaces, also in most containers. It cannot be undone and every later child has it.
Landlock hides no path's existence (`os.stat`) and does not stop `chmod` or `utime`: run as another user for that.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys
from collections.abc import Iterable

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # numbers of the system calls
VERSION = 1  # flag of CREATE_RULESET: say the ABI
PATH_BENEATH = 1  # kind of rule
NO_NEW_PRIVS = 38  # PR_SET_NO_NEW_PRIVS

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
MAKE_CHAR, MAKE_SOCK, MAKE_BLOCK = 1 << 6, 1 << 9, 1 << 11
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
FILE_RIGHTS = {1: (1 << 13) - 1, 2: REFER, 3: TRUNCATE, 5: IOCTL_DEV}  # by the ABI that brought them
FOR_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV  # any other right on a file is EINVAL
TCP = 1 << 0 | 1 << 1  # bind, connect: from ABI 4
SCOPES = 1 << 0 | 1 << 1  # abstract Unix sockets, signals: from ABI 6

READ = READ_FILE | READ_DIR | EXECUTE
NEVER = MAKE_CHAR | MAKE_BLOCK | MAKE_SOCK
DEVICE = READ_FILE | WRITE_FILE

_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


class _Ruleset(ctypes.Structure):
    # An older kernel takes the longer struct as long as what it does not know is 0.
    _fields_ = [("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scopes", ctypes.c_uint64)]


class _Rule(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("rights", ctypes.c_uint64), ("folder", ctypes.c_int32)]


def abi() -> int:
    """The version of Landlock that the kernel offers; 0 where it has none or it is turned off."""
    if _libc is None:
        return 0
    return max(0, _libc.syscall(ctypes.c_long(CREATE_RULESET), None, ctypes.c_size_t(0), ctypes.c_uint32(VERSION)))


def restrict(read: Iterable[str], write: Iterable[str] = (), devices: Iterable[str] = ()) -> None:
    """Leave this thread, and what it starts, only the named paths, with all that is beneath them.

    `read` may be read, listed and executed; in `write` everything is allowed but making devices and sockets; `devices`
    may be read and written. A path that is missing or out of reach is skipped. TCP is refused from ABI 4 on, signals to
    processes outside from ABI 6 on. Call it with one thread. Raises `OSError` when the kernel refuses.
    """
    version = abi()
    if version == 0:
        raise OSError(errno.ENOSYS, "this kernel has no Landlock, or it is turned off")
    known = sum(rights for since, rights in FILE_RIGHTS.items() if since <= version)
    wanted = _Ruleset(known, TCP if version >= 4 else 0, SCOPES if version >= 6 else 0)
    ruleset = _call(CREATE_RULESET, "make a Landlock ruleset", ctypes.byref(wanted), ctypes.sizeof(wanted), 0)
    try:
        for paths, rights in ((read, READ), (write, known & ~NEVER), (devices, DEVICE)):
            for path in paths:
                _allow(ruleset, path, rights)
        assert _libc is not None  # there is Landlock, so this is Linux
        if _libc.prctl(NO_NEW_PRIVS, *map(ctypes.c_ulong, (1, 0, 0, 0))):
            raise _error("give up new privileges")
        _call(RESTRICT_SELF, "restrict this process with Landlock", ruleset, 0)
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return  # what this process cannot reach needs no rule
    try:
        if not stat.S_ISDIR(os.fstat(opened).st_mode):
            rights &= FOR_FILES
        rule = _Rule(rights, opened)
        _call(ADD_RULE, f"allow {path!r} in Landlock", ruleset, PATH_BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(opened)


def _call(number: int, purpose: str, *arguments: object) -> int:
    """A system call. Plain numbers become longs, because it reads whole registers."""
    longs = (ctypes.c_long(one) if isinstance(one, int) else one for one in arguments)
    assert _libc is not None  # there is Landlock, so this is Linux
    result = _libc.syscall(ctypes.c_long(number), *longs)
    if result < 0:
        raise _error(purpose)
    return result


def _error(purpose: str) -> OSError:
    code = ctypes.get_errno()
    return OSError(code, f"cannot {purpose}: {os.strerror(code)}")
