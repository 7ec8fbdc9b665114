"""Wrong and right ways to work out a part. Most mistakes are `steps` with one step changed."""

from __future__ import annotations

import math

import numpy as np

from autograde.exercise import Mistake, Variant

ONE, MANY, LARGE = "one token", "many tokens", "large and empty"


def steps(
    score=lambda q, k: q @ k.T / math.sqrt(q.shape[1]),
    largest=lambda s: s.max(axis=1, initial=-np.inf),
    powers=lambda s, m: np.exp(s - m[:, None]),
    total=lambda p: p.sum(axis=1),
    weigh=lambda p, v: p @ v,
    give=lambda m, total, acc: (m, total, acc),
):
    def partial_attend(q, k, v):
        with np.errstate(all="ignore"):
            s = score(q, k)
            m = largest(s)
            p = powers(s, m)
            return give(m, total(p), weigh(p, v))

    return partial_attend


right = steps()


def scales_q_in_place(q, k, v):
    q /= math.sqrt(q.shape[1])
    return steps(score=lambda q, k: q @ k.T)(q, k, v)


def scales_k_in_place(q, k, v):
    k /= math.sqrt(q.shape[1])
    return steps(score=lambda q, k: q @ k.T)(q, k, v)


def raises_when_empty(q, k, v):
    if not len(k):
        raise ValueError("no tokens")
    return right(q, k, v)


def none_when_empty(q, k, v):
    return right(q, k, v) if len(k) else None


def _empty(m=-np.inf, total=0.0, acc=0.0):
    def partial_attend(q, k, v):
        if len(k):
            return right(q, k, v)
        H, D = q.shape
        return np.full(H, m), np.full(H, total), np.full((H, D), acc)

    return partial_attend


def flat_when_empty(q, k, v):
    return right(q, k, v) if len(k) else (np.full(len(q), -np.inf), np.zeros(len(q)), np.zeros(len(q)))


def first_head_only(q, k, v):
    m, total, acc = right(q[:1], k, v)
    return np.repeat(m, len(q)), np.repeat(total, len(q)), np.repeat(acc, len(q), axis=0)


def _divided(m, total, acc):
    return m, total, acc / total[:, None]


def _m(name, tells, killed_by, **changed):
    return Mistake(name, steps(**changed), tells, killed_by)


