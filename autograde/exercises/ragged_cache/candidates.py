"""Wrong and right ways to write the ragged cache. Each mistake changes one thing in `Base`."""

from __future__ import annotations

from autograde.exercise import Mistake, Variant
from autograde.lazy import torch


class Base:
    """Two buffers and a count for each row, in plain loops."""

    def __init__(self, batch_size, num_kv_heads, max_len, head_dim):
        self.B, self.max_len = batch_size, max_len
        self.K = torch.zeros(batch_size, num_kv_heads, max_len, head_dim, dtype=torch.float64)
        self.V = torch.zeros(batch_size, num_kv_heads, max_len, head_dim, dtype=torch.float64)
        self.lengths = [0] * batch_size

    def refuse(self, real):
        for b in range(self.B):
            if self.lengths[b] + int(real[b].sum()) > self.max_len:
                raise ValueError(f"row {b} holds {self.lengths[b]} of {self.max_len} tokens")

    def real(self, real):
        return real

    def append(self, k, v, real):
        real = self.real(real)
        self.refuse(real)
        for b in range(self.B):
            self.row(b, k[b], v[b], real[b])
        return self.held()

    def row(self, b, k, v, real):
        """k, v (Hkv, T, D) and real (T,) of one row."""
        for t in range(len(real)):
            if real[t]:
                self.write(b, self.lengths[b], k[:, t], v[:, t])
                self.lengths[b] += 1

    def write(self, b, slot, k, v):
        self.K[b, :, slot], self.V[b, :, slot] = k, v

    def held(self):
        S = max(self.lengths)
        return self.K[:, :, :S], self.V[:, :, :S], self.positions(S)

    def positions(self, S):
        return torch.tensor([[j if j < n else -1 for j in range(S)] for n in self.lengths]).reshape(self.B, S)


class PaddingStored(Base):
    def real(self, real):
        return torch.ones_like(real)


class SharedLength(Base):
    """All rows go on behind the longest one: the gap between is taken for tokens."""

    def append(self, k, v, real):
        self.refuse(real)
        self.lengths = [max(self.lengths)] * self.B
        return super().append(k, v, real)


class KeepsPadding(Base):
    """Every column that ever came is kept, with position -1 where it was padding."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.columns = []

    def append(self, k, v, real):
        super().append(k, v, real)
        ends = torch.tensor(self.lengths)[:, None] - real.sum(1, keepdim=True)
        positions = torch.where(real, ends + real.cumsum(1) - 1, -1)
        self.columns.append((k.clone(), v.clone(), positions))
        K, V, P = zip(*self.columns)
        return torch.cat(K, 2), torch.cat(V, 2), torch.cat(P, 1)


class GapVisible(Base):
    def positions(self, S):
        return torch.arange(S).repeat(self.B, 1)


class FinishedGoesOn(Base):
    """The mask is for prompts only: a step of one token is stored in every row."""

    def real(self, real):
        return torch.ones_like(real) if real.shape[1] == 1 and real.any() else real


class PaddingToLastSlot(Base):
    """Padding has slot -1, and a tensor's slot -1 is its last."""

    def row(self, b, k, v, real):
        super().row(b, k, v, real)
        for t in range(len(real)):
            if not real[t]:
                self.write(b, -1, k[:, t], v[:, t])


class PaddingToFirstSlot(Base):
    """Slot -1 clamped to 0."""

    def row(self, b, k, v, real):
        super().row(b, k, v, real)
        for t in range(len(real)):
            if not real[t]:
                self.write(b, 0, k[:, t], v[:, t])


class PaddingOverNewest(Base):
    """slot = lengths + cumsum(real) - 1 for every column: padding behind a token has that token's slot."""

    def row(self, b, k, v, real):
        for t in range(len(real)):
            self.lengths[b] += bool(real[t])
            if self.lengths[b]:
                self.write(b, self.lengths[b] - 1, k[:, t], v[:, t])


class LeftPaddingOnly(Base):
    """Takes the last columns of each row, as many as it has tokens."""

    def row(self, b, k, v, real):
        n, T = int(real.sum()), len(real)
        super().row(b, k[:, T - n :], v[:, T - n :], real.new_ones(n))


class RightPaddingOnly(Base):
    def row(self, b, k, v, real):
        n = int(real.sum())
        super().row(b, k[:, :n], v[:, :n], real.new_ones(n))


