"""The process in which `kvlib.gpu.own_kernel` runs a reader's kernel: `python -m kvlib.gpu.own_process FILE run`.

Says what it found as lines of JSON. `run` uses the GPU where there is one that Triton can use, else the interpreter;
`compile` needs no GPU.
"""

from __future__ import annotations

import importlib.util
import json
import linecache
import math
import os
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

PARTS = (1, 2, 3, 7)
# lengths, H, Hkv, D, block_size
SMALL = ([37, 0, 80], 6, 2, 16, 16)
LARGE = ([1000, 1, 4096, 37], 32, 8, 128, 16)
GPUS = {80: "an A100", 90: "an H100"}  # compute capabilities that it is compiled for
LONGEST = 300  # letters of a message
POINTERS = {"q": "*fp32", "k": "*fp32", "v": "*fp32", "tables": "*i32", "lens": "*i32"}
POINTERS |= {"parts": "*fp32", "largest": "*fp32", "total": "*fp32"}


def main(path: str, mode: str) -> int:
    """Run or compile the file's kernel."""
    from kvlib.gpu.triton_cache import writable_cache

    if mode == "compile":
        writable_cache()
        return max(_tell(f"compiles for {GPUS[gpu]}", path, partial(_built, path, gpu)) for gpu in GPUS)
    from kvlib.gpu.capability import choose, detect

    choice = choose(detect())
    on_gpu = choice.attention == "triton"
    if not on_gpu:
        os.environ["TRITON_INTERPRET"] = "1"  # read when triton is imported, which has not happened yet
    import torch

    torch.set_num_threads(1)
    writable_cache()
    device = "cuda" if on_gpu else "cpu"
    where = torch.cuda.get_device_name() if on_gpu else "Triton's interpreter"
    failed = _tell(f"runs in {where}", path, lambda: compare(load(path), device))
    if on_gpu and not failed:
        failed = _tell(f"time on {where}", path, lambda: measure(load(path)))
    return failed


def load(path: str) -> Any:
    """The file as a module."""
    spec = importlib.util.spec_from_file_location("own", path)
    module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]  # a .py file has a spec,
    spec.loader.exec_module(module)  # type: ignore[union-attr]  # and its spec has a loader
    return module


