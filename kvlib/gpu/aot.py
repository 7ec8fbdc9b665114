"""Compile the kernel for GPUs that are not here: `python -m kvlib.gpu.aot [--head-dims 64,80,128] [75 80 90]`.

Finds what the interpreter lets through: shapes and formats that a GPU does not have, and too much shared memory. It
does not show that the compiled code is right or fast. Needs triton, and no GPU. The exit code is 1 if something fails.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import product
from typing import Any

from kvlib.gpu.capability import BF16_FROM, MATRIX_FROM, NATIVE_FP8_FROM
from kvlib.gpu.plan import MAX_SPLITS, Plan, plan
from kvlib.gpu.triton_cache import writable_cache

# Heads and block size of the builds: H, Hkv, block_size.
SHAPE = 32, 8, 16
NAMES = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}  # Triton's names in signatures
POOLS = {"native": "*fp8e4nv", "bits": "*u8"}
# Shared memory that one program may have on a GPU of this capability, in KiB: CUDA's programming guide, "Compute
# Capabilities".
SHARED = {70: 96, 75: 64, 80: 163, 86: 99, 89: 99, 90: 227, 100: 227, 120: 99}
POINTERS = {"q", "k", "v", "k_scale", "v_scale", "tables", "lens", "out", "largest", "total", "parts"}


@dataclass(frozen=True)
class Variant:
    """One build of one kernel."""

    kernel: str  # "attend_split" or "merge_splits"
    compute: str
    fp8: str
    head_dim: int
    merge: bool

    matrix_units: bool

    def plan(self) -> Plan:
        """The sizes that it is built for."""
        H, Hkv, _ = SHAPE
        return plan(H, Hkv, self.head_dim, self.compute, self.matrix_units)

    def constants(self) -> dict[str, Any]:
        """The values that are built in; a kernel argument that is None is built in too."""
        import triton.language as tl

        (H, Hkv, block_size), built = SHAPE, self.plan()
        if self.kernel == "merge_splits":
            return {"D": self.head_dim, "DP": built.dim, "SP": MAX_SPLITS}
        sizes: dict[str, Any] = {"H": H, "HKV": Hkv, "D": self.head_dim, "GP": built.group, "DP": built.dim}
        sizes |= {"BLOCK_SIZE": block_size, "TILE": built.tile, "FP8": self.fp8, "MERGE": self.merge}
        missing = ["k_scale", "v_scale"] * (self.fp8 == "none") + ["largest", "total"] * (not self.merge)
        return sizes | {"COMPUTE": getattr(tl, self.compute)} | dict.fromkeys(missing)

    def types(self) -> dict[str, str]:
        """Triton's type of each argument that is not built in."""
        rows = "*" + NAMES[self.compute]
        if self.kernel == "merge_splits":
            return {"parts": "*fp32", "largest": "*fp32", "total": "*fp32", "out": rows, "num_splits": "i32"}
        pool = POOLS.get(self.fp8, rows)
        types = {"q": rows, "k": pool, "v": pool, "k_scale": "*fp32", "v_scale": "*fp32", "tables": "*i32"}
        types |= {"lens": "*i32", "out": "*fp32" if self.merge else rows, "largest": "*fp32", "total": "*fp32"}
        return types | {"score_scale": "fp32", "table_width": "i32", "num_blocks": "i32"}


def variants(capability: int, head_dims: tuple[int, ...]) -> Iterator[Variant]:
    """All builds that a GPU of this capability (such as 90) can be asked for.

    head_dims: one for each model that is to be served.

    >>> [one.compute for one in variants(75, (64,)) if one.kernel == "merge_splits"]  # a T4 has no bfloat16
    ['float32', 'float16']
    """
    pair = divmod(capability, 10)
    formats = ["float32", "float16"] + ["bfloat16"] * (pair >= BF16_FROM)
    modes = ["none", "bits"] + ["native"] * (pair >= NATIVE_FP8_FROM)
    for head_dim, compute in product(head_dims, formats):
        for fp8, merge in product(modes, (False, True)):
            yield Variant("attend_split", compute, fp8, head_dim, merge, pair >= MATRIX_FROM)
        yield Variant("merge_splits", compute, "none", head_dim, True, pair >= MATRIX_FROM)


def build(variant: Variant, capability: int) -> tuple[int, bool]:
    """Compile it. Returns the bytes of shared memory it takes, and whether it multiplies on the matrix units.

    capability: such as 90. Needs triton, and no GPU; raises whatever Triton's compiler does.
    """
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from kvlib.gpu import kernel

    function = getattr(kernel, variant.kernel)
    constants, types = variant.constants(), variant.types()
    signature = {name: "constexpr" if name in constants else types[name] for name in function.arg_names}
    # What a launch would find out by itself: torch's memory begins at multiples of 16.
    attrs = {
        (place,): [["tt.divisibility", 16]]
        for place, name in enumerate(function.arg_names)
        if name in POINTERS and name not in constants
    }
    options = variant.plan().options() if variant.kernel == "attend_split" else {}
    source = ASTSource(function, signature, constants, attrs)
    done = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    return done.metadata.shared, "mma" in done.asm["ptx"]


def main(argv: list[str] | None = None) -> int:
    """Compile all variants and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("capabilities", nargs="*", type=int, default=[80, 90], help="such as 80 90")
    parser.add_argument("--head-dims", default="64,80,128")
    args = parser.parse_args(argv)
    if find_spec("triton") is None:
        print("triton is not installed: nothing was compiled")
        return 0
    os.environ.pop("TRITON_INTERPRET", None)  # an interpreted kernel cannot be compiled
    writable_cache()
    head_dims = tuple(map(int, args.head_dims.split(",")))
    failed = 0
    print("capability  kernel        products  fp8     head_dim  parts  shared bytes  matrix units  seconds")
    for capability in args.capabilities:
        for variant in variants(capability, head_dims):
            began = time.perf_counter()
            name = f"{capability:<10}  {variant.kernel:12}  {variant.compute:8}  {variant.fp8:6}  {variant.head_dim:8}"
            name += f"  {'many' if variant.merge else 'one':5}"
            try:
                shared, matrix = build(variant, capability)
            except Exception as error:
                failed += 1
                print(f"{name}  FAILED: {type(error).__name__}: {str(error).strip().splitlines()[-1:]}", flush=True)
                continue
            too_much = shared > SHARED.get(capability, min(SHARED.values())) << 10
            failed += too_much
            took = f"{time.perf_counter() - began:7.1f}" + "  TOO MUCH SHARED MEMORY" * too_much
            print(f"{name}  {shared:12,}  {'yes' if matrix else 'no':12}  {took}", flush=True)
    print(f"{failed} failed" if failed else "all compiled")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