MISTAKES = (
    _m("no-scale", "The scores are not divided by sqrt(D).", ONE, score=lambda q, k: q @ k.T),
    _m("divides-by-width", "You divide the scores by D. Divide by its square root.", ONE, score=lambda q, k: q @ k.T / q.shape[1]),
    _m("divides-by-heads", "You divide by the root of the number of heads. It is the width D that counts.", ONE, score=lambda q, k: q @ k.T / math.sqrt(len(q))),
    _m("sign-of-the-scores", "Your scores have the wrong sign.", ONE, score=lambda q, k: -(q @ k.T) / math.sqrt(q.shape[1])),
    _m("acc-and-l-swapped", "The order is m, l, acc.", ONE, give=lambda m, t, a: (m, a, t)),
    _m("l-and-m-swapped", "The order is m, l, acc: the largest score comes first.", ONE, give=lambda m, t, a: (t, m, a)),
    _m("output-only", "You return the output. Hand on all three: m, l, acc.", ONE, give=lambda m, t, a: a / t[:, None]),
    _m("m-and-l-as-columns", "Your m and l are columns, (H, 1). They are (H,): one number for each head.", ONE, give=lambda m, t, a: (m[:, None], t[:, None], a)),
    _m("l-as-a-column", "Your l is a column, (H, 1). It is (H,): one number for each head.", ONE, give=lambda m, t, a: (m, t[:, None], a)),
    _m("no-m", "m is missing: without it nobody can tell what the sums were measured against.", ONE, give=lambda m, t, a: (t, a)),
    _m("logarithm-of-l", "You hand on log(l). l is the sum itself.", ONE, give=lambda m, t, a: (m, np.log(t), a)),
    _m("logsumexp-for-m", "You hand on m + log(l). m is the largest score alone.", MANY, give=lambda m, t, a: (m + np.log(t), t, a)),
    _m("powers-without-m", "You take exp(score), not exp(score - m).", ONE, powers=lambda s, m: np.exp(s)),
    _m("base-two", "You use powers of two. Here powers are exp(score - m).", MANY, powers=lambda s, m: np.exp2(s - m[:, None])),
    _m("adds-m", "You add m to the scores. Subtract it: no power is above 1 then.", ONE, powers=lambda s, m: np.exp(s + m[:, None])),
    _m("divided-acc", "acc is divided by l already. Hand on the sum: parts are divided after they are merged.", MANY, give=_divided),
    _m("divided-both", "The powers are divided by their sum, so l is 1. Hand on the sums.", MANY, powers=lambda s, m: np.exp(s - m[:, None]) / np.exp(s - m[:, None]).sum(axis=1, keepdims=True)),
    _m("one-largest-for-all", "One largest score for all heads. Each head has its own.", ONE, largest=lambda s: np.full(len(s), s.max(initial=-np.inf))),
    _m("largest-along-heads", "The largest score is taken along the heads (axis 0). Take it along the tokens.", ONE, largest=lambda s: np.resize(s.max(axis=0, initial=-np.inf), len(s))),
    _m("smallest", "m is the smallest score. Take the largest.", MANY, largest=lambda s: s.min(axis=1, initial=np.inf)),
    _m("largest-is-last", "m is the last token's score. Take the largest.", MANY, largest=lambda s: s[:, -1]),
    _m("largest-is-first", "m is the first token's score. Take the largest.", MANY, largest=lambda s: s[:, 0]),
    _m("mean-for-largest", "m is the mean score. Take the largest.", MANY, largest=lambda s: s.mean(axis=1)),
    _m("largest-at-least-zero", "m is never below 0. Start at minus infinity: scores may all be far below 0.", ONE, largest=lambda s: s.max(axis=1, initial=0.0)),
    _m("largest-size", "m is the largest |score|. Take the largest score, sign included.", ONE, largest=lambda s: np.abs(s).max(axis=1, initial=-np.inf)),
    _m("mean-for-l", "l is the mean of the powers. It is their sum.", MANY, total=lambda p: p.mean(axis=1)),
    _m("count-for-l", "l is the number of tokens. It is the sum of their powers.", MANY, total=lambda p: np.full(len(p), float(p.shape[1]))),
    _m("one-sum-for-all", "One l for all heads. Each head has its own.", ONE, total=lambda p: np.full(len(p), p.sum())),
    _m("sum-of-squares", "l sums the squares of the powers.", MANY, total=lambda p: (p**2).sum(axis=1)),
    _m("values-not-weighed", "acc sums the values as they are. Weigh each with its power: powers @ v.", MANY, weigh=lambda p, v: np.tile(v.sum(axis=0), (len(p), 1))),
    _m("best-value-only", "acc is the value of the best key. All keys count, with their powers.", MANY, weigh=lambda p, v: v[p.argmax(axis=1)]),
    _m("mean-of-values", "acc is divided by the number of tokens.", MANY, weigh=lambda p, v: p @ v / max(len(v), 1)),
    Mistake("first-head-only", first_head_only, "All heads get the first head's results.", ONE),
    _m("clipped-scores", "You clip the scores to keep exp finite. Subtract m instead.", LARGE, score=lambda q, k: np.clip(q @ k.T / math.sqrt(q.shape[1]), -700, 700)),
    Mistake("empty-m-is-zero", _empty(m=0.0), "Without a token you give m = 0, a score like any other. Nothing has the score -inf.", LARGE),
    Mistake("empty-m-is-small", _empty(m=-1e9), "Without a token you give m = -1e9. Say -inf: no score is that.", LARGE),
    Mistake("empty-l-is-one", _empty(total=1.0), "Without a token you give l = 1. There is nothing to sum: 0.", LARGE),
    Mistake("empty-is-nan", _empty(acc=np.nan), "Without a token your acc is NaN. There is nothing to sum: zeros.", LARGE),
    Mistake("empty-raises", raises_when_empty, "A part without a token is no error: m = -inf, l = 0, acc = zeros.", LARGE),
    Mistake("empty-is-none", none_when_empty, "A part without a token gives None. Give m = -inf, l = 0, acc = zeros.", LARGE),
    Mistake("empty-acc-is-flat", flat_when_empty, "Without a token your acc has the shape (H,). It is (H, D), as ever.", LARGE),
    Mistake("changes-q", scales_q_in_place, "`q /= ...` changes the caller's queries, which other parts need. Write `q = q / ...`.", LARGE),
    Mistake("changes-k", scales_k_in_place, "`k /= ...` changes the keys in the cache. Scale the scores instead.", LARGE),
)  # fmt: skip


def in_loops(q, k, v):
    m, total, acc = [], [], []
    for head in q.tolist():
        scores = [sum(a * b for a, b in zip(head, key)) / len(head) ** 0.5 for key in k.tolist()]
        top = max(scores, default=float("-inf"))
        shares = [math.exp(score - top) for score in scores]
        m.append(top)
        total.append(sum(shares))
        acc.append([sum(share * value[d] for share, value in zip(shares, v.tolist())) for d in range(q.shape[1])])
    return [m, total, acc]


def einsum(q, k, v):
    if len(k) == 0:
        return np.full(len(q), -np.inf), np.zeros(len(q)), np.zeros_like(q)
    s = np.einsum("hd,sd->hs", q, k) * q.shape[1] ** -0.5
    m = np.amax(s, axis=-1)
    p = np.exp(s - m[..., np.newaxis])
    return m, np.einsum("hs->h", p), np.einsum("hs,sd->hd", p, v)


def token_by_token(q, k, v):
    m, total, acc = np.full(len(q), -np.inf), np.zeros(len(q)), np.zeros(q.shape)
    for key, value in zip(k, v):
        s = q @ key / np.sqrt(q.shape[1])
        new = np.maximum(m, s)
        shrink, p = np.exp(m - new), np.exp(s - new)
        m, total, acc = new, total * shrink + p, acc * shrink[:, None] + p[:, None] * value
    return m, total, acc


def columns_kept(q, k, v):
    """m and l as columns (H, 1)."""
    s = (k @ q.T).T / np.sqrt(q.shape[-1])
    m = np.max(s, axis=1, keepdims=True, initial=-np.inf)
    p = np.exp(s - m)
    return m[:, 0], np.add.reduce(p, axis=1), np.dot(p, v)


VARIANTS = (
    Variant("in-loops", in_loops),
    Variant("einsum", einsum),
    Variant("token-by-token", token_by_token),
    Variant("columns-kept", columns_kept),
    Variant("in-steps", right),
)
