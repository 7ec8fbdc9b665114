"""Wrong and right ways to write the GQA cache. Each mistake changes one thing in `Base`."""

from __future__ import annotations

from autograde.exercise import Mistake, Variant
from autograde.lazy import torch


class Base:
    """One buffer for K and one for V in each layer, one counter."""

    def __init__(self, num_layers, batch_size, num_kv_heads, max_len, head_dim, dtype):
        self.L, self.B, self.Hkv, self.max_len, self.D = num_layers, batch_size, num_kv_heads, max_len, head_dim
        self.dtype, self.used = dtype, 0
        self.make()

    def make(self):
        self.K = [self.buffer() for _ in range(self.L)]
        self.V = [self.buffer() for _ in range(self.L)]

    def buffer(self):
        return torch.empty(self.B, self.Hkv, self.max_len, self.D, dtype=self.dtype)

    def __len__(self):
        return self.used

    @property
    def nbytes(self):
        return sum(buffer.nbytes for buffer in (*self.K, *self.V))

    def can_append(self, num_tokens):
        return self.used + num_tokens <= self.max_len

    def refuse_layer(self, layer):
        if not 0 <= layer < self.L:
            raise ValueError(f"layer {layer} of {self.L}")

    def refuse_rows(self, k, v):
        want = (self.B, self.Hkv, k.shape[2] if k.ndim == 4 else "T", self.D)
        for rows in (k, v):
            if tuple(rows.shape) != want or rows.dtype != self.dtype:
                raise ValueError(f"wanted {want} of {self.dtype}, got {tuple(rows.shape)} of {rows.dtype}")

    def refuse_room(self, num_tokens):
        if self.used + num_tokens > self.max_len:
            raise ValueError(f"holds {self.used} of {self.max_len} tokens, {num_tokens} more asked")

    def start(self, layer, num_tokens):
        return self.used

    def append(self, layer, k, v):
        self.refuse_layer(layer)
        self.refuse_rows(k, v)
        self.refuse_room(k.shape[2])
        start = self.start(layer, k.shape[2])
        end = start + k.shape[2]
        self.write(layer, start, end, k, v)
        return self.shown(layer, end, k, v)

    def write(self, layer, start, end, k, v):
        self.K[layer][:, :, start:end] = k
        self.V[layer][:, :, start:end] = v

    def shown(self, layer, end, k, v):
        return self.K[layer][:, :, :end], self.V[layer][:, :, :end]

    def advance(self, num_tokens):
        if not 0 <= num_tokens <= self.max_len - self.used:
            raise ValueError(f"holds {self.used} of {self.max_len} tokens, {num_tokens} more asked")
        self.used += num_tokens

    def reset(self):
        self.used = 0


# What append returns.


class WholeBuffer(Base):
    def shown(self, layer, end, k, v):
        return self.K[layer], self.V[layer]


class WholeBufferOfZeros(WholeBuffer):
    def buffer(self):
        return torch.zeros(self.B, self.Hkv, self.max_len, self.D, dtype=self.dtype)


class OldRowsOnly(Base):
    def shown(self, layer, end, k, v):
        return super().shown(layer, self.used, k, v)


class NewRowsOnly(Base):
    def shown(self, layer, end, k, v):
        return k.clone(), v.clone()


class OneTokenLate(Base):
    def shown(self, layer, end, k, v):
        return super().shown(layer, end - 1, k, v)


class OneTokenTooMany(Base):
    def shown(self, layer, end, k, v):
        return super().shown(layer, end + 1, k, v)


class Swapped(Base):
    def shown(self, layer, end, k, v):
        return super().shown(layer, end, k, v)[::-1]


class NewestFirst(Base):
    def shown(self, layer, end, k, v):
        K, V = super().shown(layer, end, k, v)
        return K.flip(2), V.flip(2)


class TokensBeforeHeads(Base):
    def shown(self, layer, end, k, v):
        K, V = super().shown(layer, end, k, v)
        return K.transpose(1, 2), V.transpose(1, 2)


class Reshaped(Base):
    """A reshape where a transpose is meant: heads and tokens are mixed."""

    def write(self, layer, start, end, k, v):
        k, v = (rows.transpose(1, 2).reshape(rows.shape) for rows in (k, v))
        super().write(layer, start, end, k, v)


class ShowsLayerZero(Base):
    def shown(self, layer, end, k, v):
        return super().shown(0, end, k, v)


class ReturnsNothing(Base):
    def shown(self, layer, end, k, v):
        return None


# What is written, and where.


class ValuesAreKeys(Base):
    def write(self, layer, start, end, k, v):
        super().write(layer, start, end, k, k)


class OneBufferForBoth(Base):
    def make(self):
        super().make()
        self.V = self.K


class OneBufferForAllLayers(Base):
    def make(self):
        self.K, self.V = [self.buffer()] * self.L, [self.buffer()] * self.L


class KeysOfAllLayersShared(Base):
    def make(self):
        super().make()
        self.K = [self.K[0]] * self.L


class FirstRowForAll(Base):
    def write(self, layer, start, end, k, v):
        super().write(layer, start, end, k[:1], v[:1])


class FirstHeadForAll(Base):
    def write(self, layer, start, end, k, v):
        super().write(layer, start, end, k[:, :1], v[:, :1])


class LastTokenOnly(Base):
    """Written for one new token; a chunk's last one is spread over all its rows."""

    def write(self, layer, start, end, k, v):
        super().write(layer, start, end, k[:, :, -1:], v[:, :, -1:])


class AlwaysFromZero(Base):
    def write(self, layer, start, end, k, v):
        super().write(layer, 0, end - start, k, v)


class LaterLayersBehind(Base):
    """Only layer 0 writes at the counter; the others write where the pass before began."""

    before = 0

    def write(self, layer, start, end, k, v):
        start = start if layer == 0 else self.before
        super().write(layer, start, start + k.shape[2], k, v)

    def advance(self, num_tokens):
        self.before = self.used
        super().advance(num_tokens)


class Rounded(Base):
    def write(self, layer, start, end, k, v):
        k, v = ((rows * 64).round() / 64 for rows in (k, v))
        super().write(layer, start, end, k, v)


# Counting.


class AdvancesInAppend(Base):
    def append(self, layer, k, v):
        shown = super().append(layer, k, v)
        self.used += k.shape[2]
        return shown

    def advance(self, num_tokens):
        pass


class AdvancesInBoth(Base):
    """The last layer's append counts, and advance counts again."""

    def append(self, layer, k, v):
        shown = super().append(layer, k, v)
        self.used += k.shape[2] if layer == self.L - 1 else 0
        return shown


