"""Wrong and right ways to find scales. Each mistake changes the axes, the reduction, or what is done with zeros."""

from __future__ import annotations

import math

from autograde.exercise import Mistake, Variant
from autograde.lazy import torch

DIMS = {"tensor": (0, 1, 2), "head": (1, 2), "token": (2,), "channel": (1,)}


def _groups(x, per):
    """The numbers that share a scale, along a fourth axis."""
    if per == "tensor":
        return x.reshape(1, 1, 1, -1)
    if per == "head":
        return x.reshape(x.shape[0], 1, 1, -1)
    return x[:, :, None] if per == "token" else x.mT[:, None]


def _known(per):
    if per not in DIMS:
        raise ValueError(f"per must be one of {', '.join(DIMS)}, got {per!r}")


def _ones(s):
    return torch.where(s > 0, s, 1.0)


def _with(reduce=lambda g: g.abs().amax(-1) / 448, zeros=lambda s, x, per: _ones(s), known=_known):
    """Right scales, with one part to exchange."""

    def scales(x, per):
        per = known(per) or per
        return zeros(reduce(_groups(x, per)), x, per)

    return scales


def _over(**changed):
    """Right scales over some other axes."""
    dims = DIMS | changed

    def scales(x, per):
        _known(per)
        return _ones(x.abs().amax(dims[per], keepdim=True) / 448)

    return scales


def scales(x, per):
    if per not in DIMS:
        raise ValueError(f"per must be one of {', '.join(DIMS)}, got {per!r}")
    largest = x.abs().amax(DIMS[per], keepdim=True)
    return torch.where(largest > 0, largest / 448, 1.0)


# The number.


def without_sign(g):
    return g.amax(-1) / 448


def of_smallest(g):
    return -g.amin(-1) / 448


def range_of(g):
    return (g.amax(-1) - g.amin(-1)) / 448


def half_the_range(g):
    return (g.amax(-1) - g.amin(-1)) / 2 / 448


def mean_of(g):
    return g.abs().mean(-1) / 448


def deviation(g):
    return 3 * g.std(-1, correction=0) / 448


def root_mean_square(g):
    return g.square().mean(-1).sqrt() / 448


def norm_of(g):
    return g.norm(dim=-1) / 448


def summed(g):
    return g.abs().sum(-1) / 448


def median_of(g):
    return g.abs().median(-1).values / 448


def nearly_largest(g):
    return g.abs().quantile(0.99, dim=-1) / 448


def first_left_out(g):
    return g[..., min(1, g.shape[-1] - 1) :].abs().amax(-1) / 448


def last_left_out(g):
    return g[..., : max(1, g.shape[-1] - 1)].abs().amax(-1) / 448


def least(g):
    return g.abs().amin(-1) / 448


def over(number):
    return lambda g: g.abs().amax(-1) / number


def times_448(g):
    return g.abs().amax(-1) * 448


def reciprocal(g):
    largest = g.abs().amax(-1)
    return torch.where(largest > 0, 448 / largest, 0.0)


def with_room(g):
    return 2 * g.abs().amax(-1) / 448


def power_of_two(g):
    s = g.abs().amax(-1) / 448
    return torch.where(s > 0, 2.0 ** s.clamp(min=1e-300).log2().ceil(), s)


def whole(g):
    return (g.abs().amax(-1) / 448).ceil()


def half_precision(g):
    return (g.abs().amax(-1) / 448).half()


def brain_float(g):
    return (g.abs().amax(-1) / 448).bfloat16()


def in_fp8(g):
    return (g.abs().amax(-1) / 448).to(torch.float8_e4m3fn).float()


def two_decimals(g):
    return (g.abs().amax(-1) / 448).round(decimals=2)


def squares(g):
    return g.square().amax(-1) / 448


def at_most_1(g):
    return (g.abs().amax(-1) / 448).clamp(max=1.0)


def divided(x, per):
    """x / scales instead of the scales."""
    return x / scales(x, per)


def expanded(x, per):
    return scales(x, per).expand(x.shape).clone()


def no_axes(x, per):
    return scales(x, per).squeeze()


def as_number(x, per):
    return scales(x, per).item() if per == "tensor" else scales(x, per)


