"""Wrong and right ways to write the quantised cache. Each mistake changes one thing in `Base`."""

from __future__ import annotations

import numpy as np

from autograde.exercise import Mistake, Variant
from autograde.lazy import torch

K, V = 0, 1


class Base:
    """Of K and of V, a buffer of codes and one of scales; one counter."""

    def __init__(self, batch_size, num_kv_heads, max_len, head_dim):
        self.B, self.Hkv, self.max_len, self.D = batch_size, num_kv_heads, max_len, head_dim
        self.used = 0
        self.make()

    def make(self):
        self.codes = [self.code_buffer() for _ in "KV"]
        self.scales = [torch.ones(self.B, self.Hkv, self.max_len, 1) for _ in "KV"]

    def code_buffer(self):
        return torch.zeros(self.B, self.Hkv, self.max_len, self.D, dtype=torch.float8_e4m3fn)

    def __len__(self):
        return self.used

    @property
    def nbytes(self):
        return sum(part.nbytes for part in self.codes), sum(part.nbytes for part in self.scales)

    def refuse_rows(self, k, v):
        want = (self.B, self.Hkv, k.shape[2] if k.ndim == 4 else "T", self.D)
        for rows in (k, v):
            if tuple(rows.shape) != want:
                raise ValueError(f"wanted {want}, got {tuple(rows.shape)}")

    def refuse_room(self, num_tokens):
        if self.used + num_tokens > self.max_len:
            raise ValueError(f"holds {self.used} of {self.max_len} tokens, {num_tokens} more asked")

    def append(self, k, v):
        self.refuse_rows(k, v)
        self.refuse_room(k.shape[2])
        self.keep(k, v)
        self.used += self.step(k)

    def step(self, k):
        return k.shape[2]

    def keep(self, k, v):
        start, end = self.used, self.used + k.shape[2]
        for i, rows in enumerate((k, v)):
            scale = self.scale(rows)
            self.write(i, start, end, self.code(rows, scale), scale)

    def write(self, i, start, end, codes, scale):
        self.codes[i][:, :, start:end] = codes
        self.scales[i][:, :, start:end] = scale

    def largest(self, rows):
        return rows.abs().amax(-1, keepdim=True)

    def scale(self, rows):
        largest = self.largest(rows)
        return torch.where(largest > 0, largest / 448, 1.0)

    def code(self, rows, scale):
        return (rows / scale).clamp(-448, 448).to(torch.float8_e4m3fn)

    def refuse_range(self, start, stop):
        if not 0 <= start <= stop <= self.used:
            raise ValueError(f"holds {self.used} tokens, {start} to {stop} asked")

    def read(self, start, stop):
        self.refuse_range(start, stop)
        return self.floats(K, start, stop), self.floats(V, start, stop)

    def floats(self, i, start, stop):
        return self.codes[i][:, :, start:stop].float() * self.scales[i][:, :, start:stop]

    def truncate(self, length):
        if not 0 <= length <= self.used:
            raise ValueError(f"holds {self.used} tokens, cannot be cut to {length}")
        self.used = length

    def refuse_order(self, rows):
        if len(rows) != self.B or not all(0 <= row < self.B for row in rows):
            raise ValueError(f"wanted {self.B} rows, 0 to {self.B - 1}, got {rows}")

    def reorder(self, rows):
        self.refuse_order(rows)
        self.move(self.codes, rows)
        self.move(self.scales, rows)

    def move(self, parts, rows):
        for i in (K, V):
            parts[i] = parts[i][rows]


# The scale.


class NoScale(Base):
    def scale(self, rows):
        return torch.ones_like(self.largest(rows))


class ScaleOfTheCall(Base):
    """One scale for all that comes with one call."""

    def largest(self, rows):
        return rows.abs().amax().expand(self.B, self.Hkv, rows.shape[2], 1)


class ScaleOfTheHead(Base):
    """One scale for a chunk of each head."""

    def largest(self, rows):
        return rows.abs().amax((2, 3), keepdim=True).expand(self.B, self.Hkv, rows.shape[2], 1)


class ScaleOfAllHeads(Base):
    def largest(self, rows):
        return rows.abs().amax((1, 3), keepdim=True).expand(self.B, self.Hkv, rows.shape[2], 1)


class ScaleOfTheBatch(Base):
    def largest(self, rows):
        return rows.abs().amax((0, 3), keepdim=True).expand(self.B, self.Hkv, rows.shape[2], 1)


class ScaleOfTheFirstToken(Base):
    """The chunk's first token lends its scale to all of them."""

    def largest(self, rows):
        return super().largest(rows)[:, :, :1].expand(self.B, self.Hkv, rows.shape[2], 1)


class ScaleOfK(Base):
    """One scale for both, worked out from k."""

    def keep(self, k, v):
        start, end, scale = self.used, self.used + k.shape[2], self.scale(k)
        self.write(K, start, end, self.code(k, scale), scale)
        self.write(V, start, end, self.code(v, scale), scale)


class ScaleOfBoth(Base):
    """One scale for both, the larger one."""

    def keep(self, k, v):
        start, end, scale = self.used, self.used + k.shape[2], torch.maximum(self.scale(k), self.scale(v))
        self.write(K, start, end, self.code(k, scale), scale)
        self.write(V, start, end, self.code(v, scale), scale)


class OneBufferOfScales(Base):
    """V's scales are written over K's."""

    def make(self):
        super().make()
        self.scales[V] = self.scales[K]

    @property
    def nbytes(self):
        return 2 * self.codes[K].nbytes, 2 * self.scales[K].nbytes


class WithoutItsSign(Base):
    """The largest number instead of the largest absolute value."""

    def largest(self, rows):
        return rows.amax(-1, keepdim=True)


class MeanForLargest(Base):
    def largest(self, rows):
        return rows.abs().mean(-1, keepdim=True)


class ForE5M2(Base):
    """57,344 is the largest number of the other format."""

    def scale(self, rows):
        return super().scale(rows) * 448 / 57344


class For240(Base):
    """240 is the largest number of another E4M3."""

    def scale(self, rows):
        return super().scale(rows) * 448 / 240


class PowersOfTwo(Base):
    def scale(self, rows):
        return torch.exp2(super().scale(rows).log2().ceil())


class HalfScales(Base):
    """Scales in float16 end at 65,504, and at 6e-8."""

    def scale(self, rows):
        return super().scale(rows).half().float()


class BrainScales(Base):
    def scale(self, rows):
        return super().scale(rows).bfloat16().float()


class UpsideDown(Base):
    """Keeps 448 / largest, and multiplies by it when reading."""

    def write(self, i, start, end, codes, scale):
        super().write(i, start, end, codes, 1 / scale)


class MultipliedTwice(Base):
    """x * scale when writing."""

    def code(self, rows, scale):
        return super().code(rows, 1 / scale)


class ReadWithoutScale(Base):
    def floats(self, i, start, stop):
        return self.codes[i][:, :, start:stop].float()


class LargestForScale(Base):
    """What is kept is the largest number, not that over 448."""

    def write(self, i, start, end, codes, scale):
        super().write(i, start, end, codes, scale * 448)


class ScaledToOne(Base):
    """x / largest: uses FP8 from -1 to 1 only."""

    def scale(self, rows):
        return super().scale(rows) * 448


