"""Wrong and right ways to draw a request's tokens. Each mistake is `Right` with one part changed."""

from __future__ import annotations

import bisect
import heapq
import itertools
import math

import numpy as np

from autograde.exercise import Mistake, Variant

BEST, LUCK, TOP, NOBODY, LARGE = "the best", "by luck", "of the best", "nobody else", "large"


class Right:
    def __init__(self, uniform, seed, temperature, top_k):
        self.uniform, self.seed, self.temperature, self.top_k = uniform, seed, temperature, top_k
        self.drawn = 0

    def order(self, logits):
        return sorted(range(len(logits)), key=lambda token: (-logits[token], token))

    def best(self, logits):
        return self.order(logits)[0]

    def kept(self, logits):
        order = self.order(logits)
        return sorted(order[: self.top_k] if self.top_k else order)

    def scaled(self, logit):
        return logit / self.temperature

    def weights(self, logits, kept):
        scaled = [self.scaled(logits[token]) for token in kept]
        return [math.exp(value - max(scaled)) for value in scaled]

    def number(self):
        self.drawn += 1
        return self.uniform(self.seed, self.drawn - 1)

    def pick(self, kept, weights, u):
        total = 0.0
        for token, weight in zip(kept, weights):
            total += weight / sum(weights)
            if total > u:
                return token
        return kept[-1]

    def draw(self, logits):
        if self.temperature == 0:
            return self.best(logits)
        kept = self.kept(logits)
        return self.pick(kept, self.weights(logits, kept), self.number())


# The best.


class LastBest(Right):
    def best(self, logits):
        return max(range(len(logits)), key=lambda token: (logits[token], token))


class Worst(Right):
    def best(self, logits):
        return self.order(logits)[-1]


class LogitOfTheBest(Right):
    def best(self, logits):
        return max(logits)


class LargestSize(Right):
    """By |logit|."""

    def best(self, logits):
        return max(range(len(logits)), key=lambda token: abs(logits[token]))


class LuckAtZero(Right):
    """Temperature 0 is taken for a very small one."""

    def draw(self, logits):
        if self.temperature == 0:
            self.number()
        return super().draw(logits)


class ZeroIsOne(Right):
    """`temperature or 1`."""

    def __init__(self, uniform, seed, temperature, top_k):
        super().__init__(uniform, seed, temperature or 1.0, top_k)


class DividesByZero(Right):
    def draw(self, logits):
        kept = self.kept(logits)
        return self.pick(kept, self.weights(logits, kept), self.number())


# By luck.


class AlwaysTheBest(Right):
    def draw(self, logits):
        if self.temperature:
            self.number()
        return self.best(logits)


class TimesTemperature(Right):
    def scaled(self, logit):
        return logit * self.temperature


class NoTemperature(Right):
    def scaled(self, logit):
        return logit


class SquareTemperature(Right):
    def scaled(self, logit):
        return logit / math.sqrt(self.temperature)


class PowersOfTwo(Right):
    def weights(self, logits, kept):
        return [2 ** (math.log2(math.e) ** 2 * math.log(w)) for w in super().weights(logits, kept)]


class NoExp(Right):
    """The logits themselves, moved above zero."""

    def weights(self, logits, kept):
        scaled = [self.scaled(logits[token]) for token in kept]
        return [value - min(scaled) for value in scaled]


class ByProbability(Right):
    """The likeliest token comes first."""

    def kept(self, logits):
        order = self.order(logits)
        return order[: self.top_k] if self.top_k else order


class FromTheEnd(Right):
    def pick(self, kept, weights, u):
        return super().pick(kept[::-1], weights[::-1], u)


class OneBefore(Right):
    """The last token at which the sum does not exceed the number."""

    def pick(self, kept, weights, u):
        return kept[max(kept.index(super().pick(kept, weights, u)) - 1, 0)]


class NotCumulated(Right):
    """The first token whose own probability exceeds the number."""

    def pick(self, kept, weights, u):
        return next((token for token, weight in zip(kept, weights) if weight / sum(weights) > u), kept[-1])


