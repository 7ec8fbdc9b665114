"""Wrong and right ways to keep the first and the last. Each mistake changes one thing in `Base` or in `Ring`."""

from __future__ import annotations

from collections import deque

import numpy as np

from autograde.exercise import Mistake, Variant
from autograde.lazy import torch


class Base:
    """Rows and positions of each layer in the order of time, cut with one mask."""

    def __init__(self, num_layers, num_kv_heads, head_dim, sinks, window):
        self.num_layers, self.sinks, self.window, self.length = num_layers, sinks, window, 0
        self.rows = [torch.zeros(2, num_kv_heads, 0, head_dim, dtype=torch.float64) for _ in range(num_layers)]
        self.positions = [torch.zeros(0, dtype=torch.int64) for _ in range(num_layers)]

    def append(self, layer, k, v):
        rows, positions = self.joined(layer, k, v)
        stay = self.stay(layer, positions)
        self.rows[layer], self.positions[layer] = self.cut(rows, stay), positions[stay]
        return self.read(layer)

    def joined(self, layer, k, v):
        """What was held, and the new tokens behind it."""
        new = self.new_positions(layer, k.shape[1])
        rows = torch.cat((self.rows[layer], torch.stack((k, v))), 2)
        return rows, torch.cat((self.positions[layer], new))

    def new_positions(self, layer, T):
        return torch.arange(self.length, self.length + T)

    def stay(self, layer, positions):
        return (positions < self.sinks) | (positions > positions[-1] - self.window)

    def cut(self, rows, stay):
        return rows[:, :, stay]

    def read(self, layer):
        return *self.rows[layer], self.positions[layer]

    def advance(self, T):
        self.length += T


# Which rows stay.


class NoSinks(Base):
    def stay(self, layer, positions):
        return positions > positions[-1] - self.window


class NoWindowSlides(Base):
    """The first sinks + window tokens stay; those that come later do not get in."""

    def stay(self, layer, positions):
        return positions < self.sinks + self.window


class EvictsNewestOld(Base):
    """The newest of the old rows goes, not the oldest: of each pair, the wrong one."""

    def stay(self, layer, positions):
        stay = torch.ones_like(positions, dtype=torch.bool)
        too_many = max(0, len(positions) - self.sinks - self.window)
        stay[len(positions) - 1 - too_many : len(positions) - 1] = False
        return stay


class NoGuard(Base):
    """The first and the last are put together; while they overlap, some rows are there twice."""

    def stay(self, layer, positions):
        here = torch.arange(len(positions))
        return torch.cat((here[positions < self.sinks], here[-self.window :]))


class WindowWithoutNewest(Base):
    def stay(self, layer, positions):
        return (positions < self.sinks) | (positions >= positions[-1] - self.window)


class WindowOneShort(Base):
    def stay(self, layer, positions):
        last = positions[-1]
        return (positions < self.sinks) | (positions > last - self.window + 1) | (positions == last)


class OneSinkLess(Base):
    def stay(self, layer, positions):
        return (positions < self.sinks - 1) | (positions > positions[-1] - self.window)


class OneSinkMore(Base):
    def stay(self, layer, positions):
        return (positions <= self.sinks) | (positions > positions[-1] - self.window)


class SinksOutOfTheWindow(Base):
    """`window` is taken for all that is kept, the sinks among them."""

    def stay(self, layer, positions):
        return (positions < self.sinks) | (positions > positions[-1] - max(1, self.window - self.sinks))


class WindowBehindSinks(Base):
    """The newest token does not see its own row... it comes back from the next call on."""

    def read(self, layer):
        K, V, positions = super().read(layer)
        return (K, V, positions) if len(positions) == 1 else (K[:, :-1], V[:, :-1], positions[:-1])


class StartsAgain(Base):
    """When there is no more room, the whole window goes at once."""

    def stay(self, layer, positions):
        if len(positions) <= self.sinks + self.window:
            return positions >= 0
        return (positions < self.sinks) | (positions == positions[-1])


class FirstLayerOnly(Base):
    def stay(self, layer, positions):
        return super().stay(layer, positions) if layer == 0 else positions >= 0


