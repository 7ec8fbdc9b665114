"""The sizes that the kernel is built for: the same for launching, compiling ahead of time and interpreting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

MAX_SPLITS = 64
# A GPU's matrix units multiply blocks of at least this many rows and columns.
MIN_DOT = 16


@dataclass(frozen=True)
class Plan:
    """One build of the kernel. All sizes are powers of two, as Triton wants them."""

    group: int  # query heads of a KV head, padded
    dim: int  # head_dim, padded
    tile: int  # tokens at a time
    compute: str  # format of the products: "float32", "float16" or "bfloat16"
    num_warps: int = 4
    num_stages: int = 2

    def options(self) -> dict[str, Any]:
        """What Triton's compiler takes, beside the kernel's own sizes."""
        return {"num_warps": self.num_warps, "num_stages": self.num_stages}


def plan(num_heads: int, num_kv_heads: int, head_dim: int, compute: str, matrix_units: bool) -> Plan:
    """The build for a model's heads. compute: the name of the format in which products are made.

    matrix_units: whether the GPU has some that Triton uses: from compute capability 8.0 on, not for float32. Without
    them, 16 rows for a few query heads would mostly be work for nothing.

    >>> plan(num_heads=32, num_kv_heads=8, head_dim=80, compute="bfloat16", matrix_units=True)
    Plan(group=16, dim=128, tile=64, compute='bfloat16', num_warps=4, num_stages=2)
    """
    group, dim = num_heads // num_kv_heads, padded(head_dim, MIN_DOT)
    if matrix_units and compute != "float32":
        return Plan(padded(group, MIN_DOT), dim, 64 if dim <= 128 else 32 if dim <= 256 else 16, compute)
    rows = padded(group, 4)
    return Plan(rows, dim, 32 if rows <= 8 and dim <= 128 else 16, compute)


def padded(size: int, least: int) -> int:
    """The next power of two, and not below `least`."""
    return max(least, 1 << (size - 1).bit_length())


def choose_splits(max_tokens: int, programs: int, processors: int, tile: int) -> int:
    """Parts to cut the context into, so that the GPU has work for all its processors: 1 to MAX_SPLITS.

    max_tokens: tokens that a block table has room for. programs: programs without splitting (B * Hkv). processors: of
    the GPU. A part keeps at least four tiles; below that, writing and merging it costs more than it gains.

    >>> choose_splits(max_tokens=4096, programs=8, processors=132, tile=64), choose_splits(4096, 512, 132, 64)
    (16, 1)
    """
    wanted = -(-2 * processors // max(programs, 1))
    return max(1, min(wanted, max_tokens // (4 * tile), MAX_SPLITS))
