"""Codes of eight bits against the definition of the format: all of them, all halves between them, and all scales."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from kvlib.fp8 import E4M3_MAX, from_fp8, scales, to_fp8  # noqa: E402

FACTS = json.loads((Path(__file__).parents[2] / "data" / "facts_i.json").read_text(encoding="utf-8"))
FIGURES = {row["id"]: row["figure"] for row in FACTS}


def decoded(code: int, exponent_bits: int = 4, infinities: bool = False) -> float:
    """What a code stands for, bit by bit. E4M3 has no infinity and one NaN of each sign; E5M2 is like FP16."""
    fraction_bits = 7 - exponent_bits
    sign = -1.0 if code & 128 else 1.0
    exponent, fraction = (code & 127) >> fraction_bits, (code & 127) % (1 << fraction_bits)
    bias, last = (1 << (exponent_bits - 1)) - 1, (1 << exponent_bits) - 1
    if infinities and exponent == last:
        return sign * math.inf if fraction == 0 else math.nan
    if not infinities and code & 127 == 127:
        return math.nan
    if exponent == 0:
        return sign * fraction * 2.0 ** (1 - bias - fraction_bits)
    return sign * (1 + fraction / (1 << fraction_bits)) * 2.0 ** (exponent - bias)


POSITIVE = [decoded(code) for code in range(127)]  # they grow with the code


def nearest(value: float) -> float:
    """The nearest number, of two the one whose code is even."""
    size = min(abs(value), POSITIVE[-1])
    _, _, best = min((abs(size - number), code % 2, number) for code, number in enumerate(POSITIVE))
    return math.copysign(best, value)


def one(*axes: int) -> torch.Tensor:
    return torch.ones(axes)


def test_the_figures_say_what_they_are_of():
    for row in FACTS:
        assert set(row) == {"id", "setting", "figure", "source"}
        assert row["source"] == "course fact sheet"
    assert len(FIGURES) == len(FACTS)


def test_all_256_codes_stand_for_what_their_bits_say():
    codes = torch.arange(256, dtype=torch.int64).to(torch.uint8)
    np.testing.assert_array_equal(from_fp8(codes.view(torch.float8_e4m3fn), one(1)), [decoded(c) for c in range(256)])
    e5m2 = [decoded(code, 5, infinities=True) for code in range(256)]
    np.testing.assert_array_equal(codes.view(torch.float8_e5m2).float(), e5m2)


def test_published_figures():
    numbers = [decoded(code) for code in range(256)]
    assert E4M3_MAX == FIGURES["I1"]["float8_e4m3fn"] == max(POSITIVE) == torch.finfo(torch.float8_e4m3fn).max
    e5m2 = [decoded(code, 5, infinities=True) for code in range(256)]
    assert (
        FIGURES["I1"]["float8_e5m2"] == max(n for n in e5m2 if math.isfinite(n)) == torch.finfo(torch.float8_e5m2).max
    )
    assert FIGURES["I2"]["numbers"] == len({number for number in numbers if math.isfinite(number)})
    assert FIGURES["I2"]["nan"] == sum(map(math.isnan, numbers))
    assert FIGURES["I2"]["infinite"] == sum(map(math.isinf, numbers))
    assert FIGURES["I3"] == {"normal": decoded(8), "smallest": decoded(1)}
    codes = to_fp8(torch.randn(3, 4), one(1, 1))
    assert codes.nbytes == FIGURES["I4"]["part"] * torch.zeros(3, 4, dtype=torch.float16).nbytes


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [1.0, 0.25, 8.0])
def test_halfway_the_even_code_is_taken(dtype, scale):
    halves = [(a + b) / 2 for a, b in itertools.pairwise(POSITIVE)]
    values = [sign * half for half in halves for sign in (1, -1)]
    got = to_fp8(scale * torch.tensor(values, dtype=dtype), torch.full((1,), scale, dtype=dtype))
    assert got.dtype == torch.float8_e4m3fn
    assert got.float().tolist() == [nearest(value) for value in values]


@pytest.mark.parametrize("off", [2.0**-8, -(2.0**-8), 2.0**-11, -(2.0**-11), 2.0**-16, -(2.0**-16)])
def test_beside_a_half_the_nearer_number_is_taken(off):
    values = [sign * (a + b) / 2 * (1 + off) for a, b in itertools.pairwise(POSITIVE) for sign in (1, -1)]
    assert to_fp8(torch.tensor(values), one(1)).float().tolist() == [nearest(value) for value in values]


def test_numbers_stay_what_they_are():
    codes = torch.arange(256, dtype=torch.int64).to(torch.uint8).view(torch.float8_e4m3fn)
    again = to_fp8(from_fp8(codes, one(1)), one(1))
    assert torch.equal(again.view(torch.uint8), codes.view(torch.uint8))


@pytest.mark.parametrize("value", [448.0, 449.0, 464.0, 465.0, 480.0, 57344.0, 1e30, math.inf])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_is_too_large_becomes_the_largest(value, dtype):
    x = torch.tensor([value, -value], dtype=dtype)
    assert to_fp8(x, torch.ones(1, dtype=dtype)).float().tolist() == [448.0, -448.0]
    assert to_fp8(x, torch.full((1,), 0.5, dtype=dtype)).float().tolist() == [448.0, -448.0]


def test_zeros_and_what_is_no_number():
    codes = to_fp8(torch.tensor([0.0, -0.0, math.nan]), one(1))
    assert codes.view(torch.uint8)[:2].tolist() == [0, 128]
    assert codes.isnan().tolist() == [False, False, True]


@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 1, 1), (2, 3, 1), (2, 1, 5)])
def test_each_number_is_divided_by_its_own_scale(draw, shape):
    """And multiplied by it when it is read: off by at most a sixteenth of itself, or half the smallest step."""
    x, scale = 20 * draw(2, 3, 5), 2.0 ** draw(*shape)
    before = x.clone(), scale.clone()
    codes = to_fp8(x, scale)
    back = from_fp8(codes, scale)
    for index in itertools.product(*map(range, x.shape)):
        own = float(scale.expand(x.shape)[index])
        assert float(codes[index]) == nearest(float(x[index]) / own)
        assert float(back[index]) == float(codes[index]) * own
        assert abs(float(back[index]) - float(x[index])) <= max(abs(float(x[index])) / 16, own * 2.0**-10)
    assert torch.equal(x, before[0])
    assert torch.equal(scale, before[1])


def test_the_scales_decide_the_type_of_what_is_read():
    codes = to_fp8(torch.tensor([1.5, 2.0]), one(1))
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        back = from_fp8(codes, torch.tensor([2.0], dtype=dtype))
        assert back.dtype == dtype
        assert back.tolist() == [3.0, 4.0]


def by_hand(x, per):
    """The scale of each number's group, number by number."""
    largest = {}
    for h, s, d in itertools.product(*map(range, x.shape)):
        owner = {"tensor": (), "head": (h,), "token": (h, s), "channel": (h, d)}[per]
        largest[owner] = max(largest.get(owner, 0.0), abs(float(x[h, s, d])))
    return {owner: value / 448 if value else 1.0 for owner, value in largest.items()}


