"""Wrong and right ways to write the NumPy cache. Each mistake changes one thing in `Base`."""

from __future__ import annotations

import numpy as np

from autograde.exercise import Mistake, Variant


class Base:
    def __init__(self, max_len, width):
        self.max_len, self.width, self.used = max_len, width, 0
        self.K, self.V = np.full((max_len, width), np.nan), np.full((max_len, width), np.nan)

    def __len__(self):
        return self.used

    def refuse(self, k, v):
        if self.used >= self.max_len:
            raise ValueError(f"holds {self.used} of {self.max_len} tokens, 1 more asked")
        for row in (k, v):
            if np.shape(row) != (self.width,):
                raise ValueError(f"wanted shape ({self.width},), got {np.shape(row)}")

    def append(self, k, v):
        self.refuse(k, v)
        self.write(self.used, k, v)
        self.used += 1

    def write(self, i, k, v):
        self.K[i], self.V[i] = k, v

    def rows(self):
        return self.K[: self.used], self.V[: self.used]

    def reset(self):
        self.used = 0


class WholeBuffer(Base):
    def rows(self):
        return self.K, self.V


class ZeroWholeBuffer(Base):
    def __init__(self, max_len, width):
        super().__init__(max_len, width)
        self.K[:], self.V[:] = 0.0, 0.0

    def rows(self):
        return self.K, self.V


class ValuesAreKeys(Base):
    def write(self, i, k, v):
        self.K[i], self.V[i] = k, k


class OneArray(Base):
    def __init__(self, max_len, width):
        super().__init__(max_len, width)
        self.V = self.K


class Swapped(Base):
    def rows(self):
        return self.V[: self.used], self.K[: self.used]


class NewestFirst(Base):
    def rows(self):
        return self.K[: self.used][::-1], self.V[: self.used][::-1]


class NeverAdvances(Base):
    def append(self, k, v):
        self.refuse(k, v)
        self.write(self.used, k, v)
        self.used = 1


class OneLate(Base):
    def rows(self):
        return self.K[: self.used - 1], self.V[: self.used - 1]


class SilentlyDrops(Base):
    def append(self, k, v):
        if self.used < self.max_len:
            super().append(k, v)


class SilentlyCounts(Base):
    """What a slice assignment does: writing one row past the end is no error."""

    def append(self, k, v):
        if self.used >= self.max_len:
            self.used += 1
            return
        super().append(k, v)


class OverwritesOldest(Base):
    def append(self, k, v):
        if self.used == self.max_len:
            self.K, self.V = np.roll(self.K, -1, axis=0), np.roll(self.V, -1, axis=0)
            self.used -= 1
        super().append(k, v)


class OverwritesLast(Base):
    def append(self, k, v):
        if self.used == self.max_len:
            self.used -= 1
        super().append(k, v)


class StartsAgain(Base):
    def append(self, k, v):
        if self.used == self.max_len:
            self.used = 0
        super().append(k, v)


class Grows(Base):
    def append(self, k, v):
        if self.used == len(self.K):
            self.K, self.V = np.vstack([self.K, self.K]), np.vstack([self.V, self.V])
            self.max_len *= 2
        super().append(k, v)


class OneTooFew(Base):
    def refuse(self, k, v):
        if self.used >= self.max_len - 1:
            raise ValueError("full")
        super().refuse(k, v)


class ChecksAfterCounting(Base):
    def append(self, k, v):
        if self.used < self.max_len:
            super().append(k, v)
            return
        self.used += 1
        raise ValueError("full")


class IndexErrorWhenFull(Base):
    def refuse(self, k, v):
        if self.used >= self.max_len:
            raise IndexError(f"index {self.used} is out of bounds for axis 0 with size {self.max_len}")
        super().refuse(k, v)


class Broadcasts(Base):
    def refuse(self, k, v):
        if self.used >= self.max_len:
            raise ValueError("full")


class ChecksKeysOnly(Base):
    def refuse(self, k, v):
        super().refuse(k, k)


class WritesBeforeChecking(Base):
    """K is written and counted before V is looked at."""

    def append(self, k, v):
        super().refuse(k, k)
        self.K[self.used] = k
        self.used += 1
        super().refuse(v, v) if self.used < self.max_len else None
        self.V[self.used - 1] = v


class KeepsReferences(Base):
    def __init__(self, max_len, width):
        super().__init__(max_len, width)
        self.keys, self.values = [], []

    def write(self, i, k, v):
        self.keys.append(k)
        self.values.append(v)

    def rows(self):
        empty = np.zeros((0, self.width))
        return (np.array(self.keys), np.array(self.values)) if self.used else (empty, empty)

    def reset(self):
        super().reset()
        self.keys, self.values = [], []


