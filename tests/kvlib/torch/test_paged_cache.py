"""The paged cache against plain lists of rows, with NaN in every block that is in no table."""

from __future__ import annotations

import random

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is missing: see `make torch`")

from kvlib.paged_cache import PagedCache  # noqa: E402

N, SIZE, HKV, D = 7, 4, 2, 5


class Pools:
    """A cache, its pools, and for each sequence the rows that it must give back."""

    def __init__(self, num_blocks=N, block_size=SIZE):
        self.K, self.V = torch.full((2, num_blocks, block_size, HKV, D), float("nan"), dtype=torch.float64)
        self.cache, self.rows = PagedCache(self.K, self.V), {}
        self.generator = torch.Generator().manual_seed(0)

    def draw(self, T):
        return torch.randn(2, T, HKV, D, generator=self.generator, dtype=torch.float64)

    def append(self, seq, T):
        kv = self.draw(T)
        self.cache.append(seq, *kv)
        self.rows[seq] = torch.cat((self.rows.get(seq, kv[:, :0]), kv), dim=1)
        self.check()

    def truncate(self, seq, length):
        self.cache.truncate(seq, length)
        self.rows[seq] = self.rows[seq][:, :length]
        self.check()

    def free(self, seq):
        self.cache.free(seq)
        del self.rows[seq]
        self.check()

    def check(self):
        tables = {seq: self.cache.table(seq) for seq in self.rows}
        held = [block for table in tables.values() for block in table]
        assert len(held) == len(set(held))
        num_blocks, size = self.K.shape[:2]
        assert self.cache.num_free == num_blocks - len(held)
        for block in set(range(num_blocks)) - set(held):
            self.K[block] = self.V[block] = float("nan")
        for seq, rows in self.rows.items():
            S = rows.shape[1]
            assert self.cache.length(seq) == S and len(tables[seq]) == -(-S // size)
            for got, pool, want in zip(self.cache.read(seq), (self.K, self.V), rows, strict=True):
                np.testing.assert_array_equal(got, want)
                for p in range(S):
                    np.testing.assert_array_equal(pool[tables[seq][p // size], p % size], want[p])


def test_sequences_that_grow_in_turn():
    pools = Pools()
    for seq, T in (("A", 5), ("B", 2), ("A", 3), (0, 4), ("B", 7), ("A", 1)):
        pools.append(seq, T)


def test_a_block_is_taken_with_the_first_token_that_needs_it():
    pools = Pools()
    for T, blocks in ((4, 1), (3, 2), (1, 2), (1, 3), (8, 5)):
        pools.append("A", T)
        assert len(pools.cache.table("A")) == blocks


@pytest.mark.parametrize("length", range(10))
def test_truncate_then_append(length):
    pools = Pools()
    pools.append("A", 9)
    pools.append("B", 2)
    pools.truncate("A", length)
    pools.append("C", 5)  # takes what came back
    pools.append("A", 3)
    pools.append("B", 1)


def test_any_history():
    pools, draw = Pools(), random.Random(0)
    for _ in range(150):
        seq = draw.choice("ABC")
        if seq in pools.rows and draw.random() < 0.5:
            length = draw.randint(0, pools.rows[seq].shape[1])
            pools.truncate(seq, length) if draw.random() < 0.8 else pools.free(seq)
            continue
        T = draw.randint(1, 6)
        held = pools.rows[seq].shape[1] if seq in pools.rows else 0
        if -(-(held + T) // SIZE) - -(-held // SIZE) <= pools.cache.num_free:
            pools.append(seq, T)
        else:
            with pytest.raises(ValueError, match="fewer are free"):
                pools.append(seq, T)
            pools.check()


@pytest.mark.parametrize("too_many", [1, 2, 5])
def test_what_does_not_fit_is_refused_whole(too_many):
    pools = Pools()
    pools.append("A", 10)
    pools.append("B", 5)
    for seq, room in (("A", 10), ("B", 11), ("new", 8)):
        with pytest.raises(ValueError, match="fewer are free"):
            pools.cache.append(seq, *pools.draw(room + too_many))
        pools.check()
    with pytest.raises(ValueError, match="no sequence 'new'"):
        pools.cache.length("new")
    pools.append("B", 11)  # exactly


def test_wrong_rows_are_refused():
    pools = Pools()
    pools.append("A", 3)
    k, v = pools.draw(2)
    wrong = [(k, v[:1]), (k[:1], v), (k[:, :1], v), (k, v[..., :1]), (k[:, :1], v[:, :1]), (k[0], v[0])]
    wrong += [(k[None], v[None]), (k.mT, v.mT), (k.float(), v.float()), (k, v.float()), (k[:0], v[:0])]
    for given in (*wrong, (k.sum(), v.sum())):
        with pytest.raises(ValueError, match=r"k and v must be torch.float64 of \(T, 2, 5\)"):
            pools.cache.append("A", *given)
        pools.check()


def test_unknown_sequences_and_lengths_are_refused():
    pools = Pools()
    pools.append("A", 3)
    cache = pools.cache
    for call in (cache.read, cache.table, cache.length, cache.free, lambda seq: cache.truncate(seq, 0)):
        with pytest.raises(ValueError, match="no sequence 'B'"):
            call("B")
    for length in (-1, 4):
        with pytest.raises(ValueError, match=f"0 to 3, got {length}"):
            cache.truncate("A", length)
    pools.check()


def test_the_caller_goes_on_to_use_its_tensors():
    pools = Pools()
    k, v = pools.draw(5)
    want = k.clone(), v.clone()
    pools.cache.append("A", k, v)
    k.fill_(7.0)
    v.fill_(7.0)
    for got, rows in zip(pools.cache.read("A"), want, strict=True):
        np.testing.assert_array_equal(got, rows)
        got.fill_(8.0)  # what was read is nobody else's
    np.testing.assert_array_equal(pools.cache.read("A")[0], want[0])


def test_rows_with_a_graph_leave_none_in_the_pools():
    pools = Pools()
    k, v = pools.draw(2)
    pools.cache.append("A", k.requires_grad_(), v)
    assert not pools.K.requires_grad


def test_pools_that_are_not_alike_are_refused():
    K = torch.zeros(N, SIZE, HKV, D)
    for other in (K[:, :, :, :1], K[:1], K.double(), K[0]):
        with pytest.raises(ValueError, match="two pools"):
            PagedCache(K, other)
    with pytest.raises(ValueError, match="two pools"):
        PagedCache(K[0], K[0])
