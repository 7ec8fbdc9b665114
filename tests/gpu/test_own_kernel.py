"""A function written for the stand-in becomes a Triton kernel: the same numbers, and errors that can be read."""

from __future__ import annotations

import json
import linecache
import re
import subprocess
from importlib.util import find_spec

import pytest

from kvlib.attend_tiles import attend_tiles
from kvlib.gpu import own_kernel, own_process
from kvlib.gpu.own_kernel import Attempt, module_text, source_of, try_own

needs_triton = pytest.mark.skipif(
    find_spec("triton") is None or find_spec("torch") is None,
    reason="torch or triton is missing: see `make torch` and the gpu extra",
)


def hinted(q: int, GP: "tl.constexpr", D: "tl.constexpr" = 8) -> int:  # noqa: F821, UP037
    """Ends on its own line."""
    return q


def test_the_source_is_the_function_without_foreign_hints():
    assert source_of(hinted).splitlines()[0].startswith('def hinted(q, GP: "tl.constexpr", D: "tl.constexpr" = 8):')
    text = module_text(attend_tiles)
    compile(text, "own", "exec")
    assert "Any" not in text and "HKV: tl.constexpr" in text and "m, l, acc = attend_tiles(" in text
    # Lines stay where they are: an error's line is the reader's own.
    assert source_of(attend_tiles).splitlines()[-1] == "    return m, l, acc"


def test_what_has_no_source_is_told():
    made = {}
    exec("def attend_tiles(q): return q", made)
    for work in (made["attend_tiles"], lambda q: q, len, 3, type("Class", (), {})):
        [attempt] = try_own(work)
        assert attempt.ok is False and "def " in attempt.says and "no source of" in str(attempt)
        assert "def <" not in attempt.says


def test_without_triton_it_says_so_loudly(monkeypatch):
    monkeypatch.setattr(own_kernel, "find_spec", lambda name: None)
    text = str(try_own(attend_tiles))
    assert text.startswith("YOUR KERNEL WAS NOT RUN") and "pip install" in text and "11.4" in text


def test_processes_that_end_oddly(monkeypatch, tmp_path):
    def ends(**told):
        monkeypatch.setattr(subprocess, "run", lambda *args, **kwargs: subprocess.CompletedProcess(args, **told))
        return own_kernel._in_a_process(tmp_path, "run", 1.0)

    said = json.dumps({"what": "runs", "ok": True, "says": "fine"})
    assert ends(returncode=0, stdout=f"noise\n{said}\n", stderr="") == [Attempt("runs", True, "fine")]
    for code in (-11, 139):
        assert "outside of memory" in ends(returncode=code, stdout="", stderr="")[-1].says
    assert "no such thing" in ends(returncode=1, stdout="", stderr="first\nno such thing\n")[0].says
    for code in (0, 1):
        assert "said nothing" in ends(returncode=code, stdout="", stderr="")[0].says

    def late(*args, **kwargs):
        raise subprocess.TimeoutExpired("python", 1.0)

    monkeypatch.setattr(subprocess, "run", late)
    assert "stopped after 1 s" in own_kernel._in_a_process(tmp_path, "run", 1.0)[0].says


def test_exit_in_the_function_leaves_a_line_all_the_same(capsys):
    """exit(0) ended the process with nothing said, which looked like success."""

    def leaves():
        raise SystemExit(0)

    assert own_process._tell("runs", "loop.py", leaves) == 1
    said = json.loads(capsys.readouterr().out)
    assert not said["ok"] and "SystemExit" in said["says"]


def named(name, arguments="q, k, v, table, first, last, kv_head, scale, HKV, GP, D, BLOCK_SIZE"):
    file, text = f"<own {name} {arguments}>", f"def {name}({arguments}):\n    return q, q, q\n"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec"), made := {})
    return made[name], file


