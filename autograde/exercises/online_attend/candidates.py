"""Wrong and right ways to attend block by block. Most mistakes are `Base` with one part changed."""

from __future__ import annotations

import math

import numpy as np

from autograde.exercise import Mistake, Variant

ONE, MANY, LARGE, NOTHING = "one block", "many blocks", "large scores", "nothing, and again"


class Base:
    """The running softmax, in pieces."""

    def start(self, q):
        return -np.inf, 0.0, np.zeros(len(q))

    def blocks(self, blocks):
        while (block := blocks.next()) is not None:
            yield block

    def score(self, q, k):
        return k @ q / math.sqrt(len(q))

    def largest(self, m, scores):
        return max(m, scores.max())

    def shrink(self, old, new):
        return np.exp(old - new)

    def powers(self, scores, new):
        return np.exp(scores - new)

    def fold(self, total, acc, shrink, powers, v):
        return total * shrink + powers.sum(), acc * shrink + powers @ v

    def keep(self, m, new):
        return new

    def finish(self, total, acc, q):
        return acc / total if total else np.zeros(len(q))

    def __call__(self, q, blocks):
        m, total, acc = self.start(q)
        for k, v in self.blocks(blocks):
            with np.errstate(all="ignore"):
                scores = self.score(q, k)
                new = self.largest(m, scores)
                total, acc = self.fold(total, acc, self.shrink(m, new), self.powers(scores, new), v)
                m = self.keep(m, new)
        with np.errstate(all="ignore"):
            return self.finish(total, acc, q)


right = Base()


def changed(**parts):
    return type("Changed", (Base,), {name: (lambda self, *args, _f=f: _f(*args)) for name, f in parts.items()})()


def mean_of_blocks(q, blocks):
    outputs = []
    while (block := blocks.next()) is not None:
        k, v = block
        powers = np.exp(k @ q / math.sqrt(len(q)) - (k @ q / math.sqrt(len(q))).max())
        outputs.append(powers @ v / powers.sum())
    return np.mean(outputs, axis=0) if outputs else np.zeros(len(q))


def mean_by_size(q, blocks):
    outputs, sizes = [], []
    while (block := blocks.next()) is not None:
        k, v = block
        powers = np.exp(k @ q / math.sqrt(len(q)) - (k @ q / math.sqrt(len(q))).max())
        outputs.append(powers @ v / powers.sum() * len(k))
        sizes.append(len(k))
    return np.sum(outputs, axis=0) / sum(sizes) if outputs else np.zeros(len(q))


def sum_of_blocks(q, blocks):
    out = np.zeros(len(q))
    while (block := blocks.next()) is not None:
        k, v = block
        powers = np.exp(k @ q / math.sqrt(len(q)) - (k @ q / math.sqrt(len(q))).max())
        out += powers @ v / powers.sum()
    return out


def sums_without_shrinking(q, blocks):
    """Each block's powers are measured against its own largest score."""
    total, acc = 0.0, np.zeros(len(q))
    while (block := blocks.next()) is not None:
        k, v = block
        scores = k @ q / math.sqrt(len(q))
        powers = np.exp(scores - scores.max())
        total, acc = total + powers.sum(), acc + powers @ v
    return acc / total if total else acc


def last_block(q, blocks):
    out = np.zeros(len(q))
    while (block := blocks.next()) is not None:
        k, v = block
        powers = np.exp(k @ q / math.sqrt(len(q)) - (k @ q / math.sqrt(len(q))).max())
        out = powers @ v / powers.sum()
    return out


def first_block(q, blocks):
    block = blocks.next()
    if block is None:
        return np.zeros(len(q))
    k, v = block
    powers = np.exp(k @ q / math.sqrt(len(q)) - (k @ q / math.sqrt(len(q))).max())
    return powers @ v / powers.sum()


class EveryOther(Base):
    """The loop's condition takes a block, and its body the next one."""

    def blocks(self, blocks):
        yield from [first] if (first := blocks.next()) is not None else []
        while blocks.next() is not None:
            block = blocks.next()
            if block is None:
                return
            yield block