class LastLayerOnly(Base):
    def stay(self, layer, positions):
        return super().stay(layer, positions) if layer == self.num_layers - 1 else positions >= 0


class OneGoesPerCall(Base):
    """One row goes when there are too many, however many came."""

    def stay(self, layer, positions):
        stay = positions >= 0
        if len(positions) > self.sinks + self.window:
            stay[self.sinks] = False
        return stay


class CutsTooEarly(Base):
    """Cut before the new tokens are put behind: of a chunk, none goes."""

    def joined(self, layer, k, v):
        rows, positions = super().joined(layer, k, v)
        n = len(self.positions[layer])
        end = self.length + k.shape[1]
        self.now = (positions < self.sinks) | (positions > end - 1 - self.window) | (torch.arange(len(positions)) >= n)
        return rows, positions

    def stay(self, layer, positions):
        return self.now


class WindowOfTheFirstOfTheChunk(Base):
    """The window ends at the chunk's first token."""

    def stay(self, layer, positions):
        return (positions < self.sinks) | (positions > self.length - self.window)


class SinksFromFirstCall(Base):
    """What the first call brings gives the sinks; later tokens are none."""

    first = 0

    def append(self, layer, k, v):
        if self.length == 0:
            self.first = k.shape[1]
        return super().append(layer, k, v)

    def stay(self, layer, positions):
        return (positions < min(self.sinks, self.first)) | (positions > positions[-1] - self.window)


class SinksOfEachChunk(Base):
    """A chunk's first rows are taken for sinks, and take the place of the old ones."""

    def stay(self, layer, positions):
        new = positions[-1] + 1 - self.length
        start = self.length if new > 1 else 0
        sinks = (positions >= start) & (positions < start + self.sinks)
        return sinks | (positions > positions[-1] - self.window)


class LongChunkLosesSinks(Base):
    """Of a chunk that is longer than the window only the last `window` tokens are put behind."""

    def joined(self, layer, k, v):
        W, T = self.window, k.shape[1]
        rows = torch.cat((self.rows[layer], torch.stack((k, v))[:, :, -W:]), 2)
        return rows, torch.cat((self.positions[layer], self.new_positions(layer, T)[-W:]))


class LongChunkForgetsOld(Base):
    """A chunk that fills the window takes the place of all that was there, sinks too."""

    def joined(self, layer, k, v):
        rows, positions = super().joined(layer, k, v)
        if self.length and k.shape[1] >= self.window:
            rows, positions = rows[:, :, -k.shape[1] :], positions[-k.shape[1] :]
        return rows, positions


class FourSinks(Base):
    """Four, as in the paper, whatever is asked for... but no more than fit."""

    def __init__(self, num_layers, num_kv_heads, head_dim, sinks, window):
        super().__init__(num_layers, num_kv_heads, head_dim, 4, window)


class AtLeastOneSink(Base):
    """`sinks or 1`."""

    def __init__(self, num_layers, num_kv_heads, head_dim, sinks, window):
        super().__init__(num_layers, num_kv_heads, head_dim, sinks or 1, window)


class MinusZero(Base):
    """`[-(window - 1):]` of the old rows: with a window of 1 that is all of them."""

    def stay(self, layer, positions):
        if self.window == 1:
            return positions >= 0
        return super().stay(layer, positions)


class SixteenAtMost(Base):
    def __init__(self, num_layers, num_kv_heads, head_dim, sinks, window):
        super().__init__(num_layers, num_kv_heads, head_dim, sinks, min(window, 16))


class KeyEachHalf(Base):
    """V is cut as a plain window: its sinks go, and rows of K and V no longer belong together."""

    def cut(self, rows, stay):
        n = int(stay.sum())
        return torch.stack((rows[0][:, stay], rows[1][:, rows.shape[2] - n :]))


# Positions and counts.


class Renumbered(Base):
    """In-cache positions: 0 to n - 1."""

    def read(self, layer):
        K, V, positions = super().read(layer)
        return K, V, torch.arange(len(positions))


class NumberKept(Base):
    """The next position is the number of rows held: right until the first one goes."""

    def new_positions(self, layer, T):
        held = len(self.positions[layer])
        return torch.arange(held, held + T)


