"""Run the kernel without a GPU: `python -m kvlib.gpu.interpret [--quick]`.

Triton's interpreter executes the kernel with NumPy, program after program: slow, and good for small shapes. It shows
that the kernel calculates the right thing; it says nothing about time, and cannot show a race. Every result is compared
with float64 loops over the same stored numbers, and all 256 FP8 codes with PyTorch's. The exit code is 1 above `LIMIT`.

Run it as a process of its own: in the interpreter, a read outside of a tensor ends the process.
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib.util import find_spec

# Largest error that is accepted, beside half a unit in the last place of the result's own format.
LIMIT = 1e-5

# sequence lengths, H, Hkv, D, block_size
SHAPES = [
    ([37, 192], 8, 2, 64, 16),  # blocks of the usual size; the last one full, and not
    ([1, 0, 17, 3], 9, 3, 80, 3),  # a sequence without tokens; sizes that are no powers of two
    ([70, 5], 4, 4, 128, 4),  # each query head has its own keys
    ([33], 20, 1, 16, 5),  # all query heads share the keys, and they are more than 16
    ([19, 40], 6, 2, 7, 1),  # a head narrower than any tile, a block for each token
]
QUICK_SHAPES = [([70], 4, 2, 16, 16), ([1, 0, 17], 6, 2, 10, 3)]
SPLITS, QUICK_SPLITS = (1, 3, 8), (1, 3)
MODES = ("none", "native", "bits")


def main(argv: list[str] | None = None) -> int:
    """Check all shapes and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two small shapes")
    args = parser.parse_args(argv)
    if find_spec("triton") is None:
        print("triton is not installed: the kernel was not run")
        return 0
    os.environ["TRITON_INTERPRET"] = "1"  # read when triton is imported, which must not have happened yet
    import torch

    torch.set_num_threads(1)
    shapes, splits = (QUICK_SHAPES, QUICK_SPLITS) if args.quick else (SHAPES, SPLITS)
    worst = check_codes()
    print(f"lengths         H  Hkv    D  block  queries   fp8     largest error with {splits} parts")
    for lens, H, Hkv, D, block_size in shapes:
        for dtype in ("float32", "float16", "bfloat16"):
            for fp8 in MODES:
                errors = check_shape(lens, H, Hkv, D, block_size, dtype, fp8, splits)
                name = f"{','.join(map(str, lens)):12}  {H:3}  {Hkv:3}  {D:3}  {block_size:5}  {dtype:8}  {fp8:6}"
                print(name, *(f"{error:8.1e}" for error in errors), sep="  ", flush=True)
                worst = max(worst, *errors)
    print(f"largest error {worst:.1e}, limit {LIMIT:.0e}: {'right' if worst <= LIMIT else 'WRONG'}")
    return 0 if worst <= LIMIT else 1


def check_shape(
    lens: list[int], H: int, Hkv: int, D: int, block_size: int, dtype: str, fp8: str, splits: tuple[int, ...]
) -> list[float]:
    """The largest error for each number of splits. NaN, which would be no larger than any limit, counts as infinite.

    Skipped as an example: it needs triton, in a process that was started with TRITON_INTERPRET=1.

    >>> max(check_shape([3], 2, 1, 16, 2, "float32", "none", splits=(1, 2))) <= LIMIT  # doctest: +SKIP
    True
    """
    import torch

    from kvlib.gpu.cases import beyond_rounding, expected, make_case
    from kvlib.gpu.paged_decode import paged_decode

    case = make_case(lens, H, Hkv, D, block_size, getattr(torch, dtype), fp8 != "none", seed=len(lens) + D)
    right = expected(case)
    mode = None if fp8 == "none" else fp8
    return [beyond_rounding(paged_decode(*case.arguments(), splits=n, fp8=mode), right) for n in splits]


def check_codes() -> float:
    """Decode all 256 FP8 codes by their bits, and compare with PyTorch. Returns 0, or infinity."""
    import torch

    from kvlib.gpu.kernel import decode_codes

    codes, decoded = torch.arange(256, dtype=torch.uint8), torch.empty(256)
    decode_codes[(1,)](codes, decoded, N=256)
    right = codes.view(torch.float8_e4m3fn).float()
    wrong = (decoded.isnan() != right.isnan()) | (decoded.nan_to_num(0) != right.nan_to_num(0))
    wrong |= decoded.signbit() != right.signbit()  # -0.0 is its own code
    print(f"FP8 by bits: {256 - int(wrong.sum())} of 256 codes are PyTorch's")
    return float("inf") if wrong.any() else 0.0


if __name__ == "__main__":
    sys.exit(main())
