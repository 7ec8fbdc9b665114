"""Moved keys held against the same keys turned at the new place at once."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from kvlib.move_keys import move_keys  # noqa: E402
from kvlib.rope import rope  # noqa: E402

HKV, D = 3, 8
OLD = torch.tensor([0, 1, 17, 18, 40, 7001])


@pytest.mark.parametrize("base", [100.0, 10000.0])
@pytest.mark.parametrize("new", [range(6), range(30, 36), (5, 3, 1, 900, 0, 2), OLD.tolist()], ids=str)
def test_as_if_they_had_been_turned_there_at_once(draw, base, new):
    raw, new = draw(HKV, 6, D), torch.tensor([*new])
    k = rope(raw, OLD, base)
    kept = k.clone()
    np.testing.assert_allclose(move_keys(k, OLD, new, base), rope(raw, new, base), rtol=0, atol=1e-11)
    np.testing.assert_array_equal(k, kept)


def test_by_hand():
    k = torch.tensor([[[1.0, 0.0]]], dtype=torch.float64)  # at position 0
    moved = move_keys(k, torch.tensor([0]), torch.tensor([2]), 100.0)
    np.testing.assert_allclose(moved, [[[np.cos(2), np.sin(2)]]], rtol=0, atol=1e-15)


def test_scores_depend_on_the_new_distance(draw):
    raw, query = draw(HKV, 6, D), draw(HKV, 1, D)
    moved = move_keys(rope(raw, OLD, 50.0), OLD, torch.arange(6), 50.0)
    near = rope(query, torch.tensor([5]), 50.0) @ moved.mT
    far = rope(query, torch.tensor([7001]), 50.0) @ rope(raw, torch.arange(6996, 7002), 50.0).mT
    np.testing.assert_allclose(near, far, rtol=0, atol=1e-9)


def test_one_position_for_each_key(draw):
    for shape, old, new in (((HKV, 6, D), 6, 5), ((HKV, 6, D), 5, 5), ((6, D), 6, 6)):
        with pytest.raises(ValueError, match="got k"):
            move_keys(draw(*shape), torch.arange(old), torch.arange(new))
    with pytest.raises(ValueError, match="in pairs"):
        move_keys(draw(HKV, 6, 5), torch.arange(6), torch.arange(6))
