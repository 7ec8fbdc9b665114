"""Chunk sizes that do not show the bug, and others that do."""

from __future__ import annotations

import itertools

import numpy as np

from autograde.exercise import Mistake, Variant


def exactly_full(n):
    return [n]


def ones_exactly(n):
    return [1] * n


def one_too_large(n):
    return [n + 1]


def twice_as_large(n):
    return [2 * n]


def straddles(n):
    return [n - 1, 2]


def straddles_by_half(n):
    return [n // 2 + 1, n // 2 + 1]


def two_past_the_end(n):
    return [n, 2]


def full_twice(n):
    return [n, n]


def one_short(n):
    return [n - 1, 1]


def ones_one_short(n):
    return [1] * (n - 1)


def empty_chunk(n):
    return [n, 0]


def no_chunk(n):
    return []


def one_first(n):
    return [1, n]


def goes_on(n):
    return [n, 1, 2]


def goes_on_in_halves(n):
    """The loss is there, and then the next prompt comes."""
    return [n, 1, n]


def lengths(n):
    return [n, n + 1]


def positions(n):
    return list(range(n + 1))


def negative(n):
    return [n + 1, -1]


def taken_back(n):
    return [n, -1, 1]


def floats(n):
    return [float(n), 1.0]


def half_floats(n):
    return [n / 2, n / 2, 1]


def a_number(n):
    return n + 1


def text(n):
    return f"[{n}, 1]"


def texts(n):
    return [str(n), "1"]


def pairs(n):
    return [(0, n), (n, n + 1)]


def arrays(n):
    return [np.zeros((1, 2, n, 4)), np.zeros((1, 2, 1, 4))]


def bools(n):
    return [True] * (n + 1)


def a_dict(n):
    return {"full": n, "one more": 1}


def a_generator(n):
    return (1 for _ in range(n + 1))


def nested(n):
    return [[n, 1]]


def endless(n):
    """Far more than may cross; a list without end would only end with the memory."""
    return list(itertools.repeat(1, 200_000))


def for_eight(n):
    return [8, 1]


def for_eight_in_ones(n):
    return [1] * 9


def halves(n):
    return [n // 2, n // 2, 1]


def twos(n):
    return [2] * (n // 2) + [1]


def fours(n):
    return [4] * (n // 4) + [1]


def twos_rounded_up(n):
    return [2] * ((n + 1) // 2) + [1]


def five_and_the_rest(n):
    return [5, n - 5, 1]


def three_and_the_rest(n):
    return [3, n - 3, 1]


def at_most_a_hundred(n):
    return [min(n, 100), 1]


def at_least_six(n):
    return [max(n, 6), 1]


MISTAKES = (
    Mistake(
        "exactly-full",
        exactly_full,
        "This fills the cache to the last row, and nothing is lost yet. What happens to the next token?",
        "room for eight",
    ),
    Mistake(
        "exactly-full-in-ones",
        ones_exactly,
        "One token at a time fills the cache exactly, and nothing is lost yet. What happens to the next token?",
        "room for eight",
    ),
    Mistake(
        "one-chunk-too-large",
        one_too_large,
        "One chunk larger than the cache raises: torch cannot spread that many rows. The loss must come in silence.",
        "room for eight",
    ),
    Mistake(
        "twice-as-large",
        twice_as_large,
        "A chunk far too large raises at once: torch cannot spread that many rows. The loss must come in silence.",
        "room for eight",
    ),
    Mistake(
        "straddles-the-end",
        straddles,
        "The second chunk straddles the end: two rows do not go into a slice of one, and torch says so.",
        "room for eight",
    ),
    Mistake(
        "two-halves-too-large",
        straddles_by_half,
        "The second half straddles the end: its rows do not go into the rest of the buffer, and torch says so.",
        "room for eight",
    ),
    Mistake(
        "two-past-the-end",
        two_past_the_end,
        "Past the end you append two tokens at once. Two rows cannot be spread over none, and torch says so.",
        "room for eight",
    ),
    Mistake(
        "full-twice",
        full_twice,
        "The second prompt is as long as the first: its rows cannot be spread over none, and torch says so.",
        "room for eight",
    ),
    Mistake(
        "one-short",
        one_short,
        "Off by one: your last token goes into the last row, where there is still room. Nothing is lost.",
        "room for eight",
    ),
    Mistake(
        "ones-one-short",
        ones_one_short,
        "There is still a row free at the end. Nothing is lost before the cache is full.",
        "room for eight",
    ),
    Mistake(
        "an-empty-chunk",
        empty_chunk,
        "The chunk past the end is empty. It raises nothing, but it has no token that could be lost.",
        "room for eight",
    ),
    Mistake("no-chunk", no_chunk, "You append nothing at all, so nothing can be lost.", "room for eight"),
    Mistake(
        "the-single-token-first",
        one_first,
        "The single token comes first, so the long chunk straddles the end and torch says so. Turn the order round.",
        "room for eight",
    ),
    Mistake(
        "goes-on-until-it-raises",
        goes_on,
        "The token is lost in silence, but then you go on with two at once, and that raises. Stop before.",
        "room for eight",
    ),
    Mistake(
        "goes-on-with-a-prompt",
        goes_on_in_halves,
        "The token is lost in silence, but then you append another prompt, and that raises. Stop before.",
        "room for eight",
    ),
    Mistake(
        "lengths-not-chunks",
        lengths,
        "These look like the lengths after each call. Wanted are the sizes of the chunks.",
        "room for eight",
    ),
    Mistake(
        "positions-not-chunks",
        positions,
        "These look like the positions of the tokens. Wanted are the sizes of the chunks, as [3, 1] for 3 and then 1.",
        "room for eight",
    ),
    Mistake(
        "a-negative-chunk",
        negative,
        "The first chunk is too large and raises; a negative one cannot take it back.",
        "room for eight",
    ),
    Mistake(
        "taken-back", taken_back, "You go back by a chunk of -1: there is no tensor of -1 tokens.", "room for eight"
    ),
    Mistake("floats", floats, "Your sizes are floats. A chunk has a whole number of tokens: an int.", "room for eight"),
    Mistake(
        "halves-as-floats", half_floats, "n / 2 is a float, also where it is whole. Use // or ints.", "room for eight"
    ),
    Mistake(
        "the-sum",
        a_number,
        "You return how many tokens there are in all. Wanted is the list of chunks: how they are split matters.",
        "room for eight",
    ),
    Mistake("a-text", text, "You return a text that looks like a list. Return the list.", "room for eight"),
    Mistake("texts", texts, "The items of your list are texts. Return whole numbers.", "room for eight"),
    Mistake("pairs", pairs, "You return pairs of start and end. Wanted is the size of each chunk.", "room for eight"),
    Mistake(
        "tensors", arrays, "You return the chunks themselves. Wanted is how many tokens each has.", "room for eight"
    ),
    Mistake("bools", bools, "Your list holds True. A chunk has a number of tokens: 1.", "room for eight"),
    Mistake("a-dict", a_dict, "You return a dict. Return a list: the order of the chunks matters.", "room for eight"),
    Mistake("a-generator", a_generator, "You return a generator. Make a list of it: list(...).", "room for eight"),
    Mistake("a-list-in-a-list", nested, "Your list holds another list. Return the sizes themselves.", "room for eight"),
    Mistake(
        "far-too-many",
        endless,
        "Your list goes on and on, and is too long to be tried. Stop as soon as a token is lost.",
        "room for eight",
    ),
    Mistake("for-eight-only", for_eight, "Your chunks fit a cache of 8 only. Use max_len.", "other sizes"),
    Mistake(
        "nine-ones",
        for_eight_in_ones,
        "Nine single tokens are one too many for a cache of 8 only. Use max_len.",
        "other sizes",
    ),
    Mistake(
        "two-halves",
        halves,
        "Two halves of an odd max_len leave one row free, and the last token goes into it. Nothing is lost.",
        "other sizes",
    ),
    Mistake(
        "twos",
        twos,
        "Chunks of two do not fill an odd max_len: the last token goes into the row that is left. Nothing is lost.",
        "other sizes",
    ),
    Mistake(
        "twos-rounded-up",
        twos_rounded_up,
        "Chunks of two straddle the end of an odd max_len, and torch says so. Fill the cache exactly.",
        "other sizes",
    ),
    Mistake(
        "fours",
        fours,
        "Chunks of four fill the cache only where max_len is a multiple of 4. Fill it exactly, whatever its size.",
        "other sizes",
    ),
    Mistake(
        "five-and-the-rest",
        five_and_the_rest,
        "You begin with five tokens. In a cache of fewer that raises. Begin with something that always fits.",
        "small and large",
    ),
    Mistake(
        "three-and-the-rest",
        three_and_the_rest,
        "You begin with three tokens. In a cache of one or two that raises. Begin with something that always fits.",
        "small and large",
    ),
    Mistake(
        "at-most-a-hundred",
        at_most_a_hundred,
        "Your first chunk stops at 100 tokens. A larger cache is not full then, and nothing is lost.",
        "small and large",
    ),
    Mistake(
        "at-least-six",
        at_least_six,
        "Your first chunk has 6 tokens or more. In a smaller cache that raises. Use max_len as it is.",
        "small and large",
    ),
)


def ones(n):
    return [1] * (n + 1)


def several_lost(n):
    return (n, 1, 1, 1)


def halves_and_the_rest(n):
    return [n // 2, n - n // 2, 1]


def with_empty_chunks(n):
    return [0, n, 0, 1, 0]


def all_but_one(n):
    return [n - 1, 1, 1]


def as_an_array(n):
    return np.array([n, 1])


def of_numpy_numbers(n):
    return [*np.full(n, 1), np.int32(1)]


def in_sixes(n):
    return [6] * (n // 6) + [n % 6] + [1]


def by_trying(n):
    """Tries chunk lists on a buffer of its own until one loses a token."""
    for chunks in ([n + 1], [n, 2], [n - 1, 2], [n, 1]):
        buffer, used = np.zeros((n, 1)), 0
        try:
            for size in chunks:
                buffer[used : used + size] = np.ones((size, 1))
                used += size
        except ValueError:
            continue
        if used > n:
            return chunks
    raise AssertionError("not found")


VARIANTS = (
    Variant("one token at a time", ones),
    Variant("several lost, a tuple", several_lost),
    Variant("two parts, then one", halves_and_the_rest),
    Variant("empty chunks between", with_empty_chunks),
    Variant("all but one, then two single ones", all_but_one),
    Variant("an array", as_an_array),
    Variant("NumPy numbers", of_numpy_numbers),
    Variant("in sixes", in_sixes),
    Variant("found by trying", by_trying),
)
