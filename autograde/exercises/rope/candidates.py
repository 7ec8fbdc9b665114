"""Wrong and right ways to turn queries and keys. Each mistake changes one thing in `rope` or in its parts."""

from __future__ import annotations

import math

from autograde.exercise import Mistake, Variant
from autograde.lazy import torch


def _angles(positions, base, half):
    """(T, D/2)."""
    return positions[:, None] * base ** (-torch.arange(half, dtype=torch.float64) / half)


def _turn(x, angles):
    """Half-split; the angles broadcast to the pairs of x."""
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()), dim=-1)


def rope(x, positions, base):
    return _turn(x, _angles(positions, base, x.shape[-1] // 2))


# The pairs.


def interleaved(x, positions, base):
    """Pairs (0, 1), (2, 3), ... as GPT-J has them."""
    angles = _angles(positions, base, x.shape[-1] // 2)
    a, b = x[..., 0::2], x[..., 1::2]
    turned = (a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos())
    return torch.stack(turned, dim=-1).flatten(-2)


def mixed_pairs(x, positions, base):
    """Half-split rows with the angles of interleaved ones."""
    half = x.shape[-1] // 2
    angles = _angles(positions, base, half).repeat_interleave(2, dim=-1)
    return x * angles.cos() + torch.cat((-x[..., half:], x[..., :half]), dim=-1) * angles.sin()


def half_turned(x, positions, base):
    half = x.shape[-1] // 2
    return torch.cat((rope(x, positions, base)[..., :half], x[..., half:]), dim=-1)


def halves_swapped(x, positions, base):
    return rope(x, positions, base).roll(x.shape[-1] // 2, dims=-1)


def first_half_twice(x, positions, base):
    """The second line reads what the first has just written."""
    half = x.shape[-1] // 2
    angles, out = _angles(positions, base, half), x.clone()
    out[..., :half] = out[..., :half] * angles.cos() - out[..., half:] * angles.sin()
    out[..., half:] = out[..., :half] * angles.sin() + out[..., half:] * angles.cos()
    return out


def second_half_paired_backwards(x, positions, base):
    """Pairs (i, D - 1 - i)."""
    half = x.shape[-1] // 2
    turned = rope(torch.cat((x[..., :half], x[..., half:].flip(-1)), dim=-1), positions, base)
    return torch.cat((turned[..., :half], turned[..., half:].flip(-1)), dim=-1)


# The turn.


def other_way(x, positions, base):
    return rope(x, -positions, base)


def no_minus(x, positions, base):
    half = x.shape[-1] // 2
    angles = _angles(positions, base, half)
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * angles.cos() + b * angles.sin(), a * angles.sin() + b * angles.cos()), dim=-1)


def cos_sin_swapped(x, positions, base):
    half = x.shape[-1] // 2
    angles = _angles(positions, base, half)
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * angles.sin() - b * angles.cos(), a * angles.cos() + b * angles.sin()), dim=-1)


