"""Refuses the system calls that a student's code has no use for, with a seccomp filter.

It cannot be undone and every later child has it. Everything is imported up here: after `landlock.restrict` the package
may be out of reach.
"""

from __future__ import annotations

import errno
import os

try:
    import pyseccomp
except Exception:  # it is not installed, or finds no libseccomp; on Windows it finds no C library: a TypeError
    pyseccomp = None

REFUSED = """
    ptrace process_vm_readv process_vm_writev kcmp pidfd_open pidfd_getfd pidfd_send_signal
    unshare setns chroot pivot_root
    mount umount2 move_mount open_tree open_tree_attr fsopen fsmount fsconfig fspick mount_setattr
    open_by_handle_at name_to_handle_at quotactl quotactl_fd swapon swapoff acct lookup_dcookie
    bpf perf_event_open userfaultfd io_uring_setup io_uring_enter io_uring_register
    keyctl add_key request_key
    memfd_create memfd_secret shmget shmat shmctl semget msgget
    kexec_load kexec_file_load init_module finit_module delete_module create_module reboot
    sethostname setdomainname settimeofday clock_settime adjtimex clock_adjtime
    vhangup iopl ioperm modify_ldt
"""
# For workers whose user owns more than what they may see. To change the rights of files looks as if it worked, since
# copying a file does that.
RIGHTS_OF_FILES = """
    chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat utime utimes futimesat utimensat
"""
OF_OTHERS = """
    setxattr lsetxattr fsetxattr setxattrat removexattr lremovexattr fremovexattr removexattrat
    inotify_add_watch fanotify_init fanotify_mark
"""
SCHEDULING = ("sched_setaffinity", "sched_setscheduler", "sched_setattr", "sched_setparam")  # the target comes first
PRIORITIES = {
    "setpriority": 0,
    "ioprio_set": 1,
}  # PRIO_PROCESS, IOPRIO_WHO_PROCESS: the first argument; then the target
SIGNALLING = ("kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo")  # the target comes first
# CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET. NEWTIME exists only for clone3 and unshare.
NAMESPACES = (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000)
TERMINAL_INPUT = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX: type into, or paste to, the terminal
DATAGRAM = (2, 3)  # SOCK_DGRAM, and SOCK_RAW, which Unix sockets take for the same
SET_OWNER = {"fcntl": (8, 15), "ioctl": (0x8901, 0x8902)}  # F_SETOWN, F_SETOWN_EX; FIOSETOWN, SIOCSPGRP
UNKNOWN = -1


def available() -> bool:
    """Whether pyseccomp is installed and has found libseccomp."""
    return pyseccomp is not None


def install(own_signals_only: bool = False, network: bool = False, shared_user: bool = False) -> None:
    """Load the filter into this process, all its threads and what it starts. Raises `OSError` when that fails.

    What is refused answers EPERM. A call in the manner of another architecture ends the process: its numbers differ.
    `network=True` leaves `socket` alone; without it, `socketpair` remains, as asyncio and multiprocessing use it.
    `own_signals_only` refuses signals to any process but this one, its children included: for kernels whose Landlock
    cannot (before ABI 6). `raise`, `abort` and signals between threads go on working. `shared_user` keeps the process
    from files and processes that belong to the same user and are in its sight: for workers without namespaces.
    """
    if pyseccomp is None:
        raise OSError(errno.ENOSYS, "a seccomp filter needs the package pyseccomp and the library libseccomp")
    rules = _Rules()
    for name in REFUSED.split():
        rules.refuse(name)
    # The flags of clone3 lie in memory, out of a filter's sight. Without it, the C library takes clone.
    if not rules.refuse("clone3", code=errno.ENOSYS):
        raise OSError(errno.ENOSYS, "this libseccomp is too old: it does not know clone3")
    for flag in NAMESPACES:
        rules.refuse_bits("clone", 0, flag, flag)
    for request in TERMINAL_INPUT:
        rules.refuse_int("ioctl", 1, request)
    for bit in range(32):  # not all bits are equal: neither 0 (no change) nor 0xffffffff (the question)
        one, zero = 1 << bit, 1 << (bit + 1) % 32
        rules.refuse_bits("personality", 0, one | zero, one)
    rules.refuse_other("prlimit64", 0)  # a limit on CPU time would end the other process
    if not network:
        rules.refuse("socket")
        for kind in DATAGRAM:  # one half could send to any named socket
            rules.refuse_bits("socketpair", 1, 0xF, kind)
    if own_signals_only:
        for name in SIGNALLING:
            rules.refuse_other(name, os.getpid())
        for name, requests in SET_OWNER.items():  # the owner of a file gets its SIGIO, which may be any signal
            for request in requests:
                rules.refuse_int(name, 1, request)
    if shared_user:
        for name in RIGHTS_OF_FILES.split():
            rules.refuse(name, code=0)
        for name in OF_OTHERS.split():
            rules.refuse(name)
        for name in SCHEDULING:
            rules.refuse_other(name, 0)
        for name, own in PRIORITIES.items():
            rules.refuse_other(name, own)
            rules.refuse_other(name, 0, index=1)
    rules.load()


class _Rules:
    """A filter that allows what no rule refuses."""

    def __init__(self) -> None:
        self._filter = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
        self._filter.set_attr(pyseccomp.Attr.ACT_BADARCH, pyseccomp.KILL_PROCESS)
        self._filter.set_attr(pyseccomp.Attr.CTL_TSYNC, 1)

    def refuse(self, name: str, *conditions: pyseccomp.Arg, code: int = errno.EPERM) -> bool:
        """Refuse a call when all conditions hold. False when libseccomp does not know the name."""
        number = pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, name)
        if number == UNKNOWN:
            return False
        self._filter.add_rule(pyseccomp.ERRNO(code), number, *conditions)
        return True

    def refuse_bits(self, name: str, index: int, mask: int, value: int) -> None:
        """Refuse a call whose argument has these bits."""
        self.refuse(name, pyseccomp.Arg(index, pyseccomp.MASKED_EQ, mask, value))

    def refuse_int(self, name: str, index: int, value: int) -> None:
        """Refuse a call by an argument of 32 bits. The kernel ignores the upper half: set, it must be no way round."""
        self.refuse_bits(name, index, 0xFFFFFFFF, value)

    def refuse_other(self, name: str, value: int, index: int = 0) -> None:
        """Refuse a call whose argument is anything but `value`."""
        self.refuse(name, pyseccomp.Arg(index, pyseccomp.NE, value))

    def load(self) -> None:
        try:
            self._filter.load()
        except OSError as error:
            raise OSError(error.errno, f"cannot load the seccomp filter: {error.strerror}") from None
