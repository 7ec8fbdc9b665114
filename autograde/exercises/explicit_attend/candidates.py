"""Wrong and right ways to attend over latents. Each mistake is `attend` with one part changed."""

from __future__ import annotations

import math

from autograde.exercise import Mistake, Variant
from autograde.lazy import torch


def from_latents(c_kv, w):
    """(B, H, S, D): a row for each head and token."""
    return torch.einsum("bsr,hdr->bhsd", c_kv, w)


def content_scores(q_nope, k_nope):
    return q_nope @ k_nope.mT


def position_scores(q_pe, k_pe):
    return torch.einsum("bhtd,bsd->bhts", q_pe, k_pe)


def right_scale(Dn, Dr, Dv, R):
    return 1 / math.sqrt(Dn + Dr)


def newest(T, S):
    return torch.arange(S) <= torch.arange(S - T, S)[:, None]


def shares(scores, seen):
    return scores.masked_fill(~seen, -math.inf).softmax(-1)


def attend(
    q_nope,
    q_pe,
    c_kv,
    k_pe,
    w_uk,
    w_uv,
    keys=from_latents,
    values=from_latents,
    content=content_scores,
    position=position_scores,
    scale=right_scale,
    seen=newest,
    shares=shares,
    after=lambda out: out,
):
    T, S = q_nope.shape[2], c_kv.shape[1]
    factor = scale(q_nope.shape[3], q_pe.shape[3], w_uv.shape[1], c_kv.shape[2])
    scores = (content(q_nope, keys(c_kv, w_uk)) + position(q_pe, k_pe)) * factor  # (B, H, T, S)
    return after(shares(scores, seen(T, S)) @ values(c_kv, w_uv))


def changed(**parts):
    def explicit_attend(q_nope, q_pe, c_kv, k_pe, w_uk, w_uv):
        return attend(q_nope, q_pe, c_kv, k_pe, w_uk, w_uv, **parts)

    return explicit_attend


# Values.


def reshaped(c_kv, w):
    """The matrix is read in another order where it should be transposed."""
    H, D, R = w.shape
    return c_kv[:, None] @ w.reshape(H, R, D)


def first_head(c_kv, w):
    return from_latents(c_kv, w[:1].expand_as(w))


def heads_averaged(c_kv, w):
    return from_latents(c_kv, w.mean(0, keepdim=True).expand_as(w))


def heads_reversed(c_kv, w):
    return from_latents(c_kv, w.flip(0))


def first_sequence(c_kv, w):
    return from_latents(c_kv[:1].expand_as(c_kv), w)


def uk_for_values(q_nope, q_pe, c_kv, k_pe, w_uk, w_uv):
    return attend(q_nope, q_pe, c_kv, k_pe, w_uk, w_uk)


def latents_as_values(c_kv, w):
    return c_kv[:, None].expand(-1, len(w), -1, -1)


def whole_keys_as_values(q_nope, q_pe, c_kv, k_pe, w_uk, w_uv):
    """Key and value are one row in many caches: what is mixed has a position in it."""
    values = torch.cat((from_latents(c_kv, w_uk), k_pe[:, None].expand(-1, len(w_uk), -1, -1)), -1)
    return attend(q_nope, q_pe, c_kv, k_pe, w_uk, w_uv, values=lambda c_kv, w: values)


def values_and_positions(q_nope, q_pe, c_kv, k_pe, w_uk, w_uv):
    """The rotary part is joined to the values too."""
    values = torch.cat((from_latents(c_kv, w_uv), k_pe[:, None].expand(-1, len(w_uv), -1, -1)), -1)
    return attend(q_nope, q_pe, c_kv, k_pe, w_uk, w_uv, values=lambda c_kv, w: values)


# Keys.


def no_position(q_pe, k_pe):
    return 0.0


def no_content(q_nope, k_nope):
    return 0.0


def position_for_first_head(q_pe, k_pe):
    """The one rotary key is taken for that of head 0."""
    scores = position_scores(q_pe, k_pe)
    scores[:, 1:] = 0
    return scores


def first_sequence_positions(q_pe, k_pe):
    return position_scores(q_pe, k_pe[:1].expand_as(k_pe))


def position_of_first_query_head(q_pe, k_pe):
    """As if the rotary query were shared too."""
    return position_scores(q_pe[:, :1].expand_as(q_pe), k_pe)


