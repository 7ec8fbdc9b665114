"""Wrong and right ways to find the KV head of a query head."""

from __future__ import annotations

import numpy as np

from autograde.exercise import Mistake, Variant


def _refuse(h, H, Hkv):
    if H % Hkv:
        raise ValueError(f"{Hkv} KV heads do not divide {H} query heads")
    if not 0 <= h < H:
        raise ValueError(f"head {h} asked of {H}")


def right(h, H, Hkv):
    _refuse(h, H, Hkv)
    return h // (H // Hkv)


def modulo(h, H, Hkv):
    _refuse(h, H, Hkv)
    return h % Hkv


def divided_by_kv_heads(h, H, Hkv):
    _refuse(h, H, Hkv)
    return h // Hkv


def divided_by_kv_heads_clamped(h, H, Hkv):
    _refuse(h, H, Hkv)
    return min(h // Hkv, Hkv - 1)


def place_in_group(h, H, Hkv):
    _refuse(h, H, Hkv)
    return h % (H // Hkv)


def own_head(h, H, Hkv):
    _refuse(h, H, Hkv)
    return h


def last_ones_share(h, H, Hkv):
    _refuse(h, H, Hkv)
    return min(h, Hkv - 1)


def always_zero(h, H, Hkv):
    _refuse(h, H, Hkv)
    return 0


def counted_from_one(h, H, Hkv):
    _refuse(h, H, Hkv)
    return h // (H // Hkv) + 1


def groups_begin_late(h, H, Hkv):
    _refuse(h, H, Hkv)
    return max(h - 1, 0) // (H // Hkv)


def groups_begin_early(h, H, Hkv):
    _refuse(h, H, Hkv)
    return min((h + 1) // (H // Hkv), Hkv - 1)


def backwards(h, H, Hkv):
    _refuse(h, H, Hkv)
    return Hkv - 1 - h // (H // Hkv)


def rounded(h, H, Hkv):
    _refuse(h, H, Hkv)
    return min(round(h * Hkv / H), Hkv - 1)


def rounded_up(h, H, Hkv):
    _refuse(h, H, Hkv)
    return -(-h * Hkv // H)


def fraction(h, H, Hkv):
    _refuse(h, H, Hkv)
    return h / (H // Hkv)


def float_division(h, H, Hkv):
    _refuse(h, H, Hkv)
    return h // (H / Hkv)


def product(h, H, Hkv):
    _refuse(h, H, Hkv)
    return h * (H // Hkv)


def group_size(h, H, Hkv):
    _refuse(h, H, Hkv)
    return H // Hkv


def whole_group(h, H, Hkv):
    _refuse(h, H, Hkv)
    G = H // Hkv
    return list(range(h // G * G, h // G * G + G))


def groups_of_three(h, H, Hkv):
    _refuse(h, H, Hkv)
    return h // 3


def shifted(h, H, Hkv):
    """Right for groups of 1, 2, 4, ...: a shift by the bits of G."""
    _refuse(h, H, Hkv)
    return h >> ((H // Hkv).bit_length() - 1)


def division_the_other_way(h, H, Hkv):
    if Hkv % H:
        raise ValueError("heads")
    _refuse(h, H, Hkv)
    return h // (H // Hkv)


def no_multi_head(h, H, Hkv):
    if Hkv >= H:
        raise ValueError("there must be fewer KV heads than query heads")
    return right(h, H, Hkv)


def no_multi_query(h, H, Hkv):
    if Hkv < 2:
        raise ValueError("needs at least 2 KV heads")
    return right(h, H, Hkv)


def multi_head_reads_zero(h, H, Hkv):
    return 0 if right(h, H, Hkv) is not None and Hkv == H else right(h, H, Hkv)


def multi_query_reads_own(h, H, Hkv):
    return h if right(h, H, Hkv) is not None and Hkv == 1 else right(h, H, Hkv)


def never_above_six(h, H, Hkv):
    return min(right(h, H, Hkv), 6)


def any_head(h, H, Hkv):
    _refuse(0, H, Hkv)
    return h // (H // Hkv)


def one_too_many(h, H, Hkv):
    _refuse(0, H, Hkv)
    if not 0 <= h <= H:
        raise ValueError("head")
    return h // (H // Hkv)


def negative_from_the_end(h, H, Hkv):
    _refuse(0, H, Hkv)
    if not -H <= h < H:
        raise ValueError("head")
    return h % H // (H // Hkv)


def negative(h, H, Hkv):
    _refuse(0, H, Hkv)
    if h >= H:
        raise ValueError("head")
    return h // (H // Hkv)


def clamped(h, H, Hkv):
    _refuse(0, H, Hkv)
    return min(max(h, 0), H - 1) // (H // Hkv)


def wrapped(h, H, Hkv):
    _refuse(0, H, Hkv)
    return h % H // (H // Hkv)


def index_error(h, H, Hkv):
    _refuse(0, H, Hkv)
    if not 0 <= h < H:
        raise IndexError(f"head {h}")
    return h // (H // Hkv)


def none_for_no_head(h, H, Hkv):
    _refuse(0, H, Hkv)
    return h // (H // Hkv) if 0 <= h < H else None


def kv_heads_for_heads(h, H, Hkv):
    """The range check looks at the KV heads that come out, one too late."""
    _refuse(0, H, Hkv)
    kv = h // (H // Hkv)
    if kv not in range(Hkv + 1):
        raise ValueError("head")
    return kv


def rounds_the_group(h, H, Hkv):
    if not 0 <= h < H:
        raise ValueError("head")
    return h // max(H // Hkv, 1)


def rounds_the_group_up(h, H, Hkv):
    if not 0 <= h < H:
        raise ValueError("head")
    return h // -(-H // Hkv)


def proportional(h, H, Hkv):
    if not 0 <= h < H:
        raise ValueError("head")
    return h * Hkv // H


def only_fewer(h, H, Hkv):
    if not 0 <= h < H or Hkv > H:
        raise ValueError("head")
    return h // (H // Hkv)


def more_kv_heads(h, H, Hkv):
    """A remainder is refused only where the query heads are the more numerous."""
    if not 0 <= h < H or (Hkv < H and H % Hkv):
        raise ValueError("head")
    return h // max(H // Hkv, 1)


def asserts(h, H, Hkv):
    assert H % Hkv == 0, "heads"
    return right(h, H, Hkv)


def division_by_zero(h, H, Hkv):
    """H // Hkv is 0 for more KV heads than query heads."""
    if not 0 <= h < H or (Hkv < H and H % Hkv):
        raise ValueError("head")
    return h // (H // Hkv)


MISTAKES = (
    Mistake(
        "modulo",
        modulo,
        "You deal the KV heads out in turn: h % Hkv. Neighbours share one: the first G query heads read KV head 0.",
        "the map",
        seen_in="code that tiles K with repeat() where repeat_interleave() is meant",
    ),
    Mistake(
        "divided-by-the-kv-heads",
        divided_by_kv_heads,
        "You divide by the number of KV heads. Divide by the size of a group, num_heads // num_kv_heads.",
        "the map",
    ),
    Mistake(
        "divided-by-the-kv-heads-clamped",
        divided_by_kv_heads_clamped,
        "You divide by the number of KV heads and cut off what is too large. Divide by the size of a group instead.",
        "the map",
    ),
    Mistake(
        "place-in-the-group",
        place_in_group,
        "h % G is the place of the head within its group. The group itself is h // G.",
        "the map",
    ),
    Mistake("own-head", own_head, "Every query head reads a KV head of its own. There are only Hkv.", "the map"),
    Mistake(
        "the-last-ones-share",
        last_ones_share,
        "The first heads have a KV head each, and all others share the last. Every KV head serves equally many.",
        "the map",
    ),
    Mistake("always-zero", always_zero, "Every query head reads KV head 0: that is multi-query attention.", "the map"),
    Mistake("counted-from-one", counted_from_one, "Your KV heads begin at 1. They are numbered from 0.", "the map"),
    Mistake(
        "groups-begin-late",
        groups_begin_late,
        "Each group begins one head late: you divide h - 1. Query heads are numbered from 0, so divide h.",
        "the map",
    ),
    Mistake(
        "groups-begin-early",
        groups_begin_early,
        "Each group begins one head early: you divide h + 1. Query heads are numbered from 0, so divide h.",
        "the map",
    ),
    Mistake("backwards", backwards, "The KV heads are given out from the last to the first.", "the map"),
    Mistake("rounded", rounded, "You round h * Hkv / H to the nearest. Round down: h // G.", "the map"),
    Mistake("rounded-up", rounded_up, "You round h * Hkv / H up. Round down: h // G.", "the map"),
    Mistake(
        "a-fraction",
        fraction,
        "You divide with /, so a fraction comes back. Whole groups are counted with //.",
        "the map",
    ),
    Mistake(
        "a-float",
        float_division,
        "The number is right, but it is a float, and a float is no index. Write // in both places.",
        "the map",
    ),
    Mistake("product", product, "You multiply by the size of a group. Divide by it.", "the map"),
    Mistake("the-group-size", group_size, "You return G, how many heads share one. Wanted is which one.", "the map"),
    Mistake(
        "the-whole-group",
        whole_group,
        "You return the query heads of the group. Wanted is the one KV head that they read.",
        "the map",
    ),
    Mistake(
        "groups-of-three",
        groups_of_three,
        "Your groups always have 3 heads, as in the example. Work out G = num_heads // num_kv_heads.",
        "the map",
    ),
    Mistake(
        "shifted-bits",
        shifted,
        "You shift by whole bits, which divides by 2, 4 or 8 only. A group may have 3, 5 or 7 heads.",
        "the map",
    ),
    Mistake(
        "division-checked-the-other-way",
        division_the_other_way,
        "You refuse when H does not divide Hkv. It is the other way: the KV heads must divide the query heads.",
        "the map",
    ),
    Mistake(
        "no-multi-head",
        no_multi_head,
        "You refuse as many KV heads as query heads. That is multi-head attention, with G = 1, and right.",
        "both ends",
    ),
    Mistake(
        "no-multi-query",
        no_multi_query,
        "You refuse a single KV head. That is multi-query attention: all query heads read head 0.",
        "both ends",
    ),
    Mistake(
        "multi-head-reads-zero",
        multi_head_reads_zero,
        "With as many KV heads as query heads, each reads its own. Yours all read head 0.",
        "both ends",
    ),
    Mistake(
        "multi-query-reads-its-own",
        multi_query_reads_own,
        "With one KV head, every query head reads head 0. Yours read heads that are not there.",
        "both ends",
    ),
    Mistake(
        "no-head-above-six",
        never_above_six,
        "KV heads above 6 are never read. Real models have 8 and more: do not write a table out.",
        "real sizes",
    ),
    Mistake(
        "any-head", any_head, "A query head that is not there gets an answer. Refuse h < 0 and h >= H.", "no such head"
    ),
    Mistake(
        "one-head-too-many",
        one_too_many,
        "Head num_heads gets an answer. Heads are numbered from 0, so the last one is num_heads - 1.",
        "no such head",
    ),
    Mistake(
        "counts-from-the-end", negative_from_the_end, "Head -1 is taken for the last one. Refuse it.", "no such head"
    ),
    Mistake("negative-heads", negative, "Negative heads get an answer. Refuse h < 0.", "no such head"),
    Mistake(
        "clamped",
        clamped,
        "A head that is not there is moved to the nearest one that is. Raise ValueError: the caller has a bug.",
        "no such head",
    ),
    Mistake(
        "wrapped",
        wrapped,
        "A head past the end begins again at 0. Raise ValueError: the caller has a bug.",
        "no such head",
    ),
    Mistake(
        "index-error", index_error, "You raise IndexError for a head that is not there: ValueError.", "no such head"
    ),
    Mistake(
        "none-for-no-head",
        none_for_no_head,
        "You return None for a head that is not there. Raise ValueError.",
        "no such head",
    ),
    Mistake(
        "looks-at-the-kv-head",
        kv_heads_for_heads,
        "You check the KV head that comes out, and one too many passes. Check h itself: 0 <= h < num_heads.",
        "no such head",
    ),
    Mistake(
        "rounds-the-group-down",
        rounds_the_group,
        "Heads that do not share out evenly get an answer: // rounds the group down. Refuse a remainder.",
        "no such groups",
    ),
    Mistake(
        "rounds-the-group-up",
        rounds_the_group_up,
        "Heads that do not share out evenly get an answer: the group is rounded up. Refuse a remainder.",
        "no such groups",
    ),
    Mistake(
        "in-proportion",
        proportional,
        "h * Hkv // H is right where the groups are equal, and unequal groups get an answer too. Refuse a remainder.",
        "no such groups",
    ),
    Mistake(
        "only-more-is-refused",
        only_fewer,
        "You refuse more KV heads than query heads, but not a remainder such as 6 on 4.",
        "no such groups",
    ),
    Mistake(
        "more-kv-heads",
        more_kv_heads,
        "More KV heads than query heads get an answer. Each KV head must have at least one query head: refuse it.",
        "no such groups",
        seen_in="configs with the two numbers swapped",
    ),
    Mistake(
        "assertion",
        asserts,
        "You assert. An assertion is not a ValueError, and python -O leaves it out. Raise ValueError.",
        "no such groups",
    ),
    Mistake(
        "division-by-zero",
        division_by_zero,
        "With more KV heads than query heads, H // Hkv is 0 and Python divides by it. Refuse that first: ValueError.",
        "no such groups",
    ),
)


def looked_up(h, H, Hkv):
    table = [kv for kv in range(Hkv) for _ in range(H // Hkv)]
    if len(table) != H or h not in range(H):
        raise ValueError("no")
    return table[h]


class _NoGroup(ValueError):
    pass


def divmod_twice(h, H, Hkv):
    G, rest = divmod(H, Hkv)
    if rest or h < 0 or h > H - 1:
        raise _NoGroup("no")
    return divmod(h, G)[0]


def counted_up(h, H, Hkv):
    if Hkv > H or H / Hkv != int(H / Hkv) or h < 0 or h >= H:
        raise ValueError("no")
    kv, first = 0, 0
    while h >= first + H // Hkv:
        kv, first = kv + 1, first + H // Hkv
    return kv


def from_an_array(h, H, Hkv):
    try:
        owners = np.arange(H).reshape(Hkv, -1)
        kv, _ = np.argwhere(owners == h)[0]
    except IndexError:
        raise ValueError("no such head") from None
    return kv


def scaled_first(h, H, Hkv):
    _refuse(h, H, Hkv)
    return h * Hkv // H


def truncated(h, H, Hkv):
    _refuse(h, H, Hkv)
    return int(h / (H / Hkv) + 1e-9)


VARIANTS = (
    Variant("a table", looked_up),
    Variant("divmod, an exception of its own", divmod_twice),
    Variant("counted up", counted_up),
    Variant("found in an array; reshape refuses", from_an_array),
    Variant("multiplied first", scaled_first),
    Variant("floats, cut off", truncated),
)
