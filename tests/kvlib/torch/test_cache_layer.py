"""The layer of lesson 10 by itself, and beside the layer of Transformers whose methods it has."""

from __future__ import annotations

import os

import pytest

torch = pytest.importorskip("torch")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from kvlib.cache_layer import CacheLayer  # noqa: E402

SIZES = (2, 3, 5)  # B, Hkv, D


@pytest.fixture
def rows(draw):
    """Keys and values of so many tokens; the values are wider."""
    return lambda tokens, B=2: (draw(B, 3, tokens, 5), draw(B, 3, tokens, 7))


def snapshot(layer):
    return layer.used, [buffer.clone() for buffer in layer.buffers]


def unchanged(layer, before):
    same = all(
        torch.equal(a[:, :, : layer.used], b[:, :, : layer.used]) for a, b in zip(layer.buffers, before[1], strict=True)
    )
    return layer.used == before[0] and len(layer.buffers) == len(before[1]) and same


@pytest.mark.parametrize("widths", [[7], [1] * 7, [3, 2, 2]], ids=str)
def test_all_tokens_come_back_in_order_from_memory_made_once(rows, widths):
    k, v = rows(7)
    layer, start = CacheLayer(11), 0
    for width in widths:
        assert layer.get_mask_sizes(width) == (start + width, 0)
        K, V = layer.update(k[:, :, start : start + width], v[:, :, start : start + width], {"ignored": 1}, too=2)
        start += width
        assert torch.equal(K, k[:, :, :start]) and torch.equal(V, v[:, :, :start])
        assert (layer.get_seq_length(), layer.get_max_length()) == (start, 11)
        assert sum(buffer.nbytes for buffer in layer.buffers) == 2 * 3 * 11 * (5 + 7) * 8
        assert (K.data_ptr(), V.data_ptr()) == tuple(buffer.data_ptr() for buffer in layer.buffers)


def test_what_does_not_fit_is_refused_and_changes_nothing(rows, draw):
    layer = CacheLayer(5)
    with pytest.raises(ValueError, match="holds 0 of 5 tokens, 6 more"):
        layer.update(*rows(6, B=4))
    k, v = rows(3)
    layer.update(k, v)  # with B = 2: the refused call has fixed nothing
    before = snapshot(layer)
    one_k, one_v = rows(1)
    wrong = [rows(3), (one_k[:1], one_v[:1]), (one_k[:, :2], one_v[:, :2]), (one_k[..., :1], one_v), (one_k, one_v[0])]
    wrong += [(one_k, one_v[..., :1]), (one_k, rows(2)[1]), (one_k.float(), one_v), (one_k, one_v.float())]
    for pair in wrong:
        with pytest.raises(ValueError):
            layer.update(*pair)
        assert unchanged(layer, before)
    K, V = layer.update(*rows(2))
    assert torch.equal(K[:, :, :3], k) and torch.equal(V[:, :, :3], v)
    with pytest.raises(ValueError, match="at least 1"):
        CacheLayer(0)


def test_crop_reset_and_a_full_layer(rows):
    layer = CacheLayer(4)
    layer.crop(-2)  # nothing there yet
    k, v = rows(4)
    layer.update(k, v)
    with pytest.raises(ValueError, match="0 or a number below"):
        layer.crop(2)
    layer.crop(0)
    assert layer.get_seq_length() == 4
    layer.crop(-1)
    K, _ = layer.update(*rows(1))
    assert torch.equal(K[:, :, :3], k[:, :, :3]) and not torch.equal(K[:, :, 3], k[:, :, 3])
    layer.crop(-9)
    assert layer.get_seq_length() == 0
    layer.reset()
    assert layer.update(*(part.float() for part in rows(3, B=3)))[0].shape == (3, 3, 3, 5)


def test_gradients_do_not_keep_old_steps_alive(rows):
    k, v = (part.requires_grad_() for part in rows(1))
    K, V = CacheLayer(3).update(k, v)
    assert not K.requires_grad and not V.requires_grad


def test_a_long_walk_beside_the_layer_of_transformers(rows):
    """Every method in every order, a hundred times: both give the same keys and values."""
    cache_utils = pytest.importorskip("transformers.cache_utils")
    generator = torch.Generator().manual_seed(3)
    ours, theirs, B = CacheLayer(64), cache_utils.DynamicLayer(), 2
    seen = set()
    for _ in range(300):
        move, held = int(torch.randint(6, (), generator=generator)), ours.get_seq_length()
        if move == 0 and held + 3 <= 64:
            k, v = rows(int(torch.randint(1, 4, (), generator=generator)), B)
            assert ours.get_mask_sizes(2) == theirs.get_mask_sizes(2)
            for mine, other in zip(ours.update(k, v), theirs.update(k, v), strict=True):
                assert torch.equal(mine, other)
        elif move == 1 and held > 3:
            ours.crop(-2), theirs.crop(-2)
        elif move == 2 and held:
            order = torch.randint(B, (B,), generator=generator)
            ours.reorder_cache(order), theirs.reorder_cache(order)
        elif move == 3 and held and B < 4:
            ours.batch_repeat_interleave(2), theirs.batch_repeat_interleave(2)
            B *= 2
        elif move == 4 and held and B > 1:
            keep = torch.tensor([B - 1, *range(B // 2)])[:B]
            ours.batch_select_indices(keep), theirs.batch_select_indices(keep)
            B = len(keep)
        elif move == 5 and held > 9:
            ours.reset(), theirs.reset()
            B = 2
        else:
            continue
        seen.add(move)
        assert ours.get_seq_length() == theirs.get_seq_length()
    assert seen == set(range(6))