class LeavesLast(Base):
    def blocks(self, blocks):
        ahead = blocks.next()
        first = ahead
        while (later := blocks.next()) is not None:
            yield ahead
            ahead = later
        if first is ahead and first is not None:
            yield first


class StopsEarly(Base):
    """Two blocks are all that it knows of."""

    def blocks(self, blocks):
        for _ in range(2):
            if (block := blocks.next()) is None:
                return
            yield block


class ScalesInPlace(Base):
    def __call__(self, q, blocks):
        q /= math.sqrt(len(q))
        return super().__call__(q, blocks)

    def score(self, q, k):
        return k @ q


class Remembers(Base):
    """The largest score of the query before is where the next one starts."""

    def __init__(self):
        self.m = None

    def start(self, q):
        return (-np.inf if self.m is None else self.m), 0.0, np.zeros(len(q))


def _no_root(q, k):
    return k @ q


def _m(name, tells, killed_by, **parts):
    return Mistake(name, changed(**parts), tells, killed_by)


def _nothing(value):
    def finish(total, acc, q):
        return acc / total if total else value(q)

    return finish


def _raise(q):
    raise ValueError("no blocks")


MISTAKES = (
    _m("no-scale", "The scores are not divided by sqrt(D), the width of q.", ONE, score=_no_root),
    _m("divides-by-width", "You divide the scores by D. Divide by its square root.", ONE, score=lambda q, k: k @ q / len(q)),
    _m("divides-by-keys", "You divide by the root of the number of keys. It is the width of q that counts.", ONE, score=lambda q, k: k @ q / math.sqrt(len(k))),
    _m("sign-of-the-scores", "Your scores have the wrong sign: the best key gets the least weight.", ONE, score=lambda q, k: -(k @ q) / math.sqrt(len(q))),
    _m("never-divides", "You return the weighted sum. Divide it by the sum of the powers at the end.", ONE, finish=lambda t, a, q: a),
    _m("base-two", "Softmax is made of exp, not of powers of two.", ONE, powers=lambda s, new: np.exp2(s - new), shrink=lambda old, new: np.exp2(old - new)),
    _m("values-not-weighed", "Each value counts with its power: powers @ v, not the sum of v.", ONE, fold=lambda t, a, s, p, v: (t * s + p.sum(), a * s + v.sum(0))),
    _m("total-starts-at-one", "The sum of the powers starts at 0; yours has 1 too much.", ONE, start=lambda q: (-np.inf, 0.0, np.zeros(len(q))), finish=lambda t, a, q: a / (t + 1)),
    _m("divides-by-count", "You divide by the number of keys. Divide by the sum of their powers.", ONE, fold=lambda t, a, s, p, v: (t + len(p), a * s + p @ v)),
    _m("one-number", "You return a single number. The output is (D,): powers @ v keeps the D columns.", ONE, finish=lambda t, a, q: (a / t).sum() if t else np.zeros(len(q))),
    Mistake("mean-of-blocks", mean_of_blocks, "You average the blocks' outputs. Blocks with large scores count more: keep sums, divide once.", MANY),
    Mistake("mean-by-size", mean_by_size, "You weigh each block's output with its number of keys. Its sum of powers is its weight.", MANY),
    Mistake("sum-of-blocks", sum_of_blocks, "You add outputs that are divided already. Keep the sums, and divide once at the end.", MANY),
    Mistake("own-largest", sums_without_shrinking, "Each block is measured against its own largest score. All need the same one before they are added.", MANY),
    Mistake("last-block", last_block, "Only the last block is left in your output.", MANY),
    Mistake("first-block", first_block, "You ask for one block. Go on until `next()` gives None.", MANY),
    Mistake("every-other-block", EveryOther(), "You call `next()` twice for each turn, so blocks go by unseen. Keep what the condition took.", MANY),
    Mistake("last-block-left-out", LeavesLast(), "The last block is never folded in.", MANY),
    Mistake("two-blocks", StopsEarly(), "You stop after two blocks. Go on until `next()` gives None.", MANY),
    _m("nothing-shrinks", "When a larger score comes, what was summed before must shrink by exp(old - new). Yours stays.", MANY, shrink=lambda old, new: 1.0),
    _m("values-do-not-shrink", "The sum of powers shrinks, the weighted values do not. Both were measured against the old score.", MANY, fold=lambda t, a, s, p, v: (t * s + p.sum(), a + p @ v)),
    _m("sum-does-not-shrink", "The weighted values shrink, the sum of powers does not. Both were measured against the old score.", MANY, fold=lambda t, a, s, p, v: (t + p.sum(), a * s + p @ v)),
    _m("grows", "You multiply by exp(new - old), which grows. What came before must shrink: exp(old - new).", MANY, shrink=lambda old, new: np.exp(new - old) if np.isfinite(old) else 0.0),
    _m("shrinks-everything", "The new block shrinks too. It is measured against the new score already: only the old sums shrink.", MANY, fold=lambda t, a, s, p, v: ((t + p.sum()) * (s or 1.0), (a + p @ v) * (s or 1.0))),
    _m("shrinks-twice", "You shrink the old sums twice.", MANY, shrink=lambda old, new: np.exp(2 * (old - new))),
    _m("forgets-the-largest", "The first block's largest score stays in `m`: later ones shrink by too much. Keep the new one.", MANY, keep=lambda m, new: m if np.isfinite(m) else new),
    _m("previous-block-is-forgotten", "Your sums start anew with each larger score. They shrink, and stay.", MANY, shrink=lambda old, new: 1.0 if old == new else 0.0),
    _m("replaces-the-sums", "Each block replaces the sums. Add to what is there.", MANY, fold=lambda t, a, s, p, v: (p.sum(), a * s + p @ v)),
    _m("weighs-with-the-first-power", "Shrink by the old largest score minus the new one; you use the block's first score.", MANY, fold=lambda t, a, s, p, v: (t * s + p.sum(), a * s * (p[0] ** 0.0) + p @ v) if len(p) < 3 else (t * s * p[0] + p.sum(), a * s * p[0] + p @ v)),
    _m("no-largest", "exp of a large score is infinite. Subtract the largest score so far.", LARGE, largest=lambda m, s: 0.0, shrink=lambda old, new: 1.0),
    _m("largest-starts-at-zero", "m starts at 0, so scores far below 0 all become exp(...) = 0. Start at minus infinity.", LARGE, start=lambda q: (0.0, 0.0, np.zeros(len(q)))),
    _m("largest-of-the-block", "m follows each block, down too, and exp(old - new) overflows. Keep the larger of both.", LARGE, largest=lambda m, s: s.max()),
    _m("first-of-the-block", "You take each block's first score for its largest. exp of a later one overflows: scores.max().", LARGE, largest=lambda m, s: max(m, s[0])),
    _m("mean-of-the-block", "You take each block's mean score for its largest. exp of a larger one overflows: scores.max().", LARGE, largest=lambda m, s: max(m, s.mean())),
    _m("clipped", "You clip scores to keep exp finite. That changes them: subtract the largest instead.", LARGE, score=lambda q, k: np.clip(k @ q / math.sqrt(len(q)), -700, 700)),
    _m("absolute-largest", "You take the largest |score|. Far below 0 all powers then become 0.", LARGE, largest=lambda m, s: max(m, np.abs(s).max())),
    _m("smallest", "You subtract the smallest score, so the largest power overflows.", LARGE, largest=lambda m, s: min(s.min(), m) if np.isfinite(m) else s.min(), shrink=lambda old, new: np.exp(old - new) if np.isfinite(old) else 0.0),
    _m("tiny-added", "You add 1e-6 to the sum to be safe. It changes the output; the largest power is 1, so the sum is never 0.", ONE, finish=lambda t, a, q: a / (t + 1e-2)),
    _m("nothing-is-nan", "Without a block you divide 0 by 0. Give D zeros.", NOTHING, finish=lambda t, a, q: a / np.float64(t)),
    _m("nothing-is-none", "Without a block you return None. Give D zeros.", NOTHING, finish=_nothing(lambda q: None)),
    _m("nothing-is-one-zero", "Without a block you return a single 0. Give D of them.", NOTHING, finish=_nothing(lambda q: 0.0)),
    _m("nothing-raises", "No block is no error here: a request may have no tokens. Give D zeros.", NOTHING, finish=_nothing(_raise)),
    Mistake("changes-q", ScalesInPlace(), "`q /= ...` changes the caller's query. Write `q = q / ...`.", NOTHING),
)  # fmt: skip


