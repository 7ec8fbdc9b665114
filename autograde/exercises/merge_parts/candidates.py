"""Wrong and right ways to merge parts. Most mistakes are `steps` with one step changed."""

from __future__ import annotations

import math

import numpy as np

from autograde.exercise import Mistake, Variant

ONE, SEVERAL, LARGE, EMPTY = "one part", "several parts", "large scores", "empty parts"


def steps(
    top=lambda m: m.max(axis=0),
    base=lambda t: np.where(np.isneginf(t), 0.0, t),
    weight=lambda m, b: np.exp(m - b),
    total=lambda w, sums: (w * sums).sum(axis=0),
    weigh=lambda w, acc: (w[:, :, None] * acc).sum(axis=0),
    divide=lambda acc, t: acc / np.where(t == 0.0, 1.0, t)[:, None],
):
    def merge_parts(m, l, acc):  # noqa: E741
        with np.errstate(all="ignore"):
            w = weight(m, base(top(m)))
            return divide(weigh(w, acc), total(w, l))

    return merge_parts


right = steps()


def mean_of_outputs(m, l, acc):  # noqa: E741
    with np.errstate(all="ignore"):
        outputs = np.where(l[:, :, None] > 0, acc / l[:, :, None], 0.0)
        return outputs.mean(axis=0)


def outputs_by_l(m, l, acc):  # noqa: E741
    with np.errstate(all="ignore"):
        return np.where(l.sum(0)[:, None] > 0, acc.sum(axis=0) / l.sum(axis=0)[:, None], 0.0)


def best_part(m, l, acc):  # noqa: E741
    best = m.argmax(axis=0)
    heads = np.arange(m.shape[1])
    total = l[best, heads]
    return acc[best, heads] / np.where(total == 0, 1.0, total)[:, None]


def last_part(m, l, acc):  # noqa: E741
    held = [np.flatnonzero(l[:, h]) for h in range(l.shape[1])]
    at = [int(p[-1]) if len(p) else 0 for p in held]
    heads = np.arange(m.shape[1])
    total = l[at, heads]
    return acc[at, heads] / np.where(total == 0, 1.0, total)[:, None]


def first_two(m, l, acc):  # noqa: E741
    return right(m[:2], l[:2], acc[:2])


def softmax_over_parts(m, l, acc):  # noqa: E741
    with np.errstate(all="ignore"):
        w = np.exp(m - np.where(np.isneginf(m.max(0)), 0, m.max(0)))
        w = w / np.where(w.sum(0) == 0, 1, w.sum(0))
        outputs = acc / np.where(l == 0, 1, l)[:, :, None]
        return (w[:, :, None] * outputs).sum(axis=0)


def one_after_the_other_keeps_m(m, l, acc):  # noqa: E741
    """The running merge, whose m stays that of the first part."""
    with np.errstate(all="ignore"):
        top, total, out = m[0], l[0], acc[0]
        for p in range(1, len(m)):
            new = np.maximum(top, m[p])
            a, b = np.exp(top - new), np.exp(m[p] - new)
            a, b = (np.nan_to_num(x, nan=0.0) for x in (a, b))
            total, out = total * a + l[p] * b, out * a[:, None] + acc[p] * b[:, None]
        return out / np.where(total == 0, 1, total)[:, None]


def drops_empty_parts(m, l, acc):  # noqa: E741
    """A part counts as empty when its first head is."""
    held = l[:, 0] > 0
    return right(m[held], l[held], acc[held]) if held.any() else np.zeros(acc.shape[1:])


def drops_by_last_head(m, l, acc):  # noqa: E741
    held = l[:, -1] > 0
    return right(m[held], l[held], acc[held]) if held.any() else np.zeros(acc.shape[1:])


def drops_parts_with_an_empty_head(m, l, acc):  # noqa: E741
    """Only heads that no part holds are left out of account."""
    there = (l > 0).any(axis=0)
    held = (l > 0)[:, there].all(axis=1) & there.any()
    return right(m[held], l[held], acc[held]) if held.any() else np.zeros(acc.shape[1:])


def zero_for_nan_at_the_end(m, l, acc):  # noqa: E741
    """The running merge. Only parts that are empty for all heads are passed over."""
    with np.errstate(all="ignore"):
        top, total, out = np.full(m.shape[1], -np.inf), np.zeros(m.shape[1]), np.zeros(acc.shape[1:])
        for p in range(len(m)):
            if np.isneginf(m[p]).all():
                continue
            new = np.maximum(top, m[p])
            a, b = np.exp(top - new), np.exp(m[p] - new)
            total, out, top = a * total + b * l[p], a[:, None] * out + b[:, None] * acc[p], new
        return np.nan_to_num(out / total[:, None])


def raises_on_empty(m, l, acc):  # noqa: E741
    if (l == 0).any():
        raise ValueError("an empty part")
    return right(m, l, acc)


def none_on_all_empty(m, l, acc):  # noqa: E741
    return None if (l == 0).all() else right(m, l, acc)


def fixes_m_in_place(m, l, acc):  # noqa: E741
    m[np.isneginf(m)] = -1e300
    return right(m, l, acc)


