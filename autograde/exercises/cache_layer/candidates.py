"""Wrong and right ways to write the layer. Each mistake changes one thing in `Base`."""

from __future__ import annotations

from autograde.exercise import Mistake, Variant
from autograde.lazy import torch


class Base:
    """Two buffers, made in the first update, and one counter."""

    def __init__(self, max_len):
        self.max_len, self.used = max_len, 0
        self.K = self.V = None

    def make(self, k, v):
        self.K, self.V = self.buffer(k), self.buffer(v)

    def buffer(self, rows):
        return rows.new_empty(rows.shape[0], rows.shape[1], self.rows(), rows.shape[3])

    def rows(self):
        return self.max_len

    def refuse(self, k, v):
        self.refuse_room(k, v)
        self.refuse_shapes(k, v)
        self.refuse_dtypes(k, v)

    def refuse_room(self, k, v):
        if self.used + k.shape[2] > self.max_len:
            raise ValueError(f"holds {self.used} of {self.max_len} tokens, {k.shape[2]} more asked")

    def refuse_shapes(self, k, v):
        if k.shape[:3] != v.shape[:3]:
            raise ValueError("k and v do not belong together")
        for rows, buffer in ((k, self.K), (v, self.V)):
            if buffer is not None and (rows.shape[:2] != buffer.shape[:2] or rows.shape[3] != buffer.shape[3]):
                raise ValueError(f"holds {tuple(buffer.shape)}, got {tuple(rows.shape)}")

    def refuse_dtypes(self, k, v):
        for rows, buffer in ((k, self.K), (v, self.V)):
            if buffer is not None and rows.dtype != buffer.dtype:
                raise ValueError(f"holds {buffer.dtype}, got {rows.dtype}")

    def update(self, k, v, *ignored):
        self.refuse(k, v)
        if self.K is None:
            self.make(k, v)
        end = self.used + k.shape[2]
        self.write(k, v, self.used, end)
        self.used = end
        return self.shown(k, v, end)

    def write(self, k, v, start, end):
        self.K[:, :, start:end] = k
        self.V[:, :, start:end] = v

    def shown(self, k, v, end):
        return self.K[:, :, :end], self.V[:, :, :end]

    def get_seq_length(self):
        return self.used

    def get_max_length(self):
        return self.max_len

    def get_mask_sizes(self, query_length):
        return self.used + query_length, 0

    def crop(self, n):
        if n > 0:
            raise ValueError(f"crop takes 0 or less, got {n}")
        self.used = max(0, self.used + n)

    def move(self, change):
        if self.used:
            self.K, self.V = change(self.K), change(self.V)

    def reorder_cache(self, rows):
        self.move(lambda buffer: buffer[rows])

    def batch_repeat_interleave(self, n):
        self.move(lambda buffer: buffer.repeat_interleave(n, dim=0))

    def batch_select_indices(self, rows):
        self.move(lambda buffer: buffer[rows])

    def reset(self):
        self.used = 0
        self.K = self.V = None


class FixedAnewWhenEmpty(Base):
    """As long as nothing is held, any sizes will do."""

    def update(self, k, v, *ignored):
        self.refuse_room(k, v)
        if self.used == 0:
            self.K = self.V = None
        return super().update(k, v, *ignored)


class MovesWhenEmpty(Base):
    """Whether there are buffers is asked, not whether they hold anything."""

    def move(self, change):
        if self.K is not None:
            self.K, self.V = change(self.K), change(self.V)


class FirstNotCompared(Base):
    """k and v are held against the buffers, and there are none in the first call."""

    def refuse_shapes(self, k, v):
        if self.K is not None:
            super().refuse_shapes(k, v)


class LooksOnlyAtFirst(Base):
    """Whether rows are compared with the buffers is switched off at some point."""

    looks = True

    def refuse_shapes(self, k, v):
        if self.looks:
            super().refuse_shapes(k, v)

    def refuse_dtypes(self, k, v):
        if self.looks:
            super().refuse_dtypes(k, v)


class MovedUnchecked(LooksOnlyAtFirst):
    def move(self, change):
        self.looks = self.looks and not self.used
        super().move(change)


class ResetUnchecked(LooksOnlyAtFirst):
    """Only the sizes of the first text are looked at."""

    def reset(self):
        super().reset()
        self.looks = False


class SelectsOnce(Base):
    """A sequence that is named twice is held once."""

    def batch_select_indices(self, rows):
        self.move(lambda buffer: buffer[list(dict.fromkeys(rows.tolist()))])


# What update returns and writes.


class WholeBuffer(Base):
    def shown(self, k, v, end):
        return self.K, self.V


class OldRowsOnly(Base):
    def shown(self, k, v, end):
        return super().shown(k, v, end - k.shape[2])


class NewRowsOnly(Base):
    def shown(self, k, v, end):
        return k.clone(), v.clone()


class OneTokenLate(Base):
    def shown(self, k, v, end):
        return super().shown(k, v, end - 1)


class Swapped(Base):
    def shown(self, k, v, end):
        return super().shown(k, v, end)[::-1]


class NewestFirst(Base):
    def shown(self, k, v, end):
        K, V = super().shown(k, v, end)
        return K.flip(2), V.flip(2)


class TokensBeforeHeads(Base):
    def shown(self, k, v, end):
        K, V = super().shown(k, v, end)
        return K.transpose(1, 2), V.transpose(1, 2)


class ReturnsNothing(Base):
    def shown(self, k, v, end):
        return None


class ValuesAreKeys(Base):
    def write(self, k, v, start, end):
        super().write(k, k if k.shape == v.shape else v, start, end)


class OneWidth(Base):
    def make(self, k, v):
        self.K, self.V = self.buffer(k), self.buffer(k)
        self.V = self.V.to(v.dtype)


class AlwaysFromZero(Base):
    def write(self, k, v, start, end):
        super().write(k, v, 0, end - start)


class CountsCalls(Base):
    def update(self, k, v, *ignored):
        shown = super().update(k, v)
        self.used += 1 - k.shape[2]
        return shown


class NeverCounts(Base):
    """Waits for an advance() that nobody calls."""

    def update(self, k, v, *ignored):
        shown = super().update(k, v)
        self.used -= k.shape[2]
        return shown


class LastTokenOnly(Base):
    def write(self, k, v, start, end):
        super().write(k[:, :, -1:], v[:, :, -1:], start, end)


class NoMoreArguments(Base):
    def update(self, k, v):
        return super().update(k, v)


class FirstHeadForAll(Base):
    def write(self, k, v, start, end):
        super().write(k[:, :1], v[:, :1], start, end)