def flat(x, per):
    return scales(x, per).flatten()


def first_head_only(x, per):
    return scales(x[:1] if per == "tensor" else x, per)


def first_token_only(x, per):
    """Calibrated once, on the first token."""
    return scales(x[:, :1] if per == "tensor" else x, per)


def returns_nothing(x, per):
    scales(x, per)


# The axes.


def heads_without_axes(x, per):
    return scales(x, per).flatten() if per == "head" else scales(x, per)


def tokens_without_axis(x, per):
    return scales(x, per).squeeze(-1) if per == "token" else scales(x, per)


def channels_without_axis(x, per):
    return scales(x, per).squeeze(1) if per == "channel" else scales(x, per)


def tokens_first(x, per):
    return scales(x, per).transpose(0, 1) if per == "token" else scales(x, per)


def channels_turned(x, per):
    return scales(x, per).mT if per == "channel" else scales(x, per)


def swapped(a, b):
    return _over(**{a: DIMS[b], b: DIMS[a]})


def heads_repeated(x, per):
    s = scales(x, per)
    return s.expand(-1, x.shape[1], -1).clone() if per == "head" else s


def head_of_first_token(x, per):
    return scales(x[:, :1] if per == "head" else x, per)


def head_is_mean_of_tokens(x, per):
    return scales(x, "token").mean(1, keepdim=True) if per == "head" else scales(x, per)


def tokens_so_far(x, per):
    """The largest up to each token, as a running scale would be."""
    return scales(x, per).cummax(1).values if per == "token" else scales(x, per)


def last_token(x, per):
    return scales(x, per)[:, -1:] if per == "token" else scales(x, per)


def channels_of_last_token(x, per):
    return scales(x[:, -1:] if per == "channel" else x, per)


def channels_not_last_token(x, per):
    return scales(x[:, :-1] if per == "channel" else x, per)


