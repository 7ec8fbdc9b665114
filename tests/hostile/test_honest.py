"""Honest work that does something odd: it keeps full marks, and what it printed is kept."""

# ruff: noqa: E501 - what is handed in stays on one line where it can
from __future__ import annotations

import pytest

from tests.hostile.conftest import COUNT, FULL, GOOD, in_step

ODD = {
    "E13 input": ("name = input('who? ')", "EOFError"),
    "E14 plt.show": ("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\nprint('drawn')", "drawn"),
    "E14 a backend with windows": ("import matplotlib\nmatplotlib.use('TkAgg', force=False)\nprint('on')", ""),
    "E16 %%bash": ("%%bash\nfor i in 1 2; do echo line $i; done", "line 2"),
    "E16 a shell command": ("!echo hello && ls /nowhere", "hello"),
    "E16 %run": ("open('other.py', 'w').write('y = 5');\n%run other.py\nprint(y)", "5"),
    "E16 %load_ext": ("%load_ext autoreload\n%autoreload 2\nprint('loaded')", "loaded"),
    "E16 %matplotlib inline": ("%matplotlib inline\nimport matplotlib.pyplot as plt\nplt.plot([1]); plt.show()\nprint('ok')", "ok"),
    "E16 %timeit": ("%timeit -n 1 -r 1 sum(range(10))\n%time x = 1\nprint('timed')", "timed"),
    "E16 %pip": ("%pip --version\nprint('there')", "there"),
    "E16 an unknown magic": ("%nosuchmagic\n", ""),
    "E16 warnings": ("import warnings\nwarnings.warn('beware')\nprint('warned')", "beware"),
    "E16 warnings as errors": ("import warnings\nwarnings.simplefilter('error')\nnp.seterr(all='raise')\nprint('strict')", "strict"),
    "E16 logging": ("import logging\nlogging.basicConfig(level=10)\nlogging.getLogger('x').error('logged')", "logged"),
    "E16 os.chdir": ("import os\nos.makedirs('sub', exist_ok=True)\nos.chdir('sub')\nprint('moved')", "moved"),
    "E16 sys.path": ("import sys\nsys.path.insert(0, '..')\nsys.path.append('/nowhere')\nprint('path')", "path"),
    "E16 stderr": ("import sys\nprint('to stderr', file=sys.stderr)", "to stderr"),
    "E17 helper cells": ("def helper(x):\n    return x\nclass Other: pass\nhelper(3)", "3"),
    "E18 top-level await": ("import asyncio\nawait asyncio.sleep(0.01)\nprint('awaited')", "awaited"),
    "E18 asyncio.gather": (
        "import asyncio\nasync def one(): return 1\nprint(await asyncio.gather(one(), one()))", "[1, 1]"),
    "E18 display": ("from IPython.display import display, Markdown\ndisplay(Markdown('*x*'))\ndisplay(np.ones(2))", "array([1., 1.])"),
    "E18 tqdm": ("from tqdm.auto import tqdm\nfor _ in tqdm(range(20)): pass\nprint('done')", "done"),
    "E18 a pool of processes": (
        "import multiprocessing\nwith multiprocessing.get_context('fork').Pool(2) as pool: print(pool.map(abs, [-1, -2]))", "[1, 2]"),
    "E18 a pool of threads": (
        "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(8) as pool: print(list(pool.map(abs, [-3])))", "[3]"),
    "E18 a subprocess": ("import subprocess, sys\nprint(subprocess.run([sys.executable, '-c', 'print(7)'], capture_output=True, text=True).stdout)", "7"),
    "E18 threads that go on": ("import threading, time\nthreading.Thread(target=time.sleep, args=(100,), daemon=True).start()\nprint('on')", "on"),
    "E19 torch threads": ("import torch\ntorch.set_num_threads(64)\nprint(int(torch.ones(300, 300).sum()))", "90000"),
    "E19 no GPU": ("import torch\nprint(torch.cuda.is_available())\ntorch.ones(1).to('cuda' if torch.cuda.is_available() else 'cpu')", "False"),
    "E19 CUDA all the same": ("import torch\ntorch.ones(1, device='cuda')", "Error"),
    "E21 tempfile": ("import tempfile\nwith tempfile.NamedTemporaryFile('w+') as f: f.write('x')\nprint('written')", "written"),
    "E21 sqlite3": ("import sqlite3\nd = sqlite3.connect('x.db')\nd.execute('create table t (a)')\nd.commit()\nprint('stored')", "stored"),
    "E21 np.save": ("np.save('a.npy', np.ones(1000))\nprint(np.load('a.npy').sum())", "1000.0"),
    "E21 pickle": ("import pickle\nprint(pickle.loads(pickle.dumps([1, 2])))", "[1, 2]"),
    "E21 shared memory": (
        "from multiprocessing import shared_memory\ns = shared_memory.SharedMemory(create=True, size=1000)\ns.close(); s.unlink()\nprint('shared')",
        "shared"),
    "E22 large arrays": ("a = np.ones(50 << 17)\nb = a * 2\nprint(b.nbytes)", "52428800"),
    "E22 many lines": ("for i in range(10_000): print('line', i)", "line 100\n"),
    "E22 one long line": ("print('x' * 100_000)", "xxx"),
    "E23 Unicode names": ("größe = 1\nπ = 3.14\nprint('größe', größe, '漢字 🙂')", "漢字 🙂"),
    "E23 half characters": ("print('\\ud800', '\\x00', '\\x1b[31mred')", "red"),
    "E23 an empty cell": ("   \n# only a comment", ""),
    "E23 a syntax error": ("def broken(:", "SyntaxError"),
    "E23 an error": ("1 / 0", "ZeroDivisionError"),
    "E23 a name of another lesson": ("from kvlib.numpy_cache import KVCache\nprint('there')", ""),
    "E24 a seed of its own": ("import random\nrandom.seed(0)\nnp.random.seed(0)\nprint('seeded')", "seeded"),
    "E24 a high recursion limit": ("import sys\nsys.setrecursionlimit(10_000)\nprint('high')", "high"),
    "E24 signal handlers": ("import signal\nsignal.signal(signal.SIGALRM, signal.SIG_DFL)\nsignal.alarm(0)\nprint('handled')", "handled"),
    "E24 contextlib.redirect": ("import sys, io\nsys.stdout = io.StringIO()\nprint('lost')\nsys.stdout = sys.__stdout__", ""),
    "E24 np.set_printoptions": ("np.set_printoptions(precision=1)\nnp.ones(1) / 3", "0.3"),
    "E24 exit code": ("!exit 3\nprint(_exit_code)", "3"),
}  # fmt: skip


