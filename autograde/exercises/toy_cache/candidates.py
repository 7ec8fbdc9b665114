"""Wrong and right ways to write the toy cache. Each mistake changes one thing in `Base`."""

from __future__ import annotations

import numpy as np

from autograde.exercise import Mistake, Variant


def _attend(q, keys, values, scale=True):
    K, V = np.array(keys), np.array(values)
    scores = K @ q / (np.sqrt(len(q)) if scale else 1.0)
    weights = np.exp(scores - scores.max())
    return weights @ V / weights.sum()


class Base:
    def __init__(self, project_q, project_k, project_v):
        self.project_q, self.project_k, self.project_v = project_q, project_k, project_v
        self.keys, self.values = [], []

    def __len__(self):
        return len(self.keys)

    def step(self, x):
        self.keep(x)
        return self.look(x)

    def keep(self, x):
        self.keys.append(self.project_k(x))
        self.values.append(self.project_v(x))

    def look(self, x):
        return _attend(self.project_q(x), self.keys, self.values)


class RecomputesEverything(Base):
    def __init__(self, *projections):
        super().__init__(*projections)
        self.tokens = []

    def __len__(self):
        return len(self.tokens)

    def step(self, x):
        self.tokens.append(x)
        keys = [self.project_k(token) for token in self.tokens]
        values = [self.project_v(token) for token in self.tokens]
        return _attend(self.project_q(x), keys, values)


class RecomputesValues(RecomputesEverything):
    def step(self, x):
        self.tokens.append(x)
        self.keys.append(self.project_k(x))
        return _attend(self.project_q(x), self.keys, [self.project_v(token) for token in self.tokens])


class RecomputesKeys(RecomputesEverything):
    def step(self, x):
        self.tokens.append(x)
        self.values.append(self.project_v(x))
        return _attend(self.project_q(x), [self.project_k(token) for token in self.tokens], self.values)


class RecomputesQueries(RecomputesEverything):
    def step(self, x):
        self.tokens.append(x)
        self.keep(x)
        queries = [self.project_q(token) for token in self.tokens]
        return _attend(queries[-1], self.keys, self.values)


class ProjectsTwice(Base):
    def step(self, x):
        keys, values = [*self.keys, self.project_k(x)], [*self.values, self.project_v(x)]
        output = _attend(self.project_q(x), keys, values)
        self.keep(x)
        return output


class KeepsOnlyTheFirst(Base):
    def keep(self, x):
        if not self.keys:
            super().keep(x)


class KeysAtTheFront(Base):
    def keep(self, x):
        self.keys.insert(0, self.project_k(x))
        self.values.append(self.project_v(x))


class KeepsQueries(Base):
    def keep(self, x):
        self.keys.append(self.project_q(x))
        self.values.append(self.project_v(x))


class KeepsInputs(Base):
    def keep(self, x):
        self.keys.append(x)
        self.values.append(self.project_v(x))


class KeepsInputsAsValues(Base):
    def keep(self, x):
        self.keys.append(self.project_k(x))
        self.values.append(x)


class OneList(Base):
    def __init__(self, *projections):
        super().__init__(*projections)
        self.keys = self.values = []


class SharedLists(Base):
    shared_keys: list = []  # noqa: RUF012 - this is the mistake
    shared_values: list = []  # noqa: RUF012

    def __init__(self, *projections):
        super().__init__(*projections)
        self.keys, self.values = self.shared_keys, self.shared_values


class EmptiesTheShared(SharedLists):
    def __init__(self, *projections):
        super().__init__(*projections)
        self.keys.clear()
        self.values.clear()


class AttendsFirst(Base):
    def step(self, x):
        output = self.look(x) if self.keys else np.zeros(len(self.project_q(x)))
        self.keep(x)
        return output


class AttendsToNothing(AttendsFirst):
    """Without a special case for the first token, NumPy finds that there is no key to meet."""

    def step(self, x):
        output = self.look(x)
        self.keep(x)
        return output


class AttendsToNothingTransposed(AttendsToNothing):
    def look(self, x):
        q, K, V = self.project_q(x), np.array(self.keys), np.array(self.values)
        scores = q @ K.T / np.sqrt(len(q))
        weights = np.exp(scores - scores.max())
        return weights @ V / weights.sum()


class AttendsToNothingInALoop(AttendsToNothing):
    def look(self, x):
        q = self.project_q(x)
        scores = np.array([q @ key for key in self.keys]) / np.sqrt(len(q))
        weights = np.exp(scores - scores.max())
        return weights @ np.array(self.values) / weights.sum()


class ForgetsTheValue(Base):
    def keep(self, x):
        self.keys.append(self.project_k(x))


class KeysAsValues(Base):
    def keep(self, x):
        k = self.project_k(x)
        self.project_v(x)
        self.keys.append(k)
        self.values.append(k)


