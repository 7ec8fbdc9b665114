"""Wrong and right ways to keep what was looked at. Each mistake changes one thing in `Base`."""

from __future__ import annotations

import math

import numpy as np

from autograde.exercise import Mistake, Variant
from autograde.lazy import torch


class Base:
    """Rows, totals and positions of each KV head in the order of time."""

    def __init__(self, num_kv_heads, head_dim, budget, recent):
        self.budget, self.recent, self.seen, self.num_kv_heads = budget, recent, 0, num_kv_heads
        self.K = [torch.zeros(0, head_dim, dtype=torch.float64) for _ in range(num_kv_heads)]
        self.V = [torch.zeros(0, head_dim, dtype=torch.float64) for _ in range(num_kv_heads)]
        self.totals = [torch.zeros(0, dtype=torch.float64) for _ in range(num_kv_heads)]
        self.places = [torch.zeros(0, dtype=torch.int64) for _ in range(num_kv_heads)]

    def positions(self, head):
        return self.places[head].tolist()

    def step(self, q, k, v):
        outs = []
        for g in range(self.num_kv_heads):
            self.join(g, k[g], v[g])
            weights = self.weights(self.group(q, g), g)  # (G, T, n)
            outs.append(self.attended(weights, g))
            self.count(weights, g)
            self.evict(g, q.shape[1])
        self.seen += q.shape[1]
        return self.out(outs)

    def out(self, outs):
        return torch.cat(outs)

    def join(self, g, k, v):
        T = len(k)
        self.K[g], self.V[g] = torch.cat((self.K[g], k)), torch.cat((self.V[g], v))
        self.totals[g] = torch.cat((self.totals[g], self.fresh(T)))
        self.places[g] = torch.cat((self.places[g], self.new_places(g, T)))

    def fresh(self, T):
        return torch.zeros(T, dtype=torch.float64)

    def new_places(self, g, T):
        return torch.arange(self.seen, self.seen + T)

    def group(self, q, g):
        G = q.shape[0] // self.num_kv_heads
        return q[g * G : g * G + G]

    def weights(self, q, g):
        return self.scores(q, g).masked_fill(~self.visible(q.shape[1], len(self.K[g])), -torch.inf).softmax(-1)

    def scores(self, q, g):
        return q @ self.K[g].T / math.sqrt(q.shape[-1])

    def visible(self, T, n):
        return torch.arange(n) <= torch.arange(n - T, n)[:, None]

    def attended(self, weights, g):
        return weights @ self.V[g]

    def count(self, weights, g):
        self.totals[g] = self.totals[g] + weights.sum((0, 1))

    def evict(self, g, T):
        while len(self.K[g]) > self.budget:
            self.drop(g, self.weakest(g))

    def weakest(self, g):
        """The row with the smallest total behind the newest."""
        return int(self.totals[g][: len(self.K[g]) - self.recent].argmin())

    def drop(self, g, i):
        for rows in (self.K, self.V, self.totals, self.places):
            rows[g] = torch.cat((rows[g][:i], rows[g][i + 1 :]))


# Attention.


class NoScale(Base):
    def scores(self, q, g):
        return q @ self.K[g].T


class ScaleOfTheWidth(Base):
    def scores(self, q, g):
        return q @ self.K[g].T / math.sqrt(q.shape[-1] * self.num_kv_heads)


class NoMask(Base):
    def visible(self, T, n):
        return torch.ones(T, n, dtype=torch.bool)


class TopLeft(Base):
    def visible(self, T, n):
        return torch.ones(T, n, dtype=torch.bool).tril()


class NotItself(Base):
    """A query does not see its own row, the first token apart."""

    def visible(self, T, n):
        seen = torch.arange(n) < torch.arange(n - T, n)[:, None]
        seen[:, 0] = True
        return seen


class OnlyTheChunk(Base):
    """What was held is not seen."""

    def visible(self, T, n):
        return super().visible(T, n) & (torch.arange(n) >= n - T)


class StridedGroups(Base):
    """Query head h reads KV head h % Hkv."""

    def group(self, q, g):
        return q[g :: self.num_kv_heads]

    def out(self, outs):
        return torch.stack(outs, 1).flatten(0, 1)


class GroupOrder(Base):
    """Right heads, in the wrong order."""

    def out(self, outs):
        return torch.stack(outs, 1).flatten(0, 1)


class ValuesAreKeys(Base):
    def join(self, g, k, v):
        super().join(g, k, k)


