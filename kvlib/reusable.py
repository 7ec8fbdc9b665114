"""How much of a cache another request may use: only what was computed by the same model, in the same way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# All that a token's rows depend on besides the tokens up to it, and the tenant, who must not learn what others asked.
IDENTITY = ("weights", "adapter", "tokenizer", "template", "tenant", "positions")

_MISSING = object()  # a field that is not there is not a field that is None


def reusable(held: Mapping[str, Any], wanted: Mapping[str, Any]) -> int:
    """How many leading tokens of `wanted` need not be computed, given a cache of `held`.

    Each has "tokens", a list; the fields of `IDENTITY`; and others that do not enter the rows, such as "temperature".
    0 where a field of the identity differs, or is in one of them only. Otherwise the tokens that both begin with, but
    at most all of `wanted` but one: the last has to be computed, because its logits are not in the cache.
    Raises ValueError where `wanted` has no token: there is nothing to compute logits of.

    >>> one = {"tokens": [1, 2, 3], "weights": "a", "temperature": 0.0}
    >>> reusable(one, one | {"tokens": [1, 2, 9], "temperature": 1.0}), reusable(one, one | {"weights": "b"})
    (2, 0)
    """
    if not wanted["tokens"]:
        raise ValueError("a request needs at least 1 token, got 0")
    if any(held.get(name, _MISSING) != wanted.get(name, _MISSING) for name in IDENTITY):
        return 0
    common, most = 0, min(len(held["tokens"]), len(wanted["tokens"]) - 1)
    while common < most and held["tokens"][common] == wanted["tokens"][common]:
        common += 1
    return common