def other_order(q_nope, q_pe, c_kv, k_pe, w_uk, w_uv):
    """Queries have the rotary part first, keys last."""
    q = torch.cat((q_pe, q_nope), -1)
    k = torch.cat((from_latents(c_kv, w_uk), k_pe[:, None].expand(-1, len(w_uk), -1, -1)), -1)
    return attend(q_nope, q_pe, c_kv, k_pe, w_uk, w_uv, content=lambda *_: q @ k.mT, position=no_position)


def only_content_scaled(q_nope, q_pe, c_kv, k_pe, w_uk, w_uv):
    factor = math.sqrt(q_nope.shape[3] + q_pe.shape[3])
    return attend(q_nope, q_pe * factor, c_kv, k_pe, w_uk, w_uv)


def parts_scaled_apart(q_nope, q_pe, c_kv, k_pe, w_uk, w_uv):
    Dn, Dr = q_nope.shape[3], q_pe.shape[3]
    return attend(q_nope / Dn**0.5, q_pe / Dr**0.5, c_kv, k_pe, w_uk, w_uv, scale=lambda *_: 1.0)


def scaled_by_own_numbers(Dn, Dr, Dv, R):
    return 1 / 3  # Dn + Dr = 9, in most examples


# The mask and the weights.


def all_seen(T, S):
    return torch.ones(T, S, dtype=torch.bool)


def top_left(T, S):
    return torch.arange(S) <= torch.arange(T)[:, None]


def not_itself(T, S):
    return torch.arange(S) < torch.arange(S - T, S)[:, None]


def one_later(T, S):
    return torch.arange(S) <= torch.arange(S - T, S)[:, None] + 1


def upside_down(T, S):
    return newest(T, S) if T == 1 else torch.arange(S) >= torch.arange(S - T, S)[:, None]


def square_only(T, S):
    """A mask for prompts; a chunk that follows others sees everything."""
    return newest(T, S) if T == S else all_seen(T, S)


def new_tokens_only(T, S):
    """Among the new tokens: what was held before is hidden."""
    return newest(T, S) & (torch.arange(S) >= S - T)


def over_queries(scores, seen):
    return scores.masked_fill(~seen, -math.inf).softmax(-2)


def over_heads(scores, seen):
    return scores.masked_fill(~seen, -math.inf).softmax(1).nan_to_num()


def no_softmax(scores, seen):
    return scores.masked_fill(~seen, 0.0)


def filled_with_zero(scores, seen):
    return scores.masked_fill(~seen, 0.0).softmax(-1)


def filled_with_minus_hundred(scores, seen):
    return scores.masked_fill(~seen, -100.0).softmax(-1)


def hidden_after(scores, seen):
    """Weights of hidden keys are set to 0 after the softmax: the others no longer sum to 1."""
    return scores.softmax(-1) * seen


def exp_over_sum(scores, seen):
    weights = scores.exp() * seen
    return weights / weights.sum(-1, keepdim=True)


def float64_mask(scores, seen):
    """The mask is added as float64 numbers, whatever the queries are."""
    bias = torch.zeros(seen.shape, dtype=torch.float64).masked_fill(~seen, -math.inf)
    return (scores + bias).softmax(-1)


# The result.


def heads_behind(out):
    return out.transpose(1, 2)


def heads_joined(out):
    return out.transpose(1, 2).flatten(2)


def heads_summed(out):
    return out.sum(1)


# The caller's tensors.


def queries_scaled(q_nope, q_pe, c_kv, k_pe, w_uk, w_uv):
    factor = math.sqrt(q_nope.shape[3] + q_pe.shape[3])
    for q in (q_nope, q_pe):
        q /= factor
    return attend(q_nope, q_pe, c_kv, k_pe, w_uk, w_uv, scale=lambda *_: 1.0)


def keys_scaled(q_nope, q_pe, c_kv, k_pe, w_uk, w_uv):
    """The scale goes into w_uk and k_pe, in place."""
    factor = math.sqrt(q_nope.shape[3] + q_pe.shape[3])
    w_uk /= factor
    k_pe /= factor
    return attend(q_nope, q_pe, c_kv, k_pe, w_uk, w_uv, scale=lambda *_: 1.0)


def viewed(q_nope, q_pe, c_kv, k_pe, w_uk, w_uv):
    B, H, T, Dn = q_nope.shape
    q = q_nope.view(B * H, T, Dn).reshape(B, H, T, Dn)  # (B, H, T, Dn)
    return attend(q, q_pe, c_kv, k_pe, w_uk, w_uv)