class ChunkFromZero(Base):
    def new_positions(self, layer, T):
        return torch.arange(T)


class FromOne(Base):
    def read(self, layer):
        K, V, positions = super().read(layer)
        return K, V, positions + 1


class OnePositionPerChunk(Base):
    def read(self, layer):
        K, V, positions = super().read(layer)
        return K, V, positions.clamp(max=self.length)


class LengthKept(Base):
    """length is the number of rows kept."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.seen, self.length = 0, 0

    def append(self, layer, k, v):
        kept, self.length = self.length, self.seen
        got = super().append(layer, k, v)
        self.length = kept
        return got

    def advance(self, T):
        self.seen += T
        self.length = min(self.seen, self.sinks + self.window)


class CountsInAppend(Base):
    """Each layer counts the chunk again; advance() does nothing."""

    def append(self, layer, k, v):
        got = super().append(layer, k, v)
        self.length += k.shape[1]
        return got

    def advance(self, T):
        pass


class CountsInLastLayer(Base):
    """The last layer's append counts; advance() finds nothing left to do."""

    def append(self, layer, k, v):
        got = super().append(layer, k, v)
        if layer == self.num_layers - 1:
            self.length += k.shape[1]
        return got

    def advance(self, T):
        pass


class CountsPasses(Base):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.passes = self.length = 0

    def advance(self, T):
        self.length += 1


class NeverCounts(Base):
    def advance(self, T):
        pass


# Keys and values.


class ValuesAreKeys(Base):
    def append(self, layer, k, v):
        return super().append(layer, k, k)


class ValuesFirst(Base):
    def read(self, layer):
        K, V, positions = super().read(layer)
        return V, K, positions


class OnlyTheChunk(Base):
    def append(self, layer, k, v):
        super().append(layer, k, v)
        return k, v, self.new_positions(layer, k.shape[1])


def _turned(k, positions, base=10000.0):
    half = k.shape[-1] // 2
    angles = positions[:, None] * base ** (-torch.arange(half, dtype=k.dtype) / half)
    a, b = k[..., :half], k[..., half:]
    return torch.cat((a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()), dim=-1)


class TurnsSurvivors(Base):
    """Kept keys are turned back to where they stand in the cache; the newest stays at its place in the text."""

    def append(self, layer, k, v):
        before = self.positions[layer]
        rows, positions = self.joined(layer, k, v)
        gone = len(positions) - int(self.stay(layer, positions).sum())
        super().append(layer, k, v)
        window = self.positions[layer] >= self.sinks
        old = window & (self.positions[layer] <= (before[-1] if len(before) else -1))
        if gone:
            self.rows[layer][0] = torch.where(
                old[:, None], _turned(self.rows[layer][0], torch.full(old.shape, -gone)), self.rows[layer][0]
            )
        return self.read(layer)


class TurnsOnReading(Base):
    """Keys that were turned already are turned once more, to their places in the cache."""

    def read(self, layer):
        K, V, positions = super().read(layer)
        return _turned(K, torch.arange(len(positions))), V, positions


class TurnsToPosition(Base):
    """Keys that were turned already are turned to their absolute position once more."""

    def read(self, layer):
        K, V, positions = super().read(layer)
        return _turned(K, positions), V, positions


class OneStoreForAllLayers(Base):
    """What one layer holds is written over by the next."""

    def append(self, layer, k, v):
        got = super().append(layer, k, v)
        self.rows = [self.rows[layer]] * self.num_layers
        self.positions = [self.positions[layer]] * self.num_layers
        return got


class LayersShareRows(Base):
    """Every layer reads what layer 0 kept: one layer's rows are not another's."""

    def read(self, layer):
        return super().read(0)


# A ring.


