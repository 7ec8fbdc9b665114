"""Wrong and right ways to write the ring cache. Each mistake changes one thing in `Base`."""

from __future__ import annotations

from autograde.exercise import Mistake, Variant
from autograde.lazy import torch


class Base:
    """A ring of `window` slots: what was in it comes back with the chunk, then the chunk is written."""

    def __init__(self, window, batch_size, num_kv_heads, head_dim):
        self.window, self.seen = window, 0
        self.K = torch.zeros(batch_size, num_kv_heads, window, head_dim, dtype=torch.float64)
        self.V = torch.zeros(batch_size, num_kv_heads, window, head_dim, dtype=torch.float64)
        self.positions = torch.full((window,), -1)

    def __len__(self):
        return self.seen

    def append(self, k, v):
        new = torch.arange(self.seen, self.seen + k.shape[2])
        got = self.read(k, v, new)
        self.write(k, v, new)
        self.seen += len(new)
        return got

    def read(self, k, v, new):
        positions = torch.cat((self.positions, new))
        return torch.cat((self.K, k), 2), torch.cat((self.V, v), 2), positions

    def write(self, k, v, new):
        for t in range(len(new)):
            self.put(int(new[t]) % self.window, k[:, :, t], v[:, :, t], int(new[t]))

    def put(self, slot, k, v, position):
        self.K[:, :, slot], self.V[:, :, slot], self.positions[slot] = k, v, position


class EvictsFirst(Base):
    """Writes, then gives the ring: right for one token at a time."""

    def append(self, k, v):
        new = torch.arange(self.seen, self.seen + k.shape[2])
        self.write(k, v, new)
        self.seen += len(new)
        return self.K, self.V, self.positions


class NewTwice(Base):
    """Writes first, and adds the chunk all the same."""

    def append(self, k, v):
        new = torch.arange(self.seen, self.seen + k.shape[2])
        self.write(k, v, new)
        self.seen += len(new)
        return self.read(k, v, new)


class SlotsAsPositions(Base):
    def read(self, k, v, new):
        K, V, positions = super().read(k, v, new)
        return K, V, torch.cat((torch.where(self.positions < 0, -1, torch.arange(self.window)), new))


class NewestFirstPositions(Base):
    """Takes the ring for being in the order of time: slot 0 the oldest."""

    def read(self, k, v, new):
        K, V, positions = super().read(k, v, new)
        held = min(self.seen, self.window)
        old = torch.full((self.window,), -1)
        old[:held] = torch.arange(self.seen - held, self.seen)
        return K, V, torch.cat((old, new))


class UnwrittenSlots(Base):
    """Positions start as zeros: slots that nobody wrote pass for token 0."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.positions = torch.zeros_like(self.positions)


class UnwrittenAhead(Base):
    """Positions start as 0, 1, 2, ...: slots that nobody wrote pass for tokens to come."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.positions = torch.arange(self.window)


class PositionsFromOne(Base):
    def read(self, k, v, new):
        K, V, positions = super().read(k, v, new)
        return K, V, positions + (positions >= 0)


class PositionsWrap(Base):
    def read(self, k, v, new):
        K, V, positions = super().read(k, v, new)
        return K, V, torch.where(positions < 0, -1, positions % self.window)


class OnePositionPerChunk(Base):
    def read(self, k, v, new):
        K, V, positions = super().read(k, v, new)
        return K, V, torch.cat((self.positions, new[:1].expand_as(new)))


class OnlyTheChunk(Base):
    def read(self, k, v, new):
        return k, v, new


class OnlyOld(Base):
    """What was held before; the chunk itself is not with it."""

    def read(self, k, v, new):
        return self.K.clone(), self.V.clone(), self.positions.clone()


class LastChunkKept(Base):
    """The ring is emptied before a chunk is written: only the newest chunk stays."""

    def write(self, k, v, new):
        if len(new) > 1:
            self.positions[:] = -1
        super().write(k, v, new)


