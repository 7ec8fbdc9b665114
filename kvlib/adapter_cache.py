"""Caches of one server with many adapters: whose rows are they, and of which weights?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class Server(Protocol):
    """A model with adapters. A KV is a number that names the rows of some tokens, made by one adapter."""

    def version(self, adapter: str) -> str:
        """A text that changes when the weights behind this name change. "" is the model without an adapter."""

    def compute(self, adapter: str, tokens: Sequence[int], after: int | None) -> int:
        """The KV of these tokens, behind those of the KV `after`. The other KV stays as it is."""

    def logits(self, adapter: str, kv: int) -> Any:
        """The next token's logits. Those of a KV that another adapter made are wrong, and nobody says so."""


class AdapterCache:
    """Answers prompts, and computes no token that the same adapter in the same version has computed before.

    A KV may be used for the prompts that begin with all of its tokens.

    >>> class Computing:  # a server that says what it does, and has no logits
    ...     def version(self, adapter): return "1"
    ...     def compute(self, adapter, tokens, after): print(adapter, "computes", tokens)
    ...     def logits(self, adapter, kv): return None
    >>> cache = AdapterCache(Computing())
    >>> cache.answer("polite", [5, 6])
    polite computes [5, 6]
    >>> cache.answer("polite", [5, 6, 7])  # 5 and 6 are held
    polite computes [7]
    >>> cache.answer("brief", [5, 6])  # of other weights: nothing is held
    brief computes [5, 6]
    """

    def __init__(self, server: Server) -> None:
        self.server = server
        # By name and version of the adapter: the KVs of whole prompts, by their tokens.
        self.made: dict[tuple[str, str], dict[tuple[int, ...], int]] = {}

    def answer(self, adapter: str, tokens: Sequence[int]) -> Any:
        """The logits of the token that follows these; at most one call of `compute`.

        adapter: a name, "" = none. Raises ValueError where there is no token, and what the server raises.
        """
        if not tokens:
            raise ValueError("a prompt needs at least 1 token, got 0")
        tokens = tuple(tokens)
        made = self.made.setdefault((adapter, self.server.version(adapter)), {})
        held = next((n for n in range(len(tokens), 0, -1) if tokens[:n] in made), 0)  # the longest of its beginnings
        if held < len(tokens):
            made[tokens] = self.server.compute(adapter, list(tokens[held:]), made.get(tokens[:held]))
        return self.server.logits(adapter, made[tokens])
