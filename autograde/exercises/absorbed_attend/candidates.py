"""Wrong and right ways to attend on latents. Each mistake is `attend` with one part changed."""

from __future__ import annotations

import math

from autograde.exercise import Mistake, Variant
from autograde.lazy import torch


def into_query(q_nope, w_uk):
    """(B, H, T, R): the query, as wide as a latent."""
    return torch.einsum("bhtd,hdr->bhtr", q_nope, w_uk)


def content_scores(q_latent, c_kv):
    return torch.einsum("bhtr,bsr->bhts", q_latent, c_kv)


def position_scores(q_pe, k_pe):
    return torch.einsum("bhtd,bsd->bhts", q_pe, k_pe)


def right_scale(Dn, Dr, Dv, R):
    return 1 / math.sqrt(Dn + Dr)


def newest(T, S):
    return torch.arange(S) <= torch.arange(S - T, S)[:, None]


def shares(scores, seen):
    return scores.masked_fill(~seen, -math.inf).softmax(-1)


def mix(weights, c_kv):
    """(B, H, T, R): one latent for each query."""
    return torch.einsum("bhts,bsr->bhtr", weights, c_kv)


def out_of_latent(mixed, w_uv):
    return torch.einsum("bhtr,hdr->bhtd", mixed, w_uv)


def attend(
    q_nope,
    q_pe,
    c_kv,
    k_pe,
    w_uk,
    w_uv,
    query=into_query,
    content=content_scores,
    position=position_scores,
    scale=right_scale,
    seen=newest,
    shares=shares,
    mix=mix,
    out=out_of_latent,
    after=lambda out: out,
):
    T, S = q_nope.shape[2], c_kv.shape[1]
    factor = scale(q_nope.shape[3], q_pe.shape[3], w_uv.shape[1], c_kv.shape[2])
    scores = (content(query(q_nope, w_uk), c_kv) + position(q_pe, k_pe)) * factor  # (B, H, T, S)
    return after(out(mix(shares(scores, seen(T, S)), c_kv), w_uv))


def changed(**parts):
    def absorbed_attend(q_nope, q_pe, c_kv, k_pe, w_uk, w_uv):
        return attend(q_nope, q_pe, c_kv, k_pe, w_uk, w_uv, **parts)

    return absorbed_attend


# What is made for each head.


def from_latents(c_kv, w):
    """(B, H, S, D): a row for each head and token."""
    return torch.einsum("bsr,hdr->bhsd", c_kv, w)


def keys_made(q_nope, q_pe, c_kv, k_pe, w_uk, w_uv):
    """w_uv is absorbed, w_uk is not."""
    k = from_latents(c_kv, w_uk)
    return attend(q_nope, q_pe, c_kv, k_pe, w_uk, w_uv, query=lambda q, w: q, content=lambda q, c: q @ k.mT)


def values_made(q_nope, q_pe, c_kv, k_pe, w_uk, w_uv):
    """w_uk is absorbed, w_uv is not."""
    v = from_latents(c_kv, w_uv)
    return attend(q_nope, q_pe, c_kv, k_pe, w_uk, w_uv, mix=lambda weights, c: weights @ v, out=lambda out, w: out)


def both_made(q_nope, q_pe, c_kv, k_pe, w_uk, w_uv):
    """The function of 8.1."""
    k, v = from_latents(c_kv, w_uk), from_latents(c_kv, w_uv)
    parts = {"query": lambda q, w: q, "content": lambda q, c: q @ k.mT}
    return attend(
        q_nope, q_pe, c_kv, k_pe, w_uk, w_uv, mix=lambda weights, c: weights @ v, out=lambda out, w: out, **parts
    )


def keys_head_by_head(q_nope, q_pe, c_kv, k_pe, w_uk, w_uv):
    """Small tensors, and all keys all the same."""

    def content(q, c):
        return torch.stack([q[:, h] @ (c @ w_uk[h].T).mT for h in range(len(w_uk))], 1)  # (B, H, T, S)

    return attend(q_nope, q_pe, c_kv, k_pe, w_uk, w_uv, query=lambda q, w: q, content=content)