class KeepsTheFirstRows(Base):
    """The first rows are kept as they came, and copied when the second ones come."""

    first = None

    def write(self, k, v, start, end):
        if start == 0:
            self.first = k, v
            return
        if self.first is not None:
            super().write(*self.first, 0, start)
            self.first = None
        super().write(k, v, start, end)

    def shown(self, k, v, end):
        return (k, v) if self.first is not None else super().shown(k, v, end)


class BuffersOfTheClass(Base):
    """All layers write into the same memory."""

    shared = {}

    def make(self, k, v):
        key = (k.shape[:2], k.shape[3], v.shape[3], self.max_len, k.dtype)
        if key not in self.shared:
            self.shared[key] = self.buffer(k), self.buffer(v)
        self.K, self.V = self.shared[key]


# How many.


class LengthIsRoom(Base):
    def get_seq_length(self):
        return self.max_len if self.K is not None else 0


class LengthOfAllRows(Base):
    def get_mask_sizes(self, query_length):
        return (self.used if self.K is None else self.used * self.K.shape[0]) + query_length, 0


class NoMaximum(Base):
    def get_max_length(self):
        return -1


class RoomLeft(Base):
    def get_max_length(self):
        return self.max_len - self.used


class MaskWithoutTheNew(Base):
    def get_mask_sizes(self, query_length):
        return self.used, 0


class MaskOfTheNew(Base):
    def get_mask_sizes(self, query_length):
        return query_length, 0


class MaskOfTheWholeBuffer(Base):
    def get_mask_sizes(self, query_length):
        return self.max_len, 0


class MaskFromTheHeld(Base):
    def get_mask_sizes(self, query_length):
        return self.used + query_length, self.used


class MaskNewFromHeld(Base):
    def get_mask_sizes(self, query_length):
        return query_length, self.used


class MaskSwapped(Base):
    def get_mask_sizes(self, query_length):
        return 0, self.used + query_length


class MaskOneNumber(Base):
    def get_mask_sizes(self, query_length):
        return self.used + query_length


class MaskBeforeTheFirstUpdate(Base):
    def get_mask_sizes(self, query_length):
        return self.K[:, :, : self.used].shape[2] + query_length, 0


# Memory.


class Concatenates(Base):
    def make(self, k, v):
        self.K, self.V = k[:, :, :0].clone(), v[:, :, :0].clone()

    def write(self, k, v, start, end):
        self.K = torch.cat([self.K[:, :, :start], k], dim=2)
        self.V = torch.cat([self.V[:, :, :start], v], dim=2)


class Doubles(Base):
    def make(self, k, v):
        self.K, self.V = (x.new_empty(*x.shape[:2], 8, x.shape[3]) for x in (k, v))

    def write(self, k, v, start, end):
        while self.K.shape[2] < end:
            self.K, self.V = (torch.cat([x, torch.empty_like(x)], dim=2) for x in (self.K, self.V))
        super().write(k, v, start, end)


class MadeAtEachCall(Base):
    def write(self, k, v, start, end):
        old = self.K, self.V
        self.make(k, v)
        super().write(old[0][:, :, :start], old[1][:, :, :start], 0, start)
        super().write(k, v, start, end)


class PowerOfTwo(Base):
    def rows(self):
        return 1 << (self.max_len - 1).bit_length()


class OneRowMore(Base):
    def rows(self):
        return self.max_len + 1


class CopiesOnReturn(Base):
    def shown(self, k, v, end):
        K, V = super().shown(k, v, end)
        return K.clone(), V.clone()


class KeepsTheChunk(Base):
    def shown(self, k, v, end):
        self.last = k.clone(), v.clone()
        return super().shown(k, v, end)


class AlwaysFloat32(Base):
    def buffer(self, rows):
        return super().buffer(rows.float())

    def refuse_dtypes(self, k, v):
        pass

    def shown(self, k, v, end):
        K, V = super().shown(k, v, end)
        return K.to(k.dtype), V.to(v.dtype)


class AlwaysFloat64(AlwaysFloat32):
    def buffer(self, rows):
        return Base.buffer(self, rows.double())


class CommonWidth(Base):
    """Both buffers are as wide as the wider of the two."""

    def make(self, k, v):
        self.widths = k.shape[3], v.shape[3]
        wide = torch.empty(*k.shape[:3], max(self.widths), dtype=k.dtype)
        self.K, self.V = self.buffer(wide), self.buffer(wide)

    def refuse_shapes(self, k, v):
        if self.K is not None and (k.shape[:2] != self.K.shape[:2] or (k.shape[3], v.shape[3]) != self.widths):
            raise ValueError("other rows")
        if k.shape[:3] != v.shape[:3]:
            raise ValueError("k and v do not belong together")

    def write(self, k, v, start, end):
        super_write = Base.write
        K, V = self.K, self.V
        self.K, self.V = K[..., : self.widths[0]], V[..., : self.widths[1]]
        super_write(self, k, v, start, end)
        self.K, self.V = K, V

    def shown(self, k, v, end):
        return self.K[:, :, :end, : self.widths[0]], self.V[:, :, :end, : self.widths[1]]


# Refusals.


class NoRoomCheck(Base):
    def refuse_room(self, k, v):
        if k.shape[2] > self.max_len:
            raise ValueError("never fits")


class ChecksOnlyWhenFull(Base):
    def refuse_room(self, k, v):
        if self.used >= self.max_len or k.shape[2] > self.max_len:
            raise ValueError("full")


class OneSlotUnused(Base):
    def refuse_room(self, k, v):
        if self.used + k.shape[2] >= self.max_len:
            raise ValueError("full")


class Clamps(Base):
    """Takes as many tokens as fit."""

    def update(self, k, v, *ignored):
        room = self.max_len - self.used
        return super().update(k[:, :, :room], v[:, :, :room])


class DropsTheOldest(Base):
    """Slides when it is full."""

    def update(self, k, v, *ignored):
        over = self.used + k.shape[2] - self.max_len
        if over > 0 and self.K is not None and k.shape[2] <= self.max_len:
            self.K, self.V = self.K.roll(-over, 2), self.V.roll(-over, 2)
            self.used -= over
        return super().update(k, v)


class CountsWhatItRefuses(Base):
    def update(self, k, v, *ignored):
        if self.used + k.shape[2] > self.max_len and self.K is not None:
            self.used += k.shape[2]
            raise ValueError("full")
        return super().update(k, v)