class NeverAdvances(Base):
    def advance(self, num_tokens):
        pass


class AdvancesByOne(Base):
    def advance(self, num_tokens):
        super().advance(min(num_tokens, 1))


class AdvancesByLayers(Base):
    def advance(self, num_tokens):
        super().advance(num_tokens)
        self.used += (self.L - 1) * num_tokens


class AdvancesTo(Base):
    """Sets the length instead of adding to it."""

    def advance(self, num_tokens):
        self.used = num_tokens


class OnlyLayerZeroCounted(Base):
    def __init__(self, *args):
        super().__init__(*args)
        self.lengths = [0] * self.L

    def start(self, layer, num_tokens):
        return self.lengths[layer]

    def advance(self, num_tokens):
        super().advance(num_tokens)
        self.lengths[0] += num_tokens

    def reset(self):
        super().reset()
        self.lengths = [0] * self.L


class CountsRows(Base):
    """The length counts the tokens of all sequences together."""

    def __len__(self):
        return self.used * self.B


class CountsAppends(Base):
    """advance() counts what was appended to layer 0 since, and not what it is told: a second try counts twice."""

    waiting = 0

    def append(self, layer, k, v):
        shown = super().append(layer, k, v)
        self.waiting += k.shape[2] if layer == 0 else 0
        return shown

    def advance(self, num_tokens):
        if num_tokens < 0:
            raise ValueError("negative")
        super().advance(max(self.waiting, num_tokens))
        self.waiting = 0

    def reset(self):
        super().reset()
        self.waiting = 0


# Memory.


class Concatenates(Base):
    """Grows by torch.cat, and reports the bytes that a buffer would have had."""

    def buffer(self):
        return torch.empty(self.B, self.Hkv, 0, self.D, dtype=self.dtype)

    @property
    def nbytes(self):
        size = torch.empty(0, dtype=self.dtype).element_size()
        return 2 * self.L * self.B * self.Hkv * self.max_len * self.D * size

    def write(self, layer, start, end, k, v):
        self.K[layer] = torch.cat([self.K[layer][:, :, :start], k], dim=2)
        self.V[layer] = torch.cat([self.V[layer][:, :, :start], v], dim=2)


class Doubles(Concatenates):
    """Begins small, and doubles when it must."""

    def buffer(self):
        return torch.empty(self.B, self.Hkv, 4, self.D, dtype=self.dtype)

    def write(self, layer, start, end, k, v):
        for held in (self.K, self.V):
            while held[layer].shape[2] < end:
                held[layer] = torch.cat([held[layer], torch.empty_like(held[layer])], dim=2)
        Base.write(self, layer, start, end, k, v)


class MadeAtFirstUse(Base):
    def make(self):
        self.K, self.V = [self.buffer()[:, :, :0].clone()] * self.L, [self.buffer()[:, :, :0].clone()] * self.L
        self.made = False

    def write(self, layer, start, end, k, v):
        if not self.made:
            super().make()
            self.made = True
        super().write(layer, start, end, k, v)


class PowerOfTwo(Base):
    def buffer(self):
        rows = 1 << (self.max_len - 1).bit_length()
        return torch.empty(self.B, self.Hkv, rows, self.D, dtype=self.dtype)


class OneRowMore(Base):
    def buffer(self):
        return torch.empty(self.B, self.Hkv, self.max_len + 1, self.D, dtype=self.dtype)


class TwoHeadsForOne(Base):
    """Every KV head is kept twice, ready for two query heads."""

    def buffer(self):
        return torch.empty(self.B, 2 * self.Hkv, self.max_len, self.D, dtype=self.dtype)

    def write(self, layer, start, end, k, v):
        super().write(layer, start, end, k.repeat_interleave(2, dim=1), v.repeat_interleave(2, dim=1))

    def shown(self, layer, end, k, v):
        return self.K[layer][:, ::2, :end], self.V[layer][:, ::2, :end]


class KeepsTheChunk(Base):
    def shown(self, layer, end, k, v):
        self.last = k.clone(), v.clone()
        return super().shown(layer, end, k, v)


class AlwaysFloat32(Base):
    def buffer(self):
        return torch.empty(self.B, self.Hkv, self.max_len, self.D)


class AlwaysFloat64(Base):
    def buffer(self):
        return torch.empty(self.B, self.Hkv, self.max_len, self.D, dtype=torch.float64)


class BytesInUse(Base):
    @property
    def nbytes(self):
        return super().nbytes * self.used // self.max_len


class BytesOfKeys(Base):
    @property
    def nbytes(self):
        return super().nbytes // 2


class BytesOfOneLayer(Base):
    @property
    def nbytes(self):
        return super().nbytes // self.L


class ElementsForBytes(Base):
    @property
    def nbytes(self):
        return sum(buffer.numel() for buffer in (*self.K, *self.V))


class TwoBytesEach(Base):
    @property
    def nbytes(self):
        return 2 * sum(buffer.numel() for buffer in (*self.K, *self.V))


class WritesAtAdvance(Base):
    """Holds on to the caller's tensors until advance()."""

    def make(self):
        super().make()
        self.waiting = {}

    def write(self, layer, start, end, k, v):
        self.waiting[layer] = k, v

    def shown(self, layer, end, k, v):
        return torch.cat([self.K[layer][:, :, : self.used], k], 2), torch.cat([self.V[layer][:, :, : self.used], v], 2)

    def advance(self, num_tokens):
        start = self.used
        super().advance(num_tokens)
        for layer, (k, v) in self.waiting.items():
            Base.write(self, layer, start, self.used, k[:, :, :num_tokens], v[:, :, :num_tokens])
        self.waiting = {}

    def reset(self):
        super().reset()
        self.waiting = {}


class ChangesTheInput(Base):
    def write(self, layer, start, end, k, v):
        super().write(layer, start, end, k, v)
        k.zero_()
        v.zero_()


# Room.


class NoRoomCheck(Base):
    def refuse_room(self, num_tokens):
        pass


class CountsPastTheEnd(NoRoomCheck):
    """Neither append nor advance looks at the room."""

    def advance(self, num_tokens):
        if num_tokens < 0:
            raise ValueError("negative")
        self.used += num_tokens


class FullOnly(Base):
    """Asks whether it is full, not whether all the tokens fit."""

    def refuse_room(self, num_tokens):
        if self.used >= self.max_len:
            raise ValueError("full")


class RoomInLayerZeroOnly(Base):
    def append(self, layer, k, v):
        self.layer = layer
        return super().append(layer, k, v)

    def refuse_room(self, num_tokens):
        if self.layer == 0:
            super().refuse_room(num_tokens)


