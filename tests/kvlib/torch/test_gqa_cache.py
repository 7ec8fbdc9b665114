"""One buffer for all layers: what comes back, what is refused, and that a refusal changes nothing."""

from __future__ import annotations

import gc
import weakref

import pytest

torch = pytest.importorskip("torch")

from kvlib.gqa_cache import GQACache  # noqa: E402

L, B, HKV, MAX_LEN, D = 3, 2, 5, 11, 7  # pairwise distinct


def make(dtype: torch.dtype = torch.float64, max_len: int = MAX_LEN) -> GQACache:
    cache = GQACache(L, B, HKV, max_len, D, dtype)
    cache.buffer.fill_(torch.nan)  # a row that is read before it was written cannot pass for a number
    return cache


def rows(draw, tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
    """K and V of all layers, each (L, B, Hkv, T, D)."""
    return draw(L, B, HKV, tokens, D), draw(L, B, HKV, tokens, D)


def fill(cache: GQACache, draw, tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
    """One pass: append to each layer, then advance."""
    k, v = rows(draw, tokens)
    for layer in range(L):
        cache.append(layer, k[layer], v[layer])
    cache.advance(tokens)
    return k, v


def snapshot(cache: GQACache) -> tuple[int, bytes]:
    """The length and every byte: NaN equals NaN here."""
    return len(cache), cache.buffer.numpy().tobytes()


@pytest.mark.parametrize("widths", [[7], [1] * 7, [3, 1, 1, 1, 1], [3, 2, 2], [11], [4, 7]])
def test_all_rows_come_back_in_order_whatever_the_chunks(draw, widths):
    cache = make()
    k, v = rows(draw, sum(widths))
    for width in widths:
        start, end = len(cache), len(cache) + width
        for layer in range(L):
            K, V = cache.append(layer, k[layer, :, :, start:end], v[layer, :, :, start:end])
            assert torch.equal(K, k[layer, :, :, :end])
            assert torch.equal(V, v[layer, :, :, :end])
            assert len(cache) == start
        cache.advance(width)
        assert len(cache) == end


def test_what_comes_back_are_views_of_one_buffer(draw):
    cache = make()
    where = cache.buffer.data_ptr()
    for tokens in (3, 1, 7):
        k, v = rows(draw, tokens)
        for layer in range(L):
            for part, got in enumerate(cache.append(layer, k[layer], v[layer])):
                assert got.data_ptr() == cache.buffer[part, layer].data_ptr()
                assert got.untyped_storage().data_ptr() == where
        cache.advance(tokens)
    assert cache.buffer.data_ptr() == where


def test_only_the_new_rows_are_written(draw):
    cache = make()
    fill(cache, draw, 4)
    before = cache.buffer.clone()
    k, v = rows(draw, 2)
    cache.append(1, k[1], v[1])
    changed = ~((cache.buffer == before) | (cache.buffer.isnan() & before.isnan()))  # (2, L, B, Hkv, max_len, D)
    want = torch.zeros_like(changed)
    want[:, 1, :, :, 4:6] = True
    assert torch.equal(changed, want)


def test_the_caller_may_reuse_its_tensors(draw):
    cache = make()
    k, v = torch.ones(B, HKV, 2, D, dtype=torch.float64), torch.full((B, HKV, 2, D), -1.0, dtype=torch.float64)
    cache.append(0, k, v)
    k.fill_(torch.nan), v.fill_(torch.nan)
    cache.advance(2)
    K, V = cache.append(0, *(x[0] for x in rows(draw, 1)))
    assert (K[:, :, :2] == 1).all() and (V[:, :, :2] == -1).all()


def test_a_pass_that_failed_half_way_can_be_tried_again(draw):
    """Two of three layers got their rows, then something broke. Nothing was advanced, so the second try writes over."""
    cache = make()
    held_k, _ = fill(cache, draw, 4)
    k, v = rows(draw, 2)
    for layer in (0, 1):
        cache.append(layer, k[layer], v[layer])
    assert len(cache) == 4
    new_k, new_v = rows(draw, 3)
    for layer in range(L):
        K, _ = cache.append(layer, new_k[layer], new_v[layer])
        assert torch.equal(K, torch.cat([held_k[layer], new_k[layer]], dim=2))
    cache.advance(3)
    assert len(cache) == 7


def test_full_to_the_last_slot(draw):
    cache = make()
    k, v = rows(draw, MAX_LEN)
    for layer in range(L):
        K, V = cache.append(layer, k[layer], v[layer])
        assert torch.equal(K, k[layer]) and torch.equal(V, v[layer])
    cache.advance(MAX_LEN)
    assert (len(cache), cache.can_append(0), cache.can_append(1)) == (11, True, False)
    assert not cache.buffer.isnan().any()


@pytest.mark.parametrize(("held", "asked"), [(11, 1), (11, 2), (10, 2), (9, 3), (4, 8), (0, 12)])
@pytest.mark.parametrize("layer", range(L))
def test_no_room_is_refused_and_no_layer_changes(draw, held, asked, layer):
    """All T tokens or none: a slice past the end would take those that fit, and lose the rest in silence."""
    cache = make()
    fill(cache, draw, held)
    before = snapshot(cache)
    k, v = rows(draw, asked)
    assert not cache.can_append(asked)
    for _ in range(2):
        with pytest.raises(ValueError, match=f"^holds {held} of 11 tokens, {asked} more asked$"):
            cache.append(layer, k[layer], v[layer])
        assert snapshot(cache) == before
    if held < MAX_LEN:
        fill(cache, draw, MAX_LEN - held)
        assert len(cache) == MAX_LEN


BAD_SHAPES = [(1, HKV, 2, D), (B, 1, 2, D), (B, HKV, 2, 1), (B, HKV, 2, D + 1), (B, HKV, 1, D), (B, HKV, 3, D)]
BAD_SHAPES += [(B, 2, HKV, D), (HKV, 2, D), (1, B, HKV, 2, D), (D,), ()]


@pytest.mark.parametrize("shape", BAD_SHAPES, ids=str)
@pytest.mark.parametrize("which", ["k", "v"])
def test_a_wrong_shape_is_refused_and_nothing_changes(draw, shape, which):
    """torch would spread a single row, head or sequence over all of them; and a bad V must not leave its K behind."""
    cache = make()
    fill(cache, draw, 4)
    before = snapshot(cache)
    pair = {"k": draw(B, HKV, 2, D), "v": draw(B, HKV, 2, D), which: draw(*shape)}
    with pytest.raises(ValueError, match="must have shape"):
        cache.append(1, **pair)
    assert snapshot(cache) == before


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int64])
@pytest.mark.parametrize("which", ["k", "v"])
def test_another_dtype_is_refused_and_nothing_changes(draw, dtype, which):
    """A plain assignment would cast without a word."""
    cache = make()
    before = snapshot(cache)
    pair = {"k": draw(B, HKV, 2, D), "v": draw(B, HKV, 2, D)}
    pair[which] = pair[which].to(dtype)
    with pytest.raises(ValueError, match=f"holds torch.float64 on cpu, got {which} of {dtype} on cpu"):
        cache.append(1, **pair)
    assert snapshot(cache) == before