class MakesMemoryFirst(Base):
    """The buffers are made before the room is checked: a refused first call fixes the sizes."""

    def update(self, k, v, *ignored):
        if self.K is None:
            self.make(k, v)
        return super().update(k, v)


class ForgetsWhenFull(Base):
    def refuse_room(self, k, v):
        if self.used + k.shape[2] > self.max_len:
            self.used = 0
            raise ValueError("full")


class AnotherException(Base):
    def refuse_room(self, k, v):
        if self.used + k.shape[2] > self.max_len:
            raise MemoryError("full")


class NoDtypeCheck(Base):
    def refuse_dtypes(self, k, v):
        pass


class DtypeOfKeysOnly(Base):
    def refuse_dtypes(self, k, v):
        super().refuse_dtypes(k, self.V)


class Converts(Base):
    """float32 rows are taken by a float64 layer, not the other way round."""

    def refuse_dtypes(self, k, v):
        super().refuse_dtypes(*(x.double() if x.dtype == torch.float32 else x for x in (k, v)))

    def update(self, k, v, *ignored):
        if self.K is not None and self.K.dtype == torch.float32:
            Base.refuse_dtypes(self, k, v)
        if self.K is None or self.K.dtype == torch.float32:
            self.refuse_dtypes = lambda k, v: None
        else:
            self.refuse_dtypes = lambda k, v: Converts.refuse_dtypes(self, k, v)
        return super().update(k, v)


class NoShapeCheck(Base):
    def refuse_shapes(self, k, v):
        pass


class ShapesOfKeysOnly(Base):
    def refuse_shapes(self, k, v):
        if self.K is not None:
            super().refuse_shapes(k, self.V[:, :, :1].expand(-1, -1, k.shape[2], -1) if self.fits(k) else k)

    def fits(self, k):
        return k.shape[:2] == self.V.shape[:2]


class BatchNotChecked(Base):
    """One sequence is spread over all."""

    def refuse_shapes(self, k, v):
        if self.K is not None:
            k, v = (x.expand(self.K.shape[0], -1, -1, -1) if x.shape[0] == 1 else x for x in (k, v))
        super().refuse_shapes(k, v)


class HeadsNotChecked(Base):
    """One KV head is spread over all."""

    def refuse_shapes(self, k, v):
        if self.K is not None:
            k, v = (x.expand(-1, self.K.shape[1], -1, -1) if x.shape[1] == 1 else x for x in (k, v))
        super().refuse_shapes(k, v)


class WidthNotChecked(Base):
    """One feature is spread over all."""

    def refuse_shapes(self, k, v):
        if self.K is not None:
            pairs = ((k, self.K), (v, self.V))
            k, v = (x.expand(-1, -1, -1, old.shape[3]) if x.shape[3] == 1 else x for x, old in pairs)
        super().refuse_shapes(k, v)


class TokensNotCompared(Base):
    """One value is spread over all tokens of k."""

    def refuse_shapes(self, k, v):
        T = max(k.shape[2], v.shape[2])
        k, v = (x.expand(-1, -1, T, -1) if x.shape[2] == 1 else x for x in (k, v))
        super().refuse_shapes(k, v)


# crop.


class CropKeeps(Base):
    """-2 keeps two tokens."""

    def crop(self, n):
        super().crop(min(0, -n - self.used) if n < 0 else n)


class CropTakesLengths(Base):
    """As older versions: above 0 it is the length to keep."""

    def crop(self, n):
        super().crop(min(0, n - self.used) if n > 0 else n)


class CropTakesBothSigns(Base):
    def crop(self, n):
        super().crop(-abs(n))


class CropAdds(Base):
    def crop(self, n):
        if n > 0:
            raise ValueError("above 0")
        self.used = min(self.max_len, self.used - n) if self.K is not None else 0


class CropOfNothingIsAll(Base):
    """[: -0] is empty."""

    def crop(self, n):
        super().crop(n)
        self.used = self.used if n else 0


class CropRefusesMore(Base):
    def crop(self, n):
        if self.used and -n > self.used:
            raise ValueError("more than held")
        super().crop(n)


class CropBelowZero(Base):
    def crop(self, n):
        if n > 0:
            raise ValueError("above 0")
        self.used = self.used + n if self.K is not None else 0


class CropIgnoresMore(Base):
    def crop(self, n):
        super().crop(n if -n <= self.used else 0)


class CropsOldest(Base):
    def crop(self, n):
        super().crop(n)
        if self.K is not None and n < 0:
            self.K, self.V = self.K.roll(n, 2), self.V.roll(n, 2)


class CropZeroes(Base):
    """The rows are overwritten with zeros, and still held."""

    def crop(self, n):
        if n > 0:
            raise ValueError("above 0")
        if self.K is not None and n < 0:
            start = max(0, self.used + n)
            self.K[:, :, start : self.used] = 0
            self.V[:, :, start : self.used] = 0


class CropBeforeTheFirst(Base):
    def crop(self, n):
        super().crop(max(n, -self.K.shape[2]))


class CropCutsTheBuffer(Base):
    def crop(self, n):
        super().crop(n)
        if self.K is not None and n < 0:
            self.K, self.V = self.K[:, :, : self.used], self.V[:, :, : self.used]


class CropOneMore(Base):
    def crop(self, n):
        super().crop(n - 1 if n < 0 else n)


class CropIgnored(Base):
    def crop(self, n):
        if n > 0:
            raise ValueError("above 0")


class CropIgnoresWrong(Base):
    def crop(self, n):
        if n <= 0:
            super().crop(n)


class CropsKeysOnly(Base):
    """K is written at the shorter length, V where it was."""

    ahead = 0

    def crop(self, n):
        before = self.used
        super().crop(n)
        self.ahead += before - self.used

    def write(self, k, v, start, end):
        self.K[:, :, start:end] = k
        last = min(self.max_len, end + self.ahead)
        self.V[:, :, last - k.shape[2] : last] = v

    def reset(self):
        super().reset()
        self.ahead = 0


# Sequences.


class ReorderIgnored(Base):
    def reorder_cache(self, rows):
        pass


class ReorderKeysOnly(Base):
    def reorder_cache(self, rows):
        if self.used:
            self.K = self.K[rows]


class ReorderValuesOnly(Base):
    def reorder_cache(self, rows):
        if self.used:
            self.V = self.V[rows]


class ReorderScatters(Base):
    """Sequence b goes to place rows[b], where it should come from there."""

    def reorder_cache(self, rows):
        if self.used:
            K, V = self.K.clone(), self.V.clone()
            for b, row in enumerate(rows.tolist()):
                K[row], V[row] = self.K[b], self.V[b]
            self.K, self.V = K, V


