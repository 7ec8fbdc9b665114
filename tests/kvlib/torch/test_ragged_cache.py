"""Each row of a ragged cache, held against the same row alone in a plain list."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from kvlib.ragged_cache import RaggedCache  # noqa: E402

B, HKV, MAX_LEN, D = 3, 2, 9, 5


class Alone:
    """What each row must hold: real tokens only, in order."""

    def __init__(self):
        self.rows = [[] for _ in range(B)]

    def append(self, k, v, real):
        for b in range(B):
            self.rows[b] += [(k[b, :, t], v[b, :, t]) for t in range(real.shape[1]) if real[b, t]]


def chunk(generator, real):
    real = torch.tensor(real, dtype=torch.bool)
    k, v = torch.randn(2, B, HKV, real.shape[1], D, generator=generator, dtype=torch.float64)
    for rows in (k, v):
        rows.transpose(1, 2)[~real] = float("nan")  # padding may hold anything
    return k, v, real


def agree(got, alone):
    K, V, positions = got
    for b, row in enumerate(alone.rows):
        assert positions[b].tolist() == [*range(len(row)), *[-1] * (K.shape[2] - len(row))]
        for p, (k, v) in enumerate(row):
            np.testing.assert_array_equal(K[b, :, p], k)
            np.testing.assert_array_equal(V[b, :, p], v)


CHUNKS = (
    [[0, 0, 1, 1], [1, 1, 1, 1], [0, 0, 0, 1]],  # padding on the left
    [[1], [0], [1]],  # row 1 has finished
    [[1, 1, 0], [0, 0, 0], [1, 0, 0]],  # padding on the right
    [[0], [0], [0]],
    [[1, 1], [0, 1], [0, 1]],
)


def test_every_row_is_as_it_would_be_alone():
    generator, cache, alone = torch.Generator().manual_seed(0), RaggedCache(B, HKV, MAX_LEN, D), Alone()
    for real in CHUNKS:
        rows = chunk(generator, real)
        alone.append(*rows)
        agree(cache.append(*rows), alone)
        assert cache.lengths.tolist() == [len(row) for row in alone.rows]


def test_a_row_that_is_full_stays_as_it_is_while_others_go_on():
    """Padding scattered to slot -1 lands in the last slot: it is a token's, once the row is full."""
    generator, cache, alone = torch.Generator().manual_seed(1), RaggedCache(B, HKV, 4, D), Alone()
    for real in ([[1] * 4, [1] * 2 + [0] * 2, [0] * 3 + [1]], [[0], [1], [1]], [[0, 0], [0, 1], [1, 1]]):
        rows = chunk(generator, real)
        alone.append(*rows)
        agree(cache.append(*rows), alone)
    assert cache.lengths.tolist() == [4, 4, 4]


def test_no_row_is_written_when_one_has_no_room():
    generator, cache, alone = torch.Generator().manual_seed(2), RaggedCache(B, HKV, 4, D), Alone()
    rows = chunk(generator, [[1, 1, 1], [0, 0, 1], [0, 1, 1]])
    alone.append(*rows)
    cache.append(*rows)
    for real in ([[1, 1], [1, 1], [1, 1]], [[0, 1, 1], [0, 0, 0], [0, 0, 0]], [[0] * 5, [0] * 5, [1] * 5]):
        bad = chunk(generator, real)
        assert not cache.can_append(bad[2])
        with pytest.raises(ValueError, match=r"hold \[3, 1, 2\] of 4 tokens"):
            cache.append(*bad)
        assert cache.lengths.tolist() == [3, 1, 2]
    rows = chunk(generator, [[0, 1], [1, 1], [1, 1]])
    assert cache.can_append(rows[2])
    alone.append(*rows)
    agree(cache.append(*rows), alone)


def test_wrong_shapes_and_dtypes_are_refused():
    cache = RaggedCache(B, HKV, MAX_LEN, D)
    k, v, real = chunk(torch.Generator().manual_seed(3), [[1, 1]] * 3)
    for bad in (
        (k[:, :1], v, real),
        (k, v[..., :1], real),
        (k, v[:, :, :1], real),
        (k, v, real[:1]),
        (k, v, real[:, :1]),
        (k, v, real.int()),
        (k, v.float(), real),
    ):
        with pytest.raises(ValueError, match="must"):
            cache.append(*bad)
    assert cache.lengths.tolist() == [0] * B
    cache.append(k, v, real)
    with pytest.raises(ValueError, match="must be torch.float64"):
        cache.append(k.float(), v.float(), real)
    with pytest.raises(ValueError, match="at least 1"):
        RaggedCache(B, HKV, 0, D)


def test_the_caller_may_reuse_its_tensors():
    cache, alone = RaggedCache(B, HKV, MAX_LEN, D, torch.float64), Alone()
    k, v, real = chunk(torch.Generator().manual_seed(4), [[1, 1]] * 3)
    alone.append(k.clone(), v.clone(), real)
    got = cache.append(k, v, real)
    k.fill_(float("nan"))
    v.fill_(float("nan"))
    real.fill_(False)
    agree(got, alone)
    assert cache.lengths.tolist() == [2] * B