class OneTooSmall(Base):
    """The window leaves out the query itself... and then one more: window - 2 old tokens."""

    def read(self, k, v, new):
        K, V, positions = super().read(k, v, new)
        positions[: self.window][self.positions <= self.seen - self.window + 1] = -1
        return K, V, positions


class LastQueryWindow(Base):
    """Keeps what the last query of the chunk sees; the first ones see further back."""

    def read(self, k, v, new):
        K, V, positions = super().read(k, v, new)
        positions[positions <= int(new[-1]) - self.window] = -1
        return K, V, positions


class LastWindowOfChunk(Base):
    """A chunk longer than the window comes back as its last `window` tokens."""

    def read(self, k, v, new):
        return super().read(k[:, :, -self.window :], v[:, :, -self.window :], new[-self.window :])


class FirstOfChunkStays(Base):
    """Two tokens of a chunk for one slot: the first one wins."""

    def write(self, k, v, new):
        for t in reversed(range(len(new))):
            self.put(int(new[t]) % self.window, k[:, :, t], v[:, :, t], int(new[t]))


class LongChunkFromSlotZero(Base):
    """A chunk that fills the ring is laid down from slot 0 on; later tokens go to i % window."""

    def write(self, k, v, new):
        W = self.window
        if len(new) < W:
            return super().write(k, v, new)
        self.K[:], self.V[:], self.positions[:] = k[:, :, -W:], v[:, :, -W:], new[-W:]


class NoWrap(Base):
    """The chunk is written as one slice; what would go round the end is cut off."""

    def write(self, k, v, new):
        first = int(new[0]) % self.window
        super().write(k, v, new[: self.window - first] if len(new) <= self.window else new)


class KeepsFirst(Base):
    """When it is full, nothing is written any more."""

    def put(self, slot, k, v, position):
        if position < self.window:
            super().put(slot, k, v, position)


class StartsAgain(Base):
    """When the ring comes round to slot 0, it is emptied."""

    def put(self, slot, k, v, position):
        if slot == 0:
            self.positions[:] = -1
        super().put(slot, k, v, position)


