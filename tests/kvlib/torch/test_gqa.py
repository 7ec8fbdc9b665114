"""Grouped-query attention: which head reads which, against loops and against PyTorch's own."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional as F  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402

from kvlib.gqa import gqa_attend, group_size, kv_head, mean_pool_kv  # noqa: E402
from kvlib.masks import visible  # noqa: E402
from kvlib.recompute_gqa import recompute_gqa  # noqa: E402

CLOSE = {"atol": 1e-12, "rtol": 0}


def test_neighbours_share_a_kv_head(facts):
    f2 = facts["F2"]
    H, Hkv = f2["num_heads"], f2["num_kv_heads"]
    assert [kv_head(h, H, Hkv) for h in range(H)] == f2["kv_heads"]
    assert [kv_head(h, 4, 4) for h in range(4)] == [0, 1, 2, 3]  # multi-head
    assert [kv_head(h, 4, 1) for h in range(4)] == [0, 0, 0, 0]  # multi-query


def test_what_each_query_head_reads_is_seen_from_outside(facts):
    """Each KV head's values name it, so the output says who was read. The other order would give 0 1 0 1 0 1."""
    f2 = facts["F2"]
    H, Hkv = f2["num_heads"], f2["num_kv_heads"]
    v = torch.eye(Hkv).reshape(1, Hkv, 1, Hkv).expand(1, Hkv, 3, Hkv)  # (B, Hkv, S, D)
    out = gqa_attend(torch.zeros(1, H, 2, Hkv), torch.zeros(1, Hkv, 3, Hkv), v)
    assert out.argmax(dim=-1)[0].tolist() == [[head, head] for head in f2["kv_heads"]]


@pytest.mark.parametrize(("h", "H", "Hkv"), [(6, 6, 2), (-1, 6, 2)])
def test_a_head_that_is_not_there_is_refused(h, H, Hkv):
    with pytest.raises(ValueError, match=f"query head {h} asked of 6 heads"):
        kv_head(h, H, Hkv)


@pytest.mark.parametrize(("H", "Hkv"), [(6, 4), (2, 4), (6, 0), (0, 1)])
def test_heads_that_do_not_divide_are_refused(H, Hkv):
    for call in (group_size, lambda H, Hkv: kv_head(0, H, Hkv)):
        with pytest.raises(ValueError, match=f"{Hkv} KV heads do not divide {H} query heads"):
            call(H, Hkv)


@pytest.mark.parametrize(("H", "Hkv"), [(6, 2), (6, 3), (6, 6), (6, 1)])
@pytest.mark.parametrize("new", [1, 3])
def test_against_loops_and_against_pytorch(draw, H, Hkv, new):
    B, S, D = 2, 7, 5
    q, k, v = draw(B, H, new, D), draw(B, Hkv, S, D), draw(B, Hkv, S, D)
    mask = visible(torch.arange(S - new, S), torch.arange(S))
    got = gqa_attend(q, k, v, mask)
    torch.testing.assert_close(got, torch.from_numpy(recompute_gqa(q, k, v, mask)), **CLOSE)
    torch.testing.assert_close(got, F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True), **CLOSE)
    if new == 1:
        torch.testing.assert_close(gqa_attend(q, k, v), got, **CLOSE)


def test_each_sequence_of_a_batch_under_its_own_mask(draw):
    q, k, v = draw(2, 6, 3, 5), draw(2, 2, 7, 5), draw(2, 2, 7, 5)
    mask = visible(torch.tensor([[4, 5, 6], [0, 1, 2]]), torch.arange(7).expand(2, 7))
    got = gqa_attend(q, k, v, mask)
    torch.testing.assert_close(got, torch.from_numpy(recompute_gqa(q, k, v, mask)), **CLOSE)
    for b in range(2):
        torch.testing.assert_close(got[b : b + 1], gqa_attend(*(x[b : b + 1] for x in (q, k, v)), mask[b]), **CLOSE)