class ValuesAsKeys(Base):
    def keep(self, x):
        v = self.project_v(x)
        self.project_k(x)
        self.keys.append(v)
        self.values.append(v)


class NewestOnly(Base):
    def look(self, x):
        return _attend(self.project_q(x), self.keys[-1:], self.values[-1:])


class NotTheNewest(Base):
    def look(self, x):
        last = max(1, len(self.keys) - 1)
        return _attend(self.project_q(x), self.keys[:last], self.values[:last])


class Overwrites(Base):
    def keep(self, x):
        super().keep(x)
        self.keys, self.values = self.keys[-2:], self.values[-2:]


class FirstQueryAlways(Base):
    query = None

    def look(self, x):
        if self.query is None:
            self.query = self.project_q(x)
        return _attend(self.query, self.keys, self.values)


class ScaleOfTheToken(Base):
    """sqrt(len(x)) where sqrt(len(q)) is meant: the same as long as width and D are equal."""

    def look(self, x):
        q = self.project_q(x)
        return _attend(q * np.sqrt(len(q) / len(x)), self.keys, self.values)


class EqualTokensOnce(Base):
    """Rows in a dictionary keyed by the token: an equal token overwrites the one before."""

    def __init__(self, *projections):
        super().__init__(*projections)
        self.rows = {}

    def __len__(self):
        return len(self.rows)

    def keep(self, x):
        self.rows[tuple(x)] = self.project_k(x), self.project_v(x)
        self.keys, self.values = zip(*self.rows.values())


class NoScale(Base):
    def look(self, x):
        return _attend(self.project_q(x), self.keys, self.values, scale=False)


class SwappedLists(Base):
    def look(self, x):
        return _attend(self.project_q(x), self.values, self.keys)


class NeverLonger(Base):
    def __len__(self):
        return 1


MISTAKES = (
    Mistake(
        "recomputes-everything",
        RecomputesEverything,
        "The numbers are right, but every step projects all tokens again: no work is saved. Keep k and v, not the tokens.",
        killed_by="rows computed",
    ),
    Mistake(
        "recomputes-values",
        RecomputesValues,
        "Keys are kept, but every step projects the values of all tokens again. Keep the values as well.",
        killed_by="rows computed",
    ),
    Mistake(
        "recomputes-keys",
        RecomputesKeys,
        "Values are kept, but every step projects the keys of all tokens again. Keep the keys as well.",
        killed_by="rows computed",
    ),
    Mistake(
        "recomputes-queries",
        RecomputesQueries,
        "Old queries are projected again at every step. A query is used once: project only the newest token's.",
        killed_by="rows computed",
    ),
    Mistake(
        "projects-twice",
        ProjectsTwice,
        "Each token's key and value are projected twice: once to attend, once to keep. Keep the ones you have.",
        killed_by="rows computed",
    ),
    Mistake(
        "keeps-only-the-first",
        KeepsOnlyTheFirst,
        "Only the first token's key and value are kept: a later token's own key and value are missing.",
        killed_by="every step",
        seen_in="the reading 'with a cache, only Q is computed'",
    ),
    Mistake(
        "keys-at-the-front",
        KeysAtTheFront,
        "New keys go to the front and new values to the back, so a key no longer lies beside its own value.",
        killed_by="every step",
    ),
    Mistake(
        "keeps-queries",
        KeepsQueries,
        "The query is kept where the key should be: project_k, not project_q.",
        "every step",
    ),
    Mistake(
        "keeps-inputs",
        KeepsInputs,
        "The token itself is kept in place of its key: it was never projected.",
        "first token",
    ),
    Mistake(
        "keeps-inputs-as-values",
        KeepsInputsAsValues,
        "The token itself is kept in place of its value: it was never projected.",
        killed_by="first token",
    ),
    Mistake(
        "one-list-for-both",
        OneList,
        "`self.keys = self.values = []` makes one list with two names: keys and values end up in it together.",
        killed_by="first token",
    ),
    Mistake(
        "lists-shared-by-all-caches",
        SharedLists,
        "All caches share one pair of lists: it is made once, on the class or as a default argument. Make it in __init__.",
        killed_by="every step",
        leaks=True,
    ),
    Mistake(
        "shared-and-emptied",
        EmptiesTheShared,
        "A new cache empties the lists of the one before: they are shared. Make new lists on self in __init__.",
        killed_by="two caches",
    ),
    Mistake(
        "attends-before-keeping",
        AttendsFirst,
        "The newest token does not see itself: its key and value are kept only after attending.",
        killed_by="first token",
        seen_in="a course framework whose cached step left the new token out of its own attention",
    ),
    *(
        Mistake(
            name,
            work,
            "There is no key yet when the first token attends. Append its key and value first: it sees itself.",
            killed_by="first token",
        )
        for name, work in (
            ("attends-to-nothing", AttendsToNothing),
            ("attends-to-nothing-transposed", AttendsToNothingTransposed),
            ("attends-to-nothing-in-a-loop", AttendsToNothingInALoop),
        )
    ),
    Mistake(
        "forgets-the-value",
        ForgetsTheValue,
        "There are keys, and no values: `step` has to append both.",
        killed_by="first token",
    ),
    Mistake(
        "keys-as-values",
        KeysAsValues,
        "The key is kept twice, in place of the value too: append v to the values.",
        killed_by="first token",
    ),
    Mistake(
        "values-as-keys",
        ValuesAsKeys,
        "The value is kept twice, in place of the key too: append k to the keys.",
        killed_by="every step",
    ),
    Mistake(
        "newest-only", NewestOnly, "Only the newest key and value are used; the kept ones never are.", "every step"
    ),
    Mistake(
        "not-the-newest",
        NotTheNewest,
        "All tokens but the newest are used: the slice ends one too early, or you attend before you append.",
        "every step",
    ),
    Mistake(
        "forgets-old-tokens",
        Overwrites,
        "Only the last two tokens are still there: older keys and values are dropped or overwritten.",
        killed_by="every step",
    ),
    Mistake(
        "first-query-always",
        FirstQueryAlways,
        "The first token's query is used at every step. Queries are not kept: each step makes its own.",
        killed_by="every step",
    ),
    Mistake("no-scale", NoScale, "The scores are not divided by sqrt(D).", "every step"),
    Mistake(
        "scale-of-the-token",
        ScaleOfTheToken,
        "The scores are divided by the square root of len(x). D is the width of a query: len(q).",
        killed_by="every step",
    ),
    Mistake(
        "equal-tokens-once",
        EqualTokensOnce,
        "A token that comes twice is kept once only. Every token counts, also one seen before.",
        killed_by="every step",
    ),
    Mistake("lists-swapped", SwappedLists, "Keys are used as values and values as keys.", "first token"),
    Mistake("length-stands-still", NeverLonger, "len(cache) does not count the tokens held.", "two caches"),
)