class NotNormalised(Right):
    """The weights do not add up to 1."""

    def pick(self, kept, weights, u):
        total = 0.0
        for token, weight in zip(kept, weights):
            total += weight
            if total > u:
                return token
        return kept[-1]


class FromOne(Right):
    def number(self):
        self.drawn += 1
        return self.uniform(self.seed, self.drawn)


class AlwaysTheFirst(Right):
    def number(self):
        return self.uniform(self.seed, 0)


class SeedPlusCount(Right):
    def number(self):
        self.drawn += 1
        return self.uniform(self.seed + self.drawn - 1, 0)


class Swapped(Right):
    def number(self):
        self.drawn += 1
        return self.uniform(self.drawn - 1, self.seed)


class TwoForEach(Right):
    """One number is thrown away at each draw."""

    def number(self):
        self.drawn += 2
        return self.uniform(self.seed, self.drawn - 2)


class OneForEachToken(Right):
    """A number for each token: the largest of logit and noise wins."""

    def draw(self, logits):
        if self.temperature == 0:
            return self.best(logits)
        kept = self.kept(logits)
        noise = [-math.log(-math.log(min(max(self.number(), 1e-12), 1 - 1e-12))) for _ in kept]
        return max(zip(kept, noise), key=lambda pair: self.scaled(logits[pair[0]]) + pair[1])[0]


class NumberOfTheVocabulary(Right):
    """The token at that share of the vocabulary, whatever its logit."""

    def pick(self, kept, weights, u):
        return kept[int(u * len(kept))]


# Of the best.


class NoTop(Right):
    def kept(self, logits):
        return sorted(self.order(logits))


class OneMoreKept(Right):
    def kept(self, logits):
        return sorted(self.order(logits)[: self.top_k + 1 if self.top_k else None])


class OneFewerKept(Right):
    def kept(self, logits):
        return sorted(self.order(logits)[: max(self.top_k - 1, 1) if self.top_k else None])


class LastOfTies(Right):
    """Of logits that are alike the higher number is kept."""

    def kept(self, logits):
        order = sorted(range(len(logits)), key=lambda token: (-logits[token], -token))
        return sorted(order[: self.top_k] if self.top_k else order)


class AllTies(Right):
    """All that are as good as the top_k-th."""

    def kept(self, logits):
        if not self.top_k:
            return sorted(self.order(logits))
        least = sorted(logits)[-min(self.top_k, len(logits))]
        return [token for token, logit in enumerate(logits) if logit >= least]


class AboveOnly(Right):
    """Those that are better than the next one after the top_k."""

    def kept(self, logits):
        if not self.top_k or self.top_k >= len(logits):
            return sorted(self.order(logits))
        next_one = sorted(logits)[-self.top_k - 1]
        return [token for token, logit in enumerate(logits) if logit > next_one] or [self.best(logits)]


class WorstKept(Right):
    def kept(self, logits):
        order = self.order(logits)[::-1]
        return sorted(order[: self.top_k] if self.top_k else order)


class SharesOfAll(Right):
    """Probabilities of the whole vocabulary, and what falls outside goes to the last of the best."""

    def pick(self, kept, weights, u):
        total = 0.0
        for token, weight in zip(kept, weights):
            total += weight / self.whole
            if total > u:
                return token
        return kept[-1]

    def weights(self, logits, kept):
        scaled = [self.scaled(logit) for logit in logits]
        self.whole = sum(math.exp(value - max(scaled)) for value in scaled)
        return super().weights(logits, kept)


class OthersAreZero(Right):
    """The logits of the others are set to 0, which is not nothing."""

    def weights(self, logits, kept):
        return super().weights(logits, kept)

    def draw(self, logits):
        if self.temperature and self.top_k:
            kept = self.kept(logits)
            logits = [logit if token in kept else 0.0 for token, logit in enumerate(logits)]
            tokens = list(range(len(logits)))
            return self.pick(tokens, self.weights(logits, tokens), self.number())
        return super().draw(logits)