class ValuesNotPacked(Base):
    """K is packed; V is taken from the first columns."""

    def row(self, b, k, v, real):
        n = int(real.sum())
        start = self.lengths[b]
        super().row(b, k, v, real)
        self.V[b, :, start : start + n] = v[:, :n]


class ValuesAreKeys(Base):
    def write(self, b, slot, k, v):
        super().write(b, slot, k, k)


class ValuesFirst(Base):
    def held(self):
        K, V, positions = super().held()
        return V, K, positions


class FromOne(Base):
    def positions(self, S):
        found = super().positions(S)
        return found + (found >= 0)


class ColumnsAsPositions(Base):
    """Remembers in which column of the padded stream each token came."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.columns, self.came = 0, [[] for _ in range(self.B)]

    def append(self, k, v, real):
        self.refuse(real)
        for b in range(self.B):
            self.came[b] += [self.columns + t for t in range(real.shape[1]) if real[b, t]]
        self.columns += real.shape[1]
        return super().append(k, v, real)

    def positions(self, S):
        return torch.tensor([came + [-1] * (S - len(came)) for came in self.came]).reshape(self.B, S)


class PositionsRestart(Base):
    """Each call counts from 0 again."""

    def append(self, k, v, real):
        self.before = list(self.lengths)
        return super().append(k, v, real)

    def positions(self, S):
        found = super().positions(S)
        for b, n in enumerate(self.before):
            found[b, n : self.lengths[b]] -= n
        return found


class PositionsBefore(Base):
    """The positions are made from the counts before the call."""

    def append(self, k, v, real):
        self.before = list(self.lengths)
        return super().append(k, v, real)

    def positions(self, S):
        return torch.tensor([[j if j < n else -1 for j in range(S)] for n in self.before]).reshape(self.B, S)


class OnlyNew(Base):
    """Only this call's tokens come back."""

    def append(self, k, v, real):
        before = min(self.lengths)
        K, V, positions = super().append(k, v, real)
        return K[:, :, before:], V[:, :, before:], positions[:, before:]


class OneSlotForEmpty(Base):
    """A row without tokens still shows slot 0."""

    def positions(self, S):
        found = super().positions(S)
        found[:, :1] = 0
        return found


class RowZeroForAll(Base):
    def real(self, real):
        return real[:1].expand_as(real)


class SortedByLength(Base):
    """Rows are sorted by length, as packing functions want them, and never put back."""

    def append(self, k, v, real):
        order = sorted(range(self.B), key=lambda b: -int(real[b].sum()))
        return super().append(k[order], v[order], real[order])


class _Reported(Base):
    """What `lengths` shows is kept apart from the counts that are used."""

    def __init__(self, *sizes):
        self.used = None
        super().__init__(*sizes)

    def append(self, k, v, real):
        shown = list(self.lengths)
        self.lengths = self.used or self.lengths
        try:
            got = super().append(k, v, real)
        except ValueError:
            self.lengths = shown
            raise
        self.used, self.lengths = self.lengths, self.report(shown, real)
        return got


class LengthsCountPadding(_Reported):
    def report(self, shown, real):
        return [n + real.shape[1] for n in shown]


class LengthsOfThisCall(_Reported):
    def report(self, shown, real):
        return real.sum(1)


class LongestLength(_Reported):
    def report(self, shown, real):
        return [max(self.lengths)] * self.B


class RoomCountsPadding(Base):
    def refuse(self, real):
        if max(self.lengths) + real.shape[1] > self.max_len:
            raise ValueError("no room for this chunk")


class RoomOfTheLongest(Base):
    """The longest row and the largest number of new tokens are added, whether they are of one row or not."""

    def refuse(self, real):
        if real.any() and max(self.lengths) + int(real.sum(1).max()) > self.max_len:
            raise ValueError("no room")


class RoomOfTheSum(Base):
    """All rows' tokens are compared with all rows' room together."""

    def refuse(self, real):
        if sum(self.lengths) + int(real.sum()) > self.B * self.max_len:
            raise ValueError("no room")

    def write(self, b, slot, k, v):
        if slot < self.max_len:
            super().write(b, slot, k, v)


class NeverRefuses(Base):
    def refuse(self, real):
        pass


class RowZeroOnly(Base):
    def refuse(self, real):
        if self.lengths[0] + int(real[0].sum()) > self.max_len:
            raise ValueError("row 0 is full")


class SilentlyDrops(Base):
    def refuse(self, real):
        pass

    def row(self, b, k, v, real):
        for t in range(len(real)):
            if real[t] and self.lengths[b] < self.max_len:
                self.write(b, self.lengths[b], k[:, t], v[:, t])
                self.lengths[b] += 1


