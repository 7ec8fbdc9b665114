"""The bound of lesson 07 is one: nothing that rounding does goes further, and it is not a mile off."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from kvlib.error_budget import E4M3_RELATIVE, error_budget  # noqa: E402


def attend(q, k, v):
    return torch.softmax(k @ q / len(q) ** 0.5, 0) @ v


@pytest.mark.parametrize("relative", [2.0**-4, 2.0**-2, 2.0**-8])
def test_no_rounding_within_the_share_goes_beyond_the_bound(draw, rng, relative):
    worst = 0.0
    for _ in range(30):
        q, k, v = draw(4), 2 * draw(7, 4), draw(7, 4)
        bound = error_budget(q, k, v, relative)
        for _ in range(20):
            off_k, off_v = (torch.randint(0, 2, k.shape, generator=rng) * 2 - 1 for _ in "kv")
            moved = attend(q, k * (1 + relative * off_k), v * (1 + relative * off_v)) - attend(q, k, v)
            worst = max(worst, float((moved.abs() / bound).max()))
    assert 0.02 < worst <= 1.0


def test_all_errors_on_one_side_come_close(draw):
    """Two tokens, one pushed up and the other down, of which one has little weight: the bound is nearly reached."""
    q, relative = torch.tensor([3.0, 0.0]).double(), 2.0**-4
    k = torch.tensor([[-2.0, 0.0], [2.0, 0.0]]).double()
    v = torch.tensor([[1.0, 0.0], [0.0, 0.0]]).double()
    bound = error_budget(q, k, v, relative)
    moved = attend(q, k * (1 - relative), v * (1 + relative)) - attend(q, k, v)
    assert 0.9 < float(moved[0] / bound[0]) <= 1.0


def test_e4m3_stays_within_its_share(draw):
    x = draw(4000).float()
    x = x[x.abs() > 2.0**-6]  # smaller ones are subnormal: their steps no longer shrink
    off = (x.to(torch.float8_e4m3fn).float() - x).abs() / x.abs()
    assert 0.9 * E4M3_RELATIVE < float(off.max()) <= E4M3_RELATIVE
