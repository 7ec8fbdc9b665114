"""Attention over a padded batch, held against each row alone, in loops."""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from kvlib.padding import padded_positions, ragged_attend  # noqa: E402

H, HKV, D = 6, 2, 4


def alone(q, k, v, q_positions, k_positions):
    """(H, T, D) of one row of the batch: for each query the tokens at its position and before, nothing else."""
    out = np.zeros((H, len(q_positions), D))
    for h in range(H):
        for t, p in enumerate(q_positions):
            seen = [s for s, j in enumerate(k_positions) if 0 <= j <= p]
            powers = [math.exp(float(q[h, t] @ k[h // (H // HKV), s]) / math.sqrt(D)) for s in seen]
            for power, s in zip(powers, seen, strict=True):
                out[h, t] += power / math.fsum(powers) * v[h // (H // HKV), s].numpy()
    return out


def batch(seed, q_positions, k_positions, filled=float("nan")):
    """Random rows, with rubbish wherever there is padding."""
    generator = torch.Generator().manual_seed(seed)
    q_positions, k_positions = torch.tensor(q_positions), torch.tensor(k_positions)
    q = torch.randn(len(q_positions), H, q_positions.shape[1], D, generator=generator, dtype=torch.float64)
    k, v = torch.randn(2, len(k_positions), HKV, k_positions.shape[1], D, generator=generator, dtype=torch.float64)
    q.transpose(1, 2)[q_positions < 0] = filled
    for rows in (k, v):
        rows.transpose(1, 2)[k_positions < 0] = filled
    return q, k, v, q_positions, k_positions


CASES = {
    "no padding": ([[2, 3], [2, 3]], [[0, 1, 2, 3], [0, 1, 2, 3]]),
    "one new token each": ([[2], [0], [4]], [[0, 1, 2, -1, -1], [0, -1, -1, -1, -1], [0, 1, 2, 3, 4]]),
    "padding on the left": ([[-1, 0, 1], [0, 1, 2]], [[-1, 0, 1], [0, 1, 2]]),
    "a row that has finished": ([[-1], [3]], [[0, 1, -1, -1], [0, 1, 2, 3]]),
    "a row without a token": ([[-1, -1], [0, 1]], [[-1, -1], [0, 1]]),
    "keys in any order": ([[3, 4], [1, -1]], [[4, 2, 0, 1, 3], [-1, 1, -1, 0, -1]]),
}


@pytest.mark.parametrize("filled", [float("nan"), float("inf"), 1e30, 0.0])
@pytest.mark.parametrize("positions", CASES.values(), ids=CASES)
def test_every_row_is_as_it_would_be_alone(positions, filled):
    case = batch(0, *positions, filled)
    kept = [part.clone() for part in case]
    got = ragged_attend(*case)
    for b, row in enumerate(zip(*case, strict=True)):
        np.testing.assert_allclose(got[b], alone(*row), rtol=0, atol=1e-12)
    for part, before in zip(case, kept, strict=True):
        assert torch.equal(part.nan_to_num(nan=7.0), before.nan_to_num(nan=7.0)), "the caller's tensors are untouched"


def test_the_order_of_the_batch_and_longer_neighbours_change_nothing():
    short, long = ([1, -1, -1], [0, 1, -1, -1]), ([1, 2, 3], [0, 1, 2, 3])
    q, k, v, qp, kp = batch(1, [short[0], long[0]], [short[1], long[1]])
    both = ragged_attend(q, k, v, qp, kp)
    swapped = ragged_attend(*(part.flip(0) for part in (q, k, v, qp, kp)))
    torch.testing.assert_close(swapped.flip(0), both, rtol=0, atol=1e-12)
    only = ragged_attend(q[:1, :, :1], k[:1, :, :2], v[:1, :, :2], qp[:1, :1], kp[:1, :2])
    torch.testing.assert_close(both[:1, :, :1], only, rtol=0, atol=1e-12)


def test_no_keys_at_all_give_zeros():
    q, k, v, qp, kp = batch(2, [[-1, -1]], [[]])
    assert torch.equal(ragged_attend(q, k, v, qp, kp.long()), torch.zeros(1, H, 2, D, dtype=torch.float64))


def test_positions_count_tokens_not_columns():
    real = torch.tensor([[False, False, True, True], [True, True, True, False], [False] * 4])
    assert padded_positions(real).tolist() == [[-1, -1, 0, 1], [0, 1, 2, -1], [-1] * 4]
    lengths = torch.tensor([5, 0, 3])
    assert padded_positions(real, lengths).tolist() == [[-1, -1, 5, 6], [0, 1, 2, -1], [-1] * 4]