class SlidesWhenFull(Base):
    """A full row loses its oldest token."""

    def refuse(self, real):
        pass

    def write(self, b, slot, k, v):
        if slot == self.max_len:
            self.K[b, :, :-1], self.V[b, :, :-1] = self.K[b, :, 1:].clone(), self.V[b, :, 1:].clone()
            slot = self.max_len - 1
            self.lengths[b] -= 1
        super().write(b, slot, k, v)


class RowByRow(Base):
    """Each row is checked when its turn comes: those before it are written already."""

    def refuse(self, real):
        pass

    def row(self, b, k, v, real):
        if self.lengths[b] + int(real.sum()) > self.max_len:
            raise ValueError(f"row {b} is full")
        super().row(b, k, v, real)


class CountsBeforeRefusing(Base):
    def refuse(self, real):
        before = list(self.lengths)
        try:
            super().refuse(real)
        except ValueError:
            self.lengths = [min(n + int(r.sum()), self.max_len) for n, r in zip(before, real)]
            raise


class OneTooFew(Base):
    def refuse(self, real):
        for b in range(self.B):
            if self.lengths[b] + int(real[b].sum()) >= self.max_len:
                raise ValueError(f"row {b} is full")


class KeepsReferences(Base):
    """Views of the caller's tensors, stacked when they are asked for."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.rows = {}

    def write(self, b, slot, k, v):
        self.rows[b, slot] = k, v

    def held(self):
        for (b, slot), (k, v) in self.rows.items():
            self.K[b, :, slot], self.V[b, :, slot] = k, v
        return super().held()


class CleansTheCaller(Base):
    """Zeros the padding in the caller's own tensors."""

    def append(self, k, v, real):
        for rows in (k, v):
            rows.masked_fill_(~real[:, None, :, None], 0.0)
        return super().append(k, v, real)


class SharedBuffers(Base):
    shared: dict = {}  # noqa: RUF012 - this is the mistake

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.K = self.shared.setdefault(("K", sizes), self.K)
        self.V = self.shared.setdefault(("V", sizes), self.V)


class WideRefused(Base):
    """The width of the chunk is compared with max_len, padding or not."""

    def refuse(self, real):
        super().refuse(real)
        if real.shape[1] > self.max_len:
            raise ValueError("the chunk is too wide")


class RefusedCounted(Base):
    """`lengths` is set before the check; the counts that are used are set after it."""

    def refuse(self, real):
        held = list(self.lengths)
        try:
            super().refuse(real)
        except ValueError:
            self.lengths = [n + int(row.sum()) for n, row in zip(held, real)]
            self.used = held
            raise

    def append(self, k, v, real):
        self.lengths = self.__dict__.pop("used", self.lengths)
        return super().append(k, v, real)


class LengthsFromFirstCall(Base):
    """There is no `lengths` until something was appended."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        del self.lengths

    def append(self, k, v, real):
        self.lengths = self.__dict__.get("lengths", [0] * self.B)
        return super().append(k, v, real)


class WholeChunkKept(Base):
    """A first chunk without padding is kept as it came, until there is a second one."""

    whole = None

    def append(self, k, v, real):
        if self.whole is not None:
            n = self.whole[0].shape[2]
            self.K[:, :, :n], self.V[:, :, :n] = self.whole
            self.whole = None
        elif not any(self.lengths) and real.all() and real.shape[1] <= self.max_len:
            self.whole, self.lengths = (k, v), [real.shape[1]] * self.B
            return k, v, self.positions(real.shape[1])
        return super().append(k, v, real)


class LimitOfTheNewest(Base):
    """max_len belongs to the class: the cache that was made last sets it for all."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        del self.max_len
        type(self).max_len = sizes[2]


class PositionsInBytes(Base):
    def positions(self, S):
        return super().positions(S).to(torch.int8)


