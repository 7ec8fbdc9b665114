"""What a block's key must tell apart: all tokens up to its end, and who they belong to."""

from __future__ import annotations

import string
from collections.abc import Iterable, Sequence

import numpy as np

from autograde.exercise import stage
from autograde.exercises.prefix_index.pool import ME, Pool
from autograde.finding import Finding
from autograde.subject import Subject

SEPARATORS = (*string.punctuation, *" \n\t\0\x1e\x1f", "::", "||", "--", "__", "->", ", ")
BASES = (2, 10, 31, 33, 37, 100, 131, 257, 1000, 1024, 10007, 32000, 50257, 65599, 1000003)  # of numbers made of tokens
MULTIPLE = 10**6 * 50257 * 2004  # of many sizes of vocabularies, and of the powers of 2 and 10 up to a million


def prompt(rng: np.random.Generator, num_tokens: int) -> list[int]:
    """Tokens of which no two are alike: three digits, none is 100 or 101."""
    return [int(token) for token in rng.choice(np.arange(102, 1000), size=num_tokens, replace=False)]


def _unlike(
    subject: Subject,
    known: Sequence[int],
    asked: Sequence[int],
    identities: tuple[tuple[str, ...], ...] = (ME, ME),  # a pair
) -> Iterable[Finding]:
    """One request is computed, then another asks; then the first one's twin, which must find all that is there."""
    pool = Pool(subject, 13, 4)
    yield from pool.run("a", known, identities[0])
    yield from pool.admit("b", asked, identities[1])
    yield from pool.admit("c", [*known, 7], identities[0])


@stage("the whole past", why="A block's rows depend on all tokens before it, not only on its own.")
def the_whole_past(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    t = prompt(rng, 24)
    a, b, c, d, e, rest = (t[i : i + 4] for i in range(0, 24, 4))
    start = a  # found each time
    yield from _unlike(subject, start + b, start + c)
    yield from _unlike(subject, start + b, start + b[:2] + c[:3])
    pool = Pool(subject, 47, 4)
    yield from pool.run("a", a + b + c + rest[:1])
    yield from pool.admit("b", b + rest)  # a block of a's at the start
    yield from pool.run("c", d + e + rest[:2])
    yield from pool.admit("d", d + b + rest)  # at its place, but after another beginning
    yield from pool.run("e", e + b + rest[:3])
    yield from pool.admit("f", e + b + c + rest)  # after the same block as in a, and another one before that
    yield from pool.run("i", a + d + rest[:1])
    yield from pool.admit("j", a + d + c + rest)  # as in a, but for a block in between
    yield from pool.run("g", a + a + a + rest[:1])  # a block that is there three times
    yield from pool.admit("h", a + a + a + rest)
    for known, asked in (
        ([1, 23, 5, 7], [12, 3, 5, 7]),
        ([5, 8, 9, 13], [6, 7, 9, 13]),
        ([5, 5, 6, 7], [5, 6, 6, 7]),
        ([5, 6, 7, 8], [5, 7, 6, 8]),
        ([50, 60, 70, 80], [50, 60, 70, 80 + 2**8]),
        ([50, 60, 70, 80], [50, 60 + 2**16, 70, 80]),
        ([50, 60, 70, 80], [50, 60, 70 + 2**32, 80]),
        ([50, 60, 70, 80], [50, -60, 70, 80]),
        ([50, 60, 2**24, 80], [50, 60, 2**24 + 1, 80]),
        ([50, 2**53, 70, 80], [50, 2**53 + 1, 70, 80]),
        ([3, 4, -1, 5], [3, 4, -2, 5]),
    ):
        yield from _unlike(subject, start + known + rest[:1], start + asked + rest[:1])
    yield from _numbers_of_tokens(subject, start, rest)


def _numbers_of_tokens(subject: Subject, start: list[int], rest: list[int]) -> Iterable[Finding]:
    """Tokens that are taken for one number, or cut to a few bits: other tokens give the same."""
    pairs = [([5, 1, base + 9, 7], [5, 2, 9, 7]) for base in BASES]
    pairs += [([5, 6, 7, 8 + more], [5, 6, 7, 8]) for more in (2**32, MULTIPLE)]
    pairs += [([5, 6, 7, 2**24 + 1], [5, 6, 7, 2**24]), ([5, 6, -7, 8], [5, 6, 7, 8])]
    for known, asked in pairs:
        yield from _unlike(subject, start + known + rest[:1], start + asked + rest[:1])
    pool, few = Pool(subject, 41, 2), (0, 1, 2, 3, -1, -2)
    for block in ([x, y] for x in few for y in few):  # no two of all these are alike
        yield from pool.run(f"{block}", [*block, 9])
        yield from pool.release(f"{block}")


@stage("identity", why="Another model, another adapter: other rows. Another tenant: rows that are not theirs to see.")
def identity(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    p = prompt(rng, 10)
    model, adapter, tenant = ME
    for other in (
        ("qwen", "legal", "zeta"),
        (model, "legal", "zeta"),
        ("qwen", adapter, "zeta"),
        ("qwen", "legal", tenant),
        (model, adapter, "zeta"),
        (model, "legal", tenant),
        ("qwen", adapter, tenant),
        (model, adapter, "ACME"),
    ):
        yield from _unlike(subject, p[:9], p[:10], (ME, other))
    pairs: list[tuple[tuple[str, ...], ...]] = [
        (("a", "b", "b"), ("a", "a", "b")),
        (("a", "b", "c"), ("b", "a", "c")),
        (("ab", "c", ""), ("a", "bc", "")),
        (("ab", "c", "d"), ("ab", "", "cd")),
        (("ab", "d", "c"), ("a", "d", "bc")),
        (("x", "", ""), ("", "x", "")),
        (("1", "2", "3"), ("1", "2", "3 ")),
        (ME, (model, "", tenant)),
        (("\u00e4", "\u00e4", "\u00e4"), ("\u00e4", "\u00e4", "a\u0308")),  # they look alike, and are not
        (("\u4e00", "\u4e00", "\u4e00"), ("\u4e00", "\u4e00", "\u4e8c")),
        *(tuple((*["m" * 99] * k, "m" * 99 + end, *["m" * 99] * (2 - k)) for end in "12") for k in range(3)),
    ]
    for pair in pairs:
        yield from _unlike(subject, p[:9], p[:10], pair)
    for mark in SEPARATORS:  # a text may hold any of them
        for k in (0, 1, 2) if mark in "/:|-" else (2,):
            first, second = [f"x{mark}y", "z"], ["x", f"y{mark}z"]
            for names in (first, second):
                names.insert(k, "w")  # at its place, so that it does not matter
            pool = Pool(subject, 7, 4)
            yield from pool.run("a", p[:5], tuple(first))
            yield from pool.admit("b", p[:5], tuple(second))
    pool, other = Pool(subject, 11, 4), ("qwen", adapter, tenant)
    yield from pool.run("a", p[:9])
    yield from pool.run("b", p[:5], other)  # the first block is there for both, the second only for one
    yield from pool.admit("c", p[:9], other)
