"""Heavy hitters held against a history in plain lists: what each head keeps, and what its queries see."""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from kvlib.heavy_hitters import HeavyHitters  # noqa: E402

H, HKV, D = 6, 2, 5
G = H // HKV
CHUNKS = ([1] * 14, [4, 3, 1, 1, 5], [11, 1, 1, 1], [2, 9, 3])


def by_hand(q, k, v, chunks, budget, recent):
    """Outputs (H, sum(chunks), D), and after each chunk the positions that each KV head holds."""
    out, told = np.zeros(q.shape), []
    totals = [{} for _ in range(HKV)]
    start = 0
    for T in chunks:
        for g, seen in enumerate(totals):
            seen |= {p: 0.0 for p in range(start, start + T)}
            for h in range(g * G, g * G + G):
                for t in range(start, start + T):
                    keys = [p for p in seen if p <= t]
                    shares = [math.exp(float(q[h, t] @ k[g, p]) / math.sqrt(D)) for p in keys]
                    for p, share in zip(keys, shares, strict=True):
                        out[h, t] += share / sum(shares) * v[g, p].numpy()
                        seen[p] += share / sum(shares)
            while len(seen) > budget:
                old = [p for p in seen if p < start + T - recent]
                del seen[min(old, key=seen.get)]
        told.append([sorted(seen) for seen in totals])
        start += T
    return out, told


@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
@pytest.mark.parametrize(("budget", "recent"), [(6, 2), (5, 1), (4, 0), (3, 3), (40, 2)])
def test_every_step_as_by_hand(draw, budget, recent, chunks):
    n = sum(chunks)
    q, k, v = 2 * draw(H, n, D), 2 * draw(HKV, n, D), draw(HKV, n, D)
    want, told = by_hand(q, k, v, chunks, budget, recent)
    cache, start = HeavyHitters(HKV, D, budget, recent), 0
    assert cache.positions(0) == cache.positions(1) == []
    for T, held in zip(chunks, told, strict=True):
        part = slice(start, start + T)
        out = cache.step(q[:, part], k[:, part], v[:, part])
        np.testing.assert_allclose(out, want[:, part], rtol=0, atol=1e-12)
        assert [cache.positions(head) for head in range(HKV)] == held
        start += T
        assert len(cache) == start


def test_the_two_heads_of_the_test_above_do_differ(draw):
    q, k, v = 2 * draw(H, 14, D), 2 * draw(HKV, 14, D), draw(HKV, 14, D)
    _, told = by_hand(q, k, v, [1] * 14, 6, 2)
    assert told[-1][0] != told[-1][1]
    assert told[-1][0] != list(range(8, 14))


def test_memory_is_that_of_the_budget(draw):
    cache = HeavyHitters(HKV, D, 5, 2)
    for _ in range(4):
        cache.step(draw(H, 9, D), draw(HKV, 9, D), draw(HKV, 9, D))
        assert cache.nbytes == cache.rows.untyped_storage().nbytes() == 2 * HKV * 5 * D * 8


def test_float32_rows_stay_float32(draw):
    cache = HeavyHitters(HKV, D, 5, 2)
    out = cache.step(draw(H, 9, D).float(), draw(HKV, 9, D).float(), draw(HKV, 9, D).float())
    assert out.dtype == cache.rows.dtype == torch.float32


def test_wrong_calls_are_refused_and_change_nothing(draw):
    cache = HeavyHitters(HKV, D, 5, 2)
    cache.step(draw(H, 7, D), draw(HKV, 7, D), draw(HKV, 7, D))
    rows, held = cache.rows.clone(), [cache.positions(head) for head in range(HKV)]
    wrong = [((H, 2, D), (HKV, 2, D), (HKV, 1, D)), ((H, 1, D), (HKV, 2, D), (HKV, 2, D))]
    wrong += [
        ((5, 2, D), (HKV, 2, D), (HKV, 2, D)),
        ((H, 0, D), (HKV, 0, D), (HKV, 0, D)),
        ((H, 2, 4), (HKV, 2, 4), (HKV, 2, 4)),
    ]
    for shapes in wrong:
        with pytest.raises(ValueError, match=r"must be|do not divide"):
            cache.step(*(draw(*shape) for shape in shapes))
    np.testing.assert_array_equal(cache.rows, rows)
    assert [cache.positions(head) for head in range(HKV)] == held and len(cache) == 7
    with pytest.raises(ValueError, match="of 2 heads"):
        cache.positions(2)
    for sizes in ((0, D, 5, 2), (HKV, 0, 5, 2), (HKV, D, 0, 0), (HKV, D, 5, 6), (HKV, D, 5, -1)):
        with pytest.raises(ValueError, match="at least 1"):
            HeavyHitters(*sizes)
