"""GPUs, with the three numbers that sizing needs: memory, bandwidth, and arithmetic."""

from __future__ import annotations

from dataclasses import dataclass

GB = 10**9
TB = 10**12
TERA = 10**12


@dataclass(frozen=True)
class Gpu:
    """What the vendor prints. Memory in bytes (the vendor's GB are 10**9), bandwidth in bytes/s, peaks in FLOP/s.

    `flops`: dense matrix products in 16 bit. `fp8_flops`: the same in FP8, or None where the GPU has no FP8. Data
    sheets often print twice as much, for sparse matrices; these numbers are the dense ones.
    `bf16`: whether it calculates in bfloat16.
    """

    name: str
    memory: int
    bandwidth: int
    flops: int
    fp8_flops: int | None
    source: str
    bf16: bool = True


GPUS = (
    Gpu("T4", 16 * GB, 320 * GB, 65 * TERA, None, "NVIDIA T4 product brief and Turing white paper", bf16=False),
    Gpu("L4", 24 * GB, 300 * GB, 121 * TERA, 242 * TERA, "NVIDIA L4 data sheet, sparse peaks halved"),
    Gpu("L40S", 48 * GB, 864 * GB, 362 * TERA, 733 * TERA, "NVIDIA L40S data sheet"),
    Gpu("A100-40GB", 40 * GB, 1555 * GB, 312 * TERA, None, "NVIDIA A100 data sheet, SXM 40 GB"),
    Gpu("A100-80GB", 80 * GB, 2039 * GB, 312 * TERA, None, "NVIDIA A100 data sheet, SXM 80 GB"),
    Gpu("H100", 80 * GB, 3350 * GB, 989 * TERA, 1979 * TERA, "NVIDIA H100 data sheet, SXM, sparse peaks halved"),
    Gpu("H100-PCIe", 80 * GB, 2 * TB, 756 * TERA, 1513 * TERA, "NVIDIA H100 data sheet, PCIe, sparse peaks halved"),
    Gpu("H200", 141 * GB, 4800 * GB, 989 * TERA, 1979 * TERA, "NVIDIA H200 data sheet, SXM, sparse peaks halved"),
    Gpu(
        "B200", 180 * GB, 8 * TB, 2250 * TERA, 4500 * TERA, "NVIDIA DGX B200 data sheet, one of 8, sparse peaks halved"
    ),
)
ALIASES = {"h100sxm": "H100", "h100sxm5": "H100", "h200sxm": "H200"}


def find_gpu(name: str) -> Gpu:
    """The GPU of this name. Case, spaces, hyphens and underscores do not matter. ValueError names the known ones.

    >>> find_gpu("h100").memory, find_gpu("a100 80gb").bandwidth
    (80000000000, 2039000000000)
    """
    wanted = _plain(name) if isinstance(name, str) else ""
    for gpu in GPUS:
        if wanted in (_plain(gpu.name), _plain(f"NVIDIA {gpu.name}")) or ALIASES.get(wanted) == gpu.name:
            return gpu
    raise ValueError(f"no GPU {name!r} in the table: there are {', '.join(gpu.name for gpu in GPUS)}")


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())
