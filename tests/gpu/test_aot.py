"""The kernel compiles for GPUs that are not here. What the compiled code calculates only a GPU can show."""

from __future__ import annotations

import os

import pytest

pytest.importorskip("torch", reason="torch is missing: see `make torch`")
pytest.importorskip("triton", reason="triton is missing: see the gpu extra")

FEW = """
import sys
from kvlib.gpu import aot
chosen = {few}
aot.variants = lambda capability, head_dims: (aot.Variant(*one, capability >= 80) for one in chosen)
sys.exit(aot.main(["{capability}"]))
"""
MERGE = ("merge_splits", "bfloat16", "none", 80, True)


@pytest.mark.parametrize(
    ("capability", "few"),
    [
        (80, [("attend_split", "bfloat16", "none", 80, True), ("attend_split", "float16", "bits", 128, False), MERGE]),
        (90, [("attend_split", "bfloat16", "native", 80, True), ("attend_split", "float32", "none", 64, False)]),
    ],
)
def test_it_compiles(python, capability, few):
    done = python("-c", FEW.format(capability=capability, few=few))
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == len(few) + 2 and lines[-1] == "all compiled"
    assert " yes " in lines[1]  # 16 bits are multiplied on the matrix units


def test_what_a_gpu_does_not_have_is_found(python):
    """The interpreter would run this: FP8 by instructions, on an A100."""
    few = [("attend_split", "bfloat16", "native", 64, False)]
    done = python("-c", FEW.format(capability=80, few=few))
    assert done.returncode == 1
    assert "FAILED" in done.stdout and "1 failed" in done.stdout


def test_too_much_shared_memory_is_found(python):
    few = [("attend_split", "bfloat16", "none", 64, False)]
    done = python("-c", FEW.format(capability=80, few=few).replace("chosen =", "aot.SHARED = {80: 1}\nchosen ="))
    assert done.returncode == 1
    assert "TOO MUCH SHARED MEMORY" in done.stdout and "1 failed" in done.stdout


LISTED = """
from kvlib.gpu.aot import variants
for capability in (75, 80, 90):
    found = list(variants(capability, (64, 80)))
    print(capability, len(found), sorted({one.compute for one in found}), sorted({one.fp8 for one in found}))
"""


def test_all_variants_are_listed(python):
    assert python("-c", LISTED).stdout.splitlines() == [
        "75 20 ['float16', 'float32'] ['bits', 'none']",
        "80 30 ['bfloat16', 'float16', 'float32'] ['bits', 'none']",
        "90 42 ['bfloat16', 'float16', 'float32'] ['bits', 'native', 'none']",
    ]


CACHE = """
import os
from kvlib.gpu.triton_cache import writable_cache
print(writable_cache(), os.environ["TRITON_CACHE_DIR"])
"""


def test_a_cache_that_cannot_be_written_is_replaced(python, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")  # stops root too, which may write anywhere
    folder, used = python("-c", CACHE, TRITON_CACHE_DIR=str(blocked / "cache")).stdout.split()
    assert folder == used and not folder.startswith(str(blocked)) and os.path.isdir(folder)
    os.rmdir(folder)
    folder, used = python("-c", CACHE, TRITON_CACHE_DIR=str(tmp_path / "fine")).stdout.split()
    assert folder == used == str(tmp_path / "fine") and os.path.isdir(folder)