@pytest.mark.parametrize("layer", [-1, L, 99])
def test_a_layer_that_is_not_there_is_refused_and_nothing_changes(draw, layer):
    cache = make()
    before = snapshot(cache)
    with pytest.raises(ValueError, match=f"layer {layer} asked of a cache of 3 layers, 0 to 2"):
        cache.append(layer, draw(B, HKV, 2, D), draw(B, HKV, 2, D))
    assert snapshot(cache) == before


@pytest.mark.parametrize("number", [-1, 8, 100])
def test_an_advance_without_room_is_refused(draw, number):
    cache = make()
    fill(cache, draw, 4)
    with pytest.raises(ValueError, match=f"holds 4 of 11 tokens, advance by {number} asked"):
        cache.advance(number)
    assert len(cache) == 4


def test_truncate_forgets_the_end_and_writes_over_it(draw):
    cache = make()
    k, _ = fill(cache, draw, 6)
    cache.truncate(4)
    assert len(cache) == 4
    new_k, new_v = rows(draw, 1)
    K, _ = cache.append(2, new_k[2], new_v[2])
    assert torch.equal(K, torch.cat([k[2, :, :, :4], new_k[2]], dim=2))
    cache.truncate(4)
    cache.truncate(0)
    assert len(cache) == 0


@pytest.mark.parametrize("length", [-1, 5])
def test_truncate_can_only_shorten(draw, length):
    cache = make()
    fill(cache, draw, 4)
    before = snapshot(cache)
    with pytest.raises(ValueError, match=f"holds 4 tokens, cannot be cut to {length}"):
        cache.truncate(length)
    assert snapshot(cache) == before


def test_reset_forgets_and_other_caches_remember(draw):
    cache, other = make(), make()
    fill(cache, draw, MAX_LEN)
    fill(other, draw, 1)
    cache.reset()
    assert (len(cache), len(other)) == (0, 1)
    k, v = rows(draw, 2)
    assert torch.equal(cache.append(0, k[0], v[0])[0], k[0])


@pytest.mark.parametrize(("dtype", "size"), [(torch.float64, 8), (torch.float32, 4), (torch.bfloat16, 2)])
def test_bytes_are_there_from_the_start(draw, dtype, size):
    cache = make(dtype)
    want = 2 * L * B * HKV * MAX_LEN * D * size
    assert (cache.nbytes, type(cache.nbytes)) == (want, int)
    fill(cache, lambda *shape: draw(*shape).to(dtype), 4)
    assert cache.nbytes == cache.buffer.untyped_storage().nbytes() == want


def test_tensors_with_gradients_leave_no_graph_behind(draw):
    """Otherwise the buffer would hold on to the activations of every step."""
    cache = make()
    k = draw(B, HKV, 1, D).requires_grad_()
    doubled = 2 * k
    graph = weakref.ref(doubled)
    K, V = cache.append(0, doubled, doubled)
    assert not (K.requires_grad or V.requires_grad or cache.buffer.requires_grad)
    del doubled
    gc.collect()
    assert graph() is None


@pytest.mark.parametrize("place", range(5))
def test_a_cache_of_nothing_is_refused(place):
    sizes = [L, B, HKV, MAX_LEN, D]
    sizes[place] = 0
    with pytest.raises(ValueError, match="must be at least 1, got"):
        GQACache(*sizes)
