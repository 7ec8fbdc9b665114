"""Make a Triton kernel of a function that was written with `kvlib.tiles`, and run it: `print(try_own(attend_tiles))`.

The function's source goes into a file, behind `import triton.language as tl`. Around it stands a kernel that cuts each
sequence into parts, one program for each (sequence, KV head, part), and writes down what the function returns;
`merge_splits` puts the parts together. All of it happens in a process of its own: where there is no GPU in Triton's
interpreter, in which a read outside of a tensor ends the process.
"""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tokenize import TokenError

SECONDS = 180  # of one process: a GPU's first kernel takes a while to be compiled
ROOT = Path(__file__).resolve().parents[2]
NO_TRITON = """YOUR KERNEL WAS NOT RUN: triton is not installed.
It is made for Linux: pip install "triton==3.7.1" beside a CPU build of torch; CUDA builds of torch have it already.
What check("11.4") says does not depend on it."""

HEADER = """from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
"""
WRAPPER = '''

@triton.jit
def attend_parts(
    q,  # (B, H, D) float32
    k,  # (num_blocks, BLOCK_SIZE, HKV, D) float32
    v,
    tables,  # (B, table_width)
    lens,  # (B,)
    parts,  # (B, H, num_parts, D) float32: acc
    largest,  # (B, H, num_parts) float32: m, of powers of two
    total,  # the same: l
    scale,
    table_width,
    H: tl.constexpr,
    HKV: tl.constexpr,
    GP: tl.constexpr,
    D: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
):
    """Grid: (B, HKV, num_parts)."""
    sequence, kv_head, part = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.program_id(2)
    group, dims = tl.arange(0, GP), tl.arange(0, D)
    heads, there = sequence * H + kv_head * (H // HKV) + group, group < H // HKV
    queries = tl.load(q + heads[:, None] * D + dims[None, :], mask=there[:, None], other=0.0)
    length = tl.load(lens + sequence)
    size = tl.cdiv(tl.cdiv(length, BLOCK_SIZE), tl.num_programs(2)) * BLOCK_SIZE  # of a part, in whole blocks
    first = part * size
    last = tl.minimum(first + size, length)
    table = tables + sequence * table_width
    m, l, acc = OWN(queries, k, v, table, first, last, kv_head, scale, HKV, GP, D, BLOCK_SIZE)
    rows = heads * tl.num_programs(2) + part
    tl.store(largest + rows, m * 1.4426950408889634, mask=there)  # merge_splits counts in powers of two
    tl.store(total + rows, l, mask=there)
    tl.store(parts + rows[:, None] * D + dims[None, :], acc, mask=there[:, None])
'''


@dataclass(frozen=True)
class Attempt:
    """What became of one try. ok: None where it could not be tried."""

    what: str
    ok: bool | None
    says: str

    def __str__(self) -> str:
        mark = {True: "ok", False: "FAILED", None: "not tried"}[self.ok]
        return f"{self.what}: {mark}: {self.says}" if self.what else self.says


class Attempts(list):
    """All of them, a line each."""

    def __str__(self) -> str:
        return "\n".join(map(str, self))

    __repr__ = __str__


def source_of(function: Callable) -> str:
    """The text of a function from its `def` on. ValueError where there is none: typed at a prompt, or a lambda."""
    name = getattr(function, "__name__", type(function).__name__)
    try:
        text = textwrap.dedent(inspect.getsource(function))
        [node] = ast.parse(text).body
    except (OSError, TypeError, ValueError, SyntaxError, TokenError):  # the file may have changed since
        node = None
    if not isinstance(node, ast.FunctionDef):
        written = name if name.isidentifier() else "attend_tiles"  # a lambda has no name of its own
        raise ValueError(f"no source of {name} can be found: write it as `def {written}(...)` in a cell or a file")
    lines = text.splitlines()
    for hint in sorted(_hints(node), key=lambda hint: (hint.lineno, hint.col_offset), reverse=True):
        end = hint.end_lineno or hint.lineno  # what was parsed has an end
        before, after = lines[hint.lineno - 1][: hint.col_offset], lines[end - 1][hint.end_col_offset :]
        lines[hint.lineno - 1] = before.rstrip().removesuffix(":").removesuffix("->").rstrip() + after
    return "\n".join(lines[node.lineno - 1 : node.end_lineno]) + "\n"