def test_what_cannot_be_called_is_told_before_triton_is_asked():
    for name in ("attend_parts", "tl", "queries"):
        assert "has a " + name in str(try_own(named(name)[0]))
    for arguments, count in (("q, k", 2), ("self, q", 2), ("q, k, *, v", 2), (", ".join("qabcdefghijkl"), 13)):
        [attempt] = try_own(named("mine", arguments)[0])
        assert f"mine takes {count} arguments; it is called with 12: queries, k, v" in attempt.says
    for arguments in ("q, *rest", ", ".join("qabcdefghijk") + ", more=1"):
        assert "return q, q, q" in module_text(named("mine", arguments)[0])


def test_a_file_that_has_changed_since_has_no_source():
    work, file = named("mine")
    for text in ("def mine(q,\n", "x = = 1\n", "  (\n", ""):
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        [attempt] = try_own(work)
        assert attempt.ok is False and "no source of mine" in attempt.says


@needs_triton
def test_the_reference_runs_and_compiles():
    ran, *compiled = try_own(attend_tiles)
    assert ran.ok and re.fullmatch(r".*(\d\.\de-\d\d in \d+[, ]*){4}part\(s\)", ran.says), ran
    assert [(one.what, one.ok) for one in compiled] == [("compiles for an A100", True), ("compiles for an H100", True)]
    assert str(ran).startswith("runs in ") and ": ok: " in str(ran)


