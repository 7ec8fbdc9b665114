"""How much work a cache saves, counted in positions that go through the model."""

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
        if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
            raise ValueError(f"{name} must be a whole number of at least 1 token, got {value!r}")
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