class SlotByCall(Base):
    """The slot moves on by one in each call, and not by T."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.calls = 0

    def write(self, k, v, new):
        for t in range(len(new)):
            self.put((self.calls + t) % self.window, k[:, :, t], v[:, :, t], int(new[t]))
        self.calls += 1


class ValuesAreKeys(Base):
    def append(self, k, v):
        return super().append(k, k)


class ValuesOneBehind(Base):
    """K and V are not written to the same slot."""

    def put(self, slot, k, v, position):
        super().put(slot, k, v, position)
        self.V[:, :, slot] = self.before if position else v
        self.before = v.clone()


class ValuesFirst(Base):
    def append(self, k, v):
        K, V, positions = super().append(k, v)
        return V, K, positions


class LengthHeld(Base):
    def __len__(self):
        return min(self.seen, self.window)


class CountsCalls(Base):
    """len moves on by one in each call."""

    calls = 0

    def append(self, k, v):
        self.calls += 1
        return super().append(k, v)

    def __len__(self):
        return self.calls


class Growing:
    """Tokens in the order of time, cut after each call by `trim`: another way to be right, and to go wrong."""

    def __init__(self, window, batch_size, num_kv_heads, head_dim):
        self.window, self.seen = window, 0
        self.K = torch.zeros(batch_size, num_kv_heads, 0, head_dim, dtype=torch.float64)
        self.V = torch.zeros(batch_size, num_kv_heads, 0, head_dim, dtype=torch.float64)

    def __len__(self):
        return self.seen

    def append(self, k, v):
        K, V = torch.cat((self.K, k), 2), torch.cat((self.V, v), 2)
        self.seen += k.shape[2]
        positions = torch.arange(self.seen - K.shape[2], self.seen)
        self.K, self.V = self.trim(K, k.shape[2]), self.trim(V, k.shape[2])
        return K, V, positions

    def trim(self, rows, T):
        return rows[:, :, -self.window :].clone()


class KeepsAll(Growing):
    def trim(self, rows, T):
        return rows


class KeepsAllGivesWindow(Growing):
    """The window is cut out on the way out; what is held grows."""

    def append(self, k, v):
        K, V, positions = super().append(k, v)
        first = max(0, len(positions) - k.shape[2] - self.window + 1)
        return K[:, :, first:], V[:, :, first:], positions[first:]

    def trim(self, rows, T):
        return rows


class TrimsOne(Growing):
    """One old token goes in each call, however many came."""

    def trim(self, rows, T):
        return rows[:, :, 1:].clone() if rows.shape[2] > self.window else rows


class TrimsByWindow(Growing):
    """Cut only when twice the window is held... and then the chunk is not counted."""

    def trim(self, rows, T):
        return rows if rows.shape[2] < 4 * self.window else rows[:, :, -self.window :].clone()


class MinusZero(Growing):
    """Keeps the last window - 1 tokens: for a window of 1, `-0:` is everything."""

    def trim(self, rows, T):
        return rows[:, :, -(self.window - 1) :].clone()


class KeepsTheView(Growing):
    """A slice of the concatenation: the whole of it stays in memory."""

    def trim(self, rows, T):
        return rows[:, :, -self.window :]


class LargeBuffer(Base):
    """Room for a whole text is taken at the start, though only the window is used."""

    def __init__(self, window, batch_size, num_kv_heads, head_dim):
        super().__init__(window, batch_size, num_kv_heads, head_dim)
        self.room = torch.zeros(2, batch_size, num_kv_heads, 512, head_dim, dtype=torch.float64)
        self.K, self.V = self.room[0, :, :, :window], self.room[1, :, :, :window]


class KeepsTheLastAnswer(Base):
    """What was returned is kept too."""

    def append(self, k, v):
        self.answer = super().append(k, v)
        return self.answer


class KeepsReferences(Growing):
    """The first chunk is kept as it came, where it fits."""

    def append(self, k, v):
        got = super().append(k, v)
        if self.seen == k.shape[2] <= self.window:
            self.K, self.V = k, v
        return got


class WindowOfFour(Base):
    """The window of the example is written into the code."""

    def __init__(self, window, *sizes):
        super().__init__(4, *sizes)


class SlotsOfWindowMinusOne(Base):
    """window - 1 slots are enough for old tokens... but i % 0 is an error."""

    def put(self, slot, k, v, position):
        super().put(position % (self.window - 1), k, v, position)


class SharedRing(Base):
    shared: dict = {}  # noqa: RUF012 - this is the mistake

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.K = self.shared.setdefault(("K", sizes), self.K)
        self.V = self.shared.setdefault(("V", sizes), self.V)


class BelowMinusOne(Growing):
    """Starts as if `window` tokens had been before the first: their positions are -window to -1."""

    def __init__(self, window, batch_size, num_kv_heads, head_dim):
        super().__init__(window, batch_size, num_kv_heads, head_dim)
        self.K = torch.zeros(batch_size, num_kv_heads, window, head_dim, dtype=torch.float64)
        self.V = torch.zeros_like(self.K)


class SixteenAtMost(Base):
    def __init__(self, window, *sizes):
        super().__init__(min(window, 16), *sizes)


class FullChunkKept(Growing):
    """A chunk of exactly `window` tokens needs no cutting, and is kept as it came."""

    def append(self, k, v):
        got = super().append(k, v)
        if k.shape[2] == self.window:
            self.K, self.V = k, v
        return got


class PositionsForEver(Base):
    """The rows are cut, their positions are not."""

    def append(self, k, v):
        got = super().append(k, v)
        self.all_positions = torch.arange(self.seen)
        return got


class LabelsLeftBehind(Base):
    """A token that fell out is shown on, at its position, with rows of zeros."""

    def read(self, k, v, new):
        K, V, positions = super().read(k, v, new)
        out = (positions >= 0) & (positions <= self.seen - self.window)
        return K * ~out[:, None], V * ~out[:, None], positions


class WindowOfTheNewest(Base):
    """`window` belongs to the class: the cache that was made last sets it for all."""

    def __init__(self, window, *sizes):
        super().__init__(window, *sizes)
        del self.window
        type(self).window = window


MISTAKES = (
    Mistake("values-are-keys", ValuesAreKeys, "V holds the keys: v is never used.", killed_by="one by one"),
    Mistake("halves-swapped", ValuesFirst, "V comes back before K: return (K, V, k_positions).", "one by one"),
    Mistake(
        "values-one-behind",
        ValuesOneBehind,
        "Each slot of V holds the value of the token before the key's.",
        "one by one",
    ),
    Mistake(
        "slots-as-positions",
        SlotsAsPositions,
        "The slot is given as position. After the first round slot 0 holds token `window`: write the position with the row.",
        killed_by="one by one",
        seen_in="ring caches that rotate keys by their slot",
    ),
    Mistake(
        "positions-wrap",
        PositionsWrap,
        "Positions start again at 0 after `window` tokens. Only the slot is i % window; the position stays i.",
        killed_by="one by one",
    ),
    Mistake(
        "ring-taken-for-a-queue",
        NewestFirstPositions,
        "The slots are numbered as if slot 0 were the oldest. Once the ring has come round, it is not.",
        killed_by="one by one",
    ),
    Mistake(
        "unwritten-slots-are-token-0",
        UnwrittenSlots,
        "Slots that nobody wrote come back at position 0, and get weight. Give them -1.",
        killed_by="one by one",
    ),
    Mistake(
        "unwritten-slots-are-tokens-to-come",
        UnwrittenAhead,
        "Slots that nobody wrote come back at positions of their own, before those tokens are there. Give them -1.",
        killed_by="one by one",
    ),
    Mistake("positions-from-one", PositionsFromOne, "Positions start at 1. The first token is at 0.", "one by one"),
    Mistake(
        "only-the-chunk",
        OnlyTheChunk,
        "Only the new tokens come back. Their queries need up to window - 1 older ones.",
        killed_by="one by one",
    ),
    Mistake(
        "without-the-chunk",
        OnlyOld,
        "Only what was held before comes back. A token also sees itself, and the chunk's tokens before it.",
        killed_by="one by one",
    ),
    Mistake(
        "new-token-twice",
        NewTwice,
        "The new tokens come back twice, once from the ring and once from the chunk: they get their weight twice.",
        killed_by="one by one",
    ),
    Mistake(
        "window-one-too-small",
        OneTooSmall,
        "One token too few: the window counts the query itself, so window - 1 older ones are needed, you give window - 2.",
        killed_by="one by one",
        seen_in="windows that are counted without the query in one place and with it in another",
    ),
    Mistake(
        "stops-when-full",
        KeepsFirst,
        "Once `window` tokens are held, no more are written: the first ones stay for ever. The newest must stay.",
        killed_by="one by one",
    ),
    Mistake(
        "emptied-at-each-round",
        StartsAgain,
        "When the ring comes round to slot 0, everything in it is forgotten. Overwrite one slot at a time.",
        killed_by="one by one",
    ),
    Mistake(
        "length-held",
        LengthHeld,
        "len stops at the window. It counts the tokens seen: the next position.",
        "one by one",
    ),
    Mistake(
        "evicts-before-attending",
        EvictsFirst,
        "The chunk is written before the old tokens are read, so its first queries miss some. Read first, then write.",
        killed_by="chunks",
        seen_in="ring caches that were tried with one token at a time",
    ),
    Mistake(
        "window-of-the-last-query",
        LastQueryWindow,
        "What comes back is the window of the chunk's last query. The first query sees T - 1 tokens further back.",
        killed_by="chunks",
    ),
    Mistake(
        "one-position-for-the-chunk",
        OnePositionPerChunk,
        "All tokens of a chunk come back at one position. They count on: seen, seen + 1, ...",
        killed_by="chunks",
    ),
    Mistake(
        "cut-at-the-end",
        NoWrap,
        "A chunk that goes round the end of the ring is cut off there. Each token goes to slot i % window.",
        killed_by="chunks",
    ),
    Mistake(
        "slot-moves-by-calls",
        SlotByCall,
        "The slot moves on by 1 in each call, and not by T: the chunk's tokens are overwritten by the next one.",
        killed_by="chunks",
    ),
    Mistake(
        "last-chunk-only",
        LastChunkKept,
        "A chunk of several tokens empties the ring: what came before it is forgotten, though it is in the window.",
        killed_by="chunks",
    ),
    Mistake("length-counts-calls", CountsCalls, "len moves on by 1 in each call. It moves on by T.", "chunks"),
    Mistake(
        "long-chunk-cut-on-return",
        LastWindowOfChunk,
        "Of a long chunk only the last `window` tokens come back. All its queries ask, and each needs its own window.",
        killed_by="chunks longer than the window",
    ),
    Mistake(
        "first-tokens-of-a-long-chunk",
        FirstOfChunkStays,
        "Of a long chunk the first tokens stay, not the last: they share slots. Write only the last `window` tokens.",
        killed_by="chunks longer than the window",
        seen_in="one indexed assignment with the same slot in it twice: the order is not defined",
    ),
    Mistake(
        "long-chunk-from-slot-0",
        LongChunkFromSlotZero,
        "A long chunk is laid down from slot 0, but later tokens go to i % window: they overwrite the wrong ones.",
        killed_by="chunks longer than the window",
        seen_in="rolling caches that handle the prompt apart",
    ),
    Mistake(
        "window-of-4-always",
        WindowOfFour,
        "The window is 4 whatever is asked for. Use the one that is given.",
        killed_by="other windows",
    ),
    Mistake(
        "no-slot-for-a-window-of-1",
        SlotsOfWindowMinusOne,
        "A ring of window - 1 slots has none when the window is 1, and i % 0 is an error.",
        killed_by="other windows",
    ),
    Mistake(
        "minus-zero",
        MinusZero,
        "`[-(window - 1):]` keeps everything when the window is 1: -0 is 0. Nothing must stay then.",
        killed_by="memory",
    ),
    Mistake(
        "keeps-everything",
        KeepsAll,
        "Nothing is ever thrown away: right numbers, and memory that grows with the text.",
        killed_by="memory",
    ),
    Mistake(
        "window-on-the-way-out",
        KeepsAllGivesWindow,
        "The window is cut out of what you return, but all tokens are kept. Drop the old ones from what you hold.",
        killed_by="memory",
    ),
    Mistake(
        "drops-one-a-call",
        TrimsOne,
        "One old token is dropped in each call, however many came: with chunks it grows. Cut to the last `window`.",
        killed_by="memory",
        seen_in="sliding caches written for decode and used for chunks",
    ),
    Mistake(
        "cut-too-late",
        TrimsByWindow,
        "Old tokens are dropped only when four times the window is held. Twice is the most.",
        killed_by="memory",
    ),
    Mistake(
        "room-for-a-whole-text",
        LargeBuffer,
        "The buffer has room for a whole text, and only `window` slots of it are used. Make it of `window` slots.",
        killed_by="memory",
    ),
    Mistake(
        "slice-keeps-all-alive",
        KeepsTheView,
        "A slice of a large tensor is kept: it looks small, and the whole tensor stays in memory. `.clone()` the slice.",
        killed_by="memory",
        seen_in="caches that keep `torch.cat(...)[:, :, -window:]`",
    ),
    Mistake(
        "keeps-what-it-returned",
        KeepsTheLastAnswer,
        "What was returned is kept as well, chunk and all. Between calls only the window may stay.",
        killed_by="memory",
    ),
    Mistake(
        "keeps-references",
        KeepsReferences,
        "The caller's own tensors are kept, not copies: when the caller reuses them, what you hold changes.",
        killed_by="reused tensors",
    ),
    Mistake(
        "rings-shared-by-all-caches",
        SharedRing,
        "Two caches write into the same ring: it is made once for all. Make it in __init__.",
        killed_by="reused tensors",
        leaks=True,
    ),
    Mistake(
        "positions-below-minus-one",
        BelowMinusOne,
        "Slots that nobody wrote come back at positions below -1. Only -1 says that there is no token.",
        killed_by="one by one",
    ),
    Mistake(
        "labels-left-behind",
        LabelsLeftBehind,
        "A token that fell out comes back at its position, with other rows. Give its column -1, or the token itself.",
        killed_by="one by one",
    ),
    Mistake(
        "16-at-most", SixteenAtMost, "The window is 16 at most. Use the one that is given.", killed_by="other windows"
    ),
    Mistake(
        "positions-kept-for-ever",
        PositionsForEver,
        "The rows are cut to the window, but the positions of all tokens are kept: it grows with the text all the same.",
        killed_by="memory",
    ),
    Mistake(
        "full-chunk-kept",
        FullChunkKept,
        "A chunk as long as the window is kept as it came, not copied: when the caller reuses it, what you hold changes.",
        killed_by="reused tensors",
    ),
    Mistake(
        "window-of-the-newest-cache",
        WindowOfTheNewest,
        "`window` is kept in the class, so that the cache made last sets it for all. Keep it in `self`.",
        killed_by="reused tensors",
    ),
)


class Deques:
    """One token at a time in a list, the oldest dropped, in float32."""

    def __init__(self, window, batch_size, num_kv_heads, head_dim):
        self.window, self.n, self.held = window, 0, []

    def __len__(self):
        return self.n

    def append(self, k, v):
        new = [(self.n + t, k[:, :, t].float().clone(), v[:, :, t].float().clone()) for t in range(k.shape[2])]
        self.n += len(new)
        rows = self.held + new
        self.held = rows[-self.window :]
        positions, keys, values = zip(*rows)
        return torch.stack(keys, 2), torch.stack(values, 2), list(positions)


class WindowMinusOne:
    """Holds window - 1 old tokens, in one tensor; newest first on the way out; memory that nobody wrote is NaN."""

    def __init__(self, window, batch_size, num_kv_heads, head_dim):
        self.data = torch.empty(2, batch_size, num_kv_heads, window - 1, head_dim, dtype=torch.float64)
        self.n = 0

    def __len__(self):
        return self.n

    def append(self, k, v):
        both = torch.cat((self.data, torch.stack((k, v))), 3)
        self.n += k.shape[2]
        positions = torch.arange(self.n - both.shape[3], self.n).clamp(min=-1)
        self.data.copy_(both[:, :, :, both.shape[3] - self.data.shape[3] :])
        return *both.flip(3), positions.flip(0)


class IndexedRing:
    """A ring written with one indexed assignment; only what a query sees comes back."""

    def __init__(self, window, batch_size, num_kv_heads, head_dim):
        self.window, self.seen = window, 0
        self.ring = torch.empty(window, 2, batch_size, num_kv_heads, head_dim, dtype=torch.float64)

    def __len__(self):
        return self.seen

    def append(self, k, v):
        chunk = torch.stack((k, v)).permute(3, 0, 1, 2, 4)  # (T, 2, B, Hkv, D)
        new = torch.arange(self.seen, self.seen + len(chunk))
        old = torch.arange(max(0, self.seen - self.window + 1), self.seen)
        K, V = torch.cat((self.ring[old % self.window], chunk)).permute(1, 2, 3, 0, 4)
        last = new[-self.window :]
        self.ring[last % self.window] = chunk[-self.window :]
        self.seen += len(chunk)
        return K, V, torch.cat((old, new))


class TwiceTheRoom:
    """Slides along a buffer of twice the window, and moves back when it reaches the end; chunks go in pieces."""

    def __init__(self, window, batch_size, num_kv_heads, head_dim):
        self.window, self.end, self.seen = window, 0, 0
        self.both = torch.zeros(2, batch_size, num_kv_heads, 2 * window, head_dim, dtype=torch.float32)

    def __len__(self):
        return self.seen

    def append(self, k, v):
        start = max(0, self.end - self.window)
        chunk = torch.stack((k, v)).float()
        K, V = torch.cat((self.both[:, :, :, start : self.end], chunk), 3)
        positions = torch.arange(self.seen - (self.end - start), self.seen + k.shape[2])
        for t in range(k.shape[2]):
            if self.end == 2 * self.window:
                self.both[:, :, :, : self.window] = self.both[:, :, :, self.window :].clone()
                self.end = self.window
            self.both[:, :, :, self.end] = chunk[:, :, :, t]
            self.end += 1
        self.seen += k.shape[2]
        return K, V, positions


class ShiftsLeft:
    """One buffer of `window` slots, the newest token in the last; what was never written is at -1."""

    def __init__(self, window, batch_size, num_kv_heads, head_dim):
        self.both, self.seen = torch.zeros(2, batch_size, num_kv_heads, window, head_dim, dtype=torch.float64), 0

    def __len__(self):
        return self.seen

    def append(self, k, v):
        rows = torch.cat((self.both, torch.stack((k, v))), dim=3)
        self.seen += k.shape[2]
        positions = torch.arange(self.seen - rows.shape[3], self.seen)
        self.both = rows[:, :, :, -self.both.shape[3] :].clone()
        return rows[0], rows[1], positions.masked_fill(positions < 0, -1)


class RingForEachChunk:
    """A ring of window - 1 + T slots, made anew for each chunk: nothing in it is overwritten too early."""

    def __init__(self, window, batch_size, num_kv_heads, head_dim):
        self.window, self.seen, self.old = window, 0, torch.zeros(2, batch_size, num_kv_heads, 0, head_dim)

    def __len__(self):
        return self.seen

    def append(self, k, v):
        slots = self.window - 1 + k.shape[2]
        ring = torch.full((2, *k.shape[:2], slots, k.shape[3]), torch.nan, dtype=k.dtype)
        first, end = self.seen - self.old.shape[3], self.seen + k.shape[2]
        here = torch.arange(first, end)
        ring[:, :, :, here % slots] = torch.cat((self.old, torch.stack((k, v))), 3)
        positions = torch.full((slots,), -1)
        positions[here % slots] = here
        self.seen = end
        self.old = ring[:, :, :, torch.arange(max(0, end - self.window + 1), end) % slots]
        return *ring, positions


class TokensByPosition:
    """A dict from positions to tokens, in NumPy."""

    def __init__(self, window, *sizes):
        self.window, self.seen, self.tokens = window, 0, {}

    def __len__(self):
        return self.seen

    def append(self, k, v):
        for t in range(k.shape[2]):
            self.tokens[self.seen] = (k[:, :, t].numpy().copy(), v[:, :, t].numpy().copy())
            self.seen += 1
        K, V = (torch.stack([torch.from_numpy(token[i]) for token in self.tokens.values()], 2) for i in (0, 1))
        positions = [*self.tokens]
        for position in positions[: -self.window]:
            del self.tokens[position]
        return K, V, positions


VARIANTS = (
    Variant("a ring, written token by token", Base),
    Variant("concatenate, cut and clone", Growing),
    Variant("a list of tokens in float32", Deques),
    Variant("window - 1 old tokens in one tensor, newest first", WindowMinusOne),
    Variant("a ring with one indexed assignment", IndexedRing),
    Variant("a buffer of twice the window in float32", TwiceTheRoom),
    Variant("a buffer that shifts to the left", ShiftsLeft),
    Variant("a larger ring for each chunk", RingForEachChunk),
    Variant("a dict of tokens in NumPy", TokensByPosition),
)
