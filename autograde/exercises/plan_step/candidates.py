"""Wrong and right ways to plan a step."""

from __future__ import annotations

from itertools import accumulate

import numpy as np

from autograde.exercise import Mistake, Variant

DECODES, ONE, SEVERAL, LEFT, NOTHING = (
    "who decodes",
    "one prompt",
    "several prompts",
    "nothing left",
    "nothing to do",
)


def plan(decoding, prefilling, max_tokens):
    """The right one, for others to change."""
    out = [[i, 1] for i in decoding[:max_tokens]]
    left = max_tokens - len(out)
    for i, remaining in prefilling:
        count = min(remaining, left)
        if count > 0:
            out.append([i, count])
            left -= count
    return out


def two_each(decoding, prefilling, max_tokens):
    return [[i, min(2, max_tokens - k)] for k, i in enumerate(decoding[:max_tokens])] + plan(
        [], prefilling, max_tokens - len(decoding)
    )


def only_prompts(decoding, prefilling, max_tokens):
    return plan([], prefilling, max_tokens - len(decoding))


def swapped(decoding, prefilling, max_tokens):
    return [[count, i] for i, count in plan(decoding, prefilling, max_tokens)]


def ids_only(decoding, prefilling, max_tokens):
    return [i for i, _ in plan(decoding, prefilling, max_tokens)]


def small_pieces(decoding, prefilling, max_tokens):
    return plan(decoding, [[i, min(remaining, 32)] for i, remaining in prefilling], max_tokens)


def few_prompts(decoding, prefilling, max_tokens):
    return plan(decoding, prefilling[:4], max_tokens)


def few_decode(decoding, prefilling, max_tokens):
    return plan(decoding[:8], prefilling, max_tokens)


def as_dict(decoding, prefilling, max_tokens):
    return dict(plan(decoding, prefilling, max_tokens))


def zero_is_none(decoding, prefilling, max_tokens):
    return [entry for entry in plan(decoding, prefilling, max_tokens) if entry[0]]


def backwards(decoding, prefilling, max_tokens):
    return plan(decoding[::-1], prefilling, max_tokens)


def sorted_ids(decoding, prefilling, max_tokens):
    return plan(sorted(decoding), prefilling, max_tokens)