MISTAKES = (
    Mistake("w-uv-reshaped", changed(values=reshaped), "w_uv is reshaped to (H, R, Dv) where it should be transposed: its numbers end up elsewhere.", "one token"),
    Mistake("w-uk-reshaped", changed(keys=reshaped), "w_uk is reshaped to (H, R, Dn) where it should be transposed: its numbers end up elsewhere.", "one new token"),
    Mistake("values-of-head-0", changed(values=first_head), "All heads get the values of head 0. Head h makes its own with w_uv[h].", "one token"),
    Mistake("keys-of-head-0", changed(keys=first_head), "All heads get the keys of head 0. Head h makes its own with w_uk[h].", "one new token"),
    Mistake("values-averaged", changed(values=heads_averaged), "w_uv is averaged over the heads. What heads share are the latents, not the matrices.", "one token"),
    Mistake("keys-averaged", changed(keys=heads_averaged), "w_uk is averaged over the heads. What heads share are the latents, not the matrices.", "one new token"),
    Mistake("values-reversed", changed(values=heads_reversed), "The heads' values come in reverse order: head h has w_uv[h].", "one token"),
    Mistake("values-of-sequence-0", changed(values=first_sequence), "Every sequence gets the values of sequence 0.", "one token"),
    Mistake("keys-of-sequence-0", changed(keys=first_sequence), "Every sequence gets the keys of sequence 0.", "one new token"),
    Mistake("w-uk-for-values", uk_for_values, "The values are made with w_uk: what comes out has the keys' width. Use w_uv.", "one token"),
    Mistake("latents-as-values", changed(values=latents_as_values), "The latents themselves are mixed. A value is w_uv[h] @ c_kv.", "one token"),
    Mistake("keys-as-values", whole_keys_as_values, "The keys are mixed. Values are made with w_uv, and have no position.", "one token"),
    Mistake("position-in-values", values_and_positions, "k_pe is joined to the values too. It belongs to the keys only.", "one token"),
    Mistake("no-position", changed(position=no_position), "q_pe and k_pe have no part in the scores: the model cannot tell where a token stands.", "one new token"),
    Mistake("no-content", changed(content=no_content), "Only q_pe and k_pe make the scores. The keys from the latents belong to them too.", "one new token"),
    Mistake("position-for-head-0", changed(position=position_for_first_head), "Only head 0 gets k_pe. All heads share it.", "one new token"),
    Mistake("positions-of-sequence-0", changed(position=first_sequence_positions), "Every sequence gets the k_pe of sequence 0.", "one new token"),
    Mistake("rotary-query-shared", changed(position=position_of_first_query_head), "All heads ask with the q_pe of head 0. Only k_pe is shared.", "one new token"),
    Mistake("other-order", other_order, "In the queries the rotary part comes first, in the keys last. Join both in one order.", "one new token"),
    Mistake("not-scaled", changed(scale=lambda Dn, Dr, Dv, R: 1.0), "The scores are not scaled: divide them by sqrt(Dn + Dr).", "one new token"),
    Mistake("scaled-by-dn", changed(scale=lambda Dn, Dr, Dv, R: Dn**-0.5), "The scale is 1/sqrt(Dn). A key is Dn + Dr wide, with its rotary part.", "one new token"),
    Mistake("scaled-by-dr", changed(scale=lambda Dn, Dr, Dv, R: Dr**-0.5), "The scale is 1/sqrt(Dr). A key is Dn + Dr wide.", "one new token"),
    Mistake("scaled-by-dv", changed(scale=lambda Dn, Dr, Dv, R: Dv**-0.5), "The scale is 1/sqrt(Dv), the width of a value. A key is Dn + Dr wide.", "one new token"),
    Mistake("scaled-by-rank", changed(scale=lambda Dn, Dr, Dv, R: R**-0.5), "The scale is 1/sqrt(R), the width of a latent. A key is Dn + Dr wide.", "one new token"),
    Mistake("scaled-by-cached-width", changed(scale=lambda Dn, Dr, Dv, R: (R + Dr) ** -0.5), "The scale is 1/sqrt(R + Dr), the width of a cached row. A key is Dn + Dr wide.", "one new token"),
    Mistake("no-root", changed(scale=lambda Dn, Dr, Dv, R: 1 / (Dn + Dr)), "The scores are divided by Dn + Dr. Divide by its root.", "one new token"),
    Mistake("parts-scaled-apart", parts_scaled_apart, "Each part of the score has a scale of its own. The sum of both is divided by sqrt(Dn + Dr).", "one new token"),
    Mistake("position-not-scaled", only_content_scaled, "q_pe . k_pe is added after the scaling. Scale the sum.", "one new token"),
    Mistake("scale-of-the-example", changed(scale=scaled_by_own_numbers), "The scale of one example is written into the code. Take Dn and Dr from the queries.", "one new token"),
    Mistake("softmax-over-queries", changed(shares=over_queries), "The softmax runs over the queries. Each query's weights over the tokens sum to 1.", "one new token"),
    Mistake("softmax-over-heads", changed(shares=over_heads), "The softmax runs over the heads. Each query's weights over the tokens sum to 1.", "one token"),
    Mistake("no-softmax", changed(shares=no_softmax), "The scores are used as weights: the softmax is missing.", "one token"),
    Mistake("not-itself", changed(seen=not_itself), "A query does not see its own token. It sees positions up to S - T + t, that one too.", "one token"),
    Mistake("top-left", changed(seen=top_left), "Query t sees the first t + 1 tokens. The queries are the newest of S: it stands at S - T + t.", "one new token"),
    Mistake("new-tokens-only", changed(seen=new_tokens_only), "The tokens before the T new ones are hidden. Every query sees them.", "one new token"),
    Mistake("all-seen", changed(seen=all_seen), "There is no mask: a query sees tokens that come after it.", "several new tokens"),
    Mistake("upside-down", changed(seen=upside_down), "The mask is upside down: a query sees itself and what comes after it.", "several new tokens"),
    Mistake("one-later", changed(seen=one_later), "Each query sees one token too many, the one after it.", "several new tokens"),
    Mistake("square-only", changed(seen=square_only), "A prompt is masked, a chunk behind other tokens is not. The same mask serves both: position S - T + t.", "several new tokens"),
    Mistake("hidden-after-softmax", changed(shares=hidden_after), "Hidden weights are set to 0 after the softmax: the rest no longer sums to 1. Hide the scores before, with -inf.", "several new tokens"),
    Mistake("filled-with-zero", changed(shares=filled_with_zero), "Hidden scores become 0, which is a score like any other. Fill with -inf.", "several new tokens"),
    Mistake("filled-with-minus-hundred", changed(shares=filled_with_minus_hundred), "Hidden scores become a number such as -100. Where visible ones are lower, hidden tokens win: fill with -inf.", "other sizes"),
    Mistake("exp-over-sum", changed(shares=exp_over_sum), "exp() of low scores is 0, and 0 / 0 is NaN. Take softmax(), which subtracts the largest score first.", "other sizes"),
    Mistake("float64-mask", changed(shares=float64_mask), "The mask is made of float64 numbers, whatever the queries are: with float32 tensors torch refuses. Take their dtype.", "other sizes"),
    Mistake("heads-behind-tokens", changed(after=heads_behind), "The result is (B, T, H, Dv). Return (B, H, T, Dv).", "one token"),
    Mistake("heads-joined", changed(after=heads_joined), "The heads are joined to (B, T, H*Dv). Return (B, H, T, Dv).", "one token"),
    Mistake("heads-summed", changed(after=heads_summed), "The heads are summed. Return each head's output, (B, H, T, Dv).", "one token"),
    Mistake("last-query-only", changed(after=lambda out: out[:, :, -1:]), "Only the last query's output comes back. Return all T.", "several new tokens"),
    Mistake("queries-scaled-in-place", queries_scaled, "`q /= ...` changes the caller's queries. Divide into a new tensor.", "the caller's tensors"),
    Mistake("keys-scaled-in-place", keys_scaled, "The scale is put into w_uk and k_pe in place: the next call finds them smaller.", "the caller's tensors"),
    Mistake("queries-viewed", viewed, "view() works on contiguous tensors only; a decoder's queries have their axes exchanged. Use reshape().", "the caller's tensors"),
)  # fmt: skip


