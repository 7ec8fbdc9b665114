"""How much work a cache saves: positions that go through the model, multiplications, and numbers fetched."""

from __future__ import annotations

from numbers import Integral


def count_positions(prompt: int, new: int) -> tuple[int, int]:
    """Positions pushed through the model to make `new` tokens after a prompt of `prompt`: (uncached, cached).

    A token is made from the logits of the one before it, so the last token made is never pushed through.
    Both must be at least 1: a model that has seen nothing has nothing to make a token from. ValueError otherwise.

    >>> count_positions(3, 2)  # 3 then 4, against 3 then 1
    (7, 4)
    """
    for name, value in (("prompt", prompt), ("new", new)):
        _insist(name, value, " token")
    n, p = int(new), int(prompt)
    uncached = n * p + n * (n - 1) // 2  # p + (p + 1) + ... + (p + n - 1)
    cached = p + (n - 1)  # the prompt once, then one token at a time
    return uncached, cached


def count_rows(tokens: int) -> tuple[int, int]:
    """Rows of K (and as many of V) computed to decode `tokens` tokens one by one: (naive, cached).

    Naive decoding computes 1 + 2 + ... + n rows, a cache n. It is `count_positions` with a prompt of one token.

    >>> count_rows(4)
    (10, 4)
    """
    return count_positions(prompt=1, new=tokens)


def multiplications(tokens: int, width: int) -> tuple[int, int]:
    """Multiplications of one attention layer that decodes n = `tokens` one by one at width d: (uncached, cached).

    A row goes through four matrices (q, k, v and the output), d * d each. A query meets each key and value, d each.
    Uncached, step t does this for all t rows: O(n^3 d + n^2 d^2) in all. Cached, for the new one: O(n^2 d + n d^2).
    Raises ValueError for a count below 1.

    >>> multiplications(2, 3)  # steps of 1 and of 2 rows: (36 + 6) + (72 + 24), against (36 + 6) + (36 + 12)
    (138, 90)
    """
    for name, value in (("tokens", tokens), ("width", width)):
        _insist(name, value, "")
    n, d = int(tokens), int(width)
    rows, pairs = n * (n + 1) // 2, n * (n + 1) * (2 * n + 1) // 6  # 1 + 2 + ... + n, and their squares
    return 4 * d * d * rows + 2 * d * pairs, 4 * d * d * n + 2 * d * rows


def moved_per_multiplication(tokens: int, width: int, batch: int, kv_share: int = 1) -> float:
    """Numbers fetched for each multiplication, in one cached step of b = `batch` sequences of n tokens at width d.

    Fetched are the four matrices once, each sequence's keys and values, and its own rows. `kv_share` query heads share
    a KV head, so that keys and values are d / kv_share wide. While n is small against d this is of the order of
    n / (d * kv_share) + 1 / b: batching takes down the second part only (Shazeer 2019, "Fast Transformer Decoding").
    Raises ValueError for a count below 1.
    """
    counted = {"tokens": tokens, "width": width, "batch": batch, "kv_share": kv_share}
    for name, value in counted.items():
        _insist(name, value, "")
    narrow = width / kv_share
    fetched = 2 * width * (width + narrow) + batch * (2 * tokens * narrow + 2 * width)
    return fetched / (batch * (2 * width * (width + narrow) + 2 * tokens * width))


def _insist(name: str, value: int, unit: str) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ValueError(f"{name} must be a whole number of at least 1{unit}, got {value!r}")