class OneTooFew(Base):
    def refuse_room(self, num_tokens):
        super().refuse_room(num_tokens + 1)


class OneTooMany(Base):
    def refuse_room(self, num_tokens):
        super().refuse_room(num_tokens - 1)


class ClipsTheChunk(Base):
    """What fits is kept, the rest of the chunk goes without a word."""

    def append(self, layer, k, v):
        room = self.max_len - self.used
        return super().append(layer, k[:, :, :room], v[:, :, :room])


class ClipsAStraddlingChunk(Base):
    """Refuses when it is full; of a chunk that begins inside it keeps what fits."""

    def append(self, layer, k, v):
        room = self.max_len - self.used
        return super().append(layer, k[:, :, : room or None], v[:, :, : room or None])


class DropsTheChunk(Base):
    def append(self, layer, k, v):
        if not self.can_append(k.shape[2]):
            return self.shown(layer, self.used, k, v)
        return super().append(layer, k, v)


class WritesOverTheLast(NoRoomCheck):
    def write(self, layer, start, end, k, v):
        end = min(end, self.max_len)
        super().write(layer, end - k.shape[2], end, k, v)


class StartsAgain(NoRoomCheck):
    """Writing goes on at row 0, as in a ring."""

    def write(self, layer, start, end, k, v):
        rows = torch.arange(start, end) % self.max_len
        self.K[layer][:, :, rows], self.V[layer][:, :, rows] = k, v


class Slides(NoRoomCheck):
    def write(self, layer, start, end, k, v):
        over = max(0, end - self.max_len)
        for rows in (self.K[layer], self.V[layer]):
            rows[:, :, : self.max_len - over] = rows[:, :, over:].clone()
        super().write(layer, start - over, end - over, k, v)


class Grows(Base):
    def refuse_room(self, num_tokens):
        more = self.used + num_tokens - self.max_len
        if more > 0:
            for held in (self.K, self.V):
                held[:] = [
                    torch.cat([rows, torch.empty_like(rows[:, :, :1].expand(-1, -1, more, -1))], 2) for rows in held
                ]
            self.max_len += more


class Asserts(Base):
    def refuse_room(self, num_tokens):
        assert self.used + num_tokens <= self.max_len, "full"  # noqa: S101


class AdvancesTooFar(Base):
    def advance(self, num_tokens):
        if num_tokens < 0:
            raise ValueError("negative")
        self.used += num_tokens


class AdvancesBackwards(Base):
    def advance(self, num_tokens):
        if self.used + num_tokens > self.max_len:
            raise ValueError("full")
        self.used = max(0, self.used + num_tokens)


class AdvanceClamps(Base):
    def advance(self, num_tokens):
        self.used = min(max(self.used + num_tokens, 0), self.max_len)


class CountsBeforeRefusing(Base):
    def advance(self, num_tokens):
        self.used += num_tokens
        if not 0 <= num_tokens <= self.max_len - self.used + num_tokens:
            raise ValueError("no room")


class AlwaysRoom(Base):
    def can_append(self, num_tokens):
        return True


class RoomOfAnEmptyCache(Base):
    def can_append(self, num_tokens):
        return num_tokens <= self.max_len


class RoomForOne(Base):
    def can_append(self, num_tokens):
        return self.used < self.max_len


class RoomToSpare(Base):
    def can_append(self, num_tokens):
        return self.used + num_tokens < self.max_len


# Input.


class NoShapeCheck(Base):
    def refuse_rows(self, k, v):
        for rows in (k, v):
            if rows.dtype != self.dtype:
                raise ValueError("dtype")


class KeysOnly(Base):
    def refuse_rows(self, k, v):
        super().refuse_rows(k, k)


class LikeEachOther(NoShapeCheck):
    def refuse_rows(self, k, v):
        super().refuse_rows(k, v)
        if k.shape != v.shape:
            raise ValueError("k and v differ")


class _AllButOneAxis(Base):
    """Looks at three axes of four."""

    axis = None

    def refuse_rows(self, k, v):
        want = [self.B, self.Hkv, k.shape[2] if k.ndim == 4 else 0, self.D]
        for rows in (k, v):
            shape = list(rows.shape)
            if (
                rows.ndim != 4
                or shape[: self.axis] + shape[self.axis + 1 :] != want[: self.axis] + want[self.axis + 1 :]
            ):
                raise ValueError("shape")
            if rows.dtype != self.dtype:
                raise ValueError("dtype")


class RowsUnchecked(_AllButOneAxis):
    axis = 0


class HeadsUnchecked(_AllButOneAxis):
    axis = 1


class TokensUnchecked(_AllButOneAxis):
    axis = 2


class FeaturesUnchecked(_AllButOneAxis):
    axis = 3


class LastAxesOnly(Base):
    """Looks at heads, tokens and features from the end, so an axis too many or too few gets through."""

    def refuse_rows(self, k, v):
        for rows in (k, v):
            if tuple(rows.shape[-3:]) != (self.Hkv, k.shape[-2], self.D) or rows.dtype != self.dtype:
                raise ValueError("shape")


class SizeForShape(Base):
    """Compares the number of elements; a wrong order of axes gets through."""

    def refuse_rows(self, k, v):
        for rows in (k, v):
            if rows.ndim != 4 or rows.numel() % (self.B * self.Hkv * self.D) or rows.shape[3] != self.D:
                raise ValueError("size")
            if rows.numel() != k.numel() or rows.dtype != self.dtype:
                raise ValueError("size")

    def append(self, layer, k, v):
        self.refuse_layer(layer)
        self.refuse_rows(k, v)
        k, v = (rows.reshape(self.B, self.Hkv, -1, self.D) for rows in (k, v))  # (B, Hkv, T, D)
        return super().append(layer, k, v)


class CastsInSilence(Base):
    def refuse_rows(self, k, v):
        super().refuse_rows(k.to(self.dtype), v.to(self.dtype))


class KeysDtypeOnly(Base):
    def refuse_rows(self, k, v):
        super().refuse_rows(k, v.to(self.dtype))


class LayerFromTheEnd(Base):
    def refuse_layer(self, layer):
        if layer >= self.L:
            raise ValueError("no such layer")


class LayerIndexError(Base):
    def refuse_layer(self, layer):
        if layer < 0:
            raise ValueError("no such layer")


class LayerWraps(Base):
    def append(self, layer, k, v):
        return super().append(layer % self.L, k, v)


