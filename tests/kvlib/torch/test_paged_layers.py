"""A paged cache for all layers: the logits of a model without any cache, whatever happens to the sequences."""

from __future__ import annotations

import random

import pytest

torch = pytest.importorskip("torch")

from kvlib import decode_plan  # noqa: E402
from kvlib.decode_plan import make_plan  # noqa: E402
from kvlib.paged_attend import paged_attend  # noqa: E402
from kvlib.paged_layers import PagedLayers  # noqa: E402

L, HKV, D = 3, 2, 8  # of the models here
CLOSE = 1e-10


def make(num_blocks: int = 23, block_size: int = 4, num_layers: int = L) -> PagedLayers:
    cache = PagedLayers(num_layers, num_blocks, block_size, HKV, D, torch.float64)
    poison(cache)
    return cache


def poison(cache: PagedLayers) -> None:
    """NaN in all blocks that nobody holds: what is read of them cannot pass for a number."""
    free = [block for block in range(cache.num_blocks) if not cache.tables.ref_count(block)]
    cache.pools[:, :, free] = torch.nan


def forward(model, cache, seqs, tokens):
    """Logits (B, T, vocab) of the next tokens (B, T) of sequences that are equally long."""
    T, start = tokens.shape[1], cache.length(seqs[0]) if seqs[0] in cache.tables.sequences else 0
    x, positions = model.embed(tokens), torch.arange(start, start + T)
    slots = cache.append(seqs, T)
    for layer, block in enumerate(model.blocks):
        q, k, v = block.qkv(x, positions)
        cache.write(layer, slots, k, v)
        x = block.finish(x, cache.attend(layer, q, seqs))
    return model.unembed(x)


@pytest.mark.parametrize("block_size", [1, 3, 4, 16])
@pytest.mark.parametrize("widths", [[7], [1] * 7, [3, 1, 1, 1, 1], [3, 2, 2], [4, 4, 5]], ids=str)
def test_logits_are_those_without_a_cache(make_model, make_tokens, widths, block_size):
    model, tokens = make_model(), make_tokens(2, sum(widths))
    cache = make(block_size=block_size, num_blocks=41)
    parts = [forward(model, cache, ["a", "b"], part) for part in tokens.split(widths, dim=1)]
    assert (torch.cat(parts, dim=1) - model.logits(tokens)).abs().max() < CLOSE
    assert (cache.length("a"), cache.length("b")) == (sum(widths),) * 2


def test_sequences_that_take_turns(make_model, make_tokens):
    """Blocks of three sequences in one pool, none of them side by side for long."""
    model, cache = make_model(), make()
    tokens = {seq: make_tokens(1, 19) for seq in "abc"}
    got = {seq: [] for seq in tokens}
    at = dict.fromkeys(tokens, 0)
    for seq, width in [("a", 3), ("b", 5), ("c", 1), ("b", 1), ("a", 6), ("c", 7), ("a", 1), ("b", 2), ("c", 11)]:
        part = tokens[seq][:, at[seq] : at[seq] + width]
        got[seq].append(forward(model, cache, [seq], part))
        at[seq] += width
    for seq, parts in got.items():
        want = model.logits(tokens[seq][:, : at[seq]])
        assert (torch.cat(parts, dim=1) - want).abs().max() < CLOSE


def test_a_fork_goes_its_own_way(make_model, make_tokens):
    """Forked in the middle of a block: each then writes, and neither sees the other's tokens."""
    model, cache = make_model(), make()
    shared, mine, yours = make_tokens(1, 6), make_tokens(1, 5), make_tokens(1, 5)
    forward(model, cache, ["a"], shared)
    cache.fork("a", "b")
    assert cache.num_free == 23 - 2
    got = {"a": [], "b": []}
    for t in range(5):
        got["a"].append(forward(model, cache, ["a"], mine[:, t : t + 1]))
        got["b"].append(forward(model, cache, ["b"], yours[:, t : t + 1]))
    for seq, own in (("a", mine), ("b", yours)):
        want = model.logits(torch.cat([shared, own], dim=1))[:, 6:]
        assert (torch.cat(got[seq], dim=1) - want).abs().max() < CLOSE
    cache.free("a")
    poison(cache)
    assert forward(model, cache, ["b"], mine[:, :1]).isfinite().all()


