"""Rows into slots, and attention through a block table: against loops that look every token up by itself."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from kvlib.paged_attend import paged_attend, write_slots  # noqa: E402

NUM_BLOCKS, BLOCK_SIZE, HKV, D = 11, 4, 2, 5
H = 6


@pytest.fixture
def pools(draw):
    """K and V, in which every slot holds something."""
    return draw(NUM_BLOCKS, BLOCK_SIZE, HKV, D), draw(NUM_BLOCKS, BLOCK_SIZE, HKV, D)


def by_loops(q, K, V, tables, lengths):
    """Each query with each of its tokens, one after the other: the right answer, by other means."""
    B, H, T, D = q.shape
    out = torch.zeros(B, H, T, D, dtype=torch.float64)
    for b, h, t in ((b, h, t) for b in range(B) for h in range(H) for t in range(T)):
        n = h // (H // K.shape[2])
        places = [(tables[b][p // K.shape[1]], p % K.shape[1], n) for p in range(lengths[b] - T + t + 1)]
        scores = [math.fsum((q[b, h, t] * K[place]).tolist()) / math.sqrt(D) for place in places]
        shares = [math.exp(score - max(scores)) for score in scores]
        for share, place in zip(shares, places, strict=True):
            out[b, h, t] += share / math.fsum(shares) * V[place]
    return out


def padded(tables):
    longest = max(map(len, tables))
    return torch.tensor([[*table, *[-1] * (longest - len(table))] for table in tables])


CASES = [
    ([[0, 1]], [8], 1),
    ([[7, 2]], [8], 1),
    ([[7, 2]], [8], 3),
    ([[8, 0]], [7], 7),  # a whole prompt
    ([[4]], [1], 1),
    ([[4, 7], [9, 1, 3, 5], [6]], [5, 14, 3], 1),
    ([[4, 7], [9, 1, 3, 5], [6]], [5, 14, 3], 3),
    ([[6, 2, 8], [0, 5, 3]], [12, 9], 6),
    ([[6, 2, 8], [6, 2, 3]], [12, 9], 1),  # two blocks shared
]


@pytest.mark.parametrize(("tables", "lengths", "T"), CASES, ids=str)
def test_each_sequence_sees_its_own_tokens(draw, pools, tables, lengths, T):
    q = draw(len(tables), H, T, D)
    got = paged_attend(q, *pools, padded(tables), torch.tensor(lengths))
    assert got.shape == q.shape
    assert (got - by_loops(q, *pools, tables, lengths)).abs().max() < 1e-12


@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (5, 1), (8, 4)])
def test_whatever_the_groups(draw, heads, kv_heads):
    q, K, V = draw(2, heads, 2, 3), draw(5, 3, kv_heads, 3), draw(5, 3, kv_heads, 3)
    tables, lengths = [[4, 1], [2]], [5, 3]
    got = paged_attend(q, K, V, padded(tables), torch.tensor(lengths))
    assert (got - by_loops(q, K, V, tables, lengths)).abs().max() < 1e-12


@pytest.mark.parametrize("rubbish", [math.nan, math.inf, 1e300])
@pytest.mark.parametrize("T", [1, 3])
def test_other_blocks_and_the_rest_of_the_last_one_have_no_influence(draw, pools, rubbish, T):
    tables, lengths = [[4, 7], [9, 1, 3, 5], [6]], [5, 14, 3]
    q = draw(3, H, T, D)
    used = torch.zeros(NUM_BLOCKS, BLOCK_SIZE, dtype=torch.bool)
    for table, length in zip(tables, lengths, strict=True):
        for p in range(length):
            used[table[p // BLOCK_SIZE], p % BLOCK_SIZE] = True
    spoilt = [pool.masked_fill(~used[..., None, None], rubbish) for pool in pools]
    got = paged_attend(q, *spoilt, padded(tables), torch.tensor(lengths))
    assert torch.equal(got, paged_attend(q, *pools, padded(tables), torch.tensor(lengths)))
    assert got.isfinite().all()


def test_nothing_passed_in_changes(draw, pools):
    given = draw(2, H, 2, D), *pools, padded([[4, 7], [6]]), torch.tensor([5, 3])
    before = [part.clone() for part in given]
    paged_attend(*given)
    assert all(map(torch.equal, given, before))


@pytest.mark.parametrize(("table", "length"), [([4, -1], 5), ([4, 7], 9), ([4], 1), ([-1, -1], 2)])
def test_a_table_that_is_too_short_is_refused(draw, pools, table, length):
    """Also a sequence of fewer tokens than the new ones."""
    with pytest.raises(ValueError, match=f"^2 new tokens of {length} held do not fit a table of"):
        paged_attend(draw(1, H, 2, D), *pools, torch.tensor([table]), torch.tensor([length]))


@pytest.mark.parametrize("slots", [[0, 1, 2], [43], [11, 3, 20, 4], [-1, 12, -1, 43, 5], [-1, -1], []], ids=str)
def test_rows_go_to_their_slots_and_nothing_else_changes(draw, pools, slots):
    pool, rows = pools[0], draw(len(slots), HKV, D)
    rows[[i for i, slot in enumerate(slots) if slot == -1]] = math.nan
    want = pool.clone()
    for slot, row in zip(slots, rows, strict=True):
        if slot >= 0:
            want[slot // BLOCK_SIZE, slot % BLOCK_SIZE] = row
    mapping = torch.tensor(slots, dtype=torch.int64)
    write_slots(pool, rows, mapping)
    assert torch.equal(pool, want)
    assert mapping.tolist() == slots


@pytest.mark.parametrize("slots", [[3, 44], [3, 100], [3, -2], [-1, -44]], ids=str)
def test_a_slot_outside_is_refused_and_nothing_is_written(draw, pools, slots):
    before = pools[0].clone()
    bad = next(slot for slot in slots if slot not in (3, -1))
    with pytest.raises(ValueError, match=f"^slot {bad} asked of 44 slots$"):
        write_slots(pools[0], draw(2, HKV, D), torch.tensor(slots))
    assert torch.equal(pools[0], before)


@pytest.mark.parametrize("shape", [(1, HKV, D), (2, 1, D), (2, HKV, 1), (2, D, HKV), (HKV, D)], ids=str)
def test_other_shapes_are_refused(draw, pools, shape):
    """torch would spread a single row or head over all of them."""
    before = pools[0].clone()
    with pytest.raises(ValueError, match="^rows must be torch.float64 of"):
        write_slots(pools[0], draw(*shape), torch.tensor([3, 8]))
    with pytest.raises(ValueError, match="^rows must be torch.float64 of"):
        write_slots(pools[0], draw(2, HKV, D).float(), torch.tensor([3, 8]))
    assert torch.equal(pools[0], before)


def test_rows_with_gradients_leave_no_graph_in_the_pool(draw, pools):
    write_slots(pools[0], draw(1, HKV, D).requires_grad_(), torch.tensor([7]))
    assert not pools[0].requires_grad