class MeanOfGroup(Base):
    """One output for a KV head, spread over its group."""

    def attended(self, weights, g):
        return super().attended(weights, g).mean(0, keepdim=True).expand(len(weights), -1, -1)


# What is counted.


class LastStepOnly(Base):
    def count(self, weights, g):
        self.totals[g] = weights.sum((0, 1))


class LastQueryOnly(Base):
    def count(self, weights, g):
        self.totals[g] = self.totals[g] + weights[:, -1].sum(0)


class FirstHeadOnly(Base):
    def count(self, weights, g):
        self.totals[g] = self.totals[g] + weights[0].sum(0)


class LargestOfGroup(Base):
    def count(self, weights, g):
        self.totals[g] = self.totals[g] + weights.amax(0).sum(0)


class LargestEver(Base):
    """The largest weight a row ever got, not the sum."""

    def count(self, weights, g):
        self.totals[g] = torch.maximum(self.totals[g], weights.amax((0, 1)))


class SeesTheFuture(Base):
    """The totals come from weights without the mask; the outputs do not."""

    def weights(self, q, g):
        self.all = self.scores(q, g).softmax(-1)
        return super().weights(q, g)

    def count(self, weights, g):
        super().count(self.all, g)


class RawScores(Base):
    """Scores before the softmax are added up."""

    def weights(self, q, g):
        self.raw = self.scores(q, g).masked_fill(~self.visible(q.shape[1], len(self.K[g])), 0.0)
        return super().weights(q, g)

    def count(self, weights, g):
        super().count(self.raw, g)


class NotFromItself(Base):
    """A row's own query is not counted."""

    def count(self, weights, g):
        T, n = weights.shape[1:]
        super().count(weights * (torch.arange(n) != torch.arange(n - T, n)[:, None]), g)


class FreshNotCounted(Base):
    """The new rows' totals are 0 until the next step."""

    def count(self, weights, g):
        T, n = weights.shape[1:]
        super().count(weights * (torch.arange(n) < n - T), g)


class FreshAtMean(Base):
    """New rows start with the mean of the totals of the others."""

    def join(self, g, k, v):
        mean = self.totals[g].mean() if len(self.totals[g]) else torch.tensor(0.0, dtype=torch.float64)
        super().join(g, k, v)
        self.totals[g][-len(k) :] = mean


class MeanPerQuery(Base):
    """Divided by the number of queries that could see the row."""

    def weakest(self, g):
        age = self.now - self.places[g]
        return int((self.totals[g] / age)[: len(self.K[g]) - self.recent].argmin())

    def evict(self, g, T):
        self.now = self.seen + T
        super().evict(g, T)


class MeanPerStep(Base):
    """A chunk's weights are averaged over its queries: a long chunk counts as one token."""

    def count(self, weights, g):
        self.totals[g] = self.totals[g] + weights.sum(0).mean(0)


class Decays(Base):
    def count(self, weights, g):
        self.totals[g] = 0.5 * self.totals[g] + weights.sum((0, 1))


class ResetsOnEviction(Base):
    def drop(self, g, i):
        super().drop(g, i)
        self.totals[g] = torch.zeros_like(self.totals[g])


class SumOfAllHeads(Base):
    """One set for all KV heads, by the sum of their totals."""

    def step(self, q, k, v):
        outs = []
        for g in range(self.num_kv_heads):
            self.join(g, k[g], v[g])
            weights = self.weights(self.group(q, g), g)
            outs.append(self.attended(weights, g))
            self.count(weights, g)
        while len(self.K[0]) > self.budget:
            n = len(self.K[0]) - self.recent
            i = int(torch.stack(self.totals).sum(0)[:n].argmin())
            for g in range(self.num_kv_heads):
                self.drop(g, i)
        self.seen += q.shape[1]
        return self.out(outs)


class FirstHeadDecides(Base):
    """KV head 0 decides which row goes, in all heads."""

    def evict(self, g, T):
        if g == 0:
            self.gone = []
        for i in self.gone if g else range(max(0, len(self.K[0]) - self.budget)):
            if g == 0:
                i = self.weakest(0)  # noqa: PLW2901
                self.gone.append(i)
            self.drop(g, i)


class FirstHeadForgets(Base):
    """Only KV head 0 forgets."""

    def evict(self, g, T):
        if g == 0:
            super().evict(g, T)


# Which row goes.


