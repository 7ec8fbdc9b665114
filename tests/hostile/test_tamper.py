"""Work that tampers with the channel to the judge. It can answer wrongly, and no more than that."""

# ruff: noqa: E501 - what is handed in stays on one line where it can
from __future__ import annotations

import pytest

from tests.hostile.conftest import FULL, GOOD, in_step, wrong_cache

WIRE = """
import json, os, socket, struct, sys, threading
channel = socket.socket(fileno=os.dup(3))
def frame(header, payload=b""):
    header = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<II", len(header), len(payload)) + header + payload
def tree(value):
    if isinstance(value, dict):
        return {"d": [[key, tree(item)] for key, item in value.items()]}
    return [tree(item) for item in value] if isinstance(value, list) else value
def number():
    frames = sys._current_frames().values()
    for frame in frames:
        while frame is not None:
            if frame.f_code.co_name == "serve":
                return frame.f_locals["message"]["n"]
            frame = frame.f_back
def say(message):
    channel.sendall(frame(tree(message)))
"""
RAW = {
    "C01 garbage": "channel.sendall(os.urandom(100_000))",
    "C01 a header of 10 MB": "channel.sendall(frame(b'[' + b'1,' * 5_000_000 + b'1]'))",
    "C01 a header of 4 GiB, announced": "channel.sendall(b'\\xff' * 8)",
    "C01 deep JSON": "channel.sendall(frame(b'[' * 1_000_000 + b']' * 1_000_000))",
    "C01 deep objects": "channel.sendall(frame(b'{\"d\":[[\"a\",' * 60_000))",
    "C01 a million empty lists": "channel.sendall(frame(b'[' + b'[],' * 1_000_000 + b'[]]'))",
    "C01 half a frame": "channel.sendall(b'\\x10\\0\\0\\0\\0\\0\\0\\0{'); os._exit(0)",
    "C01 every descriptor": (
        "for name in os.listdir('/proc/self/fd'):\n    try: os.write(int(name), os.urandom(5000))\n    except OSError: pass"
    ),
    "C03 ready again": "say({'ready': True})",
    "C03 failed": "say({'failed': 'x'})",
    "C03 another number": "say({'n': number() + 1, 'value': None, 'printed': 0})",
    "C03 number True": "say({'n': True, 'value': None, 'printed': 0})",
    "C03 no number": "say({'value': 1.0, 'printed': 0})",
    "C03 points": "say({'n': number(), 'points': 6.0, 'held': True})",
    "C03 value and raised": "say({'n': number(), 'value': 0, 'raised': {}, 'printed': 0})",
    "C03 a value without a count": "say({'n': number(), 'value': 0})",
    "C03 raises what is not known": (
        "say({'n': number(), 'raised': {'kind': 'X', 'kinds': ['LearnerRaised'], 'message': '', 'line': ''}, 'printed': 0})"
    ),
    "C03 raises something endless": (
        "say({'n': number(), 'raised': {'kind': 'X' * 5000, 'kinds': [], 'message': '', 'line': ''}, 'printed': 0})"
    ),
    "C03 a handle nobody asked for": "channel.sendall(frame({'d': [['n', number()], ['value', {'h': 0}], ['printed', 0]]}))",
    "C06 a call without parts": "say({'call': {'id': 0}})",
    "C06 a call with a negative number": "say({'call': {'id': -1, 'name': None, 'args': [], 'kwargs': {}}})",
    "C06 a call of True": "say({'call': {'id': True, 'name': None, 'args': [], 'kwargs': {}}})",
    "C08 NaN": "channel.sendall(frame(b'{\"d\":[[\"n\",NaN]]}'))",
    "C08 a key twice": "channel.sendall(frame(b'{\"d\":[[\"n\",1],[\"n\",2]]}'))",
    "C08 a number of 100,000 digits": "channel.sendall(frame(b'{\"d\":[[\"n\",' + b'9' * 100_000 + b']]}'))",
    "C08 a float too large": "channel.sendall(frame(b'{\"d\":[[\"value\",1e999]]}'))",
    **{
        f"C08 array {body}": (
            "channel.sendall(frame({'d': [['n', number()], ['value', {'a': BODY}], ['printed', 0]]}, bytes(24)))".replace("BODY", body)
        )
        for body in (
            "['<f8', [-1]]", "['<f8', [1 << 40, 1 << 40]]", "['O', [3]]", "['<f8', [True, 3]]", "['<f8', [2]]",
            "['<f8', [3.0]]", "['<V24', [1]]", "['<f8', [1] * 40 + [3]]", "[['<f8', '<f8'], [3]]", "['M8[s]', [3]]",
        )
    },
}  # fmt: skip


@pytest.mark.parametrize("body", RAW.values(), ids=RAW)
def test_what_is_no_answer_ends_the_worker(grade, body: str) -> None:
    """And its exercise. A new worker repeats the cells that had worked, and the next exercise has full marks."""
    graded = grade(cache=in_step(body, WIRE))
    assert graded.cache in (("protocol", 0.0), ("crashed", 0.0))
    assert graded.count == FULL


