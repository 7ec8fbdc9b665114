"""The kernel in Triton's interpreter, in a process of its own."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("torch", reason="torch is missing: see `make torch`")
pytest.importorskip("triton", reason="triton is missing: see the gpu extra")


def test_against_float64(python):
    done = python("-m", "kvlib.gpu.interpret", "--quick")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "256 of 256 codes" in done.stdout
    assert len(re.findall(r"(?:native|bits|none)(?:\s+\d\.\de[-+]\d\d){2}$", done.stdout, re.M)) == 18
    assert done.stdout.splitlines()[-1].endswith("right")


SAME = """
import torch
from dataclasses import replace
from kvlib.gpu.cases import beyond_rounding, expected, make_case, tolerance
from kvlib.gpu.paged_decode import paged_decode

case = make_case([12, 5], 6, 2, 10, 4)
before = [t.clone() for t in case.arguments()[:5]]
out = paged_decode(*case.arguments())
assert beyond_rounding(out, expected(case)) < 1e-6
assert torch.equal(out, paged_decode(*replace(case, block_tables=case.block_tables.long(),
                                              seq_lens=case.seq_lens.long()).arguments()))
odd = replace(case, q=case.q.transpose(0, 1).contiguous().transpose(0, 1))
assert not odd.q.is_contiguous() and torch.equal(out, paged_decode(*odd.arguments()))
for now, then in zip(case.arguments(), before):
    assert torch.equal(now.nan_to_num(7), then.nan_to_num(7))

# Unchecked, a wrong block number is not followed: its tokens are not there.
short = replace(case, seq_lens=torch.tensor([4, 5]))
case.block_tables[0, 1:] = torch.tensor([-1, 1 << 30])
assert beyond_rounding(paged_decode(*case.arguments(), check=False), expected(short)) < 1e-6
assert beyond_rounding(paged_decode(*case.arguments(), check=False, splits=5), expected(short)) < 1e-6
case.block_tables[:] = -1
assert not paged_decode(*case.arguments(), check=False, splits=2).any()
# Nor are tokens that the table has no room for.
case = make_case([8, 3], 6, 2, 10, 4)
long = replace(case, seq_lens=torch.tensor([1000, 3]))
assert beyond_rounding(paged_decode(*long.arguments(), check=False), expected(case)) < 1e-6
try:
    paged_decode(*long.arguments())
except ValueError as error:
    assert "1000 tokens" in str(error)
else:
    raise AssertionError("not refused")

# A value's scale that float16 could not hold beside the others, and scales that are zero.
case = make_case([30], 4, 2, 16, 4, fp8=True)
case.v_scale *= 10.0 ** -torch.arange(case.v_scale[..., 0].numel()).view(case.v_scale.shape[:2])[..., None].clamp(max=9)
assert beyond_rounding(paged_decode(*case.arguments()), expected(case)) < 1e-6
case.v_scale.zero_()
assert not paged_decode(*case.arguments()).any()

# A number that is none is not hidden.
case = make_case([5, 6], 4, 2, 16, 4)
case.K[case.block_tables[0, 0], 2, 1, 3] = float("nan")
out = paged_decode(*case.arguments(), splits=2)
assert out[0, 2:].isnan().all() and not out[0, :2].isnan().any() and not out[1].isnan().any()
assert paged_decode(case.q[:0], case.K, case.V, case.block_tables[:0], case.seq_lens[:0]).shape == (0, 4, 16)
print("all the same")
"""


def test_odd_arguments(python):
    done = python("-c", SAME, TRITON_INTERPRET="1")
    assert done.stdout == "all the same\n", done.stderr


MISSING = """
import sys
sys.modules["triton"] = None
import kvlib.gpu.interpret, kvlib.gpu.aot, kvlib.gpu.lab, kvlib.gpu.paged_decode, kvlib.gpu.torch_decode
for module in (kvlib.gpu.interpret, kvlib.gpu.aot):
    module.find_spec = lambda name: None
    assert module.main([]) == 0
"""


def test_without_triton_both_checks_say_so(python):
    done = python("-c", MISSING)
    says = [f"triton is not installed: {what}" for what in ("the kernel was not run", "nothing was compiled")]
    assert done.stdout.splitlines() == says
    assert done.stderr == ""