class HalfWritten(Base):
    """K is written before V is looked at."""

    def append(self, layer, k, v):
        self.refuse_layer(layer)
        self.refuse_rows(k, k)
        self.refuse_room(k.shape[2])
        end = self.used + k.shape[2]
        self.K[layer][:, :, self.used : end] = k
        self.refuse_rows(k, v)
        self.V[layer][:, :, self.used : end] = v
        return self.shown(layer, end, k, v)


class WrittenThenRefused(Base):
    """Room is looked at first, then everything is written, then the dtype is looked at."""

    def refuse_rows(self, k, v):
        if tuple(k.shape) != tuple(v.shape) or tuple(k.shape) != (self.B, self.Hkv, k.shape[-2], self.D):
            raise ValueError("shape")

    def append(self, layer, k, v):
        shown = super().append(layer, k, v)
        if k.dtype != self.dtype or v.dtype != self.dtype:
            raise ValueError("dtype")
        return shown


# A second try.


class AppendsBehind(Base):
    """Each layer has a length of its own, which append moves on: a second try comes behind the first."""

    def __init__(self, *args):
        super().__init__(*args)
        self.lengths = [0] * self.L

    def start(self, layer, num_tokens):
        start = self.lengths[layer]
        if start + num_tokens > self.max_len:
            raise ValueError("full")
        self.lengths[layer] += num_tokens
        return start

    def reset(self):
        super().reset()
        self.lengths = [0] * self.L


class SecondTryRefused(Base):
    def __init__(self, *args):
        super().__init__(*args)
        self.done = set()

    def start(self, layer, num_tokens):
        if layer in self.done:
            raise ValueError(f"layer {layer} has this pass already")
        self.done.add(layer)
        return self.used

    def advance(self, num_tokens):
        super().advance(num_tokens)
        self.done.clear()

    def reset(self):
        super().reset()
        self.done.clear()


class FirstTryKept(Base):
    """Only the rows that were not written before are written."""

    def __init__(self, *args):
        super().__init__(*args)
        self.written = [0] * self.L

    def write(self, layer, start, end, k, v):
        first = min(max(self.written[layer], start), end)
        super().write(layer, first, end, k[:, :, first - start :], v[:, :, first - start :])
        self.written[layer] = max(end, self.written[layer])

    def reset(self):
        super().reset()
        self.written = [0] * self.L


class LongestTryShown(Base):
    def __init__(self, *args):
        super().__init__(*args)
        self.longest = [0] * self.L

    def shown(self, layer, end, k, v):
        self.longest[layer] = max(end, self.longest[layer])
        return super().shown(layer, self.longest[layer], k, v)

    def reset(self):
        super().reset()
        self.longest = [0] * self.L


# Reset, and other caches.


class ResetDoesNothing(Base):
    def reset(self):
        pass


class ResetKeepsTheOffset(Base):
    """Two counters, of which one goes back."""

    offset = 0

    def start(self, layer, num_tokens):
        if self.offset + num_tokens > self.max_len:
            raise ValueError("full")
        return self.offset

    def advance(self, num_tokens):
        super().advance(num_tokens)
        self.offset += num_tokens


class ResetLayerZeroOnly(Base):
    def __init__(self, *args):
        super().__init__(*args)
        self.lengths = [0] * self.L

    def start(self, layer, num_tokens):
        if self.lengths[layer] + num_tokens > self.max_len:
            raise ValueError("full")
        return self.lengths[layer]

    def advance(self, num_tokens):
        super().advance(num_tokens)
        self.lengths = [length + num_tokens for length in self.lengths]

    def reset(self):
        super().reset()
        self.lengths[0] = 0


class ResetLosesTheMemory(Base):
    def reset(self):
        super().reset()
        empty = [torch.empty(self.B, self.Hkv, 0, self.D, dtype=self.dtype) for _ in range(self.L)]
        self.K, self.V = empty, list(empty)

    def write(self, layer, start, end, k, v):
        if self.K[layer].shape[2] == 0:
            self.make()
        super().write(layer, start, end, k, v)


class ResetLosesTheLimit(Base):
    again = False

    def reset(self):
        super().reset()
        self.again = True

    def refuse_room(self, num_tokens):
        if not self.again:
            super().refuse_room(num_tokens)


class ResetForgetsTheBrokenPass(Base):
    """A layer's first append of a pass fixes where the pass writes; only advance() lets go of it."""

    fixed = None

    def start(self, layer, num_tokens):
        self.fixed = self.used if self.fixed is None else self.fixed
        return self.fixed

    def advance(self, num_tokens):
        super().advance(num_tokens)
        self.fixed = None


class SharedByAll(Base):
    shared: dict = {}

    def make(self):
        key = (self.L, self.B, self.Hkv, self.max_len, self.D, str(self.dtype))
        if key not in self.shared:
            super().make()
            self.shared[key] = self.K, self.V
        self.K, self.V = self.shared[key]


class LengthForAll(Base):
    """The length lies on the class. A new cache sets it to 0."""

    def make(self):
        super().make()
        type(self).used = 0
        del self.used

    def advance(self, num_tokens):
        if not 0 <= num_tokens <= self.max_len - self.used:
            raise ValueError("no room")
        type(self).used += num_tokens

    def reset(self):
        type(self).used = 0