def test_queries_that_are_not_contiguous(draw):
    """As they come out of a projection: (B, T, H, D), seen as (B, H, T, D)."""
    q, k, v = draw(2, 3, 6, 5).transpose(1, 2), draw(2, 2, 7, 5), draw(2, 7, 2, 5).transpose(1, 2)
    mask = visible(torch.arange(4, 7), torch.arange(7))
    want = torch.from_numpy(recompute_gqa(q, k, v, mask))
    torch.testing.assert_close(gqa_attend(q, k, v, mask), want, **CLOSE)


@pytest.mark.parametrize("bad", [torch.zeros(1, 7), torch.ones(1, 7, dtype=torch.int64)])
def test_a_mask_of_numbers_is_refused(draw, bad):
    with pytest.raises(ValueError, match="mask must hold bools"):
        gqa_attend(draw(1, 6, 1, 5), draw(1, 2, 7, 5), draw(1, 2, 7, 5), bad)


class Largest(TorchDispatchMode):
    """The most elements that a new tensor has."""

    elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        held = {x.untyped_storage().data_ptr() for x in tree_leaves((args, kwargs)) if torch.is_tensor(x)}
        for made in tree_leaves(out):
            if torch.is_tensor(made) and made.untyped_storage().data_ptr() not in held:
                self.elements = max(self.elements, made.numel())
        return out


@pytest.mark.parametrize("new", [1, 2])
def test_no_copy_of_the_keys_is_made(draw, new):
    """With 4 heads to a group, a repeated copy would have four times the elements of K. Nothing made has even K's."""
    q, k, v = draw(1, 8, new, 32), draw(1, 2, 101, 32), draw(1, 2, 101, 32)
    mask = visible(torch.arange(101 - new, 101), torch.arange(101))
    with Largest() as largest:
        gqa_attend(q, k, v, mask)
    assert 0 < largest.elements < k.numel()
    with Largest() as largest:
        F.scaled_dot_product_attention(q, *(x.repeat_interleave(4, dim=1) for x in (k, v)), attn_mask=mask)
    assert largest.elements == 4 * k.numel()


def test_the_mean_over_each_group(facts, draw):
    f2 = facts["F2"]
    H, Hkv, D, width = f2["num_heads"], f2["num_kv_heads"], 5, 7
    weight = draw(H * D, width)
    pooled = mean_pool_kv(weight, H, Hkv)
    assert pooled.shape == (Hkv * D, width)
    for shared in range(Hkv):
        group = [h for h in range(H) if f2["kv_heads"][h] == shared]
        want = sum(weight[h * D : (h + 1) * D] for h in group) / len(group)
        torch.testing.assert_close(pooled[shared * D : (shared + 1) * D], want, **CLOSE)


def test_pooled_weights_give_pooled_keys(draw):
    """A projection is linear, so the mean of the weights gives the mean of the keys; a bias goes the same way."""
    weight, bias, x = draw(6 * 5, 7), draw(6 * 5), draw(3, 7)
    keys = F.linear(x, weight, bias).view(3, 2, 3, 5).mean(dim=2).reshape(3, 2 * 5)
    pooled = F.linear(x, mean_pool_kv(weight, 6, 2), mean_pool_kv(bias, 6, 2))
    torch.testing.assert_close(pooled, keys, **CLOSE)


def test_equal_heads_lose_nothing(draw):
    head = draw(2, 5, 7)
    weight = head.repeat_interleave(3, dim=0).reshape(30, 7)
    torch.testing.assert_close(mean_pool_kv(weight, 6, 2), head.reshape(10, 7), **CLOSE)
    assert torch.equal(mean_pool_kv(weight, 6, 6), weight)


def test_pooling_what_does_not_divide_is_refused(draw):
    with pytest.raises(ValueError, match="4 KV heads do not divide 6 query heads"):
        mean_pool_kv(draw(30, 7), 6, 4)
    with pytest.raises(ValueError, match="6 heads do not divide 31 rows"):
        mean_pool_kv(draw(31, 7), 6, 2)