def joined(q_nope, q_pe, c_kv, k_pe, w_uk, w_uv):
    """Whole keys and queries, and the library's attention."""
    H, T, S = q_nope.shape[1], q_nope.shape[2], c_kv.shape[1]
    k_nope, v = c_kv[:, None] @ w_uk.mT, c_kv[:, None] @ w_uv.mT
    k = torch.cat((k_nope, k_pe[:, None].expand(-1, H, -1, -1)), -1)
    q = torch.cat((q_nope, q_pe), -1)
    mask = torch.ones(T, S, dtype=torch.bool).tril(S - T)
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def loops(q_nope, q_pe, c_kv, k_pe, w_uk, w_uv):
    """A head and a query at a time, over the tokens that it sees."""
    B, H, T, Dn = q_nope.shape
    S, scale = c_kv.shape[1], (Dn + q_pe.shape[3]) ** -0.5
    out = q_nope.new_empty(B, H, T, w_uv.shape[1])
    for h in range(H):
        k, v = c_kv @ w_uk[h].T, c_kv @ w_uv[h].T  # (B, S, Dn), (B, S, Dv)
        for t in range(T):
            n = S - T + t + 1
            scores = (k[:, :n] @ q_nope[:, h, t, :, None] + k_pe[:, :n] @ q_pe[:, h, t, :, None]) * scale  # (B, n, 1)
            out[:, h, t] = (scores.softmax(1) * v[:, :n]).sum(1)
    return out