MISTAKES = (
    Mistake("whole-buffer", WholeBuffer, "append() returns the whole buffer, with rows that nobody wrote. Return rows 0 to S + T.", "one pass"),
    Mistake("whole-buffer-of-zeros", WholeBufferOfZeros, "append() returns the whole buffer, zeros included; a zero key gets weight too. Return rows 0 to S + T.", "one pass"),
    Mistake("old-rows-only", OldRowsOnly, "append() returns the tokens held before, without the new ones. A token attends to itself too.", "one pass"),
    Mistake("new-rows-only", NewRowsOnly, "append() returns the new tokens only. Return all of the layer, from row 0.", "any chunks"),
    Mistake("one-token-late", OneTokenLate, "What append() returns ends one row too early: the newest token is missing.", "one pass"),
    Mistake("one-token-too-many", OneTokenTooMany, "What append() returns ends one row too late: nobody has written that row yet.", "one pass"),
    Mistake("halves-swapped", Swapped, "append() returns (V, K): the two have changed places.", "one pass"),
    Mistake("newest-first", NewestFirst, "The tokens come newest first. Row t belongs to token t.", "one pass"),
    Mistake("tokens-before-heads", TokensBeforeHeads, "append() returns (B, S + T, Hkv, D). Heads come before tokens: (B, Hkv, S + T, D).", "one pass"),
    Mistake("reshaped-not-transposed", Reshaped, "Heads and tokens are mixed: a reshape does not change the order of axes, transpose() does.", "one pass"),
    Mistake("shows-layer-0", ShowsLayerZero, "append() returns layer 0, whichever layer it was asked for.", "one pass"),
    Mistake("returns-nothing", ReturnsNothing, "append() writes but returns nothing. Return the pair (K, V).", "one pass"),
    Mistake("values-are-keys", ValuesAreKeys, "V comes back as K: the keys are written, or returned, twice.", "one pass"),
    Mistake("one-buffer-for-both", OneBufferForBoth, "K and V are the same tensor: the values overwrite the keys.", "one pass"),
    Mistake("one-buffer-for-all-layers", OneBufferForAllLayers,
            "All layers write into one buffer. `[torch.empty(...)] * L` is one tensor L times: make one for each layer.", "any chunks"),
    Mistake("keys-of-all-layers-shared", KeysOfAllLayersShared, "The layers share one buffer of keys; only the values are kept apart.", "any chunks"),
    Mistake("first-row-for-all", FirstRowForAll, "The first sequence's keys and values are written for every sequence.", "one pass"),
    Mistake("first-head-for-all", FirstHeadForAll, "The first KV head is written for every KV head.", "one pass"),
    Mistake("last-token-only", LastTokenOnly, "Of a chunk only the last token is written, into all of its rows.", "one pass"),
    Mistake("always-from-zero", AlwaysFromZero, "Every chunk is written from row 0. It begins at row len(cache).", "any chunks"),
    Mistake("later-layers-behind", LaterLayersBehind, "Only layer 0 writes at len(cache); later layers write where the pass before began.", "any chunks"),
    Mistake("rounded", Rounded, "The rows come back rounded. A cache keeps numbers as they are.", "one pass"),
    Mistake("advances-in-append", AdvancesInAppend,
            "append() moves the length on, so layer 1 writes behind layer 0's new rows. Only advance() does, once a pass.", "one pass",
            seen_in="caches with one counter that were written for one layer"),
    Mistake("advances-in-both", AdvancesInBoth, "The last layer's append() moves the length on. Only advance() may.", "one pass"),
    Mistake("never-advances", NeverAdvances, "advance() does nothing: every pass is written over the one before.", "one pass"),
    Mistake("advances-by-one", AdvancesByOne, "advance() counts one token, whatever it is told. A pass may bring several.", "one pass"),
    Mistake("advances-by-layers", AdvancesByLayers, "The length grows by T for each layer. It counts tokens: T for a pass.", "one pass"),
    Mistake("advances-to", AdvancesTo, "advance(n) sets the length to n. It must add n.", "any chunks"),
    Mistake("layer-0-counted-only", OnlyLayerZeroCounted, "Only layer 0's length moves on: the other layers write every pass from row 0.", "any chunks"),
    Mistake("counts-sequences", CountsRows, "len(cache) is multiplied by the number of sequences. It counts the tokens of one.", "one pass"),
    Mistake("counts-appends", CountsAppends, "advance() counts what was appended since, and not n. After a second try that is too many.", "tried again"),
    Mistake("concatenates", Concatenates,
            "torch.cat makes new memory at every step, and nbytes tells of a buffer that is not there. Take it once.", "memory",
            seen_in="the first cache that most people write, and early library code"),
    Mistake("doubles", Doubles, "The buffers begin small and are doubled. Take all the memory in __init__.", "memory"),
    Mistake("made-at-first-use", MadeAtFirstUse, "The buffers are made at the first append(). Take the memory in __init__.", "memory"),
    Mistake("power-of-two", PowerOfTwo, "The buffers are rounded up to a power of two: more bytes than were planned for.", "memory"),
    Mistake("one-row-more", OneRowMore, "The buffers have one row more than max_len.", "memory"),
    Mistake("two-heads-for-one", TwoHeadsForOne, "Every KV head is kept twice. Keep Hkv heads: that is what GQA saves.", "memory"),
    Mistake("keeps-the-chunk", KeepsTheChunk, "The newest k and v are kept a second time, beside the buffer.", "memory"),
    Mistake("always-float32", AlwaysFloat32, "The buffers are float32, whatever dtype was asked for.", "memory"),
    Mistake("always-float64", AlwaysFloat64, "The buffers are float64, whatever dtype was asked for.", "memory"),
    Mistake("bytes-in-use", BytesInUse, "nbytes counts the rows in use. The memory is all taken from the start.", "memory"),
    Mistake("bytes-of-keys", BytesOfKeys, "nbytes counts K and forgets V.", "memory"),
    Mistake("bytes-of-one-layer", BytesOfOneLayer, "nbytes counts one layer. There are num_layers of them.", "memory"),
    Mistake("elements-for-bytes", ElementsForBytes, "nbytes counts elements. Multiply by the bytes of one, or use tensor.nbytes.", "memory"),
    Mistake("two-bytes-each", TwoBytesEach, "nbytes takes every element for two bytes. It depends on the dtype: use tensor.nbytes.", "memory"),
    Mistake("keeps-references", WritesAtAdvance,
            "The caller's own tensors are kept until advance(): when it reuses them, the rows change. Copy the numbers.", "memory"),
    Mistake("changes-the-input", ChangesTheInput, "append() overwrites k and v. They belong to the caller.", "memory"),
    Mistake("no-room-check", NoRoomCheck,
            "append() never asks whether there is room: a slice past the end takes one token in silence.", "full",
            seen_in="minimal caches published with slice assignment"),
    Mistake("counts-past-the-end", CountsPastTheEnd, "Neither append() nor advance() asks for room: a dropped token is even counted.", "full"),
    Mistake("full-only", FullOnly, "append() asks whether the cache is full, not whether all T tokens fit.", "full"),
    Mistake("room-in-layer-0-only", RoomInLayerZeroOnly, "Only layer 0 asks for room.", "full"),
    Mistake("one-too-few", OneTooFew, "It refuses one token too early: max_len tokens must fit. The test is used + T > max_len.", "any chunks"),
    Mistake("one-too-many", OneTooMany, "One token too many is let in. The test is used + T > max_len.", "full"),
    Mistake("clips-the-chunk", ClipsTheChunk, "What does not fit is cut off without a word. Refuse the whole chunk.", "full"),
    Mistake("clips-a-straddling-chunk", ClipsAStraddlingChunk, "Of a chunk that runs past the end, the part that fits is kept. Refuse all of it.", "full"),
    Mistake("drops-the-chunk", DropsTheChunk, "A chunk that does not fit is dropped without a word. Raise ValueError.", "full"),
    Mistake("overwrites-the-last", WritesOverTheLast, "When there is no room, the last rows are written over. Refuse.", "full"),
    Mistake("starts-again", StartsAgain, "Past the end, writing goes on at row 0. Refuse.", "full"),
    Mistake("slides", Slides, "When there is no room, the oldest tokens are pushed out. Refuse.", "full"),
    Mistake("grows", Grows, "When there is no room, it grows. max_len is a promise about memory: refuse.", "full"),
    Mistake("asserts", Asserts, "An assert is no refusal: it raises AssertionError, and python -O drops it. Raise ValueError.", "full"),
    Mistake("advances-too-far", AdvancesTooFar, "advance() lets the length grow beyond max_len.", "full"),
    Mistake("advances-backwards", AdvancesBackwards, "advance() takes a negative number. Refuse it.", "full"),
    Mistake("advance-clamps", AdvanceClamps, "advance() cuts a wrong number down to what is possible. Refuse it.", "full"),
    Mistake("counts-before-refusing", CountsBeforeRefusing, "A refused advance() is counted all the same: check before anything changes.", "full"),
    Mistake("always-room", AlwaysRoom, "can_append() always says yes.", "full"),
    Mistake("room-of-an-empty-cache", RoomOfAnEmptyCache, "can_append() forgets the tokens that are held.", "full"),
    Mistake("room-for-one", RoomForOne, "can_append() answers for one token, whatever it is asked.", "full"),
    Mistake("room-to-spare", RoomToSpare, "can_append() says no where the tokens just fit. The test is used + n <= max_len.", "full"),
    Mistake("no-shape-check", NoShapeCheck, "Shapes are not checked: torch spreads a size of 1 over the whole axis.", "wrong input",
            seen_in="caches that write with a slice assignment"),
    Mistake("checks-keys-only", KeysOnly, "k is checked, v is not.", "wrong input"),
    Mistake("compares-k-with-v-only", LikeEachOther, "k and v are compared with each other, not with (B, Hkv, T, D).", "wrong input"),
    Mistake("rows-unchecked", RowsUnchecked, "The first axis is not checked: one sequence is spread over all B.", "wrong input"),
    Mistake("heads-unchecked", HeadsUnchecked, "The second axis is not checked: one KV head is spread over all Hkv.", "wrong input"),
    Mistake("tokens-unchecked", TokensUnchecked, "k and v may differ in T: one value is spread over the tokens of a chunk.", "wrong input"),
    Mistake("features-unchecked", FeaturesUnchecked, "The last axis is not checked: one number is spread over a whole row.", "wrong input"),
    Mistake("last-axes-only", LastAxesOnly, "Only the last three axes are checked: k of (Hkv, T, D) is spread over all sequences.", "wrong input"),
    Mistake("size-for-shape", SizeForShape, "Sizes are compared, not shapes: (B, T, Hkv, D) gets through, with heads and tokens mixed.", "wrong input"),
    Mistake("casts-in-silence", CastsInSilence, "Rows of another dtype are converted without a word. Refuse them.", "wrong input"),
    Mistake("dtype-of-keys-only", KeysDtypeOnly, "The dtype of k is checked, that of v is not.", "wrong input"),
    Mistake("layer-from-the-end", LayerFromTheEnd, "Layer -1 is taken for the last one, as Python does. Refuse it.", "wrong input"),
    Mistake("index-error", LayerIndexError, "For a layer that is not there an IndexError comes through. Check first, and raise ValueError.", "wrong input"),
    Mistake("layer-wraps", LayerWraps, "A layer that is not there is counted round to one that is. Refuse it.", "wrong input"),
    Mistake("half-written", HalfWritten, "k is written before v is checked: a refusal leaves half a chunk. Do all checks first.", "wrong input"),
    Mistake("written-then-refused", WrittenThenRefused, "The dtype is refused after the rows were written. Do all checks first.", "wrong input"),
    Mistake("appends-behind", AppendsBehind,
            "append() moves a length of its own layer on: a second try comes behind the first. Write at len(cache).", "tried again"),
    Mistake("second-try-refused", SecondTryRefused, "A second append() to a layer is refused. Before advance() it writes over the first.", "tried again"),
    Mistake("first-try-kept", FirstTryKept, "The rows of the first try stay. A second append() before advance() writes over them.", "tried again"),
    Mistake("longest-try-shown", LongestTryShown, "After a shorter second try, rows of the first are still shown. Return rows 0 to S + T.", "tried again"),
    Mistake("reset-does-nothing", ResetDoesNothing, "reset() leaves the tokens in place.", "reset"),
    Mistake("reset-keeps-the-offset", ResetKeepsTheOffset, "After reset() the length is 0, yet writing goes on where it was: two counters, one reset.", "reset"),
    Mistake("reset-layer-0-only", ResetLayerZeroOnly, "reset() sets layer 0 back. The other layers go on where they were.", "reset"),
    Mistake("reset-loses-the-memory", ResetLosesTheMemory, "reset() gives the memory away. It stays, and is written over.", "reset"),
    Mistake("reset-loses-the-limit", ResetLosesTheLimit, "After reset() nothing asks for room any more.", "reset"),
    Mistake("reset-keeps-a-broken-pass", ResetForgetsTheBrokenPass, "A pass that was broken off still fixes where the next one writes, even after reset().", "reset"),
    Mistake("buffers-shared-by-all-caches", SharedByAll, "Two caches of one size write into the same buffers. Make them in __init__, on self.", "reset"),
    Mistake("length-shared-by-all-caches", LengthForAll, "Two caches share one length: it lies on the class. Keep it on self.", "reset"),
)  # fmt: skip


