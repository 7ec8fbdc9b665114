"""The filter refuses what it should, and ordinary code goes on. Each test runs in a process of its own."""

from __future__ import annotations

import importlib.util
import os
import platform
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from autograde.sandbox import seccomp

ROOT = Path(__file__).parents[2]
STRANGER = 64010  # a user who owns nothing here

needs_seccomp = pytest.mark.skipif(not seccomp.available(), reason="pyseccomp or libseccomp is missing")
on_x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="the foreign calls are written for x86-64")

# Everything that a body needs is imported before the user changes, who may not reach the folder that Python lies in.
PRELUDE = """
import asyncio, ctypes, errno, fcntl, mmap, os, resource, signal, socket, subprocess, sys, threading
import multiprocessing.connection
import numpy
from autograde.sandbox import landlock, seccomp
uid = int(sys.argv[1])
if uid != os.geteuid():
    os.setgroups([]); os.setresgid(uid, uid, uid); os.setresuid(uid, uid, uid)
os.setsid()  # no terminal, for calls that would hit it if they were not refused
libc = ctypes.CDLL(None, use_errno=True)

def code(call, *arguments):
    try:
        call(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]
    return "done"

def system_call(name, *arguments):
    number = seccomp.pyseccomp.resolve_syscall(0, name)
    if number < 0:
        return "EPERM"  # not on this architecture
    result = libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments))
    if result == 0 and name == "clone":
        os._exit(0)  # the child
    return "done" if result >= 0 else errno.errorcode[ctypes.get_errno()]

if child := os.fork():
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    sys.exit(code if code >= 0 else 128 - code)
"""
# Calls with arguments that do no harm where they are not refused: then the answer is another error.
FAMILIES = [
    "ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "pidfd_open", "pidfd_getfd", "pidfd_send_signal",
    "unshare", "setns", "chroot", "pivot_root", "mount", "umount2", "move_mount", "open_tree", "fsopen", "fsmount",
    "fsconfig", "fspick", "mount_setattr", "open_by_handle_at", "name_to_handle_at", "quotactl", "swapon", "swapoff",
    "acct", "bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register", "keyctl",
    "add_key", "request_key", "kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "reboot",
    "sethostname", "setdomainname", "settimeofday", "clock_settime", "adjtimex", "clock_adjtime", "lookup_dcookie",
    "vhangup", "iopl", "ioperm", "modify_ldt",
]  # fmt: skip


