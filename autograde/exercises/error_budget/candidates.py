"""Wrong and right ways to bound the error. Most mistakes change one step of `_steps`."""

from __future__ import annotations

import math

from autograde.exercise import Mistake, Variant
from autograde.lazy import torch


def _delta(q, k, r, D):
    return (r * (k * q).abs().sum(1) / D**0.5).max()


def _weights(q, k, D):
    return torch.softmax(k @ q / D**0.5, 0)


def _growth(delta, r):
    return torch.exp(2 * delta) * (1 + r) - 1


def _mean(w, v):
    return w @ v.abs()


def _steps(delta=_delta, weights=_weights, growth=_growth, mean=_mean):
    def error_budget(q, k, v, relative):
        D = len(q)
        return mean(weights(q, k, D), v) * growth(delta(q, k, relative, D), relative)

    return error_budget


right = _steps()


def overflows(q, k, v, r):
    D = len(q)
    e = torch.exp(k @ q / D**0.5)
    return _mean(e / e.sum(), v) * _growth(_delta(q, k, r, D), r)


def float32(q, k, v, r):
    return right(q.float(), k.float(), v.float(), r)


def each_delta(q, k, v, r):
    root = len(q) ** 0.5
    growth = _growth(r * (k * q).abs().sum(1) / root, r)
    return (torch.softmax(k @ q / root, 0) * growth) @ v.abs()


def absolute_in_place(q, k, v, r):
    out = right(q, k, v, r)
    v.abs_()
    return out


def scales_q_in_place(q, k, v, r):
    q /= len(q) ** 0.5
    e = torch.softmax(k @ q, 0)
    return _mean(e, v) * _growth((r * (k * q).abs().sum(1)).max(), r)


def multiplies_k_in_place(q, k, v, r):
    out = right(q, k, v, r)
    k *= q
    return out


def rounds_small(q, k, v, r):
    return right(q, k, v, max(r, 2.0**-12))


def _m(name, tells, killed_by, **steps):
    return Mistake(name, _steps(**steps), tells, killed_by)


