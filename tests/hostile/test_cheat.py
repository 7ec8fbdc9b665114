"""Wrong work that wants marks: it gets none. Right work that dresses up keeps its own."""

# ruff: noqa: E501 - what is handed in stays on one line where it can
from __future__ import annotations

import pytest

from tests.hostile.conftest import CACHE, FULL, GOOD, in_step, wrong_cache

CHEATS = {
    "D01 assertions that hold": wrong_cache(setup="np.testing.assert_allclose = np.testing.assert_array_equal = lambda *a, **k: None"),
    "D02 everything is close": wrong_cache(setup="import math\nnp.allclose = np.isclose = math.isclose = lambda *a, **k: True"),
    "D02 torch is close": wrong_cache(setup="import torch\ntorch.allclose = torch.equal = lambda *a, **k: True"),
    "D03 check is one's own": wrong_cache(setup="check = lambda *a: 6.0\nimport autograde\nautograde.check = check"),
    "D04 a displayhook": wrong_cache(
        setup="get_ipython().events.register('pre_run_cell', lambda *a: print('-1'))\nimport sys\nsys.displayhook = lambda *a: -1.0"
    ),
    "D05 errors are swallowed": wrong_cache("1 / 0", setup="get_ipython().set_custom_exc((BaseException,), lambda *a: None)"),
    "D06 equals everything": wrong_cache(
        "Liar()",
        setup="class Liar(float):\n    __eq__ = __le__ = __ge__ = lambda self, other: True\n    __abs__ = lambda self: 0.0\n    __hash__ = float.__hash__",
    ),
    "D06 an array that equals everything": wrong_cache(
        "np.zeros(3).view(Liar)",
        setup="class Liar(np.ndarray):\n    __eq__ = __le__ = lambda self, other: True\n    __array__ = lambda self, *a: 1 / 0\n"
        "    __array_ufunc__ = lambda self, *a, **k: True\n    tobytes = lambda self, *a: b''",
    ),
    "D06 a text that is right": wrong_cache("Right('0')", setup="class Right(str):\n    __eq__ = lambda s, o: True\n    __hash__ = str.__hash__"),
    "D06 an int that is right": wrong_cache("Right(0)", setup="class Right(int):\n    __eq__ = lambda s, o: True\n    __hash__ = int.__hash__"),
    "D06 a class with another's name": wrong_cache("1 / 0", setup="class ZeroDivisionError(Exception): pass"),
    "D07 frames above": wrong_cache(
        "found()",
        setup="import sys\ndef found():\n    frame = sys._getframe()\n    while frame is not None:\n"
        "        for name, value in {**frame.f_globals, **frame.f_locals}.items():\n"
        "            if name in ('want', 'expected', 'outputs', 'case', 'reference'):\n                return getattr(value, 'outputs', value)\n"
        "        frame = frame.f_back\n    return np.zeros(3)",
    ),
    "D08 all objects": wrong_cache(
        "found(x)",
        setup="import gc\ndef found(x):\n    arrays = [o for o in gc.get_objects() if isinstance(o, np.ndarray) and o.shape == (3,)]\n"
        "    cases = [o for o in gc.get_objects() if type(o).__name__ in ('Case', 'Exercise', 'Stage', 'Finding')]\n"
        "    assert not cases\n    return arrays[0] if arrays else np.zeros(3)",
    ),
    "D08 the history": wrong_cache("eval(In[-1])", setup="import inspect, linecache"),
    "D09 the reference": wrong_cache(
        "np.zeros(3)", setup="try:\n    from kvlib.toy import ToyCache as Theirs\nexcept ImportError: pass\nelse: raise SystemExit"
    ),
    "D10 says that it passed": wrong_cache(
        before="print('all tests passed: 6/6')",
        setup="import atexit, weakref\natexit.register(print, 6.0)\nclass D:\n    def __del__(self): print(6.0)\nd = D()",
    ),
    "D16 answers learnt by heart": wrong_cache("{1: np.array([0.1, 0.2, 0.3])}.get(len(x), np.array([0.1, 0.2, 0.3]))"),
    "D16 random answers": wrong_cache("np.random.normal(size=3)"),
    "D22 a lent function": wrong_cache("self.projections[0]"),
    "D22 a mock": wrong_cache("Mock()", setup="from unittest.mock import MagicMock as Mock"),
    "D22 a generator": wrong_cache("(y for y in x)"),
    "D22 a text": wrong_cache("'allclose'"),
    "D22 itself": wrong_cache("self"),
    "D22 a list that holds itself": wrong_cache("loop", setup="loop = []\nloop.append(loop)"),
    "D22 a dict that holds itself": wrong_cache("loop", setup="loop = {}\nloop['x'] = loop"),
    "D22 a list a million deep": wrong_cache("deep", setup="deep = []\nfor _ in range(10**6): deep = [deep]"),
    "D22 a list of a million": wrong_cache("[0.0] * 10**6"),
    "D22 a dict with a liar for a key": wrong_cache("{Key(): 1}", setup="class Key:\n    def __str__(self): raise SystemExit"),
    "D22 a list that lies of its length": wrong_cache("Long()", setup="class Long(list):\n    __len__ = lambda s: -1\n    __iter__ = lambda s: iter(int, 1)"),
    "D22 nothing": wrong_cache("None"),
    "D22 not a number": wrong_cache("np.full(3, np.nan)"),
    "D22 infinite": wrong_cache("np.full(3, np.inf)"),
    "E11 bool": wrong_cache("np.zeros(3, bool)"),
    "E11 complex": wrong_cache("np.zeros(3, complex)"),
    "E11 longdouble": wrong_cache("np.zeros(3, np.longdouble)"),
    "E11 objects": wrong_cache("np.array([None] * 3)"),
    "E11 a number alone": wrong_cache("np.float64(0)"),
    "E11 more axes": wrong_cache("np.zeros((3, 1, 1, 1))"),
    "E11 no rows": wrong_cache("np.zeros((0, 3))"),
    "E11 memory that is not there": wrong_cache("np.lib.stride_tricks.as_strided(np.zeros(1), (1 << 40,), (0,))"),
    "E11 a memory map": wrong_cache("np.memmap('/tmp/m', np.float64, 'w+', shape=3)"),
    "E11 a masked array": wrong_cache("np.ma.masked_all(3)"),
    "E11 a sparse tensor": wrong_cache("torch.zeros(3).to_sparse()", setup="import torch"),
    "E11 a tensor without storage": wrong_cache("torch.zeros(3, device='meta')", setup="import torch"),
    "D23 a metaclass": "class Meta(type):\n    def __call__(cls, *a): raise KeyboardInterrupt\nclass ToyCache(metaclass=Meta): pass",
    "D23 a property that ends it": "class ToyCache:\n    def __init__(self, *a): pass\n    @property\n    def step(self): raise SystemExit",
    "D23 hidden by __getattr__": "class ToyCache:\n    def __init__(self, *a): pass\n    def __getattr__(self, name): return lambda *a, **k: self",
    "D23 a module in its place": "import math as ToyCache",
    "D23 a number in its place": "ToyCache = 6.0",
    "D23 a class that cannot be made": "class ToyCache:\n    def __new__(cls, *a): return None",
}  # fmt: skip