def shrinks_acc_in_place(m, l, acc):  # noqa: E741
    with np.errstate(all="ignore"):
        top = np.where(np.isneginf(m.max(0)), 0.0, m.max(0))
        w = np.exp(m - top)
        acc *= w[:, :, None]
        total = (w * l).sum(0)
        return acc.sum(0) / np.where(total == 0, 1.0, total)[:, None]


def _m(name, tells, killed_by, **changed):
    return Mistake(name, steps(**changed), tells, killed_by)


MISTAKES = (
    _m("never-divides", "You add the weighted sums and do not divide by the sum of the powers.", ONE, divide=lambda acc, t: acc),
    _m("divides-by-parts", "You divide by the number of parts. Divide by the merged sum of powers.", ONE, divide=lambda acc, t: acc / 3),
    _m("sum-for-all-heads", "One sum of powers for all heads. Each head has its own.", ONE, divide=lambda acc, t: acc / (t.sum() or 1.0)),
    _m("wrong-axis", "You add along the heads. Add along the parts, axis 0.", ONE, weigh=lambda w, acc: (w[:, :, None] * acc).sum(axis=1)),
    _m("adds-columns", "The D columns of acc are added up too. The result is (H, D).", ONE, weigh=lambda w, acc: (w[:, :, None] * acc).sum(axis=(0, 2))[:, None] * np.ones(acc.shape[2])),
    _m("axis-of-parts-kept", "Your output is (1, H, D): the axis of the parts is still there. Add along it without keepdims.", ONE, divide=lambda acc, t: (acc / np.where(t == 0.0, 1.0, t)[:, None])[None]),
    _m("divides-twice", "You divide by the sum of powers twice.", ONE, divide=lambda acc, t: acc / np.where(t == 0, 1, t)[:, None] ** 2),
    _m("tiny-added", "You add 0.01 to the sum of powers. It changes the output. Where the sum is 0, divide by 1.", ONE, divide=lambda acc, t: acc / (t + 0.01)[:, None]),
    _m("multiplies-by-l", "You multiply by the sum of powers. Divide by it.", ONE, divide=lambda acc, t: acc * t[:, None]),
    Mistake("mean-of-outputs", mean_of_outputs, "You average finished outputs. Parts with large scores count more.", SEVERAL),
    Mistake("sums-as-they-are", outputs_by_l, "You add the sums as they are. Each was measured against its own m: bring them to the largest.", SEVERAL),
    Mistake("best-part", best_part, "You take the part with the largest m alone. The others count too.", SEVERAL),
    Mistake("last-part", last_part, "Only the last part is in your output.", SEVERAL),
    Mistake("first-two-parts", first_two, "You merge two parts. There are m.shape[0] of them.", SEVERAL),
    Mistake("outputs-by-m", softmax_over_parts, "You weigh finished outputs by exp(m). A part's weight is exp(m) * l.", SEVERAL),
    _m("grows", "You multiply by exp(top - m), which grows. Shrink: exp(m - top).", SEVERAL, weight=lambda m, b: np.where(np.isneginf(m), 0.0, np.exp(b - m))),
    _m("l-does-not-shrink", "acc is brought to the largest m, l is not. Both were measured against their part's m.", SEVERAL, total=lambda w, sums: sums.sum(axis=0)),
    _m("acc-does-not-shrink", "l is brought to the largest m, acc is not. Both were measured against their part's m.", SEVERAL, weigh=lambda w, acc: acc.sum(axis=0)),
    _m("shrinks-twice", "You shrink by exp(2 * (m - top)).", SEVERAL, weight=lambda m, b: np.exp(2 * (m - b))),
    _m("base-two", "These are powers of e, not of two: exp(m - top).", SEVERAL, weight=lambda m, b: np.exp2(m - b)),
    _m("difference-itself", "You multiply by m - top. The sums shrink by its exp.", SEVERAL, weight=lambda m, b: np.where(np.isneginf(m), 0.0, 1 + (m - b))),
    _m("largest-of-all-heads", "You take one largest m for all heads. Where heads lie far apart the lower ones vanish: each has its own.", LARGE, top=lambda m: np.full(m.shape[1], m.max())),
    _m("largest-of-the-first", "You bring the parts to the m of the first one. With m = 1000 apart that overflows: take the largest.", LARGE, top=lambda m: m[np.isfinite(m).argmax(axis=0), np.arange(m.shape[1])]),
    _m("smallest", "You bring the parts to the smallest m. That overflows: take the largest.", LARGE, top=lambda m: np.where(np.isneginf(m), np.inf, m).min(axis=0), base=lambda t: np.where(np.isposinf(t), 0.0, t)),
    _m("without-a-largest", "You take exp(m), which overflows. Only differences of m go into exp.", LARGE, base=lambda t: 0.0 * np.where(np.isneginf(t), 0.0, t)),
    _m("largest-at-least-zero", "Your largest m is never below 0, so parts far below 0 vanish.", LARGE, top=lambda m: m.max(axis=0, initial=0.0)),
    _m("mean-for-largest", "You bring the parts to the mean m. That overflows: take the largest.", LARGE, top=lambda m: np.where(np.isneginf(m), 0.0, m).sum(axis=0) / np.maximum(1, np.isfinite(m).sum(axis=0))),
    Mistake("m-of-the-first-stays", one_after_the_other_keeps_m, "You merge one after the other, and never keep the new m. The next part meets the old one.", SEVERAL),
    _m("empty-is-nan", "A head without a token gets NaN: -inf minus -inf is NaN, and so is 0 over 0. Its output is zeros.", EMPTY, base=lambda t: t),
    _m("empty-m-is-zero", "You put 0 for an m of -inf. Where all scores lie far below 0, that 0 becomes the largest, and every sum vanishes.", EMPTY, top=lambda m: np.where(np.isneginf(m), 0.0, m).max(axis=0)),
    Mistake("empty-by-any-head", drops_parts_with_an_empty_head, "You drop a part when any of its heads is empty. The other heads lose its tokens: look at each head.", EMPTY),
    Mistake("empty-by-last-head", drops_by_last_head, "You drop a part when its last head is empty. Look at each head.", EMPTY),
    Mistake("nan-at-the-end", zero_for_nan_at_the_end, "-inf minus -inf makes a head NaN at its empty part, and it stays NaN: the zeros you put at the end hide its tokens.", EMPTY),
    _m("empty-counts-once", "Where m is -inf you give the part the weight 1, and add 1 to its l. It adds nothing.", EMPTY, total=lambda w, sums: (w * np.where(sums == 0, 1.0, sums)).sum(axis=0) + (sums == 0).sum(axis=0)),
    Mistake("empty-by-first-head", drops_empty_parts, "You drop a part when its first head is empty. Look at each head.", EMPTY),
    Mistake("empty-raises", raises_on_empty, "An empty part is no error: it adds nothing.", EMPTY),
    Mistake("all-empty-is-none", none_on_all_empty, "No token in any part gives zeros (H, D), not None.", EMPTY),
    Mistake("changes-m", fixes_m_in_place, "You write into m, which is the caller's. Make a new array.", EMPTY),
    Mistake("changes-acc", shrinks_acc_in_place, "`acc *= ...` changes the caller's array. Make a new one.", EMPTY),
)  # fmt: skip