def values_head_by_head(q_nope, q_pe, c_kv, k_pe, w_uk, w_uv):
    def mix(weights, c):
        return torch.stack([weights[:, h] @ (c @ w_uv[h].T) for h in range(len(w_uv))], 1)  # (B, H, T, Dv)

    return attend(q_nope, q_pe, c_kv, k_pe, w_uk, w_uv, mix=mix, out=lambda out, w: out)


def both_token_by_token(q_nope, q_pe, c_kv, k_pe, w_uk, w_uv):
    """All heads' key and value of one token, then those of the next."""

    def content(q, c):
        return torch.cat([q @ from_latents(c[:, s : s + 1], w_uk).mT for s in range(c.shape[1])], -1)  # (B, H, T, S)

    def mix(weights, c):
        return sum(weights[..., s : s + 1] @ from_latents(c[:, s : s + 1], w_uv) for s in range(c.shape[1]))

    parts = {"query": lambda q, w: q, "content": content, "mix": mix, "out": lambda out, w: out}
    return attend(q_nope, q_pe, c_kv, k_pe, w_uk, w_uv, **parts)


def scores_by_broadcast(q_latent, c_kv):
    """@ spreads the latents over the heads, and copies them to do so."""
    return q_latent @ c_kv[:, None].mT


def scores_by_products(q_latent, c_kv):
    return (q_latent[:, :, :, None] * c_kv[:, None, None]).sum(-1)


def latents_repeated(q_nope, q_pe, c_kv, k_pe, w_uk, w_uv):
    """A copy of the cached rows for each head, as one would for attention with as many KV heads."""
    rows = torch.cat((c_kv, k_pe), -1).repeat_interleave(len(w_uk), 0).unflatten(0, (len(c_kv), len(w_uk)))
    q = torch.cat((into_query(q_nope, w_uk), q_pe), -1)
    return attend(
        q_nope,
        q_pe,
        c_kv,
        k_pe,
        w_uk,
        w_uv,
        content=lambda *_: q @ rows.mT,
        position=lambda *_: 0.0,
        mix=lambda weights, c: weights @ rows[..., : c.shape[2]],
    )


# The matrices.


def uk_reshaped(q_nope, w_uk):
    """A matrix (R, Dn) is wanted and made by reshape, then transposed."""
    H, Dn, R = w_uk.shape
    return q_nope @ w_uk.reshape(H, R, Dn).mT


def uk_of_head_0(q_nope, w_uk):
    return q_nope @ w_uk[0]


def uk_averaged(q_nope, w_uk):
    return q_nope @ w_uk.mean(0)


def uk_reversed(q_nope, w_uk):
    return q_nope @ w_uk.flip(0)


def uk_summed(q_nope, w_uk):
    """The head's index is missing in the result of the einsum: heads are summed."""
    return torch.einsum("bhtd,hdr->btr", q_nope, w_uk)[:, None].expand(-1, q_nope.shape[1], -1, -1)


def uv_reshaped(mixed, w_uv):
    H, Dv, R = w_uv.shape
    return mixed @ w_uv.reshape(H, R, Dv)


def uv_of_head_0(mixed, w_uv):
    return mixed @ w_uv[0].T


def uv_averaged(mixed, w_uv):
    return mixed @ w_uv.mean(0).T


def uk_at_the_end(q_nope, q_pe, c_kv, k_pe, w_uk, w_uv):
    return attend(q_nope, q_pe, c_kv, k_pe, w_uk, w_uk)


def batch_of_0(q_latent, c_kv):
    return torch.einsum("bhtr,sr->bhts", q_latent, c_kv[0])


def mixed_of_0(weights, c_kv):
    return torch.einsum("bhts,sr->bhtr", weights, c_kv[0])


# The score.


def no_position(q_pe, k_pe):
    return 0.0


def no_content(q_latent, c_kv):
    return 0.0


def positions_of_0(q_pe, k_pe):
    return torch.einsum("bhtd,sd->bhts", q_pe, k_pe[0])


