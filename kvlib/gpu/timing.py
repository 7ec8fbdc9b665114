"""How long a step takes: on a GPU by events that the device stamps itself, on a CPU by this thread's own time."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch


def median_seconds(step: Callable[[], object], device: str, warm_up: int = 3, repeats: int = 20) -> float:
    """Seconds of a step: the median over `repeats` runs, after `warm_up` others that do not count and may compile.

    On a GPU a large buffer is written before each run. It pushes keys and values out of the cache on the chip, where a
    real step, with all its other layers, would not find them either; and it keeps the GPU busy while the CPU is still
    on its way to launching the step, so that only the step lies between the two events.

    >>> calls = []
    >>> seconds = median_seconds(lambda: calls.append(1), "cpu", warm_up=1, repeats=2)
    >>> len(calls), seconds >= 0
    (3, True)
    """
    for _ in range(warm_up):
        step()
    if device != "cuda":
        return statistics.median(_thread_seconds(step) for _ in range(repeats))
    gpu = torch.cuda.get_device_properties(device)
    size = max(gpu.total_memory // 64, 4 * getattr(gpu, "L2_cache_size", 0))
    buffer = torch.empty(size, dtype=torch.uint8, device=device)
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(repeats)]
    for began, ended in events:
        buffer.zero_()
        began.record()
        step()
        ended.record()
    torch.cuda.synchronize()
    return statistics.median(began.elapsed_time(ended) for began, ended in events) / 1000  # it counts milliseconds


def copy_rate(device: str, nbytes: int = 1 << 30) -> float:
    """Bytes per second that a plain copy reads and writes together: what the memory can do at all."""
    source = torch.zeros(nbytes, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * nbytes / median_seconds(lambda: target.copy_(source), device, repeats=10)


def _thread_seconds(step: Callable[[], object]) -> float:
    began = time.thread_time()
    step()
    return time.thread_time() - began