def test_forks_that_step_together(make_model, make_tokens):
    model, cache = make_model(), make()
    shared, own = make_tokens(1, 6), make_tokens(3, 4)
    forward(model, cache, ["a"], shared)
    cache.fork("a", "b"), cache.fork("b", "c")
    got = [forward(model, cache, ["b", "a", "c"], own[:, t : t + 1]) for t in range(4)]
    want = model.logits(torch.cat([shared.expand(3, -1), own], dim=1))[:, 6:]
    assert (torch.cat(got, dim=1) - want).abs().max() < CLOSE


def test_what_was_taken_back_is_not_seen(make_model, make_tokens):
    model, cache = make_model(), make()
    tokens, wrong = make_tokens(1, 9), make_tokens(1, 7)
    forward(model, cache, ["a"], tokens[:, :5])
    forward(model, cache, ["a"], wrong)
    cache.truncate("a", 5)
    poison(cache)
    assert cache.num_free == 23 - 2
    got = torch.cat([forward(model, cache, ["a"], part) for part in tokens[:, 5:].split(1, dim=1)], dim=1)
    assert (got - model.logits(tokens)[:, 5:]).abs().max() < CLOSE


def filled(tables, lengths, block_size, draw, free_is=float("nan")):
    """Pools (num_blocks, block_size, Hkv, D) with noise in the slots of these sequences."""
    num_blocks = max(map(max, tables)) + 3
    K, V = torch.full((2, num_blocks, block_size, HKV, D), free_is, dtype=torch.float64)
    for table, length in zip(tables, lengths, strict=True):
        for n, block in enumerate(table):
            used = min(block_size, length - n * block_size)
            K[block, :used], V[block, :used] = draw(used, HKV, D), draw(used, HKV, D)
    return K, V


def scattered_tables(kind):
    """Six sequences of 11 blocks, none in few runs."""
    order = random.Random(3)
    if kind == "side by side":  # the pool is theirs
        return [[b + 6 * n for n in range(11)] for b in range(6)]
    if kind == "with gaps":  # six sevenths are
        return [[7 * n + b for n in range(11)] for b in range(6)]
    if kind == "far apart":  # a third is
        places = order.sample(range(200), 66)
        return [places[b::6] for b in range(6)]
    if kind == "shared by all":  # five blocks, far apart
        places = order.sample(range(41), 41)
        return [[*places[:5], *places[5 + b :: 6]] for b in range(6)]
    shared = [0, 1, 3, 4, 6, 7, 9, 10, 12, 13]  # by three, near each other
    rest = [2, 5, 8, 11, *range(14, 46)]
    return [[*shared, block] for block in rest[:-4:-1]] + [rest[b:-3:3] for b in range(3)]


KINDS = ["side by side", "with gaps", "far apart", "shared by all", "shared by some"]