# Several functions in one process: it starts torch and Triton once.
BOTH = """
import json, os, sys
os.environ["TRITON_INTERPRET"] = "1"
import torch
torch.set_num_threads(1)
from autograde.exercises.attend_tiles import EXERCISE
from autograde.exercises.attend_tiles.candidates import changed
from kvlib.gpu import own_process
from kvlib.gpu.own_kernel import module_text

own_process.PARTS, own_process.SMALL = (3,), ([23, 0, 8], 6, 2, 8, 4)

def same():
    # Every expression in Triton and with the stand-in: the largest difference of each.
    import numpy as np
    from kvlib.tiles import pointer_to, tl

    lines = [line for line in EXPRESSIONS.splitlines() if line]
    text = "def each(x, i, out):\\n    n, w = tl.load(i + tl.arange(0, 4)), tl.arange(0, 8)\\n"
    text += "    at = tl.arange(0, 4)[:, None] * 8 + w[None, :]\\n    a = tl.load(x + at)\\n"
    text += "".join(ONE.format(*pair) for pair in enumerate(lines))
    path = f"{sys.argv[1]}/each.py"
    with open(path, "w") as file:
        file.write("import triton\\nimport triton.language as tl\\n\\n\\n@triton.jit\\n" + text)
    x, i = np.random.default_rng(0).normal(size=40).astype("f4"), np.array([1, 2, 3, 4], "i4")
    theirs = torch.full((len(lines), 4, 8), 7.0)
    own_process.load(path).each[(1,)](torch.tensor(x), torch.tensor(i), theirs)
    names, ours = {"tl": tl}, pointer_to(np.full(theirs.numel(), 7.0, "f4"))
    exec(text, names)
    names["each"](pointer_to(x), pointer_to(i), ours)
    mine = ours._memory.values.reshape(theirs.shape)
    with np.errstate(invalid="ignore"):
        apart = np.where(mine == theirs.numpy(), 0, np.abs(mine - theirs.numpy()) / np.abs(mine).clip(1))
    return dict(zip(lines, apart.max(axis=(1, 2)).tolist()))


works = {entry.name: entry.candidate for entry in EXERCISE.variants}
works |= {entry.name: entry.candidate for entry in EXERCISE.mistakes if entry.name in sys.argv[2:]}
works["missing-name"] = changed("missing-name", ("shrink = tl.exp(m - new_m)", "shrink = tl.exp(m - LOG2E)"))
works["one-tile-back"] = changed("one-tile-back", ("return m, l, acc", "return acc"))
found = {}
for name, work in works.items():
    path = f"{sys.argv[1]}/{len(found)}.py"
    with open(path, "w") as file:
        file.write(module_text(work))
    try:
        found[name] = own_process.compare(own_process.load(path), "cpu")
    except Exception as error:
        found[name] = [None, own_process.told(error, path)]
print(json.dumps([found, same()]))
"""
EXPRESSIONS = """
a + n[:, None]
a * 0.1 - w[None, :]
n[:, None] // 3 * 100 + n[:, None] % 3
(-7 // n)[:, None] + (n - 9)[:, None] // 2 * 10
n[:, None] / 4
(n * 600000000)[:, None]
(n.to(tl.int64) * 600000000)[:, None]
(n.to(tl.uint32) * 1500000000 + n)[:, None]
(n.to(tl.uint8) - n)[:, None]
tl.max(a, 0)[None, :]
tl.sum(a, 1)[:, None]
tl.min(a)
tl.sum(a, axis=1, keep_dims=True)
tl.exp(a) + tl.exp2(a) - tl.log(tl.abs(a)) * tl.sqrt(tl.abs(a)) + tl.rsqrt(tl.exp(a))
tl.maximum(a, 0.5) + tl.minimum(a, n[:, None])
tl.where(a > 0, 1, a)
tl.where((a > 0) & (w < 5)[None, :] | ~(n == 2)[:, None], a, -1.0)
tl.dot(a, tl.trans(a), input_precision="ieee").sum(1)[:, None]
tl.trans(tl.reshape(a, [8, 4]))
tl.full([4, 8], -float("inf"), tl.float32)
tl.zeros([4, 1], tl.float32) + tl.cdiv(n, 2)[:, None]
tl.load(x + 8 + at, mask=(n < 3)[:, None], other=-5.0)
tl.load((i + n - 1))[:, None] * (n << 2)[:, None] ^ 3
tl.expand_dims(n, 1) > w[None, :]
a.to(tl.float16)
tl.max(tl.where(a > 9.0, a, -float("inf")), 1)[:, None]
tl.sum((a > 0).to(tl.int32), 1)[:, None]
-a
"""
ONE = "    tl.store(out + {} * 32 + at, tl.broadcast_to({}, [4, 8]).to(tl.float32))\n"
WRONG = ("no-scale", "l-not-shrunk", "the-table-ignored", "whole-blocks", "nan-times-zero", "heads-before-tokens")
REFUSED = {
    "a-block-for-all-ranks": "line 5: `tokens, dims = tl.arange",
    "shrink-along-features": "line 23: `acc = acc * shrink[None, :]",
    "pools-indexed": "line 15: `keys = k[places]`",
    "missing-name": "line 20: `shrink = tl.exp(m - LOG2E)`: NameError: name 'LOG2E' is not defined",
    "one-tile-back": "does it return (m, l, acc)",
}
# What lies behind a mask is 0 in the interpreter, which hides this; on a GPU nobody promises it.
HIDDEN = ("nan-times-zero",)


@needs_triton
def test_variants_and_mistakes_fare_in_triton_as_with_the_stand_in(python, tmp_path):
    given = f"EXPRESSIONS, ONE = {EXPRESSIONS!r}, {ONE!r}\n"
    done = python("-c", given + BOTH, str(tmp_path), *WRONG, *REFUSED)
    assert done.returncode == 0, done.stderr
    found, apart = json.loads(done.stdout.splitlines()[-1])
    assert len(apart) > 20 and not {line: most for line, most in apart.items() if not most < 1e-6}
    for name, (ok, says) in found.items():
        if name in REFUSED:
            assert ok is None and REFUSED[name] in says, (name, says)
        else:
            assert ok is (name not in WRONG or name in HIDDEN), (name, says)
    assert len(found) > len(WRONG) + len(REFUSED) + 8


@needs_triton
def test_a_read_outside_ends_its_own_process_only(tmp_path):
    text = module_text(attend_tiles)
    path = tmp_path / "own.py"
    path.write_text(text.replace("places = slots[:, None] * D", "places = slots[:, None] * 100000000 * D"))
    [attempt] = own_kernel._in_a_process(path, "run", 240)
    assert attempt.ok is False and "outside of memory" in attempt.says
