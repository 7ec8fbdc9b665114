"""What a machine can run of the lesson's GPU laboratory, and why not the rest.

`detect` looks at this machine. `choose` only reasons, so it can be asked about any machine.
"""

from __future__ import annotations

import os
import shutil
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from kvlib.machine import capabilities

# The first compute capabilities of NVIDIA GPUs that have something: 7.0 is a V100, 7.5 a T4, 8.0 an A100, 8.6 an A10,
# 8.9 an L4 or an RTX 4090, 9.0 an H100 or H200, 10.0 a B200.
TRITON_FROM = (7, 0)  # below, Triton makes no code
MATRIX_FROM = (8, 0)  # matrix units that Triton uses
BF16_FROM = (8, 0)  # bfloat16 arithmetic
NATIVE_FP8_FROM = (8, 9)  # instructions that convert FP8

Capability = tuple[int, int]


@dataclass(frozen=True)
class Machine:
    """What `choose` has to know."""

    name: str | None = None  # of the GPU; None where there is none that can be used
    capability: Capability | None = None
    free_bytes: int = 0  # of the GPU's memory
    has_fp8_storage: bool = True  # torch has float8_e4m3fn
    has_triton: bool = True
    has_compiler: bool = True  # Triton builds a small C library for each kernel it launches
    no_gpu: str = "no GPU"  # why none can be used


@dataclass(frozen=True)
class Choice:
    """What to run, and the reasons in words."""

    device: str  # "cuda" or "cpu"
    dtype: str  # of queries and of the 16-bit cache: "bfloat16" or "float16", a name in torch
    fp8: str  # how FP8 is read: "native" = by instructions, "bits" = by shifting bits, "none" = not at all
    attention: str  # "triton" or "torch"
    why: tuple[str, ...]


def detect() -> Machine:
    """This machine, its first GPU. Never raises."""
    found = capabilities()
    has = {
        "has_fp8_storage": found["fp8_storage"],
        "has_triton": found["triton"] is not None,
        "has_compiler": _has_compiler(),
    }
    if found["compute_capability"] is None or found["gpu_error"]:
        reason = (
            found["torch_error"] or found["gpu_error"] or ("no GPU" if found["torch"] else "torch is not installed")
        )
        if found["gpu"]:
            reason = f"the GPU ({found['gpu']}) cannot be used: {reason}"
        return Machine(no_gpu=reason, **has)
    import torch

    return Machine(found["gpu"], found["compute_capability"], torch.cuda.mem_get_info(0)[0], **has)


def choose(machine: Machine) -> Choice:
    """The fastest way that this machine has, with the reason for each step down from it.

    >>> t4 = choose(Machine("Tesla T4", (7, 5), free_bytes=15 << 30))
    >>> t4.device, t4.dtype, t4.fp8, t4.attention
    ('cuda', 'float16', 'bits', 'triton')
    >>> choose(Machine()).why
    ('no GPU: attention runs on the CPU, in PyTorch; its times say nothing about a GPU',)
    """
    fp8 = "bits" if machine.has_fp8_storage else "none"
    why = [] if machine.has_fp8_storage else ["this torch has no float8_e4m3fn: the FP8 cache is left out"]
    if machine.capability is None:
        why.append(f"{machine.no_gpu}: attention runs on the CPU, in PyTorch; its times say nothing about a GPU")
        return Choice("cpu", "bfloat16", fp8, "torch", tuple(why))

    capability, dotted = machine.capability, ".".join(map(str, machine.capability))
    why.insert(0, f"{machine.name}, compute capability {dotted}, {machine.free_bytes / 2**30:.1f} GiB free")
    dtype = "bfloat16" if capability >= BF16_FROM else "float16"
    if dtype == "float16":
        why.append(f"float16 in place of bfloat16: its arithmetic needs 8.0, this GPU has {dotted}")
    attention = "triton"
    if capability < TRITON_FROM:
        why.append(f"PyTorch in place of the Triton kernel: it needs 7.0, this GPU has {dotted}")
        attention = "torch"
    elif not machine.has_triton:
        why.append("PyTorch in place of the Triton kernel: triton is not installed")
        attention = "torch"
    elif not machine.has_compiler:
        why.append("PyTorch in place of the Triton kernel: it needs a C compiler and Python's headers to start kernels")
        attention = "torch"
    if attention == "triton" and capability < MATRIX_FROM:
        why.append("the kernel multiplies without matrix units: Triton uses those from 8.0 on")
    if fp8 != "none":
        if capability >= NATIVE_FP8_FROM:
            fp8 = "native"
        else:
            why.append(f"FP8 is decoded bit by bit: converting it needs 8.9, this GPU has {dotted}")
    return Choice("cuda", dtype, fp8, attention, tuple(why))


def _has_compiler() -> bool:
    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")
    return bool(compiler) and Path(sysconfig.get_paths()["include"], "Python.h").exists()
