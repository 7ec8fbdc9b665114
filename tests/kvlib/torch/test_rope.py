"""Rotary positions: by hand, by their one property, and against complex numbers."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from kvlib.recompute_gqa import recompute_rope  # noqa: E402
from kvlib.rope import rope  # noqa: E402

CLOSE = {"atol": 1e-12, "rtol": 0}


@pytest.mark.parametrize(("axis", "pair", "angle"), [(0, 2, 5.0), (1, 3, 5.0 / 100)])
def test_one_pair_by_hand(axis, pair, angle):
    """D = 4, base 10,000: dimensions 0 and 2 turn by the position, 1 and 3 by a hundredth of it. Not neighbours."""
    x = torch.zeros(1, 4, dtype=torch.float64)
    x[0, axis] = 1.0
    want = torch.zeros(1, 4, dtype=torch.float64)
    want[0, axis], want[0, pair] = math.cos(angle), math.sin(angle)
    torch.testing.assert_close(rope(x, torch.tensor([5])), want, **CLOSE)


@pytest.mark.parametrize("base", [10000.0, 500.0])
def test_every_row_against_complex_numbers(draw, base):
    x, positions = draw(2, 3, 5, 8), torch.tensor([0, 4, 11, 3, 1000])
    got = rope(x, positions, base)
    for b in range(2):
        for head in range(3):
            for t, position in enumerate(positions.tolist()):
                want = torch.from_numpy(recompute_rope(x[b, head, t].numpy(), position, base))
                torch.testing.assert_close(got[b, head, t], want, **CLOSE)


def test_a_product_knows_the_distance_only(draw):
    q, k = draw(1, 8), draw(1, 8)

    def product(at_q: int, at_k: int) -> float:
        return float((rope(q, torch.tensor([at_q])) * rope(k, torch.tensor([at_k]))).sum())

    assert product(9, 4) == pytest.approx(product(5, 0), abs=1e-12)
    assert product(1009, 1004) == pytest.approx(product(5, 0), abs=1e-12)
    assert product(6, 0) != pytest.approx(product(5, 0), abs=1e-3)
    assert product(0, 5) != pytest.approx(product(5, 0), abs=1e-3)


def test_positions_are_absolute(draw):
    """Whole or in chunks; a chunk that counts from zero again is wrong."""
    x = draw(2, 3, 7, 8)
    whole = rope(x, torch.arange(7))
    parts = torch.cat([rope(x[:, :, :3], torch.arange(3)), rope(x[:, :, 3:], torch.arange(3, 7))], dim=2)
    assert torch.equal(whole, parts)
    assert not torch.allclose(rope(x[:, :, 3:], torch.arange(4)), whole[:, :, 3:])


def test_turning_twice_is_turning_to_another_place(draw):
    x = draw(1, 8)
    once = rope(x, torch.tensor([3]))
    torch.testing.assert_close(rope(once, torch.tensor([4])), rope(x, torch.tensor([7])), **CLOSE)
    assert not torch.allclose(rope(once, torch.tensor([3])), once)


def test_lengths_stay_and_position_zero_changes_nothing(draw):
    x = draw(2, 3, 5, 8)
    torch.testing.assert_close(rope(x, torch.arange(5)).norm(dim=-1), x.norm(dim=-1), **CLOSE)
    assert torch.equal(rope(x, torch.zeros(5, dtype=torch.int64)), x)


def test_each_sequence_of_a_batch_at_its_own_positions(draw):
    x, positions = draw(2, 3, 4, 8), torch.tensor([[0, 1, 2, 3], [7, 8, 9, 10]])
    got = rope(x, positions[:, None])  # (B, 1, T)
    for b in range(2):
        assert torch.equal(got[b], rope(x[b], positions[b]))


def test_float32_far_out(draw):
    """An angle in float32 at position 100,000 would be off by some thousandths."""
    x, positions = draw(4, 8), torch.tensor([100_000, 100_001, 131_071, 7])
    got = rope(x.float(), positions)
    assert got.dtype == torch.float32
    for row, position, found in zip(x, positions.tolist(), got.double(), strict=True):
        want = torch.from_numpy(recompute_rope(row.numpy(), position, 10000.0))
        torch.testing.assert_close(found, want, atol=1e-6, rtol=0)


def test_the_input_stays_as_it_was(draw):
    x = draw(2, 3, 4, 8)
    before = x.clone()
    rope(x, torch.arange(4))
    assert torch.equal(x, before)


def test_an_odd_head_dim_is_refused(draw):
    with pytest.raises(ValueError, match="the head dim is 7"):
        rope(draw(2, 7), torch.arange(2))
