"""The lesson's GPU laboratory: bytes held and time of a decode step, with a 16-bit cache and with an FP8 one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from kvlib.gpu.capability import Choice, choose, detect
from kvlib.gpu.cases import Case, expected, make_case, tolerance
from kvlib.gpu.timing import median_seconds

BLOCK_SIZE = 16
# One layer of a Llama-3-8B: H, Hkv, D; and on a CPU something smaller. With sequences and contexts.
GPU_SHAPE, GPU_BATCH, GPU_CONTEXTS = (32, 8, 128), 8, (1024, 4096, 16384)
CPU_SHAPE, CPU_BATCH, CPU_CONTEXTS = (8, 2, 64), 2, (256, 1024)
# Bytes that the GPU must have free, beside the two caches: copies that PyTorch's way makes, and the timing's buffer.
SPARE = 3 << 30


@dataclass(frozen=True)
class Row:
    """One line of the laboratory's table. A figure is None where it was skipped; the note says why."""

    part: str  # "error", "memory" or "time"
    context: int  # tokens of each sequence; 0 for the error, which has several
    sixteen_bit: float | None
    fp8: float | None
    unit: str
    note: str = ""


def laboratory(quick: bool = True) -> list[Row]:
    """Check the machine's way of attending against float64, then measure it. quick: without the longest context.

    Where the check fails, nothing is timed: a wrong step may be as fast as it likes.
    """
    machine = detect()
    return run(choose(machine), machine.free_bytes, quick)


def run(choice: Choice, free_bytes: int, quick: bool) -> list[Row]:
    """The same with a choice of one's own. free_bytes: of the GPU's memory."""
    on_gpu = choice.device == "cuda"
    shape, batch, contexts = (GPU_SHAPE, GPU_BATCH, GPU_CONTEXTS) if on_gpu else (CPU_SHAPE, CPU_BATCH, CPU_CONTEXTS)
    contexts = contexts if quick else (*contexts, contexts[-1] * 4)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the CPU's clock counts one thread
    try:
        choice, first = _working(choice, shape)
        rows = [first]
        right = "WRONG" not in rows[0].note
        for context in contexts:
            needs = 3 * 2 * batch * context * shape[1] * shape[2] * 2 + SPARE  # three times the 16-bit cache
            if on_gpu and needs > free_bytes:
                note = f"skipped: it needs {needs / 2**30:.1f} GiB, {free_bytes / 2**30:.1f} GiB are free"
                rows.append(Row("memory", context, None, None, "bytes", note))
                continue
            rows += _measure(choice, shape, [context] * batch, right)
        return rows
    finally:
        torch.set_num_threads(threads)


def step_of(choice: Choice, case: Case) -> Callable[[], torch.Tensor]:
    """One decode step over a case, by the choice: called, it gives (B, H, D). It checks no block number."""
    if choice.attention == "triton":
        from kvlib.gpu.paged_decode import paged_decode

        fp8 = choice.fp8 if case.k_scale is not None else None
        return lambda: paged_decode(*case.arguments(), fp8=fp8, check=False)
    from kvlib.gpu.torch_decode import torch_decode

    return lambda: torch_decode(*case.arguments(), check=False)


def table(rows: list[Row]) -> str:
    """The rows as text, with how many times smaller or faster FP8 is.

    >>> print(table([Row("memory", 1024, 4096.0, 2112.0, "bytes", "of the tensors")]))
              context          16 bits             FP8  unit          ratio
    memory       1024            4,096           2,112  bytes          1.94  of the tensors
    """
    lines = [f"{'':8}  {'context':>7}  {'16 bits':>14}  {'FP8':>14}  {'unit':12}  {'ratio':>5}"]
    for row in rows:
        wide, narrow = row.sixteen_bit, row.fp8
        digits = {"bytes": ",.0f", "microseconds": ",.1f"}.get(row.unit, ".2g")
        figures = ["-" if x is None else format(x, digits) for x in (wide, narrow)]
        ratio = f"{wide / narrow:.2f}" if row.part != "error" and wide and narrow else ""
        line = f"{row.part:8}  {row.context or '':>7}  {figures[0]:>14}  {figures[1]:>14}  {row.unit:12}  {ratio:>5}"
        lines.append(f"{line}  {row.note}".rstrip())
    return "\n".join(lines)


def _working(choice: Choice, shape: tuple[int, int, int]) -> tuple[Choice, Row]:
    """The choice, or PyTorch's way where the kernel does not even start, with the first row."""
    try:
        return choice, _errors(choice, shape)
    except Exception as error:
        if choice.attention != "triton":
            raise
        choice = replace(choice, attention="torch")
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:80]
        row = _errors(choice, shape)
        return choice, replace(row, note=f"{row.note}; by PyTorch, because the kernel failed ({reason})")


def _errors(choice: Choice, shape: tuple[int, int, int]) -> Row:
    """Largest difference from float64 loops over the same stored numbers, on sequences of several lengths."""
    errors: list[float | None] = []
    note = "largest difference from float64"
    for fp8 in (False, True):
        if fp8 and choice.fp8 == "none":
            errors.append(None)
            note += "; FP8 is skipped: this torch has no float8_e4m3fn"
            continue
        dtype = getattr(torch, choice.dtype)
        case = make_case([1, 0, 37, 130], *shape, BLOCK_SIZE, dtype, fp8, device=choice.device)
        result = step_of(choice, case)().double().cpu().numpy()
        errors.append(error := float(abs(result - expected(case)).max()))
        allowed = tolerance(case, exact_products=choice.attention == "triton")
        if not error <= allowed:  # NaN is not
            note = f"WRONG: {error:.2g} is more than {allowed:.2g}; nothing is timed"
            break
    return Row("error", 0, errors[0], errors[1] if len(errors) > 1 else None, "", note)


def _measure(choice: Choice, shape: tuple[int, int, int], lens: list[int], right: bool) -> list[Row]:
    """Bytes and time of both caches, one after the other."""
    held: list[int | None] = []
    times: list[float | None] = []
    for fp8 in (False, True):
        if fp8 and choice.fp8 == "none":
            held.append(None)
            times.append(None)
            continue
        case, nbytes = _held(choice, shape, lens, fp8)
        held.append(nbytes)
        times.append(1e6 * median_seconds(step_of(choice, case), choice.device, repeats=20) if right else None)
        del case
    on_gpu = choice.device == "cuda"
    note = "as the GPU's allocator says" if on_gpu else "of the tensors"
    rows = [Row("memory", lens[0], held[0], held[1], "bytes", note)]
    if right:
        note = "median, by the GPU's own events" if on_gpu else "median; the CPU's time, no GPU's"
        rows.append(Row("time", lens[0], times[0], times[1], "microseconds", note))
    return rows


def _held(choice: Choice, shape: tuple[int, int, int], lens: list[int], fp8: bool) -> tuple[Case, int]:
    """A case, and the bytes that its keys, values and scales take."""
    before = torch.cuda.memory_allocated() if choice.device == "cuda" else 0
    case = make_case(lens, *shape, BLOCK_SIZE, getattr(torch, choice.dtype), fp8, device=choice.device)
    cache = [t for t in (case.K, case.V, case.k_scale, case.v_scale) if t is not None]
    if choice.device != "cuda":
        return case, sum(t.untyped_storage().nbytes() for t in cache)
    others = sum(-(-t.nbytes // 512) * 512 for t in (case.q, case.block_tables, case.seq_lens))  # it rounds up
    return case, torch.cuda.memory_allocated() - before - others