def run(body: str, uid: int, package: str = "os", ends_with: int = 0) -> None:
    """Import the package, become this user, fork, and run the body in the child.

    It must end with this code, or by this signal plus 128.
    """
    command = [sys.executable, "-c", f"import {package}\n{PRELUDE}{body}", str(uid)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == ends_with, done.stdout + done.stderr


@pytest.fixture(params=["own user", "another user"])
def uid(request: pytest.FixtureRequest) -> int:
    if request.param == "own user":
        return os.geteuid()
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    return STRANGER


@needs_seccomp
def test_every_family_is_refused(uid: int) -> None:
    body = f"""
seccomp.install()
answers = {{name: system_call(name, -1, -1, -1, -1, -1) for name in {FAMILIES}}}
assert set(answers.values()) == {{"EPERM"}}, answers
"""
    run(body, uid)


@needs_seccomp
def test_no_new_namespaces(uid: int) -> None:
    body = """
seccomp.install()
for flag in (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000):
    assert system_call("clone", flag | signal.SIGCHLD, 0, 0, 0, 0) == "EPERM", hex(flag)
assert system_call("clone3", 0, 0) == "ENOSYS"
assert system_call("clone", int(signal.SIGCHLD), 0, 0, 0, 0) == "done"
"""
    run(body, uid)


@needs_seccomp
def test_personality_can_be_asked_but_not_changed(uid: int) -> None:
    body = """
seccomp.install()
assert system_call("personality", 0xFFFFFFFF) == "done"
assert system_call("personality", 0) == "done"
for value in (1, 0x0040000, 0x0400000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0x100040000):
    assert system_call("personality", value) == "EPERM", hex(value)
"""
    run(body, uid)


@needs_seccomp
def test_nothing_can_be_typed_into_a_terminal(uid: int) -> None:
    body = """
near, far = os.openpty()
seccomp.install()
for request in (0x5412, 0x541C):
    for upper_half in (0, 1 << 32, 1 << 63):
        letter = ctypes.c_char(b"x")
        assert system_call("ioctl", far, request | upper_half, ctypes.addressof(letter)) == "EPERM", hex(request)
assert os.isatty(far)
"""
    run(body, uid)


@needs_seccomp
def test_limits_can_be_set_for_this_process_only(uid: int) -> None:
    body = """
seccomp.install()
assert code(resource.prlimit, os.getppid(), resource.RLIMIT_CPU) == "EPERM"
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
"""
    run(body, uid)


@needs_seccomp
def test_no_sockets_but_pairs(uid: int) -> None:
    body = """
seccomp.install()
for family in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX, socket.AF_NETLINK):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        assert code(socket.socket, family, kind) == "EPERM", family
one, other = socket.socketpair()
one.send(b"x")
assert other.recv(1) == b"x"
assert code(socket.socketpair, socket.AF_UNIX, socket.SOCK_DGRAM) == "EPERM"
assert code(socket.socketpair, socket.AF_UNIX, socket.SOCK_RAW) == "EPERM"
"""
    run(body, uid)


@needs_seccomp
def test_sockets_where_the_network_is_allowed(uid: int) -> None:
    run("seccomp.install(network=True)\nsocket.socket().close()\nsocket.socket(socket.AF_UNIX).close()", uid)


@needs_seccomp
def test_signals_reach_only_this_process(uid: int) -> None:
    body = """
seccomp.install(own_signals_only=True)
parent = os.getppid()
for pid in (parent, 0, -1, -parent):
    assert system_call("kill", pid, 0) == "EPERM", pid
    assert system_call("tkill", pid, 0) == "EPERM", pid
    assert system_call("tgkill", pid, parent, 0) == "EPERM", pid
    assert system_call("rt_sigqueueinfo", pid, 0, 0) == "EPERM", pid
    assert system_call("rt_tgsigqueueinfo", pid, parent, 0, 0) == "EPERM", pid
reader, writer = os.pipe()
assert code(fcntl.fcntl, reader, fcntl.F_SETOWN, parent) == "EPERM"
assert system_call("fcntl", reader, 15 | 1 << 32, 0) == "EPERM"
assert system_call("ioctl", reader, 0x8901, 0) == "EPERM"
assert system_call("ioctl", reader, 0x8902, 0) == "EPERM"
got = []
signal.signal(signal.SIGUSR1, lambda number, frame: got.append(number))
signal.raise_signal(signal.SIGUSR1)
os.kill(os.getpid(), signal.SIGUSR1)
signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)
thread = threading.Thread(target=signal.pthread_kill, args=(threading.main_thread().ident, signal.SIGUSR1))
thread.start()
thread.join()
assert len(got) == 4, got
"""
    run(body, uid)


@needs_seccomp
def test_abort_ends_the_process(uid: int) -> None:
    run("seccomp.install(own_signals_only=True)\nos.abort()", uid, ends_with=128 + signal.SIGABRT)


@needs_seccomp
def test_a_child_can_be_ended_where_signals_are_allowed(uid: int) -> None:
    body = """
seccomp.install()
child = subprocess.Popen(["/usr/bin/sleep", "60"])
child.kill()
assert child.wait() == -signal.SIGKILL
"""
    run(body, uid)


@needs_seccomp
@on_x86
def test_a_call_in_the_manner_of_x32_ends_the_process(uid: int) -> None:
    body = "seccomp.install()\nlibc.syscall(ctypes.c_long(0x40000000 + 39))"  # getpid
    run(body, uid, ends_with=128 + signal.SIGSYS)


@needs_seccomp
@on_x86
def test_a_call_in_the_manner_of_i386_ends_the_process(uid: int) -> None:
    body = r"""
seccomp.install()
memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
memory.write(b"\x53\xb8\x14\x00\x00\x00\xcd\x80\x5b\xc3")  # push rbx; mov eax, 20 (getpid); int 0x80; pop rbx; ret
ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(memory)))()
"""
    run(body, uid, ends_with=128 + signal.SIGSYS)


@needs_seccomp
@pytest.mark.parametrize("own_signals_only", [False, True])
def test_ordinary_code_goes_on(uid: int, own_signals_only: bool) -> None:
    body = f"""
seccomp.install(own_signals_only={own_signals_only})
threads = [threading.Thread(target=numpy.ones((64, 64)).dot, args=(numpy.ones((64, 64)),)) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert subprocess.run(["/usr/bin/echo", "hello"], stdout=subprocess.PIPE).stdout == b"hello\\n"
async def both():
    process = await asyncio.create_subprocess_exec("/usr/bin/true")
    return await process.wait()
assert asyncio.run(both()) == 0
near, far = multiprocessing.Pipe()
if child := os.fork():
    assert far.recv() == "hello" and os.waitpid(child, 0)[1] == 0
else:
    near.send("hello")
    os._exit(0)
"""
    run(body, uid)


@needs_seccomp
@pytest.mark.parametrize("package", ["numpy", "torch"])
def test_matrices_under_landlock_too(uid: int, package: str) -> None:
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    body = f"""
if landlock.abi():
    landlock.restrict([])
seccomp.install(own_signals_only=True)
matrix = sys.modules["{package}"].ones((64, 64))
assert float((matrix @ matrix).sum()) == 64**3
assert system_call("unshare", -1) == "EPERM"
"""
    run(body, uid, package)


@needs_seccomp
def test_imports_under_the_filter() -> None:
    names = [name for name in ("numpy", "torch") if importlib.util.find_spec(name)]
    script = f"import {', '.join(names)}"
    body = f"seccomp.install()\nsubprocess.run([sys.executable, '-c', {script!r}], check=True)"
    run(body, os.geteuid())


def test_without_pyseccomp_there_is_an_error_that_says_so() -> None:
    script = """
import sys
sys.modules["pyseccomp"] = None  # importing it fails
from autograde.sandbox import seccomp
assert not seccomp.available()
try:
    seccomp.install()
except OSError as error:
    assert "needs the package pyseccomp" in str(error)
else:
    raise AssertionError("no error")
"""
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True)