def with_logsumexp(q, blocks):
    """Finished outputs, mixed by the logarithms of their sums."""
    out, lse = np.zeros(len(q)), -np.inf
    for k, v in iter(blocks.next, None):
        s = k @ q / len(q) ** 0.5
        top = s.max()
        p = np.exp(s - top)
        mine, new = p @ v / p.sum(), top + np.log(p.sum())
        both = np.logaddexp(lse, new)
        out, lse = out * np.exp(lse - both) + mine * np.exp(new - both), both
    return out


def key_by_key(q, blocks):
    """Plain floats, one key at a time."""
    m, total, acc, root = float("-inf"), 0.0, [0.0] * len(q), math.sqrt(len(q))
    block = blocks.next()
    while block is not None:
        for key, value in zip(block[0].tolist(), block[1].tolist()):
            score = sum(a * b for a, b in zip(q.tolist(), key)) / root
            if score > m:
                shrink = math.exp(m - score)
                total, acc, m = total * shrink, [a * shrink for a in acc], score
            power = math.exp(score - m)
            total += power
            acc = [a + power * x for a, x in zip(acc, value)]
        block = blocks.next()
    return [a / total for a in acc] if total else acc


def parts_then_merge(q, blocks):
    """Three numbers of each block, put together at the end."""
    parts = []
    while True:
        block = blocks.next()
        if block is None:
            break
        s = block[0] @ q / np.sqrt(len(q))
        p = np.exp(s - s.max())
        parts.append((s.max(), p.sum(), p @ block[1]))
    if not parts:
        return np.zeros_like(q)
    top = max(part[0] for part in parts)
    weights = [np.exp(part[0] - top) for part in parts]
    return sum(w * part[2] for w, part in zip(weights, parts)) / sum(w * part[1] for w, part in zip(weights, parts))