class PlaceAmongTheBest(Right):
    """The place among those that were kept, not the token's number."""

    def pick(self, kept, weights, u):
        return kept.index(super().pick(kept, weights, u))


class TopInOrder(Right):
    """With top_k, the likeliest comes first."""

    def kept(self, logits):
        return self.order(logits)[: self.top_k] if self.top_k else sorted(self.order(logits))


class FirstTokens(Right):
    """The first top_k token numbers."""

    def kept(self, logits):
        return list(range(len(logits)))[: self.top_k or None]


class LargeTopRaises(Right):
    def kept(self, logits):
        if self.top_k > len(logits):
            raise ValueError("top_k is larger than the vocabulary")
        return super().kept(logits)


# Nobody else.


class OneCountForAll(Right):
    """A count on the class."""

    counts = []

    def number(self):
        self.counts.append(0)
        return self.uniform(self.seed, len(self.counts) - 1)


class OneCountForASeed(Right):
    """Two requests with the same seed share a count."""

    seeds = {}

    def number(self):
        n = self.seeds.get(self.seed, 0)
        self.seeds[self.seed] = n + 1
        return self.uniform(self.seed, n)


class SeedsOfTheFirst(Right):
    """The first seed is everybody's."""

    first = []

    def number(self):
        self.first.append(self.seed)
        self.drawn += 1
        return self.uniform(self.first[0], self.drawn - 1)


# Large.


class Overflows(Right):
    def weights(self, logits, kept):
        return [math.exp(self.scaled(logits[token])) for token in kept]


class BecomesNaN(Right):
    """exp of a large number is infinite, and a part of it is no number: the last token is drawn."""

    def weights(self, logits, kept):
        with np.errstate(all="ignore"):
            weights = np.exp([self.scaled(logits[token]) for token in kept])
            return list(weights / weights.sum())

    def pick(self, kept, weights, u):
        return next((token for token, end in zip(kept, itertools.accumulate(weights)) if end > u), kept[-1])


class Clamped(Right):
    """Logits are cut off at 50."""

    def scaled(self, logit):
        return min(max(logit / self.temperature, -50.0), 50.0)


class MeanTakenOff(Right):
    def weights(self, logits, kept):
        scaled = [self.scaled(logits[token]) for token in kept]
        return [math.exp(value - sum(scaled) / len(scaled)) for value in scaled]


class ColdIsZero(Right):
    """A temperature below 0.01 is taken for 0."""

    def draw(self, logits):
        return self.best(logits) if self.temperature < 0.01 else super().draw(logits)


def a_mistake(name, candidate, killed_by, tells, leaks=False):
    return Mistake(name, candidate, tells, killed_by=killed_by, leaks=leaks)