class ZeroByZero(Base):
    def scale(self, rows):
        return self.largest(rows) / 448


class HighFloor(Base):
    """A floor that is higher than scales may be."""

    def scale(self, rows):
        return (self.largest(rows) / 448).clamp(min=1e-6)


class LowFloor(Base):
    def scale(self, rows):
        largest = self.largest(rows)
        return torch.where(largest > 0, (largest / 448).clamp(min=1e-12), 1.0)


class ZeroChunk(Base):
    """Looks for a zero in the whole chunk only where the chunk has other numbers."""

    def scale(self, rows):
        return super().scale(rows) if rows.any() else self.largest(rows) / 448


class LittleAdded(Base):
    def scale(self, rows):
        return self.largest(rows) / 448 + 1e-10


class ZeroesBecomeTiny(Base):
    """Zeros are lifted before they are divided."""

    def code(self, rows, scale):
        return super().code(torch.where(rows == 0, 1.0, rows), scale)


# One scale that grows.


class GrowingScale(Base):
    """One scale for each head, which grows: old codes are read with the new one."""

    def write(self, i, start, end, codes, scale):
        self.codes[i][:, :, start:end] = codes
        self.scales[i][:, :, :end] = scale[:, :, -1:]

    def scale(self, rows):
        self.top = getattr(self, "top", {})
        top = self.largest(rows).amax(2, keepdim=True) / 448
        return top.clamp(min=1e-12).expand(self.B, self.Hkv, rows.shape[2], 1)


class NewestForAll(Base):
    """The newest token's scale is written to all slots."""

    def write(self, i, start, end, codes, scale):
        super().write(i, start, end, codes, scale)
        self.scales[i][:, :, :start] = scale[:, :, -1:]


class Requantised(Base):
    """Old tokens are read, and quantised anew with the scale of the largest so far."""

    def keep(self, k, v):
        start, end = self.used, self.used + k.shape[2]
        for i, rows in enumerate((k, v)):
            old = self.floats(i, 0, start)
            super().write(i, start, end, self.code(rows, self.scale(rows)), self.scale(rows))
            if start:
                scale = torch.maximum(self.scales[i][:, :, :start], self.scale(rows).amax(2, keepdim=True))
                self.write(i, 0, start, self.code(old, scale), scale)


class FirstScaleForEver(Base):
    """Calibrated with the first chunk: what comes later, and is larger, is cut off."""

    def scale(self, rows):
        if self.used == 0:
            return super().scale(rows)
        return self.found[:, :, :1].expand(self.B, self.Hkv, rows.shape[2], 1)

    def keep(self, k, v):
        start, end = self.used, self.used + k.shape[2]
        for i, rows in enumerate((k, v)):
            self.found = self.scales[i]
            scale = self.scale(rows)
            self.write(i, start, end, self.code(rows, scale), scale)


class ScaleOfTheSlotBefore(Base):
    """Scales are written a slot late."""

    def write(self, i, start, end, codes, scale):
        self.codes[i][:, :, start:end] = codes
        self.scales[i][:, :, start + 1 : end + 1] = scale[:, :, : self.max_len - start - 1]


# The codes.


class NotQuantised(Base):
    """float32 all the way."""

    def code_buffer(self):
        return super().code_buffer().float()

    def code(self, rows, scale):
        return (rows / scale).clamp(-448, 448)


class HalfCodes(Base):
    def code_buffer(self):
        return super().code_buffer().half()

    def code(self, rows, scale):
        return (rows / scale).clamp(-448, 448).half()


class E5M2(Base):
    def code_buffer(self):
        return super().code_buffer().to(torch.float8_e5m2)

    def code(self, rows, scale):
        return (rows / scale).clamp(-448, 448).to(torch.float8_e5m2)


class Integers(Base):
    """Eight bits all the same, but evenly spaced ones."""

    def code_buffer(self):
        return super().code_buffer().to(torch.int8)

    def scale(self, rows):
        return super().scale(rows) * 448 / 127

    def code(self, rows, scale):
        return (rows / scale).round().clamp(-127, 127).to(torch.int8)


class RoundedFirst(Base):
    """Rounded to whole numbers before the cast."""

    def code(self, rows, scale):
        return (rows / scale).round().clamp(-448, 448).to(torch.float8_e4m3fn)


class BytesOfTheValue(Base):
    """Kept as uint8 by value, not by bits: what is negative wraps."""

    def code_buffer(self):
        return super().code_buffer().to(torch.uint8)

    def code(self, rows, scale):
        return super().code(rows, scale).float().to(torch.int32).to(torch.uint8)


class SavedAsFloat(Base):
    """Quantised, and then kept as float32: the numbers are right, the memory is not."""

    def code_buffer(self):
        return super().code_buffer().float()


class KeepsFloats(Base):
    """The rows are kept as they came, too."""

    def keep(self, k, v):
        super().keep(k, v)
        self.newest = k.clone(), v.clone()


class KeepsNewest(Base):
    """One of the rows, for a look later on."""

    def keep(self, k, v):
        super().keep(k, v)
        self.newest = k


class KeepsLists(Base):
    """The rows as lists of Python's floats."""

    def keep(self, k, v):
        super().keep(k, v)
        self.newest = k.tolist(), v.tolist()


class KeepsWhatWasRead(Base):
    def read(self, start, stop):
        self.seen = super().read(start, stop)
        return self.seen


class WideScales(Base):
    """Each scale D times."""

    def make(self):
        super().make()
        self.scales = [torch.ones(self.B, self.Hkv, self.max_len, self.D) for _ in "KV"]

    @property
    def nbytes(self):
        return super().nbytes[0], super().nbytes[1] // self.D


class DoubleScales(Base):
    def make(self):
        super().make()
        self.scales = [part.double() for part in self.scales]

    def floats(self, i, start, stop):
        return super().floats(i, start, stop).float()


class Grows(Base):
    """Takes memory when a token comes."""

    def make(self):
        super().make()
        self.codes, self.scales = ([part[:, :, :0].clone() for part in parts] for parts in (self.codes, self.scales))

    def write(self, i, start, end, codes, scale):
        byte = torch.uint8
        joined = torch.cat((self.codes[i][:, :, :start].view(byte), codes.view(byte)), 2)
        self.codes[i] = joined.view(torch.float8_e4m3fn)
        self.scales[i] = torch.cat((self.scales[i][:, :, :start], scale), 2)


class RoomForTwice(Base):
    def make(self):
        self.max_len *= 2
        super().make()
        self.max_len //= 2


# Which rows are kept.


class ValuesAreKeys(Base):
    def keep(self, k, v):
        super().keep(k, k)


class FirstSequenceForAll(Base):
    def keep(self, k, v):
        super().keep(k[:1].expand_as(k), v[:1].expand_as(v))


class FirstHeadForAll(Base):
    def keep(self, k, v):
        super().keep(k[:, :1].expand_as(k), v[:, :1].expand_as(v))


class LastTokenOfTheChunk(Base):
    """Written for one new token."""

    def keep(self, k, v):
        super().keep(k[:, :, -1:].expand_as(k), v[:, :, -1:].expand_as(v))


class AlwaysFromZero(Base):
    def write(self, i, start, end, codes, scale):
        super().write(i, 0, end - start, codes, scale)


class CodesFromZero(Base):
    def write(self, i, start, end, codes, scale):
        self.codes[i][:, :, : end - start] = codes
        self.scales[i][:, :, start:end] = scale