def in_loops(m, l, acc):  # noqa: E741
    P, H, D = acc.shape
    out = []
    for h in range(H):
        held = [p for p in range(P) if l[p, h] > 0]
        if not held:
            out.append([0.0] * D)
            continue
        top = max(m[p, h] for p in held)
        shares = {p: math.exp(m[p, h] - top) for p in held}
        total = sum(shares[p] * l[p, h] for p in held)
        out.append([sum(shares[p] * acc[p, h, d] for p in held) / total for d in range(D)])
    return out


def one_after_the_other(m, l, acc):  # noqa: E741
    P, H, D = acc.shape
    top, total, out = np.full(H, -np.inf), np.zeros(H), np.zeros((H, D))
    for p in range(P):
        new = np.maximum(top, m[p])
        safe = np.where(np.isneginf(new), 0.0, new)
        a, b = np.exp(top - safe), np.exp(m[p] - safe)
        total, out, top = a * total + b * l[p], a[:, None] * out + b[:, None] * acc[p], new
    return np.divide(out, total[:, None], out=np.zeros_like(out), where=total[:, None] > 0)


def by_logsumexp(m, l, acc):  # noqa: E741
    """Finished outputs, weighed by the logarithms of the parts' sums."""
    with np.errstate(divide="ignore", invalid="ignore"):
        lse = m + np.log(l)
        whole = np.logaddexp.reduce(lse, axis=0)
        w = np.where(np.isneginf(lse), 0.0, np.exp(lse - whole))
        outputs = np.where(l[:, :, None] > 0, acc / l[:, :, None], 0.0)
    return np.einsum("ph,phd->hd", w, outputs)


def in_a_tree(m, l, acc):  # noqa: E741
    """Neighbours first, then their pairs."""
    parts = [(m[p], l[p], acc[p]) for p in range(len(m))]
    while len(parts) > 1:
        pairs, parts = parts, []
        for i in range(0, len(pairs) - 1, 2):
            (m1, l1, a1), (m2, l2, a2) = pairs[i], pairs[i + 1]
            top = np.maximum(np.maximum(m1, m2), -1e300)
            w1, w2 = np.exp(m1 - top), np.exp(m2 - top)
            parts.append((np.maximum(m1, m2), w1 * l1 + w2 * l2, w1[:, None] * a1 + w2[:, None] * a2))
        parts += pairs[len(pairs) - len(pairs) % 2 :]
    _, total, out = parts[0]
    return out / np.maximum(total, 1e-300)[:, None]


VARIANTS = (
    Variant("in-loops", in_loops),
    Variant("one-after-the-other", one_after_the_other),
    Variant("logsumexp", by_logsumexp),
    Variant("in-a-tree", in_a_tree),
    Variant("in-steps", right),
)
