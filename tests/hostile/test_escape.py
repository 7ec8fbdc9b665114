"""Work that looks for a way out: to files, processes, the network, the next student. It finds none, and merit counts."""

# ruff: noqa: E501 - what is handed in stays on one line where it can
from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from autograde.sandbox import seccomp
from autograde.sandbox.paths import prefixes
from autograde.sandbox.tiers import BUBBLEWRAP, LANDLOCK, NONE
from tests.hostile.conftest import FULL, GOOD

both_tiers = pytest.mark.parametrize("tier", [BUBBLEWRAP, LANDLOCK], indirect=True)
PRELUDE = """
import ctypes, errno, os, signal, socket, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
def refused(what, *args):
    try:
        what(*args)
    except OSError:
        return
    raise AssertionError(f"{what} {args} is not refused")
def eperm(what, *args):
    ctypes.set_errno(0)
    answer = what(*args)
    assert (answer, ctypes.get_errno()) == (-1, errno.EPERM), (args, answer, ctypes.get_errno())
"""


@pytest.fixture
def outside() -> Iterator[dict[str, str]]:
    """A class folder that every user of the machine may read, and sockets that every user may connect to."""
    folder = Path(tempfile.mkdtemp(prefix="class-", dir="/tmp"))
    (folder / "submitted" / "bob").mkdir(parents=True)
    (folder / "gradebook.db").write_text("marks")
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o777)
    names = [str(folder / "socket"), f"\0hostile-{os.getpid()}"]
    tcp = socket.create_server(("127.0.0.1", 0))
    listening = [socket.socket(socket.AF_UNIX) for _ in names]
    for listener, name in zip(listening, names, strict=True):
        listener.bind(name)
        listener.listen()
    (folder / "socket").chmod(0o777)
    yield {
        "folder": repr(str(folder)),
        "port": str(tcp.getsockname()[1]),
        "names": repr(names),
        "judge": str(os.getpid()),
        "here": repr(os.getcwd()),
        "python": repr(prefixes()),
    }
    for listener in (tcp, *listening):
        listener.close()
    assert sorted(os.listdir(folder)) == ["gradebook.db", "socket", "submitted"]
    assert (folder / "gradebook.db").read_text() == "marks"
    shutil.rmtree(folder)