class ResetForgetsNothing(Base):
    def reset(self):
        pass


class ResetKeepsValues(Base):
    """Two counters, of which only one goes back."""

    def reset(self):
        self.stale, self.used = self.used, 0

    def rows(self):
        start = getattr(self, "stale", 0)
        return self.K[: self.used], self.V[: max(start, self.used)]


class SharedArrays(Base):
    shared: dict = {}  # noqa: RUF012 - this is the mistake

    def __init__(self, max_len, width):
        super().__init__(max_len, width)
        self.K = self.shared.setdefault(("K", max_len), self.K)
        self.V = self.shared.setdefault(("V", max_len), self.V)


class ShapesEqualOnly(Base):
    """Compares the shapes of k and v with each other, not with the width."""

    def refuse(self, k, v):
        super().refuse(np.zeros(self.width), np.zeros(self.width))
        if np.shape(k) != np.shape(v) or np.size(k) not in (1, self.width):
            raise ValueError("shapes differ")

    def write(self, i, k, v):
        self.K[i], self.V[i] = np.ravel(k), np.ravel(v)


class SizeOnly(Base):
    def refuse(self, k, v):
        super().refuse(np.zeros(self.width), np.zeros(self.width))
        if np.size(k) != self.width or np.size(v) != self.width:
            raise ValueError("size")

    def write(self, i, k, v):
        self.K[i], self.V[i] = np.ravel(k), np.ravel(v)


class ResetLosesTheLimit(Base):
    def reset(self):
        self.__init__(10 * self.max_len, self.width)


class RowsOnlyOnce(Base):
    """The rows are handed over, not shown: read again before the next append, nothing is there."""

    shown = False

    def append(self, k, v):
        super().append(k, v)
        self.shown = False

    def rows(self):
        if self.shown:
            return self.K[:0], self.V[:0]
        self.shown = True
        return super().rows()


class OwnError(Base):
    """An exception class of its own that only sounds like the right one."""

    def refuse(self, k, v):
        try:
            super().refuse(k, v)
        except ValueError as error:
            raise type("ValueError", (Exception,), {})(str(error)) from None


MISTAKES = (
    Mistake(
        "whole-buffer",
        WholeBuffer,
        "rows() gives the whole buffer with the rows that nobody wrote yet. Give only the first len(cache) rows.",
        killed_by="append",
    ),
    Mistake(
        "whole-buffer-of-zeros",
        ZeroWholeBuffer,
        "rows() gives the whole buffer, zeros included. A zero key still gets weight. Give the first len(cache) rows.",
        killed_by="append",
    ),
    Mistake("values-are-keys", ValuesAreKeys, "The key is written into both arrays.", "append"),
    Mistake("one-array", OneArray, "K and V are one and the same array: the value overwrites the key.", "append"),
    Mistake("halves-swapped", Swapped, "rows() gives (V, K): the two have changed places.", "append"),
    Mistake("newest-first", NewestFirst, "The rows come newest first. Row t belongs to token t.", "append"),
    Mistake(
        "never-advances",
        NeverAdvances,
        "From the second token on, rows are written to the same place: the counter does not move on.",
        killed_by="append",
    ),
    Mistake("one-row-late", OneLate, "rows() ends one row too early: the newest token is missing.", "append"),
    Mistake(
        "drops-when-full",
        SilentlyDrops,
        "When it is full, the cache drops the token and says nothing.",
        killed_by="full",
        seen_in="minimal caches published in blogs and course repositories",
    ),
    Mistake(
        "counts-past-the-end",
        SilentlyCounts,
        "A token past the end is not stored, yet counted: a slice past the end of an array accepts it without error.",
        killed_by="full",
    ),
    Mistake("shifts-when-full", OverwritesOldest, "When it is full, the oldest token is pushed out. Refuse.", "full"),
    Mistake("overwrites-the-last", OverwritesLast, "When it is full, the newest row is overwritten. Refuse.", "full"),
    Mistake("starts-again", StartsAgain, "When it is full, writing starts again at row 0. Refuse.", "full"),
    Mistake("grows", Grows, "When it is full, it grows. `max_len` is a promise about memory: refuse.", "full"),
    Mistake(
        "one-too-few",
        OneTooFew,
        "It refuses one token too early: a cache of 5 must hold 5. The test is `used >= max_len`.",
        killed_by="full",
    ),
    Mistake(
        "counts-before-refusing",
        ChecksAfterCounting,
        "The refused token is counted all the same: check before you change anything.",
        killed_by="full",
    ),
    Mistake(
        "index-error",
        IndexErrorWhenFull,
        "NumPy's own IndexError comes through when it is full. Check first, and raise ValueError with both numbers.",
        killed_by="full",
    ),
    Mistake(
        "broadcasts",
        Broadcasts,
        "Shapes are not checked: NumPy spreads a row of length 1 over the whole width.",
        killed_by="wrong shapes",
        seen_in="caches that write with a slice assignment",
    ),
    Mistake("checks-keys-only", ChecksKeysOnly, "The shape of k is checked, that of v is not.", "wrong shapes"),
    Mistake(
        "half-written",
        WritesBeforeChecking,
        "k is written and counted before v is checked, so a refusal leaves half a token. Do all checks first.",
        killed_by="wrong shapes",
    ),
    Mistake(
        "keeps-references",
        KeepsReferences,
        "The caller's own arrays are kept, not copies: when the caller reuses them, every kept row changes.",
        killed_by="reused arrays",
    ),
    Mistake(
        "compares-k-with-v-only",
        ShapesEqualOnly,
        "k and v are compared with each other, not with (width,): two wrong shapes that agree get through.",
        killed_by="wrong shapes",
    ),
    Mistake(
        "size-for-shape", SizeOnly, "The sizes are checked, the shapes are not: (1, 3) gets through.", "wrong shapes"
    ),
    Mistake("reset-loses-the-limit", ResetLosesTheLimit, "After reset() there is room for more than max_len.", "reset"),
    Mistake(
        "rows-only-once",
        RowsOnlyOnce,
        "rows() works once: read again, the rows are gone. Every block reads them at every step; show, do not hand over.",
        killed_by="append",
    ),
    Mistake(
        "not-a-value-error",
        OwnError,
        "The exception is called ValueError but is a class of your own. Raise ValueError, or a class derived from it.",
        killed_by="full",
    ),
    Mistake("reset-does-nothing", ResetForgetsNothing, "reset() leaves the tokens in place.", "reset"),
    Mistake(
        "reset-keeps-values",
        ResetKeepsValues,
        "After reset() the old values are still there: only K is reset.",
        "reset",
    ),
    Mistake(
        "arrays-shared-by-all-caches",
        SharedArrays,
        "Two caches write into the same arrays: they are made once for all. Make them in __init__.",
        killed_by="reset",
    ),
)