class Preallocated(Base):
    """Two arrays that double when they are full."""

    def __init__(self, *projections):
        super().__init__(*projections)
        self.used = 0

    def __len__(self):
        return self.used

    def step(self, x):
        k, v = self.project_k(x), self.project_v(x)
        if self.used == 0:
            self.K, self.V = np.full((2, len(k)), np.nan), np.full((2, len(v)), np.nan)
        if self.used == len(self.K):
            self.K, self.V = np.vstack([self.K, self.K * np.nan]), np.vstack([self.V, self.V * np.nan])
        self.K[self.used], self.V[self.used] = k, v
        self.used += 1
        return _attend(self.project_q(x), self.K[: self.used], self.V[: self.used])


class Stacked(Base):
    """np.vstack of rows; projections called with a matrix of one row; outputs of shape (1, D)."""

    def __init__(self, *projections):
        super().__init__(*projections)
        self.cache = {}

    def __len__(self):
        return len(self.cache.get("k", ()))

    def step(self, x):
        x = x[None, :]
        k, v = self.project_k(x), self.project_v(x)
        self.cache["k"] = np.vstack([self.cache["k"], k]) if self.cache else k
        self.cache["v"] = np.vstack([self.cache["v"], v]) if "v" in self.cache else v
        scores = self.project_q(x) @ self.cache["k"].T / np.sqrt(k.shape[1])
        weights = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
        return weights @ self.cache["v"]


class BothAtTheFront(Base):
    """Without positions the order of the rows is free, as long as a key stays beside its value."""

    def keep(self, x):
        self.keys.insert(0, self.project_k(x))
        self.values.insert(0, self.project_v(x))


class Float32(Base):
    def keep(self, x):
        self.keys.append(np.float32(self.project_k(x)))
        self.values.append(np.float32(self.project_v(x)))


def factory(project_q, project_k, project_v):
    """A function that returns an object is as good as a class."""
    rows = []

    class Cache:
        def __len__(self):
            return len(rows)

        def step(self, x):
            rows.append((project_k(x), project_v(x)))
            keys, values = zip(*rows)
            return list(_attend(project_q(x), keys, values))

    return Cache()


class Running(Base):
    """Never holds a matrix: keeps rows as tuples and adds them up one by one."""

    def look(self, x):
        q = self.project_q(x)
        total, output = 0.0, 0.0
        for k, v in zip(self.keys, self.values):
            weight = np.exp(np.dot(k, q) / len(q) ** 0.5)
            total, output = total + weight, output + weight * v
        return output / total


VARIANTS = (
    Variant("arrays that double", Preallocated),
    Variant("vstack, matrices of one row", Stacked),
    Variant("both rows at the front", BothAtTheFront),
    Variant("float32 rows", Float32),
    Variant("a function that returns an object", factory),
    Variant("one pass, row by row", Running),
)