class OneBuffer(Base):
    """One tensor for everything, of zeros; views go out; an exception class of its own."""

    class Refused(ValueError):
        pass

    def make(self):
        self.data = torch.zeros((2, self.L, self.B, self.Hkv, self.max_len, self.D), dtype=self.dtype)

    @property
    def nbytes(self):
        return self.data.numel() * self.data.element_size()

    def append(self, layer, k, v):
        if layer not in range(self.L):
            raise self.Refused(layer)
        if k.shape != v.shape or k.dim() != 4 or k.shape[:2] != self.data.shape[2:4] or k.shape[3] != self.D:
            raise self.Refused("shape")
        if {k.dtype, v.dtype} != {self.dtype} or k.shape[2] > self.max_len - self.used:
            raise self.Refused("dtype or room")
        end = self.used + k.shape[2]
        self.data[:, layer, :, :, self.used : end] = torch.stack([k, v])
        return self.data[:, layer, :, :, :end]


class TokensFirst(Base):
    """(B, max_len, Hkv, D) inside, transposed views go out as a list."""

    def buffer(self):
        return torch.empty(self.B, self.max_len, self.Hkv, self.D, dtype=self.dtype)

    def write(self, layer, start, end, k, v):
        self.K[layer].narrow(1, start, end - start).copy_(k.transpose(1, 2))
        self.V[layer].narrow(1, start, end - start).copy_(v.transpose(1, 2))

    def shown(self, layer, end, k, v):
        return [self.K[layer][:, :end].transpose(1, 2), self.V[layer][:, :end].transpose(1, 2)]