MISTAKES = (
    a_mistake("last-of-ties", LastBest, BEST, "Of the best tokens that tie you take the last. The lowest number wins."),
    a_mistake("worst", Worst, BEST, "At temperature 0 you take the worst token."),
    a_mistake("logit-not-token", LogitOfTheBest, BEST, "You return the best logit. Wanted is its token's number."),
    a_mistake("by-size", LargestSize, BEST, "You compare sizes without their signs. A logit of -9 is a bad one."),
    a_mistake(
        "luck-at-zero", LuckAtZero, BEST, "At temperature 0 you ask for a random number. There is nothing to draw."
    ),
    a_mistake(
        "zero-is-one", ZeroIsOne, BEST, "You take temperature 0 for 1, as `temperature or 1` does. 0 is the best token."
    ),
    a_mistake(
        "divides-by-zero",
        DividesByZero,
        BEST,
        "You divide by temperature 0. Look for it first: it means the best token.",
    ),
    a_mistake(
        "always-the-best",
        AlwaysTheBest,
        LUCK,
        "You return the best token at any temperature. Above 0 a number decides.",
    ),
    a_mistake(
        "times-temperature", TimesTemperature, LUCK, "You multiply by the temperature. Logits are divided by it."
    ),
    a_mistake(
        "no-temperature", NoTemperature, LUCK, "You leave the temperature out. Logits are divided by it before softmax."
    ),
    a_mistake(
        "root-of-temperature", SquareTemperature, LUCK, "You divide by the root of the temperature, not by itself."
    ),
    a_mistake("another-base", PowersOfTwo, LUCK, "Your weights are powers of another number than e."),
    a_mistake("no-exp", NoExp, LUCK, "You take the logits for weights. Weights are their exponentials."),
    a_mistake(
        "likeliest-first",
        ByProbability,
        LUCK,
        "You add up from the likeliest token. Add up in the order of token numbers.",
    ),
    a_mistake("from-the-end", FromTheEnd, LUCK, "You add up from the last token. Add up from token 0 on."),
    a_mistake(
        "one-before", OneBefore, LUCK, "You return the token before the one at which the sum exceeds the number."
    ),
    a_mistake(
        "not-cumulated", NotCumulated, LUCK, "You compare each probability for itself. Compare the sum of all so far."
    ),
    a_mistake(
        "not-normalised",
        NotNormalised,
        LUCK,
        "Your weights do not add up to 1. Divide by their sum, or multiply the number.",
    ),
    a_mistake("from-one", FromOne, LUCK, "Your first draw uses number 1. Numbers start at 0."),
    a_mistake(
        "always-the-first", AlwaysTheFirst, LUCK, "All draws use number 0. Count the draws: each uses the next number."
    ),
    a_mistake(
        "seed-moves", SeedPlusCount, LUCK, "You count the seed up. The seed stays, and n counts: uniform(seed, n)."
    ),
    a_mistake("swapped", Swapped, LUCK, "You call uniform(n, seed). It is uniform(seed, n)."),
    a_mistake("two-for-each", TwoForEach, LUCK, "Each draw moves the count by two. It uses one number."),
    a_mistake(
        "one-for-each-token",
        OneForEachToken,
        LUCK,
        "You use a random number for each token. One number decides each draw.",
    ),
    a_mistake(
        "place-in-the-list",
        NumberOfTheVocabulary,
        LUCK,
        "Your number picks a place, as if all tokens were equally likely.",
    ),
    a_mistake("no-top-k", NoTop, TOP, "You leave top_k out: any token may be drawn."),
    a_mistake("one-more-kept", OneMoreKept, TOP, "You keep top_k + 1 tokens."),
    a_mistake("one-fewer-kept", OneFewerKept, TOP, "You keep top_k - 1 tokens."),
    a_mistake(
        "last-tie-kept",
        LastOfTies,
        TOP,
        "Of tokens that tie for the last place you keep the higher number. The lower one stays.",
    ),
    a_mistake(
        "all-ties-kept", AllTies, TOP, "You keep all that tie with the last of the best: that may be more than top_k."
    ),
    a_mistake(
        "no-ties-kept",
        AboveOnly,
        TOP,
        "You drop all that tie with the first one left out: that may leave fewer than top_k.",
    ),
    a_mistake("worst-kept", WorstKept, TOP, "You keep the worst top_k tokens."),
    a_mistake(
        "shares-of-all",
        SharesOfAll,
        TOP,
        "Your probabilities are those of the whole vocabulary. Those of the kept tokens add up to 1.",
    ),
    a_mistake(
        "others-are-zero",
        OthersAreZero,
        TOP,
        "You set the logits of the others to 0: exp(0) is 1. Leave them out, or set -inf.",
    ),
    a_mistake(
        "place-among-the-best",
        PlaceAmongTheBest,
        TOP,
        "You return a place among the kept tokens. Wanted is the token's number.",
    ),
    a_mistake(
        "top-in-order",
        TopInOrder,
        TOP,
        "With top_k you add up from the likeliest. Add up in the order of token numbers.",
    ),
    a_mistake("first-numbers", FirstTokens, TOP, "You keep the first top_k token numbers. Keep the best."),
    a_mistake(
        "large-top-k-raises",
        LargeTopRaises,
        TOP,
        "You refuse a top_k above the size of the vocabulary. It keeps all tokens.",
    ),
    a_mistake(
        "one-count-for-all",
        OneCountForAll,
        LUCK,
        "All your streams share one count. Each request counts its own draws.",
        True,
    ),
    a_mistake(
        "overflows",
        Overflows,
        LARGE,
        "exp of a large logit has no number. Take the largest off first: the shares stay.",
    ),
    a_mistake(
        "becomes-nan",
        BecomesNaN,
        LARGE,
        "exp of a large logit is infinite, and your shares are NaN. Take the largest off first.",
    ),
    a_mistake(
        "cut-off",
        Clamped,
        LARGE,
        "You cut logits off at some size. All beyond it look alike. Take the largest off instead.",
    ),
    a_mistake(
        "mean-taken-off",
        MeanTakenOff,
        LARGE,
        "You take the mean off, and exp can still be too large. Take the largest off.",
    ),
    a_mistake(
        "cold-is-zero", ColdIsZero, LARGE, "You take a small temperature for 0. Only 0 itself means the best token."
    ),
)