MISTAKES = (
    _m("values-taken-as-exact", "You forget that values are rounded too: the factor is exp(2 * delta) * (1 + relative) - 1.", "values alone", growth=lambda d, r: torch.exp(2 * d) - 1),
    _m("relative-squared", "You count the values' rounding twice, (1 + relative) ** 2. Each value is stored once.", "values alone", growth=lambda d, r: torch.exp(2 * d) * (1 + r) ** 2 - 1),
    Mistake("always-e4m3", lambda q, k, v, r: right(q, k, v, 2.0**-4), "You always use 2 ** -4. Use the `relative` that is given.", "values alone"),
    _m("no-minus-one", "You bound the output itself. How far it moves is that factor minus 1.", "values alone", growth=lambda d, r: torch.exp(2 * d) * (1 + r)),
    _m("signed-values", "You use v with its signs, so errors cancel in the bound. Take |v|.", "values alone", mean=lambda w, v: w @ v),
    _m("absolute-after-the-mean", "You take the absolute value of the mean. Each token's |v| counts: abs before the sum.", "values alone", mean=lambda w, v: (w @ v).abs()),
    _m("largest-value", "You take the largest |v| for all. The bound weighs each token's |v| by its weight.", "values alone", mean=lambda w, v: v.abs().amax(0)),
    _m("sum-of-values", "You add up all |v|. Weigh them with the softmax weights, which sum to 1.", "values alone", mean=lambda w, v: v.abs().sum(0)),
    _m("one-number", "You return one number for all outputs. Each of the D outputs has its own bound.", "values alone", mean=lambda w, v: (w @ v.abs()).max()),
    _m("length-of-a-value", "You weigh the lengths of the values. Each of the D outputs has its own bound.", "values alone", mean=lambda w, v: (w @ v.norm(dim=1)) * torch.ones(v.shape[1], dtype=v.dtype)),
    _m("squares-of-values", "You weigh v squared. Weigh |v|.", "values alone", mean=lambda w, v: w @ v**2),
    _m("root-of-squares", "You take the root of the mean square, which is what happens on average. A bound needs |v|.", "values alone", mean=lambda w, v: (w @ v**2).sqrt()),
    _m("relative-left-out-of-the-end", "You multiply by relative only. Scores move too: exp(2 * delta) * (1 + relative) - 1.", "one token", growth=lambda d, r: 0 * d + r),
    _m("growth-of-relative-only", "exp(2 * delta) multiplies relative only. It multiplies 1 + relative; then subtract 1.", "one token", growth=lambda d, r: torch.exp(2 * d) * r),
    _m("first-order", "You use relative + 2 * delta. That is smaller than exp(2 * delta) * (1 + relative) - 1, so it is no bound.", "one token", growth=lambda d, r: r + 2 * d),
    _m("once-delta", "You use exp(delta). The sum under the softmax moves too, the other way: exp(2 * delta).", "one token", growth=lambda d, r: torch.exp(d) * (1 + r) - 1),
    _m("four-delta", "You use exp(4 * delta). Numerator and sum move by exp(delta) each: exp(2 * delta).", "one token", growth=lambda d, r: torch.exp(4 * d) * (1 + r) - 1),
    _m("linearised", "You use 2 * delta for exp(2 * delta) - 1. That is smaller, so it is no bound.", "one token", growth=lambda d, r: (1 + 2 * d) * (1 + r) - 1),
    _m("sum-of-both", "You add the two errors. They multiply: exp(2 * delta) * (1 + relative) - 1.", "one token", growth=lambda d, r: torch.exp(2 * d) - 1 + r),
    _m("shrinking-side", "You bound how far it shrinks, 1 - exp(-2 * delta). Growing goes further.", "one token", growth=lambda d, r: 1 - torch.exp(-2 * d) * (1 - r)),
    _m("base-two", "You use 2 ** (2 * delta). Softmax is made of exp.", "one token", growth=lambda d, r: torch.exp2(2 * d) * (1 + r) - 1),
    _m("no-root", "delta has no 1/sqrt(D). Scores are divided by it, and so are their errors.", "one token", delta=lambda q, k, r, D: (r * (k * q).abs().sum(1)).max()),
    _m("divided-by-d", "You divide delta by D. Scores are divided by sqrt(D).", "one token", delta=lambda q, k, r, D: (r * (k * q).abs().sum(1) / D).max()),
    _m("delta-without-relative", "delta has no `relative` in it. An error is that share of each product.", "one token", delta=lambda q, k, r, D: ((k * q).abs().sum(1) / D**0.5).max()),
    _m("absolute-after-the-sum", "You take |q . k|, where products of different signs cancel. Errors need not: abs before the sum.", "one token", delta=lambda q, k, r, D: (r * (k @ q).abs() / D**0.5).max()),
    _m("lengths-multiplied", "You use |q| |k| of the lengths. That is a bound too, but not this one: sum |q_d k_jd|.", "one token", delta=lambda q, k, r, D: (r * k.norm(dim=1) * q.norm() / D**0.5).max()),
    _m("largest-product", "You take the largest |q_d k_jd|. The errors of all D products may add up: sum them.", "one token", delta=lambda q, k, r, D: (r * (k * q).abs().amax(1) / D**0.5).max()),
    _m("root-sum-of-squares", "You add errors as roots of squares, as if they were random. In a bound all may have one sign.", "one token", delta=lambda q, k, r, D: (r * (k * q).norm(dim=1) / D**0.5).max()),
    _m("key-alone", "delta has no q in it. An error of k counts as much as q is large there.", "values alone", delta=lambda q, k, r, D: (r * k.abs().sum(1) / D**0.5).max()),
    _m("mean-delta", "You take the mean delta. A bound must hold for the score that moves most: the largest.", "many tokens", delta=lambda q, k, r, D: (r * (k * q).abs().sum(1) / D**0.5).mean()),
    _m("smallest-delta", "You take the smallest delta. Take the largest.", "many tokens", delta=lambda q, k, r, D: (r * (k * q).abs().sum(1) / D**0.5).min()),
    _m("sum-of-deltas", "You add the deltas of all tokens. No score moves further than the largest one.", "many tokens", delta=lambda q, k, r, D: (r * (k * q).abs().sum(1) / D**0.5).sum()),
    _m("last-delta", "You use the last token's delta. Take the largest of all.", "many tokens", delta=lambda q, k, r, D: (r * (k * q).abs().sum(1) / D**0.5)[-1]),
    _m("first-delta", "You use the first token's delta. Take the largest of all.", "many tokens", delta=lambda q, k, r, D: (r * (k * q).abs().sum(1) / D**0.5)[0]),
    _m("delta-of-the-best-key", "You use the delta of the token with the highest score. Another may move further.", "many tokens", delta=lambda q, k, r, D: (r * (k * q).abs().sum(1) / D**0.5)[(k @ q).argmax()]),
    _m("weighted-delta", "You weigh the deltas with the softmax weights. A bound takes the largest.", "many tokens", delta=lambda q, k, r, D: _weights(q, k, D) @ (r * (k * q).abs().sum(1) / D**0.5)),
    _m("equal-weights", "You give all tokens the same weight. The weights are the softmax of the exact scores.", "many tokens", weights=lambda q, k, D: torch.full((len(k),), 1 / len(k), dtype=k.dtype)),
    _m("weights-without-root", "Your weights come from q . k without 1/sqrt(D).", "many tokens", weights=lambda q, k, D: torch.softmax(k @ q, 0)),
    Mistake("a-delta-for-each-token", each_delta, "Each token's growth has its own delta. The sum under the softmax is moved by the largest: use that for all.", "many tokens"),
    _m("weights-of-absolute-scores", "Your weights come from sums of |q_d k_jd|. Scores keep their signs.", "many tokens", weights=lambda q, k, D: torch.softmax((k * q).abs().sum(1) / D**0.5, 0)),
    _m("weights-turned", "Your weights are the softmax of minus the scores.", "many tokens", weights=lambda q, k, D: torch.softmax(-k @ q / D**0.5, 0)),
    _m("all-weight-on-the-best", "You give all weight to the highest score. Use the softmax weights.", "values alone", weights=lambda q, k, D: torch.eye(len(k), dtype=k.dtype)[(k @ q).argmax()]),
    Mistake("softmax-overflows", overflows, "exp() of a large score is infinite. Subtract the largest score first, or use torch.softmax.", "sizes of all kinds"),
    Mistake("smallest-error-cut-off", rounds_small, "You never go below a smallest relative error. A smaller one gives a smaller bound.", "sizes of all kinds"),
    Mistake("float32", float32, "You work in float32, where 1 + relative - 1 loses a small relative. Stay in float64.", "sizes of all kinds"),
    _m("epsilon-added", "You add a small constant to the bound. It is right as it is.", "sizes of all kinds", growth=lambda d, r: _growth(d, r) + 1e-9),
    Mistake("values-in-place", absolute_in_place, "You make the caller's v absolute. Use v.abs(), which is a new tensor.", "the tensors stay"),
    Mistake("query-in-place", scales_q_in_place, "You divide the caller's q. Use a new tensor.", "the tensors stay"),
    Mistake("keys-in-place", multiplies_k_in_place, "You multiply the caller's k. Use a new tensor.", "the tensors stay"),
)  # fmt: skip


