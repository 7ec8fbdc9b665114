"""Wrong and right quantisers. Each mistake is the base class with one of its steps changed."""

from __future__ import annotations

from autograde.exercise import Mistake, Variant
from autograde.lazy import torch


def pad(x, right, value=0):
    return torch.nn.functional.pad(x, (0, right), value=value)


class Base:
    """Scales of the groups, whole numbers, bytes; and back."""

    def __init__(self, bits, group_size):
        self.check(bits, group_size)
        self.bits, self.group_size = bits, group_size
        self.top = 2 ** (bits - 1) - 1  # 127 or 7

    def check(self, bits, group_size):
        if bits not in (4, 8) or group_size < 1:
            raise ValueError(f"bits must be 4 or 8, group_size at least 1, got {bits} and {group_size}")

    def quantise(self, x):
        scale = self.scales(x)
        return self.pack(self.numbers(x, scale)), scale

    def dequantise(self, packed, scale, head_dim):
        return self.unpack(packed, head_dim).float() * self.each(scale, head_dim)

    def groups(self, x):
        """(..., D) to (..., n, g)."""
        return pad(x, -x.shape[-1] % self.group_size).unflatten(-1, (-1, self.group_size))

    def scales(self, x):
        return self.zeros(self.largest(self.groups(x)) / self.top)

    def largest(self, groups):
        return groups.abs().amax(-1)

    def zeros(self, scale):
        return torch.where(scale > 0, scale, 1.0)

    def each(self, scale, head_dim):
        """(..., n) to (..., D)."""
        return scale.repeat_interleave(self.group_size, -1)[..., :head_dim]

    def numbers(self, x, scale):
        """Whole numbers from -top to top."""
        return self.rounded(x / self.each(scale, x.shape[-1])).clamp(-self.top, self.top)

    def rounded(self, quotient):
        return quotient.round()

    def pack(self, numbers):
        codes = (numbers + self.top + 1).to(torch.uint8)
        if self.bits == 8:
            return codes
        codes = pad(codes, codes.shape[-1] % 2)
        return codes[..., 0::2] | codes[..., 1::2] << 4

    def unpack(self, packed, head_dim):
        if self.bits == 4:
            packed = torch.stack((packed & 15, packed >> 4), -1).flatten(-2)[..., :head_dim]
        return packed.float() - self.top - 1


def _base(**steps):
    """The base with some of its steps changed."""
    return type("IntQuantiser", (Base,), steps)


# Rounding and range.


def cut(self, quotient):
    return quotient.trunc()


def floored(self, quotient):
    return quotient.floor()


def ceiled(self, quotient):
    return quotient.ceil()


def half_off(self, quotient):
    return (quotient + 0.5).round()


class Wraps(Base):
    """The largest becomes 128 (or 8), which is no number of so many bits, and comes back negative."""

    def scales(self, x):
        return self.zeros(self.largest(self.groups(x)) / (self.top + 1))

    def numbers(self, x, scale):
        whole = (x / self.each(scale, x.shape[-1])).round()
        return torch.where(whole > self.top, -self.top - 1, whole)


class OneTooMany(Base):
    """Scales for 128 steps, cut at 127."""

    def scales(self, x):
        return self.zeros(self.largest(self.groups(x)) / (self.top + 1))


class AllCodes(Base):
    """As if there were no negative numbers."""

    def scales(self, x):
        return self.zeros(self.largest(self.groups(x)) / (2 * self.top + 1))


class TwiceTheScale(Base):
    def scales(self, x):
        return 2 * super().scales(x)


class HalfTheRange(Base):
    """Uses half of the numbers only."""

    def scales(self, x):
        return self.zeros(self.largest(self.groups(x)) / (2 ** (self.bits - 2)))


class NotDivided(Base):
    def scales(self, x):
        return self.zeros(self.largest(self.groups(x)))


def with_sign(self, groups):
    return groups.amax(-1).clamp(min=1e-30)


def range_of(self, groups):
    return (groups.amax(-1) - groups.amin(-1)) / 2


def mean_of(self, groups):
    return groups.abs().mean(-1)


def deviation(self, groups):
    return 2 * groups.square().mean(-1).sqrt()


class LoseSign(Base):
    def numbers(self, x, scale):
        return super().numbers(x.abs(), scale)


class ReadUnsigned(Base):
    """Two's complement on the way in, read without a sign."""

    def unpack(self, packed, head_dim):
        numbers = super().unpack(packed, head_dim)
        return torch.where(numbers < 0, numbers + 2 * (self.top + 1), numbers)


class ZeroPointForgotten(Base):
    """The 128 (or 8) is added and never taken off."""

    def unpack(self, packed, head_dim):
        return super().unpack(packed, head_dim) + self.top + 1


class OffByOne(Base):
    """127 is added and 128 taken off."""

    def unpack(self, packed, head_dim):
        return super().unpack(packed, head_dim) - 1


class Fraction(Base):
    """Works with whole numbers that are already of eight bits: x itself is rounded."""

    def numbers(self, x, scale):
        return super().numbers(x.round(), scale)


# What comes back.


class Swapped(Base):
    def quantise(self, x):
        return super().quantise(x)[::-1]


class PackedOnly(Base):
    def quantise(self, x):
        return super().quantise(x)[0]


class Int8(Base):
    def quantise(self, x):
        packed, scale = super().quantise(x)
        return packed.view(torch.int8), scale

    def dequantise(self, packed, scale, head_dim):
        return super().dequantise(packed.view(torch.uint8), scale, head_dim)


class Int64(Base):
    def quantise(self, x):
        packed, scale = super().quantise(x)
        return packed.long(), scale


class Floats(Base):
    def pack(self, numbers):
        return super().pack(numbers).float()

    def unpack(self, packed, head_dim):
        return super().unpack(packed.to(torch.uint8), head_dim)


class DoubleScales(Base):
    def scales(self, x):
        return super().scales(x.double())


class HalfScales(Base):
    def scales(self, x):
        return super().scales(x).half()


class BrainScales(Base):
    def scales(self, x):
        return super().scales(x).bfloat16()