MISTAKES = (
    Mistake(
        "padding-kept",
        KeepsPadding,
        "Padding is kept, with position -1. Nobody sees it, but it takes memory, and a finished row gets it for ever.",
        "memory",
    ),
    Mistake(
        "values-are-keys", ValuesAreKeys, "V holds the keys: both buffers are written with k.", killed_by="equal rows"
    ),
    Mistake("halves-swapped", ValuesFirst, "V comes back before K: return (K, V, k_positions).", "equal rows"),
    Mistake("positions-from-one", FromOne, "Positions start at 1. A row's first token is at position 0.", "equal rows"),
    Mistake(
        "positions-restart",
        PositionsRestart,
        "Positions start at 0 again in every call. They go on where the row's tokens end.",
        killed_by="equal rows",
    ),
    Mistake(
        "positions-before-the-call",
        PositionsBefore,
        "k_positions is made from the counts before this call, so the new tokens are shown as -1. Count them first.",
        killed_by="equal rows",
    ),
    Mistake(
        "only-new-tokens",
        OnlyNew,
        "Only the new tokens come back. The queries need all that the row holds, the old ones too.",
        killed_by="equal rows",
    ),
    Mistake(
        "lengths-of-this-call",
        LengthsOfThisCall,
        "`lengths` counts the tokens of the last call only. Add them to those held before.",
        killed_by="equal rows",
    ),
    Mistake(
        "padding-stored",
        PaddingStored,
        "Padding is stored and counted like a token: `real` is not used. Store a column only where it is True.",
        killed_by="padding",
    ),
    Mistake(
        "gap-visible",
        GapVisible,
        "A short row shows positions beyond its last token: slots that nobody wrote. Give -1 there.",
        killed_by="padding",
        seen_in="batched decoding with one mask for all rows",
    ),
    Mistake(
        "empty-row-shows-one",
        OneSlotForEmpty,
        "A row without any token shows position 0. It holds nothing: all of it is -1.",
        killed_by="padding",
    ),
    Mistake(
        "padding-to-slot-0",
        PaddingToFirstSlot,
        "Padding is written to slot 0, over the row's first token. Padding is written nowhere.",
        killed_by="padding",
    ),
    Mistake(
        "padding-over-the-newest",
        PaddingOverNewest,
        "Padding behind a token is written to that token's slot, over it. Padding is written nowhere.",
        killed_by="padding",
    ),
    Mistake(
        "left-padding-assumed",
        LeftPaddingOnly,
        "The last columns are taken, as if padding were always on the left. `real` says which columns are tokens.",
        killed_by="padding",
    ),
    Mistake(
        "right-padding-assumed",
        RightPaddingOnly,
        "The first columns are taken, as if padding were always on the right. `real` says which columns are tokens.",
        killed_by="padding",
    ),
    Mistake(
        "values-not-packed",
        ValuesNotPacked,
        "The keys are packed, the values are not: row p of V is another token's than row p of K.",
        killed_by="padding",
    ),
    Mistake(
        "columns-as-positions",
        ColumnsAsPositions,
        "The column of the padded batch is used as position. A row counts its own real tokens: 0, 1, 2, ...",
        killed_by="padding",
        seen_in="left-padded batches without position ids",
    ),
    Mistake("row-0-for-all", RowZeroForAll, "The padding of row 0 is used for every row.", "padding"),
    Mistake(
        "sorted-by-length",
        SortedByLength,
        "The rows come back sorted by their lengths. Row b of what you return must be row b of the batch.",
        killed_by="padding",
    ),
    Mistake(
        "lengths-count-padding",
        LengthsCountPadding,
        "`lengths` counts padding too. Add `real.sum(1)`, not T.",
        killed_by="padding",
    ),
    Mistake(
        "one-length-for-all",
        LongestLength,
        "`lengths` gives the longest row's length for every row. Each row has its own.",
        killed_by="padding",
    ),
    Mistake(
        "rows-share-one-length",
        SharedLength,
        "New tokens go behind the longest row in every row, so a gap opens in the short ones and is taken for tokens.",
        killed_by="rows go on",
    ),
    Mistake(
        "finished-row-goes-on",
        FinishedGoesOn,
        "In a step of one token every row stores it, finished or not. A row whose `real` is False stays as it is.",
        killed_by="rows go on",
        seen_in="generation loops that feed padding to finished rows",
    ),
    Mistake(
        "padding-to-the-last-slot",
        PaddingToLastSlot,
        "Padding is written to slot -1. That is the last slot, and in a full row it holds a token.",
        killed_by="full",
        seen_in="scatter with a slot mapping in which -1 means padding",
    ),
    Mistake(
        "room-counts-padding",
        RoomCountsPadding,
        "Padding is counted as if it took room, so a chunk that fits is refused. Count `real.sum(1)`.",
        killed_by="full",
    ),
    Mistake(
        "room-of-the-longest",
        RoomOfTheLongest,
        "The longest row and the largest number of new tokens are added, though they are of different rows.",
        killed_by="full",
    ),
    Mistake(
        "room-of-all-rows-together",
        RoomOfTheSum,
        "The rows' room is counted together: a token of a full row is counted and lost. Each row has its own limit.",
        killed_by="full",
    ),
    Mistake(
        "index-error",
        NeverRefuses,
        "Nothing checks for room: torch's IndexError comes through half-way. Check all rows first, raise ValueError.",
        killed_by="full",
    ),
    Mistake("only-row-0-checked", RowZeroOnly, "Only row 0 is checked for room. Any row may be the full one.", "full"),
    Mistake("drops-when-full", SilentlyDrops, "A full row drops the token and says nothing. Refuse.", "full"),
    Mistake("slides-when-full", SlidesWhenFull, "A full row pushes its oldest token out. Refuse.", "full"),
    Mistake(
        "half-written",
        RowByRow,
        "The rows before the full one are already written when it is refused. Check all rows before writing any.",
        killed_by="full",
    ),
    Mistake(
        "counts-before-refusing",
        CountsBeforeRefusing,
        "The refused tokens are counted all the same: check before you change anything.",
        killed_by="full",
    ),
    Mistake("one-too-few", OneTooFew, "It refuses one token too early: max_len tokens must fit in a row.", "full"),
    Mistake(
        "keeps-references",
        KeepsReferences,
        "Views of the caller's tensors are kept, not copies: when the caller reuses them, every kept row changes.",
        killed_by="reused tensors",
    ),
    Mistake(
        "zeros-the-callers-padding",
        CleansTheCaller,
        "The padding in the caller's own tensors is overwritten. Leave what you are given as it is.",
        killed_by="reused tensors",
    ),
    Mistake(
        "buffers-shared-by-all-caches",
        SharedBuffers,
        "Two caches write into the same buffers: they are made once for all. Make them in __init__.",
        killed_by="reused tensors",
        leaks=True,
    ),
    Mistake(
        "wide-chunk-refused",
        WideRefused,
        "A chunk wider than max_len is refused, though most of it is padding. Only real tokens take room.",
        killed_by="full",
    ),
    Mistake(
        "refused-tokens-shown",
        RefusedCounted,
        "After a refusal `lengths` shows the refused tokens too, though they are not held. Count after the check.",
        killed_by="full",
    ),
    Mistake(
        "positions-in-8-bits",
        PositionsInBytes,
        "Positions are kept in 8 bits, which end at 127. Use int64, as torch.arange gives them.",
        killed_by="full",
    ),
    Mistake(
        "no-lengths-at-first",
        LengthsFromFirstCall,
        "`lengths` is there only after the first call. A new cache holds 0 tokens in each row.",
        killed_by="equal rows",
    ),
    Mistake(
        "whole-chunk-kept",
        WholeChunkKept,
        "A first chunk without padding is kept as it came, not copied: when the caller reuses it, every row changes.",
        killed_by="reused tensors",
    ),
    Mistake(
        "limit-of-the-newest-cache",
        LimitOfTheNewest,
        "max_len is kept in the class, so that the cache made last sets it for all. Keep it in `self`.",
        killed_by="reused tensors",
    ),
)


