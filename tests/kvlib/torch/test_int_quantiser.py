"""Whole numbers of eight and four bits against loops, number by number and bit by bit."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from kvlib.int_quantiser import IntQuantiser  # noqa: E402
from kvlib.sizing.quantised import quantised_row_bytes  # noqa: E402

FACTS = json.loads((Path(__file__).parents[2] / "data" / "facts_i.json").read_text(encoding="utf-8"))
LAYOUTS = [(bits, g, D) for bits in (4, 8) for g, D in ((3, 6), (3, 7), (4, 5), (1, 4), (9, 5), (2, 1), (32, 64))]


def by_hand(row, bits, group_size):
    """(bytes, scales) of one row, in plain Python; the low half of a byte comes first."""
    top = 127 if bits == 8 else 7
    scales, numbers = [], []
    for start in range(0, len(row), group_size):
        group = row[start : start + group_size]
        scale = torch.tensor(max(abs(value) for value in group), dtype=torch.float32) / top
        scales.append(float(scale) if scale > 0 else 1.0)
        numbers += [round(float(torch.tensor(value) / scales[-1])) for value in group]
    codes = [number + top + 1 for number in numbers]
    if bits == 8:
        return codes, scales
    codes += [0] * (len(codes) % 2)
    return [codes[i] + 16 * codes[i + 1] for i in range(0, len(codes), 2)], scales


@pytest.mark.parametrize(("bits", "group_size", "D"), LAYOUTS)
def test_every_byte_and_every_scale(draw, bits, group_size, D):
    x = draw(3, 2, D).float()
    packed, scale = IntQuantiser(bits, group_size).quantise(x)
    assert packed.dtype == torch.uint8
    assert scale.dtype == torch.float32
    for i, j in itertools.product(range(3), range(2)):
        codes, scales = by_hand(x[i, j].tolist(), bits, group_size)
        assert packed[i, j].tolist() == codes
        assert scale[i, j].tolist() == pytest.approx(scales, rel=1e-6)


@pytest.mark.parametrize(("bits", "group_size", "D"), LAYOUTS)
def test_no_number_is_off_by_more_than_half_a_scale(draw, bits, group_size, D):
    x = draw(5, D).float() * 4.0 ** draw(5, 1).float()
    quantiser = IntQuantiser(bits, group_size)
    packed, scale = quantiser.quantise(x)
    back = quantiser.dequantise(packed, scale, D)
    assert back.dtype == torch.float32
    assert back.shape == x.shape
    for row, d in itertools.product(range(5), range(D)):
        assert abs(back[row, d] - x[row, d]) <= scale[row, d // group_size] / 2 * (1 + 1e-4)


def test_one_row_by_hand():
    """The largest of a group becomes 7. The last half of the last byte is nobody's."""
    packed, scale = IntQuantiser(4, 3).quantise(torch.tensor([7.0, -3.0, 1.0, 0.5, -3.5]))
    assert scale.tolist() == [1.0, 0.5]
    assert packed.tolist() == [15 + 16 * 5, 9 + 16 * 9, 1]
    assert IntQuantiser(4, 3).dequantise(packed, scale, 5).tolist() == [7.0, -3.0, 1.0, 0.5, -3.5]
    packed, scale = IntQuantiser(8, 4).quantise(torch.tensor([127.0, -127.0, 3.0]))
    assert (packed.tolist(), scale.tolist()) == ([255, 1, 131], [1.0])


@pytest.mark.parametrize(("bits", "group_size", "D"), LAYOUTS)
def test_bytes_are_those_of_the_formula(bits, group_size, D):
    packed, scale = IntQuantiser(bits, group_size).quantise(torch.ones(D))
    assert packed.nbytes + scale.nbytes == quantised_row_bytes(D, bits, group_size, scale_bytes=4)


def test_two_numbers_in_a_byte():
    figure = next(row["figure"] for row in FACTS if row["id"] == "I5")
    packed, _ = IntQuantiser(4, 8).quantise(torch.ones(64))
    assert 64 / packed.nbytes == figure["numbers"]


@pytest.mark.parametrize("bits", [4, 8])
def test_zeros_come_back_as_zeros(bits):
    x = torch.tensor([[0.0, 0.0, 1.0, -2.0, 0.0], [0.0, 0.0, 0.0, 0.0, 0.0]])
    quantiser = IntQuantiser(bits, 2)
    packed, scale = quantiser.quantise(x)
    assert scale.isfinite().all()
    assert (scale > 0).all()
    back = quantiser.dequantise(packed, scale, 5)
    assert back[x == 0].tolist() == [0.0] * 8
    assert back[0, 3] == -2.0


@pytest.mark.parametrize(("size", "room"), [(1e-44, 1.0), (1e-30, 1 / 14), (1e30, 1 / 14)])
def test_tiny_and_huge_numbers(size, room):
    """They have scales like others; only where a scale would underflow to 0 are numbers lost, and never NaN."""
    quantiser = IntQuantiser(4, 2)
    packed, scale = quantiser.quantise(torch.tensor([size, -size, size]))
    assert scale.isfinite().all()
    back = quantiser.dequantise(packed, scale, 3)
    assert back.isfinite().all()
    assert (back - torch.tensor([size, -size, size])).abs().max() <= size * room


def test_rows_stand_on_their_own(draw):
    x = draw(4, 7).float()
    packed, scale = IntQuantiser(4, 3).quantise(x)
    rows = [2, 0]
    whole = IntQuantiser(4, 3).dequantise(packed, scale, 7)
    assert torch.equal(IntQuantiser(4, 3).dequantise(packed[rows], scale[rows], 7), whole[rows])
    for row in range(4):
        one, its_scale = IntQuantiser(4, 3).quantise(x[row])
        assert torch.equal(one, packed[row])
        assert torch.equal(its_scale, scale[row])


def test_nothing_passed_in_changes(draw):
    for bits in (4, 8):
        x = draw(2, 7).float()
        before = x.clone()
        packed, scale = IntQuantiser(bits, 3).quantise(x)
        assert torch.equal(x, before)
        kept = packed.clone(), scale.clone()
        IntQuantiser(bits, 3).dequantise(packed, scale, 7)
        assert torch.equal(packed, kept[0])
        assert torch.equal(scale, kept[1])


@pytest.mark.parametrize(("bits", "group_size"), [(2, 4), (16, 4), (0, 4), (-4, 4), (4, 0), (8, -1)])
def test_other_settings_are_refused(bits, group_size):
    with pytest.raises(ValueError, match="must be 8 or 4, got|must be at least 1, got"):
        IntQuantiser(bits, group_size)


def test_bytes_of_other_rows_are_refused(draw):
    quantiser = IntQuantiser(4, 3)
    packed, scale = quantiser.quantise(draw(2, 7))
    for wrong in ((packed, scale, 9), (packed[:, :3], scale, 7), (packed, scale[:, :2], 7)):
        with pytest.raises(ValueError, match=f"rows of {wrong[2]} take"):
            quantiser.dequantise(*wrong)