FORGED = {
    "C03 a forged value": "say({'n': number(), 'value': [0.0, 0.0, 0.0], 'printed': 0})",
    "C03 a forged refusal": (
        "say({'n': number(), 'raised': {'kind': 'ValueError', 'kinds': ['ValueError', 'Exception'], 'message': 'x', 'line': ''},"
        " 'printed': 0})"
    ),
    "C03 two replies": "for _ in range(2): say({'n': number(), 'value': 0.0, 'printed': 0})",
    "C03 early replies": "for i in range(50): say({'n': number() + i, 'value': 1.0, 'printed': 0})",
    "C03 stopped": "say({'n': number(), 'stopped': 'x', 'printed': -5})",
    "C03 an untrue count of lines": "say({'n': number(), 'value': 0.0, 'printed': -(1 << 62)})",
    "C06 calls what is not lent": "say({'call': {'id': 99, 'name': '__class__', 'args': [], 'kwargs': {}}})",
    "C06 calls a method that is not lent": "say({'call': {'id': 0, 'name': '__init__', 'args': [0], 'kwargs': {}}})",
    "C06 calls with anything": "say({'call': {'id': 0, 'name': None, 'args': ['x', None, []], 'kwargs': {'self': 1}}})",
    "C06 calls without end": "while True: say({'call': {'id': 0, 'name': None, 'args': [], 'kwargs': {}}})",
    "C06 a large call again and again": (
        "for _ in range(40):\n    channel.sendall(frame({'d': [['call', {'d': [['id', 0], ['name', None],"
        " ['args', [{'a': ['<f8', [1 << 19, 4]]}]], ['kwargs', {'d': []}]]}]]}, bytes(1 << 24)))"
    ),
    "C02 closes every descriptor": "os.closerange(0, 256)",
    "C02 shuts the channel": "channel.shutdown(2)",
    "C04 a child that answers zeros": (
        "n = number()\nif os.fork(): os._exit(0)\nfor i in range(60): say({'n': n + i, 'value': [0.0] * 3, 'printed': 0})"
    ),
    "C05 threads that answer": (
        "n = number()\nthreading.Thread(target=lambda: [say({'n': n + i, 'value': 0.0, 'printed': 0}) for i in range(30)]).start()"
    ),
    "C09 sends a descriptor along": "socket.send_fds(channel, [frame(tree({'n': number(), 'value': 0.0, 'printed': 0}))], [0, 1, 2])",
}  # fmt: skip


@pytest.mark.parametrize("body", FORGED.values(), ids=FORGED)
def test_a_forged_answer_is_a_wrong_answer(grade, body: str) -> None:
    """Whatever it does, its own exercise is 0, and the next one has full marks."""
    graded = grade(cache=in_step(body, WIRE))
    assert graded.cache[1] == 0 and graded.cache[0] in ("failed", "error", "protocol", "crashed", "timeout", "memory")
    assert graded.count == FULL


PATCHED = {
    "C07 the package": "import sys\nfor name in [n for n in sys.modules if n.startswith('autograde')]: sys.modules[name] = None",
    "C07 json and struct": "import json, struct\njson.loads = json.dumps = struct.unpack = lambda *a, **k: None",
    "C07 numpy": "import sys\nnp.array_equal = np.allclose = np.isclose = lambda *a, **k: True\nsys.modules['numpy'] = None",
    "C07 builtins": "import builtins\nbuiltins.len = lambda x: 0\nbuiltins.isinstance = lambda *a: True",
    "C07 the clock": "import time\ntime.time = time.monotonic = time.perf_counter = lambda: 0.0",
    "C07 the encoder": "import autograde.sandbox.worker as w\nw.encode = lambda tree: b'\\0' * 8",
    "C07 the worker's actions": (
        "import gc\nfrom autograde.sandbox.worker import Worker\nw = next(o for o in gc.get_objects() if type(o) is Worker)\n"
        "w.actions['ask'] = lambda message: {'value': 0.0, 'printed': 0}"
    ),
    "C07 the host": "import autograde.host\nautograde.host.Host.handle = lambda self, request: {'value': None}",
    "C07 IPython": "get_ipython().run_cell = lambda *a, **k: None",
    "C07 a trace function": "import sys, threading\nsys.settrace(lambda *a: 1 / 0)\nthreading.settrace(lambda *a: 1 / 0)",
    "C07 a profile function": "import sys\nsys.setprofile(lambda *a: [0] * 1000)",
    "C07 an import hook": "import builtins\nbuiltins.__import__ = None",
    "C02 standard streams": "import sys\nsys.stdout = sys.stderr = sys.stdin = None",
    "C10 collects garbage itself": "import gc\ngc.disable(); gc.set_threshold(1); gc.callbacks.append(lambda *a: 1 / 0)",
}  # fmt: skip


@pytest.mark.parametrize("own", PATCHED.values(), ids=PATCHED)
def test_c07_what_is_changed_inside_decides_nothing(grade, own: str) -> None:
    """Right work keeps its marks or loses them, for its own notebook's doing; wrong work never gains any."""
    graded = grade(own=own, cache=wrong_cache())
    assert graded.cache[1] == 0 and graded.cache[0] != "ok"
    assert graded.count[1] in (0.0, 2.0)
    assert grade(own=own).cache[1] in (0.0, 6.0)


LATER = """
import threading
def flip():
    import time
    while True:
        for value in list(kept):
            value *= 2.0
kept = []
threading.Thread(target=flip, daemon=True).start()
"""


def test_c05_answers_that_change_once_they_were_given(grade) -> None:
    """What was answered was copied: a thread that changes it later changes nothing."""
    graded = grade(
        own=LATER,
        cache=in_step("y = _right(self, x); kept.append(y.copy()); return y"),
    )
    assert (graded.cache, graded.count) == (GOOD, FULL)


def test_c04_a_twin_that_answers_rightly_is_still_locked_in(grade) -> None:
    """A child in the worker's place may go on answering; it ends with the room all the same."""
    graded = grade(own="import os\nif os.fork(): os._exit(0)")
    assert graded.cache in (GOOD, ("crashed", 0.0))
    assert graded.count == FULL