def _insist_on_call(node: ast.FunctionDef) -> None:
    """ValueError where the kernel around it cannot call it. Triton would say so in other words."""
    wanted, args = re.findall(r"OWN\((.*)\)", WRAPPER)[0].split(", "), node.args
    taken = [one.arg for one in [*args.posonlyargs, *args.args]]
    least = len(taken) - len(args.defaults)
    if not least <= len(wanted) or (len(taken) < len(wanted) and args.vararg is None):
        raise ValueError(
            f"{node.name} takes {len(taken)} arguments; it is called with {len(wanted)}: {', '.join(wanted)}"
        )
    if node.name in set(re.findall(r"\w+", HEADER + WRAPPER)):
        raise ValueError(f"the kernel around your function has a {node.name} of its own: call yours attend_tiles")


def _hints(node: ast.FunctionDef) -> list[ast.expr]:
    """Type hints that Triton would look up: all but tl.constexpr."""
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    found = [*(one.annotation for one in arguments), node.returns]
    return [hint for hint in found if hint is not None and "constexpr" not in ast.unparse(hint)]


def module_text(function: Callable) -> str:
    """A file with the function and the kernel around it. ValueError without its source, and for other arguments."""
    source = source_of(function)
    _insist_on_call(ast.parse(source).body[0])  # type: ignore[arg-type]  # source_of gives a function and nothing else
    return HEADER + source + WRAPPER.replace("OWN", function.__name__)


def try_own(function: Callable, seconds: float = SECONDS) -> Attempts:
    """Run the function as a kernel, compare it with float64, and compile it for GPUs that need not be here.

    Prints as one line for each attempt. Raises nothing for what is wrong with the function.

    >>> print(try_own(len))
    source: FAILED: no source of len can be found: write it as `def len(...)` in a cell or a file
    """
    try:
        text = module_text(function)
    except ValueError as error:
        return Attempts([Attempt("source", False, str(error))])
    if find_spec("triton") is None or find_spec("torch") is None:
        return Attempts([Attempt("", None, NO_TRITON)])
    with tempfile.TemporaryDirectory(prefix="own-kernel-") as folder:
        path = Path(folder, "own.py")
        path.write_text(text, encoding="utf-8")
        return Attempts([one for mode in ("run", "compile") for one in _in_a_process(path, mode, seconds)])


def _in_a_process(path: Path, mode: str, seconds: float) -> list[Attempt]:
    """What `kvlib.gpu.own_process` says of a file."""
    clean = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    paths = [str(ROOT), *filter(None, [clean.get("PYTHONPATH")])]
    command = [sys.executable, "-m", "kvlib.gpu.own_process", str(path), mode]
    environment = {**clean, "PYTHONPATH": os.pathsep.join(paths)}
    try:
        done = subprocess.run(
            command, capture_output=True, encoding="utf-8", errors="replace", timeout=seconds, env=environment
        )
    except subprocess.TimeoutExpired:
        return [Attempt(mode, False, f"stopped after {seconds:g} s: a loop that never ends?")]
    except OSError as error:
        return [Attempt(mode, None, f"no process could be started: {error}")]
    said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"what"')]
    attempts = [Attempt(**one) for one in said]
    if done.returncode < 0 or done.returncode > 128:
        says = "a read or a write outside of memory ended the process. check('11.4') names the offset."
        attempts.append(Attempt(mode, False, says))
    elif not attempts:
        lines = done.stderr.strip().splitlines() or ["it said nothing"]
        attempts.append(Attempt(mode, False, f"the process failed: {lines[-1][:300]}"))
    return attempts