@pytest.mark.parametrize("tile", [2, 512])
@pytest.mark.parametrize("rows", [[0], [0, 1, 2, 3, 4, 5], [4, 1]], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_a_step_in_place_is_the_step_over_copies(draw, monkeypatch, kind, rows, tile):
    """All ways to read scattered blocks: in one pass, in several, by tiles."""
    monkeypatch.setattr(decode_plan, "TILE", tile)
    tables = [scattered_tables(kind)[row] for row in rows]
    lengths = [len(table) * 3 - row % 3 for row, table in zip(rows, tables, strict=True)]
    cache = PagedLayers(1, 205, 3, HKV, D, torch.float64)
    cache.pools.fill_(torch.nan)
    for pool, part in zip(cache.layers[0][:2], filled(tables, lengths, 3, draw), strict=True):
        pool[: len(part)] = part
    q = draw(len(rows), 6, 1, D)
    block_tables = torch.tensor(tables)
    want = paged_attend(q, *cache.layers[0][:2], block_tables, torch.tensor(lengths))
    cache.tables._tables, cache.tables._lengths = dict(enumerate(tables)), dict(enumerate(lengths))
    assert (cache.attend(0, q, list(range(len(rows)))) - want).abs().max() < 1e-12


PASSES = [(1, 0), (1, 0), (0, 6), (1, 5), (3, 0)]  # and rows that are copied


@pytest.mark.parametrize(("kind", "passes"), list(zip(KINDS, PASSES, strict=True)))
def test_blocks_are_read_in_place_where_most_are_wanted(kind, passes):
    tables = scattered_tables(kind)
    plan = make_plan(tables, [33] * 6, 3)
    assert (len(plan.runs), len(plan.passes), len(plan.tiles)) == (0, *passes)


@pytest.mark.parametrize(
    ("table", "length", "runs"),
    [
        ([0, 1, 2], 12, [(0, 12)]),
        ([0, 1, 2], 9, [(0, 9)]),
        ([2, 0, 1], 12, [(0, 12)]),  # the order of the keys does not matter
        ([2, 0, 1], 9, [(0, 5), (8, 4)]),  # block 1 is filled with one token only
        ([5, 9], 5, [(20, 4), (36, 1)]),
        ([3], 2, [(12, 2)]),
    ],
)
def test_neighbouring_blocks_are_one_run(table, length, runs):
    assert make_plan([table], [length], 4).runs == {0: runs}


def test_a_pool_of_its_own_is_read_without_any_copy():
    """One run, in whatever order its blocks came."""
    table = random.Random(1).sample(range(64), 64)
    plan = make_plan([table], [64 * 16], 16)
    assert plan.runs == {0: [(0, 1024)]} and not (plan.tiles or plan.scattered)


def test_room_for_forks_is_counted_together(draw):
    """Three that share a partly filled block and all write take two copies, not three."""
    cache = make(num_blocks=4)
    cache.append(["a"], 6)
    cache.fork("a", "b"), cache.fork("a", "c")
    assert cache.num_free == 2
    assert cache.can_append(["a", "b", "c"], 1)
    cache.append(["a", "b", "c"], 1)
    assert cache.num_free == 0
    lasts = [cache.tables.table(seq)[-1] for seq in "abc"]
    assert len(set(lasts)) == 3


def test_a_holder_that_does_not_write_keeps_its_block():
    """Two of three write: both take a copy, for the third still holds the block."""
    cache = make(num_blocks=3)
    cache.append(["a"], 6)
    cache.fork("a", "b"), cache.fork("a", "c")
    assert (cache.can_append(["a"], 1), cache.can_append(["a", "b"], 1)) == (True, False)
    with pytest.raises(ValueError, match="1 more tokens of 2 sequences take 2 blocks, 1 of 3 are free"):
        cache.append(["a", "b"], 1)


def test_one_step_is_asked_by_several_batches(draw):
    """The plan of one batch is not that of another."""
    cache = make()
    slots = cache.append(["a", "b"], 3)
    for layer in range(L):
        cache.write(layer, slots, draw(2, HKV, 3, D), draw(2, HKV, 3, D))
    q = draw(2, 6, 1, D)
    both = cache.attend(0, q, ["a", "b"])
    alone = [cache.attend(0, q[row : row + 1], [seq]) for row, seq in enumerate("ab")]
    swapped = cache.attend(0, q.flip(0), ["b", "a"])
    assert (torch.cat(alone) - both).abs().max() < 1e-12
    assert (swapped.flip(0) - both).abs().max() < 1e-12


def snapshot(cache):
    seqs = cache.tables.sequences
    return {seq: (cache.tables.table(seq), cache.length(seq)) for seq in seqs}, cache.num_free, cache.pools.clone()


def same(before, after):
    return before[:2] == after[:2] and torch.equal(before[2].nan_to_num(9.0), after[2].nan_to_num(9.0))


@pytest.mark.parametrize(
    ("seqs", "num_tokens", "says"),
    [
        (["a", "new"], 8, "8 more tokens of 2 sequences take 5 blocks, 3 of 5 are free"),
        (["new", "b"], 9, "are free"),
        (["a"], 0, "got 0 of"),
        (["a"], -1, "got -1 of"),
        (["a", "a"], 1, "different sequences"),
    ],
)
def test_an_append_is_for_all_sequences_or_for_none(seqs, num_tokens, says):
    cache = make(num_blocks=5)
    cache.append(["a"], 6)
    cache.fork("a", "b")
    before = snapshot(cache)
    assert not cache.can_append(seqs, num_tokens)
    with pytest.raises(ValueError, match=says):
        cache.append(seqs, num_tokens)
    assert same(before, snapshot(cache))


def test_slots_come_sequence_by_sequence():
    cache = make(block_size=4)
    cache.append(["b"], 1)
    slots = cache.append(["a", "b"], 3)
    assert slots.dtype == torch.int64
    at = {seq: cache.tables.table(seq)[0] * 4 for seq in "ab"}
    assert slots.tolist() == [at["a"], at["a"] + 1, at["a"] + 2, at["b"] + 1, at["b"] + 2, at["b"] + 3]


def test_a_write_lands_in_both_pools_of_its_layer(draw):
    cache = make()
    slots = cache.append(["a", "b"], 2)
    k, v = draw(2, HKV, 2, D), draw(2, HKV, 2, D)
    for given in (slots, slots.clone()):  # known to lie in the pool, and to be looked at
        poison(cache)
        cache.pools.fill_(torch.nan)
        cache.write(1, given, k, v)
        for pool, rows in zip(cache.layers[1][:2], (k, v), strict=True):
            assert torch.equal(pool.flatten(0, 1)[slots], rows.transpose(1, 2).flatten(0, 1))
            assert pool.isnan().sum() == pool.numel() - rows.numel()
        assert cache.pools[:, [0, 2]].isnan().all()


@pytest.mark.parametrize(
    "shape", [(1, HKV, 2, D), (2, 1, 2, D), (2, HKV, 1, D), (2, HKV, 2, 1), (HKV, 2, D), (), (2, HKV, 2, D, 1)], ids=str
)
def test_a_write_of_another_shape_is_refused(draw, shape):
    cache = make()
    slots = cache.append(["a", "b"], 2)
    before, right = snapshot(cache), draw(2, HKV, 2, D)
    other = draw(1, HKV, 4, D)  # as many tokens, of one sequence
    for pair in ((right, draw(*shape)), (draw(*shape), right), (right, right.float()), (right, other)):
        with pytest.raises(ValueError, match="must be torch.float64 of"):
            cache.write(0, slots, *pair)
    with pytest.raises(ValueError, match="layer 3 asked of a cache of 3 layers"):
        cache.write(3, slots, right, right)
    assert same(before, snapshot(cache))


def test_a_query_without_its_sequences_is_refused(draw):
    cache = make()
    cache.append(["a"], 2)
    for q, seqs in (
        (draw(2, 6, 1, D), ["a"]),
        (draw(1, 6, 3, D), ["a"]),
        (draw(1, 6, 1, D), []),
        (draw(6, 1, D), ["a"]),
    ):
        with pytest.raises(ValueError, match="is not"):
            cache.attend(0, q, seqs)
    with pytest.raises(ValueError, match="not known"):
        cache.attend(0, draw(1, 6, 1, D), ["b"])


def test_bytes_are_there_from_the_start():
    cache = PagedLayers(3, 7, 4, 2, 5)
    want = 2 * 3 * 7 * 4 * 2 * 5 * 4
    assert (cache.nbytes, type(cache.nbytes)) == (want, int)
    cache.append(["a"], 20)
    assert cache.nbytes == cache.pools.untyped_storage().nbytes() == want


@pytest.mark.parametrize("place", range(5))
def test_a_cache_of_nothing_is_refused(place):
    sizes = [3, 7, 4, 2, 5]
    sizes[place] = 0
    with pytest.raises(ValueError, match="must be at least 1, got"):
        PagedLayers(*sizes)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind", ["side by side", "far apart"])
def test_in_smaller_numbers(draw, kind, dtype):
    """To their own precision, with a shuffled pool too."""
    tables, lengths = scattered_tables(kind), [33] * 6
    K, V = (pool.to(dtype) for pool in filled(tables, lengths, 3, draw, free_is=9.0))
    cache = PagedLayers(1, len(K), 3, HKV, D, dtype)
    cache.layers[0].K.copy_(K), cache.layers[0].V.copy_(V)
    cache.tables._tables, cache.tables._lengths = dict(enumerate(tables)), dict(enumerate(lengths))
    q = draw(6, 6, 1, D).to(dtype)
    want = paged_attend(q.double(), K.double(), V.double(), torch.tensor(tables), torch.tensor(lengths))
    got = cache.attend(0, q, list(range(6)))
    assert got.dtype == dtype
    assert (got.double() - want).abs().max() < (1e-5 if dtype == torch.float32 else 5e-2)


@pytest.mark.parametrize("kind", KINDS[:3])
def test_a_sequence_of_nan_spoils_no_other(draw, kind):
    """0 * NaN is NaN: what is read together must not be added up together."""
    tables, lengths = scattered_tables(kind), [33] * 6
    cache = PagedLayers(1, 205, 3, HKV, D, torch.float64)
    for pool, part in zip(cache.layers[0][:2], filled(tables, lengths, 3, draw), strict=True):
        pool[: len(part)] = part
    cache.tables._tables, cache.tables._lengths = dict(enumerate(tables)), dict(enumerate(lengths))
    q = draw(6, 6, 1, D)
    before = cache.attend(0, q, list(range(6)))
    assert before.isfinite().all()
    cache.layers[0].V[tables[2][4], 1] = torch.nan
    after = cache.attend(0, q, list(range(6)))
    others = [0, 1, 3, 4, 5]
    assert after[2].isnan().all() and (after[others] - before[others]).abs().max() < 1e-12