def in_loops(q, k, v, relative):
    S, D = k.shape
    root = math.sqrt(D)
    scores = [sum(float(q[d] * k[j, d]) for d in range(D)) / root for j in range(S)]
    deltas = [relative * sum(abs(float(q[d] * k[j, d])) for d in range(D)) / root for j in range(S)]
    powers = [math.exp(s - max(scores)) for s in scores]
    growth = math.exp(2 * max(deltas)) * (1 + relative) - 1
    return [sum(p * abs(float(v[j, d])) for j, p in enumerate(powers)) / sum(powers) * growth for d in range(D)]


def by_einsum(q, k, v, relative):
    root = q.numel() ** 0.5
    delta = torch.einsum("d,sd->s", q.abs(), k.abs()).max() * relative / root
    w = torch.softmax(torch.einsum("d,sd->s", q, k) / root, -1)
    return torch.einsum("s,sd->d", w, v.abs()) * ((1 + relative) * torch.exp(2 * delta) - 1)


def through_logs(q, k, v, relative):
    scores = k @ q / q.numel() ** 0.5
    delta = relative * (k.abs() @ q.abs()).max() / q.numel() ** 0.5
    w = (scores - scores.logsumexp(0)).exp()
    return (w[:, None] * v.abs()).sum(0) * torch.expm1(2 * delta + math.log1p(relative))


def as_an_array(q, k, v, relative):
    return right(q, k, v, relative).numpy()


VARIANTS = (
    Variant("loops", in_loops),
    Variant("einsum", by_einsum),
    Variant("expm1", through_logs),
    Variant("a NumPy array", as_an_array),
    Variant("in steps", right),
)
