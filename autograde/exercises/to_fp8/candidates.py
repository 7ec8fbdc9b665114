"""Wrong and right ways to make FP8 codes. Each mistake changes one thing in `to_fp8`."""

from __future__ import annotations

from autograde.exercise import Mistake, Variant
from autograde.lazy import torch


def _cast(quotient):
    """The right end: clamp, then cast."""
    return quotient.clamp(-448.0, 448.0).to(torch.float8_e4m3fn)


def to_fp8(x, scale):
    return _cast(x / scale)


# The division.


def multiplies(x, scale):
    return _cast(x * scale)


def no_scale(x, scale):
    return _cast(x)


def twice(x, scale):
    return _cast(x / scale / scale)


def upside_down(x, scale):
    return _cast(scale / x)


def scale_is_amax(x, scale):
    """Takes the scale for the largest number, which becomes 448."""
    return _cast(x / scale * 448)


def divides_by_448(x, scale):
    return _cast(x / (448 * scale))


def own_scale(x, scale):
    return _cast(x / (x.abs().amax() / 448))


def scale_in_fp8(x, scale):
    return _cast(x / scale.clamp(max=448.0).to(torch.float8_e4m3fn).to(x.dtype))


def x_cast_first(x, scale):
    return _cast(_cast(x).to(x.dtype) / scale)


def subtracts(x, scale):
    return _cast(x - scale)


def root_of_scale(x, scale):
    return _cast(x / scale.sqrt())


# What comes back.


def read_back(x, scale):
    """The numbers again, not the codes."""
    return to_fp8(x, scale).to(x.dtype) * scale


def as_float32(x, scale):
    """Rounded to FP8 and kept in four bytes."""
    return to_fp8(x, scale).float()


def as_bfloat16(x, scale):
    return to_fp8(x, scale).bfloat16()


def raw_bytes(x, scale):
    return to_fp8(x, scale).view(torch.uint8)


def many_axes_in_float32(x, scale):
    """The codes of three axes and more are stacked as floats."""
    codes = to_fp8(x, scale)
    return codes.float() if x.ndim > 2 else codes


def never_cast(x, scale):
    return (x / scale).clamp(-448.0, 448.0)


def whole_numbers(x, scale):
    return _cast((x / scale).round())


def int8(x, scale):
    return (x / scale).round().clamp(-127, 127).to(torch.int8)


def e5m2(x, scale):
    return (x / scale).clamp(-448.0, 448.0).to(torch.float8_e5m2)


def no_sign(x, scale):
    return _cast((x / scale).abs())


def limits_swapped(x, scale):
    return (x / scale).clamp(448.0, -448.0).to(torch.float8_e4m3fn)


def flat(x, scale):
    return to_fp8(x, scale).flatten()


def returns_nothing(x, scale):
    to_fp8(x, scale)


def pair(x, scale):
    return to_fp8(x, scale), scale


# What is too large.


def no_clamp(x, scale):
    return (x / scale).to(torch.float8_e4m3fn)


def clamped_too_late(x, scale):
    """NaN is made by the cast, and then told apart by nothing: all of it becomes 448."""
    codes = (x / scale).to(torch.float8_e4m3fn)
    return codes.float().nan_to_num(nan=448.0).to(torch.float8_e4m3fn)


def clamped_first(x, scale):
    return (x.clamp(-448.0, 448.0) / scale).to(torch.float8_e4m3fn)


def at_240(x, scale):
    return (x / scale).clamp(-240.0, 240.0).to(torch.float8_e4m3fn)


def fnuz(x, scale):
    return (x / scale).clamp(-448.0, 448.0).to(torch.float8_e4m3fnuz)


def fnuz_clamped(x, scale):
    return (x / scale).clamp(-240.0, 240.0).to(torch.float8_e4m3fnuz)


def at_256(x, scale):
    return (x / scale).clamp(-256.0, 256.0).to(torch.float8_e4m3fn)


def at_127(x, scale):
    return (x / scale).clamp(-127.0, 127.0).to(torch.float8_e4m3fn)


def above_only(x, scale):
    return (x / scale).clamp(max=448.0).to(torch.float8_e4m3fn)


def below_only(x, scale):
    return (x / scale).clamp(min=-448.0).to(torch.float8_e4m3fn)


def limits_times_scale(x, scale):
    return torch.clamp(x / scale, -448 * scale, 448 * scale).to(torch.float8_e4m3fn)


def large_is_positive(x, scale):
    quotient = x / scale
    return _cast(torch.where(quotient.abs() > 448, 448.0, quotient))