class Ring:
    """Sinks in slots of their own, and a ring of `window` slots behind them."""

    def __init__(self, num_layers, num_kv_heads, head_dim, sinks, window):
        self.sinks, self.window, self.length = sinks, window, 0
        self.rows = torch.zeros(num_layers, 2, num_kv_heads, sinks + window, head_dim, dtype=torch.float64)
        self.positions = torch.full((num_layers, sinks + window), -1)

    def append(self, layer, k, v):
        for t in self.order(k.shape[1]):
            slot = self.slot(self.length + t)
            self.rows[layer, 0, :, slot], self.rows[layer, 1, :, slot] = k[:, t], v[:, t]
            self.positions[layer, slot] = self.length + t
        return self.read(layer)

    def order(self, T):
        return range(T)

    def slot(self, p):
        return p if p < self.sinks else self.sinks + (p - self.sinks) % self.window

    def read(self, layer):
        used = self.positions[layer] >= 0
        K, V = self.rows[layer][:, :, used]
        return K, V, self.positions[layer][used]

    def advance(self, T):
        self.length += T


class RingOverSinks(Ring):
    """The ring goes round over all slots, sinks too."""

    def slot(self, p):
        return p % (self.sinks + self.window)


class RingFromSlotZero(Ring):
    """Once round, the ring starts at slot 0 and not behind the sinks."""

    def slot(self, p):
        if p < self.sinks + self.window:
            return p
        return (p - self.sinks) % self.window


class RingSlotFour(Ring):
    """The ring has one slot too few: the oldest of the window is written over."""

    def slot(self, p):
        return p if p < self.sinks else self.sinks + (p - self.sinks) % max(1, self.window - 1)


class SlotsAsPositions(Ring):
    def read(self, layer):
        K, V, positions = super().read(layer)
        return K, V, torch.arange(len(positions))


class SortedPositions(Ring):
    """Positions are sorted, the rows stay in the order of their slots."""

    def read(self, layer):
        K, V, positions = super().read(layer)
        return K, V, positions.sort().values


class AllSlots(Ring):
    """Slots that nobody wrote come back as tokens at position 0."""

    def read(self, layer):
        return *self.rows[layer].clone(), self.positions[layer].clamp(min=0)


class UnwrittenMinusOne(Ring):
    """Slots that nobody wrote come back too, at position -1."""

    def read(self, layer):
        return *self.rows[layer].clone(), self.positions[layer].clone()


class FirstOfChunkStays(Ring):
    """Two tokens of one chunk for one slot: the first one wins."""

    def order(self, T):
        return reversed(range(T))


class SlotByCall(Ring):
    """The slot moves on by one in each call, and not by T."""

    def append(self, layer, k, v):
        calls = getattr(self, "calls", {})
        self.calls = calls
        start = calls.get(layer, 0)
        calls[layer] = start + 1
        for t in range(k.shape[1]):
            slot = self.slot(start + t)
            self.rows[layer, 0, :, slot], self.rows[layer, 1, :, slot] = k[:, t], v[:, t]
            self.positions[layer, slot] = self.length + t
        return self.read(layer)


# Memory.


class KeepsAll(Base):
    """Everything is kept; what has to go is left out on the way out."""

    def append(self, layer, k, v):
        self.rows[layer], self.positions[layer] = rows, positions = self.joined(layer, k, v)
        stay = self.stay(layer, positions)
        return *rows[:, :, stay], positions[stay]


class LargeBuffer(Ring):
    """Room for a whole text is taken at the start, though few rows of it are used."""

    def __init__(self, num_layers, num_kv_heads, head_dim, sinks, window):
        super().__init__(num_layers, num_kv_heads, head_dim, sinks, window)
        room = torch.zeros(num_layers, 2, num_kv_heads, 256, head_dim, dtype=torch.float64)
        self.rows = room[:, :, :, : sinks + window]


class KeepsTheLastAnswer(Ring):
    def append(self, layer, k, v):
        self.answer = super().append(layer, k, v)
        return self.answer


