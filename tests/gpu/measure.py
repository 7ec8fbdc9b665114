"""Everything that only a real GPU can show, in one run of under five minutes: `python tests/gpu/measure.py`.

It checks the kernel against float64 in every format that the GPU has, and then times a decode step beside PyTorch's
ways of doing it. One table; each line stands for itself, and a line that fails shows its error and stops nothing. Times
are medians by the GPU's events. "of copy" is the rate at which the step reads keys, values and scales, as a share of
what a plain copy reads and writes in the same run.

Without a GPU it says so, and runs what can be run: Triton's interpreter and its compiler.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch  # noqa: E402

from kvlib.gpu.capability import BF16_FROM, NATIVE_FP8_FROM, Choice, Machine, choose, detect  # noqa: E402
from kvlib.gpu.cases import Case, beyond_rounding, expected, make_case, tolerance  # noqa: E402
from kvlib.gpu.paged_decode import paged_decode  # noqa: E402
from kvlib.gpu.report import Line, Report  # noqa: E402
from kvlib.gpu.timing import copy_rate, median_seconds  # noqa: E402
from kvlib.gpu.torch_decode import torch_decode  # noqa: E402

SHAPE, BLOCK_SIZE = (32, 8, 128), 16  # H, Hkv, D: one layer of a Llama-3-8B
BATCHES, CONTEXTS = (1, 16), (1024, 4096, 16384, 65536)
FLEX_CONTEXTS = (4096, 65536)  # it is compiled for each, which takes its time
SPLITS = (None, 1, 3, 64)  # numbers of parts that each check is made with
REPEATS = 20  # runs that must give the same bits
# Seconds after which nothing more is begun: of the checks, and of all.
CHECK_BUDGET, BUDGET = 130.0, 270.0
DEVICE = "cuda"  # the tests try everything with "cpu", in the interpreter
CHECKS = [
    ([1, 0, 37, 130], 32, 8, 128, 16),
    ([5, 300], 9, 3, 80, 3),
    ([2000], 4, 4, 64, 16),
    ([33, 64], 20, 1, 256, 7),
]


def check(report: Report, choice: Choice, formats: list[str], modes: list[str]) -> None:
    """Every format, way to read FP8 and number of parts against float64; PyTorch's way too."""
    if choice.attention == "triton":
        for name, work in (
            ("all 256 codes by bits", _codes),
            (f"{REPEATS} runs give the same bits", _repeat),
            ("wrong block numbers are not followed", _wrong_blocks),
            ("a pool of more than 2**31 numbers", _large_pool),
            ("another GPU than the current one", _other_gpu),
        ):
            report.add(Line("check", name), work)
    for shape in CHECKS:
        for dtype in formats:
            for fp8 in (False, True):
                ways = [mode for mode in modes if (mode != "none") == fp8] if choice.attention == "triton" else []
                for way in [*ways, "PyTorch"]:
                    name = f"{dtype}{', FP8' if fp8 else ''}, {way if way == 'PyTorch' else 'kernel ' + way}"
                    line = Line("check", name.removesuffix(" none"), len(shape[0]), max(shape[0]))
                    report.add(line, partial(_check, shape=shape, dtype=dtype, fp8=fp8, way=way))


def _check(line: Line, shape: tuple, dtype: str, fp8: bool, way: str) -> None:
    case = make_case(*shape, getattr(torch, dtype), fp8, device=DEVICE)
    right, allowed = expected(case), tolerance(case, exact_products=way != "PyTorch")
    if way == "PyTorch":
        results = [torch_decode(*case.arguments())]
    else:
        mode = way if fp8 else None
        results = [paged_decode(*case.arguments(), splits=n, fp8=mode, check=True) for n in SPLITS]
    _verdict(line, max(_error(result, right) for result in results), allowed)
    line.note += f"; H={shape[1]} Hkv={shape[2]} D={shape[3]} block_size={shape[4]}"


def _error(result: torch.Tensor, right: Any) -> float:
    return beyond_rounding(result.double(), right)  # as float64: no rounding is forgiven