class ScalesFromZeroOn(Base):
    def write(self, i, start, end, codes, scale):
        self.codes[i][:, :, start:end] = codes
        self.scales[i][:, :, : end - start] = scale


class OneAtATime(Base):
    """Counts one token for each call."""

    def step(self, k):
        return 1


class CountsTwice(Base):
    """Once for K and once for V."""

    def step(self, k):
        return 2 * k.shape[2]


class NeverCounts(Base):
    def step(self, k):
        return 0


class DividesInPlace(Base):
    """Scales the caller's own tensors."""

    def code(self, rows, scale):
        return rows.div_(scale).clamp(-448, 448).to(torch.float8_e4m3fn)


# Reading.


class Swapped(Base):
    def read(self, start, stop):
        return super().read(start, stop)[::-1]


class OnlyK(Base):
    def read(self, start, stop):
        return super().read(start, stop)[0]


class TokensBeforeHeads(Base):
    def floats(self, i, start, stop):
        return super().floats(i, start, stop).transpose(1, 2)


class HalfRead(Base):
    def floats(self, i, start, stop):
        return super().floats(i, start, stop).half()


class StopIncluded(Base):
    def floats(self, i, start, stop):
        return super().floats(i, start, min(stop + 1, self.used))


class StartLeftOut(Base):
    def floats(self, i, start, stop):
        return super().floats(i, start + 1 if start else 0, stop)


class FromZero(Base):
    """Takes the range for a number of tokens: the first ones come."""

    def floats(self, i, start, stop):
        return super().floats(i, 0, stop - start)


class StopIsACount(Base):
    """Takes `stop` for how many tokens come."""

    def floats(self, i, start, stop):
        return super().floats(i, start, min(start + stop, self.used))


class AllOfIt(Base):
    def floats(self, i, start, stop):
        return super().floats(i, 0, self.used)


class ScalesFromZero(Base):
    """The codes of the range, with the scales of the first tokens."""

    def floats(self, i, start, stop):
        return self.codes[i][:, :, start:stop].float() * self.scales[i][:, :, : stop - start]


class DequantisesAll(Base):
    """All tokens held become floats, and then the range is cut out."""

    def floats(self, i, start, stop):
        return super().floats(i, 0, self.used)[:, :, start:stop]


class DequantisesTheBuffer(Base):
    def floats(self, i, start, stop):
        return (self.codes[i].float() * self.scales[i])[:, :, start:stop]


class CopiesTheCodes(Base):
    def floats(self, i, start, stop):
        return self.codes[i].clone()[:, :, start:stop].float() * self.scales[i][:, :, start:stop]


# Bytes.


class BytesOfK(Base):
    @property
    def nbytes(self):
        return self.codes[K].nbytes, self.scales[K].nbytes


class OneNumber(Base):
    @property
    def nbytes(self):
        return sum(super().nbytes)