def only_content_scaled(q_nope, q_pe, c_kv, k_pe, w_uk, w_uv):
    factor = math.sqrt(q_nope.shape[3] + q_pe.shape[3])
    return attend(q_nope, q_pe * factor, c_kv, k_pe, w_uk, w_uv)


def only_position_scaled(q_nope, q_pe, c_kv, k_pe, w_uk, w_uv):
    factor = math.sqrt(q_nope.shape[3] + q_pe.shape[3])
    return attend(q_nope * factor, q_pe, c_kv, k_pe, w_uk, w_uv)


def parts_scaled_apart(q_nope, q_pe, c_kv, k_pe, w_uk, w_uv):
    Dn, Dr = q_nope.shape[3], q_pe.shape[3]
    return attend(q_nope / Dn**0.5, q_pe / Dr**0.5, c_kv, k_pe, w_uk, w_uv, scale=lambda *_: 1.0)


def latents_first(q_nope, q_pe, c_kv, k_pe, w_uk, w_uv):
    """The cached row is taken as [k_pe, c_kv], the query as [latent, pe]."""
    q, rows = torch.cat((into_query(q_nope, w_uk), q_pe), -1), torch.cat((k_pe, c_kv), -1)
    return attend(
        q_nope, q_pe, c_kv, k_pe, w_uk, w_uv, content=lambda *_: content_scores(q, rows), position=no_position
    )


def end_of_the_row(q_nope, q_pe, c_kv, k_pe, w_uk, w_uv):
    """What is mixed are the last R of a row's R + Dr numbers; the latent are the first."""
    rows = torch.cat((c_kv, k_pe), -1)
    mixture = lambda weights, c: mix(weights, rows[..., -c.shape[2] :])  # noqa: E731
    return attend(q_nope, q_pe, c_kv, k_pe, w_uk, w_uv, mix=mixture)


# The mask.


def all_seen(T, S):
    return torch.ones(T, S, dtype=torch.bool)


def top_left(T, S):
    return torch.arange(S) <= torch.arange(T)[:, None]


def not_itself(T, S):
    return torch.arange(S) < torch.arange(S - T, S)[:, None]


def one_later(T, S):
    return torch.arange(S) <= torch.arange(S - T, S)[:, None] + 1


def square_only(T, S):
    return newest(T, S) if T == S else all_seen(T, S)


def folded(q_nope, q_pe, c_kv, k_pe, w_uk, w_uv, repeat=None, back=None):
    """Heads as more queries of one head: rows (B, H*T, R + Dr)."""
    B, H, T, _ = q_nope.shape
    S, R, scale = c_kv.shape[1], c_kv.shape[2], (q_nope.shape[3] + q_pe.shape[3]) ** -0.5
    rows = torch.cat((into_query(q_nope, w_uk), q_pe), -1).flatten(1, 2)
    scores = rows @ torch.cat((c_kv, k_pe), -1).mT * scale  # (B, H*T, S)
    seen = repeat(newest(T, S), H) if repeat else newest(T, S).repeat(H, 1)
    mixed = shares(scores, seen) @ c_kv  # (B, H*T, R)
    mixed = back(mixed, H, T) if back else mixed.reshape(B, H, T, R)
    return out_of_latent(mixed, w_uv)


def mask_row_by_row(*args):
    return folded(*args, repeat=lambda mask, H: mask.repeat_interleave(H, 0))


def tokens_before_heads(*args):
    return folded(*args, back=lambda rows, H, T: rows.reshape(len(rows), T, H, -1).transpose(1, 2))


def over_queries(scores, seen):
    return scores.masked_fill(~seen, -math.inf).softmax(-2)


def no_softmax(scores, seen):
    return scores.masked_fill(~seen, 0.0)


def filled_with_zero(scores, seen):
    return scores.masked_fill(~seen, 0.0).softmax(-1)


def filled_with_minus_hundred(scores, seen):
    return scores.masked_fill(~seen, -100.0).softmax(-1)


def hidden_after(scores, seen):
    return scores.softmax(-1) * seen