def _verdict(line: Line, error: float, allowed: float) -> None:
    line.note = f"{'right' if error <= allowed else 'WRONG'}: error {error:.1e}, allowed {allowed:.1e}"


def _codes(line: Line) -> None:
    from kvlib.gpu.kernel import decode_codes

    codes = torch.arange(256, dtype=torch.uint8, device=DEVICE)
    decoded = torch.empty(256, device=DEVICE)
    decode_codes[(1,)](codes, decoded, N=256)
    right = codes.cpu().view(torch.float8_e4m3fn).float()
    same = torch.equal(decoded.cpu().nan_to_num(777), right.nan_to_num(777))
    line.note = "right" if same else "WRONG"


def _repeat(line: Line) -> None:
    case = make_case([max(CONTEXTS[0], 100), 17], *SHAPE, BLOCK_SIZE, torch.float16, device=DEVICE)
    first, *others = (paged_decode(*case.arguments(), splits=16) for _ in range(REPEATS))
    line.note = "right" if all(torch.equal(first, other) for other in others) else "WRONG: they differ"


def _wrong_blocks(line: Line) -> None:
    case = make_case([64], *SHAPE, BLOCK_SIZE, torch.float16, device=DEVICE)
    right = expected(replace(case, seq_lens=case.seq_lens // 2))
    case.block_tables[0, 2:] = torch.tensor([-1, 1 << 30])
    _verdict(line, _error(paged_decode(*case.arguments(), check=False), right), tolerance_of(case, 32))


def tolerance_of(case: Case, length: int) -> float:
    return tolerance(replace(case, seq_lens=torch.full_like(case.seq_lens, length)))


def _large_pool(line: Line) -> None:
    """The last blocks of a pool too large for 32-bit offsets."""
    H, Hkv, D = SHAPE
    num_blocks = (1 << 31) // (BLOCK_SIZE * Hkv * D) + 3
    if DEVICE == "cpu" or torch.cuda.mem_get_info()[0] < 8 << 30:
        line.note = "skipped: it needs 8 GiB"
        return
    small = make_case([2 * BLOCK_SIZE], *SHAPE, BLOCK_SIZE, torch.float16, fp8=True, device=DEVICE)
    blocks = small.block_tables[0].long()
    pools = []
    for pool in (small.K, small.V):
        large = torch.empty(num_blocks, *pool.shape[1:], dtype=torch.uint8, device=DEVICE)
        large[-2:] = pool.view(torch.uint8)[blocks]
        pools.append(large.view(torch.float8_e4m3fn))
    scales = []
    for scale in (small.k_scale, small.v_scale):
        large = torch.ones(num_blocks, *scale.shape[1:], device=DEVICE)
        large[-2:] = scale[blocks]
        scales.append(large)
    table = torch.tensor([[num_blocks - 2, num_blocks - 1]], device=DEVICE)
    result = paged_decode(small.q, *pools, table, small.seq_lens, *scales)
    _verdict(line, _error(result, expected(small)), tolerance(small))


def _other_gpu(line: Line) -> None:
    if torch.cuda.device_count() < 2:
        line.note = "skipped: there is one GPU"
        return
    case = make_case([100], *SHAPE, BLOCK_SIZE, torch.float16, device="cuda:1")
    _verdict(line, _error(paged_decode(*case.arguments()), expected(case)), tolerance(case))


def measure(report: Report, choice: Choice, modes: list[str]) -> None:
    """Time a step against context, beside PyTorch's ways."""
    copy = report.add(Line("copy", "1 GiB, read and written"), lambda line: _copy(line))
    dtype = getattr(torch, choice.dtype)
    for batch in BATCHES:
        for context in CONTEXTS:
            for fp8 in (False, True):
                if fp8 and choice.fp8 == "none":
                    continue
                case: list[Case] = []  # made in the first line's work, so that a lack of memory is that line's error
                ways = ["kernel " + mode for mode in modes if (mode != "none") == fp8] * (choice.attention == "triton")
                ways += ["SDPA on gathered pages"] + ["SDPA on dense rows"] * (not fp8)
                ways += ["FlexAttention on dense rows"] * (not fp8 and context in FLEX_CONTEXTS)
                for way in ways:
                    name = f"{'FP8' if fp8 else choice.dtype}, {way.removesuffix(' none')}"

                    def work(line: Line, way: str = way, case: list = case, fp8: bool = fp8) -> None:
                        if not case:
                            lens = [line.context] * line.batch
                            case.append(make_case(lens, *SHAPE, BLOCK_SIZE, dtype, fp8, device=DEVICE))
                        _time(line, case[0], way, copy.gigabytes_per_second)

                    report.add(Line("time", name, batch, context), work)


def _copy(line: Line) -> None:
    rate = copy_rate(DEVICE)
    line.gigabytes_per_second, line.microseconds = rate / 1e9, (2 << 30) / rate * 1e6


def _time(line: Line, case: Case, way: str, copy: float | None) -> None:
    seconds = median_seconds(_step(case, way), DEVICE)
    line.microseconds, line.gigabytes_per_second = seconds * 1e6, case.nbytes() / seconds / 1e9
    if copy:
        line.of_copy = line.gigabytes_per_second / copy


def _step(case: Case, way: str) -> Callable[[], Any]:
    if way.startswith("kernel"):
        mode = way.split()[1]
        return lambda: paged_decode(*case.arguments(), fp8=None if mode == "none" else mode, check=False)
    if way == "SDPA on gathered pages":
        return lambda: torch_decode(*case.arguments(), check=False)
    B, context = case.q.shape[0], int(case.seq_lens[0])
    H, Hkv, D = SHAPE
    k, v = (torch.randn(B, Hkv, context, D, dtype=case.q.dtype, device=DEVICE) for _ in range(2))
    if way.startswith("SDPA"):
        q = case.q.view(B, Hkv, H // Hkv, D)
        return lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v)
    from torch.nn.attention.flex_attention import flex_attention

    flex, q = torch.compile(flex_attention, dynamic=False), case.q.view(B, H, 1, D)
    return lambda: flex(q, k, v, enable_gqa=True)


def without_gpu() -> int:
    """The interpreter and the compiler, each in a process of its own."""
    failed = 0
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    for module, *arguments in (("interpret", "--quick"), ("aot", "80", "90", "--head-dims", "128")):
        command = [sys.executable, "-m", f"kvlib.gpu.{module}", *arguments]
        print("\n" + " ".join(["python", *command[1:]]), flush=True)
        root = Path(__file__).resolve().parents[2]
        failed += subprocess.run(command, cwd=root, env=environment, timeout=BUDGET).returncode != 0
    return 1 if failed else 0


def main(argv: list[str] | None = None) -> int:
    """Run everything that this machine can. The exit code is 1 where a check is wrong or a line failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the lines there")
    args = parser.parse_args(argv)
    machine = detect()
    choice = choose(machine)
    about = _about(machine)
    print(about, *choice.why, sep="\n")
    if choice.device == "cpu":
        print("Nothing is measured: there is no GPU that can be used.")
        return without_gpu()
    formats = ["float32", "float16"] + ["bfloat16"] * (machine.capability >= BF16_FROM)
    modes = ["none"] + ["bits"] * (choice.fp8 != "none") + ["native"] * (machine.capability >= NATIVE_FP8_FROM)
    report = Report(CHECK_BUDGET)
    check(report, choice, formats, modes)
    report.budget = BUDGET
    measure(report, choice, modes)
    bad = [line for line in report.lines if line.note.startswith(("FAILED", "WRONG"))]
    print(f"{time.perf_counter() - report.began:.0f} s; {len(bad)} of {len(report.lines)} lines failed or are wrong")
    if args.json:
        found = {"machine": about, "why": choice.why, "lines": [asdict(line) for line in report.lines]}
        args.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 1 if bad else 0


def _about(machine: Machine) -> str:
    triton = "no triton"
    if machine.has_triton:
        from importlib.metadata import version

        triton = f"triton {version('triton')}"
    name = machine.name or "no GPU"
    return f"{name}, Python {platform.python_version()}, torch {torch.__version__}, CUDA {torch.version.cuda}, {triton}"


if __name__ == "__main__":
    sys.exit(main())