class Scatter:
    """No loop: one indexed assignment for all rows; unwritten memory is left as it is found."""

    def __init__(self, batch_size, num_kv_heads, max_len, head_dim):
        self.data = torch.empty(batch_size, max_len, 2, num_kv_heads, head_dim, dtype=torch.float64)
        self.lengths = torch.zeros(batch_size, dtype=torch.int64)

    def append(self, k, v, real):
        after = self.lengths + real.sum(1)
        if (after > self.data.shape[1]).any():
            raise ValueError(f"{after.tolist()} of {self.data.shape[1]}")
        row, column = torch.where(real)
        slots = (self.lengths[:, None] + real.cumsum(1) - 1)[row, column]
        self.data[row, slots] = torch.stack((k, v), 1).permute(0, 3, 1, 2, 4)[row, column]  # (N, 2, Hkv, D)
        self.lengths = after
        columns = torch.arange(self.data.shape[1])
        K, V = self.data.permute(2, 0, 3, 1, 4)  # (B, Hkv, max_len, D) each: the whole buffer goes out
        return K, V, torch.where(columns < after[:, None], columns, -1)


class ListsOfRows:
    """A tensor for each row that grows; what goes out is padded on the left, in float32."""

    def __init__(self, batch_size, num_kv_heads, max_len, head_dim):
        self.max_len = max_len
        self.rows = [torch.zeros(2, num_kv_heads, 0, head_dim) for _ in range(batch_size)]

    @property
    def lengths(self):
        return [row.shape[2] for row in self.rows]

    def append(self, k, v, real):
        both = torch.stack((k, v), 1).float()  # (B, 2, Hkv, T, D)
        new = [torch.cat((old, rows[:, :, keep]), 2) for old, rows, keep in zip(self.rows, both, real)]
        if max(row.shape[2] for row in new) > self.max_len:
            raise ValueError("a row does not fit")
        self.rows = new
        S = max(self.lengths)
        padded = [torch.nn.functional.pad(row, (0, 0, S - row.shape[2], 0)) for row in new]
        K, V = torch.stack(padded, 1)
        positions = [[-1] * (S - n) + list(range(n)) for n in self.lengths]
        return [K, V, torch.tensor(positions).reshape(len(new), S)]


