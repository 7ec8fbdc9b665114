"""How to make `MinimalCache` lose a token without a word."""

from __future__ import annotations


def breaking_chunks(max_len: int) -> list[int]:
    """Chunk sizes which, appended in this order to a `MinimalCache` of max_len, lose a token and raise nothing.

    First the cache is filled exactly. Then the slice for the next token, max_len to max_len + 1, holds no row at all,
    and a single row is spread over no rows as willingly as over ten: nothing is written, nothing is said. Two rows can
    not be spread, so a longer chunk raises, and so does one that straddles the end.

    >>> breaking_chunks(3)
    [3, 1]
    """
    return [max_len, 1]