class WithNumPy:
    def __init__(self, uniform, seed, temperature, top_k):
        self.next = (uniform(seed, n) for n in itertools.count())
        self.temperature, self.top_k = temperature, top_k

    def draw(self, logits):
        logits = np.array(logits)
        if self.temperature == 0:
            return int(np.argmax(logits))
        kept = np.argsort(-logits, kind="stable")[: self.top_k or len(logits)]
        p = np.zeros(len(logits))
        p[kept] = np.exp((logits[kept] - logits.max()) / self.temperature)
        return int(np.searchsorted(np.cumsum(p / p.sum()), next(self.next), side="right"))


class Masked:
    """Minus infinity for those that may not be drawn, and float32."""

    def __init__(self, uniform, seed, temperature, top_k):
        self.state = [seed, 0]
        self.asked, self.temperature, self.top_k = uniform, temperature, top_k

    def draw(self, logits):
        x = np.array(logits, dtype=np.float64)
        if not self.temperature:
            return int(x.argmax())
        if 0 < self.top_k < len(x):
            order = sorted(range(len(x)), key=lambda token: (x[token], -token))
            x[order[: -self.top_k]] = -np.inf
        p = np.exp(((x - x.max()) / self.temperature).astype(np.float32))
        u = self.asked(*self.state)
        self.state[1] += 1
        return int(np.flatnonzero(np.cumsum(p) > u * p.sum())[0])


def closure(uniform, seed, temperature, top_k):
    """An object made by a function."""
    numbers = iter(range(10**9))

    class Drawer:
        def draw(self, logits):
            pairs = heapq.nsmallest(top_k or len(logits), ((-logit, i) for i, logit in enumerate(logits)))
            if temperature == 0:
                return pairs[0][1]
            top = -pairs[0][0]
            tokens = sorted(i for _, i in pairs)
            ends = list(itertools.accumulate(math.exp((logits[i] - top) / temperature) for i in tokens))
            return tokens[bisect.bisect_right(ends, uniform(seed, next(numbers)) * ends[-1])]

    return Drawer()


class LogSums:
    """Everything as logarithms."""

    def __init__(self, uniform, seed, temperature, top_k):
        self.args, self.used = (uniform, seed, temperature, top_k), []

    def draw(self, logits):
        uniform, seed, temperature, top_k = self.args
        order = sorted(enumerate(logits), key=lambda pair: -pair[1])
        if temperature == 0:
            return order[0][0]
        kept = dict(order[:top_k] if top_k else order)
        best = order[0][1] / temperature
        norm = best + math.log(sum(math.exp(value / temperature - best) for value in kept.values()))
        self.used.append(uniform(seed, len(self.used)))
        total = 0.0
        for token in sorted(kept):
            total += math.exp(kept[token] / temperature - norm)
            if total > self.used[-1]:
                break
        return token


VARIANTS = (
    Variant("with NumPy and a generator", WithNumPy),
    Variant("masked, in float32", Masked),
    Variant("a heap, sums and bisection", closure),
    Variant("logarithms", LogSums),
    Variant("small parts", Right),
)
