"""Landlock leaves a process what was named. Each test has a process of its own: there is no way back."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from autograde.sandbox import landlock

ROOT = Path(__file__).parents[2]
STRANGER = 64010  # a user who owns nothing here
SYSTEM = ["/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache"]  # a program and its libraries

needs_landlock = pytest.mark.skipif(landlock.abi() == 0, reason="this kernel has no Landlock, or it is turned off")

# Everything that a body needs is imported before the user changes, who may not reach the folder that Python lies in.
PRELUDE = """
import ctypes, errno, os, pathlib, socket, subprocess, sys, threading
import numpy
from autograde.sandbox import landlock
uid, place = int(sys.argv[1]), pathlib.Path(sys.argv[2])
if uid != os.geteuid():
    os.setgroups([]); os.setresgid(uid, uid, uid); os.setresuid(uid, uid, uid)
inside, outside, work = place / "inside", place / "outside", place / "work"

def code(call, *arguments):
    try:
        call(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]
    return "done"

listener = socket.socket(socket.AF_UNIX)  # belongs to the parent, which is not restricted
name = f"\\0autograde-{os.getpid()}"
listener.bind(name)
listener.listen()
if child := os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def run(body: str, place: Path, uid: int, package: str = "os") -> None:
    """Import the package, become this user, fork, and run the body in the child; it must raise nothing."""
    command = [sys.executable, "-c", f"import {package}\n{PRELUDE}{body}", str(uid), str(place)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(params=["own user", "another user"])
def uid(request: pytest.FixtureRequest) -> int:
    if request.param == "own user":
        return os.geteuid()
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    return STRANGER


@pytest.fixture
def place(uid: int) -> Iterator[Path]:
    """Three folders that belong to the user: only Landlock stands between. pytest's own are closed to others."""
    folder = Path(tempfile.mkdtemp(prefix="landlock-"))
    for name in ("inside", "outside", "work"):
        (folder / name).mkdir()
        (folder / name / "file").write_text(name)
    shutil.copy("/usr/bin/true", folder / "outside" / "true")
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755)
        os.chown(path, uid, -1)
    yield folder
    shutil.rmtree(folder)


@needs_landlock
def test_only_named_paths_can_be_read(place: Path, uid: int) -> None:
    body = """
landlock.restrict([str(inside), str(work / "file"), str(place / "missing"), str(work / "file" / "below")])
assert (inside / "file").read_text() == "inside"
assert os.listdir(inside) == ["file"]
assert (work / "file").read_text() == "work"
for path in (outside / "file", "/etc/passwd", "/proc/self/environ", f"/proc/{os.getppid()}/environ"):
    assert code(open, path) == "EACCES", path
for folder in (place, outside, work, "/"):
    assert code(os.listdir, folder) == "EACCES", folder
"""
    run(body, place, uid)


@needs_landlock
def test_only_the_folder_for_it_can_be_written(place: Path, uid: int) -> None:
    body = """
landlock.restrict([str(inside)], [str(work)])
(work / "new").write_text("some text")
assert (work / "new").read_text() == "some text"
(work / "folder").mkdir()
os.rename(work / "new", work / "folder" / "new")
if landlock.abi() >= 3:
    os.truncate(work / "folder" / "new", 4)
os.symlink("file", work / "link")
os.mkfifo(work / "fifo")
(work / "folder" / "new").unlink()
(work / "folder").rmdir()
for folder in (inside, outside):
    assert code((folder / "file").write_text, "changed") == "EACCES"
    assert code(os.open, folder / "file", os.O_WRONLY) == "EACCES"  # this one does not truncate
    assert code((folder / "new").write_text, "") == "EACCES"
    assert code((folder / "new").mkdir) == "EACCES"
    assert code((folder / "file").unlink) == "EACCES"
    assert code(os.rename, work / "file", folder / "moved") in ("EACCES", "EXDEV")
    if landlock.abi() >= 3:
        assert code(os.truncate, folder / "file", 0) == "EACCES"
assert code(socket.socket(socket.AF_UNIX).bind, str(work / "socket")) == "EACCES"
if os.geteuid() == 0:
    assert code(os.mknod, work / "disk", 0o060600, os.makedev(7, 0)) == "EACCES"
"""
    run(body, place, uid)
    assert [(place / name / "file").read_text() for name in ("inside", "outside")] == ["inside", "outside"]


@needs_landlock
def test_a_single_file_can_be_made_writable(place: Path, uid: int) -> None:
    body = """
landlock.restrict([], [str(work / "file")])
(work / "file").write_text("changed")
assert code((work / "new").write_text, "") == "EACCES"
"""
    run(body, place, uid)
    assert (place / "work" / "file").read_text() == "changed"


