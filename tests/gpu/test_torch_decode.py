"""The fallback against float64 loops, and what both ways refuse."""

from __future__ import annotations

import os

import pytest

torch = pytest.importorskip("torch", reason="torch is missing: see `make torch`")

from kvlib.gpu.arguments import check_arguments, check_blocks  # noqa: E402
from kvlib.gpu.cases import beyond_rounding, dense, expected, make_case, tolerance  # noqa: E402
from kvlib.gpu.paged_decode import paged_decode  # noqa: E402
from kvlib.gpu.torch_decode import torch_decode  # noqa: E402

SHAPES = [([37, 64, 0, 1], 8, 2, 16, 16), ([7, 5], 6, 3, 10, 3), ([9], 4, 4, 7, 1), ([11, 2], 5, 1, 8, 4)]


@pytest.mark.parametrize("fp8", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_against_float64(shape, dtype, fp8):
    case = make_case(*shape, dtype, fp8)
    out = torch_decode(*case.arguments())
    assert out.shape == case.q.shape and out.dtype == dtype
    assert beyond_rounding(out.double(), expected(case)) <= tolerance(case, exact_products=False)


def test_in_float32_it_is_exact():
    case = make_case(*SHAPES[0])
    assert beyond_rounding(torch_decode(*case.arguments()), expected(case)) < 1e-6


def test_nothing_passed_in_changes_and_int64_will_do():
    case = make_case(*SHAPES[1], torch.float32, fp8=True)
    before = [t.clone() for t in case.arguments()]
    out = torch_decode(*case.arguments())
    for now, then in zip(case.arguments(), before, strict=True):
        assert torch.equal(now.contiguous().view(torch.uint8), then.contiguous().view(torch.uint8))
    case.block_tables, case.seq_lens = case.block_tables.long(), case.seq_lens.long()
    assert torch.equal(torch_decode(*case.arguments()), out)


def test_a_wrong_block_is_not_followed_when_nobody_looks():
    case = make_case([12], 4, 2, 8, 4)
    short = make_case([12], 4, 2, 8, 4)
    short.seq_lens[0] = 4
    case.block_tables[0, 1:] = torch.tensor([-1, 1 << 30])
    out = torch_decode(*case.arguments(), check=False)
    assert beyond_rounding(out, expected(short)) < 1e-6


def test_no_sequences():
    case = make_case([3], 4, 2, 8, 4)
    q, K, V, tables, lens, _, _ = case.arguments()
    assert torch_decode(q[:0], K, V, tables[:0], lens[:0]).shape == (0, 4, 8)


def test_a_case_is_what_it_says():
    """Nothing but the held slots is a number, all codes are met, and blocks lie scattered."""
    case = make_case([13, 6], 4, 2, 64, 4, fp8=True)
    slots = sum(int((~scale.isnan()).all(-1).sum()) for scale in (case.k_scale, case.v_scale))
    assert slots == 2 * (13 + 6)
    assert int((~case.K.float().isnan()).all(-1).all(-1).sum()) == 13 + 6
    codes = torch.cat([pool.view(torch.uint8).flatten() for pool in (case.K, case.V)])
    assert len(codes.unique()) == 255  # 254 numbers, and the code that fills the rest
    assert case.block_tables[1].tolist()[2:] == [-1, -1]
    blocks = case.block_tables[case.block_tables >= 0].tolist()
    assert len(set(blocks)) == 6 and blocks != sorted(blocks)
    k, v = dense(case, 0, 13)
    assert k.shape == v.shape == (13, 2, 64) and abs(k).max() < 448 * 0.011
    assert case.nbytes() == 19 * 2 * (2 * 64 + 2 * 4)


def arguments(**changes):
    given = dict(zip(("q", "K", "V", "block_tables", "seq_lens", "k_scale", "v_scale"), CASE.arguments(), strict=True))
    return given | changes


CASE = make_case([5, 3], 4, 2, 8, 4)
SCALE = torch.ones(CASE.K.shape[:3])
FP8 = {name: CASE.K.to(torch.float8_e4m3fn) for name in ("K", "V")}
REFUSED = {
    "q is (B, H, D)": {"q": CASE.q[0]},
    "K is": {"V": CASE.V[:-1]},
    "queries have 7 numbers, keys 8": {"q": CASE.q[..., :7]},
    "3 query heads cannot share 2": {"q": CASE.q[:, :3]},
    "block_tables is (2, blocks)": {"block_tables": CASE.block_tables[:1]},
    "seq_lens is (2,)": {"seq_lens": CASE.seq_lens[:1]},
    "seq_lens holds int32 or int64, not torch.float32": {"seq_lens": CASE.seq_lens.float()},
    "q is float32, float16 or bfloat16": {"q": CASE.q.double()},
    "pools are torch.float32": {"q": CASE.q.half()},
    "k_scale is given with FP8 pools and only with them": {"k_scale": SCALE},
    "v_scale is given with FP8": FP8 | {"k_scale": SCALE},
    "k_scale is (5, 4, 2) float32, not (5, 4)": FP8 | {"k_scale": SCALE[..., 0], "v_scale": SCALE},
    "nothing to attend to": {"K": CASE.K[:0], "V": CASE.V[:0]},
    "sequence 0 has 9 tokens; its table has room for 0 to 8": {"seq_lens": CASE.seq_lens + 4},
    "sequence 0 has -5 tokens": {"seq_lens": -CASE.seq_lens},
    "block 9 at place 0 of sequence 0 is not one of 0 to 4": {"block_tables": torch.full((2, 2), 9)},
    "block -1 at place 0 of sequence 0": {"block_tables": torch.full((2, 2), -1)},
}


@pytest.mark.parametrize("says", REFUSED)
def test_refusals(says):
    with pytest.raises(ValueError) as error:
        torch_decode(**arguments(**REFUSED[says]))
    assert says in str(error.value)


def test_tensors_on_two_devices_are_refused():
    given = arguments(seq_lens=torch.empty(2, dtype=torch.int32, device="meta"))
    with pytest.raises(ValueError, match=r"one device, not on \['cpu', 'meta'\]"):
        check_arguments(**given)


def test_a_table_may_hold_anything_after_the_last_block():
    check_blocks(torch.tensor([[0, -1], [1, 99]]), torch.tensor([4, 0]), num_blocks=2, block_size=4)


@pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="this process interprets kernels")
def test_the_kernel_refuses_a_cpu_before_it_looks_for_triton():
    with pytest.raises(ValueError, match="torch_decode"):
        paged_decode(*CASE.arguments())
    with pytest.raises(ValueError, match="splits is 1 to 64, not 0"):
        paged_decode(*CASE.arguments(), splits=0)
    with pytest.raises(ValueError, match="fp8 is 'native' or 'bits'"):
        paged_decode(*CASE.arguments(), fp8="fast")
    with pytest.raises(ValueError, match="K must be contiguous"):
        paged_decode(**arguments(K=CASE.K.transpose(1, 2).contiguous().transpose(1, 2)))