def degrees(x, positions, base):
    return _turn(x, torch.deg2rad(_angles(positions, base, x.shape[-1] // 2)))


def turns(x, positions, base):
    return _turn(x, 2 * math.pi * _angles(positions, base, x.shape[-1] // 2))


# The angles.


def half_the_exponent(x, positions, base):
    """-i / D."""
    half = x.shape[-1] // 2
    return _turn(x, positions[:, None] * base ** (-torch.arange(half, dtype=torch.float64) / (2 * half)))


def twice_the_exponent(x, positions, base):
    """The 2 of 2i is there twice: arange(0, D, 2) has it already."""
    D = x.shape[-1]
    return _turn(x, positions[:, None] * base ** (-2 * torch.arange(0, D, 2, dtype=torch.float64) / D))


def growing(x, positions, base):
    half = x.shape[-1] // 2
    return _turn(x, positions[:, None] * base ** (torch.arange(half, dtype=torch.float64) / half))


def counted_from_one(x, positions, base):
    half = x.shape[-1] // 2
    return _turn(x, positions[:, None] * base ** (-torch.arange(1, half + 1, dtype=torch.float64) / half))


def last_pair_fastest(x, positions, base):
    return _turn(x, _angles(positions, base, x.shape[-1] // 2).flip(-1))


def one_angle(x, positions, base):
    """i // (D/2) is 0 for every pair."""
    half = x.shape[-1] // 2
    return _turn(x, positions[:, None] * float(base) ** (-(torch.arange(half) // half)))


def always_ten_thousand(x, positions, base):
    return rope(x, positions, 10000.0)


def steps_of_the_width(x, positions, base):
    """-2i / (H * D)."""
    H, D = x.shape[1], x.shape[-1]
    return _turn(x, positions[:, None] * base ** (-2 * torch.arange(D // 2, dtype=torch.float64) / (H * D)))


def steps_over_pairs_less_one(x, positions, base):
    """As linspace(0, 1, D/2) gives them: the last pair reaches 1/base."""
    half = x.shape[-1] // 2
    return _turn(x, positions[:, None] * base ** -torch.linspace(0, 1, half, dtype=torch.float64))


# The positions.


def from_zero(x, positions, base):
    return rope(x, torch.arange(len(positions)), base)


def from_the_first(x, positions, base):
    return rope(x, positions[0] + torch.arange(len(positions)), base)


def one_more(x, positions, base):
    return rope(x, positions + 1, base)


def all_at_the_last(x, positions, base):
    return rope(x, positions[-1].expand(len(positions)), base)


def all_at_the_first(x, positions, base):
    return rope(x, positions[0].expand(len(positions)), base)


def from_the_end(x, positions, base):
    return rope(x, positions.flip(0), base)


def table_wraps(x, positions, base):
    return rope(x, positions % 16, base)


def table_ends(x, positions, base):
    return rope(x, positions.clamp(max=15), base)


# The axes.


def along_the_batch(x, positions, base):
    """Row b is turned by positions[b]."""
    return _turn(x, _angles(positions, base, x.shape[-1] // 2)[:, None, None, :])


def along_the_heads(x, positions, base):
    """As if x were (B, T, H, D)."""
    return _turn(x, _angles(positions, base, x.shape[-1] // 2)[:, None, :])


def first_head_only(x, positions, base):
    return torch.cat((rope(x[:, :1], positions, base), x[:, 1:]), dim=1)


def first_sequence_only(x, positions, base):
    return torch.cat((rope(x[:1], positions, base), x[1:]), dim=0)


def in_place(x, positions, base):
    x[...] = rope(x, positions, base)
    return x


def rounded_positions(x, positions, base):
    """Eight bits of mantissa: from 257 on, neighbours share a position."""
    return rope(x, positions.to(torch.bfloat16).double(), base)


MISTAKES = (
    Mistake("interleaved", interleaved,
            "Neighbours are paired, (0, 1), (2, 3). Here i is turned together with i + D/2: the weights fix which.", "every pair",
            "checkpoints of one habit loaded into code of the other"),
    Mistake("mixed-pairs", mixed_pairs,
            "The halves are paired, but each angle is used for two neighbours: repeat the angles as a whole, (0, 1, 0, 1), not (0, 0, 1, 1).", "every pair"),
    Mistake("half-turned", half_turned, "Only the first half is turned. A turn changes both numbers of a pair.", "one pair"),
    Mistake("halves-swapped", halves_swapped, "The two halves come back in each other's place.", "one pair"),
    Mistake("first-half-twice", first_half_twice,
            "The second half is worked out from a first half that is already turned. Keep both old halves first.", "one pair"),
    Mistake("paired-backwards", second_half_paired_backwards, "i is paired with D - 1 - i. Its partner is i + D/2.", "every pair"),
    Mistake("other-way", other_way, "Every pair is turned the other way: the minus belongs to a * cos - b * sin.", "one pair"),
    Mistake("no-minus", no_minus, "There is no minus: (a cos - b sin, a sin + b cos). Without it lengths change.", "one pair"),
    Mistake("cos-sin-swapped", cos_sin_swapped, "cos and sin are swapped: at position 0 a row must stay as it is.", "one pair"),
    Mistake("degrees", degrees, "The angle is taken for degrees. It is in radians, as torch.cos takes it.", "one pair"),
    Mistake("turns", turns, "The angle is multiplied by 2 pi. It is in radians as it stands.", "one pair"),
    Mistake("half-the-exponent", half_the_exponent, "The exponent is -i/D. It is -2i/D.", "every pair"),
    Mistake("twice-the-exponent", twice_the_exponent,
            "The exponent is -4i/D: the 2 is there twice. arange(0, D, 2) holds 2i already.", "every pair"),
    Mistake("growing", growing, "The exponent lacks its minus: later pairs must turn more slowly.", "every pair"),
    Mistake("counted-from-one", counted_from_one, "The pairs are counted from 1. Pair 0 turns by the position itself.", "one pair"),
    Mistake("last-pair-fastest", last_pair_fastest, "The angles are in reverse order. Pair 0 turns fastest, the last one slowest.", "every pair"),
    Mistake("one-angle", one_angle, "Every pair is turned by the position itself: base ** (-2i/D) is 1 for all. An integer division?", "every pair"),
    Mistake("always-ten-thousand", always_ten_thousand, "The base is 10000 whatever is given. Use `base`.", "every pair"),
    Mistake("steps-of-the-width", steps_of_the_width,
            "The exponent is divided by the width H * D. Each head has its own D: -2i/D.", "every pair"),
    Mistake("steps-over-pairs-less-one", steps_over_pairs_less_one,
            "The exponents reach -1 at the last pair. They are -2i/D, so the last one stops before -1.", "every pair"),
    Mistake("from-zero", from_zero, "Tokens are numbered from 0 in every call. Use the positions given: a chunk starts where the last one ended.", "absolute positions",
            "caches whose position starts again with each chunk"),
    Mistake("from-the-first", from_the_first, "Only the first position is used, the others are counted on from it. They may have gaps.", "absolute positions"),
    Mistake("one-more", one_more, "Every position is one too large. At position 0 nothing is turned.", "one pair"),
    Mistake("all-at-the-last", all_at_the_last, "All tokens are turned to the last position. Each has its own.", "one pair"),
    Mistake("all-at-the-first", all_at_the_first, "All tokens are turned to the first position. Each has its own.", "one pair"),
    Mistake("from-the-end", from_the_end, "The positions are used in reverse order.", "one pair"),
    Mistake("table-wraps", table_wraps, "From position 16 on the angles start again. Positions have no end here.", "absolute positions",
            "tables that are indexed with a modulo"),
    Mistake("table-ends", table_ends, "All positions from 15 on are treated as 15. Positions have no end here.", "absolute positions"),
    Mistake("along-the-batch", along_the_batch,
            "The positions run along the batch axis. x is (B, H, T, D): they belong to the third axis, T.", "one pair"),
    Mistake("along-the-heads", along_the_heads,
            "The positions run along the heads, as if x were (B, T, H, D). It is (B, H, T, D).", "one pair"),
    Mistake("first-head-only", first_head_only, "Only the first head is turned.", "one pair"),
    Mistake("first-sequence-only", first_sequence_only, "Only the first sequence of the batch is turned.", "one pair"),
    Mistake("in-place", in_place, "x itself is overwritten. The caller still needs it: return a new tensor.", "x is left alone"),
    Mistake("positions-in-bfloat16", rounded_positions,
            "Positions are rounded to bfloat16, so that from 257 on neighbours share one. Work out angles in x's own dtype or better.", "absolute positions",
            "models that are cast to bfloat16 with their position ids"),
)  # fmt: skip


def complex_numbers(x, positions, base):
    half = x.shape[-1] // 2
    angles = torch.outer(positions.double(), base ** (torch.arange(half).double() * -2 / x.shape[-1]))
    pairs = torch.complex(x[..., :half].double().contiguous(), x[..., half:].double().contiguous())
    turned = pairs * torch.polar(torch.ones_like(angles), angles)
    return torch.cat((turned.real, turned.imag), dim=-1)


def rotate_half(x, positions, base):
    """As Llama's code writes it."""
    D = x.shape[-1]
    frequencies = 1.0 / (base ** (torch.arange(0, D, 2, dtype=torch.float64) / D))
    angles = torch.cat([torch.outer(positions.double(), frequencies)] * 2, dim=-1)
    return x * angles.cos() + torch.cat((-x[..., D // 2 :], x[..., : D // 2]), dim=-1) * angles.sin()


def loops(x, positions, base):
    out, D = x.clone(), x.shape[-1]
    for t, position in enumerate(positions.tolist()):
        for i in range(D // 2):
            angle = position / base ** (2 * i / D)
            a, b = x[:, :, t, i], x[:, :, t, i + D // 2]
            out[:, :, t, i] = a * math.cos(angle) - b * math.sin(angle)
            out[:, :, t, i + D // 2] = a * math.sin(angle) + b * math.cos(angle)
    return out


def matrices(x, positions, base):
    """One D x D matrix for each position."""
    T, D = x.shape[2:]
    half = D // 2
    angles = _angles(positions, base, half)
    turn, i = torch.zeros(T, D, D, dtype=x.dtype), torch.arange(half)
    turn[:, i, i] = turn[:, i + half, i + half] = angles.cos()
    turn[:, i + half, i], turn[:, i, i + half] = angles.sin(), -angles.sin()
    return torch.einsum("tij,bhtj->bhti", turn, x)


def in_float32(x, positions, base):
    half = x.shape[-1] // 2
    frequencies = float(base) ** (-torch.arange(half, dtype=torch.float32) / half)
    return _turn(x.float(), positions.float()[:, None] * frequencies)


def a_table(x, positions, base):
    """All angles up to the last position are worked out, then looked up."""
    table = _angles(torch.arange(int(positions.max()) + 1), base, x.shape[-1] // 2)
    return _turn(x, table[positions])


def as_pairs(x, positions, base):
    """(..., 2, D/2), turned by (..., 2, 2)."""
    cos, sin = (f(_angles(positions, base, x.shape[-1] // 2)) for f in (torch.cos, torch.sin))
    a, b = x.unflatten(-1, (2, -1)).unbind(-2)  # each (B, H, T, D/2)
    return torch.stack((a * cos - b * sin, b * cos + a * sin), dim=-2).flatten(-2).numpy()


def turned_pairs(x, positions, base):
    """Complex numbers, viewed and not built; one token after another."""
    half = x.shape[-1] // 2
    steps = torch.tensor([base ** (-i / half) for i in range(half)], dtype=torch.float64)
    pairs = torch.view_as_complex(x.unflatten(-1, (2, half)).transpose(-1, -2).contiguous())
    turned = [row * torch.exp(1j * position * steps) for row, position in zip(pairs.unbind(2), positions)]
    return torch.view_as_real(torch.stack(turned, 2)).transpose(-1, -2).flatten(-2)


VARIANTS = (
    Variant("two halves", rope),
    Variant("complex numbers", complex_numbers),
    Variant("rotate_half", rotate_half),
    Variant("loops", loops),
    Variant("matrices", matrices),
    Variant("float32 inside", in_float32),
    Variant("a table", a_table),
    Variant("an axis of pairs", as_pairs),
    Variant("pairs viewed as complex numbers, token by token", turned_pairs),
)