class OldestGoes(Base):
    def weakest(self, g):
        return 0


class SinksStay(Base):
    """The first row never goes."""

    def weakest(self, g):
        n = len(self.K[g]) - self.recent
        return 1 + int(self.totals[g][1:n].argmin()) if n > 1 else 0


class NewestGoes(Base):
    """The newest tokens have no totals yet, and go first."""

    def weakest(self, g):
        return len(self.K[g]) - 1


class StrongestGoes(Base):
    def weakest(self, g):
        return int(self.totals[g][: len(self.K[g]) - self.recent].argmax())


class SmallestValueGoes(Base):
    """The row whose value is shortest."""

    def weakest(self, g):
        return int(self.V[g][: len(self.K[g]) - self.recent].norm(dim=1).argmin())


class NobodyIsSafe(Base):
    def weakest(self, g):
        return int(self.totals[g].argmin())


class OneRecentLess(Base):
    def weakest(self, g):
        return int(self.totals[g][: len(self.K[g]) - max(0, self.recent - 1)].argmin())


class OneRecentMore(Base):
    def weakest(self, g):
        return int(self.totals[g][: max(1, len(self.K[g]) - self.recent - 1)].argmin())


class ChunkIsSafe(Base):
    """All tokens of the chunk are safe, if they are more than `recent`."""

    def evict(self, g, T):
        recent, self.recent = self.recent, min(max(self.recent, T), self.budget)
        super().evict(g, T)
        self.recent = recent


class MinusZero(Base):
    """`[:-recent]`: with recent = 0 that is nothing... and the oldest goes."""

    def weakest(self, g):
        return super().weakest(g) if self.recent else 0


class RecentOnTop(Base):
    """`budget` rows besides the recent ones."""

    def evict(self, g, T):
        while len(self.K[g]) > self.budget + self.recent:
            self.drop(g, self.weakest(g))


class OneTooFew(Base):
    """Room is made for the next token at once: budget - 1 rows are left."""

    def evict(self, g, T):
        while len(self.K[g]) >= max(2, self.budget):
            self.drop(g, self.weakest(g))


class OneTooMany(Base):
    def evict(self, g, T):
        while len(self.K[g]) > self.budget + 1:
            self.drop(g, self.weakest(g))


class OneGoesPerStep(Base):
    def evict(self, g, T):
        if len(self.K[g]) > self.budget:
            self.drop(g, self.weakest(g))


class OnlyInDecode(Base):
    """A chunk of more than one token is a prompt, and nothing goes."""

    def evict(self, g, T):
        if T == 1:
            super().evict(g, T)


class NotTheFirst(Base):
    """The prompt is kept as it is: what is over the budget goes with the next step."""

    def evict(self, g, T):
        if self.seen:
            super().evict(g, T)


class DroppedFirst(Base):
    """Rows go before the chunk is attended to: there must be room for it first."""

    def join(self, g, k, v):
        room = max(self.budget - len(k), 0)
        while len(self.K[g]) > room:
            n = max(1, len(self.K[g]) - max(0, self.recent - len(k)))
            self.drop(g, int(self.totals[g][:n].argmin()))
        super().join(g, k, v)


class PromptCutFirst(Base):
    """A chunk longer than the budget is cut to its last rows before it is attended to."""

    def visible(self, T, n):
        seen = super().visible(T, n)
        return seen & (torch.arange(n) >= n - max(self.budget, 1)) | torch.eye(n, dtype=torch.bool)[n - T :]


class TokenByToken(Base):
    """Rows go after each token of the chunk: the chunk's last queries see less than the whole."""

    def step(self, q, k, v):
        parts = [Base.step(self, q[:, t : t + 1], k[:, t : t + 1], v[:, t : t + 1]) for t in range(q.shape[1])]
        return torch.cat(parts, 1)


# What goes with a row.


class TotalsStay(Base):
    """Rows and positions close up, the totals stay where they were."""

    def drop(self, g, i):
        totals = self.totals[g][:-1]
        super().drop(g, i)
        self.totals[g] = totals


class ValuesStay(Base):
    """Of V the oldest row goes, whichever key went."""

    def drop(self, g, i):
        values = self.V[g][1:]
        super().drop(g, i)
        self.V[g] = values


class PositionsStay(Base):
    """Positions close up from the front, whichever row went."""

    def drop(self, g, i):
        places = self.places[g][1:]
        super().drop(g, i)
        self.places[g] = places