def channels_in_pairs(x, per):
    """Neighbours share a scale."""
    s = scales(x, per)
    if per == "channel":
        even = s[..., : s.shape[-1] // 2 * 2].unflatten(-1, (-1, 2)).amax(-1).repeat_interleave(2, -1)
        s = torch.cat((even, s[..., even.shape[-1] :]), -1)
    return s


# Zeros.


def left_zero(s, x, per):
    return s


def one_over_448(s, x, per):
    return torch.where(s > 0, s, 1 / 448)


def four_four_eight(s, x, per):
    return torch.where(s > 0, s, 448.0)


def not_a_number(s, x, per):
    return torch.where(s > 0, s, torch.nan)


def infinite(s, x, per):
    return torch.where(s > 0, s, torch.inf)


def minus_one(s, x, per):
    return torch.where(s > 0, s, -1.0)


def all_one(s, x, per):
    return s if (s > 0).all() else torch.ones_like(s)


def all_or_nothing(s, x, per):
    return s if x.any() else torch.ones_like(s)


def any_zero(s, x, per):
    return torch.where((_groups(x, per) == 0).any(-1), 1.0, s)


def tensor_not_checked(s, x, per):
    return s if per == "tensor" else _ones(s)


def channels_not_checked(s, x, per):
    return s if per == "channel" else _ones(s)


def tokens_not_checked(s, x, per):
    return s if per == "token" else _ones(s)


def neighbours(s, x, per):
    return torch.where(s > 0, s, s.amax())


def zeros_left_out(s, x, per):
    """Where nothing is there, no scale comes back."""
    return s[s > 0].reshape(-1, 1, 1) if (s == 0).any() else s


# Small and large numbers.


def at_least_1e12(s, x, per):
    return torch.where(s > 0, s.clamp(min=1e-12), 1.0)


def tiny_is_zero(s, x, per):
    return torch.where(s > 1e-6, s, 1.0)


def below_1_is_1(s, x, per):
    return _ones(s).clamp(min=1.0)


def with_epsilon(s, x, per):
    return torch.where(s > 0, s + 1e-6, 1.0)


def at_least_epsilon(s, x, per):
    return torch.where(s > 0, s.clamp(min=1e-6), 1.0)


def float16_range(s, x, per):
    return _ones(s).clamp(max=65504.0)


# Other words.


def anything_is_tensor(per):
    return per if per in DIMS else "tensor"


def anything_is_token(per):
    return per if per in DIMS else "token"


def anything_is_channel(per):
    return per if per in DIMS else "channel"


def first_letter(per):
    return {"t": "token", "h": "head", "c": "channel"}[per[0]] if per not in DIMS else per


def begins_like(per):
    _known(next((word for word in DIMS if per.startswith(word)), per))
    return next((word for word in DIMS if per.startswith(word)), per)


def key_error(per):
    DIMS[per]


def asserts(per):
    assert per in DIMS, per


def unknown_gives_none(x, per):
    return scales(x, per) if per in DIMS else None


def unknown_gives_one(x, per):
    return scales(x, per) if per in DIMS else torch.ones(1, 1, 1)


# What belongs to the caller.


def abs_in_place(x, per):
    return scales(x.abs_(), per)


def divides_x(x, per):
    _known(per)
    x /= 448
    return _ones(x.abs().amax(DIMS[per], keepdim=True))


def fills_zeros(x, per):
    _known(per)
    x[x == 0] = 448.0
    return scales(x, per)


T, H, C = "one for all", "each head, each token", "each channel"
Z, L, W, A = "zeros", "small and large", "another word", "x is left alone"

MISTAKES = (
    Mistake("sign-not-dropped", _with(without_sign), "You take the largest x. The largest |x| may be negative.", T),
    Mistake("negative-ones-only", _with(of_smallest), "You take the smallest x. Take the largest |x|.", T),
    Mistake("range", _with(range_of), "You take the largest minus the smallest. Take the largest |x|.", T),
    Mistake("half-the-range", _with(half_the_range), "You take half the range. It need not lie around 0: take |x|.", T),
    Mistake("mean", _with(mean_of), "You take the mean of |x|. What is larger would be cut off: take the largest.", T),
    Mistake("deviation", _with(deviation), "You take three standard deviations. Take the largest |x|.", T),
    Mistake("root-mean-square", _with(root_mean_square), "You take the root mean square. Take the largest |x|.", T),
    Mistake("norm", _with(norm_of), "You take the length of the row (its norm). Take the largest |x|.", T),
    Mistake("sum", _with(summed), "You add the |x| up. Take the largest.", T),
    Mistake(
        "median", _with(median_of), "You take the median. Half of the numbers would be cut off: take the largest.", T
    ),
    Mistake(
        "quantile", _with(nearly_largest), "You leave 1% of the numbers out of the range. Nothing may be cut off.", T
    ),
    Mistake("first-left-out", _with(first_left_out), "The first of those that share a scale is left out.", H),
    Mistake("last-left-out", _with(last_left_out), "The last of those that share a scale is left out.", H),
    Mistake("smallest", _with(least), "You take the smallest |x|. Take the largest.", T),
    Mistake("not-over-448", _with(over(1)), "This is the largest |x|. The scale is that over 448.", T),
    Mistake("over-127", _with(over(127)), "You divide by 127, as for int8. The largest number of E4M3 is 448.", T),
    Mistake("over-240", _with(over(240)), "You divide by 240, the end of another E4M3 (fnuz). Here it is 448.", T),
    Mistake("over-256", _with(over(256)), "You divide by 256, the number of codes. The largest number is 448.", T),
    Mistake("over-e5m2", _with(over(57344)), "You divide by the largest number of E5M2. That of E4M3 is 448.", T),
    Mistake("times-448", _with(times_448), "You multiply by 448. The scale is the largest |x| over 448.", T),
    Mistake(
        "upside-down", _with(reciprocal), "This is 448 over the largest |x|. x is divided by the scale: turn it.", T
    ),
    Mistake("room-above", _with(with_room), "You leave room above. The largest |x| must land on 448.", T),
    Mistake("power-of-two", _with(power_of_two), "You round the scale to a power of two. The largest lands on 448.", T),
    Mistake("rounded-up", _with(whole), "You round the scale up to a whole number. Leave it as it is.", T),
    Mistake(
        "in-float16", _with(half_precision), "The scales are in float16, three digits. Leave them in x's dtype.", T
    ),
    Mistake("in-bfloat16", _with(brain_float), "The scales are in bfloat16, two digits. Leave them in x's dtype.", T),
    Mistake("in-fp8", _with(in_fp8), "You cast the scales to FP8 too. They stay as exact as they are.", T),
    Mistake("two-decimals", _with(two_decimals), "You round the scale to two decimals. Leave it as it is.", T),
    Mistake("squares", _with(squares), "You take the largest x squared. Take the largest |x|.", T),
    Mistake("at-most-1", _with(at_most_1), "You cut the scale off at 1, so large numbers do not fit. Leave it.", T),
    Mistake("divides-x", divided, "You return x over its scales. Return the scales.", T),
    Mistake(
        "as-large-as-x",
        expanded,
        "You return a scale for every number. One for each group is enough: shape (1, 1, 1).",
        T,
    ),
    Mistake("no-axes", no_axes, "You drop the axes of length 1. Keep them (keepdim=True), so that it broadcasts.", T),
    Mistake("a-number", as_number, "You return a plain number. Return a tensor of shape (1, 1, 1).", T),
    Mistake("flattened", flat, "You return a flat row of scales. Keep the axes, with length 1.", T),
    Mistake("first-head-only", first_head_only, "You look at the first head only. Look at all of x.", T),
    Mistake(
        "first-token-only",
        first_token_only,
        "You look at the first token only. Later ones may be larger: look at all of x.",
        T,
        seen_in="caches that freeze their scale at the first update",
    ),
    Mistake("returns-nothing", returns_nothing, "Nothing is returned. Is a `return` missing?", T),
    Mistake("one-for-all-heads", _over(head=(0, 1, 2)), "All heads share one scale. Each head has its own.", H),
    Mistake("head-as-token", _over(head=(2,)), 'For "head" you look along D only. Look along S and D: (Hkv, 1, 1).', H),
    Mistake(
        "head-as-channel", _over(head=(1,)), 'For "head" you look along S only. Look along S and D: (Hkv, 1, 1).', H
    ),
    Mistake("head-left-out", _over(head=(0,)), 'For "head" you look along the heads. Look along S and D.', H),
    Mistake(
        "heads-and-tokens-mixed", _over(head=(0, 1)), 'For "head" you look along Hkv and S. Look along S and D.', H
    ),
    Mistake(
        "heads-without-axes", heads_without_axes, "The scales of the heads are (Hkv,). Keep the axes: (Hkv, 1, 1).", H
    ),
    Mistake("heads-repeated", heads_repeated, "You repeat a head's scale for each of its tokens. One is enough.", H),
    Mistake("head-of-first-token", head_of_first_token, "A head's scale is that of its first token. Look at all.", H),
    Mistake(
        "head-is-a-mean", head_is_mean_of_tokens, "A head's scale is the mean of its tokens'. Take the largest.", H
    ),
    Mistake("head-and-token-swapped", swapped("head", "token"), '"head" and "token" are swapped.', H),
    Mistake("head-and-channel-swapped", swapped("head", "channel"), '"head" and "channel" are swapped.', H),
    Mistake(
        "tokens-over-heads",
        _over(token=(0, 2)),
        "A token's heads share a scale. Each head has its own: (Hkv, S, 1).",
        H,
    ),
    Mistake(
        "token-as-head", _over(token=(1, 2)), "All tokens of a head share a scale. Each has its own: (Hkv, S, 1).", H
    ),
    Mistake("token-as-tensor", _over(token=(0, 1, 2)), "All tokens share one scale. Each has its own: (Hkv, S, 1).", H),
    Mistake("token-and-channel-swapped", swapped("token", "channel"), '"token" and "channel" are swapped.', H),
    Mistake(
        "tokens-without-axis", tokens_without_axis, "The tokens' scales are (Hkv, S). Keep the axis: (Hkv, S, 1).", H
    ),
    Mistake("tokens-first", tokens_first, "The tokens' scales are (S, Hkv, 1). Heads come first: (Hkv, S, 1).", H),
    Mistake("tokens-so-far", tokens_so_far, "A token's scale is the largest up to it. Each looks at itself only.", H),
    Mistake("last-token-only", last_token, "There is one scale, the last token's. Each token has its own.", H),
    Mistake("channels-over-heads", _over(channel=(0, 1)), "A channel's heads share a scale. Each has its own.", C),
    Mistake("channel-as-token", _over(channel=(2,)), 'For "channel" you look along D. Look along the tokens, S.', C),
    Mistake("channel-as-head", _over(channel=(1, 2)), "All channels of a head share a scale. Each has its own.", C),
    Mistake("channel-over-heads-only", _over(channel=(0,)), 'For "channel" you look along the heads. Look along S.', C),
    Mistake(
        "channels-without-axis",
        channels_without_axis,
        "The channels' scales are (Hkv, D). Keep the axis: (Hkv, 1, D).",
        C,
    ),
    Mistake("channels-turned", channels_turned, "The channels' scales are (Hkv, D, 1). Wanted is (Hkv, 1, D).", C),
    Mistake(
        "channels-of-last-token", channels_of_last_token, "A channel looks at the last token only. Look at all.", C
    ),
    Mistake("channels-not-last-token", channels_not_last_token, "A channel leaves the last token out. Look at all.", C),
    Mistake("channels-in-pairs", channels_in_pairs, "Two channels share a scale. Each has its own.", C),
    Mistake(
        "zero-scale",
        _with(zeros=left_zero),
        "Where all is zero, your scale is 0, or as small as clamp_min leaves it. Make it 1.",
        Z,
    ),
    Mistake("1-before-dividing", _with(zeros=one_over_448), "Zeros give 1 / 448: you put the 1 in before dividing.", Z),
    Mistake("448-where-zero", _with(zeros=four_four_eight), "Where all is zero, your scale is 448. Make it 1.", Z),
    Mistake("nan-where-zero", _with(zeros=not_a_number), "Where all is zero, your scale is NaN. Make it 1.", Z),
    Mistake("infinite-where-zero", _with(zeros=infinite), "Where all is zero, your scale is infinite. Make it 1.", Z),
    Mistake("minus-1-where-zero", _with(zeros=minus_one), "Where all is zero, your scale is -1. Make it 1.", Z),
    Mistake("all-1", _with(zeros=all_one), "One group of zeros makes all scales 1. Only its own is.", Z),
    Mistake("all-or-nothing", _with(zeros=all_or_nothing), "You ask whether all of x is zero. Ask of each group.", Z),
    Mistake("any-zero", _with(zeros=any_zero), "A single zero makes the scale 1. Only where all is zero it is.", Z),
    Mistake("tensor-not-checked", _with(zeros=tensor_not_checked), 'An x of zeros gives 0 for "tensor". Make it 1.', Z),
    Mistake(
        "tokens-not-checked", _with(zeros=tokens_not_checked), 'A token of zeros gives 0 for "token". Make it 1.', Z
    ),
    Mistake("channels-not-checked", _with(zeros=channels_not_checked), "Channels of zeros give 0. Make it 1.", Z),
    Mistake(
        "scale-of-the-largest", _with(zeros=neighbours), "Zeros get the largest scale of the others. Make it 1.", Z
    ),
    Mistake("zeros-left-out", _with(zeros=zeros_left_out), "Groups of zeros have no scale. Give them 1.", Z),
    Mistake("tiny-is-zero", _with(zeros=tiny_is_zero), "You take tiny numbers for zeros. They have a scale too.", L),
    Mistake("floor", _with(zeros=at_least_1e12), "Your scale ends at a smallest number. x may be smaller still.", L),
    Mistake("at-least-1", _with(zeros=below_1_is_1), "Your scale is at least 1. Small numbers need a small one.", L),
    Mistake(
        "epsilon-added", _with(zeros=with_epsilon), "You add a small number to the scale. Small scales feel it.", L
    ),
    Mistake(
        "at-least-epsilon", _with(zeros=at_least_epsilon), "Your scale is at least 1e-6. Tiny numbers need less.", L
    ),
    Mistake(
        "range-of-float16", _with(zeros=float16_range), "Your scale is at most 65,504. Large numbers need more.", L
    ),
    Mistake(
        "anything-is-tensor", _with(known=anything_is_tensor), 'Unknown words mean "tensor". Raise a ValueError.', W
    ),
    Mistake("anything-is-token", _with(known=anything_is_token), 'Unknown words mean "token". Raise a ValueError.', W),
    Mistake(
        "anything-is-channel", _with(known=anything_is_channel), 'Unknown words mean "channel". Raise a ValueError.', W
    ),
    Mistake(
        "first-letter", _with(known=first_letter), "You look at the first letter of the word. Look at all of it.", W
    ),
    Mistake("begins-like", _with(known=begins_like), "You take words that only begin right. Raise a ValueError.", W),
    Mistake("key-error", _with(known=key_error), "Unknown words raise a KeyError, by accident. Raise a ValueError.", W),
    Mistake(
        "asserts", _with(known=asserts), "An assert raises an AssertionError, and can be off. Raise a ValueError.", W
    ),
    Mistake("unknown-gives-none", unknown_gives_none, "Unknown words return None. Raise a ValueError.", W),
    Mistake("unknown-gives-1", unknown_gives_one, "Unknown words return a scale of 1. Raise a ValueError.", W),
    Mistake("abs-in-place", abs_in_place, "`abs_` takes the signs out of the caller's x. Use `abs`.", A),
    Mistake("x-over-448", divides_x, "`x /= 448` changes the caller's x. Make a new tensor.", A),
    Mistake("zeros-filled", fills_zeros, "You write into the caller's x where it is zero. Leave it as it was.", A),
)


def axis_by_axis(x, per):
    if per == "tensor":
        dims = [0, 1, 2]
    elif per == "head":
        dims = [1, 2]
    elif per == "token":
        dims = [2]
    elif per == "channel":
        dims = [1]
    else:
        raise ValueError(per)
    s = x.abs() / 448.0
    for dim in dims:
        s = s.max(dim, keepdim=True).values
    s[s == 0] = 1.0
    return s


def two_sided(x, per):
    if per not in DIMS:
        raise ValueError(per)
    s = torch.maximum(x.amax(DIMS[per], True), -x.amin(DIMS[per], True)) / 448
    return s + (s == 0)


def matched(x, per):
    heads, tokens, channels = x.shape
    match per:
        case "tensor":
            s = x.abs().max().reshape(1, 1, 1)
        case "head":
            s = x.flatten(1).abs().max(1).values[:, None, None]
        case "token":
            s = x.abs().max(-1).values.unsqueeze(-1)
        case "channel":
            s = x.abs().max(-2).values.unsqueeze(-2)
        case _:
            raise ValueError(f"{per} is none of them")
    return (s.float() / 448).masked_fill(s == 0, 1)


def number_by_number(x, per):
    if per not in ("tensor", "head", "token", "channel"):
        raise ValueError(per)
    shape = [1 if axis in DIMS[per] else size for axis, size in enumerate(x.shape)]
    s = torch.zeros(shape, dtype=torch.float64)
    for h, head in enumerate(x.tolist()):
        for t, row in enumerate(head):
            for d, value in enumerate(row):
                place = tuple(0 if axis in DIMS[per] else i for axis, i in enumerate((h, t, d)))
                s[place] = max(s[place].item(), math.fabs(value))
    return torch.tensor([v / 448 if v else 1 for v in s.flatten().tolist()]).reshape(shape)


def in_numpy(x, per):
    axes = {"tensor": None, "head": (1, 2), "token": 2, "channel": 1}
    if per not in axes:
        raise ValueError(per)
    largest = abs(x.numpy()).max(axis=axes[per], keepdims=True)
    return torch.from_numpy(largest / 448 + (largest == 0))


def infinity_norm(x, per):
    try:
        dims = DIMS[per]
    except KeyError:
        raise ValueError(f"unknown: {per}") from None
    s = torch.linalg.vector_norm(x, ord=math.inf, dim=dims, keepdim=True) / torch.finfo(torch.float8_e4m3fn).max
    return s.where(s != 0, torch.ones_like(s))


VARIANTS = (
    Variant("amax over a table of axes", scales),
    Variant("one axis after another", axis_by_axis),
    Variant("the larger of two ends", two_sided),
    Variant("match, in float32", matched),
    Variant("number by number", number_by_number),
    Variant("NumPy", in_numpy),
    Variant("the infinity norm", infinity_norm),
    Variant("groups along a fourth axis", _with()),
)