class DictOfClones(Base):
    """A dict of buffers, index_copy_, clones go out; reset takes new memory."""

    def make(self):
        shape = (self.B, self.Hkv, self.max_len, self.D)
        self.kept = {(name, i): torch.full(shape, -1.0, dtype=self.dtype) for name in "kv" for i in range(self.L)}

    @property
    def nbytes(self):
        return sum(rows.nbytes for rows in self.kept.values())

    def write(self, layer, start, end, k, v):
        rows = torch.arange(start, end)
        self.kept["k", layer].index_copy_(2, rows, k)
        self.kept["v", layer].index_copy_(2, rows, v)

    def shown(self, layer, end, k, v):
        return self.kept["k", layer][:, :, :end].clone(), self.kept["v", layer][:, :, :end].clone()

    def reset(self):
        super().reset()
        self.make()


class LengthsByLayer:
    """Every layer is an object with a length of its own; advance sets them all."""

    class Layer:
        def __init__(self, shape, dtype):
            self.rows = torch.empty(2, *shape, dtype=dtype)
            self.length = 0

    def __init__(self, num_layers, batch_size, num_kv_heads, max_len, head_dim, dtype):
        shape = batch_size, num_kv_heads, max_len, head_dim
        self.layers = [self.Layer(shape, dtype) for _ in range(num_layers)]
        self.room = max_len
        self.nbytes = sum(layer.rows.nbytes for layer in self.layers)

    def __len__(self):
        return min(layer.length for layer in self.layers)

    def can_append(self, num_tokens):
        return torch.tensor(len(self) + num_tokens <= self.room)

    def append(self, layer, k, v):
        if layer < 0 or layer >= len(self.layers):
            raise ValueError(layer)
        layer = self.layers[layer]
        for rows in (k, v):
            if rows.ndim != 4 or rows.shape != k.shape or rows.dtype != layer.rows.dtype:
                raise ValueError("k and v")
            if rows[:, :, :0].shape != layer.rows[0, :, :, :0].shape or rows.shape[2] > self.room - layer.length:
                raise ValueError("k and v")
        new = layer.rows.narrow(3, layer.length, k.shape[2])  # (2, B, Hkv, T, D)
        new[0], new[1] = k, v
        return tuple(layer.rows.narrow(3, 0, layer.length + k.shape[2]).unbind())

    def advance(self, num_tokens):
        if num_tokens < 0 or len(self) + num_tokens > self.room:
            raise ValueError(num_tokens)
        for layer in self.layers:
            layer.length += num_tokens

    def reset(self):
        for layer in self.layers:
            layer.length = 0
            layer.rows.zero_()


class CopiesAtAdvance(WritesAtAdvance):
    """Holds copies until advance(), which writes them."""

    def write(self, layer, start, end, k, v):
        self.waiting[layer] = k.clone(), v.clone()

    def advance(self, num_tokens):
        if num_tokens < 0:
            raise ValueError(num_tokens)
        super().advance(num_tokens)


class NumpyMemory(Base):
    """NumPy arrays inside, a tensor of counters beside them."""

    def make(self):
        shape = (self.B, self.Hkv, self.max_len, self.D)
        kind = torch.empty(0, dtype=self.dtype).numpy().dtype
        self.K, self.V = ([torch.zeros(shape).numpy().astype(kind) for _ in range(self.L)] for _ in "kv")
        self.counts = torch.zeros(self.L, dtype=torch.int64)

    def write(self, layer, start, end, k, v):
        self.counts[layer] = end
        super().write(layer, start, end, k.numpy(), v.numpy())

    def shown(self, layer, end, k, v):
        return tuple(torch.from_numpy(rows[layer][:, :, : self.counts[layer]]) for rows in (self.K, self.V))


VARIANTS = (
    Variant("two lists of buffers", Base),
    Variant("one buffer of zeros", OneBuffer),
    Variant("tokens before heads inside", TokensFirst),
    Variant("a dict, clones go out", DictOfClones),
    Variant("a length for each layer", LengthsByLayer),
    Variant("copies until advance", CopiesAtAdvance),
    Variant("NumPy inside", NumpyMemory),
)


# What shows only off the usual path.


class AdvancesByTheChunk(Base):
    chunk = 0

    def write(self, layer, start, end, k, v):
        super().write(layer, start, end, k, v)
        self.chunk = end - start

    def advance(self, num_tokens):
        super().advance(num_tokens)
        self.used += self.chunk - num_tokens


class AdvanceMustMatch(Base):
    chunk = None

    def write(self, layer, start, end, k, v):
        super().write(layer, start, end, k, v)
        self.chunk = end - start

    def advance(self, num_tokens):
        if num_tokens and num_tokens != self.chunk:
            raise ValueError(f"{self.chunk} tokens were appended, not {num_tokens}")
        super().advance(num_tokens)
        self.chunk = None


class RoomLeftByThePass(Base):
    end = 0

    def write(self, layer, start, end, k, v):
        super().write(layer, start, end, k, v)
        self.end = end

    def can_append(self, num_tokens):
        return max(self.used, self.end) + num_tokens <= self.max_len

    def reset(self):
        super().reset()
        self.end = 0


class NoAdvanceByZero(Base):
    def advance(self, num_tokens):
        if num_tokens == 0:
            raise ValueError("0 tokens")
        super().advance(num_tokens)


class OneLengthForAllLayers(Base):
    chunk = None

    def start(self, layer, num_tokens):
        if layer and self.chunk not in (None, num_tokens):
            raise ValueError(f"layer 0 had {self.chunk} tokens, layer {layer} has {num_tokens}")
        self.chunk = num_tokens
        return self.used

    def advance(self, num_tokens):
        super().advance(num_tokens)
        self.chunk = None

    def reset(self):
        super().reset()
        self.chunk = None


class StartOfLayer0(Base):
    begin = 0

    def start(self, layer, num_tokens):
        if layer == 0:
            self.begin = self.used
        return self.begin