class PositionsRenumbered(Base):
    def positions(self, head):
        return list(range(len(self.places[head])))


class NumberHeld(Base):
    """The next position is the number of rows held."""

    def new_places(self, g, T):
        return torch.arange(len(self.K[g]) - T, len(self.K[g]))


class PositionsFromOne(Base):
    def positions(self, head):
        return [place + 1 for place in super().positions(head)]


class PositionsByTotal(Base):
    def positions(self, head):
        return self.places[head][self.totals[head].argsort(descending=True)].tolist()


class PositionsOfAllHeads(Base):
    """Those that any head holds."""

    def positions(self, head):
        return sorted({place for places in self.places for place in places.tolist()})


class PositionsOfHeadZero(Base):
    def positions(self, head):
        return super().positions(0)


class SortedByTotal(Base):
    """Rows are kept in the order of their totals; the newest are no longer the last."""

    def evict(self, g, T):
        super().evict(g, T)
        if len(self.K[g]) == self.budget:
            order = self.totals[g].argsort(descending=True)
            for rows in (self.K, self.V, self.totals, self.places):
                rows[g] = rows[g][order]

    def positions(self, head):
        return sorted(super().positions(head))


class Zeroed(Base):
    """A row that goes is set to zeros, and still gets weight."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.gone = [set() for _ in range(sizes[0])]

    def evict(self, g, T):
        while len(self.K[g]) - len(self.gone[g]) > self.budget:
            n = len(self.K[g]) - self.recent
            left = [i for i in range(n) if i not in self.gone[g]]
            i = min(left, key=lambda i: float(self.totals[g][i]))
            self.gone[g].add(i)
            self.K[g][i] = self.V[g][i] = 0.0

    def positions(self, head):
        return [place for i, place in enumerate(super().positions(head)) if i not in self.gone[head]]


# Memory.


class Masked(Base):
    """All rows are held; those that went are masked."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.here = [torch.zeros(0, dtype=torch.bool) for _ in range(sizes[0])]

    def join(self, g, k, v):
        super().join(g, k, v)
        self.here[g] = torch.cat((self.here[g], torch.ones(len(k), dtype=torch.bool)))

    def weights(self, q, g):
        seen = self.visible(q.shape[1], len(self.K[g])) & self.here[g]
        return self.scores(q, g).masked_fill(~seen, -torch.inf).softmax(-1)

    def evict(self, g, T):
        while int(self.here[g].sum()) > self.budget:
            n = len(self.K[g]) - self.recent
            totals = self.totals[g][:n].masked_fill(~self.here[g][:n], torch.inf)
            self.here[g][int(totals.argmin())] = False

    def positions(self, head):
        return self.places[head][self.here[head]].tolist()


class PlainWindowIsAView(Base):
    """Where all that is kept is safe, the last rows are a slice."""

    def evict(self, g, T):
        if self.recent < self.budget:
            return super().evict(g, T)
        for rows in (self.K, self.V, self.totals, self.places):
            rows[g] = rows[g][-self.budget :]


class KeepsWeights(Base):
    """All weights ever are kept, to be added up anew."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.history = []

    def count(self, weights, g):
        super().count(weights, g)
        self.history.append(weights)


class KeepsReferences(Base):
    """A first chunk that fits is kept as it came: views of the caller's tensors."""

    def join(self, g, k, v):
        first = not len(self.K[g])
        super().join(g, k, v)
        if first:
            self.K[g], self.V[g] = k, v


class SharedTotals(Base):
    """The lists belong to the class."""

    kept: dict = {}  # noqa: RUF012 - this is the mistake

    def __init__(self, *sizes):
        super().__init__(*sizes)
        for name in ("K", "V", "totals", "places"):
            setattr(self, name, self.kept.setdefault((name, *sizes), getattr(self, name)))