QUIET = {
    "B01 reads the gradebook": """
for path in ("../../gradebook.db", {folder} + "/gradebook.db", {here} + "/pyproject.toml", "/etc/shadow", "/root/.ssh"):
    refused(open, path)
    refused(open, path, "a")
    refused(os.open, path, os.O_RDWR | os.O_CREAT)
""",
    "B02 lists other students": """
for path in ({folder}, {folder} + "/submitted", {here}, {here} + "/autograde/exercises", "/home", "/var", "/srv"):
    try:
        found = os.listdir(path)
    except OSError:
        continue
    # Python may lie in there, for example in the course's .venv: then there is the way to it, and nothing else.
    assert all(any(p.startswith(os.path.join(path, name)) for p in {python}) for name in found), found
""",
    "B03 reads the grader's environment": """
assert "HOSTILE_MARK" not in os.environ
assert b"HOSTILE_MARK" not in open("/proc/self/environ", "rb").read()
refused(open, f"/proc/{{os.getppid() or 1}}/environ")
""",
    "B04 the network": """
refused(socket.create_connection, ("127.0.0.1", {port}), 1)
refused(socket.getaddrinfo, "example.org", 80)
for family in (socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK, socket.AF_PACKET, socket.AF_VSOCK, 38):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
        refused(socket.socket, family, kind)
""",
    "B05 sockets of other programs": """
for name in ({names}[0], {names}[1], "/run/docker.sock", "/run/dbus/system_bus_socket", "/tmp/.X11-unix/X0"):
    refused(lambda: socket.socket(socket.AF_UNIX).connect(name))
    refused(lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b"x", name))
""",
    "B07 system calls": """
for number in {refused}:
    eperm(libc.syscall, ctypes.c_long(number), *[ctypes.c_long(0)] * 6)
for flag in (0x00020000, 0x10000000, 0x20000000, 0x40000000):
    eperm(libc.syscall, ctypes.c_long({clone}), ctypes.c_long(flag | signal.SIGCHLD), *[ctypes.c_long(0)] * 4)
""",
    "B08 kills the grader": """
for pid in ({judge}, 1, 2, os.getppid() or 1):
    if pid != os.getpid():
        refused(os.kill, pid, signal.SIGKILL)
""",
    "B09 becomes root": """
for call in (os.setuid, os.setgid, os.seteuid):
    refused(call, 0) if os.getuid() else None
refused(os.chroot, "/")
refused(os.setgroups, [0])
refused(os.mknod, "device", 0o060666, os.makedev(8, 0))
libc.prctl(38, 0, 0, 0, 0)
assert "NoNewPrivs:\\t1" in open("/proc/self/status").read()
assert "CapEff:\\t0000000000000000" in open("/proc/self/status").read()
""",
    "B10 looks at other processes": """
refused(open, "/proc/{judge}/mem", "r+b")
refused(os.listdir, "/proc/{judge}/fd")
for name in ("1", str(os.getppid())):
    refused(open, f"/proc/{{name}}/mem", "r+b")
""",
    "B12 the kernel's own files": """
for path in ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/sys/vm/drop_caches", "/sys/kernel/mm/ksm/run",
             "/dev/mem", "/dev/kmsg", "/dev/sda", "/dev/vda", "/proc/kcore", "/proc/self/oom_score_adj2", "/proc/1/oom_score_adj"):
    refused(open, path, "r+b", 0)
""",
    "B13 shadows a library": """
for folder in {{*sys.path, sys.prefix, os.path.dirname(os.__file__), os.path.dirname(np.__file__)}} - {{""}}:
    refused(open, folder + "/numpy.py", "w")
refused(os.remove, np.__file__)
open("numpy.py", "w").write("raise SystemExit");
""",
    "B16 types into the terminal": """
import fcntl, termios
for descriptor in (0, 1, 2, 3):
    refused(fcntl.ioctl, descriptor, termios.TIOCSTI, b"x")
refused(open, "/dev/tty", "r+b", 0)
""",
    "B17 imports the answers": """
import importlib
for name in ("kvlib.toy", "kvlib.attention", "kvlib.counts", "autograde.exercises", "autograde.judge", "autograde.classroom"):
    try:
        importlib.import_module(name)
    except ImportError:
        continue
    raise AssertionError(f"{{name}} can be imported")
""",
    "B18 inherits descriptors": """
assert set(os.listdir("/proc/self/fd")) <= {{"0", "1", "2", "3", "4"}}
""",
    "B20 forges a descriptor's number": """
for descriptor in range(4, 256):
    refused(os.fstat, descriptor)
""",
}  # fmt: skip


@both_tiers
@pytest.mark.parametrize("source", QUIET.values(), ids=QUIET)
def test_nothing_outside_can_be_reached(grade, outside: dict[str, str], source: str) -> None:
    """The cell itself asserts that each way is refused."""
    pyseccomp = pytest.importorskip("pyseccomp")
    numbers = [pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, name) for name in seccomp.REFUSED.split()]
    clone = pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, "clone")
    source = source.format(**outside, refused=[n for n in numbers if n >= 0], clone=clone)
    graded = grade(own=PRELUDE + source, cell_seconds=10.0)
    assert graded.text() == ""
    assert (graded.cache, graded.count) == (GOOD, FULL)


LOUD = {
    "B08 kills everybody": "import os; os.kill(-1, 9)",
    "B08 kills its parent": "import os; os.kill(os.getppid(), 9)",
    "B08 kills its group": "import os; os.killpg(0, 9)",
    "B15 outlives its parent": """
import ctypes, os, time
libc = ctypes.CDLL(None)
libc.prctl(1, 0, 0, 0, 0); libc.prctl(36, 1, 0, 0, 0)
for _ in range(3):
    if os.fork() == 0:
        libc.prctl(1, 0, 0, 0, 0); os.setsid()
        if os.fork() == 0:
            while True: time.sleep(1)
        os._exit(0)
""",
    "B19 becomes another program": "import os; os.execv('/bin/sh', ['sh', '-c', 'sleep 100'])",
    "B19 vfork": "import ctypes; libc = ctypes.CDLL(None); libc.vfork()",
    "B10 writes its own memory": """
import os
maps = [line.split() for line in open("/proc/self/maps")]
first = next(int(line[0].split("-")[0], 16) for line in maps if "r-xp" in line[1])
with open("/proc/self/mem", "r+b", 0) as memory:
    memory.seek(first); memory.write(bytes(1 << 20))
""",
    "B20 calls of another architecture": """
import ctypes, mmap
m = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
m.write(b"\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\xc3")
ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))()
""",
}  # fmt: skip