class SinksAreViews(Base):
    """The sinks are a slice of the first rows that came: the caller's whole prompt stays alive."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.first = {}

    def cut(self, rows, stay):
        return rows[:, :, stay]

    def append(self, layer, k, v):
        if self.length == 0 and k.shape[1] >= self.sinks + self.window:
            self.first[layer] = k[:, : self.sinks], v[:, : self.sinks]
        got = super().append(layer, k, v)
        if layer in self.first:
            sinks = torch.stack(self.first[layer])
            self.rows[layer] = torch.cat((sinks, self.rows[layer][:, :, self.sinks :]), 2)
            return self.read(layer)
        return got


class PlainWindowIsAView(Base):
    """Without sinks the last rows are a slice."""

    def cut(self, rows, stay):
        return rows[:, :, -self.window :] if self.sinks == 0 else super().cut(rows, stay)


class PositionsForEver(Base):
    """The rows are cut; a list of every position ever seen grows with the text."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.all_positions = [torch.zeros(0, dtype=torch.int64) for _ in range(self.num_layers)]

    def append(self, layer, k, v):
        new = self.new_positions(layer, k.shape[1])
        self.all_positions[layer] = torch.cat((self.all_positions[layer], new))
        return super().append(layer, k, v)


class KeepsReferences(Base):
    """A first chunk that fits is kept as it came."""

    def append(self, layer, k, v):
        got = super().append(layer, k, v)
        if self.length == 0 and k.shape[1] <= self.sinks + self.window:
            self.rows[layer] = (k, v)
        return got

    def joined(self, layer, k, v):
        if isinstance(self.rows[layer], tuple):
            self.rows[layer] = torch.stack(self.rows[layer])
        return super().joined(layer, k, v)


class FullChunkKept(KeepsReferences):
    """A first chunk of just as many rows as are kept needs no cutting, and is kept as it came."""

    def append(self, layer, k, v):
        got = Base.append(self, layer, k, v)
        if self.length == 0 and k.shape[1] == self.sinks + self.window:
            self.rows[layer] = (k, v)
        return got


class SharedRows(Ring):
    shared: dict = {}  # noqa: RUF012 - this is the mistake

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.rows = self.shared.setdefault(sizes, self.rows)


class SharedState(Base):
    """The lists belong to the class: the next cache finds what this one left."""

    all_rows: dict = {}  # noqa: RUF012 - this is the mistake
    all_positions: dict = {}  # noqa: RUF012

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.rows = self.all_rows.setdefault(sizes, self.rows)
        self.positions = self.all_positions.setdefault(sizes, self.positions)