@pytest.mark.parametrize(("own", "words"), ODD.values(), ids=ODD)
def test_a_cell_of_its_own(grade, own: str, words: str) -> None:
    graded = grade(own=own, cell_seconds=20.0, total_seconds=60.0, memory=2 << 30)
    assert words in graded.text(), graded.text()
    assert (graded.cache, graded.count) == (GOOD, FULL)


STEPS = {
    "E14 draws": "import matplotlib.pyplot as plt; plt.figure(); plt.plot([1]); plt.show(); plt.close('all')",
    "E16 warns": "import warnings, logging; warnings.warn('x'); logging.error('x')",
    "E16 prints": "for i in range(1000): print(i)",
    "E18 starts threads": "import threading; t = threading.Thread(target=len, args=('x',)); t.start(); t.join()",
    "E19 uses torch": "import torch; torch.set_num_threads(64); torch.ones(50, 50) @ torch.ones(50, 50)",
    "E21 writes a file": "open('log.txt', 'a').write(str(x))",
    "E22 takes memory": "np.ones(50 << 17).sum()",
    "E24 uses a shell": "import subprocess; subprocess.run(['true'])",
    "E25 divides by zero": "np.ones(1) / 0; np.float64(1) / 0",
}


@pytest.mark.parametrize("body", STEPS.values(), ids=STEPS)
def test_inside_a_method(grade, body: str) -> None:
    graded = grade(cache=in_step(body), cell_seconds=20.0, total_seconds=60.0, memory=2 << 30)
    assert (graded.cache, graded.count) == (GOOD, FULL)


TENSORS = """
import torch
class ToyCache:
    def __init__(self, *projections):
        self.projections, self.keys, self.values = projections, [], []
    def __len__(self):
        return len(self.keys)
    def step(self, x):
        q, k, v = (torch.as_tensor(p(x)) for p in self.projections)
        self.keys.append(k)
        self.values.append(v)
        weights = torch.softmax(torch.stack(self.keys) @ q / len(q) ** 0.5, 0)
        return weights @ torch.stack(self.values)
"""
ANSWERS = {
    "E11 tensors": TENSORS,
    "E11 float32 lists": TENSORS.replace("return weights @ torch.stack(self.values)", "return (weights @ torch.stack(self.values)).float().tolist()"),
    "E11 a tuple": TENSORS.replace("return weights @ torch.stack(self.values)", "return tuple((weights @ torch.stack(self.values)).tolist())"),
}  # fmt: skip


@pytest.mark.parametrize("cache", ANSWERS.values(), ids=ANSWERS)
def test_right_answers_of_another_kind(grade, cache: str) -> None:
    graded = grade(cache=cache, cell_seconds=20.0, total_seconds=60.0, memory=2 << 30)
    assert (graded.cache, graded.count) == (GOOD, FULL)


def test_e23_unicode_in_an_answer(grade) -> None:
    graded = grade(count=COUNT.replace("prompt", "größe"))
    assert (graded.cache, graded.count) == (GOOD, FULL)


def test_e26_a_bomb_of_compile_time(grade) -> None:
    """A cell that is slow to compile, and one that compiles to nothing sensible: neither costs others."""
    graded = grade(own="(" * 5000 + ")" * 5000, between="x = " + "-" * 100_000 + "1")
    assert (graded.cache, graded.count) == (GOOD, FULL)