@pytest.mark.parametrize("cache", CHEATS.values(), ids=CHEATS)
def test_wrong_work_has_no_marks(grade, cache: str) -> None:
    """Nor does it take any from the exercise after it."""
    graded = grade(cache=cache, cell_seconds=5.0)
    assert graded.cache[1] == 0 and graded.cache[0] in ("failed", "error", "timeout")
    assert graded.count == FULL


RECOMPUTES = """
def attend(q, K, V):
    scores = K @ q / np.sqrt(len(q))
    weights = np.exp(scores - scores.max())
    return weights / weights.sum() @ V
class ToyCache:
    def __init__(self, *projections):
        self.projections, self.tokens = projections, []
    def __len__(self):
        return len(self.tokens)
    def step(self, x):
        self.tokens.append(x)
        q, K, V = (np.array([project(t) for t in self.tokens]) for project in self.projections)
        return attend(q[-1], K, V)
"""


def test_d17_right_numbers_without_a_cache(grade) -> None:
    """The judge itself counts the rows: all but that stage is credited."""
    graded = grade(cache=RECOMPUTES)
    assert (graded.cache, graded.count) == (("failed", 4.0), FULL)
    held = [stage["held"] for stage in graded.result["exercises"]["1.3"]["stages"]]
    assert held == [True, True, False, True]


COUNTERS = {
    "sets the count": "for p in self.projections: p.rows = len(self.tokens)",
    "calls with a list of all tokens": "self.projections[1]([list(t) for t in self.tokens])",
}


@pytest.mark.parametrize("line", COUNTERS.values(), ids=COUNTERS)
def test_d18_the_count_cannot_be_set(grade, line: str) -> None:
    graded = grade(
        cache=RECOMPUTES.replace("        return attend(q[-1]", f"        {line}\n        return attend(q[-1]")
    )
    assert graded.cache == ("failed", 4.0)


def test_d19_what_is_printed_in_a_check_is_not_shown(grade) -> None:
    """The hidden inputs would be in it; nor can the text of an error carry more than a line of them."""
    body = "import sys, os\nprint('LEAK', x)\nprint('LEAK', x, file=sys.stderr)\nos.write(1, b'LEAK')\nos.write(2, b'LEAK')"
    graded = grade(cache=in_step(body), between="print('after')")
    assert (graded.cache, graded.count) == (GOOD, FULL)
    assert "LEAK" not in str(graded.result)
    assert graded.text("own-2") == "after\n"
    graded = grade(cache=in_step("raise ValueError('y' * 10**6)"))
    assert len(graded.result["exercises"]["1.3"]["text"]) < 5000


DRESSED = {
    "D01 assertions that hold": "np.testing.assert_allclose = lambda *a, **k: None",
    "D03 check is one's own": "check = lambda *a: -1.0",
    "D04 a displayhook": "import sys\nsys.displayhook = lambda *a: -1.0",
    "D10 at the end": "import atexit\n_ = atexit.register(print, '6.0')",
    "D20 HTML": "from IPython.display import HTML, display\ndisplay(HTML('<script>alert(1)</script>'))",
    "D20 escapes": "print('\\x1b[2J\\x1b]0;title\\x07\\u202e\\0')",
}


@pytest.mark.parametrize("own", DRESSED.values(), ids=DRESSED)
def test_right_work_keeps_its_marks(grade, own: str) -> None:
    graded = grade(own=own, cache=CACHE)
    assert (graded.cache, graded.count) == (GOOD, FULL)
    assert graded.text() in ("", "<IPython.core.display.HTML object>\n", "\x1b[2J\x1b]0;title\x07\u202e\0\n")


def test_e20_a_regrade_gives_the_same(grade) -> None:
    """Right answers, and answers that are wrong by chance: the inputs are the same."""
    graded = grade(
        own="import time\nnp.random.seed(time.time_ns() % 2**32)", cache=wrong_cache("np.random.normal(size=3)")
    )
    again = grade(
        own="import time\nnp.random.seed(time.time_ns() % 2**32)", cache=wrong_cache("np.random.normal(size=3)")
    )
    assert graded.cache == again.cache == ("failed", 0.0)