def exp_over_sum(scores, seen):
    weights = scores.exp() * seen
    return weights / weights.sum(-1, keepdim=True)


def float64_mask(scores, seen):
    bias = torch.zeros(seen.shape, dtype=torch.float64).masked_fill(~seen, -math.inf)
    return (scores + bias).softmax(-1)


# The caller's tensors.


def queries_scaled(q_nope, q_pe, c_kv, k_pe, w_uk, w_uv):
    factor = math.sqrt(q_nope.shape[3] + q_pe.shape[3])
    for q in (q_nope, q_pe):
        q /= factor
    return attend(q_nope, q_pe, c_kv, k_pe, w_uk, w_uv, scale=lambda *_: 1.0)


def matrix_scaled(q_nope, q_pe, c_kv, k_pe, w_uk, w_uv):
    """The scale is absorbed too, in place."""
    factor = math.sqrt(q_nope.shape[3] + q_pe.shape[3])
    w_uk /= factor
    return attend(q_nope, q_pe / factor, c_kv, k_pe, w_uk, w_uv, scale=lambda *_: 1.0)


def viewed(q_nope, q_pe, c_kv, k_pe, w_uk, w_uv):
    B, H, T, Dn = q_nope.shape
    q = q_nope.view(B * H, T, Dn).reshape(B, H, T, Dn)  # (B, H, T, Dn)
    return attend(q, q_pe, c_kv, k_pe, w_uk, w_uv)