def large_is_zero(x, scale):
    quotient = x / scale
    return _cast(torch.where(quotient.abs() > 448, 0.0, quotient))


def large_wraps(x, scale):
    """As whole numbers that overflow do."""
    return _cast(torch.where((x / scale).abs() > 448, (x / scale + 448).nan_to_num() % 896 - 448, x / scale))


def squeezed_into_range(x, scale):
    """All of it is shrunk until the largest fits."""
    quotient = x / scale
    return _cast(quotient / (quotient.abs().amax() / 448).clamp(min=1.0))


def infinite_is_zero(x, scale):
    return _cast((x / scale).nan_to_num(posinf=0.0, neginf=0.0))


def refuses_large(x, scale):
    if ((x / scale).abs() > 448).any():
        raise ValueError("out of range")
    return to_fp8(x, scale)


# Rounding.


def _step(quotient):
    """The distance of neighbours around each quotient."""
    exponent = torch.frexp(quotient).exponent - 1
    return torch.ldexp(torch.ones_like(quotient), exponent.clamp(min=-6) - 3)


def cut(x, scale):
    quotient = (x / scale).clamp(-448.0, 448.0)
    return _cast((quotient / _step(quotient)).trunc() * _step(quotient))


def floored(x, scale):
    quotient = (x / scale).clamp(-448.0, 448.0)
    return _cast((quotient / _step(quotient)).floor() * _step(quotient))


def away_from_zero(x, scale):
    quotient = (x / scale).clamp(-448.0, 448.0)
    return _cast((quotient.abs() / _step(quotient)).ceil() * _step(quotient) * quotient.sign())


def half_away(x, scale):
    quotient = (x / scale).clamp(-448.0, 448.0)
    return _cast((quotient.abs() / _step(quotient) + 0.5).floor() * _step(quotient) * quotient.sign())


def half_up(x, scale):
    quotient = (x / scale).clamp(-448.0, 448.0)
    return _cast((quotient / _step(quotient) + 0.5).floor() * _step(quotient))


def through_bfloat16(x, scale):
    return _cast((x / scale).bfloat16())


def through_float16(x, scale):
    return _cast((x / scale).half())


def scale_in_float16(x, scale):
    return _cast(x / scale.half().to(x.dtype))


def small_is_zero(x, scale):
    quotient = x / scale
    return _cast(torch.where(quotient.abs() < 2.0**-6, 0.0, quotient))


def never_zero(x, scale):
    quotient = x / scale
    return _cast(quotient.sign() * quotient.abs().clamp(min=2.0**-9))


def smallest_normal(x, scale):
    quotient = x / scale
    return _cast(quotient.sign() * quotient.abs().clamp(min=2.0**-6))


def epsilon(x, scale):
    """Keeps away from zero what is divided by zero elsewhere."""
    return _cast((x + 0.01) / scale)


def two_decimals(x, scale):
    return _cast(torch.round(x / scale, decimals=2))


# Whose scale.


def first_scale(x, scale):
    return _cast(x / scale.flatten()[0])


def largest_scale(x, scale):
    return _cast(x / scale.max())


def mean_scale(x, scale):
    return _cast(x / scale.mean())


def head_0(x, scale):
    return _cast(x / scale[:1])


def token_0(x, scale):
    return _cast(x / scale[:, :1]) if x.ndim > 2 else to_fp8(x, scale)


def channel_0(x, scale):
    return _cast(x / scale[..., :1])


def last_scale(x, scale):
    return _cast(x / scale.flatten()[-1])


def heads_backwards(x, scale):
    return _cast(x / scale.flip(0))


def squeezed(x, scale):
    return _cast(x / scale.squeeze())


def heads_only(x, scale):
    return _cast(x / scale.reshape(-1, *[1] * (x.ndim - 1)))


def three_axes(x, scale):
    if x.ndim == 4:
        scale = scale[0]
    return _cast(x / scale)


def scale_per_head(x, scale):
    """A mean over all but the first axis."""
    return _cast(x / scale.mean(dim=tuple(range(1, scale.ndim)), keepdim=True)) if x.ndim > 1 else to_fp8(x, scale)


# What belongs to the caller.


def divides_in_place(x, scale):
    x /= scale
    return _cast(x)


def clamps_in_place(x, scale):
    return (x.clamp_(-448 * scale, 448 * scale) / scale).to(torch.float8_e4m3fn)


def scale_in_place(x, scale):
    return _cast(x * scale.reciprocal_())


def x_made_nearest(x, scale):
    """Writes what was stored back into x."""
    codes = to_fp8(x, scale)
    x.copy_(codes.to(x.dtype) * scale)
    return codes