def the_budget_shared(decoding, prefilling, max_tokens):
    """Those who decode get all of the budget between them."""
    if decoding:
        return [[i, max_tokens // len(decoding)] for i in decoding]
    return plan(decoding, prefilling, max_tokens)


def decodes_are_free(decoding, prefilling, max_tokens):
    return [[i, 1] for i in decoding[:max_tokens]] + plan([], prefilling, max_tokens)


def whole_prompts(decoding, prefilling, max_tokens):
    return plan(decoding, [], max_tokens) + [list(entry) for entry in prefilling if entry[1]]


def all_or_nothing(decoding, prefilling, max_tokens):
    """A prompt that does not fit as a whole waits."""
    out = plan(decoding, [], max_tokens)
    left = max_tokens - len(out)
    for i, remaining in prefilling:
        if 0 < remaining <= left:
            out.append([i, remaining])
            left -= remaining
    return out


def all_that_is_left(decoding, prefilling, max_tokens):
    """A prompt gets what is left, also where less remains of it."""
    out = plan(decoding, [], max_tokens)
    if prefilling and max_tokens > len(out):
        out.append([prefilling[0][0], max_tokens - len(out)])
    return out


def prompts_first(decoding, prefilling, max_tokens):
    out = plan([], prefilling, max_tokens)
    return out + plan(decoding, [], max_tokens - sum(count for _, count in out))


def prompts_stand_first(decoding, prefilling, max_tokens):
    out = plan(decoding, prefilling, max_tokens)
    return out[len(decoding) :] + out[: len(decoding)]


def either_or(decoding, prefilling, max_tokens):
    return plan(decoding, [] if decoding else prefilling, max_tokens)


def one_kept_free(decoding, prefilling, max_tokens):
    return plan(decoding, prefilling, max(max_tokens - 1, len(decoding)))


def first_prompt_only(decoding, prefilling, max_tokens):
    return plan(decoding, prefilling[:1], max_tokens)


def left_for_each(decoding, prefilling, max_tokens):
    """What one prompt takes is not taken off for the next."""
    left = max_tokens - len(decoding)
    return plan(decoding, [], max_tokens) + [[i, min(n, left)] for i, n in prefilling if min(n, left) > 0]


def one_after_the_other(decoding, prefilling, max_tokens):
    """After a prompt that does not fit as a whole nobody comes, and it gets nothing."""
    out = plan(decoding, [], max_tokens)
    left = max_tokens - len(out)
    for k, (i, remaining) in enumerate(prefilling):
        if k and remaining > left:
            break
        if min(remaining, left) > 0:
            out.append([i, min(remaining, left)])
            left -= remaining
    return out


def shares_alike(decoding, prefilling, max_tokens):
    left = max_tokens - len(decoding)
    out = plan(decoding, [], max_tokens)
    for k, (i, remaining) in enumerate(prefilling):
        count = min(remaining, max(0, left) // (len(prefilling) - k))
        if count > 0:
            out.append([i, count])
            left -= count
    return out


def shortest_first(decoding, prefilling, max_tokens):
    return plan(decoding, sorted(prefilling, key=lambda entry: entry[1]), max_tokens)


def longest_first(decoding, prefilling, max_tokens):
    return plan(decoding, sorted(prefilling, key=lambda entry: -entry[1]), max_tokens)


def last_first(decoding, prefilling, max_tokens):
    return plan(decoding, prefilling[::-1], max_tokens)


def turns(decoding, prefilling, max_tokens):
    """Prompts get their tokens one by one, in turns."""
    out, left = plan(decoding, [], max_tokens), max_tokens - len(decoding)
    counts = [0] * len(prefilling)
    while left > 0 and any(n > c for (_, n), c in zip(prefilling, counts)):
        for k, (_, n) in enumerate(prefilling):
            if counts[k] < n and left > 0:
                counts[k] += 1
                left -= 1
    return out + [[i, c] for (i, _), c in zip(prefilling, counts) if c]


def last_piece_left_out(decoding, prefilling, max_tokens):
    """Only prompts that fit as a whole, and the first in a chunk when none does."""
    out = all_or_nothing(decoding, prefilling, max_tokens)
    return out if len(out) > min(len(decoding), max_tokens) else plan(decoding, prefilling, max_tokens)


def all_decode(decoding, prefilling, max_tokens):
    """However small the budget is."""
    return [[i, 1] for i in decoding] + plan([], prefilling, max(0, max_tokens - len(decoding)))


def all_or_none_decode(decoding, prefilling, max_tokens):
    return plan(decoding if len(decoding) <= max_tokens else [], prefilling, max_tokens)


def newest_decode(decoding, prefilling, max_tokens):
    return plan(decoding[-max_tokens:], prefilling, max_tokens)


def zeros_stay(decoding, prefilling, max_tokens):
    out = plan(decoding, [], max_tokens)
    left = max_tokens - len(out)
    for i, remaining in prefilling:
        count = min(remaining, left)
        out.append([i, count])
        left -= count
    return out


def zeros_for_the_full(decoding, prefilling, max_tokens):
    """An entry for a prompt of which nothing remains, as long as there is budget."""
    out = plan(decoding, [], max_tokens)
    left = max_tokens - len(out)
    for i, remaining in prefilling:
        if left > 0:
            out.append([i, min(remaining, left)])
            left -= min(remaining, left)
    return out


def at_least_one(decoding, prefilling, max_tokens):
    """Of a prompt of which nothing remains its last token is computed again."""
    return plan(decoding, [[i, max(n, 1)] for i, n in prefilling], max_tokens)


def stops_at_zero(decoding, prefilling, max_tokens):
    """Nobody is looked at behind a prompt of which nothing remains."""
    ends = [k for k, (_, n) in enumerate(prefilling) if n == 0]
    return plan(decoding, prefilling[: ends[0]] if ends else prefilling, max_tokens)


def none_for_nothing(decoding, prefilling, max_tokens):
    return plan(decoding, prefilling, max_tokens) or None


def a_mistake(name, candidate, killed_by, tells):
    return Mistake(name, candidate, tells, killed_by=killed_by)


MISTAKES = (
    a_mistake("two-tokens-each", two_each, DECODES, "You give those who decode two tokens each. One is all they have."),
    a_mistake("decoding-left-out", only_prompts, DECODES, "You leave out those who decode. They get one token each."),
    a_mistake("swapped", swapped, DECODES, "Your entries are [num_tokens, id]. Wanted is [id, num_tokens]."),
    a_mistake("ids-only", ids_only, DECODES, "You return ids only. Each entry is [id, num_tokens]."),
    a_mistake("a-dict", as_dict, DECODES, "You return a dict. Wanted is a list of [id, num_tokens], in order."),
    a_mistake("zero-is-none", zero_is_none, DECODES, "You leave out the request with id 0, as `if i:` does."),
    a_mistake("decoding-backwards", backwards, DECODES, "You turn the order of those who decode round. It stays."),
    a_mistake("decoding-sorted", sorted_ids, DECODES, "You sort those who decode by id. They stay in their order."),
    a_mistake(
        "budget-to-decoding",
        the_budget_shared,
        DECODES,
        "You share the whole budget out between those who decode. Each of them has one token to compute.",
    ),
    a_mistake(
        "decodes-are-free",
        decodes_are_free,
        ONE,
        "You give prompts the whole budget. Take off the tokens of those who decode first.",
    ),
    a_mistake(
        "whole-prompts",
        whole_prompts,
        ONE,
        "You plan whole prompts, whatever the budget is. A prompt gets a chunk: what is left, if more remains of it.",
    ),
    a_mistake(
        "all-or-nothing",
        all_or_nothing,
        ONE,
        "A prompt that does not fit as a whole gets nothing from you. Give it what is left of the budget.",
    ),
    a_mistake(
        "more-than-remains",
        all_that_is_left,
        ONE,
        "You give a prompt all that is left, also where less remains of it: min(remaining, left).",
    ),
    a_mistake("prompts-first", prompts_first, ONE, "You serve prompts first. Who decodes comes first, and always."),
    a_mistake(
        "prompts-stand-first",
        prompts_stand_first,
        ONE,
        "Your numbers are right, but prompts stand in front. Those who decode come first in the list.",
    ),
    a_mistake(
        "either-or",
        either_or,
        ONE,
        "You plan no prompt while somebody decodes. What is left of the budget is for prompts.",
    ),
    a_mistake("one-kept-free", one_kept_free, ONE, "You leave a token of the budget unused."),
    a_mistake(
        "first-prompt-only", first_prompt_only, SEVERAL, "You look at the first prompt only. The next ones follow."
    ),
    a_mistake(
        "left-for-each",
        left_for_each,
        SEVERAL,
        "You do not take off what a prompt gets: the next one is given the same tokens of the budget again.",
    ),
    a_mistake(
        "stops-before-a-chunk",
        one_after_the_other,
        SEVERAL,
        "You stop in front of the first prompt that does not fit as a whole. It gets what is left.",
    ),
    a_mistake(
        "shares-alike",
        shares_alike,
        SEVERAL,
        "You share what is left out evenly. The first prompt gets all it can use.",
    ),
    a_mistake(
        "shortest-first", shortest_first, SEVERAL, "You serve the shortest prompt first. They stay in their order."
    ),
    a_mistake(
        "small-pieces", small_pieces, SEVERAL, "You cut prompts at a size of your own. Only the budget cuts them."
    ),
    a_mistake(
        "few-prompts",
        few_prompts,
        SEVERAL,
        "You plan for the first few prompts. All that the budget has room for get tokens.",
    ),
    a_mistake(
        "few-decode",
        few_decode,
        SEVERAL,
        "You plan for the first few who decode. All that the budget has room for get one.",
    ),
    a_mistake("longest-first", longest_first, SEVERAL, "You serve the longest prompt first. They stay in their order."),
    a_mistake("last-first", last_first, SEVERAL, "You serve the last prompt first. They stay in their order."),
    a_mistake("in-turns", turns, SEVERAL, "You give prompts their tokens in turns. The first one gets all it can use."),
    a_mistake(
        "chunk-only-alone",
        last_piece_left_out,
        SEVERAL,
        "You cut a prompt only where no other fits as a whole. What is left goes to the next in order, whole or not.",
    ),
    a_mistake(
        "all-decode",
        all_decode,
        LEFT,
        "You plan a token for all who decode, also where the budget has fewer. The first max_tokens of them get one.",
    ),
    a_mistake(
        "all-or-none-decode",
        all_or_none_decode,
        LEFT,
        "Where the budget is too small for all who decode you serve none. Serve as many as it has tokens.",
    ),
    a_mistake(
        "newest-decode",
        newest_decode,
        LEFT,
        "Where the budget is too small you serve the last ones. The first go first.",
    ),
    a_mistake(
        "zeros-stay", zeros_stay, SEVERAL, "You leave entries of 0 tokens in the plan. Who gets nothing has no entry."
    ),
    a_mistake(
        "zeros-for-the-full",
        zeros_for_the_full,
        NOTHING,
        "A prompt of which nothing remains has an entry of 0 tokens in your plan. It has none.",
    ),
    a_mistake("one-at-least", at_least_one, NOTHING, "You give a token to a prompt of which none remains."),
    a_mistake(
        "stops-at-zero", stops_at_zero, NOTHING, "You stop at a prompt of which nothing remains. Go on to the next one."
    ),
    a_mistake(
        "none-for-nothing", none_for_nothing, NOTHING, "With nothing to do you return None. An empty list is wanted."
    ),
)


def token_by_token(decoding, prefilling, max_tokens):
    counts, needs = {}, {**dict.fromkeys(decoding, 1), **{i: n for i, n in prefilling}}
    for i, need in needs.items():
        while need and max_tokens:
            counts[i] = counts.get(i, 0) + 1
            need, max_tokens = need - 1, max_tokens - 1
    return list(counts.items())


def one_list(decoding, prefilling, max_tokens):
    """Who decodes is a prompt of one token."""
    out = []
    for i, need in [(i, 1) for i in decoding] + [tuple(entry) for entry in prefilling]:
        out.append([i, min(need, max_tokens)])
        max_tokens -= out[-1][1]
    return [entry for entry in out if entry[1]]


def running_sums(decoding, prefilling, max_tokens):
    needs = [[i, 1] for i in decoding] + prefilling
    ends = [min(end, max_tokens) for end in accumulate((need for _, need in needs), initial=0)]
    return [[i, b - a] for (i, _), a, b in zip(needs, ends, ends[1:]) if b > a]


def with_numpy(decoding, prefilling, max_tokens):
    ids = np.array([*decoding, *(i for i, _ in prefilling)], dtype=int)
    needs = np.array([*(1 for _ in decoding), *(n for _, n in prefilling)], dtype=int)
    ends = np.minimum(np.cumsum(needs), max_tokens)
    counts = np.diff(ends, prepend=0)
    return np.stack([ids, counts], axis=1)[counts > 0].tolist()


def recursive(decoding, prefilling, max_tokens):
    if not max_tokens or not (decoding or prefilling):
        return []
    if decoding:
        return [[decoding[0], 1], *recursive(decoding[1:], prefilling, max_tokens - 1)]
    (i, remaining), *rest = prefilling
    count = min(remaining, max_tokens)
    return ([(i, count)] if count else []) + recursive([], rest, max_tokens - count)


VARIANTS = (
    Variant("token by token", token_by_token),
    Variant("one list of needs", one_list),
    Variant("running sums", running_sums),
    Variant("with NumPy", with_numpy),
    Variant("recursive", recursive),
)