MISTAKES = (
    Mistake("nothing-absorbed", both_made, "You make every head's keys and values for all S tokens. Put w_uk into the query and w_uv behind the mixture.", "nothing for each head", seen_in="Transformers' DeepseekV3 attention expands all latents in every step"),
    Mistake("keys-made", keys_made, "You still make every head's keys for all S tokens. w_uk can go into the query: (w_uk^T q) . c.", "nothing for each head"),
    Mistake("values-made", values_made, "You still make every head's values for all S tokens. Mix the latents first, then apply w_uv.", "nothing for each head"),
    Mistake("spread-by-matmul", changed(content=scores_by_broadcast), "`@` with an axis to spread copies the latents for each head. Take einsum, or make the heads more rows of one product.", "nothing for each head"),
    Mistake("summed-later", changed(content=scores_by_products), "Products are made for every query and token before they are summed: S rows for each head. Take einsum or @.", "nothing for each head"),
    Mistake("latents-repeated", latents_repeated, "The cached rows are repeated for each head. All heads can read the same ones.", "nothing for each head"),
    Mistake("keys-head-by-head", keys_head_by_head, "Keys are made in pieces, such as one head's at a time: as much work as all at once. Put w_uk into the query.", "made in pieces"),
    Mistake("values-head-by-head", values_head_by_head, "Values are made in pieces, such as one head's at a time: as much work as all at once. Mix the latents, then apply w_uv.", "made in pieces"),
    Mistake("both-token-by-token", both_token_by_token, "Keys and values are made in pieces, such as one token's at a time. Make none: w_uk goes into the query, w_uv behind the mixture.", "made in pieces"),
    Mistake("w-uk-reshaped", changed(query=uk_reshaped), "w_uk is reshaped where nothing needs to move: q_nope @ w_uk is (B, H, T, R).", "one new token"),
    Mistake("w-uk-of-head-0", changed(query=uk_of_head_0), "All heads' queries go through w_uk[0]. Head h has w_uk[h].", "one new token"),
    Mistake("w-uk-averaged", changed(query=uk_averaged), "w_uk is averaged over the heads. What heads share are the latents, not the matrices.", "one new token"),
    Mistake("w-uk-reversed", changed(query=uk_reversed), "The heads' matrices come in reverse order: head h has w_uk[h].", "one new token"),
    Mistake("queries-summed", changed(query=uk_summed), "The absorbed queries are summed over the heads. Each head keeps its own, (B, H, T, R).", "one new token"),
    Mistake("w-uv-reshaped", changed(out=uv_reshaped), "w_uv is reshaped to (H, R, Dv) where it should be transposed: its numbers end up elsewhere.", "one new token"),
    Mistake("w-uv-of-head-0", changed(out=uv_of_head_0), "All heads' mixtures go through w_uv[0]. Head h has w_uv[h].", "one new token"),
    Mistake("w-uv-averaged", changed(out=uv_averaged), "w_uv is averaged over the heads. What heads share are the latents, not the matrices.", "one new token"),
    Mistake("w-uk-at-the-end", uk_at_the_end, "The mixture goes through w_uk: what comes out has the keys' width. Use w_uv.", "one new token"),
    Mistake("no-w-uv", changed(out=lambda mixed, w_uv: mixed), "The mixture of latents comes back. Apply w_uv to it.", "one new token"),
    Mistake("scores-of-sequence-0", changed(content=batch_of_0), "Every sequence is asked against the latents of sequence 0.", "one new token"),
    Mistake("mixture-of-sequence-0", changed(mix=mixed_of_0), "Every sequence mixes the latents of sequence 0.", "one new token"),
    Mistake("positions-of-sequence-0", changed(position=positions_of_0), "Every sequence gets the k_pe of sequence 0.", "one new token"),
    Mistake("no-position", changed(position=no_position), "q_pe and k_pe have no part in the scores. They cannot be absorbed, but they still belong there.", "one new token"),
    Mistake("no-content", changed(content=no_content), "Only q_pe and k_pe make the scores. The absorbed query against the latents belongs to them too.", "one new token"),
    Mistake("rows-in-another-order", latents_first, "Queries have the latent part first, the cached rows k_pe. Join both in one order.", "one new token"),
    Mistake("end-of-the-row", end_of_the_row, "What is mixed are the last R numbers of a row [c_kv, k_pe]. The latent are the first R.", "one new token"),
    Mistake("scaled-by-cached-width", changed(scale=lambda Dn, Dr, Dv, R: (R + Dr) ** -0.5), "The scale is 1/sqrt(R + Dr), the width of the absorbed query. The scores are those of 8.1: 1/sqrt(Dn + Dr).", "one new token"),
    Mistake("scaled-by-rank", changed(scale=lambda Dn, Dr, Dv, R: R**-0.5), "The scale is 1/sqrt(R). The scores are those of 8.1, whatever width they come from: 1/sqrt(Dn + Dr).", "one new token"),
    Mistake("scaled-by-dn", changed(scale=lambda Dn, Dr, Dv, R: Dn**-0.5), "The scale is 1/sqrt(Dn). A key is Dn + Dr wide, with its rotary part.", "one new token"),
    Mistake("scaled-by-dv", changed(scale=lambda Dn, Dr, Dv, R: Dv**-0.5), "The scale is 1/sqrt(Dv), the width of a value. A key is Dn + Dr wide.", "one new token"),
    Mistake("scaled-by-dr", changed(scale=lambda Dn, Dr, Dv, R: Dr**-0.5), "The scale is 1/sqrt(Dr). A key is Dn + Dr wide.", "one new token"),
    Mistake("not-scaled", changed(scale=lambda Dn, Dr, Dv, R: 1.0), "The scores are not scaled: divide them by sqrt(Dn + Dr).", "one new token"),
    Mistake("no-root", changed(scale=lambda Dn, Dr, Dv, R: 1 / (Dn + Dr)), "The scores are divided by Dn + Dr. Divide by its root.", "one new token"),
    Mistake("scale-of-the-example", changed(scale=lambda *_: 1 / 3), "The scale of one example is written into the code. Take Dn and Dr from the queries.", "one new token"),
    Mistake("parts-scaled-apart", parts_scaled_apart, "Each part of the score has a scale of its own. The sum of both is divided by sqrt(Dn + Dr).", "one new token"),
    Mistake("position-not-scaled", only_content_scaled, "q_pe . k_pe is added after the scaling. Scale the sum.", "one new token"),
    Mistake("content-not-scaled", only_position_scaled, "Only q_pe . k_pe is scaled. Scale the sum.", "one new token"),
    Mistake("softmax-over-queries", changed(shares=over_queries), "The softmax runs over the queries. Each query's weights over the tokens sum to 1.", "one new token"),
    Mistake("no-softmax", changed(shares=no_softmax), "The scores are used as weights: the softmax is missing.", "one new token"),
    Mistake("not-itself", changed(seen=not_itself), "A query does not see its own token. It sees positions up to S - T + t, that one too.", "one new token"),
    Mistake("top-left", changed(seen=top_left), "Query t sees the first t + 1 tokens. The queries are the newest of S: it stands at S - T + t.", "one new token"),
    Mistake("all-seen", changed(seen=all_seen), "There is no mask: a query sees tokens that come after it.", "several new tokens"),
    Mistake("one-later", changed(seen=one_later), "Each query sees one token too many, the one after it.", "several new tokens"),
    Mistake("square-only", changed(seen=square_only), "A prompt is masked, a chunk behind other tokens is not. The same mask serves both: position S - T + t.", "several new tokens"),
    Mistake("mask-row-by-row", mask_row_by_row, "With heads as more rows, the mask is repeated row by row. The rows are head by head: repeat it as a whole.", "several new tokens"),
    Mistake("tokens-before-heads", tokens_before_heads, "The H*T rows are taken apart as (T, H). They were put together as (H, T).", "several new tokens"),
    Mistake("hidden-after-softmax", changed(shares=hidden_after), "Hidden weights are set to 0 after the softmax: the rest no longer sums to 1. Hide the scores before, with -inf.", "several new tokens"),
    Mistake("filled-with-zero", changed(shares=filled_with_zero), "Hidden scores become 0, which is a score like any other. Fill with -inf.", "several new tokens"),
    Mistake("last-query-only", changed(after=lambda out: out[:, :, -1:]), "Only the last query's output comes back. Return all T.", "several new tokens"),
    Mistake("filled-with-minus-hundred", changed(shares=filled_with_minus_hundred), "Hidden scores become a number such as -100. Where visible ones are lower, hidden tokens win: fill with -inf.", "other sizes"),
    Mistake("exp-over-sum", changed(shares=exp_over_sum), "exp() of low scores is 0, and 0 / 0 is NaN. Take softmax(), which subtracts the largest score first.", "other sizes"),
    Mistake("float64-mask", changed(shares=float64_mask), "The mask is made of float64 numbers, whatever the queries are: with float32 tensors torch refuses. Take their dtype.", "other sizes"),
    Mistake("heads-behind-tokens", changed(after=lambda out: out.transpose(1, 2)), "The result is (B, T, H, Dv). Return (B, H, T, Dv).", "one new token"),
    Mistake("heads-joined", changed(after=lambda out: out.transpose(1, 2).flatten(2)), "The heads are joined to (B, T, H*Dv). Return (B, H, T, Dv).", "one new token"),
    Mistake("queries-scaled-in-place", queries_scaled, "`q /= ...` changes the caller's queries. Divide into a new tensor.", "the caller's tensors"),
    Mistake("matrix-scaled-in-place", matrix_scaled, "The scale is put into w_uk in place: the next call finds it smaller.", "the caller's tensors"),
    Mistake("queries-viewed", viewed, "view() works on contiguous tensors only; a decoder's queries have their axes exchanged. Use reshape().", "the caller's tensors"),
)  # fmt: skip


