"""Wrong and right ways to count the bytes of a quantised row."""

from __future__ import annotations

import math

import numpy as np

from autograde.exercise import Mistake, Variant


def _up(a, b):
    return -(-a // b)


def _payload(dim, bits, group):
    return _up(dim * bits, 8)


def _extra(dim, group, scale, zero):
    return _up(dim, group) * (scale + zero)


def _align(payload, extra, align):
    return _up(payload + extra, align) * align


def _with(payload=_payload, extra=_extra, align=_align):
    """The right way, with parts to exchange."""

    def quantised_row_bytes(head_dim, bits, group_size, scale_bytes, zero_bytes, step):
        size = payload(head_dim, bits, group_size)
        return align(size, extra(head_dim, group_size, scale_bytes, zero_bytes), step)

    return quantised_row_bytes


_right = _with()


def bits_not_bytes(dim, bits, group):
    return dim * bits


def elements(dim, bits, group):
    return dim


def cut(dim, bits, group):
    return dim * bits // 8


def nearest(dim, bits, group):
    return round(dim * bits / 8)


def fraction(dim, bits, group):
    return dim * bits / 8


def byte_each(dim, bits, group):
    return dim * _up(bits, 8)


def whole_bytes_of_bits(dim, bits, group):
    return dim * (bits // 8)


def element_in_parts(dim, bits, group):
    return _up(dim, 8 // bits) if bits <= 8 else dim * bits // 8


def half_a_byte(dim, bits, group):
    return _up(dim, 2)


def one_more(dim, bits, group):
    return dim * bits // 8 + 1


def key_and_value(dim, bits, group):
    return 2 * _payload(dim, bits, group)


def group_by_group(dim, bits, group):
    return sum(_up(min(group, dim - first) * bits, 8) for first in range(0, dim, group))


def padded_groups(dim, bits, group):
    return _up(_up(dim, group) * group * bits, 8)


def no_scale(dim, group, scale, zero):
    return _up(dim, group) * zero


def one_scale(dim, group, scale, zero):
    return scale + _up(dim, group) * zero


def scale_each(dim, group, scale, zero):
    return dim * scale + _up(dim, group) * zero


def groups_cut(dim, group, scale, zero):
    return dim // group * (scale + zero)


def at_least_one(dim, group, scale, zero):
    return max(1, dim // group) * (scale + zero)


def one_group_more(dim, group, scale, zero):
    return (dim // group + 1) * (scale + zero)


def group_is_a_number(dim, group, scale, zero):
    return group * (scale + zero)


def groups_not_whole(dim, group, scale, zero):
    return int(dim * (scale + zero) / group)


def always_two(dim, group, scale, zero):
    return _up(dim, group) * ((2 if scale else 0) + zero)


def scale_in_bits(dim, group, scale, zero):
    return _up(_up(dim, group) * scale, 8) + _up(dim, group) * zero


def no_zero(dim, group, scale, zero):
    return _up(dim, group) * scale


def one_zero(dim, group, scale, zero):
    return _up(dim, group) * scale + zero


def zero_each(dim, group, scale, zero):
    return _up(dim, group) * scale + dim * zero


def zero_like_scale(dim, group, scale, zero):
    return _up(dim, group) * (2 * scale if zero else scale)


def zero_instead(dim, group, scale, zero):
    return _up(dim, group) * (zero or scale)


def larger_of_both(dim, group, scale, zero):
    return _up(dim, group) * max(scale, zero)


def product(dim, group, scale, zero):
    return _up(dim, group) * (scale * zero if zero else scale)


def whole_steps(payload, extra, align):
    return payload + extra if align == 1 else _align(payload, extra, align)


def not_aligned(payload, extra, align):
    return payload + extra


def aligned_down(payload, extra, align):
    return (payload + extra) // align * align


def nearest_multiple(payload, extra, align):
    return (payload + extra + align // 2) // align * align


def always_further(payload, extra, align):
    return ((payload + extra) // align + 1) * align if align > 1 else payload + extra


def align_added(payload, extra, align):
    return payload + extra + align - 1


def payload_only(payload, extra, align):
    return _up(payload, align) * align + extra


def extra_only(payload, extra, align):
    return payload + _up(extra, align) * align


def each_apart(payload, extra, align):
    return _up(payload, align) * align + _up(extra, align) * align


def at_least_align(payload, extra, align):
    return max(payload + extra, align)


def power_of_two(payload, extra, align):
    size = payload + extra
    return size if align == 1 else 1 << (size - 1).bit_length()


def by_masking(payload, extra, align):
    return (payload + extra + align - 1) & ~(align - 1)


def gap_alone(payload, extra, align):
    size = payload + extra
    return size if align == 1 else (align - size % align) % align


def number_of_steps(payload, extra, align):
    return _up(payload + extra, align)


P, S, Z, A = "payload", "scales", "zero points", "alignment"

MISTAKES = (
    Mistake(
        "bits-not-bytes",
        _with(bits_not_bytes),
        "The payload is in bits. Eight of them are a byte: divide, and round up.",
        killed_by=P,
    ),
    Mistake(
        "bits-overlooked",
        _with(elements),
        "The payload has a byte for each element. An element takes `bits` bits, which may be fewer or more.",
        killed_by=P,
    ),
    Mistake(
        "payload-cut",
        _with(cut),
        "The payload is rounded down. A byte that is filled in part must be there all the same: round up.",
        killed_by=P,
    ),
    Mistake(
        "payload-rounded-to-the-nearest",
        _with(nearest),
        "The payload is rounded to the nearest byte, and 2.5 to 2. A byte that is filled in part counts: round up.",
        killed_by=P,
    ),
    Mistake(
        "part-of-a-byte",
        _with(fraction, align=whole_steps),
        "The payload has a part of a byte. Memory comes in whole bytes: round up.",
        killed_by=P,
    ),
    Mistake(
        "whole-bytes-for-each-element",
        _with(byte_each),
        "Each element takes whole bytes here. Elements are packed: round up the bits of all of them together.",
        killed_by=P,
    ),
    Mistake(
        "bits-cut-to-bytes",
        _with(whole_bytes_of_bits),
        "bits // 8 is 0 for fewer than 8 bits. Multiply by head_dim first, then divide.",
        killed_by=P,
    ),
    Mistake(
        "no-element-across-bytes",
        _with(element_in_parts),
        "You fit whole elements into each byte: two of 3 bits. Here they lie without a gap, and may cross a byte's end.",
        killed_by=P,
    ),
    Mistake(
        "always-four-bits",
        _with(half_a_byte),
        "You count half a byte for each element whatever `bits` says.",
        killed_by=P,
    ),
    Mistake(
        "always-a-byte-more",
        _with(one_more),
        "You add a byte even where the payload fills its bytes exactly. Round up, -(-n // 8), instead of n // 8 + 1.",
        killed_by=P,
    ),
    Mistake(
        "key-and-value",
        _with(key_and_value),
        "You count two rows. One row is asked: the key, or the value, of one head.",
        killed_by=P,
    ),
    Mistake(
        "each-group-in-whole-bytes",
        _with(group_by_group),
        "You round up the payload of each group. The groups are packed together: round up once.",
        killed_by=S,
    ),
    Mistake(
        "groups-padded",
        _with(padded_groups),
        "You pad the last group to its full size. The payload has head_dim elements, no more.",
        killed_by=S,
    ),
    Mistake(
        "scales-forgotten",
        _with(extra=no_scale),
        "This is without scales. Each group needs one of scale_bytes bytes.",
        killed_by=S,
    ),
    Mistake(
        "one-scale-for-the-row",
        _with(extra=one_scale),
        "You count one scale for the row. There is one for each group of group_size elements.",
        killed_by=S,
    ),
    Mistake(
        "scale-for-each-element",
        _with(extra=scale_each),
        "You count a scale for each element. There is one for each group of group_size elements.",
        killed_by=S,
    ),
    Mistake(
        "last-group-forgotten",
        _with(extra=groups_cut),
        "You round the number of groups down. The last group may be smaller, and needs its scale all the same.",
        killed_by=S,
    ),
    Mistake(
        "last-group-forgotten-unless-alone",
        _with(extra=at_least_one),
        "You round the number of groups down, though not below 1. A last group that is smaller needs its scale too.",
        killed_by=S,
    ),
    Mistake(
        "one-group-more",
        _with(extra=one_group_more),
        "You count a group more even where they divide the row exactly. Round up instead of adding 1.",
        killed_by=S,
    ),
    Mistake(
        "group-size-as-number",
        _with(extra=group_is_a_number),
        "You take group_size for the number of groups. It is how many elements share a scale.",
        killed_by=S,
    ),
    Mistake(
        "parts-of-a-group",
        _with(extra=groups_not_whole),
        "You count a part of a scale for the last group. It needs a whole one: round the number of groups up first.",
        killed_by=S,
    ),
    Mistake(
        "scales-of-two-bytes",
        _with(extra=always_two),
        "You count two bytes for a scale, as in FP16. scale_bytes says how many there are.",
        killed_by=S,
    ),
    Mistake(
        "scales-in-bits",
        _with(extra=scale_in_bits),
        "You divide the scales by 8. scale_bytes is in bytes already.",
        killed_by=S,
    ),
    Mistake(
        "zero-points-forgotten",
        _with(extra=no_zero),
        "This is without zero points. Each group needs one of zero_bytes bytes.",
        killed_by=Z,
    ),
    Mistake(
        "one-zero-point-for-the-row",
        _with(extra=one_zero),
        "You count one zero point for the row. There is one for each group, like the scale.",
        killed_by=Z,
    ),
    Mistake(
        "zero-point-for-each-element",
        _with(extra=zero_each),
        "You count a zero point for each element. There is one for each group, like the scale.",
        killed_by=Z,
    ),
    Mistake(
        "zero-points-like-scales",
        _with(extra=zero_like_scale),
        "You give a zero point the size of a scale. It has zero_bytes bytes.",
        killed_by=Z,
    ),
    Mistake(
        "zero-points-instead",
        _with(extra=zero_instead),
        "You count the zero points instead of the scales. A group has both.",
        killed_by=Z,
    ),
    Mistake(
        "larger-of-both",
        _with(extra=larger_of_both),
        "You take the larger of scale and zero point. A group has both: add them.",
        killed_by=Z,
    ),
    Mistake(
        "scale-times-zero-point",
        _with(extra=product),
        "You multiply scale_bytes and zero_bytes. A group has one of each: add them.",
        killed_by=Z,
    ),
    Mistake(
        "not-aligned",
        _with(align=not_aligned),
        "The row is not aligned. Round the sum up to a multiple of `align`.",
        killed_by=A,
    ),
    Mistake(
        "aligned-down",
        _with(align=aligned_down),
        "You round down to a multiple of `align`, and the end of the row is lost. Round up.",
        killed_by=A,
    ),
    Mistake(
        "aligned-to-the-nearest",
        _with(align=nearest_multiple),
        "You round to the nearest multiple of `align`, which may be too small for the row. Round up.",
        killed_by=A,
    ),
    Mistake(
        "always-further",
        _with(align=always_further),
        "A row that is a multiple of `align` already gets another step. It needs none.",
        killed_by=A,
    ),
    Mistake(
        "align-added",
        _with(align=align_added),
        "You add align - 1 and stop there. That is half of rounding up: now divide with // and multiply.",
        killed_by=A,
    ),
    Mistake(
        "payload-aligned-alone",
        _with(align=payload_only),
        "You align the payload, and then add scales and zero points. Add first, align the sum.",
        killed_by=A,
    ),
    Mistake(
        "extras-aligned-alone",
        _with(align=extra_only),
        "You align scales and zero points, but not the payload. Add first, align the sum.",
        killed_by=A,
    ),
    Mistake(
        "parts-aligned-apart",
        _with(align=each_apart),
        "You align the payload and the rest each by itself. Add first, align the sum once.",
        killed_by=A,
    ),
    Mistake(
        "at-least-align",
        _with(align=at_least_align),
        "You take `align` for the smallest size. The sum must be a multiple of it.",
        killed_by=A,
    ),
    Mistake(
        "power-of-two",
        _with(align=power_of_two),
        "You round up to a power of two. A multiple of `align` is enough.",
        killed_by=A,
    ),
    Mistake(
        "aligned-by-masking",
        _with(align=by_masking),
        "& ~(align - 1) works for powers of two only, and `align` may be 6 or 12. Divide with // and multiply.",
        killed_by=A,
    ),
    Mistake(
        "gap-alone",
        _with(align=gap_alone),
        "This is the gap alone. Add it to the row.",
        killed_by=A,
    ),
    Mistake(
        "steps-not-bytes",
        _with(align=number_of_steps),
        "This is how many times `align` the row takes. Multiply by align to have bytes.",
        killed_by=A,
    ),
)


def with_ceil(head_dim, bits, group_size, scale_bytes, zero_bytes, align):
    groups = math.ceil(head_dim / group_size)
    size = math.ceil(head_dim * bits / 8) + groups * scale_bytes + groups * zero_bytes
    return math.ceil(size / align) * align


def by_remainder(head_dim, bits, group_size, scale_bytes, zero_bytes, align):
    size = (head_dim * bits + 7) // 8
    size += (scale_bytes + zero_bytes) * (head_dim // group_size + (head_dim % group_size > 0))
    return size + -size % align


def group_after_group(D, bits, g, scale, zero, align):
    bits_used = 0
    while D > 0:
        bits_used += min(D, g) * bits + 8 * (scale + zero)
        D -= g
    size, rest = divmod(bits_used, 8)
    size += rest > 0
    while size % align != 0:
        size += 1
    return size


def in_floats(head_dim, bits, group_size, scale_bytes, zero_bytes, align):
    groups = np.ceil(head_dim / group_size)
    return np.ceil((np.ceil(bits / 8 * head_dim) + groups * (scale_bytes + zero_bytes)) / align) * align


VARIANTS = (
    Variant("math.ceil", with_ceil),
    Variant("remainders", by_remainder),
    Variant("group after group, in bits", group_after_group),
    Variant("NumPy's floats", in_floats),
)