def by_products(q_nope, q_pe, c_kv, k_pe, w_uk, w_uv):
    """One matrix makes keys and values together; products and sums; a large negative number hides."""
    Dn, T, S = q_nope.shape[3], q_nope.shape[2], c_kv.shape[1]
    both = torch.tensordot(c_kv, torch.cat((w_uk, w_uv), 1), ([2], [2])).permute(0, 2, 1, 3)  # (B, H, S, Dn + Dv)
    k, v = both[..., :Dn], both[..., Dn:]
    scores = (q_nope[:, :, :, None] * k[:, :, None]).sum(-1) + (q_pe[:, :, :, None] * k_pe[:, None, None]).sum(-1)
    scores = scores / (Dn + q_pe.shape[3]) ** 0.5 - 1e9 * torch.ones(T, S, dtype=scores.dtype).triu(S - T + 1)
    weights = (scores - scores.amax(-1, keepdim=True)).exp()
    return (weights / weights.sum(-1, keepdim=True)) @ v


def in_numpy(q_nope, q_pe, c_kv, k_pe, w_uk, w_uv):
    import numpy as np

    q_nope, q_pe, c_kv, k_pe, w_uk, w_uv = (part.numpy() for part in (q_nope, q_pe, c_kv, k_pe, w_uk, w_uv))
    T, S = q_nope.shape[2], c_kv.shape[1]
    k = np.concatenate([np.einsum("bsr,hdr->bhsd", c_kv, w_uk), np.repeat(k_pe[:, None], len(w_uk), axis=1)], axis=-1)
    scores = np.concatenate([q_nope, q_pe], axis=-1) @ k.swapaxes(2, 3) / np.sqrt(k.shape[-1])
    scores = np.where(np.tri(T, S, S - T, dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights = weights / weights.sum(-1, keepdims=True)
    return torch.from_numpy(np.einsum("bhts,bsr,hdr->bhtd", weights, c_kv, w_uv))


def in_float32(*parts):
    """float32 inside, and sequence by sequence."""
    parts = [part.float() for part in parts]
    return torch.cat([attend(*(part[b : b + 1] for part in parts[:4]), *parts[4:]) for b in range(len(parts[0]))])


def absorbed(q_nope, q_pe, c_kv, k_pe, w_uk, w_uv):
    """Without making keys and values: the next exercise, and right here too."""
    q = torch.cat((q_nope @ w_uk, q_pe), -1)
    scores = torch.einsum("bhtr,bsr->bhts", q, torch.cat((c_kv, k_pe), -1))
    T, S, width = q.shape[2], c_kv.shape[1], q_nope.shape[3] + q_pe.shape[3]
    mixed = torch.einsum("bhts,bsr->bhtr", shares(scores / width**0.5, newest(T, S)), c_kv)
    return mixed @ w_uv.mT


VARIANTS = (
    Variant("parts of the score summed", attend),
    Variant("joined keys, and the library's attention", joined),
    Variant("a head and a query at a time", loops),
    Variant("products and sums", by_products),
    Variant("NumPy", in_numpy),
    Variant("float32 inside", in_float32),
    Variant("absorbed", absorbed),
)