@both_tiers
@pytest.mark.parametrize("source", LOUD.values(), ids=LOUD)
def test_what_it_does_to_itself_costs_nobody_anything(grade, source: str) -> None:
    graded = grade(own=source)
    assert (graded.cache, graded.count) == (GOOD, FULL)


LEAVES = """
import os, sys
for folder in (os.path.expanduser("~"), "/tmp", "/dev/shm", "."):
    try:
        open(os.path.join(folder, "numpy.py"), "w").write("raise SystemExit")
        os.symlink("/etc", os.path.join(folder, "link"))
        os.makedirs(os.path.join(folder, "closed", "inner"))
        open(os.path.join(folder, "closed", "inner", "file"), "w").write("x")
        os.chmod(os.path.join(folder, "closed"), 0)
    except OSError as error:
        print(type(error).__name__)
os.makedirs(os.path.expanduser("~/.ipython/profile_default/startup"), exist_ok=True)
open(os.path.expanduser("~/.ipython/profile_default/startup/x.py"), "w").write("raise SystemExit")
sys.modules["numpy"].zeros = None
"""
LOOKS = """
import os
import autograde
ways = [autograde.__file__, *PYTHON]  # in a room, the only things that may lie in /tmp
known = {path.split(os.sep)[2] for path in ways if path.startswith("/tmp/")}
print(*{*os.listdir(os.path.expanduser("~")), *os.listdir("."), *os.listdir("/dev/shm")} - known, np.zeros(1))
"""


@both_tiers
def test_b14_the_next_student_finds_nothing(grade) -> None:
    """Neither files nor a changed library."""
    graded = grade(own=LEAVES)
    assert (graded.cache, graded.count) == (GOOD, FULL)
    after = grade(own=LOOKS.replace("PYTHON", repr(prefixes())))
    assert after.text() == "[0.]\n"


@pytest.mark.parametrize("tier", [BUBBLEWRAP, LANDLOCK, NONE], indirect=True)
def test_b14_folders_inside_folders(grade) -> None:
    """So deep that a recursive removal ends in an error, and the paths are too long to be said."""
    deep = "import os\nfor _ in range(1100):\n    os.mkdir('deep')\n    os.chdir('deep')\nos.chdir('/')\nimport time; time.sleep(0.5)"
    graded = grade(own=deep)
    assert graded.cache[1] > 0 and graded.count == FULL  # on a slow disk, its own time may run out


def test_b17_the_answers_are_nowhere_on_the_disk(grade) -> None:
    source = """
import os, sys
for top in {*sys.path, sys.prefix} - {""}:
    for folder, _, names in os.walk(top):
        assert not {"candidates.py", "oracle.py"} & set(names) or "site-packages/" in folder.replace("autograde", ""), folder
        for name in names:
            if name.endswith(".py") and folder.endswith(("kvlib", "autograde")):
                assert "self.keys.append" not in open(os.path.join(folder, name)).read(), name
"""
    graded = grade(own=source, cell_seconds=15.0, total_seconds=40.0)
    assert graded.text() == ""
    assert graded.cache == GOOD


@both_tiers
def test_b18_no_descriptor_is_more_than_it_seems(grade) -> None:
    """0 is empty, 1 and 2 can only be written, 3 is a socket of which the other end is the judge's."""
    source = PRELUDE + """
assert os.read(0, 10) == b""
refused(os.write, 0, b"x")
for descriptor in (1, 2):
    refused(os.read, descriptor, 1)
"""  # fmt: skip
    graded = grade(own=source)
    assert graded.text() == ""
    assert (graded.cache, graded.count) == (GOOD, FULL)