D, L, N = "division", "too large", "nearest number"
S, A = "one scale each", "x is left alone"

MISTAKES = (
    Mistake("multiplies", multiplies, "You multiply by the scale. Divide: reading the codes multiplies.", D),
    Mistake("scale-forgotten", no_scale, "The scale is not used. Store x / scale.", D),
    Mistake("divides-twice", twice, "You divide by the scale twice. Once is enough.", D),
    Mistake("upside-down", upside_down, "You divide the scale by x. It is x / scale.", D),
    Mistake(
        "scale-taken-for-the-largest",
        scale_is_amax,
        "You multiply by 448 as well, as if the scale were the largest number. It is that over 448 already.",
        D,
        seen_in="two habits for what is called the scale, mixed up",
    ),
    Mistake("448-twice", divides_by_448, "You divide by 448 as well. The scale has that in it already.", D),
    Mistake(
        "scale-of-its-own",
        own_scale,
        "You work out a scale of your own from x. Use the one that is given: others read the codes with it.",
        D,
    ),
    Mistake(
        "x-cast-first",
        x_cast_first,
        "You cast x before you divide, so it is rounded twice, and large ones are cut off. Divide first.",
        D,
    ),
    Mistake("subtracts", subtracts, "You subtract the scale. Divide by it.", D),
    Mistake("root-of-the-scale", root_of_scale, "You divide by the root of the scale. Divide by the scale.", D),
    Mistake(
        "read-back",
        read_back,
        "You multiply by the scale again: these are the numbers read back. Return the codes.",
        D,
    ),
    Mistake(
        "kept-in-float32",
        as_float32,
        "The numbers are right, but in float32: four bytes each. Return the float8_e4m3fn tensor itself.",
        D,
    ),
    Mistake("kept-in-bfloat16", as_bfloat16, "The numbers are right, but in bfloat16: two bytes each, not one.", D),
    Mistake(
        "raw-bytes", raw_bytes, "You return the codes as whole numbers from 0 to 255. Leave them in float8_e4m3fn.", D
    ),
    Mistake("whole-numbers", whole_numbers, "You round to whole numbers first. The cast rounds, to E4M3 numbers.", D),
    Mistake(
        "int8", int8, "These are whole numbers of eight bits, int8. Wanted is a floating format, float8_e4m3fn.", D
    ),
    Mistake(
        "e5m2",
        e5m2,
        "This is E5M2, with two bits of fraction. Wanted is E4M3, with three: torch.float8_e4m3fn.",
        D,
    ),
    Mistake("no-sign", no_sign, "All numbers come back positive. Clamp to -448..448, not the absolute value.", D),
    Mistake(
        "limits-swapped", limits_swapped, "The limits of your clamp are swapped: everything is -448. Smaller first.", D
    ),
    Mistake("flattened", flat, "You return one long row. The codes have the shape of x.", D),
    Mistake("returns-nothing", returns_nothing, "Nothing is returned. Is a `return` missing?", D),
    Mistake("returns-a-pair", pair, "You return the scale too. Only the codes are asked for.", D),
    Mistake(
        "no-clamp",
        no_clamp,
        "You do not clamp, or not to 448. Your own build may turn 500 into 448; others turn it into NaN.",
        L,
        seen_in="caches that were written on builds whose casts saturate",
    ),
    Mistake(
        "nan-mended",
        clamped_too_late,
        "You cast first and mend the NaN afterwards, but its sign is lost: -500 becomes 448. Clamp before the cast.",
        L,
    ),
    Mistake(
        "clamps-before-dividing",
        clamped_first,
        "You clamp x, not x / scale. 448 is the largest of the quotients: divide, clamp, cast.",
        L,
    ),
    Mistake(
        "clamped-to-240",
        at_240,
        "You clamp to 240, the largest number of another E4M3 (fnuz). That of float8_e4m3fn is 448.",
        L,
        seen_in="kernels written for devices with that format",
    ),
    Mistake(
        "fnuz",
        fnuz,
        "This is float8_e4m3fnuz, a format that ends at 240. Wanted is float8_e4m3fn.",
        D,
    ),
    Mistake("clamped-to-256", at_256, "You clamp to 256. The largest number of E4M3 is 448.", L),
    Mistake("clamped-to-127", at_127, "You clamp to 127, as for int8. The largest number of E4M3 is 448.", L),
    Mistake("clamped-above-only", above_only, "You clamp above only. Below, the limit is -448.", L),
    Mistake("clamped-below-only", below_only, "You clamp below only. Above, the limit is 448.", L),
    Mistake(
        "limits-times-scale",
        limits_times_scale,
        "You clamp the quotient to 448 * scale. The limits of the quotient are -448 and 448.",
        L,
    ),
    Mistake("large-is-positive", large_is_positive, "Large negative numbers become +448. They become -448.", L),
    Mistake("large-is-zero", large_is_zero, "What is too large becomes 0. It becomes -448 or 448.", L),
    Mistake("large-wraps", large_wraps, "What is too large comes in again from the other side. Clamp it.", L),
    Mistake(
        "all-of-it-shrunk",
        squeezed_into_range,
        "When one number is too large, you shrink all of them. Only that one is cut to 448: the scale is fixed.",
        L,
    ),
    Mistake(
        "infinite-is-zero",
        infinite_is_zero,
        "Infinities become 0. They become -448 and 448, as a clamp leaves them.",
        L,
    ),
    Mistake("refuses-large", refuses_large, "You refuse what is too large. Clamp it to -448..448.", L),
    Mistake("cut-off", cut, "You round toward 0. Round to the nearest number: the cast does that.", N),
    Mistake("rounded-down", floored, "You round down. Round to the nearest number: the cast does that.", N),
    Mistake("rounded-up", away_from_zero, "You round away from 0. Round to the nearest number: the cast does that.", N),
    Mistake(
        "ties-away-from-zero",
        half_away,
        "Halfway between two numbers you take the larger. Take the one with the even code, as the cast does.",
        N,
    ),
    Mistake(
        "ties-up",
        half_up,
        "Halfway between two numbers you take the upper. Take the one with the even code, as the cast does.",
        N,
    ),
    Mistake(
        "through-bfloat16",
        through_bfloat16,
        "You round to bfloat16 on the way. A number rounded twice may end on the wrong side: cast once.",
        N,
        seen_in="kernels that compute in bfloat16",
    ),
    Mistake(
        "through-float16",
        through_float16,
        "You round to float16 on the way. A number rounded twice may end on the wrong side: cast once.",
        N,
        seen_in="conversions of devices that go through float16",
    ),
    Mistake(
        "scale-in-float16",
        scale_in_float16,
        "You round the scale to float16 before you divide. Whoever reads the codes has the exact one: use it as it is.",
        N,
    ),
    Mistake(
        "small-is-zero",
        small_is_zero,
        "What is below 2 ** -6 becomes 0. E4M3 has numbers down to 2 ** -9.",
        N,
        seen_in="devices that flush subnormal numbers",
    ),
    Mistake("never-zero", never_zero, "Nothing becomes 0 in your code. Below 2 ** -10, 0 is the nearest number.", N),
    Mistake(
        "smallest-normal",
        smallest_normal,
        "What is below 2 ** -6 becomes 2 ** -6. E4M3 has smaller numbers, down to 2 ** -9, and 0.",
        N,
    ),
    Mistake(
        "two-decimals", two_decimals, "You round to two decimals first. Rounded twice is not rounded: leave it out.", N
    ),
    Mistake("first-scale", first_scale, "You use the first scale for all. Let the scale broadcast to x.", S),
    Mistake("last-scale", last_scale, "You use the last scale for all. Let the scale broadcast to x.", S),
    Mistake("largest-scale", largest_scale, "You use the largest scale for all. Let the scale broadcast to x.", S),
    Mistake("mean-scale", mean_scale, "You use the mean of the scales for all. Let the scale broadcast to x.", S),
    Mistake("scale-of-head-0", head_0, "You use the scale of the first head for all. Let the scale broadcast to x.", S),
    Mistake("scale-of-token-0", token_0, "You use the first token's scale for all. Let the scale broadcast to x.", S),
    Mistake(
        "scale-of-channel-0", channel_0, "You use the first channel's scale for all. Let the scale broadcast to x.", S
    ),
    Mistake(
        "many-axes-in-float32",
        many_axes_in_float32,
        "With three axes or more you return float32: four bytes each. Return the float8_e4m3fn tensor itself.",
        S,
    ),
    Mistake("heads-backwards", heads_backwards, "The scales meet the heads in reverse order.", S),
    Mistake(
        "squeezed",
        squeezed,
        "You squeeze the axes of length 1 out of the scale. They say along which axes it broadcasts: keep them.",
        S,
    ),
    Mistake(
        "a-scale-for-each-head-only",
        heads_only,
        "You reshape the scale to one for each head. It may have one for each token or channel: let it broadcast.",
        S,
    ),
    Mistake(
        "mean-over-tokens",
        scale_per_head,
        "You average the scales of a head. It may have one for each token or channel: let them broadcast.",
        S,
    ),
    Mistake(
        "three-axes",
        three_axes,
        "With four axes you use the scales of the first sequence for all. The scale has as many axes as x.",
        S,
    ),
    Mistake("divides-x-itself", divides_in_place, "`x /= scale` changes the caller's tensor. Make a new one.", A),
    Mistake(
        "clamps-x-itself",
        clamps_in_place,
        "`clamp_` changes the caller's tensor. Without the underscore it does not.",
        A,
    ),
    Mistake(
        "scale-changed", scale_in_place, "You change the caller's scale in place. It is needed to read the codes.", A
    ),
    Mistake("x-overwritten", x_made_nearest, "You write the rounded numbers back into x. Leave x as it was.", A),
)


