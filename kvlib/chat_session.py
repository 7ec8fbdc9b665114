"""A conversation that computes each token once: what is held already is never pushed through again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class HoldingModel(Protocol):
    """A model with a cache for one sequence."""

    def extend(self, tokens: Sequence[int]) -> Any:
        """Compute these tokens after those held. The logits of the last one. ValueError without room: none is held."""

    def truncate(self, length: int) -> None:
        """Hold only the first `length` tokens."""


class ChatSession:
    """Takes the whole conversation at every turn, and computes what is new.

    Edited messages and regenerated answers change the middle: the rows from the first difference on are dropped, since
    each depends on all tokens before it.

    >>> class Talking:  # a model that says what it does, and has no logits
    ...     def extend(self, tokens): print("computes", tokens)
    ...     def truncate(self, length): print("keeps", length)
    >>> chat = ChatSession(Talking())
    >>> chat.logits([1, 2, 3])
    computes [1, 2, 3]
    >>> chat.logits([1, 2, 9, 4])  # the third token was edited
    keeps 2
    computes [9, 4]
    """

    def __init__(self, model: HoldingModel) -> None:
        """model: holds nothing yet, and belongs to this session alone."""
        self.model = model
        self.held: list[int] = []

    def logits(self, tokens: Sequence[int]) -> Any:
        """The logits after the last of these tokens, which are the conversation so far.

        At least one token is computed, since rows that are held give no logits. Raises ValueError for no tokens, before
        anything has changed, and where the model has no room: then the common beginning is still held.
        """
        tokens = list(tokens)
        if not tokens:
            raise ValueError("a conversation has at least one token, got none")
        keep = self._common(tokens)
        if keep < len(self.held):
            self.model.truncate(keep)
            del self.held[keep:]
        logits = self.model.extend(tokens[keep:])
        self.held = tokens
        return logits

    def _common(self, tokens: list[int]) -> int:
        """Tokens from the start that are held and asked for, all but the last one asked for at most."""
        most = min(len(self.held), len(tokens) - 1)
        return next((i for i in range(most) if self.held[i] != tokens[i]), most)