class ScalesWithAxis(Base):
    def quantise(self, x):
        packed, scale = super().quantise(x)
        return packed, scale[..., None]

    def dequantise(self, packed, scale, head_dim):
        return super().dequantise(packed, scale[..., 0], head_dim)


class ScaleForEach(Base):
    """A scale stored for every number."""

    def quantise(self, x):
        packed, scale = super().quantise(x)
        return packed, self.each(scale, x.shape[-1]).clone()

    def dequantise(self, packed, scale, head_dim):
        return super().dequantise(packed, scale[..., :: self.group_size], head_dim)


class Reciprocal(Base):
    def quantise(self, x):
        packed, scale = super().quantise(x)
        return packed, 1 / scale

    def dequantise(self, packed, scale, head_dim):
        return super().dequantise(packed, 1 / scale, head_dim)


class LargestKept(Base):
    """Keeps the largest numbers, and divides them when it reads."""

    def quantise(self, x):
        packed, scale = super().quantise(x)
        return packed, scale * self.top

    def dequantise(self, packed, scale, head_dim):
        return super().dequantise(packed, scale / self.top, head_dim)


class NeverScaled(Base):
    def dequantise(self, packed, scale, head_dim):
        return self.unpack(packed, head_dim)


class Divides(Base):
    def dequantise(self, packed, scale, head_dim):
        return self.unpack(packed, head_dim) / self.each(scale, head_dim)


class ReturnsNothing(Base):
    def quantise(self, x):
        super().quantise(x)


# Groups.


class OneForRow(Base):
    def __init__(self, bits, group_size):
        super().__init__(bits, group_size)
        self.group_size = 1 << 20

    def groups(self, x):
        return x[..., None, :]


class LargestOfRow(Base):
    """As many scales as there should be, and all of them that of the row."""

    def scales(self, x):
        scale = super().scales(x)
        return scale.amax(-1, keepdim=True).expand(scale.shape).clone()


class LargestOfAll(Base):
    def scales(self, x):
        scale = super().scales(x)
        return scale.amax().expand(scale.shape).clone()


class GroupsOverTokens(Base):
    """A group's scale is shared by all rows."""

    def scales(self, x):
        scale = super().scales(x)
        return scale.amax(0, keepdim=True).expand(scale.shape).clone()


class FirstRow(Base):
    def scales(self, x):
        scale = super().scales(x)
        return scale[:1].expand(scale.shape).clone()