class Lists(Base):
    def __init__(self, max_len, width):
        self.max_len, self.width, self.k, self.v = max_len, width, [], []

    @property
    def used(self):
        return len(self.k)

    def append(self, k, v):
        self.refuse(k, v)
        self.k.append(np.array(k))
        self.v.append(np.array(v))

    def rows(self):
        shape = (self.used, self.width)
        return np.array(self.k).reshape(shape), np.array(self.v).reshape(shape)

    def reset(self):
        self.k, self.v = [], []


class OneTensor:
    """K and V in one array (2, max_len, width); copies go out; its own exception class."""

    class Full(ValueError):
        pass

    def __init__(self, max_len, width):
        self.data, self.length = np.empty((2, max_len, width)), 0
        self.data.fill(np.nan)

    def __len__(self):
        return self.length

    def append(self, k, v):
        k, v = np.asarray(k), np.asarray(v)
        if k.shape != self.data.shape[2:] or v.shape != k.shape:
            raise ValueError(f"shapes {k.shape} and {v.shape}")
        if self.length == self.data.shape[1]:
            raise self.Full("full")
        self.data[:, self.length] = k, v
        self.length += 1
        return self.rows()

    def rows(self):
        return [self.data[0, : self.length].copy(), self.data[1, : self.length].copy()]

    def reset(self):
        self.__init__(*self.data.shape[1:])


class Float32Dict:
    def __init__(self, max_len, width):
        self.max_len, self.width = max_len, width
        self.reset()

    def reset(self):
        self.kept = {"k": np.zeros((0, self.width), np.float32), "v": np.zeros((0, self.width), np.float32)}

    def __len__(self):
        return len(self.kept["k"])

    def append(self, k, v):
        if len(self) + 1 > self.max_len:
            raise ValueError("full")
        new = {}
        for name, row in (("k", k), ("v", v)):
            if np.asarray(row).shape != (self.width,):
                raise ValueError(name)
            new[name] = np.concatenate([self.kept[name], np.float32(row)[None]])
        self.kept = new

    def rows(self):
        return self.kept["k"], self.kept["v"]


VARIANTS = (
    Variant("lists of copies", Lists),
    Variant("one array for both, copies go out", OneTensor),
    Variant("float32, concatenated", Float32Dict),
    Variant("two arrays, checked first", Base),
)