class BytesUsed(Base):
    @property
    def nbytes(self):
        return tuple(part * self.used // self.max_len for part in super().nbytes)


class BytesTheOtherWay(Base):
    @property
    def nbytes(self):
        return super().nbytes[::-1]


class ElementsOfScales(Base):
    @property
    def nbytes(self):
        return super().nbytes[0], super().nbytes[1] // 4


class HalfOfScales(Base):
    """As if they were in float16."""

    @property
    def nbytes(self):
        return super().nbytes[0], super().nbytes[1] // 2


class ScalesOfHeads(Base):
    """As if a head had one scale for all its tokens."""

    @property
    def nbytes(self):
        return super().nbytes[0], super().nbytes[1] // self.max_len


class NoMetadata(Base):
    @property
    def nbytes(self):
        return super().nbytes[0], 0


class ScalesInThePayload(Base):
    @property
    def nbytes(self):
        return sum(super().nbytes), super().nbytes[1]


class BytesOfFloats(Base):
    @property
    def nbytes(self):
        return super().nbytes[0] * 4, super().nbytes[1]


class BytesAreAMethod(Base):
    def nbytes(self):
        return sum(part.nbytes for part in self.codes), sum(part.nbytes for part in self.scales)


# Truncating and reordering.


class NeverTruncates(Base):
    def truncate(self, length):
        pass


class CutsTheBuffers(Base):
    """Gives back what it cuts off, so that later tokens have no room."""

    def truncate(self, length):
        super().truncate(length)
        self.codes = [part[:, :, :length] for part in self.codes]
        self.scales = [part[:, :, :length] for part in self.scales]


class TakesOff(Base):
    """Takes the last `length` tokens away."""

    def truncate(self, length):
        if not 0 <= length <= self.used:
            raise ValueError(length)
        self.used -= length


class OneTooFew(Base):
    def truncate(self, length):
        super().truncate(length)
        self.used = max(length - 1, 0)


class ScalesNotTruncated(Base):
    """Codes and scales have a counter each, and one of them is not cut."""

    scaled = 0

    def write(self, i, start, end, codes, scale):
        self.codes[i][:, :, start:end] = codes
        T = min(end - start, self.max_len - self.scaled)
        self.scales[i][:, :, self.scaled : self.scaled + T] = scale[:, :, :T]
        if i == V:
            self.scaled += T


class KeepsTheNewest(Base):
    """Keeps the last `length` tokens."""

    def truncate(self, length):
        before = self.used
        super().truncate(length)
        for parts in (self.codes, self.scales):
            for i in (K, V):
                parts[i] = parts[i].roll(length - before, 2)


class NeverReorders(Base):
    def move(self, parts, rows):
        pass


class ScalesStay(Base):
    def move(self, parts, rows):
        if parts is self.codes:
            super().move(parts, rows)


class CodesStay(Base):
    def move(self, parts, rows):
        if parts is self.scales:
            super().move(parts, rows)


class ValuesStay(Base):
    def move(self, parts, rows):
        parts[K] = parts[K][rows]


class ValuesScalesStay(Base):
    def move(self, parts, rows):
        for i in (K, V) if parts is self.codes else (K,):
            parts[i] = parts[i][rows]


class OneByOneInPlace(Base):
    """A row that was written over is read afterwards."""

    def move(self, parts, rows):
        for part in parts:
            for b, row in enumerate(rows):
                part[b] = part[row]


class ScalesOneByOne(Base):
    """The codes are copied first, the scales are not."""

    def move(self, parts, rows):
        if parts is self.codes:
            super().move(parts, rows)
            return
        for part in parts:
            for b, row in enumerate(rows):
                part[b] = part[row]


class TheOtherWay(Base):
    """Row b goes to rows[b], instead of coming from there."""

    def move(self, parts, rows):
        for part in parts:
            part[rows] = part.clone()


class OrderOfHeads(Base):
    def move(self, parts, rows):
        for i in (K, V):
            parts[i] = parts[i][:, [row % self.Hkv for row in rows[: self.Hkv]]]


class NewestTokenMoves(Base):
    def move(self, parts, rows):
        for part in parts:
            last = slice(max(self.used - 1, 0), self.used)
            part[:, :, last] = part[:, :, last][rows]


class SharedAfterFork(Base):
    """Sequences in a list: a fork holds the same tensors, so each writes into the other's."""

    def make(self):
        super().make()
        self.codes, self.scales = ([list(part) for part in parts] for parts in (self.codes, self.scales))

    @property
    def nbytes(self):
        size = 2 * self.B * self.Hkv * self.max_len
        return size * self.D, size * 4

    def write(self, i, start, end, codes, scale):
        for b in range(self.B):
            self.codes[i][b][:, start:end] = codes[b]
            self.scales[i][b][:, start:end] = scale[b]

    def floats(self, i, start, stop):
        rows = [c[:, start:stop].float() * s[:, start:stop] for c, s in zip(self.codes[i], self.scales[i])]
        return torch.stack(rows)

    def move(self, parts, rows):
        for i in (K, V):
            parts[i] = [parts[i][row] for row in rows]


class RefusesForks(Base):
    def refuse_order(self, rows):
        if sorted(rows) != list(range(self.B)):
            raise ValueError("every row once")


# Refusals.


class NoRoomCheck(Base):
    """A slice past the end takes what fits."""

    def refuse_room(self, num_tokens):
        pass

    def write(self, i, start, end, codes, scale):
        room = self.max_len - start
        super().write(i, start, min(end, self.max_len), codes[:, :, :room], scale[:, :, :room])

    def step(self, k):
        return min(k.shape[2], self.max_len - self.used)


class CountsPastTheEnd(NoRoomCheck):
    def step(self, k):
        return k.shape[2]


class DropsTheOldest(Base):
    """Makes room by itself."""

    def refuse_room(self, num_tokens):
        if num_tokens > self.max_len:
            raise ValueError("larger than the cache")
        over = max(0, self.used + num_tokens - self.max_len)
        for part in (*self.codes, *self.scales):
            part[:, :, : self.used - over] = part[:, :, over : self.used].clone()
        self.used -= over


class StartsAgain(Base):
    def refuse_room(self, num_tokens):
        if num_tokens > self.max_len:
            raise ValueError("larger than the cache")
        if self.used + num_tokens > self.max_len:
            self.used = 0


class LastSlotUnused(Base):
    def refuse_room(self, num_tokens):
        if self.used + num_tokens >= self.max_len:
            raise ValueError("full")


class LargerThanTheCacheOnly(Base):
    """Compares T with max_len, and forgets what is held."""

    def append(self, k, v):
        self.refuse_rows(k, v)
        if k.shape[2] > self.max_len:
            raise ValueError("larger than the cache")
        room = self.max_len - self.used
        self.keep(k[:, :, :room], v[:, :, :room])
        self.used += min(k.shape[2], room)


class CountedThenRefused(Base):
    def refuse_room(self, num_tokens):
        self.used += num_tokens
        if self.used > self.max_len:
            raise ValueError("full")
        self.used -= num_tokens


class WrittenThenRefused(Base):
    """Takes what fits, and then complains."""

    def refuse_room(self, num_tokens):
        pass

    def append(self, k, v):
        self.refuse_rows(k, v)
        room = self.max_len - self.used
        self.keep(k[:, :, :room], v[:, :, :room])
        self.used += min(k.shape[2], room)
        if k.shape[2] > room:
            raise ValueError("full")


class EmptiedThenRefused(Base):
    def refuse_room(self, num_tokens):
        if self.used + num_tokens > self.max_len:
            self.used = 0
            raise ValueError("full")


class ClearedThenRefused(Base):
    """Writes zeros where it starts to write, a slot too early, before it looks."""

    def append(self, k, v):
        if k.ndim == 4 and self.used + k.shape[2] > self.max_len:
            self.scales[V][:, :, self.used - 1 :] = 1.0
        super().append(k, v)


class NoShapeCheck(Base):
    """What torch can spread is taken."""

    def refuse_rows(self, k, v):
        pass

    def keep(self, k, v):
        try:
            super().keep(k, v)
        except RuntimeError as error:
            raise ValueError(str(error)) from None


class TorchRefuses(Base):
    """Only what would be spread in silence is refused; for the rest torch raises a RuntimeError."""

    def refuse_rows(self, k, v):
        want = (self.B, self.Hkv, k.shape[2], self.D)
        if any(have == 1 != size for rows in (k, v) for have, size in zip(rows.shape, want)):
            raise ValueError("one row for all")


class OnlyKIsLookedAt(Base):
    def refuse_rows(self, k, v):
        super().refuse_rows(k, k)

    def keep(self, k, v):
        try:
            super().keep(k, v)
        except RuntimeError as error:
            raise ValueError(str(error)) from None


class BatchNotLookedAt(Base):
    def refuse_rows(self, k, v):
        if k.ndim == 4 and k.shape[0] == 1:
            k, v = k.expand(self.B, -1, -1, -1), v.expand(self.B, -1, -1, -1)
        super().refuse_rows(k, v)


class HeadsNotLookedAt(Base):
    def refuse_rows(self, k, v):
        if k.ndim == 4 and k.shape[1] == 1:
            k, v = k.expand(-1, self.Hkv, -1, -1), v.expand(-1, self.Hkv, -1, -1)
        super().refuse_rows(k, v)


class FeaturesNotLookedAt(Base):
    def refuse_rows(self, k, v):
        if k.ndim == 4 and k.shape[3] == 1:
            k, v = k.expand(-1, -1, -1, self.D), v.expand(-1, -1, -1, self.D)
        super().refuse_rows(k, v)


class TokensNotCompared(Base):
    """One token of v for several of k is taken."""

    def refuse_rows(self, k, v):
        if k.ndim == v.ndim == 4 and v.shape[2] == 1:
            v = v.expand(-1, -1, k.shape[2], -1)
        super().refuse_rows(k, v)


class ReadsWhatNobodyWrote(Base):
    """Looks at the buffer's size, not at the tokens held."""

    def refuse_range(self, start, stop):
        if not 0 <= start <= stop <= self.max_len:
            raise ValueError(f"{start} to {stop} of {self.max_len}")


class ReadsWhatThereIs(Base):
    """Cuts the range to what is held."""

    def refuse_range(self, start, stop):
        if not 0 <= start <= stop:
            raise ValueError(f"{start} to {stop}")

    def floats(self, i, start, stop):
        return super().floats(i, min(start, self.used), min(stop, self.used))


class FromTheEnd(Base):
    """A negative start counts from the end."""

    def refuse_range(self, start, stop):
        if not -self.used <= start or not start <= stop <= self.used:
            raise ValueError(f"{start} to {stop}")

    def floats(self, i, start, stop):
        return super().floats(i, start % max(self.used, 1) if start < 0 else start, stop)


class NothingForReversed(Base):
    """A range that ends before it starts gives no token."""

    def refuse_range(self, start, stop):
        if not (0 <= start <= self.used and 0 <= stop <= self.used):
            raise ValueError(f"{start} to {stop}")


class EmptyRefused(Base):
    def refuse_range(self, start, stop):
        if not 0 <= start < stop <= self.used:
            raise ValueError(f"{start} to {stop}")


class StartPastTheEnd(Base):
    """An empty range is not looked at, wherever it lies."""

    def refuse_range(self, start, stop):
        if start != stop:
            super().refuse_range(start, stop)


class TruncatesUpwards(Base):
    def truncate(self, length):
        if not 0 <= length <= self.max_len:
            raise ValueError(length)
        self.used = length


class ReadsWhatWasCut(Base):
    """read() looks at how much was ever written."""

    written = 0

    def append(self, k, v):
        super().append(k, v)
        self.written = max(self.written, self.used)

    def refuse_range(self, start, stop):
        if not 0 <= start <= stop <= self.written:
            raise ValueError(f"{start} to {stop} of {self.written}")


class BringsBack(Base):
    """truncate() looks at how much was ever written."""

    written = 0

    def append(self, k, v):
        super().append(k, v)
        self.written = max(self.written, self.used)

    def truncate(self, length):
        if not 0 <= length <= self.written:
            raise ValueError(length)
        self.used = length


class FromTheEndAlways(Base):
    """A range that lies before 0 altogether counts from the end."""

    def refuse_range(self, start, stop):
        if start < 0 <= stop or start > stop or stop > self.used:
            raise ValueError(f"{start} to {stop}")


class NothingForNoRows(Base):
    """No rows at all leave things as they are."""

    def reorder(self, rows):
        if rows:
            super().reorder(rows)


class FiveAxes(Base):
    def refuse_rows(self, k, v):
        k, v = (rows[0] if rows.ndim == 5 and len(rows) == 1 else rows for rows in (k, v))
        super().refuse_rows(k, v)

    def append(self, k, v):
        self.refuse_rows(k, v)
        super().append(*(rows[0] if rows.ndim == 5 else rows for rows in (k, v)))


class FourAxesTakenForGranted(Base):
    def refuse_rows(self, k, v):
        want = (self.B, self.Hkv, self.D)
        if k.shape != v.shape or (k.shape[0], k.shape[1], k.shape[3]) != want:
            raise ValueError(f"wanted {want}")


class TruncatesAtMost(Base):
    def truncate(self, length):
        super().truncate(min(length, self.used))


class TruncatesFromTheEnd(Base):
    """-1 takes the last token away."""

    def truncate(self, length):
        super().truncate(length + self.used if -self.used <= length < 0 else length)


class RefusesToKeepAll(Base):
    def truncate(self, length):
        if not 0 <= length < self.used:
            raise ValueError(length)
        self.used = length


class RefusesZero(Base):
    def truncate(self, length):
        if not 0 < length <= self.used:
            raise ValueError(length)
        self.used = length


class ShrinksTheBatch(Base):
    """Fewer rows leave fewer sequences."""

    def refuse_order(self, rows):
        if not all(0 <= row < self.B for row in rows) or len(rows) > self.B:
            raise ValueError("rows")


class GrowsTheBatch(Base):
    def refuse_order(self, rows):
        if not all(0 <= row < self.B for row in rows) or len(rows) < self.B:
            raise ValueError("rows")


class NegativeRows(Base):
    def refuse_order(self, rows):
        if len(rows) != self.B or max(rows) >= self.B or min(rows) < -self.B:
            raise ValueError("rows")


class OtherErrorForRows(Base):
    """What indexing raises is an IndexError."""

    def refuse_order(self, rows):
        if len(rows) != self.B or min(rows) < 0:
            raise ValueError("rows")


ONE, MANY, TINY, RANGE = "one chunk", "many chunks", "tiny, huge, zero", "read a range"
BYTES, MOVES, NO = "memory", "truncate and reorder", "refusals"

MISTAKES = (
    Mistake("no-scale", NoScale, "The numbers are cast as they are. Divide each token of each head by its scale first.", ONE),
    Mistake("scale-of-the-call", ScaleOfTheCall, "One scale serves all that one call brings. Each token of each head has its own.", ONE),
    Mistake("scale-of-the-head", ScaleOfTheHead, "A head has one scale for all tokens of a chunk. Each token has its own.", ONE,
            "engines that calibrate a scale for each head"),
    Mistake("scale-of-all-heads", ScaleOfAllHeads, "A token has one scale for all its heads. Take the largest of each head by itself.", ONE),
    Mistake("scale-of-the-batch", ScaleOfTheBatch, "All sequences share a token's scale. Take the largest along head_dim only.", ONE),
    Mistake("scale-of-the-first-token", ScaleOfTheFirstToken, "The chunk's first token lends its scale to all of them. Each token has its own.", ONE),
    Mistake("scale-of-k", ScaleOfK, "V is divided by K's scale. K and V have scales of their own.", ONE),
    Mistake("scale-of-both", ScaleOfBoth, "K and V share the larger of their scales. Each has its own.", ONE),
    Mistake("one-buffer-of-scales", OneBufferOfScales, "V's scales are written over K's. Keep two buffers of scales.", ONE),
    Mistake("without-its-sign", WithoutItsSign, "The largest number gives the scale. It is the largest absolute value: take .abs() first.", ONE),
    Mistake("mean-for-largest", MeanForLargest, "The mean gives the scale, so large numbers are cut off. Take the largest.", ONE),
    Mistake("for-e5m2", ForE5M2, "The scale is the largest over 57,344. That is E5M2's largest number; E4M3's is 448.", ONE),
    Mistake("for-240", For240, "The scale is the largest over 240, another format's end. E4M3 goes to 448.", ONE),
    Mistake("powers-of-two", PowersOfTwo, "Scales are rounded up to powers of two. Here a scale is the largest over 448 as it is.", ONE),
    Mistake("bfloat16-scales", BrainScales, "Scales have two or three digits, as bfloat16 has. Keep them in float32.", ONE),
    Mistake("scale-upside-down", UpsideDown, "What is kept is 1 / scale, and read() multiplies by it. Keep what you divided by.", ONE),
    Mistake("multiplied-for-divided", MultipliedTwice, "append() multiplies by the scale, and so does read(). append() divides.", ONE),
    Mistake("read-without-scale", ReadWithoutScale, "read() gives the codes' own values. Multiply them by their scales.", ONE),
    Mistake("largest-for-scale", LargestForScale, "What is kept is the largest number, 448 times the scale. Keep what you divided by.", ONE),
    Mistake("scaled-to-one", ScaledToOne, "Rows are stretched to -1..1 only, which wastes FP8's range: the scale is the largest over 448.", ONE),
    Mistake("half-precision-scales", HalfScales, "Scales are float16: too large ones become infinite, and tiny ones 0. Keep float32.", ONE),
    Mistake("half-precision-codes", HalfCodes, "The payload is float16. It is torch.float8_e4m3fn, a byte each.", ONE),
    Mistake("not-quantised", NotQuantised, "The payload is float32, and nothing was rounded. It is torch.float8_e4m3fn, a byte each.", ONE),
    Mistake("e5m2", E5M2, "The payload is float8_e5m2, with a bit less of fraction. Take float8_e4m3fn.", ONE),
    Mistake("integers", Integers, "These are 8-bit integers, evenly spaced. FP8 is torch.float8_e4m3fn.", ONE),
    Mistake("rounded-first", RoundedFirst, "x / scale is rounded to whole numbers before the cast. The cast rounds, to FP8's own numbers.", ONE),
    Mistake("bytes-by-value", BytesOfTheValue, "The payload is uint8 by value: signs and fractions are lost. Keep the FP8 bits, .view(torch.uint8).", ONE),
    Mistake("values-are-keys", ValuesAreKeys, "V holds the keys too. Quantise v.", ONE),
    Mistake("first-sequence-for-all", FirstSequenceForAll, "All sequences hold the first one's rows. Write the whole batch.", ONE),
    Mistake("first-head-for-all", FirstHeadForAll, "All KV heads hold the first one's rows. Write all heads.", ONE),
    Mistake("last-token-of-the-chunk", LastTokenOfTheChunk, "The chunk's last token fills all its slots. Write all T tokens.", ONE),
    Mistake("swapped", Swapped, "read() gives V first. It returns K, then V.", ONE),
    Mistake("only-k", OnlyK, "read() gives one tensor. Return the pair K, V.", ONE),
    Mistake("tokens-before-heads", TokensBeforeHeads, "read() gives (B, S, Hkv, D). It returns (B, Hkv, S, D).", ONE),
    Mistake("half-precision-read", HalfRead, "What read() gives has float16's three digits. Return float32.", ONE),
    Mistake("scales-a-slot-late", ScaleOfTheSlotBefore, "Scales are written a slot behind their codes. Codes and scales stand in the same slot.", ONE),
    Mistake("one-at-a-time", OneAtATime, "A chunk counts as one token. Count its T tokens.", ONE),
    Mistake("counts-twice", CountsTwice, "Tokens are counted twice, once for K and once for V. One token has both.", ONE),
    Mistake("never-counts", NeverCounts, "Nothing is counted, so len() stays 0. Add T after each append.", ONE),
    Mistake("growing-scale", GrowingScale, "A head has one scale, and old codes are read with the newest. Each token keeps its own.", ONE),
    Mistake("newest-scale-for-all", NewestForAll, "The newest token's scale replaces the old ones, and old tokens change. Write the new slots only.", MANY),
    Mistake("requantised", Requantised, "Old tokens are quantised anew when a larger one comes, and lose digits. Never touch them again.", MANY,
            "caches with one scale that grows"),
    Mistake("first-scale-for-ever", FirstScaleForEver, "The first token's scale serves all later ones, and larger ones are cut off. Scale each token.", MANY,
            "engines that calibrate on the first batch"),
    Mistake("codes-written-from-zero", CodesFromZero, "Each chunk's codes are written from slot 0, its scales are not. Write both from len(cache) on.", MANY),
    Mistake("scales-written-from-zero", ScalesFromZeroOn, "Each chunk's scales are written from slot 0, its codes are not. Write both from len(cache) on.", MANY),
    Mistake("always-from-zero", AlwaysFromZero, "Each chunk is written from slot 0. Write from len(cache) on.", MANY),
    Mistake("zero-by-zero", ZeroByZero, "A row of zeros has scale 0, and 0 / 0 is NaN. Its scale is 1.", TINY),
    Mistake("high-floor", HighFloor, "Scales end at 1e-6, so smaller tokens are lost. Only where all is zero, put 1.", TINY),
    Mistake("low-floor", LowFloor, "Scales end at a smallest number, and smaller tokens are lost. Only where all is zero, put 1.", TINY),
    Mistake("zero-chunk", ZeroChunk, "A chunk of nothing but zeros has scale 0, and 0 / 0 is NaN. Its scales are 1.", TINY),
    Mistake("little-added", LittleAdded, "A small number is added to every scale, which spoils tiny tokens. Only where all is zero, put 1.", TINY),
    Mistake("zeros-lifted", ZeroesBecomeTiny, "Zeros come back as something else. Zero has a code: 0.", TINY),
    Mistake("stop-included", StopIncluded, "read() gives token `stop` too. The range ends before it.", RANGE),
    Mistake("start-left-out", StartLeftOut, "read() leaves token `start` out. The range begins with it.", RANGE),
    Mistake("from-zero", FromZero, "read() gives as many tokens as asked, but the first ones. Begin at `start`.", RANGE),
    Mistake("stop-is-a-count", StopIsACount, "`stop` is taken for a number of tokens. It is where the range ends.", RANGE),
    Mistake("all-of-it", AllOfIt, "read() gives all tokens. Return those from start to stop - 1.", RANGE),
    Mistake("scales-from-zero", ScalesFromZero, "The codes are those of the range, the scales those of the first tokens. Slice both alike.", RANGE),
    Mistake("dequantises-all", DequantisesAll, "All tokens become floats before the range is cut out. Slice first, then dequantise.", RANGE,
            "caches that dequantise everything at every step"),
    Mistake("dequantises-the-buffer", DequantisesTheBuffer, "The whole buffer becomes floats before the range is cut out. Slice first.", RANGE),
    Mistake("copies-the-codes", CopiesTheCodes, "All codes are copied before the range is cut out. Slice first: a slice costs nothing.", RANGE),
    Mistake("empty-range-refused", EmptyRefused, "A range without tokens is refused. read(3, 3) gives tensors of no token.", RANGE),
    Mistake("saved-as-float", SavedAsFloat, "The numbers are FP8's, but they are kept as float32. Keep the FP8 tensor itself.", BYTES),
    Mistake("keeps-floats", KeepsFloats, "The newest rows are kept as floats too. Keep codes and scales only.", BYTES),
    Mistake("keeps-newest-k", KeepsNewest, "The newest k is kept as it came, too. Keep codes and scales only.", BYTES),
    Mistake("keeps-lists", KeepsLists, "Rows are kept in lists of floats, too. Keep codes and scales only.", BYTES),
    Mistake("keeps-what-was-read", KeepsWhatWasRead, "What read() returned is kept. Keep codes and scales only.", BYTES),
    Mistake("wide-scales", WideScales, "Each scale is kept D times. One is enough: (B, Hkv, max_len, 1).", BYTES),
    Mistake("double-scales", DoubleScales, "Scales take 8 bytes each. Keep them in float32.", BYTES),
    Mistake("grows", Grows, "Memory grows with the tokens. Take all of it when the cache is made.", BYTES),
    Mistake("room-for-twice", RoomForTwice, "The buffers have twice the room that max_len asks for.", BYTES),
    Mistake("bytes-of-k", BytesOfK, "nbytes counts K only. V takes as much again.", BYTES),
    Mistake("one-number", OneNumber, "nbytes is one number. Give the pair (payload, metadata).", BYTES),
    Mistake("bytes-in-use", BytesUsed, "nbytes counts the tokens held. The memory is all there from the start: count max_len.", BYTES),
    Mistake("bytes-swapped", BytesTheOtherWay, "nbytes gives the scales' bytes first. Payload comes first.", BYTES),
    Mistake("elements-of-scales", ElementsOfScales, "nbytes counts the scales, not their bytes. Each has 4.", BYTES),
    Mistake("two-byte-scales", HalfOfScales, "nbytes counts 2 bytes for a scale. float32 has 4.", BYTES),
    Mistake("scales-of-heads", ScalesOfHeads, "nbytes counts one scale for each head. There is one for each token of it.", BYTES),
    Mistake("no-metadata", NoMetadata, "nbytes leaves the scales out. They are metadata, 4 bytes each.", BYTES, "compression ratios without scales"),
    Mistake("scales-in-the-payload", ScalesInThePayload, "The payload in nbytes has the scales in it. They are the metadata.", BYTES),
    Mistake("bytes-of-floats", BytesOfFloats, "nbytes counts 4 bytes for each number. FP8 takes one.", BYTES),
    Mistake("bytes-are-a-method", BytesAreAMethod, "nbytes is a method. Make it a property, or an attribute.", BYTES),
    Mistake("divides-in-place", DividesInPlace, "append() divides the caller's own tensors. Leave k and v as they are.", BYTES),
    Mistake("never-truncates", NeverTruncates, "truncate() does nothing. Hold only the first `length` tokens.", MOVES),
    Mistake("cuts-the-buffers", CutsTheBuffers, "truncate() cuts the buffers, so new tokens have no room. Leave them: only the counter goes back.", MOVES),
    Mistake("takes-off", TakesOff, "truncate() takes `length` tokens away. It keeps the first `length`.", MOVES),
    Mistake("one-too-few", OneTooFew, "truncate() keeps one token too few.", MOVES),
    Mistake("keeps-the-newest", KeepsTheNewest, "truncate() keeps the newest tokens. It keeps the first `length`.", MOVES),
    Mistake("scales-not-truncated", ScalesNotTruncated, "truncate() moves the codes' end only; the next scales are written after the old ones.", MOVES),
    Mistake("keep-all-refused", RefusesToKeepAll, "truncate() to the tokens held is refused. It keeps them all.", MOVES),
    Mistake("zero-refused", RefusesZero, "truncate(0) is refused. It empties the cache.", MOVES),
    Mistake("never-reorders", NeverReorders, "reorder() does nothing. Sequence b goes on from what rows[b] held.", MOVES),
    Mistake("scales-stay", ScalesStay, "reorder() moves the codes and leaves the scales. They belong together.", MOVES),
    Mistake("codes-stay", CodesStay, "reorder() moves the scales and leaves the codes. They belong together.", MOVES),
    Mistake("values-stay", ValuesStay, "reorder() moves K and leaves V.", MOVES),
    Mistake("values-scales-stay", ValuesScalesStay, "reorder() leaves V's scales where they were.", MOVES),
    Mistake("one-by-one-in-place", OneByOneInPlace, "reorder() overwrites rows that it reads later. Copy first: codes[i] = codes[i][rows].", MOVES),
    Mistake("scales-one-by-one", ScalesOneByOne, "reorder() overwrites scales that it reads later. Copy them first, as the codes.", MOVES),
    Mistake("the-other-way", TheOtherWay, "reorder() sends sequence b to rows[b]. Sequence b comes from there.", MOVES),
    Mistake("order-of-heads", OrderOfHeads, "reorder() moves KV heads. Move sequences: the first axis.", MOVES),
    Mistake("newest-token-moves", NewestTokenMoves, "reorder() moves the newest token only. All tokens of a sequence go with it.", MOVES),
    Mistake("shared-after-fork", SharedAfterFork, "After a fork both sequences hold the same tensors, so one writes into the other. Copy.", MOVES,
            "beam search over lists of tensors"),
    Mistake("forks-refused", RefusesForks, "A row that is named twice is refused. It is a fork.", MOVES),
    Mistake("no-room-check", NoRoomCheck, "Tokens that do not fit are dropped in silence. Refuse the whole chunk.", NO),
    Mistake("counts-past-the-end", CountsPastTheEnd, "Tokens past the end are counted, though a slice drops them. Refuse the whole chunk.", NO),
    Mistake("drops-the-oldest", DropsTheOldest, "Old tokens are dropped to make room. Refuse the chunk.", NO),
    Mistake("starts-again", StartsAgain, "A full cache begins anew. Refuse the chunk.", NO),
    Mistake("last-slot-unused", LastSlotUnused, "The last slot is refused. max_len tokens have room.", MANY),
    Mistake("larger-than-the-cache-only", LargerThanTheCacheOnly, "Only a chunk larger than max_len is refused. Count what is held, too.", NO),
    Mistake("counted-then-refused", CountedThenRefused, "The chunk is refused, but counted. Check before anything changes.", NO),
    Mistake("written-then-refused", WrittenThenRefused, "What fits is kept before the chunk is refused. All or nothing.", NO),
    Mistake("emptied-then-refused", EmptiedThenRefused, "The refusal empties the cache. Nothing may change.", NO),
    Mistake("cleared-then-refused", ClearedThenRefused, "A scale is overwritten before the chunk is refused. Check first.", NO),
    Mistake("no-shape-check", NoShapeCheck, "One row is spread over many in silence. k and v must both be (B, Hkv, T, D).", NO),
    Mistake("torch-refuses", TorchRefuses, "Other shapes fail somewhere in torch, not with ValueError. Check k and v first.", NO),
    Mistake("only-k-is-looked-at", OnlyKIsLookedAt, "Only k's shape is checked. v must be the same.", NO),
    Mistake("batch-not-looked-at", BatchNotLookedAt, "One sequence is taken for the whole batch. Refuse it.", NO),
    Mistake("heads-not-looked-at", HeadsNotLookedAt, "One KV head is taken for all. Refuse it.", NO),
    Mistake("features-not-looked-at", FeaturesNotLookedAt, "One feature is spread over head_dim. Refuse it.", NO),
    Mistake("tokens-not-compared", TokensNotCompared, "One token of v is taken for all of k's. T must be the same.", NO),
    Mistake("reads-what-nobody-wrote", ReadsWhatNobodyWrote, "read() goes up to max_len. It ends at the tokens held.", NO),
    Mistake("reads-what-there-is", ReadsWhatThereIs, "A range past the end is cut in silence. Refuse it.", NO),
    Mistake("from-the-end", FromTheEnd, "A negative start counts from the end. Refuse it.", NO),
    Mistake("nothing-for-reversed", NothingForReversed, "A range that ends before it starts gives no token. Refuse it.", NO),
    Mistake("start-past-the-end", StartPastTheEnd, "An empty range past the end is let through. Refuse it: stop may be len(cache) at most.", NO),
    Mistake("truncates-upwards", TruncatesUpwards, "truncate() to more than is held makes tokens that nobody wrote. Refuse it.", NO),
    Mistake("reads-what-was-cut", ReadsWhatWasCut, "read() still gives tokens that truncate() cut off. It ends at the tokens held.", NO),
    Mistake("brings-back", BringsBack, "truncate() to more than is held brings back tokens that were cut off. Refuse it.", NO),
    Mistake("before-0-altogether", FromTheEndAlways, "A range that lies below 0 counts from the end. Refuse it.", NO),
    Mistake("nothing-for-no-rows", NothingForNoRows, "reorder([]) does nothing. Refuse anything but B rows.", NO),
    Mistake("five-axes", FiveAxes, "Five axes are taken for four. k and v are (B, Hkv, T, D).", NO),
    Mistake("four-axes-taken-for-granted", FourAxesTakenForGranted, "With three axes, k.shape[3] gives an IndexError. Look at the number of axes first.", NO),
    Mistake("truncates-at-most", TruncatesAtMost, "truncate() to more than is held does nothing. Refuse it.", NO),
    Mistake("truncates-from-the-end", TruncatesFromTheEnd, "A negative length counts from the end. Refuse it.", NO),
    Mistake("shrinks-the-batch", ShrinksTheBatch, "Fewer rows are taken for a smaller batch. Refuse anything but B rows.", NO),
    Mistake("grows-the-batch", GrowsTheBatch, "More rows are taken for a larger batch. Refuse anything but B rows.", NO),
    Mistake("negative-rows", NegativeRows, "Row -1 is taken for the last. Refuse rows below 0.", NO),
    Mistake("other-error-for-rows", OtherErrorForRows, "A row that is not there gives torch's IndexError. Raise ValueError first.", NO),
)  # fmt: skip


class OneTensor(Base):
    """K and V in one buffer of bytes, one of scales; a floor for the scale; both at once in read."""

    def make(self):
        shape = (2, self.B, self.Hkv, self.max_len)
        self.bits = torch.zeros(*shape, self.D, dtype=torch.uint8)
        self.factor = torch.zeros(shape)

    nbytes = property(lambda self: (self.bits.numel(), self.factor.numel() * 4))

    def keep(self, k, v):
        both = torch.stack((k, v))
        scale = both.abs().amax(-1).clamp(min=1e-30) / 448
        T = slice(self.used, self.used + k.shape[2])
        self.factor[..., T] = scale
        self.bits[:, :, :, T] = (both / scale[..., None]).to(torch.float8_e4m3fn).view(torch.uint8)

    def read(self, start, stop):
        self.refuse_range(start, stop)
        codes = self.bits[:, :, :, start:stop].view(torch.float8_e4m3fn)
        return torch.einsum("xbhtd,xbht->xbhtd", codes.float(), self.factor[..., start:stop]).unbind()

    def reorder(self, rows):
        self.refuse_order(rows)
        order = torch.tensor(rows)
        self.bits = self.bits.index_select(1, order)
        self.factor = self.factor.index_select(1, order)


class TokensFirst(Base):
    """(max_len, B, Hkv, D), a token a row; division by the largest, then times 448."""

    def make(self):
        self.codes = [torch.zeros(self.max_len, self.B, self.Hkv, self.D, dtype=torch.float8_e4m3fn) for _ in "KV"]
        self.scales = [torch.zeros(self.max_len, self.B, self.Hkv) for _ in "KV"]

    def write(self, i, start, end, codes, scale):
        self.codes[i][start:end] = codes.permute(2, 0, 1, 3)
        self.scales[i][start:end] = scale[..., 0].permute(2, 0, 1)

    def code(self, rows, scale):
        return (rows / (scale * 448) * 448).to(torch.float8_e4m3fn)

    def floats(self, i, start, stop):
        return (self.codes[i][start:stop].to(torch.float32) * self.scales[i][start:stop, ..., None]).permute(1, 2, 0, 3)

    def move(self, parts, rows):
        for part in parts:
            part.copy_(part.clone()[:, rows])


class TokenByToken(Base):
    """A list of tokens, each with tensors of its own from the start; loops over sequences and heads."""

    def make(self):
        B, Hkv, D = self.B, self.Hkv, self.D
        self.slots = [
            (torch.zeros(2, B, Hkv, D, dtype=torch.float8_e4m3fn), torch.zeros(2, B, Hkv, 1))
            for _ in range(self.max_len)
        ]

    nbytes = property(lambda self: tuple(sum(slot[part].nbytes for slot in self.slots) for part in (0, 1)))

    def keep(self, k, v):
        for i, rows in enumerate((k, v)):
            for t in range(k.shape[2]):
                codes, scales = self.slots[self.used + t]
                for b in range(self.B):
                    for h in range(self.Hkv):
                        row = rows[b, h, t]
                        largest = max(abs(x) for x in row.tolist())
                        scales[i, b, h] = largest / 448 or 1.0
                        codes[i, b, h] = (row * (1 / scales[i, b, h])).to(torch.float8_e4m3fn)

    def floats(self, i, start, stop):
        if start == stop:
            return torch.zeros(self.B, self.Hkv, 0, self.D)
        return torch.stack([codes[i].float() * scales[i] for codes, scales in self.slots[start:stop]], 2)

    def reorder(self, rows):
        self.refuse_order(rows)
        self.slots = [(codes[:, rows], scales[:, rows]) for codes, scales in self.slots]


class OwnTable(Base):
    """NumPy bytes and a table of the format's own numbers, looked up with searchsorted."""

    def make(self):
        shape = (2, self.B, self.Hkv, self.max_len)
        self.bits, self.factor = np.zeros((*shape, self.D), np.uint8), np.ones((*shape, 1), np.float32)

    nbytes = property(lambda self: (self.bits.nbytes, self.factor.nbytes))

    def table(self):
        return torch.arange(127, dtype=torch.uint8).view(torch.float8_e4m3fn).float().numpy()  # 0 to 448

    def keep(self, k, v):
        both, end = np.stack([k.numpy(), v.numpy()]), self.used + k.shape[2]
        scale = np.abs(both).max(-1, keepdims=True) / np.float32(448)
        scale[scale == 0] = 1
        table, x = self.table(), np.abs(both / scale)
        codes = np.searchsorted((table[1:] + table[:-1]) / 2, x)
        self.bits[:, :, :, self.used : end] = codes + 128 * (both < 0)
        self.factor[:, :, :, self.used : end] = scale

    def floats(self, i, start, stop):
        bits = self.bits[i, :, :, start:stop]
        signs = np.where(bits < 128, np.float32(1), np.float32(-1))
        return torch.from_numpy(self.table()[bits % 128] * signs * self.factor[i, :, :, start:stop])

    def reorder(self, rows):
        self.refuse_order(rows)
        self.bits, self.factor = self.bits[:, rows], self.factor[:, rows]


class InFloat64(Base):
    """Works in float64, and keeps float32; the buffers are attributes, and so is nbytes."""

    nbytes = None

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.nbytes = [sum(part.nbytes for part in parts) for parts in (self.codes, self.scales)]

    def keep(self, k, v):
        super().keep(k.double(), v.double())

    def code(self, rows, scale):
        return super().code(rows, scale).view(torch.uint8)

    def write(self, i, start, end, codes, scale):
        self.codes[i].view(torch.uint8).narrow(2, start, end - start).copy_(codes)
        self.scales[i].narrow(2, start, end - start).copy_(scale)

    def floats(self, i, start, stop):
        return (self.codes[i][:, :, start:stop].double() * self.scales[i][:, :, start:stop]).float()


class SequenceBySequence(SharedAfterFork):
    """A list of sequences; a fork copies."""

    def move(self, parts, rows):
        for i in (K, V):
            parts[i] = [parts[i][row].clone() for row in rows]


class CounterIsATensor(Base):
    """Tokens are counted in a tensor, slots are chosen by a mask, and truncated ones are cleared."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.count = torch.zeros((), dtype=torch.int64)

    used = property(lambda self: int(self.count) if "count" in vars(self) else 0, lambda self, value: self.set(value))

    def set(self, value):
        if "count" in vars(self):
            self.count.fill_(value)

    def floats(self, i, start, stop):
        place = torch.arange(self.max_len)
        mask = (place >= start) & (place < stop)
        return (
            self.codes[i].view(torch.uint8)[:, :, mask].view(torch.float8_e4m3fn).float() * self.scales[i][:, :, mask]
        )

    def truncate(self, length):
        super().truncate(length)
        for part in (*self.codes, *self.scales):
            part[:, :, length:] = 0


VARIANTS = (
    Variant("two buffers of each", Base),
    Variant("one tensor, a floor, einsum", OneTensor),
    Variant("tokens first", TokensFirst),
    Variant("a tensor for each token", TokenByToken),
    Variant("its own table, in NumPy", OwnTable),
    Variant("float64 inside", InFloat64),
    Variant("a list of sequences", SequenceBySequence),
    Variant("a counter that is a tensor", CounterIsATensor),
)
