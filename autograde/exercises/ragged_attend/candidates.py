"""Wrong and right ways to attend over a padded batch. Each mistake is `attend` with one part changed."""

from __future__ import annotations

import math

from autograde.exercise import Mistake, Variant
from autograde.lazy import torch


def right_mask(q_positions, k_positions):
    q, k = q_positions[:, :, None], k_positions[:, None, :]
    return (k >= 0) & (k <= q)


def clean(rows, positions):
    return rows.masked_fill(positions[:, None, :, None] < 0, 0.0)


def shares(scores, mask):
    """Softmax over what may be seen; zeros where nothing may."""
    return torch.where(mask, scores, -torch.inf).softmax(-1).where(mask.any(-1, keepdim=True), 0.0)


def group(rows, H):
    return rows.repeat_interleave(H // rows.shape[1], dim=1)


def scale(q, k):
    return 1 / math.sqrt(q.shape[-1])


def attend(
    q,
    k,
    v,
    q_positions,
    k_positions,
    mask=right_mask,
    clean_q=clean,
    clean_k=clean,
    clean_v=clean,
    shares=shares,
    group=group,
    scale=scale,
    after=lambda out, q_positions: out,
):
    H = q.shape[1]
    q, k, v = clean_q(q, q_positions), clean_k(k, k_positions), clean_v(v, k_positions)
    scores = q @ group(k, H).mT * scale(q, k)  # (B, H, T, S)
    weights = shares(scores, mask(q_positions, k_positions)[:, None])
    return after(weights @ group(v, H), q_positions)


def clean_there(rows, positions):
    """Clears the caller's own rows."""
    return rows.masked_fill_(positions[:, None, :, None] < 0, 0.0)


def changed(**parts):
    def ragged_attend(q, k, v, q_positions, k_positions):
        return attend(q, k, v, q_positions, k_positions, **parts)

    return ragged_attend


# Masks.


def pads_only(q_positions, k_positions):
    return (k_positions[:, None, :] >= 0) & (q_positions[:, :, None] >= 0)


def causal_only(q_positions, k_positions):
    return (k_positions[:, None, :] <= q_positions[:, :, None]) & (q_positions[:, :, None] >= 0)


def not_itself(q_positions, k_positions):
    q, k = q_positions[:, :, None], k_positions[:, None, :]
    return (k >= 0) & (k < q)


def one_ahead(q_positions, k_positions):
    q, k = q_positions[:, :, None], k_positions[:, None, :]
    return (k >= 0) & (k <= q + 1) & (q >= 0)


def not_the_first(q_positions, k_positions):
    q, k = q_positions[:, :, None], k_positions[:, None, :]
    return (k > 0) & (k <= q) | (k == 0) & (q == 0)


def triangle(q_positions, k_positions, last=False):
    """By columns, not by positions."""
    T, S = q_positions.shape[1], k_positions.shape[1]
    square = torch.ones(T, S, dtype=torch.bool).tril(S - T if last else 0)
    return square & pads_only(q_positions, k_positions)


def by_columns(q_positions, k_positions):
    """The column of a key is taken for its position."""
    q, S = q_positions[:, :, None], k_positions.shape[1]
    return (torch.arange(S) <= q) & (k_positions[:, None, :] >= 0)


def by_counts(q_positions, k_positions):
    """The first n columns are taken for the n tokens of a row, in order."""
    n = (k_positions >= 0).sum(1)[:, None, None]
    columns = torch.arange(k_positions.shape[1])
    return (columns < n) & (columns <= q_positions[:, :, None])


def causal_in_chunks_only(q_positions, k_positions):
    """A single new token is given no mask at all."""
    mask = right_mask(q_positions, k_positions)
    return mask if q_positions.shape[1] > 1 else torch.ones_like(mask) & (q_positions[:, :, None] >= 0)


def pads_in_steps_only(q_positions, k_positions):
    """The padding is masked in decode; a chunk has its triangle only."""
    chunk = q_positions.shape[1] > 1
    return causal_only(q_positions, k_positions) if chunk else right_mask(q_positions, k_positions)


def mask_of_row_0(q_positions, k_positions):
    mask = right_mask(q_positions, k_positions)
    return mask[:1].expand_as(mask)


def queries_of_row_0(q_positions, k_positions):
    return right_mask(q_positions[:1].expand_as(q_positions), k_positions)


def longest_query(q_positions, k_positions):
    """Every query of a row sees up to the newest token of the row."""
    newest = q_positions.max(1, keepdim=True).values.expand_as(q_positions)
    return right_mask(newest, k_positions) & (q_positions[:, :, None] >= 0)


def padded_see_the_first(q_positions, k_positions):
    """A padded query is given position 0, so that it sees something."""
    return right_mask(q_positions.clamp(min=0), k_positions)


def padded_see_all(q_positions, k_positions):
    mask = right_mask(q_positions, k_positions)
    return mask | ((q_positions[:, :, None] < 0) & (k_positions[:, None, :] >= 0))


# Softmax.


def bare(scores, mask):
    return scores.masked_fill(~mask, -torch.inf).softmax(-1)


def finite(scores, mask):
    return scores.masked_fill(~mask, -1e9).softmax(-1)


def zero_scores(scores, mask):
    """Masked scores are 0, and e**0 is 1."""
    return scores.masked_fill(~mask, 0.0).softmax(-1).where(mask.any(-1, keepdim=True), 0.0)


def not_shared_out_again(scores, mask):
    """The mask is laid over the weights, after the softmax."""
    return scores.softmax(-1) * mask


def over_queries(scores, mask):
    return torch.where(mask, scores, -torch.inf).softmax(-2).nan_to_num(0.0)


def added(scores, mask):
    """-inf is added to the scores, as a mask of numbers does."""
    hidden = torch.zeros_like(scores).masked_fill(~mask, -torch.inf)
    return (scores + hidden).softmax(-1).where(mask.any(-1, keepdim=True), 0.0)


def times_mask(scores, mask):
    """Scores times mask first, to be sure, then -inf."""
    return shares(scores * mask, mask) + (scores * mask).sum(-1, keepdim=True) * 0


# Heads and scale.


def tiled(rows, H):
    return rows.repeat(1, H // rows.shape[1], 1, 1)


def head_0(rows, H):
    return rows[:, :1].expand(-1, H, -1, -1)


def keep(rows, positions):
    return rows


def clean_after(out, q_positions):
    return out.nan_to_num(0.0, 0.0, 0.0)


def by_threes(rows, H):
    return rows.repeat_interleave(3, dim=1)[:, :H]


def minus_100(scores, mask):
    return scores.masked_fill(~mask, -100.0).softmax(-1).where(mask.any(-1, keepdim=True), 0.0)


def nan_only(rows, positions):
    return rows.where(~rows.isnan() & (rows > -torch.inf), 0.0)


MISTAKES = (
    Mistake(
        "no-causal-mask",
        changed(mask=pads_only),
        "Only padding is masked: a query also sees the tokens after its own. The key's position must not exceed its own.",
        killed_by="no padding",
    ),
    Mistake(
        "not-itself",
        changed(mask=not_itself),
        "A query does not see its own position. `<=`, not `<`: a token attends to itself too.",
        killed_by="no padding",
    ),
    Mistake(
        "one-ahead", changed(mask=one_ahead), "A query sees one position too many, the token after it.", "no padding"
    ),
    Mistake(
        "first-token-hidden",
        changed(mask=not_the_first),
        "Position 0 is hidden like padding. It is a token: the test for a token is `>= 0`.",
        killed_by="no padding",
    ),
    Mistake(
        "top-left-triangle",
        changed(mask=triangle),
        "The mask is a triangle from the top left: rows and columns are no positions. Compare positions.",
        killed_by="no padding",
    ),
    Mistake(
        "newest-of-the-row",
        changed(mask=longest_query),
        "Every query sees as far as the last query of its row. Each has its own position.",
        killed_by="no padding",
    ),
    Mistake("no-scale", changed(scale=lambda q, k: 1.0), "The scores are not divided by sqrt(D).", "no padding"),
    Mistake(
        "scale-without-root",
        changed(scale=lambda q, k: 1 / q.shape[-1]),
        "Scores are divided by D, not by its root.",
        "no padding",
    ),
    Mistake(
        "tiled-heads",
        changed(group=tiled),
        "Query head h reads KV head h % Hkv. Neighbours share: h // (H // Hkv).",
        killed_by="no padding",
    ),
    Mistake("kv-head-0-for-all", changed(group=head_0), "All query heads read KV head 0.", "no padding"),
    Mistake(
        "softmax-over-queries",
        changed(shares=over_queries),
        "The softmax runs over the queries. It must run over the keys, the last axis.",
        killed_by="no padding",
    ),
    Mistake(
        "masked-after-the-softmax",
        changed(shares=not_shared_out_again),
        "The mask is laid over the weights after the softmax, so they no longer add up to 1. Mask the scores.",
        killed_by="no padding",
    ),
    Mistake(
        "masked-scores-are-0",
        changed(shares=zero_scores),
        "Masked scores are set to 0, and a score of 0 still gets weight. Set them to minus infinity.",
        killed_by="no padding",
        seen_in="batched decoding over buffers filled with zeros",
    ),
    Mistake(
        "padded-keys-visible",
        changed(mask=causal_only),
        "Padded keys are seen: position -1 is not later than the query. Ask for `k_positions >= 0` too.",
        killed_by="rows of different lengths",
    ),
    Mistake(
        "bottom-right-triangle",
        changed(mask=lambda q, k: triangle(q, k, last=True)),
        "The mask is a triangle into the bottom right corner, the same for all rows. Rows differ: compare positions.",
        killed_by="rows of different lengths",
    ),
    Mistake(
        "mask-of-row-0",
        changed(mask=mask_of_row_0),
        "The mask of row 0 is used for the whole batch. It has shape (B, T, S): one for each row.",
        killed_by="rows of different lengths",
    ),
    Mistake(
        "queries-of-row-0",
        changed(mask=queries_of_row_0),
        "The positions of row 0's queries are used for all rows.",
        killed_by="rows of different lengths",
    ),
    Mistake(
        "no-mask-for-one-token",
        changed(mask=causal_in_chunks_only),
        "A single new token is given no mask, so in decode the padding is seen. Only a row without padding may do so.",
        killed_by="rows of different lengths",
        seen_in="decode steps that drop the mask because one query sees everything",
    ),
    Mistake(
        "padding-masked-for-one-token-only",
        changed(mask=pads_in_steps_only),
        "With several queries the padded keys are seen; with one they are not. Both need the whole mask.",
        killed_by="rows of different lengths",
    ),
    Mistake(
        "columns-as-positions",
        changed(mask=by_columns),
        "A key's column is taken for its position. With padding on the left they differ.",
        killed_by="any column",
        seen_in="left-padded batches",
    ),
    Mistake(
        "first-columns-as-tokens",
        changed(mask=by_counts),
        "The first n columns are taken for a row's n tokens. `k_positions` says where they are.",
        killed_by="any column",
    ),
    Mistake(
        "nan-for-padded-queries",
        changed(shares=bare),
        "A query that sees nothing gives 0/0 = NaN. Put zeros there: in the next layer one NaN spoils every row.",
        killed_by="padded queries",
    ),
    Mistake(
        "mean-for-padded-queries",
        changed(shares=finite),
        "Masked scores are -1e9: a query that sees nothing then gives the mean of all values. It must give zeros.",
        killed_by="padded queries",
    ),
    Mistake(
        "padded-queries-see-the-first",
        changed(mask=padded_see_the_first),
        "A padded query is treated as if it stood at position 0. It sees nothing, and gives zeros.",
        killed_by="padded queries",
    ),
    Mistake(
        "padded-queries-see-all",
        changed(mask=padded_see_all),
        "Padded queries see all tokens of their row. They must give zeros.",
        killed_by="padded queries",
    ),
    Mistake(
        "nan-in-values",
        changed(clean_v=keep),
        "Padded values get weight 0, and 0 * NaN is NaN (a mask multiplied onto v, too). Put zeros there with `masked_fill`.",
        killed_by="rubbish under the padding",
        seen_in="attention over memory that was never written",
    ),
    Mistake(
        "cleaned-in-place",
        changed(clean_k=clean_there, clean_v=clean_there),
        "Padded rows of k and v are cleared in place, so the caller's cache has changed. Use masked_fill, without the _.",
        killed_by="the caller's tensors",
    ),
    Mistake(
        "nan-in-keys",
        changed(clean_k=keep, shares=added),
        "A mask of -inf is added to scores that are NaN, and NaN stays. Replace them, or put zeros into padded keys.",
        killed_by="rubbish under the padding",
    ),
    Mistake(
        "nan-in-queries",
        changed(clean_q=keep, shares=times_mask),
        "A padded query that holds NaN gives NaN. Whatever it holds, its output is zeros.",
        killed_by="rubbish under the padding",
    ),
    Mistake(
        "nan-cleaned-too-late",
        changed(clean_v=keep, after=clean_after),
        "NaN is replaced in the output, where it has already spoilt rows that are tokens. Clear k and v before.",
        killed_by="rubbish under the padding",
    ),
    Mistake("group-of-three", changed(group=by_threes), "The group is always 3 heads. It is H // Hkv.", "no padding"),
    Mistake(
        "scale-of-one-layer",
        changed(scale=lambda q, k: 1 / math.sqrt(5)),
        "The scores are divided by sqrt(5), whatever D is. Take D from the rows.",
        killed_by="no padding",
    ),
    Mistake(
        "minus-100-for-minus-infinity",
        changed(shares=minus_100),
        "Masked scores are -100, and real ones may be lower still. Set them to minus infinity.",
        killed_by="any column",
    ),
    Mistake(
        "infinity-in-values",
        changed(clean_v=nan_only),
        "Infinity stays in padded values, and 0 * inf is NaN. Clear by position, whatever is there.",
        killed_by="rubbish under the padding",
    ),
)


def by_sdpa(q, k, v, q_positions, k_positions):
    """The library's kernel with the group left to it."""
    mask = right_mask(q_positions, k_positions)
    k, v = clean(k, k_positions), clean(v, k_positions)
    seen = mask.any(-1)[:, None, :, None]  # (B, 1, T, 1)
    out = torch.nn.functional.scaled_dot_product_attention(
        q.where(seen, 0.0), k, v, attn_mask=mask[:, None] | ~seen, enable_gqa=True
    )
    return out * seen


def by_rows(q, k, v, q_positions, k_positions):
    """Each row alone, without its padding, in loops."""
    B, H, T, D = q.shape
    out = torch.zeros(B, H, T, v.shape[-1], dtype=q.dtype)
    for b in range(B):
        for t in range(T):
            keys = [s for s in range(k.shape[2]) if 0 <= k_positions[b, s] <= q_positions[b, t]]
            for h in range(H if keys else 0):
                head = h * k.shape[1] // H
                weights = (k[b, head, keys] @ q[b, h, t] / math.sqrt(D)).softmax(0)
                out[b, h, t] = weights @ v[b, head, keys]
    return out


def by_einsum(q, k, v, q_positions, k_positions):
    """Grouped, in float32, exponentials by hand."""
    B, H, T, D = q.shape
    Hkv = k.shape[1]
    mask = right_mask(q_positions, k_positions)[:, None, None]  # (B, 1, 1, T, S)
    k, v = (torch.where(k_positions[:, None, :, None] < 0, 0, rows).float() for rows in (k, v))
    q = torch.nan_to_num(q.float(), 0.0, 0.0, 0.0).view(B, Hkv, H // Hkv, T, D)
    scores = torch.einsum("bngtd,bnsd->bngts", q, k) * D**-0.5
    top = scores.where(mask, -torch.inf).amax(-1, keepdim=True).clamp(min=-1e30)
    powers = (scores - top).where(mask, -torch.inf).exp()
    weights = powers / powers.sum(-1, keepdim=True).clamp(min=1e-30)
    return torch.einsum("bngts,bnsd->bngtd", weights, v).reshape(B, H, T, -1)  # (B, H, T, D)


def with_a_key_of_zeros(q, k, v, q_positions, k_positions):
    """A last key and value of zeros, for whoever sees nothing else."""
    q, k, v = clean(q, q_positions), clean(k, k_positions), clean(v, k_positions)
    mask = right_mask(q_positions, k_positions)
    mask = torch.cat((mask, ~mask.any(-1, keepdim=True)), -1)[:, None]
    k, v = (torch.nn.functional.pad(rows, (0, 0, 0, 1)) for rows in (k, v))
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)


VARIANTS = (
    Variant("masked softmax, copies of the KV heads", changed()),
    Variant("scaled_dot_product_attention", by_sdpa),
    Variant("each row alone, in loops", by_rows),
    Variant("einsum in float32", by_einsum),
    Variant("a key of zeros for those who see nothing", with_a_key_of_zeros),
)