MISTAKES = (
    Mistake("no-scale", NoScale, "The scores are not divided by sqrt(D).", "nothing goes"),
    Mistake("scale-of-the-width", ScaleOfTheWidth, "The scores are divided by sqrt(Hkv * D). Each head has its own D.", "nothing goes"),
    Mistake("no-mask", NoMask, "A query of a chunk sees the tokens that come after it.", "chunks"),
    Mistake("top-left", TopLeft, "The mask is drawn from the top left: with rows held, the first new token sees only row 0. It sees all that is held.", "nothing goes"),
    Mistake("not-itself", NotItself, "A query does not see its own row.", "nothing goes"),
    Mistake("only-the-chunk", OnlyTheChunk, "A query sees the tokens of its own chunk only, and nothing that is held.", "nothing goes"),
    Mistake("strided-groups", StridedGroups, "Query head h reads KV head h % Hkv. Neighbours share one: h // G.", "nothing goes"),
    Mistake("group-order", GroupOrder, "The outputs come back in another order of heads: those of one KV head stand together.", "nothing goes"),
    Mistake("values-are-keys", ValuesAreKeys, "V holds the keys: v is never used.", "nothing goes"),
    Mistake("mean-of-group", MeanOfGroup, "All heads of a group return the same mean. Each query head has its own output.", "nothing goes"),
    Mistake("last-step-only", LastStepOnly, "Only the newest step's weights count. Totals add up all steps.", "one by one"),
    Mistake("last-query-only", LastQueryOnly, "Of a chunk only the last query's weights count. All of its queries do.", "chunks"),
    Mistake("first-head-only", FirstHeadOnly, "Only the first query head of each group counts. All of the group's do.", "one by one"),
    Mistake("largest-of-group", LargestOfGroup, "Of a group only the largest weight counts. Add up those of all its heads.", "one by one"),
    Mistake("largest-ever", LargestEver, "The largest weight that a row ever got decides. It is the sum of all.", "one by one"),
    Mistake("sees-the-future", SeesTheFuture, "The totals come from weights without the mask: queries before a row cannot look at it.", "chunks"),
    Mistake("raw-scores", RawScores, "Scores are added up, before the softmax. Add up the weights.", "one by one"),
    Mistake("not-from-itself", NotFromItself, "A row's own query is not counted. All queries that see a row count, its own too.", "one by one"),
    Mistake("fresh-not-counted", FreshNotCounted, "The queries of a chunk are not counted for the chunk's own rows. A row's total starts with its own query.", "one by one"),
    Mistake("fresh-at-the-mean", FreshAtMean, "New rows start at the mean of the others. They start at 0.", "one by one"),
    Mistake("mean-per-query", MeanPerQuery, "Totals are divided by the number of queries since. They are plain sums here.", "one by one"),
    Mistake("mean-per-step", MeanPerStep, "A chunk's weights are averaged over its queries. Add up those of all queries.", "chunks"),
    Mistake("decays", Decays, "Old weights count less and less. Totals are plain sums here.", "one by one"),
    Mistake("reset-on-eviction", ResetsOnEviction, "When a row goes, the totals of the others start at 0 again. They go on.", "one by one"),
    Mistake("one-set-for-all-heads", SumOfAllHeads, "All KV heads keep the same rows, by the sum of their totals. Each head decides for itself.", "one by one"),
    Mistake("head-0-decides", FirstHeadDecides, "KV head 0 decides which row goes in all heads. Each decides for itself.", "one by one"),
    Mistake("only-head-0-forgets", FirstHeadForgets, "Only KV head 0 forgets.", "one by one"),
    Mistake("oldest-goes", OldestGoes, "The oldest row goes, whatever its total: a plain window.", "one by one"),
    Mistake("row-0-stays", SinksStay, "The first row never goes. Only the newest are safe; the first goes by its total.", "one by one"),
    Mistake("newest-goes", NewestGoes, "The newest row goes: what was there first stays for ever.", "one by one", "heavy hitters whose new row has score 0"),
    Mistake("strongest-goes", StrongestGoes, "The row with the largest total goes. The smallest has to.", "one by one"),
    Mistake("smallest-value-goes", SmallestValueGoes, "The row with the shortest value goes. The totals of the weights decide.", "one by one"),
    Mistake("nobody-is-safe", NobodyIsSafe, "The newest tokens can go too. The `recent` newest never do: they had no time to be looked at.", "one by one"),
    Mistake("one-recent-less", OneRecentLess, "One token too few is safe: `recent` of them never go, the newest counts.", "one by one"),
    Mistake("one-recent-more", OneRecentMore, "One token too many is safe: `recent` of them never go, the newest counts.", "one by one"),
    Mistake("chunk-is-safe", ChunkIsSafe, "All tokens of the chunk are safe. Only the `recent` newest are.", "chunks"),
    Mistake("recent-of-zero", MinusZero, "With recent = 0 the oldest row goes: `[:-0]` is empty. Then all rows go by their totals.", "other sizes"),
    Mistake("recent-on-top", RecentOnTop, "`budget` rows stay besides the recent ones. The recent ones are part of the budget.", "one by one"),
    Mistake("one-row-too-few", OneTooFew, "budget - 1 rows are left. Rows go only while there are more than `budget`.", "nothing goes"),
    Mistake("one-row-too-many", OneTooMany, "budget + 1 rows are left.", "one by one"),
    Mistake("one-goes-per-step", OneGoesPerStep, "One row goes in each step, however many came. Go on until `budget` are left.", "chunks"),
    Mistake("only-in-decode", OnlyInDecode, "After a chunk of several tokens nothing goes. The budget holds after every step.", "chunks"),
    Mistake("not-after-the-prompt", NotTheFirst, "After the first step nothing goes, however long it was. The budget holds after every step.", "long prompts"),
    Mistake("goes-before-attention", DroppedFirst, "Rows go before the new tokens are attended to. First attend over all, then forget.", "one by one"),
    Mistake("prompt-cut-first", PromptCutFirst, "A query sees the last `budget` rows only. A chunk is attended to in full before anything goes.", "one by one"),
    Mistake("token-by-token", TokenByToken, "Rows go after each token of a chunk, so its later queries miss some. Attend over the whole chunk, then forget.", "chunks"),
    Mistake("totals-stay", TotalsStay, "The totals are not moved with the rows: from the first row that goes, they belong to others.", "one by one"),
    Mistake("values-stay", ValuesStay, "Of V the oldest row goes, whichever key went. Drop the same row of both.", "one by one"),
    Mistake("positions-stay", PositionsStay, "The first position goes, whichever row went. Positions travel with their rows.", "one by one"),
    Mistake("positions-renumbered", PositionsRenumbered, "Positions are numbered 0 to n - 1. Return the places in the whole text.", "one by one"),
    Mistake("number-held-as-position", NumberHeld, "New tokens get the number of rows held as position. Count all tokens that came.", "one by one"),
    Mistake("positions-from-one", PositionsFromOne, "Positions start at 1. The first token is at 0.", "nothing goes"),
    Mistake("positions-by-total", PositionsByTotal, "Positions come in the order of the totals. They are asked for in increasing order.", "nothing goes"),
    Mistake("positions-of-all-heads", PositionsOfAllHeads, "positions(head) returns what any head holds. Return those of this head.", "one by one"),
    Mistake("positions-of-head-0", PositionsOfHeadZero, "positions(head) returns those of head 0, whatever is asked.", "one by one"),
    Mistake("sorted-by-total", SortedByTotal, "Rows are kept in the order of their totals, and the last ones are taken for the newest. They no longer are.", "one by one"),
    Mistake("zeroed", Zeroed, "A row that goes is set to zeros. A key of zeros still gets weight: take the row out.", "one by one"),
    Mistake("all-held-and-masked", Masked, "Rows that went are masked, and still held. Let go of them: that is what the budget is for.", "memory"),
    Mistake("plain-window-is-a-view", PlainWindowIsAView, "Where all rows kept are recent, they are a slice, which keeps all of the tensor alive. `.clone()` it.", "memory"),
    Mistake("keeps-all-weights", KeepsWeights, "All weights of all steps are kept. One total for each row is enough.", "memory"),
    Mistake("keeps-references", KeepsReferences, "The first rows are kept as they came. The caller reuses its tensors: copy them.", "reused tensors"),
    Mistake("shared-state", SharedTotals, "What one cache held is still there in the next: its lists belong to the class. Make them in __init__.", "one by one", leaks=True),
)  # fmt: skip