class NumberOfGroups(Base):
    """group_size taken for the number of groups."""

    def quantise(self, x):
        kept, self.group_size = self.group_size, -(-x.shape[-1] // self.group_size)
        try:
            return super().quantise(x)
        finally:
            self.group_size = kept


class Strided(Base):
    """Every n-th number instead of neighbours."""

    def groups(self, x):
        return super().groups(x).flatten(-2).unflatten(-1, (self.group_size, -1)).mT

    def each(self, scale, head_dim):
        return scale.repeat(*[1] * (scale.ndim - 1), self.group_size)[..., :head_dim]


class ReadTiled(Base):
    """repeat where repeat_interleave is meant, when reading."""

    def dequantise(self, packed, scale, head_dim):
        tiled = scale.repeat(*[1] * (scale.ndim - 1), self.group_size)[..., :head_dim]
        return self.unpack(packed, head_dim) * tiled


class WrittenTiled(Base):
    def numbers(self, x, scale):
        tiled = scale.repeat(*[1] * (scale.ndim - 1), self.group_size)[..., : x.shape[-1]]
        return (x / tiled).round().clamp(-self.top, self.top)


class FirstGroupsScale(Base):
    """Reads with the first group's scale."""

    def dequantise(self, packed, scale, head_dim):
        return super().dequantise(packed, scale[..., :1].expand(scale.shape), head_dim)


class OneGroupMore(Base):
    def quantise(self, x):
        packed, scale = super().quantise(x)
        return packed, pad(scale, x.shape[-1] // self.group_size + 1 - scale.shape[-1], 1.0)

    def dequantise(self, packed, scale, head_dim):
        return super().dequantise(packed, scale[..., : -(-head_dim // self.group_size)], head_dim)


# Four bits.


class ByteEach(Base):
    """Four bits in a byte each."""

    def pack(self, numbers):
        return (numbers + self.top + 1).to(torch.uint8)

    def unpack(self, packed, head_dim):
        return packed.float() - self.top - 1


class TopOf8(Base):
    """127 steps whatever the bits: what does not fit in four is lost."""

    def __init__(self, bits, group_size):
        super().__init__(bits, group_size)
        self.top = 127

    def pack(self, numbers):
        if self.bits == 8:
            return super().pack(numbers)
        codes = (numbers.to(torch.int64) + 8 & 15).to(torch.uint8)
        codes = pad(codes, codes.shape[-1] % 2)
        return codes[..., 0::2] | codes[..., 1::2] << 4

    def unpack(self, packed, head_dim):
        return super().unpack(packed, head_dim) + (120 if self.bits == 4 else 0)


class NibblesSwapped(Base):
    def unpack(self, packed, head_dim):
        if self.bits == 4:
            packed = packed >> 4 | packed << 4
        return super().unpack(packed, head_dim)


class HalvesRead(Base):
    """Written in pairs, read as two halves."""

    def unpack(self, packed, head_dim):
        if self.bits == 8:
            return super().unpack(packed, head_dim)
        return torch.cat((packed & 15, packed >> 4), -1)[..., :head_dim].float() - 8


class LowNotMasked(Base):
    def unpack(self, packed, head_dim):
        if self.bits == 8:
            return super().unpack(packed, head_dim)
        return torch.stack((packed, packed >> 4), -1).flatten(-2)[..., :head_dim].float() - 8


class NegativeSpills(Base):
    """Two's complement without a mask: a negative low half overwrites the high one."""

    def pack(self, numbers):
        if self.bits == 8:
            return super().pack(numbers)
        whole = numbers.to(torch.int8).view(torch.uint8)
        whole = pad(whole, whole.shape[-1] % 2)
        return whole[..., 0::2] | whole[..., 1::2] << 4

    def unpack(self, packed, head_dim):
        if self.bits == 8:
            return super().unpack(packed, head_dim)
        nibbles = torch.stack((packed & 15, packed >> 4), -1).flatten(-2)[..., :head_dim].float()
        return torch.where(nibbles > 7, nibbles - 16, nibbles)


class SignLostInNibble(Base):
    """Two's complement, masked, and read without a sign."""

    def unpack(self, packed, head_dim):
        numbers = super().unpack(packed, head_dim)
        return torch.where(numbers < 0, numbers + 16, numbers) if self.bits == 4 else numbers


class ShiftedByThree(Base):
    def pack(self, numbers):
        if self.bits == 8:
            return super().pack(numbers)
        codes = (numbers + self.top + 1).to(torch.uint8)
        codes = pad(codes, codes.shape[-1] % 2)
        return codes[..., 0::2] | codes[..., 1::2] << 3


class Multiplied(Base):
    """The second number times 10, as in decimal digits."""

    def pack(self, numbers):
        if self.bits == 8:
            return super().pack(numbers)
        codes = pad((numbers + self.top + 1).to(torch.uint8), numbers.shape[-1] % 2)
        return codes[..., 0::2] + codes[..., 1::2] * 10


class EveryOther(Base):
    """The first of two, twice."""

    def pack(self, numbers):
        if self.bits == 4:
            numbers = numbers.clone()
            numbers[..., 1::2] = numbers[..., : numbers.shape[-1] // 2 * 2 : 2]
        return super().pack(numbers)


class GroupsInBytes(Base):
    """Each group begins in a byte of its own."""

    def pack(self, numbers):
        if self.bits == 8:
            return super().pack(numbers)
        parts = numbers.split(self.group_size, -1)
        return torch.cat([super(GroupsInBytes, self).pack(part) for part in parts], -1)

    def unpack(self, packed, head_dim):
        if self.bits == 8:
            return super().unpack(packed, head_dim)
        g, numbers = self.group_size, []
        for part in packed.split((g + 1) // 2, -1):
            width = min(g, head_dim - g * len(numbers))
            numbers.append(super().unpack(part, width))
        return torch.cat(numbers, -1)


class PackedOverRows(Base):
    """Two rows share a byte, not two neighbours."""

    def pack(self, numbers):
        if self.bits == 8:
            return super().pack(numbers)
        return super().pack(numbers.mT).mT


class SevenOfEight(Base):
    """Numbers from -8 to 7 where the largest becomes 8: seven is as far as it goes."""

    def scales(self, x):
        return self.zeros(self.largest(self.groups(x)) / (8 if self.bits == 4 else 127))


class OneForRowIn4(Base):
    def scales(self, x):
        scale = super().scales(x)
        return scale if self.bits == 8 else scale.amax(-1, keepdim=True).expand(scale.shape).clone()


class RefusesOddGroups(Base):
    def check(self, bits, group_size):
        super().check(bits, group_size)
        if bits == 4 and group_size % 2:
            raise ValueError("group_size must be even")


# Odd widths.


class OddDropped(Base):
    def pack(self, numbers):
        return super().pack(numbers[..., : numbers.shape[-1] // 2 * 2] if self.bits == 4 else numbers)

    def unpack(self, packed, head_dim):
        numbers = super().unpack(packed, head_dim)
        return pad(numbers, head_dim - numbers.shape[-1])


class OddInFull(Base):
    """A byte of its own for the last number, and one more where it is not needed."""

    def pack(self, numbers):
        packed = super().pack(numbers)
        return pad(packed, numbers.shape[-1] // 2 + 1 - packed.shape[-1]) if numbers.shape[-1] % 3 == 0 else packed


class EvenWidth(Base):
    """Gives the padding back too."""

    def unpack(self, packed, head_dim):
        return super().unpack(packed, head_dim + head_dim % 2 if self.bits == 4 else head_dim)

    def each(self, scale, head_dim):
        return pad(super().each(scale, head_dim), 1, 1.0)[..., :head_dim]


class PaddedInFront(Base):
    """The odd one is padded in front, and cut off at the end."""

    def pack(self, numbers):
        if self.bits == 4 and numbers.shape[-1] % 2:
            numbers = torch.nn.functional.pad(numbers, (1, 0))
        return super().pack(numbers)


class LastMerged(Base):
    """What is left over joins the group before it."""

    def scales(self, x):
        scale, rest = super().scales(x), x.shape[-1] % self.group_size
        if rest == 0 or scale.shape[-1] == 1:
            return scale
        return torch.cat((scale[..., :-2], scale[..., -2:].amax(-1, keepdim=True)), -1)

    def each(self, scale, head_dim):
        each = super().each(scale, head_dim)
        return torch.cat((each, each[..., -1:].expand(*each.shape[:-1], head_dim - each.shape[-1])), -1)


class LastScaleOne(Base):
    def scales(self, x):
        scale = super().scales(x)
        if x.shape[-1] % self.group_size:
            scale[..., -1] = 1.0
        return scale


class LastAsBefore(Base):
    """What is left over takes the scale of the group before it."""

    def scales(self, x):
        scale = super().scales(x)
        if x.shape[-1] % self.group_size and scale.shape[-1] > 1:
            scale[..., -1] = scale[..., -2]
        return scale


class LastOverlaps(Base):
    """The last group is the last g numbers, some of which are in the one before."""

    def scales(self, x):
        scale = super().scales(x)
        if x.shape[-1] > self.group_size:
            scale[..., -1] = self.zeros(self.largest(x[..., -self.group_size :]) / self.top)
        return scale


class WholeGroupsOnly(Base):
    def groups(self, x):
        return x.unflatten(-1, (-1, self.group_size))


class PaddedToGroups(Base):
    """The padding of the last group is stored too."""

    def pack(self, numbers):
        return super().pack(pad(numbers, -numbers.shape[-1] % self.group_size))


class PaddedWithOnes(Base):
    """Fills the last group up with ones, which may be the largest numbers in it."""

    def groups(self, x):
        return pad(x, -x.shape[-1] % self.group_size, 1.0).unflatten(-1, (-1, self.group_size))


class NotLargerThanRow(Base):
    def quantise(self, x):
        if self.group_size > x.shape[-1]:
            raise ValueError("the group is larger than the row")
        return super().quantise(x)


class GroupsFromTheEnd(Base):
    """The first group is the small one."""

    def groups(self, x):
        return super().groups(x.flip(-1)).flip(-2)

    def each(self, scale, head_dim):
        return scale.repeat_interleave(self.group_size, -1)[..., -head_dim:]


class GroupsAcrossRows(Base):
    """All rows laid end to end, and cut into groups."""

    def scales(self, x):
        flat = pad(x.flatten(), -x.numel() % self.group_size).unflatten(-1, (-1, self.group_size))
        scale = self.zeros(self.largest(flat) / self.top)
        wanted = x[..., 0].numel() * -(-x.shape[-1] // self.group_size)
        return pad(scale, wanted - len(scale), 1.0).reshape(*x.shape[:-1], -1)


# Zeros, small and large.


def nan_scale(self, scale):
    return torch.where(scale > 0, scale, torch.nan)


def infinite_scale(self, scale):
    return torch.where(scale > 0, scale, torch.inf)


def epsilon(self, scale):
    return scale.clamp(min=1e-5)


def tiny_is_zero(self, scale):
    return torch.where(scale > 1e-5, scale, 1.0)


def floor(self, scale):
    return torch.where(scale > 0, scale.clamp(min=1e-12), 1.0)


def at_most_65504(self, scale):
    return torch.where(scale > 0, scale, 1.0).clamp(max=65504.0)


def all_one(self, scale):
    return scale if (scale > 0).all() else torch.ones_like(scale)


class ZerosNotCoded(Base):
    """Groups of zeros are left out: their bytes stay 0, which stands for the smallest number."""

    def numbers(self, x, scale):
        empty = self.each(self.largest(self.groups(x)), x.shape[-1]) == 0
        return super().numbers(x, scale).masked_fill(empty, -self.top - 1)


class ZeroIsAHalf(Base):
    """Codes for 2 * top + 2 steps lie around a half, and none of them is 0."""

    def numbers(self, x, scale):
        return torch.where(x == 0, 1.0, super().numbers(x, scale))


class RefusesZeros(Base):
    def zeros(self, scale):
        if (scale == 0).any():
            raise ValueError("a group of zeros has no scale")
        return scale


# Rows on their own.


class TwoAxes(Base):
    def quantise(self, x):
        rows, D = x.shape
        return super().quantise(x)


class OneRowLost(Base):
    """A single row comes back as a batch of one."""

    def quantise(self, x):
        packed, scale = super().quantise(torch.atleast_2d(x))
        return packed, scale


class Flattened(Base):
    def quantise(self, x):
        packed, scale = super().quantise(x)
        return (packed.flatten(0, -2), scale.flatten(0, -2)) if x.ndim > 2 else (packed, scale)


class KeepsScale(Base):
    def quantise(self, x):
        packed, self.kept = super().quantise(x)
        return packed, self.kept

    def dequantise(self, packed, scale, head_dim):
        return super().dequantise(packed, self.kept, head_dim)


class KeepsScaleOfSuchRows(Base):
    """The newest scales of each shape, kept in self."""

    def quantise(self, x):
        packed, self.scale = super().quantise(x)
        return packed, self.scale

    def dequantise(self, packed, scale, head_dim):
        kept = getattr(self, "scale", scale)
        return super().dequantise(packed, kept if kept.shape == scale.shape else scale, head_dim)


class KeepsX(Base):
    """Remembers x, and gives it back."""

    def quantise(self, x):
        self.x = x.clone()
        return super().quantise(x)

    def dequantise(self, packed, scale, head_dim):
        return self.x.clone()


class KeepsNumbers(Base):
    """Reads the numbers it kept, not the bytes."""

    def numbers(self, x, scale):
        self.kept = super().numbers(x, scale)
        return self.kept

    def unpack(self, packed, head_dim):
        return self.kept


class KeepsShape(Base):
    def quantise(self, x):
        self.shape = x.shape
        return super().quantise(x)

    def dequantise(self, packed, scale, head_dim):
        return super().dequantise(packed, scale, head_dim).reshape(self.shape)


class KeepsWidth(Base):
    def quantise(self, x):
        self.width = x.shape[-1]
        return super().quantise(x)

    def dequantise(self, packed, scale, head_dim):
        return super().dequantise(packed, scale, self.width)


class ZeroPointKept(Base):
    """Asymmetric, with the zero points in self."""

    def scales(self, x):
        groups = self.groups(x)
        low, high = groups.amin(-1), groups.amax(-1)
        scale = self.zeros((high - low) / (2 * self.top + 1))
        self.low = torch.where(high > low, low, 0.0 * low)
        self.low = torch.where((high == low) & (high != 0), low, self.low)
        most = self.largest(groups) / self.top
        return torch.where(most > 0, torch.minimum(scale, most), 1.0)

    def numbers(self, x, scale):
        D = x.shape[-1]
        return ((x - self.each(self.low, D)) / self.each(scale, D)).round() - self.top - 1

    def dequantise(self, packed, scale, head_dim):
        codes = self.unpack(packed, head_dim) + self.top + 1
        return codes * self.each(scale, head_dim) + self.each(self.low, head_dim)


# Settings.


def not_checked(self, bits, group_size):
    if group_size < 1:
        raise ValueError(group_size)


def up_to_8(self, bits, group_size):
    if not 0 < bits <= 8 or group_size < 1:
        raise ValueError(bits, group_size)


def at_least_4(self, bits, group_size):
    if bits not in (4, 8, 16) or group_size < 1:
        raise ValueError(bits, group_size)


def six_bits_too(self, bits, group_size):
    if bits not in (4, 6, 8) or group_size < 1:
        raise ValueError(bits)


def two_bits_too(self, bits, group_size):
    if bits not in (2, 4, 8) or group_size < 1:
        raise ValueError(bits, group_size)


def even_bits(self, bits, group_size):
    if bits % 4 or bits > 8 or group_size < 1:
        raise ValueError(bits, group_size)


def sign_of_bits(self, bits, group_size):
    if abs(bits) not in (4, 8) or group_size < 1:
        raise ValueError(bits, group_size)


def zero_groups(self, bits, group_size):
    if bits not in (4, 8) or group_size < 0:
        raise ValueError(bits, group_size)


def negative_groups(self, bits, group_size):
    if bits not in (4, 8) or group_size == 0:
        raise ValueError(bits, group_size)


def asserts(self, bits, group_size):
    assert bits in (4, 8), bits
    assert group_size >= 1, group_size


def type_error(self, bits, group_size):
    if bits not in (4, 8) or group_size < 1:
        raise TypeError(bits, group_size)


def groups_of_one_refused(self, bits, group_size):
    if bits not in (4, 8) or group_size <= 1:
        raise ValueError(bits, group_size)


class CheckedLate(Base):
    def __init__(self, bits, group_size):
        self.bits, self.group_size = bits, group_size
        self.top = int(2 ** (bits - 1)) - 1

    def quantise(self, x):
        self.check(self.bits, self.group_size)
        return super().quantise(x)


class NearestBits(Base):
    """Other bits become 8."""

    def __init__(self, bits, group_size):
        super().__init__(bits if bits in (4, 8) else 8, group_size)


class GroupAtLeastOne(Base):
    def __init__(self, bits, group_size):
        super().__init__(bits, max(1, group_size))


# What belongs to the caller.


class DividesInPlace(Base):
    def numbers(self, x, scale):
        x /= self.each(scale, x.shape[-1])
        return x.round().clamp(-self.top, self.top)


class AbsInPlace(Base):
    def quantise(self, x):
        sign = x.sign()
        scale = self.scales(x.abs_())
        return self.pack(self.numbers(x * sign, scale)), scale


class RoundsInPlace(Base):
    """x becomes what is read back."""

    def quantise(self, x):
        packed, scale = super().quantise(x)
        x.copy_(self.dequantise(packed, scale, x.shape[-1]))
        return packed, scale


class MasksInPlace(Base):
    def dequantise(self, packed, scale, head_dim):
        if self.bits == 8:
            return super().dequantise(packed, scale, head_dim)
        high = packed >> 4
        packed &= 15
        numbers = torch.stack((packed, high), -1).flatten(-2)[..., :head_dim]
        return (numbers.float() - 8) * self.each(scale, head_dim)


class SubtractsInPlace(Base):
    """128 is taken off the caller's bytes."""

    def dequantise(self, packed, scale, head_dim):
        if self.bits == 4:
            return super().dequantise(packed, scale, head_dim)
        packed -= 128
        return packed.view(torch.int8).float() * self.each(scale, head_dim)


class ScalesInPlace(Base):
    def dequantise(self, packed, scale, head_dim):
        scale *= 0.5
        return 2 * super().dequantise(packed, scale, head_dim)


E, F, W = "eight bits", "four bits", "odd widths"
Z, R, S, A = "zeros, small and large numbers", "rows on their own", "other settings", "nothing passed in changes"

MISTAKES = (
    Mistake("cut-off", _base(rounded=cut), "You cut the quotients off. Round to the nearest whole number.", E),
    Mistake("rounded-down", _base(rounded=floored), "You round down. Round to the nearest whole number.", E),
    Mistake("rounded-up", _base(rounded=ceiled), "You round up. Round to the nearest whole number.", E),
    Mistake("half-too-much", _base(rounded=half_off), "You add a half and round as well. One of them is enough.", E),
    Mistake(
        "largest-wraps",
        Wraps,
        "The largest number becomes 128 (or 8), one more than there is, and comes back negative. Divide by 127 (or 7).",
        E,
        seen_in="quantisers that divide by 128 and do not clip",
    ),
    Mistake("one-step-too-many", OneTooMany, "You divide by 128 (or 8) and cut at one less. Divide by 127 (or 7).", E),
    Mistake(
        "no-room-for-a-sign", AllCodes, "You divide by 255 (or 15). Half of the codes are for negative numbers.", E
    ),
    Mistake("scale-twice-as-large", TwiceTheScale, "Your scale is twice as large as it need be: one bit is wasted.", E),
    Mistake("half-the-codes", HalfTheRange, "You use only half of the codes. Divide the largest by 127 (or 7).", E),
    Mistake("not-divided", NotDivided, "The scale is the largest |x|. It is that over 127 (or 7).", E),
    Mistake(
        "sign-not-dropped", _base(largest=with_sign), "You take the largest x. The largest |x| may be negative.", E
    ),
    Mistake(
        "half-the-range", _base(largest=range_of), "You take half the range. It need not lie around 0: take |x|.", E
    ),
    Mistake("mean", _base(largest=mean_of), "The scale comes from the mean of |x|. Take the largest.", E),
    Mistake("deviation", _base(largest=deviation), "The scale comes from a deviation. Take the largest |x|.", E),
    Mistake("sign-lost", LoseSign, "All numbers come back positive. The codes must keep the sign.", E),
    Mistake(
        "read-unsigned", ReadUnsigned, "Negative numbers come back large and positive: read the bytes with a sign.", E
    ),
    Mistake("offset-forgotten", ZeroPointForgotten, "You add 128 (or 8) to store, and do not take it off to read.", E),
    Mistake("offset-by-one", OffByOne, "What you add to store and what you take off to read differ by one.", E),
    Mistake("x-rounded-first", Fraction, "You round x before you divide by the scale. Divide first.", E),
    Mistake("swapped", Swapped, "You return (scale, packed). Wanted is (packed, scale).", E),
    Mistake("packed-only", PackedOnly, "You return the packed numbers only. Return (packed, scale).", E),
    Mistake("returns-nothing", ReturnsNothing, "quantise() returns nothing. Is a `return` missing?", E),
    Mistake("int8", Int8, "Your packed numbers are int8. Wanted is uint8, with the sign inside.", E),
    Mistake("int64", Int64, "Your packed numbers take eight bytes each (int64). Make them uint8.", E),
    Mistake("floats", Floats, "Your packed numbers are floats of four bytes. Make them uint8.", E),
    Mistake("scales-in-float64", DoubleScales, "Your scales are in float64. Make them float32.", E),
    Mistake("scales-in-float16", HalfScales, "Your scales are in float16, whose range is small. Make them float32.", Z),
    Mistake("scales-in-bfloat16", BrainScales, "Your scales are in bfloat16, of two digits. Make them float32.", E),
    Mistake("scales-with-an-axis", ScalesWithAxis, "Your scales have an axis too many. Wanted is (..., groups).", E),
    Mistake("scale-for-each", ScaleForEach, "You store a scale for every number. One for each group is the point.", E),
    Mistake("reciprocal", Reciprocal, "You return 1 / scale. A number is its code times the scale.", E),
    Mistake(
        "largest-kept", LargestKept, "You return the largest |x| of each group. The scale is that over 127 (or 7).", E
    ),
    Mistake("never-multiplied", NeverScaled, "dequantise() does not multiply by the scales.", E),
    Mistake("divides", Divides, "dequantise() divides by the scales. It multiplies.", E),
    Mistake("one-scale-for-a-row", OneForRow, "A row has one scale. Each group of group_size numbers has its own.", E),
    Mistake(
        "largest-of-the-row", LargestOfRow, "All groups of a row have the row's scale. Each looks at itself only.", E
    ),
    Mistake("largest-of-all", LargestOfAll, "All groups have one scale. Each looks at itself only.", E),
    Mistake("shared-by-rows", GroupsOverTokens, "Rows share the scales of their groups. Each row has its own.", E),
    Mistake("scales-of-the-first-row", FirstRow, "All rows have the first row's scales. Each row has its own.", E),
    Mistake(
        "number-of-groups", NumberOfGroups, "You take group_size for the number of groups. It is numbers a group.", E
    ),
    Mistake("not-neighbours", Strided, "Your groups are every n-th number. A group is group_size neighbours.", E),
    Mistake("read-tiled", ReadTiled, "You read with `repeat`: a, b, a, b. Wanted is a, a, b, b: repeat_interleave.", E),
    Mistake(
        "written-tiled",
        WrittenTiled,
        "You divide by a, b, a, b (`repeat`). Wanted is a, a, b, b: repeat_interleave.",
        E,
    ),
    Mistake("read-with-the-first", FirstGroupsScale, "You read all groups with the first one's scale.", E),
    Mistake(
        "one-group-more", OneGroupMore, "There is a scale too many when group_size divides D. Round up: -(-D // g).", E
    ),
    Mistake("byte-each", ByteEach, "Four bits take a byte each. Put two numbers into a byte.", F),
    Mistake("127-in-four-bits", TopOf8, "Four bits go from -7 to 7, not to 127: what does not fit is lost.", F),
    Mistake("halves-swapped", NibblesSwapped, "The two numbers of a byte come back in the wrong order.", F),
    Mistake(
        "read-as-two-halves", HalvesRead, "You pack neighbours and read all low halves first. Interleave: `stack`.", F
    ),
    Mistake("low-half-not-masked", LowNotMasked, "The low half comes back with the high one in it. Mask it: & 15.", F),
    Mistake(
        "negative-spills",
        NegativeSpills,
        "A negative number fills its whole byte with ones and spoils its neighbour. Mask with & 15, or add 8.",
        F,
    ),
    Mistake("sign-lost-in-half-a-byte", SignLostInNibble, "In four bits, negative numbers come back as 8 to 15.", F),
    Mistake("shifted-by-three", ShiftedByThree, "You shift by three bits. Half a byte is four.", F),
    Mistake(
        "times-10", Multiplied, "You add the second number 10 times. Half a byte has 16 values: shift by four bits.", F
    ),
    Mistake("first-twice", EveryOther, "A byte holds its first number twice. The second is 1::2.", F),
    Mistake(
        "groups-in-bytes", GroupsInBytes, "Each group begins in a new byte. Only the end of a row may be half full.", F
    ),
    Mistake("packed-over-rows", PackedOverRows, "Two rows share a byte. Two neighbours of one row do.", F),
    Mistake("seven-of-eight", SevenOfEight, "In four bits you divide by 8 and cut at 7. Divide by 7.", F),
    Mistake("one-scale-in-four-bits", OneForRowIn4, "In four bits, all groups have the row's scale.", F),
    Mistake(
        "odd-groups-refused", RefusesOddGroups, "You refuse odd groups. A byte may hold the end of one and the next.", F
    ),
    Mistake("odd-one-dropped", OddDropped, "With an odd D, the last number is lost. Pad the row before you pack.", W),
    Mistake("even-width", EvenWidth, "With an odd D, the padding comes back too. Cut it off at head_dim.", W),
    Mistake("padded-in-front", PaddedInFront, "You pad in front and cut off the end: all numbers move by one.", W),
    Mistake(
        "last-group-merged",
        LastMerged,
        "The last few numbers join the group before. They have a scale of their own.",
        W,
    ),
    Mistake("last-group-scale-1", LastScaleOne, "The last, smaller group has scale 1. It has its own.", W),
    Mistake(
        "last-group-as-before", LastAsBefore, "The last, smaller group takes the scale before it. It has its own.", W
    ),
    Mistake("last-group-overlaps", LastOverlaps, "Your last group reaches back into the one before. It is smaller.", W),
    Mistake(
        "whole-groups-only", WholeGroupsOnly, "A width that group_size does not divide breaks it. Pad with zeros.", W
    ),
    Mistake(
        "padded-to-groups", PaddedToGroups, "You store the padding of the last group. Cut it off before packing.", W
    ),
    Mistake(
        "padded-with-ones", PaddedWithOnes, "You fill the last group with ones, and they count. Pad with zeros.", W
    ),
    Mistake("group-larger-than-row", NotLargerThanRow, "A group_size above D is no error: the row is one group.", W),
    Mistake("groups-from-the-end", GroupsFromTheEnd, "Your first group is the small one. The last is.", W),
    Mistake(
        "groups-across-rows", GroupsAcrossRows, "Your groups run on into the next row. Each row begins a new one.", W
    ),
    Mistake(
        "nan-scale", _base(zeros=nan_scale), "A group of zeros has the scale NaN. Give it a finite one, such as 1.", Z
    ),
    Mistake(
        "infinite-scale", _base(zeros=infinite_scale), "A group of zeros has an infinite scale: 0 * inf is NaN.", Z
    ),
    Mistake(
        "epsilon", _base(zeros=epsilon), "Your scale is at least 1e-5, too large for small numbers. Look for 0.", Z
    ),
    Mistake("tiny-is-zero", _base(zeros=tiny_is_zero), "You take tiny numbers for zeros. They have a scale too.", Z),
    Mistake(
        "floor",
        _base(zeros=floor),
        "Your scale ends at a smallest number. It is at most the largest |x| over 127 or 7.",
        Z,
    ),
    Mistake("at-most-65504", _base(zeros=at_most_65504), "Your scale is at most 65,504. Large numbers need more.", Z),
    Mistake("all-1", _base(zeros=all_one), "One group of zeros makes all scales 1. Only its own is.", Z),
    Mistake(
        "zeros-not-coded", ZerosNotCoded, "The bytes of a group of zeros stay 0, and that code is not the number 0.", Z
    ),
    Mistake("zero-is-no-code", ZeroIsAHalf, "0 does not come back as 0. One code must stand for it exactly.", Z),
    Mistake("zeros-refused", RefusesZeros, "You refuse a group of zeros. It comes back as zeros.", Z),
    Mistake("two-axes-only", TwoAxes, "Your code wants exactly two axes. x is (..., D): any number of axes.", R),
    Mistake("row-becomes-batch", OneRowLost, "A single row (D,) comes back as a batch of one. Keep its shape.", R),
    Mistake("flattened", Flattened, "You flatten the axes before D. Keep them.", R),
    Mistake(
        "scale-kept", KeepsScale, "dequantise() reads with the newest scales, kept in self. Use those it is given.", R
    ),
    Mistake(
        "newest-scales-of-a-shape",
        KeepsScaleOfSuchRows,
        "dequantise() uses the newest scales of that shape, kept in self. Use those that it is given.",
        R,
    ),
    Mistake("x-kept", KeepsX, "dequantise() returns the x kept in self. It must come from the bytes.", R),
    Mistake("numbers-kept", KeepsNumbers, "dequantise() uses numbers kept in self. They must come from the bytes.", R),
    Mistake("shape-kept", KeepsShape, "dequantise() wants the newest x's shape. It may be given some rows only.", R),
    Mistake("width-kept", KeepsWidth, "dequantise() uses the newest x's width, kept in self. Use head_dim.", R),
    Mistake(
        "bits-not-checked", _base(check=not_checked), "Any number of bits is taken. Other than 8 or 4: ValueError.", S
    ),
    Mistake("up-to-8-bits", _base(check=up_to_8), "1 to 8 bits are taken. Other than 8 or 4: ValueError.", S),
    Mistake("16-bits-too", _base(check=at_least_4), "16 bits are taken. Other than 8 or 4: ValueError.", S),
    Mistake("6-bits-too", _base(check=six_bits_too), "6 bits are taken. Other than 8 or 4: ValueError.", S),
    Mistake("2-bits-too", _base(check=two_bits_too), "2 bits are taken. Other than 8 or 4: ValueError.", S),
    Mistake(
        "multiples-of-4",
        _base(check=even_bits),
        "0 bits are taken, as a multiple of 4. Other than 8 or 4: ValueError.",
        S,
    ),
    Mistake("negative-bits", _base(check=sign_of_bits), "-4 bits are taken. Other than 8 or 4: ValueError.", S),
    Mistake("group-of-0", _base(check=zero_groups), "A group_size of 0 is taken. Below 1: ValueError.", S),
    Mistake("negative-group", _base(check=negative_groups), "A negative group_size is taken. Below 1: ValueError.", S),
    Mistake(
        "asserts", _base(check=asserts), "An assert raises an AssertionError, and can be off. Raise a ValueError.", S
    ),
    Mistake("type-error", _base(check=type_error), "You raise a TypeError. The value is wrong: raise a ValueError.", S),
    Mistake(
        "groups-of-1", _base(check=groups_of_one_refused), "You refuse groups of 1. Below 1 is wrong, 1 is not.", W
    ),
    Mistake(
        "checked-late", CheckedLate, "You check in quantise(). Check in __init__: such a quantiser must not be.", S
    ),
    Mistake("bits-become-8", NearestBits, "Other bits quietly become 8. Raise a ValueError.", S),
    Mistake("group-becomes-1", GroupAtLeastOne, "A group_size below 1 quietly becomes 1. Raise a ValueError.", S),
    Mistake("x-divided", DividesInPlace, "`x /= ...` changes the caller's x. Make a new tensor.", A),
    Mistake("x-without-sign", AbsInPlace, "`abs_` takes the signs out of the caller's x. Use `abs`.", A),
    Mistake("x-overwritten", RoundsInPlace, "You write what is read back into x. Leave x as it was.", A),
    Mistake("bytes-masked", MasksInPlace, "`packed &= 15` wipes half of the caller's bytes. Make a new tensor.", A),
    Mistake("bytes-shifted", SubtractsInPlace, "`packed -= 128` changes the caller's bytes. Make a new tensor.", A),
    Mistake("scales-changed", ScalesInPlace, "`scale *= ...` changes the caller's scales. Make a new tensor.", A),
)


class TwosComplement:
    """Signed codes, the high half first, in a loop over groups."""

    def __init__(self, bits, group_size):
        if bits != 8 and bits != 4:
            raise ValueError("8 or 4 bits")
        if not group_size >= 1:
            raise ValueError("groups of at least 1")
        self.bits, self.g = bits, group_size

    def quantise(self, x):
        top, scales, codes = {8: 127, 4: 7}[self.bits], [], []
        for start in range(0, x.shape[-1], self.g):
            group = x[..., start : start + self.g]
            scale = group.abs().max(-1, keepdim=True).values / top
            scale[scale == 0] = 1
            scales.append(scale)
            codes.append(torch.round(group / scale).to(torch.int8))
        codes, scale = torch.cat(codes, -1).view(torch.uint8), torch.cat(scales, -1)
        if self.bits == 8:
            return codes, scale
        low = torch.zeros_like(codes[..., 0::2])
        low[..., : codes.shape[-1] // 2] = codes[..., 1::2]
        return (codes[..., 0::2] & 15) << 4 | low & 15, scale

    def dequantise(self, packed, scale, head_dim):
        out = torch.empty(*packed.shape[:-1], head_dim)
        if self.bits == 8:
            out[...] = packed.view(torch.int8)
        else:
            out[..., 0::2] = packed >> 4
            out[..., 1::2] = (packed & 15)[..., : head_dim // 2]
            out[out > 7] -= 16
        for i in range(scale.shape[-1]):
            out[..., i * self.g : (i + 1) * self.g] *= scale[..., i : i + 1]
        return out


class ByIndex:
    """Each number's group by its place; numbers packed in two halves of the row, by arithmetic."""

    def __init__(self, bits, group_size):
        if bits not in {4, 8} or group_size <= 0:
            raise ValueError(bits, group_size)
        self.levels, self.group_size = 2**bits, group_size

    def quantise(self, x):
        D = x.shape[-1]
        owner = torch.arange(D) // self.group_size
        scale = torch.zeros(*x.shape[:-1], int(owner[-1]) + 1)
        for d in range(D):
            scale[..., owner[d]] = torch.maximum(scale[..., owner[d]], x[..., d].abs())
        scale = scale / (self.levels // 2 - 1)
        codes = torch.floor(x / (scale + (scale == 0))[..., owner] + 0.5) + self.levels // 2
        codes = codes.clamp(0, self.levels - 1).to(torch.uint8)
        if self.levels == 16:
            left, right = codes[..., : (D + 1) // 2], codes[..., (D + 1) // 2 :]
            right = torch.cat((right, torch.zeros_like(left[..., : D % 2])), -1)
            codes = left * 16 + right
        return codes, scale

    def dequantise(self, packed, scale, head_dim):
        codes = packed
        if self.levels == 16:
            codes = torch.cat((packed // 16, packed % 16), -1)[..., :head_dim]
        return (codes.float() - self.levels // 2) * scale[..., torch.arange(head_dim) // self.group_size]


class RowByRow:
    """Plain Python for every row; scales a little smaller than the largest needs, with -8 to 7."""

    def __init__(self, bits, group_size):
        if (bits != 4 and bits != 8) or group_size < 1:
            raise ValueError
        self.bits, self.g = bits, group_size

    def quantise(self, x):
        packed, scales = [], []
        half = 1 << self.bits - 1
        for row in x.reshape(-1, x.shape[-1]).tolist():
            largest = [max(abs(v) for v in row[i : i + self.g]) for i in range(0, len(row), self.g)]
            scale = [v / (half - 0.5) or 1.0 for v in largest]
            codes = [max(0, min(2 * half - 1, round(v / scale[i // self.g]) + half)) for i, v in enumerate(row)]
            if self.bits == 4:
                codes = [a << 4 | b for a, b in zip(codes[::2], codes[1::2] + [0])]
            packed.append(codes)
            scales.append(scale)
        shape = x.shape[:-1]
        packed = torch.tensor(packed, dtype=torch.uint8).reshape(*shape, -1)
        return packed, torch.tensor(scales, dtype=torch.float32).reshape(*shape, -1)

    def dequantise(self, packed, scale, head_dim):
        rows, half = [], 1 << self.bits - 1
        width, groups = packed.shape[-1], scale.shape[-1]
        for codes, row_scale in zip(packed.reshape(-1, width).tolist(), scale.reshape(-1, groups).tolist()):
            if self.bits == 4:
                codes = [n for byte in codes for n in (byte >> 4, byte & 15)]
            rows.append([(codes[i] - half) * row_scale[i // self.g] for i in range(head_dim)])
        return torch.tensor(rows).reshape(*packed.shape[:-1], head_dim)


class InNumPy:
    """np.packbits-like work in NumPy, scales by reduceat, float64 inside."""

    def __init__(self, bits, group_size):
        if bits not in (8, 4) or group_size < 1:
            raise ValueError(f"not possible: {bits} bits, groups of {group_size}")
        self.bits, self.g, self.top = bits, group_size, (1 << (bits - 1)) - 1

    def quantise(self, x):
        import numpy as np

        x = x.numpy().astype(np.float64)
        starts = np.arange(0, x.shape[-1], self.g)
        scale = (np.maximum.reduceat(np.abs(x), starts, axis=-1) / self.top).astype(np.float32)
        scale[scale == 0] = 1.0
        each = np.repeat(scale, self.g, axis=-1)[..., : x.shape[-1]]
        codes = np.clip(np.rint(x / each), -self.top, self.top).astype(np.int16) & (2**self.bits - 1)
        if self.bits == 4:
            codes = np.concatenate((codes, np.zeros_like(codes[..., : codes.shape[-1] % 2])), -1)
            codes = codes[..., ::2] + 16 * codes[..., 1::2]
        return torch.from_numpy(codes.astype(np.uint8)), torch.from_numpy(scale)

    def dequantise(self, packed, scale, head_dim):
        codes = packed.to(torch.int32)
        if self.bits == 4:
            codes = torch.stack((codes % 16, codes // 16), dim=-1).reshape(*codes.shape[:-1], -1)[..., :head_dim]
        codes = torch.where(codes > self.top, codes - 2**self.bits, codes)
        return codes * scale.repeat_interleave(self.g, dim=-1)[..., :head_dim]


class Magnitudes(Base):
    """A bit for the sign, the rest for the size; a scale of 0 is stored as it is."""

    def zeros(self, scale):
        return scale

    def numbers(self, x, scale):
        each = self.each(scale, x.shape[-1])
        return torch.where(each > 0, x / torch.where(each > 0, each, 1.0), 0.0).round()

    def pack(self, numbers):
        codes = (numbers.abs() + (numbers < 0) * (self.top + 1)).to(torch.uint8)
        return super().pack(codes.float() - self.top - 1)

    def unpack(self, packed, head_dim):
        codes = super().unpack(packed, head_dim) + self.top + 1
        return torch.where(codes > self.top, self.top + 1 - codes, codes)


VARIANTS = (
    Variant("an offset, the low half first", Base),
    Variant("two's complement, group by group", TwosComplement),
    Variant("groups by index, the row in two halves", ByIndex),
    Variant("row by row, from -8 to 7", RowByRow),
    Variant("NumPy", InNumPy),
    Variant("sign and size, scales of 0", Magnitudes),
)