def with_finfo(x, scale):
    limits = torch.finfo(torch.float8_e4m3fn)
    return torch.clamp(x / scale, limits.min, limits.max).to(dtype=torch.float8_e4m3fn)


def reciprocal(x, scale):
    return (x * (1.0 / scale)).float().clip(-448, 448).type(torch.float8_e4m3fn)


def minimum_maximum(x, scale):
    top = torch.tensor(448.0, dtype=x.dtype)
    return torch.maximum(torch.minimum(torch.div(x, scale), top), -top).to(torch.float8_e4m3fn)


def sign_apart(x, scale):
    size = (x.abs() / scale).clamp(max=448.0)
    return torch.copysign(size, x).to(torch.float8_e4m3fn)


def where_too_large(x, scale):
    y = torch.true_divide(x, scale)
    y = torch.where(y > 448, torch.full_like(y, 448), y)
    return torch.where(y < -448, torch.full_like(y, -448), y).to(torch.float8_e4m3fn)


def into_a_buffer(x, scale):
    """Clamped in units of x, and cast by an assignment."""
    codes = torch.empty(x.shape, dtype=torch.float8_e4m3fn)
    codes[...] = torch.min(torch.max(x, -448 * scale), 448 * scale) / scale
    return codes


def by_hand(x, scale):
    """Rounded to the grid of E4M3 with powers of two, so that the cast has nothing left to round."""
    quotient = (x / scale).clamp(-448.0, 448.0)
    return ((quotient / _step(quotient)).round() * _step(quotient)).to(torch.float8_e4m3fn)


