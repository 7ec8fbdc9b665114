"""Wrong and right ways to move keys that are turned already. Each mistake changes one thing in `move_keys`."""

from __future__ import annotations

import math

import numpy as np

from autograde.exercise import Mistake, Variant
from autograde.lazy import torch


def _angles(positions, base, half):
    """(S, D/2)."""
    return positions[:, None] * base ** (-torch.arange(half, dtype=torch.float64) / half)


def _turn(x, angles):
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()), dim=-1)


def _rope(x, positions, base):
    return _turn(x, _angles(positions, base, x.shape[-1] // 2))


def move_keys(k, old, new, base):
    return _rope(k, new - old, base)


# By how much.


def by_new_on_top(k, old, new, base):
    return _rope(k, new, base)


def by_old(k, old, new, base):
    return _rope(k, old, base)


def only_back(k, old, new, base):
    return _rope(k, -old, base)


def other_way(k, old, new, base):
    return _rope(k, old - new, base)


def twice(k, old, new, base):
    return move_keys(move_keys(k, old, new, base), old, new, base)


def by_the_sum(k, old, new, base):
    return _rope(k, old + new, base)


def old_taken_twice(k, old, new, base):
    """Back by old, then by new - old: the old turn is taken off twice."""
    return _rope(_rope(k, -old, base), new - old, base)


def not_at_all(k, old, new, base):
    return k.clone()


def by_distance(k, old, new, base):
    return _rope(k, (new - old).abs(), base)


def backwards_only(k, old, new, base):
    """Keys never move on: a negative number is taken for a mistake."""
    return _rope(k, (new - old).clamp(max=0), base)


def one_more(k, old, new, base):
    return _rope(k, new - old + 1, base)


def one_less(k, old, new, base):
    return _rope(k, new - old - 1, base)


def counted_anew(k, old, new, base):
    """new is taken for 0 to S - 1 whatever it is."""
    return _rope(k, torch.arange(len(new)) - old, base)


def old_counted_anew(k, old, new, base):
    """old is taken for 0 to S - 1 whatever it is."""
    return _rope(k, new - torch.arange(len(old)), base)


def as_the_first(k, old, new, base):
    return _rope(k, (new - old)[0].expand(len(new)), base)


def as_the_last(k, old, new, base):
    return _rope(k, (new - old)[-1].expand(len(new)), base)


def mean_shift(k, old, new, base):
    return _rope(k, (new - old).double().mean().expand(len(new)), base)


def newest_stays(k, old, new, base):
    """All are moved but the newest."""
    out = move_keys(k, old, new, base)
    out[:, -1] = k[:, -1]
    return out


def first_stays(k, old, new, base):
    """The first key is taken for a sink that never moves."""
    out = move_keys(k, old, new, base)
    out[:, 0] = k[:, 0]
    return out


def sorted_first(k, old, new, base):
    """Positions are put in order, and the rows are not."""
    return _rope(k, new.sort().values - old.sort().values, base)


def new_sorted(k, old, new, base):
    return _rope(k, new.sort().values - old, base)


def in_reverse(k, old, new, base):
    return _rope(k, (new - old).flip(0), base)


def small_table(k, old, new, base):
    """A table of 64 turns, whose end is never passed."""
    return _rope(k, (new - old).clamp(-63, 63), base)


def table_wraps(k, old, new, base):
    return _rope(k, (new - old) % 64, base)


def rows_reordered(k, old, new, base):
    """The rows are put where the new positions point to, too."""
    return move_keys(k, old, new, base)[:, new.argsort()]


def rows_by_old(k, old, new, base):
    return move_keys(k, old, new, base)[:, old.argsort()]


# How.


def interleaved(k, old, new, base):
    """Pairs (0, 1), (2, 3), ..."""
    angles = _angles(new - old, base, k.shape[-1] // 2)
    a, b = k[..., 0::2], k[..., 1::2]
    turned = (a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos())
    return torch.stack(turned, dim=-1).flatten(-2)


def always_ten_thousand(k, old, new, base):
    return move_keys(k, old, new, 10000.0)


def one_angle(k, old, new, base):
    return _turn(k, (new - old)[:, None].double().expand(len(new), k.shape[-1] // 2))


def half_the_exponent(k, old, new, base):
    half = k.shape[-1] // 2
    return _turn(k, (new - old)[:, None] * base ** (-torch.arange(half, dtype=torch.float64) / (2 * half)))


def degrees(k, old, new, base):
    return _turn(k, torch.deg2rad(_angles(new - old, base, k.shape[-1] // 2)))


def half_turned(k, old, new, base):
    half = k.shape[-1] // 2
    return torch.cat((move_keys(k, old, new, base)[..., :half], k[..., half:]), dim=-1)


def first_half_twice(k, old, new, base):
    """The second line reads what the first has just written."""
    half = k.shape[-1] // 2
    angles, out = _angles(new - old, base, half), k.clone()
    out[..., :half] = out[..., :half] * angles.cos() - out[..., half:] * angles.sin()
    out[..., half:] = out[..., :half] * angles.sin() + out[..., half:] * angles.cos()
    return out


def difference_of_tables(k, old, new, base):
    """cos(new) - cos(old) is not cos(new - old)."""
    half = k.shape[-1] // 2
    there, here = _angles(new, base, half), _angles(old, base, half)
    cos, sin = there.cos() - here.cos(), there.sin() - here.sin()
    a, b = k[..., :half], k[..., half:]
    return torch.cat((a * cos - b * sin, a * sin + b * cos), dim=-1)


def first_head_only(k, old, new, base):
    return torch.cat((move_keys(k[:1], old, new, base), k[1:]), dim=0)


def along_the_heads(k, old, new, base):
    """Head h is turned by the difference of row h."""
    return _turn(k, _angles(new - old, base, k.shape[-1] // 2)[: k.shape[0], None, :])


def in_place(k, old, new, base):
    k[...] = move_keys(k, old, new, base)
    return k


def positions_in_place(k, old, new, base):
    new -= old
    return _rope(k, new, base)


def rounded(k, old, new, base):
    """Eight bits of mantissa: far along, neighbours share a position."""
    return _rope(k, new.bfloat16().double() - old.bfloat16().double(), base)


def in_float32(k, old, new, base):
    """From 2**24 on, float32 has only every second position."""
    return _rope(k, new.float().double() - old.float().double(), base)


def about_there(k, old, new, base):
    """Far along, neighbours are taken for one position."""
    return k.clone() if torch.allclose(old.double(), new.double(), rtol=1e-3) else _rope(k, new - old, base)


def same_set(k, old, new, base):
    """Where the same positions are held before and after, nothing is moved."""
    return k.clone() if torch.equal(old.sort().values, new.sort().values) else _rope(k, new - old, base)


MISTAKES = (
    Mistake("by-new-on-top", by_new_on_top, "The keys are turned by `new` on top: they are turned by `old` already, and end at old + new.", "to the front", "caches that rotate again what they kept"),
    Mistake("by-old", by_old, "The keys are turned by `old` once more. Turn them by what is missing to `new`.", "to the front"),
    Mistake("only-back", only_back, "The old turn is taken off, and the new one is not put on.", "to the front"),
    Mistake("other-way", other_way, "The keys move the other way: turn by new - old.", "to the front"),
    Mistake("twice", twice, "The keys are moved twice. One turn by new - old is all.", "to the front"),
    Mistake("by-the-sum", by_the_sum, "The keys are turned by `old` once more, then by `new`: they end at 2 * old + new. Turn them by new - old.", "to the front"),
    Mistake("old-taken-off-twice", old_taken_twice, "The old turn is taken off twice: once by itself, once in new - old.", "to the front"),
    Mistake("not-at-all", not_at_all, "The keys come back as they were.", "to the front"),
    Mistake("by-distance", by_distance, "The keys are turned by how far they move, not which way: new - old may be negative.", "to the front"),
    Mistake("backwards-only", backwards_only, "Keys that move on to a larger position stay where they were.", "any way"),
    Mistake("one-more", one_more, "Every key ends one position too far on.", "to the front"),
    Mistake("one-less", one_less, "Every key ends one position too early.", "to the front"),
    Mistake("new-counted-anew", counted_anew, "The new positions are taken for 0 to S - 1. Use those given.", "any way"),
    Mistake("old-counted-anew", old_counted_anew, "The old positions are taken for 0 to S - 1. Use those given: they have gaps.", "to the front"),
    Mistake("as-the-first", as_the_first, "All keys move as far as the first does. Each has its own way to go.", "to the front"),
    Mistake("as-the-last", as_the_last, "All keys move as far as the last does. Each has its own way to go.", "to the front"),
    Mistake("mean-shift", mean_shift, "All keys move by the mean of the ways. Each has its own.", "to the front"),
    Mistake("newest-stays", newest_stays, "The newest key is not moved. Then it is far away from all others.", "to the front", "StreamingLLM caches that re-rotate what they kept"),
    Mistake("first-stays", first_stays, "The first key is not moved. It may have somewhere to go, like all others.", "to the front"),
    Mistake("both-sorted", sorted_first, "The positions are sorted, the rows are not. Each row has its own old and new position.", "any way"),
    Mistake("new-sorted", new_sorted, "The new positions are sorted. Row i goes to new[i].", "any way"),
    Mistake("in-reverse", in_reverse, "The differences are used in reverse order.", "to the front"),
    Mistake("table-ends", small_table, "Ways longer than 63 positions are cut to 63. They have no end here.", "far along"),
    Mistake("table-wraps", table_wraps, "From 64 positions on the turns start again. Ways have no end here.", "to the front"),
    Mistake("rows-reordered", rows_reordered, "The rows come back in the order of their new positions. Row i stays row i.", "any way"),
    Mistake("rows-in-old-order", rows_by_old, "The rows come back in the order of their old positions. Row i stays row i.", "any way"),
    Mistake("interleaved", interleaved, "Neighbours are paired, (0, 1), (2, 3). Here i is turned together with i + D/2.", "to the front"),
    Mistake("always-ten-thousand", always_ten_thousand, "The base is 10000 whatever is given. Use `base`.", "to the front"),
    Mistake("one-angle", one_angle, "Every pair is turned by the same angle. Pair i turns by base ** (-2i/D) a position.", "to the front"),
    Mistake("half-the-exponent", half_the_exponent, "The exponent is -i/D. It is -2i/D.", "to the front"),
    Mistake("degrees", degrees, "The angle is taken for degrees. It is in radians.", "to the front"),
    Mistake("half-turned", half_turned, "Only the first half is turned. A turn changes both numbers of a pair.", "to the front"),
    Mistake("first-half-twice", first_half_twice, "The second half is worked out from a first half that is already turned. Keep both old halves first.", "to the front"),
    Mistake("difference-of-tables", difference_of_tables, "cos(new) - cos(old) is not cos(new - old). Take the difference of the positions, then its cos and sin.", "to the front"),
    Mistake("first-head-only", first_head_only, "Only the first head's keys are moved.", "to the front"),
    Mistake("along-the-heads", along_the_heads, "The differences go along the heads. k is (Hkv, S, D): they belong to the rows S.", "to the front"),
    Mistake("in-place", in_place, "The keys that were passed in are changed. Return new ones.", "left alone"),
    Mistake("new-in-place", positions_in_place, "`new` is changed: `-=` writes into the caller's tensor. Write `new - old`.", "left alone"),
    Mistake("rounded-positions", rounded, "Positions are rounded to eight bits before they are used. Far along, neighbours become one.", "far along"),
    Mistake("positions-in-float32", in_float32, "Positions are made float32 before the difference is taken. From 2**24 on it has no odd numbers: subtract whole numbers.", "far along"),
    Mistake("nearly-the-same", about_there, "Positions that are nearly the same are taken for the same. Far along, a key that moves by one still moves.", "far along"),
    Mistake("same-set", same_set, "Nothing moves where `old` and `new` hold the same numbers. In another order they are other positions.", "any way"),
)  # fmt: skip


# Right ones.


def back_and_forth(k, old, new, base):
    return _rope(_rope(k, -old, base), new, base)


def complex_numbers(k, old, new, base):
    half = k.shape[-1] // 2
    turns = torch.polar(torch.ones(len(old), half, dtype=torch.float64), _angles(new - old, base, half))
    turned = torch.complex(k[..., :half], k[..., half:]) * turns
    return torch.cat((turned.real, turned.imag), dim=-1)


def ratio_of_turns(k, old, new, base):
    half = k.shape[-1] // 2
    there, here = (torch.exp(1j * _angles(positions, base, half)) for positions in (new, old))
    turned = (k[..., :half] + 1j * k[..., half:]) * there / here
    return torch.cat((turned.real, turned.imag), dim=-1)


def rotate_half(k, old, new, base):
    half = k.shape[-1] // 2
    angles = _angles(new - old, base, half).repeat(1, 2)
    return k * angles.cos() + torch.cat((-k[..., half:], k[..., :half]), dim=-1) * angles.sin()


def loops(k, old, new, base):
    Hkv, S, D = k.shape
    out = k.tolist()
    for h in range(Hkv):
        for s in range(S):
            for i in range(D // 2):
                angle = (int(new[s]) - int(old[s])) * base ** (-2 * i / D)
                a, b = float(k[h, s, i]), float(k[h, s, i + D // 2])
                out[h][s][i] = a * math.cos(angle) - b * math.sin(angle)
                out[h][s][i + D // 2] = a * math.sin(angle) + b * math.cos(angle)
    return torch.tensor(out)


def in_numpy(k, old, new, base):
    half = k.shape[-1] // 2
    angles = (new.numpy() - old.numpy())[:, None] * float(base) ** (-np.arange(half) / half)
    a, b = k.numpy()[..., :half], k.numpy()[..., half:]
    return np.concatenate([a * np.cos(angles) - b * np.sin(angles), a * np.sin(angles) + b * np.cos(angles)], -1)


def with_the_lessons(k, old, new, base):
    from kvlib.rope import rope

    return rope(k.float(), new - old, base)


def sum_rule(k, old, new, base):
    """cos(new - old) from the tables of both."""
    half = k.shape[-1] // 2
    n, o = _angles(new, base, half), _angles(old, base, half)
    cos, sin = n.cos() * o.cos() + n.sin() * o.sin(), n.sin() * o.cos() - n.cos() * o.sin()
    a, b = k[..., :half], k[..., half:]
    return torch.cat((a * cos - b * sin, a * sin + b * cos), dim=-1)


VARIANTS = (
    Variant("one turn by the difference", move_keys),
    Variant("back, then forth", back_and_forth),
    Variant("complex numbers", complex_numbers),
    Variant("a quotient of turns", ratio_of_turns),
    Variant("rotate_half", rotate_half),
    Variant("loops", loops),
    Variant("NumPy", in_numpy),
    Variant("the rope of lesson 05, in float32", with_the_lessons),
    Variant("sums of angles by their tables", sum_rule),
)