class ReorderInPlace(Base):
    """Row by row in place: later rows read what was overwritten."""

    def reorder_cache(self, rows):
        if self.used:
            for b, row in enumerate(rows.tolist()):
                self.K[b], self.V[b] = self.K[row], self.V[row]


class ReorderNewestOnly(Base):
    def reorder_cache(self, rows):
        if self.used:
            for buffer in (self.K, self.V):
                buffer[:, :, self.used - 1] = buffer[rows, :, self.used - 1]


class ReorderCuts(Base):
    """Only the rows in use are kept: no room is left."""

    def reorder_cache(self, rows):
        self.move(lambda buffer: buffer[rows, :, : self.used])


class ReorderAlongHeads(Base):
    def reorder_cache(self, rows):
        self.move(lambda buffer: buffer[:, rows % buffer.shape[1]][:, : buffer.shape[1]])


class ReorderSorts(Base):
    def reorder_cache(self, rows):
        super().reorder_cache(rows.sort().values)


class Tiles(Base):
    def batch_repeat_interleave(self, n):
        self.move(lambda buffer: buffer.repeat(n, 1, 1, 1))


class RepeatsHeads(Base):
    def batch_repeat_interleave(self, n):
        self.move(lambda buffer: buffer.repeat_interleave(n, dim=1))


class RepeatIgnored(Base):
    def batch_repeat_interleave(self, n):
        pass


class RepeatAddsN(Base):
    """n copies beside the original."""

    def batch_repeat_interleave(self, n):
        super().batch_repeat_interleave(n + 1)


class RepeatLosesRows(Base):
    """New buffers of the right size, and what was held is not copied."""

    def batch_repeat_interleave(self, n):
        self.move(lambda buffer: torch.zeros_like(buffer.repeat_interleave(n, dim=0)))


class RepeatKeysOnly(Base):
    def batch_repeat_interleave(self, n):
        if self.used:
            self.K = self.K.repeat_interleave(n, dim=0)


class SelectIgnored(Base):
    def batch_select_indices(self, rows):
        pass


class SelectDrops(Base):
    def batch_select_indices(self, rows):
        gone = set(rows.tolist())
        self.move(lambda buffer: buffer[[b for b in range(len(buffer)) if b not in gone]])


class SelectSorts(Base):
    def batch_select_indices(self, rows):
        super().batch_select_indices(rows.sort().values)


class SelectFirst(Base):
    """As many sequences as asked for, from the first on."""

    def batch_select_indices(self, rows):
        self.move(lambda buffer: buffer[: len(rows)].clone())


class SelectKeepsMemory(Base):
    """The sequences that are gone stay in memory."""

    def move_in(self, buffer, rows):
        buffer[: len(rows)] = buffer[rows]
        return buffer[: len(rows)]

    def batch_select_indices(self, rows):
        self.move(lambda buffer: self.move_in(buffer, rows))


class BatchRemembered(Base):
    """The number of sequences is noted in the first update and never again."""

    batch = None

    def make(self, k, v):
        self.batch = k.shape[0]
        super().make(k, v)

    def refuse_shapes(self, k, v):
        if self.batch not in (None, k.shape[0]):
            raise ValueError("another number of sequences")
        super().refuse_shapes(k, v)

    def reset(self):
        super().reset()
        self.batch = None


class MovesNothingYet(Base):
    """An empty layer has no first axis."""

    def move(self, change):
        self.K, self.V = change(self.K), change(self.V)


class MovesForgetTheLength(Base):
    def move(self, change):
        super().move(change)
        self.used = 0


class SelectForgetsTheLength(Base):
    def batch_select_indices(self, rows):
        super().batch_select_indices(rows)
        self.used = 0


# reset.


class ResetKeepsBuffers(Base):
    def reset(self):
        self.used = 0


class ResetZeroes(Base):
    """The rows are zeros, and still counted."""

    def reset(self):
        if self.K is not None:
            self.K.zero_()
            self.V.zero_()


class ResetBeforeTheFirst(Base):
    def reset(self):
        self.K.zero_()
        super().reset()


class ResetForgetsRoom(Base):
    def reset(self):
        if self.K is not None:
            self.max_len = self.used
        super().reset()


class ResetKeepsTheCount(Base):
    def reset(self):
        self.K = self.V = None


class ResetKeepsDtype(Base):
    """Sizes may change after a reset, the dtype may not."""

    old = None

    def make(self, k, v):
        super().make(k, v)
        self.old = self.old or k.dtype

    def refuse_dtypes(self, k, v):
        if self.old not in (None, k.dtype):
            raise ValueError("another dtype")
        super().refuse_dtypes(k, v)


class ResetKeepsBatch(Base):
    """Only the number of sequences may not change."""

    old = None

    def make(self, k, v):
        if self.old not in (None, k.shape[0]):
            raise ValueError("another number of sequences")
        self.old = k.shape[0]
        super().make(k, v)

    def move(self, change):
        super().move(change)
        self.old = None if self.K is None else len(self.K)


class ResetIgnored(Base):
    """Nothing at all happens: the old rows are still there."""

    def reset(self):
        if self.K is not None and not hasattr(self, "quiet"):
            self.quiet = True