MISTAKES = (
    Mistake("no-sinks", NoSinks, "The first tokens go like all others. Those below `sinks` stay for ever.", "one layer"),
    Mistake("nothing-gets-in", NoWindowSlides, "The first sinks + window tokens stay, and later ones do not get in. The window moves on.", "one layer"),
    Mistake("newest-goes", EvictsNewestOld, "When there are too many, a new row goes. The oldest one behind the sinks has to go.", "one layer"),
    Mistake("sinks-and-window-overlap", NoGuard, "While few tokens have come, the first and the last overlap, and some rows are there twice.", "one layer"),
    Mistake("window-without-the-newest", WindowWithoutNewest, "The window holds one token too many: the newest one counts among the `window`.", "one layer"),
    Mistake("window-one-short", WindowOneShort, "The window holds one token too few. Positions from end - window on stay.", "one layer"),
    Mistake("one-sink-less", OneSinkLess, "One sink is missing: positions 0 to sinks - 1 stay.", "one layer"),
    Mistake("one-sink-more", OneSinkMore, "There is one sink too many: positions 0 to sinks - 1 stay.", "one layer"),
    Mistake("sinks-out-of-the-window", SinksOutOfTheWindow, "The sinks are taken out of the window. They come on top of it: sinks + window rows stay.", "one layer"),
    Mistake("newest-not-seen", WindowBehindSinks, "The newest token does not come back with the rest. It sees itself.", "one layer"),
    Mistake("window-emptied", StartsAgain, "When there is no more room the whole window goes. Only the oldest of it has to.", "one layer"),
    Mistake("first-layer-only", FirstLayerOnly, "Only layer 0 forgets. The other layers grow on.", "all layers", "caches that evict where they count tokens, in layer 0"),
    Mistake("last-layer-only", LastLayerOnly, "Only the last layer forgets. The other layers grow on.", "all layers"),
    Mistake("one-goes-per-call", OneGoesPerCall, "One row goes in each call, however many came. A chunk of T pushes out T.", "chunks"),
    Mistake("chunk-is-never-cut", CutsTooEarly, "Only old rows can go. In a chunk, tokens that are no sinks and lie before the window go too.", "long prompts"),
    Mistake("window-ends-at-the-first", WindowOfTheFirstOfTheChunk, "The window ends at the first token of the chunk. It ends at the newest one, length + T - 1.", "chunks"),
    Mistake("sinks-from-the-first-call", SinksFromFirstCall, "The sinks are taken from the first call only. It may bring fewer tokens than there are sinks.", "one layer"),
    Mistake("sinks-of-each-chunk", SinksOfEachChunk, "Each chunk's first rows are taken for sinks. Sinks are the first tokens of the whole text.", "chunks"),
    Mistake("long-chunk-loses-sinks", LongChunkLosesSinks, "Of a long chunk only the last `window` tokens are looked at. Some of its tokens may be sinks.", "long prompts"),
    Mistake("long-chunk-forgets-the-old", LongChunkForgetsOld, "A chunk that fills the window takes the place of all that was there. The old sinks stay.", "long prompts"),
    Mistake("four-sinks", FourSinks, "There are always four sinks, whatever was asked for. Use `sinks`.", "one layer"),
    Mistake("at-least-one-sink", AtLeastOneSink, "With sinks = 0 a sink is kept all the same. 0 is a number like others.", "other sizes"),
    Mistake("window-of-one-keeps-all", MinusZero, "With a window of 1 all rows stay: `[-0:]` is everything.", "other sizes"),
    Mistake("sixteen-at-most", SixteenAtMost, "The window ends at 16 rows, whatever was asked for.", "other sizes"),
    Mistake("values-cut-otherwise", KeyEachHalf, "V loses its first rows where K keeps its sinks. Select the same rows of both.", "one layer"),
    Mistake("renumbered", Renumbered, "Positions are numbered 0 to n - 1. Here each row keeps the absolute position that its key was turned to.", "one layer"),
    Mistake("number-kept-as-position", NumberKept, "New tokens get the number of rows kept as position. Count on from all tokens seen: gone or not, they had a place.", "one layer", "caches that take the length of K for the position"),
    Mistake("chunk-from-zero", ChunkFromZero, "Positions start at 0 in every call. The new tokens stand behind all tokens seen.", "one layer"),
    Mistake("positions-from-one", FromOne, "Positions start at 1. The first token is at 0.", "one layer"),
    Mistake("one-position-per-chunk", OnePositionPerChunk, "All tokens of a chunk get the position of its first. Each has its own.", "chunks"),
    Mistake("length-is-what-is-kept", LengthKept, "`length` ends at sinks + window. It counts the tokens seen, gone or not.", "one layer"),
    Mistake("counts-in-append", CountsInAppend, "append() counts the chunk, in each layer again. Only advance() counts, once a pass.", "one layer"),
    Mistake("counts-in-the-last-layer", CountsInLastLayer, "The last layer's append() counts the chunk. Only advance() does.", "one layer"),
    Mistake("counts-passes", CountsPasses, "advance(T) counts one token. T of them came.", "chunks"),
    Mistake("never-counts", NeverCounts, "advance() does not count: all tokens get the position of the first.", "one layer"),
    Mistake("values-are-keys", ValuesAreKeys, "V holds the keys: v is never used.", "one layer"),
    Mistake("halves-swapped", ValuesFirst, "V comes back before K: return (K, V, positions).", "one layer"),
    Mistake("only-the-chunk", OnlyTheChunk, "Only the new tokens come back. Return the sinks and the window too.", "one layer"),
    Mistake("turns-survivors", TurnsSurvivors, "When rows go, the kept keys are turned to new places, and the newest is not. Here no key is turned again at all.", "one layer", "StreamingLLM caches that re-rotate what they kept"),
    Mistake("turns-on-reading", TurnsOnReading, "Keys are turned to their places in the cache. They come turned already: leave them as they are.", "one layer"),
    Mistake("turned-twice", TurnsToPosition, "Keys are turned to their positions once more. They come turned already: leave them as they are.", "one layer"),
    Mistake("one-store-for-all-layers", OneStoreForAllLayers, "All layers write into one store. Each layer has rows of its own.", "all layers"),
    Mistake("reads-layer-0", LayersShareRows, "Every layer reads the rows of layer 0. Each layer has rows of its own.", "all layers"),
    Mistake("ring-over-sinks", RingOverSinks, "The ring goes round over the sinks too, and writes over them. Sinks lie outside of it.", "one layer"),
    Mistake("ring-starts-at-slot-0", RingFromSlotZero, "Once round, the ring goes on at slot 0, where the sinks are. It starts again behind them.", "one layer"),
    Mistake("ring-one-slot-short", RingSlotFour, "The ring has window - 1 slots, so the oldest of the window is written over.", "one layer"),
    Mistake("slots-as-positions", SlotsAsPositions, "The slot is given as position. Once the ring has come round, they differ: keep the position with the row.", "one layer"),
    Mistake("positions-sorted-alone", SortedPositions, "Positions are sorted and rows are not. Any order will do, but rows and positions go together.", "one layer"),
    Mistake("unwritten-slots-are-token-0", AllSlots, "Slots that nobody wrote come back as token 0, and would get weight. Return only rows that hold a token.", "one layer"),
    Mistake("unwritten-slots", UnwrittenMinusOne, "Slots that nobody wrote come back at position -1. Here nobody masks them: return only rows that hold a token.", "one layer"),
    Mistake("first-of-chunk-stays", FirstOfChunkStays, "Two tokens of one chunk fall into one slot, and the older one stays. The newest must.", "long prompts"),
    Mistake("slot-by-call", SlotByCall, "The slot moves on by one in each call. It follows from the token's position.", "chunks"),
    Mistake("keeps-all", KeepsAll, "What comes back is right, but all rows are still held. Let go of what nobody reads again.", "memory"),
    Mistake("large-buffer", LargeBuffer, "Room for a whole text is taken, and a few rows of it are used. Take sinks + window rows.", "memory"),
    Mistake("keeps-the-last-answer", KeepsTheLastAnswer, "What append() returned is kept too: the same rows twice.", "memory"),
    Mistake("sinks-are-views", SinksAreViews, "The sinks are a slice of the prompt's tensor, and a slice keeps all of it alive. `.clone()` them.", "memory"),
    Mistake("plain-window-is-a-view", PlainWindowIsAView, "Without sinks the window is a slice, and a slice keeps all of the tensor alive. `.clone()` it.", "memory"),
    Mistake("positions-for-ever", PositionsForEver, "The rows go, but every position ever seen is kept. Keep those of the rows.", "memory"),
    Mistake("keeps-references", KeepsReferences, "A first chunk is kept as it came. The caller reuses its tensors: copy the rows.", "reused tensors"),
    Mistake("full-chunk-is-kept", FullChunkKept, "A first chunk of just sinks + window rows is kept as it came. The caller reuses its tensors: copy the rows.", "reused tensors"),
    Mistake("shared-rows", SharedRows, "Two caches write into the same rows: they are made once for all. Make them in __init__.", "reused tensors"),
    Mistake("shared-state", SharedState, "What one cache held is still there in the next: its lists belong to the class. Make them in __init__.", "chunks", leaks=True),
)  # fmt: skip