class RowsOf(Base):
    """`fits` says which rows are taken."""

    def fits(self, rows, k):
        return tuple(rows.shape) == (self.B, self.Hkv, k.shape[2], self.D) and rows.dtype == self.dtype

    def refuse_rows(self, k, v):
        if k.ndim != 4 or v.ndim != 4 or not (self.fits(k, k) and self.fits(v, k)):
            raise ValueError("k and v")


class NarrowsInSilence(RowsOf):
    def fits(self, rows, k):
        wide = rows.is_floating_point() and rows.dtype.itemsize >= self.dtype.itemsize
        return tuple(rows.shape) == (self.B, self.Hkv, k.shape[2], self.D) and wide


class CastsWholeNumbers(RowsOf):
    def fits(self, rows, k):
        kind = rows.dtype in (self.dtype, torch.int64)
        return tuple(rows.shape) == (self.B, self.Hkv, k.shape[2], self.D) and kind


class TooManyLeftToTorch(RowsOf):
    def fits(self, rows, k):
        enough = rows.shape[0] >= self.B and rows.shape[1] >= self.Hkv and rows.shape[2] == k.shape[2]
        return enough and rows.shape[3] == self.D and rows.dtype == self.dtype


class RowsInAnyOrder(RowsOf):
    def fits(self, rows, k):
        same = rows.shape[0] * rows.shape[1] == self.B * self.Hkv and rows.shape[2:] == (k.shape[2], self.D)
        return same and rows.dtype == self.dtype

    def write(self, layer, start, end, k, v):
        shape = self.B, self.Hkv, end - start, self.D
        super().write(layer, start, end, k.reshape(shape), v.reshape(shape))


class FourOrEightBytes(Base):
    @property
    def nbytes(self):
        return sum(x.numel() for x in (*self.K, *self.V)) * (8 if self.dtype == torch.float64 else 4)


class HalfAsFloat32(Base):
    def buffer(self):
        kept = super().buffer()
        return kept.float() if kept.element_size() < 4 else kept

    def refuse_rows(self, k, v):
        if k.dtype != self.dtype:
            raise ValueError("dtype")
        super().refuse_rows(k, v)


class GivesTheCallersTensors(Base):
    def shown(self, layer, end, k, v):
        return (k, v) if self.used == 0 else super().shown(layer, end, k, v)


class ViewsTheCallersTensors(Base):
    def write(self, layer, start, end, k, v):
        for rows, new in ((self.K, k), (self.V, v)):
            rows[layer].view(-1, self.max_len, self.D)[:, start:end] = new.view(-1, end - start, self.D)


MISTAKES += (
    Mistake(
        "advances-by-the-chunk",
        AdvancesByTheChunk,
        "advance(n) moves on by what was appended, not by n.",
        "full",
    ),
    Mistake(
        "room-left-by-the-pass",
        RoomLeftByThePass,
        "can_append() counts tokens that were appended but not advanced. They do not count yet.",
        "full",
    ),
    Mistake(
        "no-advance-by-zero", NoAdvanceByZero, "advance(0) is refused. It changes nothing, and is allowed.", "full"
    ),
    Mistake(
        "one-length-for-all-layers",
        OneLengthForAllLayers,
        "A layer is refused when it brings another number of tokens than the one before. It may be written again.",
        "tried again",
    ),
    Mistake(
        "start-of-layer-0",
        StartOfLayer0,
        "Where to write is settled when layer 0 comes. When another layer comes first, it writes to an old place.",
        "tried again",
    ),
    Mistake(
        "narrows-in-silence",
        NarrowsInSilence,
        "Rows of a wider dtype are taken and rounded. Any other dtype than the cache's must be refused.",
        "wrong input",
    ),
    Mistake(
        "casts-whole-numbers",
        CastsWholeNumbers,
        "Whole numbers are taken and cast. Any other dtype than the cache's must be refused.",
        "wrong input",
    ),
    Mistake(
        "too-many-left-to-torch",
        TooManyLeftToTorch,
        "Too many sequences or heads are left to torch, which raises a RuntimeError. Compare the whole shape.",
        "wrong input",
    ),
    Mistake(
        "rows-in-any-order",
        RowsInAnyOrder,
        "You compare the number of rows, not each axis: sequences and heads in each other's place go in.",
        "wrong input",
    ),
    Mistake(
        "four-or-eight-bytes",
        FourOrEightBytes,
        "nbytes knows two dtypes only. A tensor's nbytes knows them all.",
        "memory",
    ),
    Mistake("half-as-float32", HalfAsFloat32, "A float16 cache takes four bytes for each number, not two.", "memory"),
    Mistake(
        "gives-the-callers-tensors",
        GivesTheCallersTensors,
        "In an empty cache, append() returns the caller's own tensors: they change when the caller reuses them.",
        "memory",
    ),
    Mistake(
        "views-the-callers-tensors",
        ViewsTheCallersTensors,
        "view() works on contiguous tensors only; those of a decoder have their axes exchanged. Use reshape().",
        "memory",
    ),
)


class Flat(Base):
    """One flat tensor, and views of it."""

    def make(self):
        self.flat = torch.empty(2 * self.L * self.B * self.Hkv * self.max_len * self.D, dtype=self.dtype)
        whole = self.flat.view(self.L, 2, self.B, self.Hkv, self.max_len, self.D)
        self.K, self.V = ([whole[i, part] for i in range(self.L)] for part in range(2))


class Stacked(Base):
    """One tensor for the pair, copied by index."""

    def make(self):
        super().make()
        self.places = torch.arange(self.max_len)

    def write(self, layer, start, end, k, v):
        self.K[layer].index_copy_(2, self.places[start:end], k)
        self.V[layer].index_copy_(2, self.places[start:end], v)

    def shown(self, layer, end, k, v):
        return torch.stack(super().shown(layer, end, k, v))


class LayersLast(Base):
    """(max_len, D, B, Hkv, 2, L)."""

    def make(self):
        self.K = [torch.full((self.max_len, self.D, self.B, self.Hkv, 2, self.L), 7.0, dtype=self.dtype)]
        self.V = []

    def write(self, layer, start, end, k, v):
        for part, rows in enumerate((k, v)):
            self.K[0][start:end, ..., part, layer] = rows.permute(2, 3, 0, 1)

    def shown(self, layer, end, k, v):
        return [self.K[0][:end, ..., part, layer].permute(2, 3, 0, 1) for part in range(2)]


VARIANTS += (
    Variant("advance() insists on what was appended", AdvanceMustMatch),
    Variant("one flat tensor", Flat),
    Variant("copied by index, the pair in one tensor", Stacked),
    Variant("layers last, a list", LayersLast),
)