def looked_up(x, scale):
    """The nearest of all codes, in a table; of two that are as near, the even one comes first."""
    codes = torch.tensor([*range(0, 127, 2), *range(1, 127, 2)], dtype=torch.uint8)
    table = codes.view(torch.float8_e4m3fn).double()
    size = (x.double() / scale.double()).abs().clamp(max=448.0)
    found = codes[(size[..., None] - table).abs().argmin(dim=-1)]
    return (found | (x < 0).to(torch.uint8) << 7).view(torch.float8_e4m3fn)


def sign_of_zero_lost(x, scale):
    """Codes of bytes, in which 0 has no sign."""
    codes = to_fp8(x, scale).view(torch.uint8)
    return torch.where(codes == 128, 0, codes).to(torch.uint8).view(torch.float8_e4m3fn)


def number_by_number(x, scale):
    whole = scale.expand(x.shape).flatten().tolist()
    quotients = [max(-448.0, min(448.0, a / b)) for a, b in zip(x.flatten().tolist(), whole)]
    return torch.tensor(quotients).to(torch.float8_e4m3fn).reshape(x.shape)


def clamped_to_464(x, scale):
    """Up to 464 a cast rounds down to 448 on every build."""
    return (x / scale).clamp(-464.0, 464.0).to(torch.float8_e4m3fn)


def in_logarithms(x, scale):
    """x / scale as a difference of exponents where both are powers of two, and as a quotient of what is left."""
    (a, m), (b, n) = torch.frexp(x), torch.frexp(scale)
    quotient = torch.ldexp(a / b, m - n) if torch.isfinite(x).all() else x / scale
    return quotient.clamp(-448.0, 448.0).to(torch.float8_e4m3fn)


VARIANTS = (
    Variant("divide, clamp, cast", to_fp8),
    Variant("limits from finfo", with_finfo),
    Variant("times the reciprocal, in float32", reciprocal),
    Variant("minimum and maximum", minimum_maximum),
    Variant("the sign apart", sign_apart),
    Variant("two times where", where_too_large),
    Variant("assigned to a buffer", into_a_buffer),
    Variant("rounded by hand", by_hand),
    Variant("looked up in a table", looked_up),
    Variant("number by number", number_by_number),
    Variant("a zero without a sign", sign_of_zero_lost),
    Variant("clamped to 464", clamped_to_464),
    Variant("exponents apart", in_logarithms),
)