# Right ones.


class RingByPosition(Ring):
    """Another place for the ring: p % window behind the sinks, wherever it starts."""

    def slot(self, p):
        return p if p < self.sinks else self.sinks + p % self.window


class Deques:
    """Lists of tokens in float32: sinks, and a deque that drops the oldest by itself."""

    def __init__(self, num_layers, num_kv_heads, head_dim, sinks, window):
        self.sinks, self.length = sinks, 0
        self.first = [[] for _ in range(num_layers)]
        self.last = [deque(maxlen=window) for _ in range(num_layers)]

    def append(self, layer, k, v):
        for t in range(k.shape[1]):
            row = (torch.stack((k[:, t], v[:, t])).float(), self.length + t)
            (self.first if len(self.first[layer]) < self.sinks else self.last)[layer].append(row)
        rows = [*self.last[layer], *self.first[layer]]
        K, V = torch.stack([row for row, _ in rows], dim=2).double()
        return K, V, [position for _, position in rows]

    def advance(self, T):
        self.length += T


class TwoTensors:
    """Sinks and recent rows in tensors of their own; the count is a property."""

    def __init__(self, num_layers, num_kv_heads, head_dim, sinks, window):
        empty = torch.zeros(2, num_kv_heads, 0, head_dim, dtype=torch.float64)
        self.sinks, self.window, self.count = sinks, window, 0
        self.first, self.recent = [empty] * num_layers, [empty] * num_layers

    @property
    def length(self):
        return self.count

    def append(self, layer, k, v):
        rows = torch.stack((k, v))
        room = self.sinks - self.first[layer].shape[2]
        self.first[layer] = torch.cat((self.first[layer], rows[:, :, :room]), 2)
        self.recent[layer] = torch.cat((self.recent[layer], rows[:, :, room:]), 2)[:, :, -self.window :].clone()
        F, n, end = self.first[layer].shape[2], self.recent[layer].shape[2], self.count + k.shape[1]
        positions = torch.cat((torch.arange(F), torch.arange(end - n, end)))
        return *torch.cat((self.first[layer], self.recent[layer]), 2), positions

    def advance(self, num_tokens):
        self.count = self.count + num_tokens


