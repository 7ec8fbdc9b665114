"""Work that takes more than its share: of time, memory, processes, files or output. It costs its own exercise only."""

# ruff: noqa: E501 - what is handed in stays on one line where it can
from __future__ import annotations

import pytest

from autograde.sandbox.limits import MIB
from tests.hostile.conftest import CACHE, FULL, GOOD, in_step

DEAF = """
import signal
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGXCPU, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
"""
CHILDREN = """
import os, time
for _ in range({count}):
    if os.fork() == 0:
        {then}
        time.sleep(60)
        os._exit(0)
time.sleep(60)
"""
FILL = """
import os
for number in range({most}):
    with open(os.path.join({folder!r}, f"f{{number}}"), "wb") as file:
        file.write(bytes({size}))
"""

IN_STEP = {
    "A01 endless loop": ("while True: pass", "timeout"),
    "A01 sleeps": ("import time; time.sleep(100)", "timeout"),
    "A02 deaf to signals": (DEAF + "while True: pass", "timeout"),
    "A02 blocks signals": (
        "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\nwhile True: pass",
        "timeout",
    ),
    "A02 catches everything": ("while True:\n    try:\n        while True: pass\n    except BaseException: pass", "timeout"),
    "A03 one long call": ("sum(range(10**12))", "timeout"),
    "A03 backtracking pattern": ("import re; re.match('(a+)+$', 'a' * 60 + 'b')", "timeout"),
    "A03 huge power": ("(7 ** 10**8) % 11", "timeout"),
    "A03 endless generator": ("max(iter(int, 1))", "timeout"),
    "A04 endless print": ("while True: print('x' * 10000)", "timeout"),
    "A05 floods descriptor 2": ("import os\nwhile True: os.write(2, b'x' * 65536)", "output"),
    "A05 floods descriptor 1 from a child": (
        "import os\nif os.fork() == 0:\n    while True: os.write(1, b'x' * 65536)\nos.waitpid(-1, 0)",
        "output",
    ),
    "A06 one large array": ("np.ones(10**11)", "error"),
    "A06 a list that grows": ("kept = []\nwhile True: kept.append(bytearray(1 << 24))", "error memory"),
    "A06 mapped memory": ("import mmap; kept = [mmap.mmap(-1, 1 << 28) for _ in range(64)]", "error"),
    "A06 zip bomb": ("import zlib; zlib.decompress(zlib.compress(bytes(1 << 26)) * 1, 15, 1 << 34)", "error"),
    "A06 a text repeated": ("'x' * (1 << 40)", "error"),
    "A07 children with memory": (CHILDREN.format(count=6, then="kept = bytearray(b'x') * (200 << 20)"), "memory"),
    "A08 fork storm": ("import os, time\nfor _ in range(300):\n    if os.fork() == 0:\n        time.sleep(30); os._exit(0)", "error memory"),
    "A08 thread storm": (
        "import threading, time\nfor _ in range(300):\n    threading.Thread(target=time.sleep, args=(30,), daemon=True).start()",
        "error",
    ),
    "A08 processes that run away": (
        "import os, time\nfor _ in range(20):\n    if os.fork() == 0:\n        os.setsid()\n        if os.fork(): os._exit(0)\n"
        "        time.sleep(60); os._exit(0)\nos._exit(0)",
        "timeout",
    ),
    "A09 descriptors": ("kept = []\nfor _ in range(2000): kept.append(open('/dev/null'))", "error"),
    "A10 fills /tmp": (FILL.format(folder="/tmp", most=100, size=4 << 20), "error"),
    "A10 fills /dev/shm": (FILL.format(folder="/dev/shm", most=100, size=4 << 20), "error"),
    "A10 one large file": ("with open('/tmp/large', 'wb') as file:\n    for _ in range(200): file.write(bytes(1 << 20))", "error"),
    "A11 fills /": (FILL.format(folder="/", most=10, size=4 << 20), "error"),
    "A11 fills /dev": (FILL.format(folder="/dev", most=10, size=4 << 20), "error"),
    "A11 fills /etc": (FILL.format(folder="/etc", most=10, size=4 << 20), "error"),
    "A13 empty files": (FILL.format(folder="/tmp", most=100_000, size=0), "error"),
    "A16 segmentation fault": ("import ctypes; ctypes.string_at(0)", "crashed"),
    "A16 abort": ("import os; os.abort()", "crashed"),
    "A16 exit at once": ("import os; os._exit(0)", "crashed"),
    "A16 kills itself": ("import os; os.kill(os.getpid(), 9)", "crashed"),
    "A17 recursion": ("def deeper(): deeper()\ndeeper()", "error"),
    "A17 deep repr": ("x = []\nfor _ in range(10**6): x = [x]\nrepr(x)", "error"),
    "A18 raises KeyboardInterrupt": ("raise KeyboardInterrupt", "error"),
    "A18 raises SystemExit": ("raise SystemExit(0)", "error"),
    "A18 raises GeneratorExit": ("raise GeneratorExit", "error"),
    "A18 an error without end": (
        "class Long(Exception):\n    def __str__(self): return 'x' * (1 << 27)\nraise Long",
        "error",
    ),
    "A18 an error that cannot be shown": (
        "class Bad(Exception):\n    def __str__(self): raise SystemExit\nraise Bad",
        "error",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("body", "status"), IN_STEP.values(), ids=IN_STEP)
def test_a_method_takes_too_much(grade, body: str, status: str) -> None:
    """Its exercise is 0 and says why; the next one has full marks."""
    graded = grade(cache=in_step(body))
    assert graded.cache[0] in status.split() and graded.cache[1] == 0
    assert graded.count == FULL


def test_a17_recursion_without_a_limit(grade) -> None:
    """The stack of C overflows, or the memory goes: either is an end."""
    graded = grade(cache=in_step("import sys\nsys.setrecursionlimit(10**9)\ndef deeper(): deeper()\ndeeper()"))
    assert graded.cache[0] in ("error", "crashed", "memory") and graded.cache[1] == 0
    assert graded.count == FULL


def test_a19_results_of_a_hundred_megabytes(grade) -> None:
    """Named, not sent. A worker that sends it all the same breaks the protocol."""
    graded = grade(cache=in_step("return np.ones(100 << 17)"))
    assert (graded.cache, graded.count) == (("failed", 0.0), FULL)
    assert "too large to compare" in graded.result["exercises"]["1.3"]["text"]
    patched = "import autograde.value\nautograde.value.MAX_BYTES = 1 << 40"
    graded = grade(own=patched, cache=in_step("return np.ones(100 << 17)"))
    assert graded.cache[1] == 0 and graded.count == FULL


CELLS = {
    "A01 endless loop": "while True: pass",
    "A02 deaf to signals": DEAF + "while True: pass",
    "A04 endless print": "while True: print('x' * 10000)",
    "A05 floods descriptor 2": "import os\nwhile True: os.write(2, b'x' * 65536)",
    "A07 children with memory": CHILDREN.format(count=6, then="kept = bytearray(b'x') * (200 << 20)"),
    "A16 exit at once": "import os; os._exit(0)",
    "A16 segmentation fault": "import ctypes; ctypes.string_at(0)",
    "A17 recursion without a limit": "import sys\nsys.setrecursionlimit(10**9)\ndef f(): f()\nf()",
    "A18 exit": "import sys; sys.exit(3)",
    "A18 exit of IPython's": "exit()",
    "A18 shell command without end": "!sleep 1000",
    "A18 background commands": "!sleep 1000 &\nimport subprocess; kept = subprocess.Popen(['sleep', '1000'])",
}


@pytest.mark.parametrize("source", CELLS.values(), ids=CELLS)
def test_a_cell_of_its_own_takes_too_much(grade, source: str) -> None:
    """The cell is stopped, alone: what the others define is graded on merit."""
    graded = grade(own=source)
    assert (graded.cache, graded.count) == (GOOD, FULL)


def test_a01_a_solution_cell_that_loops_before_it_defines_anything(grade) -> None:
    graded = grade(cache="while True: pass\n" + CACHE)
    assert (graded.cache, graded.count) == (("missing", 0.0), FULL)


def test_a14_a_notebook_that_never_gets_on(grade) -> None:
    """Each cell within its time, all of them together not: the last exercise is not reached."""
    slow = "import time; time.sleep(1.2)"
    graded = grade(own=slow, between=slow, total_seconds=2.0)
    assert graded.cache == GOOD
    assert graded.count == ("timeout", 0.0)


def test_a14_a_slow_drip(grade) -> None:
    """Each call within its time. The first stage, of one step, holds; then the check's time is up."""
    graded = grade(cache=in_step("import time; time.sleep(0.7)"))
    assert (graded.cache, graded.count) == (("timeout", 1.0), FULL)


def test_a15_a_cell_that_works_once(grade) -> None:
    """It ends the worker whenever it is run again, so that replays would go on for ever."""
    graded = grade(
        own="import os, time\nif time.time_ns() // 10**9 % 2: os._exit(0)", cache=in_step("import os; os._exit(0)")
    )
    assert graded.cache == ("crashed", 0.0)
    assert graded.count[1] in (0.0, 2.0)


HIDDEN = {
    "memfd": "import os\nfd = os.memfd_create('x')\nfor _ in range(60): os.write(fd, bytes(1 << 20))\nkept.append(fd)",
    "System V segments": (
        "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\nlibc.shmat.restype = ctypes.c_void_p\n"
        "n = libc.shmget(0, 60 << 20, 0o1600)\nassert n >= 0\nat = libc.shmat(n, None, 0)\n"
        "ctypes.memset(at, 1, 60 << 20)\nlibc.shmdt(ctypes.c_void_p(at))"
    ),
    "shared pages let go of": (
        "import mmap\nm = mmap.mmap(-1, 60 << 20)\nfor i in range(60): m[i << 20:(i + 1) << 20] = bytes(1 << 20)\n"
        "m.madvise(mmap.MADV_DONTNEED)\nkept.append(m)"
    ),
}  # fmt: skip


@pytest.mark.parametrize("once", HIDDEN.values(), ids=HIDDEN)
def test_a20_memory_that_no_process_seems_to_use(grade, once: str) -> None:
    """Twelve times 60 MiB, beyond the limit of 400 MiB: it is refused, or seen."""
    body = (
        "kept = []\nfor _ in range(12):\n"
        + "".join(f"    {line}\n" for line in once.splitlines())
        + "import time\ntime.sleep(0.5)"
    )
    graded = grade(cache=in_step(body), memory=400 * MIB)
    assert graded.cache[0] in ("error", "memory") and graded.cache[1] == 0
    assert graded.count == FULL