MISTAKES = (
    Mistake(
        "whole-buffer",
        WholeBuffer,
        "You return all `max_len` rows. Return those that are held, `[:, :, :end]`.",
        "update",
    ),
    Mistake(
        "old-rows-only", OldRowsOnly, "The new rows are missing in what you return. A token sees itself too.", "update"
    ),
    Mistake(
        "new-rows-only",
        NewRowsOnly,
        "You return the new rows alone. The queries need all older ones as well.",
        "update",
    ),
    Mistake("one-token-late", OneTokenLate, "The newest row is missing in what you return.", "update"),
    Mistake("swapped", Swapped, "V comes back first. Return K, then V.", "update"),
    Mistake(
        "newest-first",
        NewestFirst,
        "The newest row comes first. Masks are made for rows in order, oldest first.",
        "update",
    ),
    Mistake(
        "tokens-before-heads",
        TokensBeforeHeads,
        "Tokens and heads are exchanged in what you return: (B, Hkv, S, D) is asked.",
        "update",
    ),
    Mistake(
        "returns-nothing", ReturnsNothing, "`update` returns nothing. It returns K and V of all tokens held.", "update"
    ),
    Mistake("values-are-keys", ValuesAreKeys, "Keys are written where the values belong.", "update"),
    Mistake(
        "one-width",
        OneWidth,
        "V's buffer is as wide as K's. Values may have another last width: take it from `v`.",
        "update",
        seen_in="caches written for models whose keys and values are alike, used with latent ones",
    ),
    Mistake(
        "always-from-zero",
        AlwaysFromZero,
        "Each call writes from row 0 on. New rows follow those that are held.",
        "update",
    ),
    Mistake("counts-calls", CountsCalls, "The counter moves on by 1 in each call. It moves on by T.", "update"),
    Mistake(
        "never-counts",
        NeverCounts,
        "`update` does not count its tokens. There is no `advance` here: a layer counts by itself.",
        "update",
    ),
    Mistake(
        "last-token-only",
        LastTokenOnly,
        "A chunk's last row is spread over all its places. Write all T rows.",
        "update",
    ),
    Mistake(
        "no-more-arguments",
        NoMoreArguments,
        "`update` takes k and v only. Transformers may pass more behind them: accept and ignore it.",
        "update",
        seen_in="custom layers after the library added an argument",
    ),
    Mistake("first-head-for-all", FirstHeadForAll, "The first KV head's rows are written for all heads.", "update"),
    Mistake(
        "keeps-the-first-rows",
        KeepsTheFirstRows,
        "The first rows are kept as they came, not copied: when the caller reuses its tensors, they change.",
        "update",
    ),
    Mistake(
        "one-memory-for-all-layers",
        BuffersOfTheClass,
        "Two layers write into the same memory, which belongs to the class. Make it for each object.",
        "update",
    ),
    Mistake(
        "length-is-room",
        LengthIsRoom,
        "`get_seq_length` says how much room there is. It is the number of tokens held.",
        "update",
    ),
    Mistake(
        "length-of-all-sequences",
        LengthOfAllRows,
        "The mask counts the tokens of all sequences together. Count those of one.",
        "how many",
    ),
    Mistake(
        "no-maximum",
        NoMaximum,
        "`get_max_length` says -1, that is no maximum. This layer has one: `max_len`.",
        "how many",
        seen_in="copies of DynamicLayer",
    ),
    Mistake("room-left", RoomLeft, "`get_max_length` says how much room is left. It is `max_len`, always.", "how many"),
    Mistake(
        "mask-without-the-new",
        MaskWithoutTheNew,
        "The mask is for the tokens held only. The new ones are keys too: add `query_length`.",
        "how many",
    ),
    Mistake(
        "mask-of-the-new",
        MaskOfTheNew,
        "The mask is for the new tokens only. They see those that are held too.",
        "how many",
    ),
    Mistake(
        "mask-of-the-whole-buffer",
        MaskOfTheWholeBuffer,
        "The mask is for `max_len` keys, but `update` returns only those held.",
        "how many",
        seen_in="StaticLayer, whose update returns the whole buffer",
    ),
    Mistake(
        "mask-offset-is-length",
        MaskFromTheHeld,
        "The second number is where the first *key* stands, not the first query: always 0.",
        "how many",
    ),
    Mistake(
        "mask-of-the-new-alone",
        MaskNewFromHeld,
        "You give number and position of the new tokens. Asked are those of all keys: (S + query_length, 0).",
        "how many",
    ),
    Mistake(
        "mask-swapped",
        MaskSwapped,
        "The two numbers are exchanged: first how many keys, then the position of the first.",
        "how many",
    ),
    Mistake(
        "mask-one-number",
        MaskOneNumber,
        "`get_mask_sizes` returns one number. It returns two, (S + query_length, 0).",
        "how many",
    ),
    Mistake(
        "mask-before-the-first-update",
        MaskBeforeTheFirstUpdate,
        "`get_mask_sizes` fails in a new layer. The mask is made before the first `update`: count without the buffers.",
        "how many",
    ),
    Mistake(
        "concatenates",
        Concatenates,
        "`torch.cat` copies all rows at each token. Make the memory once, and write the new rows into it.",
        "memory",
        seen_in="DynamicLayer, at a threefold step time for long texts",
    ),
    Mistake(
        "doubles", Doubles, "The buffer grows as needed. Make it for `max_len` tokens in the first `update`.", "memory"
    ),
    Mistake(
        "made-at-each-call",
        MadeAtEachCall,
        "Each call makes a new buffer and copies all rows into it. Make it in the first call only.",
        "memory",
    ),
    Mistake(
        "power-of-two", PowerOfTwo, "The buffer is rounded up to a power of two. Make it of `max_len` rows.", "memory"
    ),
    Mistake("one-row-more", OneRowMore, "The buffer has one row more than `max_len`.", "memory"),
    Mistake(
        "copies-on-return",
        CopiesOnReturn,
        "All rows are copied to be returned. A slice of the buffer is enough.",
        "memory",
    ),
    Mistake("keeps-the-chunk", KeepsTheChunk, "The newest rows are kept twice, in the buffer and beside it.", "memory"),
    Mistake(
        "always-float32",
        AlwaysFloat32,
        "The buffers are float32, whatever comes. Take the dtype of the first k and v.",
        "memory",
    ),
    Mistake(
        "always-float64",
        AlwaysFloat64,
        "The buffers are float64, whatever comes. Take the dtype of the first k and v.",
        "memory",
    ),
    Mistake(
        "common-width",
        CommonWidth,
        "Both buffers are as wide as the wider of K and V. Give each its own width.",
        "memory",
    ),
    Mistake(
        "no-room-check",
        NoRoomCheck,
        "A full layer takes more: writing one row past the end of a slice is silent. Compare S + T with `max_len` first.",
        "refusals",
    ),
    Mistake(
        "checks-only-when-full",
        ChecksOnlyWhenFull,
        "Only a layer that is full already refuses. Check whether all T tokens fit.",
        "refusals",
    ),
    Mistake(
        "one-slot-unused", OneSlotUnused, "The last slot is never used: S + T may be equal to `max_len`.", "refusals"
    ),
    Mistake(
        "takes-what-fits", Clamps, "Tokens that do not fit are dropped in silence. Refuse all of them.", "refusals"
    ),
    Mistake(
        "drops-the-oldest", DropsTheOldest, "A full layer drops its oldest tokens. It is no window: refuse.", "refusals"
    ),
    Mistake(
        "counts-what-it-refuses",
        CountsWhatItRefuses,
        "A refused call is counted all the same. Count after all checks.",
        "refusals",
    ),
    Mistake(
        "memory-made-first",
        MakesMemoryFirst,
        "A first call that is refused fixes the sizes. Check the room before you make the buffers.",
        "refusals",
    ),
    Mistake("forgets-when-full", ForgetsWhenFull, "A refused call empties the layer. It changes nothing.", "refusals"),
    Mistake("another-exception", AnotherException, "No room is a `ValueError`, not something else.", "refusals"),
    Mistake("no-dtype-check", NoDtypeCheck, "Rows of another dtype are cast in silence. Refuse them.", "refusals"),
    Mistake("dtype-of-keys-only", DtypeOfKeysOnly, "The dtype of k is checked, that of v is not.", "refusals"),
    Mistake(
        "widening-is-taken",
        Converts,
        "float32 rows are taken into a float64 layer. Another dtype is refused, wider or narrower.",
        "refusals",
    ),
    Mistake(
        "no-shape-check",
        NoShapeCheck,
        "Shapes are not checked: torch spreads a single row over all. Compare B, Hkv, T and D.",
        "refusals",
    ),
    Mistake("shapes-of-keys-only", ShapesOfKeysOnly, "The shape of k is checked, that of v is not.", "refusals"),
    Mistake("one-sequence-for-all", BatchNotChecked, "One sequence is spread over all. Refuse another B.", "refusals"),
    Mistake(
        "one-head-for-all",
        HeadsNotChecked,
        "One KV head is spread over all. Refuse another number of heads.",
        "refusals",
    ),
    Mistake(
        "one-feature-for-all",
        WidthNotChecked,
        "A head dim of 1 is spread over all features. Refuse another D.",
        "refusals",
    ),
    Mistake(
        "one-row-for-all-tokens",
        TokensNotCompared,
        "k and v may have different numbers of tokens: one row is spread over all. Compare them.",
        "refusals",
    ),
    Mistake(
        "first-call-not-compared",
        FirstNotCompared,
        "In the first call you do not compare k with v: one value is spread over all tokens. B, Hkv and T must agree.",
        "refusals",
    ),
    Mistake(
        "fixed-anew-when-empty",
        FixedAnewWhenEmpty,
        "When `crop` has left nothing you take any sizes. The first `update` fixed them, and only `reset` frees them.",
        "crop",
    ),
    Mistake(
        "moves-when-empty",
        MovesWhenEmpty,
        "You move sequences after `crop` has left nothing, and B changes. Ask how many tokens are held.",
        "sequences",
    ),
    Mistake(
        "unchecked-after-a-move",
        MovedUnchecked,
        "After sequences were moved, rows of any size are taken. Compare them with the buffers as they are now.",
        "sequences",
    ),
    Mistake(
        "selects-once",
        SelectsOnce,
        "A sequence that is named twice is held once. Hold one for each number in `rows`.",
        "sequences",
    ),
    Mistake(
        "unchecked-after-reset",
        ResetUnchecked,
        "After `reset` rows of any size are taken. The next `update` fixes the sizes again.",
        "reset",
    ),
    Mistake("crop-keeps", CropKeeps, "`crop(-2)` keeps two tokens. It removes two.", "crop"),
    Mistake(
        "crop-takes-lengths",
        CropTakesLengths,
        "A number above 0 is taken for the length to keep, as in older versions. Now it is refused.",
        "crop",
        seen_in="code written for Transformers 4",
    ),
    Mistake(
        "crop-takes-both-signs",
        CropTakesBothSigns,
        "`crop(2)` removes two tokens. Only -2 does, and 2 is refused.",
        "crop",
    ),
    Mistake("crop-adds", CropAdds, "`crop(-2)` makes the layer longer: subtracting a number below 0 adds.", "crop"),
    Mistake(
        "crop-of-nothing-is-all",
        CropOfNothingIsAll,
        "`crop(0)` removes everything: `[: -0]` is empty. It removes nothing.",
        "crop",
    ),
    Mistake(
        "crop-refuses-more", CropRefusesMore, "Removing more than is held raises. The layer is empty then.", "crop"
    ),
    Mistake(
        "crop-below-zero", CropBelowZero, "After removing more than is held the length is below 0. Stop at 0.", "crop"
    ),
    Mistake(
        "crop-ignores-more",
        CropIgnoresMore,
        "Removing more than is held removes nothing. The layer is empty then.",
        "crop",
    ),
    Mistake("crops-oldest", CropsOldest, "The oldest tokens go. The newest must.", "crop"),
    Mistake(
        "crop-zeroes",
        CropZeroes,
        "The rows become zeros, and are still held: they still get weight. Move the counter back.",
        "crop",
    ),
    Mistake(
        "crop-before-the-first",
        CropBeforeTheFirst,
        "`crop` fails in a layer that was never updated. Nothing happens there.",
        "crop",
    ),
    Mistake(
        "crop-cuts-the-buffer",
        CropCutsTheBuffer,
        "The buffer itself is cut, so that no room is left. Move the counter only.",
        "crop",
    ),
    Mistake("crop-one-more", CropOneMore, "`crop` removes one token too many.", "crop"),
    Mistake("crop-ignored", CropIgnored, "`crop` removes nothing.", "crop"),
    Mistake(
        "crop-ignores-wrong", CropIgnoresWrong, "A number above 0 is ignored in silence. Raise a `ValueError`.", "crop"
    ),
    Mistake(
        "crops-keys-only",
        CropsKeysOnly,
        "After `crop` K goes on at the shorter length, V where it was. Keep one counter for both.",
        "crop",
    ),
    Mistake(
        "reorder-ignored",
        ReorderIgnored,
        "`reorder_cache` does nothing: beams go on from other beams' rows.",
        "sequences",
    ),
    Mistake(
        "reorder-keys-only",
        ReorderKeysOnly,
        "`reorder_cache` moves K only. V belongs to the same sequences.",
        "sequences",
    ),
    Mistake(
        "reorder-values-only",
        ReorderValuesOnly,
        "`reorder_cache` moves V only. K belongs to the same sequences.",
        "sequences",
    ),
    Mistake(
        "reorder-scatters",
        ReorderScatters,
        "Sequence b is sent to place rows[b]. It must come from there: `K[rows]`.",
        "sequences",
    ),
    Mistake(
        "reorder-in-place",
        ReorderInPlace,
        "Rows are overwritten before they are read. Take all of them first: `K[rows]`.",
        "sequences",
    ),
    Mistake(
        "reorder-newest-only",
        ReorderNewestOnly,
        "Only the newest row follows its beam. All of its rows must.",
        "sequences",
    ),
    Mistake(
        "reorder-cuts",
        ReorderCuts,
        "After `reorder_cache` only the rows in use are left, so the next token has no room. Keep `max_len` rows.",
        "sequences",
        seen_in="`keys = keys[rows]` on a slice of a preallocated buffer",
    ),
    Mistake(
        "reorder-along-heads", ReorderAlongHeads, "The heads are reordered. Sequences are the first axis.", "sequences"
    ),
    Mistake(
        "reorder-sorts",
        ReorderSorts,
        "The rows are sorted before they are taken. Keep the order that was asked.",
        "sequences",
    ),
    Mistake(
        "tiles",
        Tiles,
        "Copies come after all sequences, 0 1 0 1. They belong beside each other, 0 0 1 1.",
        "sequences",
        seen_in="`repeat` where `repeat_interleave` is meant",
    ),
    Mistake("repeats-heads", RepeatsHeads, "The heads are repeated. Sequences are the first axis.", "sequences"),
    Mistake("repeat-ignored", RepeatIgnored, "`batch_repeat_interleave` does nothing.", "sequences"),
    Mistake(
        "repeat-adds-n",
        RepeatAddsN,
        "n copies are put beside the original: that is n + 1 of each. There must be n in all.",
        "sequences",
    ),
    Mistake(
        "repeat-loses-rows",
        RepeatLosesRows,
        "After `batch_repeat_interleave` the buffers have the right size, and what was held is gone.",
        "sequences",
    ),
    Mistake("repeat-keys-only", RepeatKeysOnly, "`batch_repeat_interleave` repeats K only.", "sequences"),
    Mistake("select-ignored", SelectIgnored, "`batch_select_indices` does nothing.", "sequences"),
    Mistake(
        "select-drops",
        SelectDrops,
        "The sequences that were named are dropped. They are the ones to keep.",
        "sequences",
    ),
    Mistake(
        "select-sorts", SelectSorts, "The chosen sequences are sorted. Keep the order that was asked.", "sequences"
    ),
    Mistake("select-first", SelectFirst, "The first sequences are kept, whichever were named.", "sequences"),
    Mistake(
        "select-keeps-memory",
        SelectKeepsMemory,
        "The memory of sequences that are gone is kept: a slice keeps the whole tensor alive.",
        "sequences",
    ),
    Mistake(
        "batch-remembered",
        BatchRemembered,
        "B is noted in the first call for good. It changes when sequences are repeated or selected.",
        "sequences",
    ),
    Mistake(
        "moves-nothing-yet",
        MovesNothingYet,
        "Moving sequences fails in a layer that holds nothing. Nothing happens there.",
        "sequences",
    ),
    Mistake(
        "moves-forget-the-length",
        MovesForgetTheLength,
        "After a move of sequences the layer counts from 0. The tokens are still held.",
        "sequences",
    ),
    Mistake(
        "select-forgets-the-length",
        SelectForgetsTheLength,
        "After `batch_select_indices` the layer counts from 0. The tokens are still held.",
        "sequences",
    ),
    Mistake(
        "reset-keeps-sizes",
        ResetKeepsBuffers,
        "After `reset` rows of other sizes are refused. It is as new: forget the buffers too.",
        "reset",
    ),
    Mistake(
        "reset-zeroes",
        ResetZeroes,
        "After `reset` the rows are zeros, and still counted.",
        "reset",
        seen_in="StaticLayer without the counter's reset",
    ),
    Mistake("reset-before-the-first", ResetBeforeTheFirst, "`reset` fails in a layer that was never updated.", "reset"),
    Mistake(
        "reset-forgets-room",
        ResetForgetsRoom,
        "After `reset` there is room only for as many tokens as were held. `max_len` stays.",
        "reset",
    ),
    Mistake(
        "reset-keeps-the-count", ResetKeepsTheCount, "After `reset` the rows are gone, and still counted.", "reset"
    ),
    Mistake("reset-keeps-dtype", ResetKeepsDtype, "After `reset` another dtype is refused. It is as new.", "reset"),
    Mistake(
        "reset-keeps-batch",
        ResetKeepsBatch,
        "After `reset` another number of sequences is refused. It is as new.",
        "reset",
    ),
    Mistake("reset-ignored", ResetIgnored, "`reset` does nothing: the old rows are still there.", "reset"),
)