def by_sdpa(q_nope, q_pe, c_kv, k_pe, w_uk, w_uv):
    """All heads' queries as one head's, and the library's attention with values of another width."""
    B, H, T, Dn = q_nope.shape
    S, R = c_kv.shape[1:]
    q = torch.cat((into_query(q_nope, w_uk), q_pe), -1).reshape(B, 1, H * T, -1)
    k = torch.cat((c_kv, k_pe), -1)[:, None]
    mask = torch.ones(T, S, dtype=torch.bool).tril(S - T).repeat(H, 1)
    attention = torch.nn.functional.scaled_dot_product_attention
    mixed = attention(q, k, c_kv[:, None], attn_mask=mask, scale=(Dn + q_pe.shape[3]) ** -0.5)
    return mixed.reshape(B, H, T, R) @ w_uv.mT


def loops(q_nope, q_pe, c_kv, k_pe, w_uk, w_uv):
    """A sequence, a head and a query at a time, over the tokens that it sees."""
    B, H, T, Dn = q_nope.shape
    S, scale = c_kv.shape[1], (Dn + q_pe.shape[3]) ** -0.5
    out = q_nope.new_empty(B, H, T, w_uv.shape[1])
    for b in range(B):
        for h in range(H):
            for t in range(T):
                n = S - T + t + 1
                scores = c_kv[b, :n] @ (w_uk[h].T @ q_nope[b, h, t]) + k_pe[b, :n] @ q_pe[b, h, t]
                out[b, h, t] = w_uv[h] @ ((scores * scale).softmax(0) @ c_kv[b, :n])
    return out


