"""Layers that share: what each of them reads, what memory it takes, and that refusals change nothing."""

from __future__ import annotations

from functools import partial

import pytest

torch = pytest.importorskip("torch")

from kvlib.shared_layers import SharedLayers  # noqa: E402

B, HKV, MAX_LEN, D = 2, 3, 11, 5


def make(num_layers: int = 5, share: int = 2, dtype: torch.dtype = torch.float64) -> SharedLayers:
    cache = SharedLayers(num_layers, share, B, HKV, MAX_LEN, D, dtype)
    cache.buffer.fill_(torch.nan)  # a row that is read before it was written cannot pass for a number
    return cache


@pytest.mark.parametrize(
    ("num_layers", "share", "owners"),
    [
        (5, 2, [0, 0, 2, 2, 4]),
        (7, 3, [0, 0, 0, 3, 3, 3, 6]),
        (3, 1, [0, 1, 2]),
        (3, 5, [0, 0, 0]),
        (4, 2, [0, 0, 2, 2]),
    ],
)
def test_owners_and_bytes(num_layers, share, owners):
    cache = make(num_layers, share)
    assert [cache.owner(layer) for layer in range(num_layers)] == owners
    assert cache.nbytes == 2 * len(set(owners)) * B * HKV * MAX_LEN * D * 8


def test_ten_layers_in_threes_have_four_owners():
    half = make(10, 3, torch.float16)
    assert half.nbytes == 2 * 4 * B * HKV * MAX_LEN * D * 2
    assert make(10, 2).nbytes * 2 == make(10, 1).nbytes  # pairs halve it


@pytest.mark.parametrize("widths", [[7], [1] * 7, [3, 2, 2], [11], [4, 7]])
def test_sharers_read_what_their_owner_has(draw, widths):
    cache = make()
    rows = draw(3, 2, B, HKV, sum(widths), D)  # of each owner
    for T in widths:
        start = len(cache)
        for layer in range(5):
            new = rows[layer // 2, :, :, :, start : start + T]
            K, V = cache.append(layer, *new) if cache.owner(layer) == layer else cache.read(layer)
            assert torch.equal(torch.stack((K, V)), rows[layer // 2, :, :, :, : start + T])
            assert len(cache) == start
        cache.advance(T)
    assert len(cache) == sum(widths)


def test_before_its_owner_a_sharer_reads_what_is_held(draw):
    cache, rows = make(), draw(2, B, HKV, 6, D)
    cache.append(2, *rows[:, :, :, :4])
    assert cache.read(1)[0].shape == (B, HKV, 0, D)
    assert cache.read(3)[0].shape == (B, HKV, 4, D)
    cache.advance(4)
    cache.append(0, *rows[:, :, :, 4:])
    assert cache.read(2)[0].shape == (B, HKV, 4, D)
    assert cache.read(1)[0].shape == (B, HKV, 6, D)


def test_a_second_try_goes_over_the_first(draw):
    cache, rows = make(), draw(2, B, HKV, 3, D)
    cache.append(0, *draw(2, B, HKV, 5, D))
    cache.append(0, *rows)
    assert torch.equal(torch.stack(cache.read(1)), rows)


def test_the_callers_tensors_are_copied(draw):
    cache, rows = make(), draw(2, B, HKV, 3, D)
    given = rows.clone()
    cache.append(0, *given)
    given.fill_(torch.nan)
    assert torch.equal(torch.stack(cache.read(1)), rows)


def refused(cache: SharedLayers, call, match: str) -> None:
    before = len(cache), list(cache.written), cache.buffer.numpy().tobytes()
    with pytest.raises(ValueError, match=match):
        call()
    assert (len(cache), list(cache.written), cache.buffer.numpy().tobytes()) == before


def test_refusals_change_nothing(draw):
    cache, rows = make(), draw(2, B, HKV, 9, D)
    for owner in (0, 2, 4):
        cache.append(owner, *rows)
    cache.advance(9)
    k, v = rows[:, :, :, :2]
    refused(cache, lambda: cache.append(1, k, v), "layer 1 uses the keys and values of layer 0")
    for layer in (-1, 5):
        for method, rest in (("owner", ()), ("read", ()), ("append", (k, v))):
            call = partial(getattr(cache, method), layer, *rest)
            refused(cache, call, f"layer {layer} asked of 5 layers")
    refused(cache, lambda: cache.append(0, *rows[:, :, :, :3]), "holds 9 of 11 tokens, 3 more asked")
    for number in (3, -1):
        refused(cache, lambda n=number: cache.advance(n), f"advance by {number} asked")
    wrong = [(k[:1], v), (k, v[..., :1]), (k[:, :, 0], v), (k, v[:, :, :1]), (k.float(), v), (k, v.transpose(1, 2))]
    for pair in wrong:
        refused(cache, lambda pair=pair: cache.append(2, *pair), "must be torch.float64 of")
    cache.append(0, k, v)


def test_sizes_below_1_are_refused():
    for sizes in ((0, 2, 1, 1, 1, 1), (5, 0, 1, 1, 1, 1), (5, 2, 1, 1, 0, 1)):
        with pytest.raises(ValueError, match="must be at least 1"):
            SharedLayers(*sizes)
