"""Wrong and right ways to attend in groups. Each mistake changes one thing in `right` or in `by_heads`."""

from __future__ import annotations

import math

import numpy as np

from autograde.exercise import Mistake, Variant
from autograde.lazy import torch


def _sizes(q, k):
    """B, Hkv, G, T, D."""
    B, H, T, D = q.shape
    return B, k.shape[1], H // k.shape[1], T, D


def _scores(q, k, scale=None):
    B, Hkv, G, T, D = _sizes(q, k)
    scale = 1 / math.sqrt(D) if scale is None else scale
    return torch.einsum("bkgtd,bksd->bkgts", q.reshape(B, Hkv, G, T, D), k) * scale  # (B, Hkv, G, T, S)


def _weights(scores, mask):
    return scores.masked_fill(~mask, -math.inf).softmax(-1)


def _mixed(weights, v):
    B, Hkv, G, T, S = weights.shape
    return torch.einsum("bkgts,bksd->bkgtd", weights, v).reshape(B, Hkv * G, T, -1)  # (B, H, T, D)


def right(q, k, v, mask):
    return _mixed(_weights(_scores(q, k), mask), v)


def by_heads(q, k, v, mask, keys_of=None, values_of=None):
    """One head after the other; the two functions say which KV head it reads."""
    B, Hkv, G, T, D = _sizes(q, k)
    keys_of = keys_of or (lambda h: h // G)
    values_of = values_of or keys_of
    out = []
    for h in range(Hkv * G):
        scores = q[:, h] @ k[:, keys_of(h)].transpose(-1, -2) / math.sqrt(D)  # (B, T, S)
        out.append(_weights(scores, mask) @ v[:, values_of(h)])
    return torch.stack(out, dim=1)  # (B, H, T, D)


# Attention.


def not_scaled(q, k, v, mask):
    return _mixed(_weights(_scores(q, k, 1.0), mask), v)


def scaled_by_d(q, k, v, mask):
    return _mixed(_weights(_scores(q, k, 1 / q.shape[-1]), mask), v)


def scaled_by_width(q, k, v, mask):
    return _mixed(_weights(_scores(q, k, 1 / math.sqrt(q.shape[1] * q.shape[-1])), mask), v)


def scaled_by_kv_width(q, k, v, mask):
    return _mixed(_weights(_scores(q, k, 1 / math.sqrt(k.shape[1] * q.shape[-1])), mask), v)


def scaled_by_keys(q, k, v, mask):
    return _mixed(_weights(_scores(q, k, 1 / math.sqrt(k.shape[2])), mask), v)


def scaled_up(q, k, v, mask):
    return _mixed(_weights(_scores(q, k, math.sqrt(q.shape[-1])), mask), v)


def scaled_half(q, k, v, mask):
    return _mixed(_weights(_scores(q, k, q.shape[-1] ** -0.25), mask), v)


def scaled_after(q, k, v, mask):
    return _mixed(_weights(_scores(q, k, 1.0), mask) / math.sqrt(q.shape[-1]), v)


def softmax_over_queries(q, k, v, mask):
    return _mixed(_scores(q, k).masked_fill(~mask, -math.inf).softmax(-2), v)


def softmax_over_heads(q, k, v, mask):
    scores = _scores(q, k).masked_fill(~mask, -math.inf)
    return _mixed(scores.flatten(1, 2).softmax(1).view_as(scores), v)


def softmax_over_all(q, k, v, mask):
    scores = _scores(q, k).masked_fill(~mask, -math.inf)
    return _mixed(scores.flatten(-2).softmax(-1).view_as(scores), v)


def no_softmax(q, k, v, mask):
    return _mixed(_scores(q, k).masked_fill(~mask, 0.0), v)


def not_normalised(q, k, v, mask):
    return _mixed(_scores(q, k).masked_fill(~mask, -math.inf).exp(), v)


def divided_by_the_sum(q, k, v, mask):
    scores = _scores(q, k).masked_fill(~mask, 0.0)
    return _mixed(scores / scores.sum(-1, keepdim=True), v)


def equal_weights(q, k, v, mask):
    return _mixed(_weights(torch.zeros_like(_scores(q, k)), mask), v)


def keys_as_values(q, k, v, mask):
    return right(q, k, k, mask)


def values_as_keys(q, k, v, mask):
    return right(q, v, v, mask)


def keys_and_values_swapped(q, k, v, mask):
    return right(q, v, k, mask)


def batch_zero_keys(q, k, v, mask):
    return right(q, k[:1].expand_as(k), v, mask)


def batch_zero_values(q, k, v, mask):
    return right(q, k, v[:1].expand_as(v), mask)


def batch_zero(q, k, v, mask):
    return right(q, k[:1].expand_as(k), v[:1].expand_as(v), mask)


def batch_zero_queries(q, k, v, mask):
    return right(q[:1].expand_as(q), k, v, mask)


def batches_changed(q, k, v, mask):
    return right(q, k.flip(0), v.flip(0), mask)


def last_query_only(q, k, v, mask):
    return right(q, k, v, mask)[:, :, -1:]


def heads_last(q, k, v, mask):
    return right(q, k, v, mask).transpose(1, 2)


def flattened(q, k, v, mask):
    return right(q, k, v, mask).transpose(1, 2).flatten(2)


def with_weights(q, k, v, mask):
    weights = _weights(_scores(q, k), mask)
    return _mixed(weights, v), weights


def viewed_across(q, k, v, mask):
    return right(q, k, v, mask).transpose(1, 2).reshape(q.shape)


def queries_viewed_across(q, k, v, mask):
    return right(q.transpose(1, 2).reshape(q.shape), k, v, mask)


def zero_times_infinity(q, k, v, mask):
    return _mixed((_scores(q, k) + (1 - mask.double()) * -math.inf).softmax(-1), v)


def inverted(q, k, v, mask):
    return _mixed(_weights(_scores(q, k), ~mask), v)


def causal_top_left(q, k, v, mask):
    return right(q, k, v, torch.ones_like(mask).tril())


def causal_bottom_right(q, k, v, mask):
    T, S = mask.shape
    return right(q, k, v, torch.ones_like(mask).tril(S - T))


def mask_and_top_left(q, k, v, mask):
    """What is_causal=True beside a mask does."""
    mask = mask.clone()
    mask[:, 1:] &= torch.ones_like(mask).tril()[:, 1:]
    mask[:, 0] |= ~mask.any(-1)
    return right(q, k, v, mask)


def mask_and_bottom_right(q, k, v, mask):
    T, S = mask.shape
    both = mask & torch.ones_like(mask).tril(S - T)
    return right(q, k, v, torch.where(both.any(-1, keepdim=True), both, mask))


def half_precision(q, k, v, mask):
    return right(q.to(torch.bfloat16), k.to(torch.bfloat16), v.to(torch.bfloat16), mask)


def without_the_newest(q, k, v, mask):
    return right(q, k[:, :, :-1], v[:, :, :-1], mask[:, :-1])


def without_the_oldest(q, k, v, mask):
    return right(q, k[:, :, 1:], v[:, :, 1:], mask[:, 1:])


# Who reads whom.


def tiled(q, k, v, mask):
    return by_heads(q, k, v, mask, lambda h: h % k.shape[1])


def keys_tiled(q, k, v, mask):
    G = q.shape[1] // k.shape[1]
    return by_heads(q, k, v, mask, lambda h: h % k.shape[1], lambda h: h // G)


def values_tiled(q, k, v, mask):
    G = q.shape[1] // k.shape[1]
    return by_heads(q, k, v, mask, lambda h: h // G, lambda h: h % k.shape[1])


def divided_by_kv_heads(q, k, v, mask):
    return by_heads(q, k, v, mask, lambda h: min(h // k.shape[1], k.shape[1] - 1) if k.shape[1] < q.shape[1] else h)


def first_kv_head(q, k, v, mask):
    return by_heads(q, k, v, mask, (lambda h: 0) if k.shape[1] < q.shape[1] else None)


def last_ones_share(q, k, v, mask):
    return by_heads(q, k, v, mask, lambda h: min(h, k.shape[1] - 1))


def backwards(q, k, v, mask):
    G = q.shape[1] // k.shape[1]
    return by_heads(q, k, v, mask, (lambda h: k.shape[1] - 1 - h // G) if G > 1 else None)


def folded_g_first(q, k, v, mask):
    """The query heads are dealt out in turn on the way in, and laid side by side on the way out."""
    B, Hkv, G, T, D = _sizes(q, k)
    dealt = q.reshape(B, G, Hkv, T, D).transpose(1, 2)  # (B, Hkv, G, T, D)
    return right(dealt.reshape(q.shape), k, v, mask)


def unfolded_g_first(q, k, v, mask):
    """Right on the way in, dealt out in turn on the way out."""
    B, Hkv, G, T, D = _sizes(q, k)
    return right(q, k, v, mask).reshape(B, Hkv, G, T, D).transpose(1, 2).reshape(q.shape)


def rows_mixed_with_time(q, k, v, mask):
    """The rows go in time by time and are taken out head by head."""
    B, Hkv, G, T, D = _sizes(q, k)
    out = right(q, k, v, mask).reshape(B, Hkv, G, T, D)
    return out.transpose(2, 3).reshape(q.shape)


def queries_averaged(q, k, v, mask):
    B, Hkv, G, T, D = _sizes(q, k)
    mean = q.reshape(B, Hkv, G, T, D).mean(2, keepdim=True)
    return right(mean.expand(B, Hkv, G, T, D).reshape(q.shape), k, v, mask)


def first_query_of_each_group(q, k, v, mask):
    B, Hkv, G, T, D = _sizes(q, k)
    return right(q[:, ::G].repeat_interleave(G, dim=1), k, v, mask)


def one_head_per_group(q, k, v, mask):
    B, Hkv, G, T, D = _sizes(q, k)
    return right(q[:, ::G], k, v, mask)


def groups_summed(q, k, v, mask):
    B, Hkv, G, T, D = _sizes(q, k)
    out = right(q, k, v, mask).reshape(B, Hkv, G, T, D)
    return out.sum(2)


def only_the_first_heads(q, k, v, mask):
    return right(q[:, : k.shape[1]], k, v, mask)


def all_keys_in_one(q, k, v, mask):
    """The KV heads are laid one behind the other, and every query head sees them all."""
    if k.shape[1] in (1, q.shape[1]):
        return right(q, k, v, mask)
    k, v = k.flatten(1, 2)[:, None], v.flatten(1, 2)[:, None]  # (B, 1, Hkv*S, D)
    return right(q, k, v, mask.repeat(1, k.shape[2] // mask.shape[1]))


def keys_averaged(q, k, v, mask):
    """One mean KV head for all query heads."""
    if k.shape[1] == q.shape[1]:
        return right(q, k, v, mask)
    return right(q, k.mean(1, keepdim=True), v.mean(1, keepdim=True), mask)


def no_groups(q, k, v, mask):
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    return _weights(scores, mask) @ v


def scaled_by_group(q, k, v, mask):
    B, Hkv, G, T, D = _sizes(q, k)
    return _mixed(_weights(_scores(q, k, 1 / math.sqrt(G * D)), mask), v)


def softmax_over_the_group(q, k, v, mask):
    """One softmax for all rows of a group."""
    scores = _scores(q, k).masked_fill(~mask, -math.inf)
    G = scores.shape[2]
    return _mixed(scores.transpose(2, 3).flatten(3).softmax(-1).unflatten(3, (G, -1)).transpose(2, 3), v)


def divided_by_group(q, k, v, mask):
    return right(q, k, v, mask) / (q.shape[1] // k.shape[1])


def no_multi_query(q, k, v, mask):
    if k.shape[1] < 2:
        raise ValueError("needs at least 2 KV heads")
    return right(q, k, v, mask)


def no_fewer_groups_than_heads(q, k, v, mask):
    """The group is taken for two, whatever the sizes."""
    B, Hkv, G, T, D = _sizes(q, k)
    return by_heads(q, k, v, mask, (lambda h: min(h // 2, Hkv - 1)) if G > 1 else None)


# The mask.


def no_mask(q, k, v, mask):
    return right(q, k, v, torch.ones_like(mask))


def filled_with_zero(q, k, v, mask):
    return _mixed(_scores(q, k).masked_fill(~mask, 0.0).softmax(-1), v)


def filled_with_minus_one(q, k, v, mask):
    return _mixed(_scores(q, k).masked_fill(~mask, -1.0).softmax(-1), v)


def filled_with_plus_infinity(q, k, v, mask):
    return _mixed(_scores(q, k).masked_fill(~mask, 1e9).softmax(-1), v)


def added(q, k, v, mask):
    return _mixed((_scores(q, k) + mask).softmax(-1), v)


def after_softmax(q, k, v, mask):
    return _mixed(_scores(q, k).softmax(-1) * mask, v)


def first_head_only(q, k, v, mask):
    weights = _scores(q, k).softmax(-1)
    weights[:, 0, 0] = _weights(_scores(q, k), mask)[:, 0, 0]
    return _mixed(weights, v)


def first_kv_head_only(q, k, v, mask):
    weights = _scores(q, k).softmax(-1)
    weights[:, 0] = _weights(_scores(q, k), mask)[:, 0]
    return _mixed(weights, v)


def first_of_each_group_only(q, k, v, mask):
    weights = _scores(q, k).softmax(-1)
    weights[:, :, 0] = _weights(_scores(q, k), mask)[:, :, 0]
    return _mixed(weights, v)


def first_batch_row_only(q, k, v, mask):
    weights = _scores(q, k).softmax(-1)
    weights[0] = _weights(_scores(q, k), mask)[0]
    return _mixed(weights, v)


def last_batch_row_only(q, k, v, mask):
    weights = _scores(q, k).softmax(-1)
    weights[-1] = _weights(_scores(q, k), mask)[-1]
    return _mixed(weights, v)


def first_row_for_all(q, k, v, mask):
    return right(q, k, v, mask[:1].expand_as(mask))


def last_row_for_all(q, k, v, mask):
    return right(q, k, v, mask[-1:].expand_as(mask))


def any_query(q, k, v, mask):
    return right(q, k, v, mask.any(0, keepdim=True).expand_as(mask))


def rows_backwards(q, k, v, mask):
    return right(q, k, v, mask.flip(0))


def keys_backwards(q, k, v, mask):
    return right(q, k, v, mask.flip(1))


def shifted(q, k, v, mask):
    return right(q, k, v, mask.roll(1, dims=1))


def transposed(q, k, v, mask):
    return right(q, k, v, mask.T if mask.shape[0] == mask.shape[1] else mask)


def a_prefix(q, k, v, mask):
    """As many keys as the mask allows, but always the first ones."""
    return right(q, k, v, torch.arange(mask.shape[1]) < mask.sum(-1, keepdim=True))


def a_suffix(q, k, v, mask):
    return right(q, k, v, torch.arange(mask.shape[1]).flip(0) < mask.sum(-1, keepdim=True))


def up_to_the_last(q, k, v, mask):
    """Everything before the last visible key is taken for visible."""
    return right(q, k, v, mask.flip(1).int().cumsum(1).flip(1) > 0)


def newest_always(q, k, v, mask):
    mask = mask.clone()
    mask[:, -1] = True
    return right(q, k, v, mask)


def oldest_always(q, k, v, mask):
    mask = mask.clone()
    mask[:, 0] = True
    return right(q, k, v, mask)


def not_for_one_query(q, k, v, mask):
    return right(q, k, v, mask if mask.shape[0] > 1 else torch.ones_like(mask))


def not_for_one_kv_head(q, k, v, mask):
    return right(q, k, v, mask if k.shape[1] > 1 else torch.ones_like(mask))


def only_when_square(q, k, v, mask):
    return right(q, k, v, mask if mask.shape[0] == mask.shape[1] else torch.ones_like(mask))


def interleaved_rows(q, k, v, mask):
    """The rows of the folded queries are head by head, those of the mask are query by query."""
    B, Hkv, G, T, D = _sizes(q, k)
    rows = q.reshape(B, Hkv, G * T, D)
    scores = rows @ k.transpose(-1, -2) / math.sqrt(D)
    return (_weights(scores, mask.repeat_interleave(G, dim=0)) @ v).reshape(q.shape)


def values_hidden(q, k, v, mask):
    """Values that some query may not see are zeroed; the weights are those without a mask."""
    return _mixed(_scores(q, k).softmax(-1), v * mask.all(0)[:, None])


def keys_hidden(q, k, v, mask):
    """Keys that some query may not see are zeroed."""
    return _mixed(_scores(q, k * mask.all(0)[:, None]).softmax(-1), v)


def hides_the_row_of_queries(q, k, v, mask):
    """The weights after the mask are divided by the sum over the queries."""
    weights = _scores(q, k).softmax(-1) * mask
    return _mixed(weights / weights.sum((-1, -2), keepdim=True) * mask.shape[0], v)


def averaged_over_visible(q, k, v, mask):
    """After the mask, divided by the number of visible keys instead of their weight."""
    weights = _scores(q, k).softmax(-1) * mask
    return _mixed(weights * mask.shape[1] / mask.sum(-1, keepdim=True), v)


# No copy.


def _plain(q, k, v, mask):
    scores = torch.einsum("bhtd,bhsd->bhts", q, k) / math.sqrt(q.shape[-1])
    return torch.einsum("bhts,bhsd->bhtd", _weights(scores, mask), v)


def repeat_interleave(q, k, v, mask):
    G = q.shape[1] // k.shape[1]
    return _plain(q, k.repeat_interleave(G, dim=1), v.repeat_interleave(G, dim=1), mask)


def _expanded(x, G):
    B, Hkv, S, D = x.shape
    return x[:, :, None].expand(B, Hkv, G, S, D)


def expand_reshape(q, k, v, mask):
    G = q.shape[1] // k.shape[1]
    k, v = (_expanded(x, G).flatten(1, 2) for x in (k, v))
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def expand_contiguous(q, k, v, mask):
    B, Hkv, G, T, D = _sizes(q, k)
    k, v = _expanded(k, G).contiguous(), _expanded(v, G).contiguous()
    return _plain(q, k.view(B, Hkv * G, -1, D), v.view(B, Hkv * G, -1, D), mask)


def broadcast_matmul(q, k, v, mask):
    B, Hkv, G, T, D = _sizes(q, k)
    scores = q.reshape(B, Hkv, G, T, D) @ k[:, :, None].transpose(-1, -2) / math.sqrt(D)
    return (_weights(scores, mask) @ v[:, :, None]).reshape(q.shape)


def products_first(q, k, v, mask):
    """No product of matrices: every product of numbers is kept, and added up later."""
    B, Hkv, G, T, D = _sizes(q, k)
    products = q.reshape(B, Hkv, G, T, 1, D) * k[:, :, None, None]  # (B, Hkv, G, T, S, D)
    return _mixed(_weights(products.sum(-1) / math.sqrt(D), mask), v)


def both_in_one(q, k, v, mask):
    both = torch.stack([k, v]).repeat_interleave(q.shape[1] // k.shape[1], dim=2)  # (2, B, H, S, D)
    return _plain(q, both[0], both[1], mask)


# The caller's tensors.


def scales_queries_in_place(q, k, v, mask):
    q /= math.sqrt(q.shape[-1])
    return _mixed(_weights(_scores(q, k, 1.0), mask), v)


def scales_keys_in_place(q, k, v, mask):
    k.div_(math.sqrt(q.shape[-1]))
    return _mixed(_weights(_scores(q, k, 1.0), mask), v)


def turns_the_mask(q, k, v, mask):
    mask.logical_not_()
    return _mixed(_scores(q, k).masked_fill(mask, -math.inf).softmax(-1), v)


def writes_into_the_queries(q, k, v, mask):
    """The output goes where the queries were: no memory is needed, until somebody reads them again."""
    q.copy_(right(q, k, v, mask))
    return q


def hides_in_the_values(q, k, v, mask):
    """Zeroes the values that no query sees, in the cache itself."""
    out = right(q, k, v, mask)
    v.mul_(mask[0][:, None])
    return out


MISTAKES = (
    Mistake("not-scaled", not_scaled, "The scores are not scaled. Divide by the root of the head dim D.", "attention"),
    Mistake(
        "scaled-by-d",
        scaled_by_d,
        "The scores are divided by D: no root, or scaled twice, in the scores and in q. Divide once, by the root of D.",
        "attention",
        seen_in="q scaled by hand, and then once more by scaled_dot_product_attention",
    ),
    Mistake(
        "scaled-by-width",
        scaled_by_width,
        "You divide by the root of H*D, the width of all heads. Each head has scores of its own: the root of D.",
        "attention",
    ),
    Mistake(
        "scaled-by-kv-width",
        scaled_by_kv_width,
        "You divide by the root of Hkv*D, the width of all KV heads. Each head has scores of its own: the root of D.",
        "attention",
    ),
    Mistake(
        "scaled-by-keys",
        scaled_by_keys,
        "You divide by the root of S, the number of keys. Divide by that of D.",
        "attention",
    ),
    Mistake("scaled-up", scaled_up, "You multiply by the root of D. Divide by it.", "attention"),
    Mistake("scaled-half", scaled_half, "You divide by D**0.25 only. Divide by D**0.5.", "attention"),
    Mistake(
        "scaled-after-softmax", scaled_after, "You scale the weights. Scale the scores, before softmax.", "attention"
    ),
    Mistake(
        "softmax-over-queries",
        softmax_over_queries,
        "Your softmax runs over the queries. The weights of one query over all keys must add up to 1: the last axis.",
        "attention",
    ),
    Mistake(
        "softmax-over-heads",
        softmax_over_heads,
        "Your softmax runs over the heads. The weights of one query over all keys must add up to 1: the last axis.",
        "attention",
    ),
    Mistake(
        "softmax-over-queries-and-keys",
        softmax_over_all,
        "One softmax for all queries together. The weights of each query must add up to 1 by themselves.",
        "attention",
    ),
    Mistake("no-softmax", no_softmax, "There is no softmax: the scores themselves are taken for weights.", "attention"),
    Mistake(
        "not-normalised",
        not_normalised,
        "The weights are exp(score), and do not add up to 1. Divide by their sum.",
        "attention",
    ),
    Mistake(
        "scores-by-their-sum",
        divided_by_the_sum,
        "You divide the scores by their sum. Take exp of them first.",
        "attention",
    ),
    Mistake("equal-weights", equal_weights, "Every key gets the same weight, whatever the query is.", "attention"),
    Mistake("keys-as-values", keys_as_values, "You mix the keys. The weights belong to the values.", "attention"),
    Mistake(
        "values-as-keys", values_as_keys, "You compare the queries with the values. Compare with the keys.", "attention"
    ),
    Mistake("keys-and-values-swapped", keys_and_values_swapped, "k and v have changed places.", "attention"),
    Mistake(
        "keys-of-batch-row-0",
        batch_zero_keys,
        "All sequences read the keys of the first one. Keep the batch axis.",
        "attention",
    ),
    Mistake(
        "values-of-batch-row-0",
        batch_zero_values,
        "All sequences read the values of the first one. Keep the batch axis.",
        "attention",
    ),
    Mistake(
        "cache-of-batch-row-0", batch_zero, "All sequences read the keys and values of the first one.", "attention"
    ),
    Mistake(
        "queries-of-batch-row-0", batch_zero_queries, "All sequences ask with the queries of the first.", "attention"
    ),
    Mistake("sequences-swapped", batches_changed, "The first sequence reads the keys of the last one.", "attention"),
    Mistake(
        "last-query-only",
        last_query_only,
        "Only the last query is answered. A chunk has T of them: (B, H, T, D).",
        "attention",
    ),
    Mistake("heads-after-time", heads_last, "You return (B, T, H, D). Wanted is (B, H, T, D), like q.", "attention"),
    Mistake(
        "heads-laid-together",
        flattened,
        "You return (B, T, H*D), ready for the output projection. Wanted is (B, H, T, D), like q.",
        "attention",
    ),
    Mistake("weights-too", with_weights, "You return the weights as well. Return the output only.", "attention"),
    Mistake(
        "output-viewed-across",
        viewed_across,
        "Heads and time are mixed in the output: a reshape does not move axes, transpose does.",
        "attention",
    ),
    Mistake(
        "queries-viewed-across",
        queries_viewed_across,
        "Heads and time are mixed in q: a reshape does not move axes, transpose does.",
        "attention",
    ),
    Mistake(
        "zero-times-infinity",
        zero_times_infinity,
        "(1 - mask) * -inf is NaN where the mask is 1: 0 * inf. Use masked_fill, or torch.where.",
        "attention",
    ),
    Mistake(
        "inverted", inverted, "The mask is read the wrong way round. True means that the key may be seen.", "attention"
    ),
    Mistake(
        "top-left-triangle",
        causal_top_left,
        "You use a triangle from the top left, as is_causal=True does, and not the mask. Use the mask that is given.",
        "attention",
        seen_in="is_causal=True with a cache",
    ),
    Mistake(
        "bottom-right-triangle",
        causal_bottom_right,
        "You use a causal triangle of your own, and not the mask. Use the mask that is given.",
        "attention",
    ),
    Mistake(
        "mask-and-top-left-triangle",
        mask_and_top_left,
        "Besides the mask you apply a triangle from the top left, as is_causal=True does. The mask alone decides.",
        "attention",
    ),
    Mistake(
        "mask-and-bottom-right-triangle",
        mask_and_bottom_right,
        "Besides the mask you apply a causal triangle of your own. The mask alone decides.",
        "attention",
    ),
    Mistake(
        "half-precision",
        half_precision,
        "You work in bfloat16, which keeps two digits. Keep the dtype of q.",
        "attention",
    ),
    Mistake("without-the-newest-key", without_the_newest, "The newest key is never seen.", "attention"),
    Mistake("without-the-oldest-key", without_the_oldest, "The oldest key is never seen.", "attention"),
    Mistake(
        "tiled",
        tiled,
        "KV heads are dealt out in turn, h % Hkv. Neighbours share: q.reshape(B, Hkv, G, T, D) in and out, not (B, G, Hkv, ...).",
        "who reads whom",
        seen_in="k.repeat(1, G, 1, 1) for k.repeat_interleave(G, dim=1)",
    ),
    Mistake(
        "keys-tiled",
        keys_tiled,
        "The values are read by groups, but the keys are dealt out in turn, h % Hkv. Both go by h // G.",
        "who reads whom",
    ),
    Mistake(
        "values-tiled",
        values_tiled,
        "The keys are read by groups, but the values are dealt out in turn, h % Hkv. Both go by h // G.",
        "who reads whom",
    ),
    Mistake(
        "divided-by-the-kv-heads",
        divided_by_kv_heads,
        "Head h reads KV head h // Hkv. Divide by the size of a group: h // G with G = H // Hkv.",
        "who reads whom",
    ),
    Mistake(
        "first-kv-head",
        first_kv_head,
        "Every query head reads KV head 0. The group of head h is h // G.",
        "who reads whom",
    ),
    Mistake(
        "last-ones-share",
        last_ones_share,
        "The first heads have a KV head each, and all others share the last. The group of head h is h // G.",
        "who reads whom",
    ),
    Mistake("backwards", backwards, "The KV heads are given out from the last to the first.", "who reads whom"),
    Mistake(
        "queries-dealt-out",
        folded_g_first,
        "q is folded as (B, G, Hkv, ...) and the output unfolded as (B, Hkv, G, ...). Use (B, Hkv, G, ...) for both.",
        "who reads whom",
    ),
    Mistake(
        "output-dealt-out",
        unfolded_g_first,
        "q is folded as (B, Hkv, G, ...) and the output unfolded as (B, G, Hkv, ...). Use (B, Hkv, G, ...) for both.",
        "who reads whom",
    ),
    Mistake(
        "group-mixed-with-time",
        rows_mixed_with_time,
        "The G*T rows go in head by head and come out query by query, or the other way: undo what you folded.",
        "who reads whom",
    ),
    Mistake(
        "queries-averaged",
        queries_averaged,
        "You average the queries of a group. They share keys and values, but each asks its own question.",
        "who reads whom",
    ),
    Mistake(
        "first-query-for-the-group",
        first_query_of_each_group,
        "The first query head of a group is asked for all of them. Each asks its own question.",
        "who reads whom",
    ),
    Mistake(
        "one-output-for-each-group",
        one_head_per_group,
        "You return one head for each group. There are H query heads, and H outputs.",
        "who reads whom",
    ),
    Mistake(
        "groups-added-up",
        groups_summed,
        "You add up the outputs of a group. There are H outputs: (B, H, T, D).",
        "who reads whom",
    ),
    Mistake(
        "first-heads-only",
        only_the_first_heads,
        "Only the first Hkv query heads are answered. There are H.",
        "who reads whom",
    ),
    Mistake(
        "all-kv-heads-in-one",
        all_keys_in_one,
        "Every query head sees the keys of all KV heads. It reads one of them.",
        "who reads whom",
    ),
    Mistake(
        "kv-heads-averaged",
        keys_averaged,
        "You average the KV heads. Each query head reads one of them.",
        "who reads whom",
    ),
    Mistake(
        "no-groups",
        no_groups,
        "H query heads meet Hkv KV heads as they are: neither @ nor plain fused attention shares them. Fold the group into q's rows.",
        "who reads whom",
    ),
    Mistake(
        "scaled-by-the-group",
        scaled_by_group,
        "You divide by the root of G*D. A group's heads have scores of their own: the root of D.",
        "who reads whom",
    ),
    Mistake(
        "softmax-over-the-group",
        softmax_over_the_group,
        "One softmax for all heads of a group. The weights of each head must add up to 1 by themselves.",
        "who reads whom",
    ),
    Mistake(
        "divided-by-the-group", divided_by_group, "You divide the output by G. Nothing is averaged.", "who reads whom"
    ),
    Mistake(
        "no-multi-query",
        no_multi_query,
        "You refuse a single KV head. That is multi-query attention: all query heads read it.",
        "who reads whom",
    ),
    Mistake(
        "groups-of-two",
        no_fewer_groups_than_heads,
        "Your groups always have two heads. Work G out of the shapes: H // Hkv.",
        "who reads whom",
    ),
    Mistake("no-mask", no_mask, "The mask is not used: every query sees every key.", "the mask"),
    Mistake(
        "filled-with-zero",
        filled_with_zero,
        "A hidden score becomes 0, and exp(0) is a weight like any other. Fill with -inf, before softmax.",
        "the mask",
    ),
    Mistake(
        "filled-with-minus-one",
        filled_with_minus_one,
        "A hidden score becomes -1, which still gets weight. Fill with -inf, before softmax.",
        "the mask",
    ),
    Mistake(
        "filled-with-plus-infinity",
        filled_with_plus_infinity,
        "A hidden score becomes very large, and gets all the weight. The sign is wrong: fill with -inf.",
        "the mask",
    ),
    Mistake(
        "mask-added",
        added,
        "You add the mask of bools to the scores: True adds 1, and nothing is hidden. Fill with -inf where it is False.",
        "the mask",
    ),
    Mistake(
        "mask-after-softmax",
        after_softmax,
        "You hide weights after softmax, so that the rest do not add up to 1. Fill the scores with -inf before.",
        "the mask",
    ),
    Mistake("mask-for-head-0-only", first_head_only, "Only query head 0 heeds the mask. It holds for all.", "the mask"),
    Mistake(
        "mask-for-kv-head-0-only",
        first_kv_head_only,
        "Only the first group heeds the mask. It holds for all.",
        "the mask",
    ),
    Mistake(
        "mask-for-the-first-of-each-group-only",
        first_of_each_group_only,
        "Only the first head of each group heeds the mask. It holds for all.",
        "the mask",
    ),
    Mistake(
        "mask-for-batch-row-0-only",
        first_batch_row_only,
        "Only the first sequence heeds the mask. It holds for all.",
        "the mask",
    ),
    Mistake(
        "mask-for-the-last-batch-row-only",
        last_batch_row_only,
        "Only the last sequence heeds the mask. It holds for all.",
        "the mask",
    ),
    Mistake(
        "first-row-for-all-queries",
        first_row_for_all,
        "All queries use the first row of the mask. Row t is query t's.",
        "the mask",
    ),
    Mistake(
        "last-row-for-all-queries",
        last_row_for_all,
        "All queries use the last row of the mask. Row t is query t's.",
        "the mask",
    ),
    Mistake(
        "visible-to-any",
        any_query,
        "A key that one query may see is shown to all of them. Row t is query t's.",
        "the mask",
    ),
    Mistake("mask-rows-backwards", rows_backwards, "The rows of the mask are used from last to first.", "the mask"),
    Mistake("mask-keys-backwards", keys_backwards, "The columns of the mask are used from last to first.", "the mask"),
    Mistake("mask-shifted", shifted, "The mask is one key off. Column j is key j.", "the mask"),
    Mistake(
        "mask-transposed", transposed, "Where it is square, you use the mask's transpose: rows are queries.", "the mask"
    ),
    Mistake(
        "mask-taken-for-a-prefix",
        a_prefix,
        "You count the visible keys and take the first ones. The mask says which they are.",
        "the mask",
    ),
    Mistake(
        "mask-taken-for-a-suffix",
        a_suffix,
        "You count the visible keys and take the last ones. The mask says which they are.",
        "the mask",
    ),
    Mistake(
        "up-to-the-last-visible",
        up_to_the_last,
        "You show every key up to the last visible one. The mask may hide some before it.",
        "the mask",
    ),
    Mistake("newest-always-visible", newest_always, "The newest key is always seen. The mask may hide it.", "the mask"),
    Mistake("oldest-always-visible", oldest_always, "The oldest key is always seen. The mask may hide it.", "the mask"),
    Mistake(
        "not-for-one-query",
        not_for_one_query,
        "With one query you do not use the mask. It may hide keys there too.",
        "the mask",
    ),
    Mistake(
        "not-for-one-kv-head",
        not_for_one_kv_head,
        "With one KV head you do not use the mask. It holds there too.",
        "the mask",
    ),
    Mistake(
        "only-when-square",
        only_when_square,
        "You use the mask only where T equals S. It holds for every shape.",
        "the mask",
    ),
    Mistake(
        "mask-rows-interleaved",
        interleaved_rows,
        "The folded rows of q are head by head, but those of the mask query by query. Repeat it as a whole: cat([mask] * G).",
        "the mask",
    ),
    Mistake(
        "values-hidden",
        values_hidden,
        "You zero hidden values, but their keys keep their weight. Fill the scores with -inf.",
        "the mask",
    ),
    Mistake(
        "keys-hidden",
        keys_hidden,
        "You zero hidden keys, and a zero key still gets weight. Fill the scores with -inf.",
        "the mask",
    ),
    Mistake(
        "normalised-over-the-chunk",
        hides_the_row_of_queries,
        "After the mask the weights of all queries together are brought to 1. Each query's must add up to 1.",
        "the mask",
    ),
    Mistake(
        "normalised-by-the-count",
        averaged_over_visible,
        "After the mask you divide by the number of visible keys. Divide by the sum of their weights.",
        "the mask",
    ),
    Mistake(
        "repeat-interleave",
        repeat_interleave,
        "The numbers are right, but K and V are copied for every query head (repeat_interleave, an index, a stack). Fold q.",
        "no copy",
    ),
    Mistake(
        "expand-reshape",
        expand_reshape,
        "The numbers are right, but expand() and then reshape() or flatten() copies K and V for every query head. Fold q.",
        "no copy",
        seen_in="repeat_kv in many models",
    ),
    Mistake(
        "expand-contiguous",
        expand_contiguous,
        "The numbers are right, but contiguous() makes the copy that expand() has saved. Fold q instead.",
        "no copy",
    ),
    Mistake(
        "broadcast-matmul",
        broadcast_matmul,
        "The numbers are right, but @ copies what it broadcasts: K for every query head. Fold the group into q's rows.",
        "no copy",
    ),
    Mistake(
        "products-first",
        products_first,
        "The numbers are right, but every single product is kept before you add them up. Use @ or einsum.",
        "no copy",
    ),
    Mistake(
        "both-in-one",
        both_in_one,
        "The numbers are right, but K and V are stacked and then copied for every query head. Fold q instead.",
        "no copy",
    ),
    Mistake(
        "queries-scaled-in-place",
        scales_queries_in_place,
        "q /= ... changes the caller's q. Write q = q / ....",
        "the caller's tensors",
    ),
    Mistake(
        "keys-scaled-in-place",
        scales_keys_in_place,
        "You scale k in place: that is the cache itself, and the next step scales it again.",
        "the caller's tensors",
    ),
    Mistake(
        "mask-turned-in-place",
        turns_the_mask,
        "You turn the mask round in place: the next layer gets it the wrong way. Write ~mask.",
        "the caller's tensors",
    ),
    Mistake(
        "output-into-q",
        writes_into_the_queries,
        "You write the output into q. Make a tensor of your own.",
        "the caller's tensors",
    ),
    Mistake(
        "values-zeroed-in-place",
        hides_in_the_values,
        "You zero values in place: that is the cache itself, and a later query may see them.",
        "the caller's tensors",
    ),
)


def folded_sdpa(q, k, v, mask):
    B, Hkv, G, T, D = _sizes(q, k)
    rows = q.reshape(B, Hkv, G * T, D)
    out = torch.nn.functional.scaled_dot_product_attention(rows, k, v, attn_mask=mask.repeat(G, 1))
    return out.reshape(q.shape)


def fused_groups(q, k, v, mask):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)


def folded_time_first(q, k, v, mask):
    B, Hkv, G, T, D = _sizes(q, k)
    rows = q.reshape(B, Hkv, G, T, D).transpose(2, 3).reshape(B, Hkv, T * G, D)
    scores = rows @ k.mT / D**0.5
    out = scores.masked_fill(~mask.repeat_interleave(G, dim=0), -1e30).softmax(-1) @ v
    return out.view(B, Hkv, T, G, D).transpose(2, 3).reshape(B, Hkv * G, T, D)


def loops(q, k, v, mask):
    out = torch.zeros_like(q)
    G = q.shape[1] // k.shape[1]
    for b, h, t in np.ndindex(*q.shape[:3]):
        keys, values = k[b, h // G][mask[t]], v[b, h // G][mask[t]]
        out[b, h, t] = (keys @ q[b, h, t] / q.shape[-1] ** 0.5).softmax(0) @ values
    return out


def float32(q, k, v, mask):
    bias = torch.zeros(mask.shape).masked_fill(~mask, torch.finfo(torch.float32).min)
    return _mixed((_scores(q.float(), k.float()) + bias).softmax(-1), v.float())


def by_kv_heads(q, k, v, mask):
    B, Hkv, G, T, D = _sizes(q, k)
    out = []
    for j in range(Hkv):
        rows = q[:, j * G : (j + 1) * G].flatten(1, 2)  # (B, G*T, D)
        scores = torch.bmm(rows, k[:, j].transpose(1, 2)) * D**-0.5
        scores = scores.unflatten(1, (G, T)).where(mask, -math.inf)
        out.append(torch.einsum("bgts,bsd->bgtd", scores.softmax(-1), v[:, j]))
    return torch.cat(out, dim=1)


def online(q, k, v, mask):
    """One key at a time, with a running maximum and a running sum."""
    B, Hkv, G, T, D = _sizes(q, k)
    grouped = q.reshape(B, Hkv, G, T, D)
    top = torch.full((B, Hkv, G, T, 1), -1e30, dtype=q.dtype)
    total, out = torch.zeros_like(top), torch.zeros_like(grouped)
    for s in range(k.shape[2]):
        score = torch.einsum("bkgtd,bkd->bkgt", grouped, k[:, :, s])[..., None] / math.sqrt(D)
        score = torch.where(mask[:, s, None], score, -math.inf)
        new_top = torch.maximum(top, score)
        old, new = (top - new_top).exp(), (score - new_top).exp()
        total, top = total * old + new, new_top
        out = out * old + new * v[:, :, None, None, s]
    return (out / total).reshape(q.shape)


def renormalised(q, k, v, mask):
    """Hidden after the exponential, and divided by what is left."""
    weights = _scores(q, k).exp() * mask
    return _mixed(weights / weights.sum(-1, keepdim=True), v)


def in_numpy(q, k, v, mask):
    B, Hkv, G, T, D = _sizes(q, k)
    q, k, v, mask = (x.numpy() for x in (q, k, v, mask))
    scores = np.einsum("bkgtd,bksd->bkgts", q.reshape(B, Hkv, G, T, D), k) / np.sqrt(D)
    weights = np.exp(scores - scores.max(-1, keepdims=True)) * mask
    return np.einsum("bkgts,bksd->bkgtd", weights / weights.sum(-1, keepdims=True), v).reshape(B, Hkv * G, T, D)


def log_mask(q, k, v, mask):
    B, Hkv, G, T, D = _sizes(q, k)
    rows = (q / math.sqrt(D)).reshape(B * Hkv, G * T, D)
    bias = mask.to(q.dtype).log().tile(G, 1)  # 0 or -inf
    keys, values = k.reshape(B * Hkv, -1, D), v.reshape(B * Hkv, -1, D)
    return torch.baddbmm(bias, rows, keys.mT).softmax(-1).bmm(values).reshape(B, Hkv * G, T, D)


def a_loop_over_heads(q, k, v, mask):
    return by_heads(q, k, v, mask)


VARIANTS = (
    Variant("einsum with an axis for the group", right),
    Variant("one head after the other", a_loop_over_heads),
    Variant("folded, fused attention", folded_sdpa),
    Variant("fused attention that knows groups", fused_groups),
    Variant("folded query by query", folded_time_first),
    Variant("loops over everything", loops),
    Variant("float32, additive mask", float32),
    Variant("one KV head after the other", by_kv_heads),
    Variant("one key at a time", online),
    Variant("hidden after exp, divided by the rest", renormalised),
    Variant("NumPy on the tensors' memory", in_numpy),
    Variant("logarithm of the mask, bmm", log_mask),
)


# Right in most calls only.


def filled_with_minus_hundred(q, k, v, mask):
    return _mixed(_scores(q, k).masked_fill(~mask, -100.0).softmax(-1), v)


def copies_when_decoding(q, k, v, mask):
    if q.shape[2] > 1:
        return right(q, k, v, mask)
    G = q.shape[1] // k.shape[1]
    K, V = k.repeat_interleave(G, dim=1), v.repeat_interleave(G, dim=1)
    return (q @ K.transpose(2, 3) / math.sqrt(q.shape[3])).masked_fill(~mask, -math.inf).softmax(-1) @ V


def q_viewed(q, k, v, mask):
    B, Hkv, G, T, D = _sizes(q, k)
    scores = q.view(B, Hkv, G * T, D) @ k.transpose(2, 3) / math.sqrt(D)
    return (scores.masked_fill(~mask.repeat(G, 1), -math.inf).softmax(-1) @ v).reshape(B, Hkv * G, T, D)


def q_scaled_in_place_without_groups(q, k, v, mask):
    if q.shape[1] > k.shape[1]:
        return right(q, k, v, mask)
    q /= math.sqrt(q.shape[3])
    return (q @ k.transpose(2, 3)).masked_fill(~mask, -math.inf).softmax(-1) @ v


def float64_bias(q, k, v, mask):
    bias = torch.zeros(mask.shape, dtype=torch.float64).masked_fill(~mask, -math.inf)
    return _mixed((_scores(q, k) + bias).softmax(-1), v)


MISTAKES += (
    Mistake(
        "filled-with-minus-hundred",
        filled_with_minus_hundred,
        "Hidden scores become a number such as -100. Where visible ones are lower, hidden keys win: fill with -inf.",
        "the mask",
    ),
    Mistake(
        "float64-bias",
        float64_bias,
        "The mask becomes float64 numbers, whatever q is: with float32 tensors torch refuses. Take q.dtype.",
        "the mask",
    ),
    Mistake(
        "copies-when-decoding",
        copies_when_decoding,
        "For a single query you repeat K for every query head. Decoding is where the copy costs most: fold there too.",
        "no copy",
    ),
    Mistake(
        "q-viewed",
        q_viewed,
        "q.view() works on contiguous tensors only; a decoder's q has its axes exchanged. Use reshape().",
        "the caller's tensors",
    ),
    Mistake(
        "q-scaled-in-place-without-groups",
        q_scaled_in_place_without_groups,
        "With a KV head for each query head you divide q in place: the caller's q changes.",
        "the caller's tensors",
    ),
)


def additive(q, k, v, mask):
    B, Hkv, G, T, D = _sizes(q, k)
    scores = q.reshape(B, Hkv, G * T, D) @ k.mT * D**-0.5 + (~mask).repeat(G, 1) * -1e9
    return (scores.softmax(-1) @ v).reshape(B, Hkv * G, T, D)


def visible_keys_only(q, k, v, mask):
    out = torch.empty_like(q)
    for t in range(q.shape[2]):
        see = mask[t].nonzero().flatten()
        out[:, :, t : t + 1] = right(q[:, :, t : t + 1], k[:, :, see], v[:, :, see], mask[t : t + 1, see])
    return out


def folded_batch(q, k, v, mask):
    B, Hkv, G, T, D = _sizes(q, k)
    rows, mask = q.reshape(B * Hkv, G * T, D), mask.tile(G, 1)
    attend = torch.nn.functional.scaled_dot_product_attention
    return attend(rows, k.flatten(0, 1), v.flatten(0, 1), attn_mask=mask).reshape(B, Hkv * G, T, D)


VARIANTS += (
    Variant("minus a billion added", additive),
    Variant("the visible keys picked out", visible_keys_only),
    Variant("batch and KV heads in one axis", folded_batch),
)