# Right ones.


class Batched:
    """One tensor for all heads; topk and gather."""

    def __init__(self, num_kv_heads, head_dim, budget, recent):
        self.Hkv, self.budget, self.recent, self.count = num_kv_heads, budget, recent, 0
        self.rows = torch.zeros(2, num_kv_heads, 0, head_dim, dtype=torch.float64)
        self.meta = torch.zeros(2, num_kv_heads, 0, dtype=torch.float64)  # totals and positions

    def positions(self, head):
        return self.meta[1, head].long().tolist()

    def step(self, q, k, v):
        H, T, D = q.shape
        rows = torch.cat((self.rows, torch.stack((k, v))), 2)
        n = rows.shape[2]
        K, V = (part.repeat_interleave(H // self.Hkv, 0) for part in rows)
        seen = torch.ones(T, n, dtype=torch.bool).tril(n - T)
        weights = torch.softmax((q @ K.mT / D**0.5).masked_fill(~seen, -1e300), -1)
        fresh = torch.stack((torch.zeros(T), torch.arange(self.count, self.count + T)))[:, None].expand(2, self.Hkv, T)
        meta = torch.cat((self.meta, fresh.double()), 2)
        meta[0] += weights.sum(1).unflatten(0, (self.Hkv, -1)).sum(1)
        self.count += T
        if n > self.budget:
            order = torch.where(meta[1] >= self.count - self.recent, torch.inf, meta[0]).argsort(1)
            stay = order[:, n - self.budget :].sort(1).values
            rows = torch.stack([part[torch.arange(self.Hkv)[:, None], stay] for part in rows])
            meta = torch.stack([part.gather(1, stay) for part in meta])
        self.rows, self.meta = rows, meta
        return weights @ V


class Dicts:
    """A dict from positions to [k, v, total] for each head, in NumPy, in any order."""

    def __init__(self, num_kv_heads, head_dim, budget, recent):
        self.budget, self.recent, self.end = budget, recent, 0
        self.heads = [{} for _ in range(num_kv_heads)]

    def positions(self, head):
        return sorted(self.heads[head])

    def step(self, q, k, v):
        q, k, v = q.numpy(), k.numpy(), v.numpy()
        H, T, D = q.shape
        out = np.zeros((H, T, D))
        for g, held in enumerate(self.heads):
            for t in reversed(range(T)):
                held[self.end + t] = [k[g, t].copy(), v[g, t].copy(), 0.0]
            G = H // len(self.heads)
            for h in range(g * G, (g + 1) * G):
                for t in range(T):
                    seen = [p for p in held if p <= self.end + t]
                    scores = np.array([q[h, t] @ held[p][0] for p in seen]) / np.sqrt(D)
                    shares = np.exp(scores - scores.max())
                    shares /= shares.sum()
                    for p, share in zip(seen, shares):
                        out[h, t] += share * held[p][1]
                        held[p][2] += share
            old = sorted((p for p in held if p < self.end + T - self.recent), key=lambda p: held[p][2])
            for p in old[: max(0, len(held) - self.budget)]:
                del held[p]
        self.end += T
        return torch.from_numpy(out)


class SingleFloats(Base):
    """Rows and totals in float32, attention by SDPA for the outputs."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.K, self.V = ([rows.float() for rows in part] for part in (self.K, self.V))

    def join(self, g, k, v):
        super().join(g, k.float(), v.float())

    def group(self, q, g):
        return super().group(q, g).float()

    def fresh(self, T):
        return torch.zeros(T)

    def attended(self, weights, g):
        return torch.einsum("gtn,nd->gtd", weights, self.V[g])


class SwapsIn(Base):
    """The slot of a row that goes is given to the last row: rows stand in any order."""

    def weakest(self, g):
        old = (self.places[g] < self.last + 1 - self.recent).nonzero()[:, 0]
        return int(old[self.totals[g][old].argmin()])

    def evict(self, g, T):
        self.last = self.seen + T - 1
        super().evict(g, T)

    def visible(self, T, n):
        return None

    def weights(self, q, g):
        T = q.shape[1]
        seen = self.places[g] <= torch.arange(self.seen, self.seen + T)[:, None]
        return torch.where(seen, self.scores(q, g), -torch.inf).softmax(-1)

    def drop(self, g, i):
        for rows in (self.K, self.V, self.totals, self.places):
            part = rows[g].clone()
            part[i] = part[-1]
            rows[g] = part[:-1].clone()

    def positions(self, head):
        return torch.tensor(sorted(self.places[head].tolist()), dtype=torch.int64)


class MeanOverGroup(Base):
    """The mean over the heads of a group: the same order as their sum."""

    def count(self, weights, g):
        self.totals[g] = self.totals[g] + weights.mean(0).sum(0)


class FromOne(Base):
    """Totals that start at 1: all of them do, so the order is the same."""

    def fresh(self, T):
        return torch.ones(T, dtype=torch.float64)


VARIANTS = (
    Variant("a list of rows for each head", Base),
    Variant("one tensor for all heads", Batched),
    Variant("dicts in NumPy", Dicts),
    Variant("float32 and einsum", SingleFloats),
    Variant("rows in any order", SwapsIn),
    Variant("the mean over a group", MeanOverGroup),
    Variant("totals that start at 1", FromOne),
)