def always_divided(q, blocks):
    """The output is kept finished after each block."""
    m, total, out = -np.inf, 0.0, np.zeros(len(q))
    for k, v in iter(blocks.next, None):
        s = np.einsum("nd,d->n", k, q) * len(q) ** -0.5
        new = np.maximum(m, np.max(s))
        p = np.exp(s - new)
        more = total * np.exp(m - new)
        out = (out * more + p @ v) / (more + p.sum())
        m, total = new, more + p.sum()
    return out


def values_with_a_one(q, blocks):
    """A column of ones beside the values sums the powers."""
    m, acc = -np.inf, np.zeros(len(q) + 1)
    for k, v in iter(blocks.next, None):
        s = k @ (q / np.sqrt(len(q)))
        new = max(m, s.max())
        acc = acc * np.exp(m - new) + np.exp(s - new) @ np.hstack([v, np.ones((len(v), 1))])
        m = new
    return acc[:-1] / acc[-1] if acc[-1] > 0 else acc[:-1]


VARIANTS = (
    Variant("logsumexp", with_logsumexp),
    Variant("key-by-key", key_by_key),
    Variant("parts-then-merge", parts_then_merge),
    Variant("always-divided", always_divided),
    Variant("column-of-ones", values_with_a_one),
    Variant("in-pieces", right),
)
