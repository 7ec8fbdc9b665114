"""Wrong and right ways to count positions."""

from __future__ import annotations

from autograde.exercise import Mistake, Variant


def _right(p, n):
    return n * p + n * (n - 1) // 2, p + n - 1


def last_token_pushed(p, n):
    return n * p + n * (n + 1) // 2, p + n


def last_token_pushed_uncached(p, n):
    return n * p + n * (n + 1) // 2, p + n - 1


def last_token_pushed_cached(p, n):
    return n * p + n * (n - 1) // 2, p + n


def no_prompt(p, n):
    return n * (n + 1) // 2, n


def prompt_free_with_cache(p, n):
    return n * p + n * (n - 1) // 2, n


def prompt_only_once(p, n):
    return p + n * (n - 1) // 2, p + n - 1


def prompt_never_grows(p, n):
    return n * p, p + n - 1


def prompt_one_by_one(p, n):
    return (p + n) * (p + n - 1) // 2, p + n - 1


def swapped(p, n):
    return _right(p, n)[::-1]


def arguments_swapped(p, n):
    return _right(n, p)


def keys_and_values_apart(p, n):
    return tuple(2 * count for count in _right(p, n))


def square(p, n):
    return (p + n) ** 2, p + n - 1


def squares_of_steps(p, n):
    return sum((p + i) ** 2 for i in range(n)), p + n - 1


def cache_still_reads_all(p, n):
    return _right(p, n)[0], _right(p, n)[0]


MISTAKES = (
    Mistake(
        "last-token-pushed",
        last_token_pushed,
        "Both counts push the last new token through the model as well. Nothing is made from it, so it need not go in.",
        killed_by="a prompt of one",
    ),
    Mistake(
        "last-token-pushed-without-cache",
        last_token_pushed_uncached,
        "Without a cache you add p+1 to p+n. The first step sees the p tokens of the prompt, the last one p+n-1.",
        killed_by="a prompt of one",
    ),
    Mistake(
        "last-token-pushed-with-cache",
        last_token_pushed_cached,
        "With a cache you count p+n. The last new token is never pushed through: nothing is made from it.",
        killed_by="a prompt of one",
    ),
    Mistake(
        "prompt-forgotten",
        no_prompt,
        "The prompt does not enter. These are the counts for a prompt of one token.",
        killed_by="a longer prompt",
    ),
    Mistake(
        "prompt-free-with-cache",
        prompt_free_with_cache,
        "With a cache the prompt still goes through once, to fill it: that is the prefill.",
        killed_by="a longer prompt",
    ),
    Mistake(
        "prompt-only-once",
        prompt_only_once,
        "Without a cache the prompt goes through again at every step, not once.",
        killed_by="a prompt of one",
    ),
    Mistake(
        "prompt-never-grows",
        prompt_never_grows,
        "Without a cache every step also sees the tokens made so far; you count only the prompt each time.",
        killed_by="a prompt of one",
    ),
    Mistake(
        "prompt-token-by-token",
        prompt_one_by_one,
        "Without a cache you add 1 + 2 + ... from the prompt's first token on. The prompt goes in at once: begin with p.",
        killed_by="a longer prompt",
    ),
    Mistake("results-swapped", swapped, "The two counts have changed places: (uncached, cached).", "a prompt of one"),
    Mistake(
        "arguments-swapped", arguments_swapped, "The prompt and the new tokens have changed places.", "a prompt of one"
    ),
    Mistake(
        "keys-and-values-counted-apart",
        keys_and_values_apart,
        "Both counts are twice what they should be: a position is counted once, not once for K and once for V.",
        killed_by="a prompt of one",
    ),
    Mistake(
        "square-of-the-total",
        square,
        "You square the final length. Steps grow one by one: add up p, p+1, ..., p+n-1.",
        killed_by="a prompt of one",
    ),
    Mistake(
        "scores-not-positions",
        squares_of_steps,
        "You add up squares: those are attention scores. A position is one token going through the model.",
        killed_by="a prompt of one",
    ),
    Mistake(
        "cache-saves-nothing",
        cache_still_reads_all,
        "Both counts are equal. With a cache, a step after the first pushes one new token only.",
        killed_by="a prompt of one",
    ),
)


def by_loop(prompt, new):
    uncached = cached = 0
    for i in range(new):
        uncached += prompt + i
        cached += prompt if i == 0 else 1
    return [uncached, cached]


def as_floats(prompt, new):
    return new * prompt + new * (new - 1) / 2, float(prompt + new - 1)


def by_range(prompt, new):
    return sum(range(prompt, prompt + new)), len(range(prompt + new - 1))


VARIANTS = (
    Variant("a loop, returned as a list", by_loop),
    Variant("floats", as_floats),
    Variant("sums of ranges", by_range),
)