SHAPES = {"tensor": (1, 1, 1), "head": (3, 1, 1), "token": (3, 5, 1), "channel": (3, 1, 7)}


@pytest.mark.parametrize("per", SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_scales_number_by_number(draw, per, dtype):
    x = draw(3, 5, 7).to(dtype)
    x[1], x[0, 2], x[2, :, 4], x[2, 1, 1] = 0.0, 0.0, 0.0, 0.0
    before = x.clone()
    got = scales(x, per)
    assert got.shape == SHAPES[per]
    assert got.dtype == dtype
    want = by_hand(x, per)
    for h, s, d in itertools.product(*map(range, x.shape)):
        owner = {"tensor": (), "head": (h,), "token": (h, s), "channel": (h, d)}[per]
        assert float(got.expand(x.shape)[h, s, d]) == pytest.approx(want[owner], rel=1e-6)
    assert torch.equal(x, before)


@pytest.mark.parametrize("per", SHAPES)
def test_the_largest_lands_on_the_last_number(draw, per):
    x = draw(3, 5, 7)
    codes = to_fp8(x, scales(x, per)).float().abs()
    assert codes.max() == 448.0
    axes = {"tensor": (0, 1, 2), "head": (1, 2), "token": (2,), "channel": (1,)}[per]
    assert (codes.amax(axes) == 448.0).all()


def test_a_batch_keeps_its_sequences_apart(draw):
    x = draw(2, 3, 5, 7)
    for per, shape in SHAPES.items():
        got = scales(x, per)
        assert got.shape == (2, *shape)
        assert torch.equal(got, torch.stack([scales(x[0], per), scales(x[1], per)]))


@pytest.mark.parametrize("per", SHAPES)
def test_nothing_but_zeros_comes_back_as_zeros(per):
    x = torch.zeros(3, 5, 7)
    assert (scales(x, per) == 1).all()
    assert (from_fp8(to_fp8(x, scales(x, per)), scales(x, per)) == 0).all()


@pytest.mark.parametrize("size", [1e-44, 1e-30, 1e30])
def test_tiny_and_huge_numbers_have_finite_scales(size):
    """Where a scale would underflow to 0 it is 1: the numbers become 0, not NaN."""
    x = torch.full((1, 2, 3), size)
    scale = scales(x, "token")
    assert scale.isfinite().all()
    assert (scale > 0).all()
    assert not to_fp8(x, scale).isnan().any()


def test_refusals():
    x = torch.ones(2, 3, 4)
    with pytest.raises(ValueError, match="tensor, head, token, channel, got 'row'"):
        scales(x, "row")
    with pytest.raises(ValueError, match=r"must be \(Hkv, S, D\), got \(3, 4\)"):
        scales(x[0], "token")
    with pytest.raises(ValueError, match="the 3 axes of x"):
        to_fp8(x, torch.ones(2, 3))
    with pytest.raises(ValueError, match="the 3 axes of"):
        from_fp8(to_fp8(x, one(1, 1, 1)), torch.ones(4))