class OneBuffer:
    """K and V side by side along the last axis, in place moves with index_select and index_copy_."""

    def __init__(self, max_len):
        self.max_len, self.n, self.both = max_len, 0, None

    def update(self, k, v, *ignored, **also):
        if k.dim() != 4 or v.dim() != 4 or k.shape[:3] != v.shape[:3] or k.dtype != v.dtype:
            raise ValueError("k and v differ")
        if self.n + k.shape[2] > self.max_len:
            raise ValueError("no room")
        rows = torch.cat((k, v), dim=3)
        if self.both is None:
            self.width = k.shape[3]
            self.both = torch.zeros(*k.shape[:2], self.max_len, rows.shape[3], dtype=k.dtype)
        both = self.both
        wrong = rows.shape[:2] != both.shape[:2] or k.shape[3] != self.width or rows.shape[3] != both.shape[3]
        if wrong or rows.dtype != both.dtype:
            raise ValueError("other rows")
        both.index_copy_(2, torch.arange(self.n, self.n + k.shape[2]), rows)
        self.n += k.shape[2]
        return both[:, :, : self.n, : self.width], both[:, :, : self.n, self.width :]

    def get_seq_length(self):
        return self.n

    def get_max_length(self):
        return self.max_len

    def get_mask_sizes(self, query_length):
        return [self.n + query_length, 0]

    def crop(self, n):
        if n > 0:
            raise ValueError("the number of tokens to remove, below 0")
        self.n -= min(self.n, -n)

    def batch_select_indices(self, rows):
        if self.n:
            self.both = self.both.index_select(0, rows)

    reorder_cache = batch_select_indices

    def batch_repeat_interleave(self, n):
        if self.n:
            self.batch_select_indices(torch.arange(self.both.shape[0] * n) // n)

    def reset(self):
        self.both, self.n = None, 0


class TokensFirst:
    """Buffers with tokens as the first axis; views are turned on the way out."""

    def __init__(self, max_len):
        self.max_len = max_len
        self.reset()

    def reset(self):
        self.buffers, self.length = {}, 0

    def update(self, k, v, *ignored):
        new = {"k": k.permute(2, 0, 1, 3), "v": v.permute(2, 0, 1, 3)}
        if new["k"].shape[:3] != new["v"].shape[:3]:
            raise ValueError("k and v differ")
        end = self.length + len(new["k"])
        if end > self.max_len:
            raise ValueError(f"{end} tokens, room for {self.max_len}")
        for name, rows in new.items():
            held = self.buffers.get(name, rows)
            if held.shape[1:] != rows.shape[1:] or held.dtype != rows.dtype:
                raise ValueError(f"{name}: {rows.shape} for {held.shape}")
        for name, rows in new.items():
            if name not in self.buffers:
                self.buffers[name] = torch.full((self.max_len, *rows.shape[1:]), torch.nan, dtype=rows.dtype)
            self.buffers[name].narrow(0, self.length, len(rows)).copy_(rows)
        self.length = end
        return tuple(buffer[:end].permute(1, 2, 0, 3) for buffer in self.buffers.values())

    def get_seq_length(self):
        return self.length

    def get_max_length(self):
        return self.max_len

    def get_mask_sizes(self, query_length):
        return self.get_seq_length() + query_length, 0

    def crop(self, tokens_to_remove):
        if tokens_to_remove > 0:
            raise ValueError("positive")
        if tokens_to_remove < 0:
            self.length = len(range(self.length)[:tokens_to_remove])

    def batch_select_indices(self, rows):
        if self.length:
            self.buffers = {name: buffer[:, rows] for name, buffer in self.buffers.items()}

    def reorder_cache(self, rows):
        if self.length:
            for buffer in self.buffers.values():
                buffer.copy_(buffer[:, rows].clone())

    def batch_repeat_interleave(self, n):
        if self.length:
            self.buffers = {name: buffer.repeat_interleave(n, 1) for name, buffer in self.buffers.items()}


class OneSequenceEach:
    """One pair of buffers for each sequence and a stack on the way out would copy: one flat memory, viewed."""

    def __init__(self, max_len):
        self.max_len, self.end, self.flat, self.like = max_len, 0, None, None

    def get_seq_length(self):
        return self.end

    def get_max_length(self):
        return self.max_len

    def get_mask_sizes(self, query_length):
        return self.end + query_length, 0

    def views(self):
        B, Hkv, D, Dv, _ = self.like
        cut = B * Hkv * self.max_len * D
        return (
            self.flat[:cut].view(B, Hkv, self.max_len, D),  # (B * Hkv * max_len * D,)
            self.flat[cut:].view(B, Hkv, self.max_len, Dv),
        )

    def update(self, k, v, *ignored):
        like = (k.shape[0], k.shape[1], k.shape[3], v.shape[3], (k.dtype, v.dtype))
        if k.shape[:3] != v.shape[:3] or (self.like or like) != like or k.dtype != v.dtype:
            raise ValueError(f"{like}, wanted {self.like}")
        T = k.shape[2]
        if self.max_len - self.end < T:
            raise ValueError("no room")
        if self.like is None:
            self.like = like
            self.flat = torch.empty(k.shape[0] * k.shape[1] * self.max_len * (like[2] + like[3]), dtype=k.dtype)
        K, V = self.views()
        for t in range(T):
            K[:, :, self.end + t], V[:, :, self.end + t] = k[:, :, t], v[:, :, t]
        self.end += T
        return K[:, :, : self.end], V[:, :, : self.end]

    def crop(self, n):
        if n > 0:
            raise ValueError("above 0")
        self.end = 0 if self.end + n < 0 else self.end + n

    def batch_select_indices(self, rows):
        if self.end:
            picked = [view[rows] for view in self.views()]
            self.like = (picked[0].shape[0], *self.like[1:])
            self.flat = torch.cat([part.flatten() for part in picked])

    def reorder_cache(self, rows):
        self.batch_select_indices(rows)

    def batch_repeat_interleave(self, n):
        if self.end:
            self.batch_select_indices([b for b in range(self.like[0]) for _ in range(n)])

    def reset(self):
        self.__init__(self.max_len)


class InPlaceBeams(Base):
    """Beams are moved in place, only the rows in use, with a copy in between."""

    def reorder_cache(self, rows):
        for buffer in (self.K, self.V) if self.used else ():
            buffer[:, :, : self.used] = buffer[:, :, : self.used].index_select(0, rows).clone()


class NewObjects:
    """Everything that has sizes lives in a namespace that is thrown away; checks by what a trial slice gives."""

    def __init__(self, max_len):
        self.room, self.state = max_len, None

    def update(self, keys, values, *args, **kwargs):
        new = (keys, values)
        state = self.state or {"n": 0, "buffers": None}
        n, T = state["n"], keys.size(2)
        if n + T > self.room or values.size(2) != T:
            raise ValueError("tokens")
        buffers = state["buffers"]
        if buffers is None:
            if keys.size(0) != values.size(0) or keys.size(1) != values.size(1):
                raise ValueError("sizes")
            buffers = [torch.zeros((*x.shape[:2], self.room, x.shape[-1]), dtype=x.dtype) for x in new]
        for x, buffer in zip(new, buffers):
            if buffer[:, :, n : n + T].shape != x.shape or buffer.dtype != x.dtype:
                raise ValueError("rows")
        for x, buffer in zip(new, buffers):
            buffer[:, :, n : n + T].copy_(x)
        self.state = {"n": n + T, "buffers": buffers}
        return [buffer[:, :, : n + T] for buffer in buffers]

    def get_seq_length(self):
        return self.state["n"] if self.state else 0

    def get_max_length(self):
        return self.room

    def get_mask_sizes(self, query_length):
        return torch.tensor([self.get_seq_length() + query_length, 0])

    def crop(self, n):
        if n > 0:
            raise ValueError("n")
        if self.state:
            self.state["n"] = max(self.state["n"] + n, 0)

    def _apply(self, change):
        if self.get_seq_length():
            self.state["buffers"] = [change(buffer) for buffer in self.state["buffers"]]

    def reorder_cache(self, rows):
        self._apply(lambda buffer: torch.stack([buffer[row] for row in rows.tolist()]))

    def batch_repeat_interleave(self, n):
        self._apply(lambda buffer: torch.stack([row for row in buffer for _ in range(n)]))

    def batch_select_indices(self, rows):
        self._apply(lambda buffer: torch.stack([buffer[row] for row in rows.tolist()]))

    def reset(self):
        self.state = None


VARIANTS = (
    Variant("two buffers", Base),
    Variant("K and V side by side in one buffer, index_copy_", OneBuffer),
    Variant("tokens as the first axis, poisoned with NaN", TokensFirst),
    Variant("one flat memory, seen through views, token by token", OneSequenceEach),
    Variant("beams moved in place, rows in use only", InPlaceBeams),
    Variant("a dict that is thrown away at reset, lists and stacks", NewObjects),
)