@needs_landlock
def test_programs_run_from_named_folders(place: Path, uid: int) -> None:
    body = f"""
landlock.restrict({SYSTEM}, devices=["/dev/null"])
assert subprocess.run(["/usr/bin/true"], stdin=subprocess.DEVNULL).returncode == 0
assert code(os.execv, outside / "true", ["true"]) == "EACCES"
"""
    run(body, place, uid)


@needs_landlock
def test_children_and_threads_are_restricted_as_well(place: Path, uid: int) -> None:
    body = f"""
landlock.restrict({SYSTEM})
assert subprocess.run(["/usr/bin/cat", outside / "file"], stderr=subprocess.PIPE).returncode == 1
seen = []
thread = threading.Thread(target=lambda: seen.append(code(open, outside / "file")))
thread.start()
thread.join()
assert seen == ["EACCES"]
"""
    run(body, place, uid)


@needs_landlock
def test_only_named_devices_can_be_used(place: Path, uid: int) -> None:
    body = """
landlock.restrict([], devices=["/dev/null"])
pathlib.Path("/dev/null").write_text("gone")
assert pathlib.Path("/dev/null").read_text() == ""
assert code(open, "/dev/zero") == "EACCES"
"""
    run(body, place, uid)


@pytest.mark.skipif(landlock.abi() < 4, reason="Landlock knows TCP from ABI 4 (Linux 6.7) on")
def test_tcp_is_refused(place: Path, uid: int) -> None:
    body = """
server = socket.create_server(("127.0.0.1", 0))
landlock.restrict([])
assert code(socket.socket().connect, server.getsockname()) == "EACCES"
assert code(socket.socket().bind, ("127.0.0.1", 0)) == "EACCES"
"""
    run(body, place, uid)


@pytest.mark.skipif(landlock.abi() < 6, reason="Landlock knows signals and abstract sockets from ABI 6 (Linux 6.12) on")
def test_other_processes_are_out_of_reach(place: Path, uid: int) -> None:
    body = """
landlock.restrict([])
assert code(os.kill, os.getppid(), 0) == "EPERM"
os.kill(os.getpid(), 0)
assert code(socket.socket(socket.AF_UNIX).connect, name) == "EPERM"
"""
    run(body, place, uid)


@needs_landlock
def test_no_new_privileges(place: Path, uid: int) -> None:
    run("landlock.restrict([])\nassert ctypes.CDLL(None).prctl(39, 0, 0, 0, 0) == 1", place, uid)


@needs_landlock
@pytest.mark.parametrize("version", range(1, 6))
def test_older_kernels_refuse_files_too(place: Path, uid: int, version: int) -> None:
    if version > landlock.abi():
        pytest.skip(f"this kernel's Landlock has ABI {landlock.abi()}")
    body = f"""
landlock.abi = lambda: {version}
landlock.restrict([str(inside)], [str(work)], ["/dev/null"])
assert (inside / "file").read_text() == "inside"
(work / "new").write_text("")
assert code(open, outside / "file") == "EACCES"
assert code(os.kill, os.getppid(), 0) == "done"
"""
    run(body, place, uid)


@needs_landlock
@pytest.mark.parametrize("package", ["numpy", "torch"])
def test_matrices_after_an_early_import(place: Path, uid: int, package: str) -> None:
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    make = "numpy.ones((64, 64))" if package == "numpy" else "torch.ones(64, 64)"
    body = f"landlock.restrict([])\nmatrix = {make}\nassert float((matrix @ matrix).sum()) == 64**3"
    run(body, place, uid, package)


@needs_landlock
@pytest.mark.parametrize("package", ["numpy", "torch"])
def test_imports_from_named_folders(place: Path, package: str, uid: int) -> None:
    if uid != os.geteuid():
        pytest.skip("another user may not reach the folder that Python lies in")
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    folders = [sys.prefix, sys.base_prefix, *filter(None, sys.path), *SYSTEM]
    folders += ["/proc/cpuinfo", "/sys/devices/system/cpu", "/dev/urandom"]
    body = f"""
landlock.restrict({folders}, devices=["/dev/null"])
script = "import {package} as p; m = p.ones((64, 64)); assert float((m @ m).sum()) == 64**3"
subprocess.run([sys.executable, "-c", script], check=True, cwd="/")
"""
    run(body, place, uid)


def test_without_landlock_there_is_an_error_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landlock, "_libc", None)
    assert landlock.abi() == 0
    with pytest.raises(OSError, match="this kernel has no Landlock"):
        landlock.restrict([])
