"""What a freshly forked process does before it runs a student's code: it gives up everything that it does not need.

All of this runs in the child, after the fork and before the student's first line. It imports nothing: by then there may
be no file to import from.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource

_LIBC = ctypes.CDLL(None, use_errno=True)
NAMESPACES = ("mnt", "pid", "net", "ipc", "uts", "cgroup")
CLONE_NEWUSER = 0x10000000
NS_GET_PARENT = 0xB702
MS_NOSUID, MS_NODEV, MS_REMOUNT = 2, 4, 32
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 4, 24, 38
SIGKILL = 9
CAPABILITY_VERSION_3 = 0x20080522
CHANNEL = 3


def join(namespaces: dict[str, int]) -> None:
    """Enter the namespaces behind these descriptors. Processes forked afterwards are in the process namespace too.

    Where they belong to a user namespace ("user"), that one is entered last: its owner, one above, is needed for the
    others.
    """
    if "user" in namespaces:
        owner = fcntl.ioctl(namespaces["user"], NS_GET_PARENT)
        _check(_LIBC.setns(owner, CLONE_NEWUSER), "enter the outer user namespace")
        os.close(owner)
    for name in NAMESPACES:
        if name in namespaces:
            _check(_LIBC.setns(namespaces[name], 0), f"enter the {name} namespace")


def limit_files(files: int) -> None:
    """Limit how many files the memory file systems of a room hold: bubblewrap limits only their size."""
    for path in (b"/tmp", b"/dev/shm"):
        flags = MS_REMOUNT | MS_NOSUID | MS_NODEV
        _check(
            _LIBC.mount(None, path, None, flags, f"nr_inodes={files}".encode()), f"limit the files in {path.decode()}"
        )


def enter_user(namespaces: dict[str, int]) -> None:
    """Enter the inner user namespace, which owns nothing."""
    if "user" in namespaces:
        _check(_LIBC.setns(namespaces["user"], CLONE_NEWUSER), "enter the inner user namespace")


def own_descriptors(connection: int, output: int) -> None:
    """Keep the connection as 3 and the output as 1 and 2; /dev/null is 0; close everything else."""
    connection, output = (fcntl.fcntl(fd, fcntl.F_DUPFD, 100) for fd in (connection, output))
    nothing = fcntl.fcntl(os.open(os.devnull, os.O_RDONLY), fcntl.F_DUPFD, 100)
    for source, target in ((nothing, 0), (output, 1), (output, 2), (connection, CHANNEL)):
        os.dup2(source, target, inheritable=target != CHANNEL)
    os.closerange(CHANNEL + 1, _highest_descriptor() + 1)


def limit(limits: dict[str, int]) -> None:
    """Limits that the kernel keeps, for this process and what it starts. "memory" is in bytes beyond what it has."""
    size = int(_status("VmSize")) * 1024
    wanted = {
        resource.RLIMIT_AS: size + limits["memory"],
        resource.RLIMIT_FSIZE: limits["file"],
        resource.RLIMIT_CPU: limits["cpu"],
        resource.RLIMIT_NOFILE: limits["descriptors"],
        resource.RLIMIT_NPROC: limits["threads"],
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MEMLOCK: 1 << 16,
        resource.RLIMIT_MSGQUEUE: 0,
    }
    for what, value in wanted.items():
        hard = resource.getrlimit(what)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(what, (value, value))


def drop_rights(uid: int | None) -> None:
    """Become another user (root only), with no capability, and for good."""
    if uid is not None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
    for capability in range(64):
        if _LIBC.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            break  # past the last one, or without the right to: then there are none to drop
    if uid is not None:
        os.setresuid(uid, uid, uid)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    _check(_LIBC.capset(header, (ctypes.c_uint32 * 6)()), "drop capabilities")
    _check(_LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "give up new privileges")
    _LIBC.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # else /proc/self belongs to root now


def die_with_parent() -> None:
    """Be killed when the process that forked this one ends."""
    _check(_LIBC.prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0), "die with the parent")


def _status(key: str) -> str:
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        return next(line.split()[1] for line in file if line.startswith(f"{key}:"))


def _highest_descriptor() -> int:
    return max(map(int, os.listdir("/proc/self/fd")))


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"cannot {what}: {os.strerror(number)}")
