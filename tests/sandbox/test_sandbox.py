"""What a worker is and is not, in each tier that works here."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from autograde.sandbox import paths, tiers
from autograde.sandbox.bubblewrap import ADVICE, Room, RoomError
from autograde.sandbox.limits import Limits
from autograde.sandbox.sandbox import Sandbox
from autograde.sandbox.spawner import Spawner
from autograde.sandbox.template import descendants

Start = Callable[..., Sandbox]


def value(sandbox: Sandbox, expression: str) -> str:
    """What an expression is, in a worker."""
    result = sandbox.execute(f"print({expression})")
    assert result.status == "ok", result
    return result.text.strip()


def test_cells_share_a_namespace_and_tell_what_they_print(worker: Start) -> None:
    sandbox = worker()
    assert sandbox.execute("x = 6\nprint('six')\nx * 7").text == "six\n42\n"
    assert sandbox.execute("x").text == "6\n"
    result = sandbox.execute("1 / 0")
    assert (result.status, result.text, result.lost) == ("error", "", False)
    assert result.error == "ZeroDivisionError: division by zero (line 1: `1 / 0`)"


def test_a_worker_has_no_rights(worker: Start) -> None:
    sandbox = worker()
    status = value(sandbox, "open('/proc/self/status').read()")
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd" if os.geteuid() == 0 else "CapEff", "CapAmb"):
        assert int(fields[name], 16) == 0, name
    assert (fields["NoNewPrivs"], fields["Seccomp"]) == ("1", "2")
    assert value(sandbox, "__import__('os').getuid()") != "0"


def test_a_worker_has_three_descriptors_and_the_connection(worker: Start) -> None:
    assert value(worker(), "sorted(int(n) for n in __import__('os').listdir('/proc/self/fd'))[:4]") == "[0, 1, 2, 3]"
    # the next one is the folder being listed
    assert value(worker(), "len(__import__('os').listdir('/proc/self/fd'))") == "5"


def test_the_environment_is_empty_but_for_what_is_needed(worker: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    names = value(worker(), "sorted(__import__('os').environ)")
    assert "SECRET_TOKEN" not in names and "OMP_NUM_THREADS" in names
    assert value(worker(), "__import__('os').environ['OMP_NUM_THREADS']") == "1"


def test_the_course_and_other_files_are_not_there(worker: Start, tmp_path: Path) -> None:
    secret = tmp_path / "gradebook.db"
    secret.write_text("marks")
    for path in (secret, *secret.parents[:2]):
        path.chmod(0o755)
    sandbox = worker()
    for path in (secret, paths.Path(tiers.__file__), Path("/etc/passwd"), Path.home() / ".bashrc"):
        result = sandbox.execute(f"open({str(path)!r}).read()")
        assert result.status == "error" and ("NotFound" in result.error or "Permission" in result.error), result


def test_answers_cannot_be_imported_and_the_rest_can(worker: Start) -> None:
    sandbox = worker()
    for module in ("toy", "attention", "counts"):
        error = sandbox.execute(f"import kvlib.{module}").error
        assert f"kvlib.{module} answers an exercise of this lesson" in error
    assert sandbox.execute("from kvlib.counters import Projection\nfrom kvlib import plots, machine").status == "ok"
    for module in ("exercises", "judge", "classroom", "diagnosis"):
        assert "ModuleNotFoundError" in sandbox.execute(f"import autograde.{module}").error
    assert sandbox.execute("from autograde import check, hint, mine_or, passed, progress\ncheck('1.3')").status == "ok"


def test_the_network_is_not_there(worker: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        result = worker().execute(f"import socket\nsocket.create_connection({address!r}, 1)")
    assert result.status == "error"


def test_only_the_scratch_folder_can_be_written_to(worker: Start, view: Path) -> None:
    sandbox = worker()
    for path in ("/x", "/usr/x", "/etc/x", "/dev/x", str(view / "x"), os.path.join(sys.prefix, "x")):
        assert sandbox.execute(f"open({path!r}, 'w')").status == "error", path
    assert sandbox.execute("import tempfile\nopen(tempfile.mkstemp()[1], 'w').write('x')").status == "ok"


def test_the_next_worker_finds_nothing_of_the_last(worker: Start) -> None:
    first = worker()
    source = "import builtins, tempfile, os\nbuiltins.left = 1\n"
    assert first.execute(source + "open(tempfile.gettempdir() + '/left', 'w').close()").status == "ok"
    first.close()
    second = worker()
    assert value(second, "hasattr(__import__('builtins'), 'left')") == "False"
    assert value(second, "__import__('os').path.exists(__import__('tempfile').gettempdir() + '/left')") == "False"


def test_closing_kills_what_was_started(worker: Start, spawner: Spawner) -> None:
    sandbox = worker()
    source = (
        "import subprocess, os\nfor i in range(3):\n    subprocess.Popen(['sleep', '671'], start_new_session=True)\n"
    )
    assert sandbox.execute(source + "if os.fork() == 0:\n    os.setsid()\n    while True: pass").status == "ok"
    sandbox.close()
    assert descendants(spawner.pid) == []
    sleeping = subprocess.run(["pgrep", "-fx", "sleep 671"], capture_output=True, text=True).stdout.split()
    assert sleeping == []


@pytest.mark.parametrize(
    ("source", "status", "limits"),
    [
        ("while True: pass", "time", {"cell_seconds": 0.5}),
        ("x = [bytearray(1 << 20) for _ in range(10_000)]", "error memory", {"memory": 200 << 20}),
        ("import os; os._exit(3)", "crashed", {}),
        ("import ctypes; ctypes.string_at(0)", "crashed", {}),
        ("while True: print('x' * 10_000)", "output", {"output": 1 << 20}),
        ("import os\nwhile True: os.write(2, b'x' * 10_000)", "output", {"output": 1 << 20}),
    ],
)
def test_limits(worker: Start, source: str, status: str, limits: dict) -> None:
    result = worker(**limits).execute(source)
    assert result.status in status.split(), result  # whichever looks first, the kernel or the watch
    assert len(result.text) <= 20_000


def test_all_processes_together_may_not_use_more(worker: Start) -> None:
    source = (
        "import os, time\nfor i in range(6):\n    if os.fork() == 0:\n        x = bytearray(b'x') * (100 << 20)\n"
        "        time.sleep(60)\ntime.sleep(60)"
    )
    result = worker(memory=300 << 20, cell_seconds=20).execute(source)
    assert result.status == "memory" and "MiB of memory" in result.error, result


def test_shared_memory_cannot_be_hidden_from_the_watch(worker: Start) -> None:
    """Pages of a shared mapping that are dropped from the page table are resident nowhere, and still there."""
    source = (
        "import mmap, os, time\nfor i in range(8):\n    if os.fork() == 0:\n        m = mmap.mmap(-1, 150 << 20)\n"
        "        m[::4096] = b'x' * (len(m) // 4096)\n        m.madvise(mmap.MADV_DONTNEED)\n        time.sleep(60)\n"
        "time.sleep(60)"
    )
    result = worker(memory=400 << 20, cell_seconds=20).execute(source)
    assert result.status == "memory", result


def test_files_are_limited_in_size_and_number(worker: Start) -> None:
    sandbox = worker(files=500, scratch=8 << 20, file=2 << 20, cell_seconds=20)
    source = "import os, tempfile\nhome = tempfile.gettempdir()\n"
    assert "File too large" in sandbox.execute(source + "open(home + '/big', 'wb').write(b'x' * (3 << 20))").error
    many = "import time\nfor i in range(2_000):\n    open(f'{home}/{i}', 'w').close()\ntime.sleep(1)"
    result = sandbox.execute(many)
    assert "No space left" in result.error or "500 files" in result.error


# ---- tiers -----------------------------------------------------------------------------------------------------------


def test_the_best_tier_that_works_is_chosen() -> None:
    assert tiers.choose(False, None, lambda tier: "") == tiers.BUBBLEWRAP
    assert tiers.choose(False, None, lambda tier: "no" * (tier == tiers.BUBBLEWRAP)) == tiers.LANDLOCK
    assert tiers.choose(False, tiers.LANDLOCK, lambda tier: "") == tiers.LANDLOCK
    with pytest.raises(tiers.NoSandbox, match="bubblewrap: not today; landlock: not today"):
        tiers.choose(False, None, lambda tier: "not today")
    with pytest.raises(tiers.NoSandbox, match="i-trust-these-submissions"):
        tiers.choose(False, tiers.NONE)
    assert tiers.choose(True) == tiers.NONE


@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_other_systems_get_a_sentence(monkeypatch: pytest.MonkeyPatch, system: str) -> None:
    monkeypatch.setattr(sys, "platform", system)
    for trusted in (False, True):
        with pytest.raises(tiers.NoSandbox, match=f"needs Linux, .* and this is {system}"):
            tiers.choose(trusted)


def test_a_tier_that_lets_something_through_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """The probe looks around from inside: without a sandbox it finds what it must not find."""
    assert "is not refused" in tiers.problem_with(tiers.NONE)


@pytest.mark.parametrize("sign", ADVICE)
def test_what_bubblewrap_says_becomes_advice(sign: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "bwrap"
    fake.write_text(f"#!/bin/sh\necho 'bwrap: {sign}' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(RoomError) as told:
        Room([], [], Limits())
    assert ADVICE[sign] in str(told.value) and sign in str(told.value)


@pytest.mark.parametrize("tier", [tiers.BUBBLEWRAP, tiers.LANDLOCK])
def test_without_seccomp_a_tier_does_not_count(tier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "private_prefix", lambda: "")
    monkeypatch.setattr("autograde.sandbox.seccomp.available", lambda: False)
    assert "libseccomp" in tiers.problem_with(tier)


def test_a_kernel_without_landlock_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "private_prefix", lambda: "")
    monkeypatch.setattr("autograde.sandbox.landlock.abi", lambda: 0)
    assert "this kernel has no Landlock" in tiers.problem_with(tiers.LANDLOCK)


def test_without_bubblewrap_the_room_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RoomError, match="bubblewrap is not installed"):
        Room([], [], Limits())


def test_the_course_among_pythons_own_files_is_noticed() -> None:
    assert paths.is_exposed(Path(sys.prefix) / "course")
    assert paths.is_exposed(Path("/usr/share/course"))
    assert not paths.is_exposed(Path("/home/ann/course"))