class TokensByPosition:
    """A dict from (layer, position) to a token, in NumPy; newest first."""

    def __init__(self, num_layers, num_kv_heads, head_dim, sinks, window):
        self.sinks, self.window, self.length, self.tokens = sinks, window, 0, {}

    def append(self, layer, k, v):
        end = self.length + k.shape[1]
        for t in range(k.shape[1]):
            self.tokens[layer, self.length + t] = np.array([k[:, t].numpy(), v[:, t].numpy()])
        for key in [*self.tokens]:
            if key[0] == layer and self.sinks <= key[1] < end - self.window:
                del self.tokens[key]
        positions = sorted((p for other, p in self.tokens if other == layer), reverse=True)
        K, V = torch.from_numpy(np.stack([self.tokens[layer, p] for p in positions], 2))
        return K, V, torch.tensor(positions)

    def advance(self, T):
        self.length += T


class ShiftsLeft:
    """One buffer for all layers; a row that goes is closed up by moving the others."""

    def __init__(self, num_layers, num_kv_heads, head_dim, sinks, window):
        self.sinks, self.size, self.length = sinks, sinks + window, 0
        self.rows = torch.empty(2, num_layers, num_kv_heads, self.size, head_dim, dtype=torch.float64)
        self.places = [[] for _ in range(num_layers)]

    def append(self, layer, k, v):
        rows, places = self.rows[:, layer], self.places[layer]
        for t in range(k.shape[1]):
            if len(places) == self.size:
                del places[self.sinks]
                rows[:, :, self.sinks : -1] = rows[:, :, self.sinks + 1 :].clone()
            rows[0, :, len(places)], rows[1, :, len(places)] = k[:, t], v[:, t]
            places.append(self.length + t)
        return rows[0, :, : len(places)], rows[1, :, : len(places)], torch.tensor(places)

    def advance(self, T):
        self.length += T


class IndexedRing(Ring):
    """Whole chunks are written with one indexed assignment; a permutation comes back."""

    def append(self, layer, k, v):
        new = torch.arange(self.length, self.length + k.shape[1])
        stay = (new < self.sinks) | (new >= self.length + k.shape[1] - self.window)
        slots = torch.where(new < self.sinks, new, self.sinks + (new - self.sinks) % self.window)[stay]
        self.rows[layer, :, :, slots] = torch.stack((k, v))[:, :, stay]
        self.positions[layer, slots] = new[stay]
        used = (self.positions[layer] >= 0).nonzero()[:, 0].flip(0)
        return self.rows[layer, 0][:, used], self.rows[layer, 1][:, used], self.positions[layer][used].float()


VARIANTS = (
    Variant("one mask over rows in order", Base),
    Variant("a ring behind the sinks, token by token", Ring),
    Variant("a ring that starts elsewhere", RingByPosition),
    Variant("lists and deques in float32, sinks last", Deques),
    Variant("two tensors for each layer", TwoTensors),
    Variant("a dict of tokens in NumPy, newest first", TokensByPosition),
    Variant("a buffer that closes up, views come back", ShiftsLeft),
    Variant("an indexed ring in reverse order", IndexedRing),
)