class OneCacheEach:
    """A closure for each row, newest token first: positions say so."""

    def __init__(self, batch_size, num_kv_heads, max_len, head_dim):
        self.tokens = [[] for _ in range(batch_size)]
        self.sizes = (batch_size, num_kv_heads, max_len, head_dim)
        self.lengths = torch.zeros(batch_size, dtype=torch.int32)

    def append(self, k, v, real):
        B, Hkv, max_len, D = self.sizes
        new = [[(k[b, :, t].clone(), v[b, :, t].clone()) for t in real[b].nonzero().flatten()] for b in range(B)]
        if any(len(old) + len(more) > max_len for old, more in zip(self.tokens, new)):
            raise type("NoRoom", (ValueError,), {})("no room")
        self.tokens = [old + more for old, more in zip(self.tokens, new)]
        self.lengths = torch.tensor([len(row) for row in self.tokens], dtype=torch.int32)
        K, V = torch.full((2, B, Hkv, max_len, D), float("inf"), dtype=torch.float64)
        positions = torch.full((B, max_len), -1)
        for b, row in enumerate(self.tokens):
            for i, (key, value) in enumerate(reversed(row)):
                K[b, :, i], V[b, :, i], positions[b, i] = key, value, len(row) - 1 - i
        return K, V, positions


class SpareSlot:
    """Padding is written too, to a slot behind the last that is never shown."""

    def __init__(self, batch_size, num_kv_heads, max_len, head_dim):
        self.both = torch.zeros(2, batch_size, num_kv_heads, max_len + 1, head_dim, dtype=torch.float64)
        self.count = torch.zeros(batch_size, 1, dtype=torch.int64)

    @property
    def lengths(self):
        return self.count[:, 0]

    def append(self, k, v, real):
        spare = self.both.shape[3] - 1
        slots = (self.count + real.cumsum(1) - 1).masked_fill(~real, spare)
        after = self.count + real.sum(1, keepdim=True)
        if after.max() > spare:
            raise ValueError("no room")
        both = torch.stack((k, v))
        self.both.scatter_(3, slots[None, :, None, :, None].expand_as(both), both)
        self.count, columns = after, torch.arange(spare + 1)
        return *self.both, columns.where(columns < after, -1)


class RightAligned:
    """Each row's newest token is in the last slot, and older ones move to the left."""

    def __init__(self, batch_size, num_kv_heads, max_len, head_dim):
        self.both = torch.zeros(2, batch_size, num_kv_heads, max_len, head_dim, dtype=torch.float64)
        self.lengths = torch.zeros(batch_size, dtype=torch.int64)

    def append(self, k, v, real):
        more, max_len = real.sum(1), self.both.shape[3]
        if bool(((self.lengths + more) > max_len).any()):
            raise ValueError("no room")
        for b, n in enumerate(more.tolist()):
            new = torch.stack((k[b], v[b]))[:, :, real[b]]
            self.both[:, b] = torch.cat((self.both[:, b, :, n:], new), 2)
        self.lengths = self.lengths + more
        positions = torch.arange(max_len) - (max_len - self.lengths[:, None])
        return self.both[0], self.both[1], positions.clamp(min=-1)


VARIANTS = (
    Variant("two buffers, plain loops", Base),
    Variant("one buffer, one indexed assignment", Scatter),
    Variant("a growing tensor for each row, padded on the left, float32", ListsOfRows),
    Variant("lists, newest token first", OneCacheEach),
    Variant("a spare slot for padding", SpareSlot),
    Variant("rows aligned to the right", RightAligned),
)