def launch(module: Any, case: Any, num_parts: int) -> Any:
    """One decode step by the module's kernel: (B, H, D)."""
    import torch

    from kvlib.gpu.kernel import merge_splits
    from kvlib.gpu.plan import padded

    (B, H, D), (_, block_size, Hkv, _) = case.q.shape, case.K.shape
    device, out = case.q.device, torch.full_like(case.q, math.nan)
    parts = torch.full((B, H, num_parts, D), math.nan, device=device)
    largest, total = (torch.full((B, H, num_parts), math.nan, device=device) for _ in range(2))
    module.attend_parts[(B, Hkv, num_parts)](
        case.q, case.K, case.V, case.block_tables, case.seq_lens, parts, largest, total, 1 / math.sqrt(D),
        case.block_tables.shape[1], H=H, HKV=Hkv, GP=padded(H // Hkv, 1), D=D, BLOCK_SIZE=block_size,
    )  # fmt: skip
    merge_splits[(B * H,)](parts, largest, total, out, num_parts, D=D, DP=D, SP=padded(num_parts, 2))
    return out


def compare(module: Any, device: str) -> tuple[bool, str]:
    """Whether the kernel's output is attention in float64, for every number of parts."""
    from kvlib.gpu.cases import beyond_rounding, expected, make_case
    from kvlib.gpu.interpret import LIMIT

    case = make_case(*(LARGE if device == "cuda" else SMALL), device=device)
    right = expected(case)
    errors = [beyond_rounding(launch(module, case, n), right) for n in PARTS]
    told = ", ".join(f"{error:.1e} in {n}" for n, error in zip(PARTS, errors, strict=True))
    says = f"largest difference from float64: {told} part(s)"
    if LIMIT < max(errors) < 0.1 and device == "cuda":
        says += '; tl.dot rounds to ten bits unless it is told input_precision="ieee"'
    return max(errors) <= LIMIT, says


def measure(module: Any) -> tuple[bool, str]:
    """The time of a decode step, beside the course's own kernel on the same numbers."""
    from kvlib.gpu.cases import make_case
    from kvlib.gpu.paged_decode import paged_decode
    from kvlib.gpu.timing import median_seconds

    case = make_case([4096] * 4, *LARGE[1:], device="cuda")
    found: list[tuple[str, Callable[[], Any]]] = []
    for n in (1, 8):
        found.append((f"yours in {n} part(s)", partial(launch, module, case, n)))
    found.append(("kvlib's own", lambda: paged_decode(*case.arguments(), check=False)))
    times = [f"{name} {1e6 * median_seconds(step, 'cuda'):,.0f}" for name, step in found]
    return True, f"microseconds for 4 sequences of 4,096 tokens, float32: {', '.join(times)}"


def build(module: Any, capability: int) -> tuple[bool, str]:
    """Compile the kernel for a GPU that need not be here."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from kvlib.gpu.aot import SHARED

    _, H, Hkv, D, block_size = LARGE
    constants = {"H": H, "HKV": Hkv, "GP": H // Hkv, "D": D, "BLOCK_SIZE": block_size}
    types = {**POINTERS, "scale": "fp32", "table_width": "i32", **dict.fromkeys(constants, "constexpr")}
    names = module.attend_parts.arg_names
    attrs = {(i,): [["tt.divisibility", 16]] for i, name in enumerate(names) if name in POINTERS}
    source = ASTSource(module.attend_parts, {name: types[name] for name in names}, constants, attrs)
    began = time.perf_counter()
    done = triton.compile(source, target=GPUTarget("cuda", capability, 32))
    took, shared = time.perf_counter() - began, done.metadata.shared
    says = f"{shared:,} bytes of shared memory, of {SHARED[capability] << 10:,}; {took:.1f} s"
    return shared <= SHARED[capability] << 10, says


def _built(path: str, capability: int) -> tuple[bool, str]:
    return build(load(path), capability)


def _tell(what: str, path: str, work: Callable[[], tuple[bool, str]]) -> int:
    try:
        ok, says = work()
    except (Exception, SystemExit) as error:  # exit() would leave nothing said
        ok, says = False, told(error, path)
    print(json.dumps({"what": what, "ok": ok, "says": says}), flush=True)
    return 0 if ok else 1


def told(error: BaseException, path: str) -> str:
    """An error of the reader's function in one line, with the line of the function that it comes from.

    >>> told(TimeoutError("too slow"), "own.py")
    'TimeoutError: too slow (is it called, and does it return (m, l, acc), as the text says?)'
    """
    chain = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) is not None and cause not in chain:
        chain.append(cause)
    place = ""
    for one in chain:  # from the outermost to the cause
        place = _place(one, path) or place
    root = chain[-1]
    message = getattr(root, "error_message", None) or str(root)
    text = " ".join(f"{type(root).__name__}: {message}".split())[:LONGEST]
    return f"{place}: {text}" if place else f"{text} (is it called, and does it return (m, l, acc), as the text says?)"


def _place(error: BaseException, path: str) -> str:
    node, source = getattr(error, "node", None), getattr(error, "src", None)
    if node is not None and hasattr(node, "lineno") and source:  # the compiler counts from the function's first line
        lines = source.split("\n")
        name = lines[0].removeprefix("def ").split("(")[0]
        return "" if name == "attend_parts" else f"{name}, line {node.lineno}: `{lines[node.lineno - 1].strip()}`"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    if not frames or frames[-1].name == "attend_parts":
        return ""
    text = linecache.getlines(path)
    first = next((n for n, line in enumerate(text, 1) if line.startswith(f"def {frames[-1].name}(")), 1)
    number = frames[-1].lineno or first
    return f"{frames[-1].name}, line {number - first + 1}: `{text[number - 1].strip()}`"


if __name__ == "__main__":
    sys.exit(main(str(Path(sys.argv[1])), sys.argv[2]))
