"""Rotation between two matrices: one fold for each distance, and none for all."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from kvlib.rope import rope  # noqa: E402
from kvlib.rope_fold import best_fold, fold, fold_error, rotation  # noqa: E402

CLOSE = {"atol": 1e-12, "rtol": 0}
DISTANCES = (0, 1, 2, 5)


@pytest.fixture
def matrices(draw):
    return draw(8, 10), draw(8, 7)


@pytest.mark.parametrize(("query", "key"), [(9, 9), (9, 4), (5, 0), (3, 7)])
def test_a_fold_gives_the_scores_at_its_distance(matrices, draw, query, key):
    w_q, w_k = matrices
    x, c = draw(10), draw(7)
    q, k = (rope((w @ v)[None], torch.tensor([p]), 50.0)[0] for w, v, p in ((w_q, x, query), (w_k, c, key)))
    torch.testing.assert_close(x @ fold(w_q, w_k, query - key, 50.0) @ c, q @ k, **CLOSE)


def test_a_rotation_is_what_rope_does(draw):
    row = draw(8)
    torch.testing.assert_close(rotation(3, 8, 50.0) @ row, rope(row[None], torch.tensor([3]), 50.0)[0], **CLOSE)
    torch.testing.assert_close(rotation(2, 8) @ rotation(3, 8), rotation(5, 8), **CLOSE)
    torch.testing.assert_close(rotation(0, 8), torch.eye(8, dtype=torch.float64), **CLOSE)


def test_a_fold_is_right_at_one_distance_only(matrices):
    w_q, w_k = matrices
    for own in DISTANCES:
        folded = fold(w_q, w_k, own, 50.0)
        errors = {distance: fold_error(folded, w_q, w_k, distance, 50.0) for distance in DISTANCES}
        assert errors.pop(own) < 1e-15
        assert min(errors.values()) > 0.2


def test_no_single_matrix_fits_all_distances(matrices):
    """Not even the best: any step away from it makes the sum of squares larger."""
    w_q, w_k = matrices
    best = best_fold(w_q, w_k, DISTANCES, 50.0)
    assert min(fold_error(best, w_q, w_k, distance, 50.0) for distance in DISTANCES) > 0.2

    def squares(folded):
        return sum(float((folded - fold(w_q, w_k, distance, 50.0)).square().sum()) for distance in DISTANCES)

    step = torch.ones_like(best) * 1e-2
    assert squares(best) < min(squares(best + step), squares(best - step), squares(fold(w_q, w_k, 1, 50.0)))


def test_an_odd_head_dim_is_refused():
    with pytest.raises(ValueError, match="in pairs"):
        rotation(1, 7)