def head_by_head(q_nope, q_pe, c_kv, k_pe, w_uk, w_uv):
    """Each head alone, and a large negative number hides."""
    T, S, width = q_nope.shape[2], c_kv.shape[1], q_nope.shape[3] + q_pe.shape[3]
    bias = -1e9 * torch.ones(T, S, dtype=c_kv.dtype).triu(S - T + 1)
    heads = []
    for h in range(len(w_uk)):
        scores = q_nope[:, h] @ w_uk[h] @ c_kv.mT + q_pe[:, h] @ k_pe.mT
        heads.append((scores / width**0.5 + bias).softmax(-1) @ c_kv @ w_uv[h].T)
    return torch.stack(heads, 1)


def in_blocks(q_nope, q_pe, c_kv, k_pe, w_uk, w_uv, size=4):
    """A running maximum and a running sum over blocks of latents."""
    B, H, T, Dn = q_nope.shape
    S, R = c_kv.shape[1:]
    q = torch.cat((into_query(q_nope, w_uk), q_pe), -1) / math.sqrt(Dn + q_pe.shape[3])
    top = torch.full((B, H, T, 1), -math.inf, dtype=q.dtype)
    total, sums = torch.zeros(B, H, T, R, dtype=q.dtype), torch.zeros_like(top)
    for start in range(0, S, size):
        c = c_kv[:, start : start + size]
        rows = torch.cat((c, k_pe[:, start : start + size]), -1)
        scores = torch.einsum("bhtr,bsr->bhts", q, rows)
        scores = scores.masked_fill(~newest(T, S)[:, start : start + size], -math.inf)
        new = torch.maximum(top, scores.amax(-1, keepdim=True))
        weights, old = (scores - new).exp(), (top - new).exp()
        total, sums, top = total * old + mix(weights, c), sums * old + weights.sum(-1, keepdim=True), new
    return out_of_latent(total / sums, w_uv)


def in_float32(*parts):
    """float32 inside."""
    return attend(*(part.float() for part in parts))


def one_matrix(q_nope, q_pe, c_kv, k_pe, w_uk, w_uv):
    """Each head's w_uk and a unit matrix in one, (H, Dn + Dr, R + Dr): it turns a whole query into a row's shape."""
    (H, Dn, R), Dr = w_uk.shape, q_pe.shape[3]
    large = w_uk.new_zeros(H, Dn + Dr, R + Dr)
    large[:, :Dn, :R] = w_uk
    large[:, Dn:, R:] = torch.eye(Dr, dtype=w_uk.dtype)
    q, rows = torch.cat((q_nope, q_pe), -1) @ large, torch.cat((c_kv, k_pe), -1)
    parts = {"query": lambda *_: q, "content": lambda q, _: content_scores(q, rows), "position": lambda *_: 0.0}
    return attend(q_nope, q_pe, c_kv, k_pe, w_uk, w_uv, **parts)


VARIANTS = (
    Variant("einsum", attend),
    Variant("heads as more rows", folded),
    Variant("the library's attention", by_sdpa),
    Variant("a query at a time", loops),
    Variant("a head at a time", head_by_head),
    Variant("block by block with a running sum", in_blocks),
    Variant("float32 inside", in_float32),
    Variant("one matrix for both parts", one_matrix),
)
