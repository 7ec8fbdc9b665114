"""A model that holds one conversation, on the trusted side. Its logits are a function of all tokens that it holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from autograde.subject import Trusted

VOCAB = 1000  # token numbers
LOGITS = 7  # a row of logits is shorter than the vocabulary, so that it is cheap to carry


class ChatModel:
    """Counts the tokens that are pushed through. Without room it refuses, and holds what it held."""

    def __init__(self, seed: int, capacity: int) -> None:
        self.seed, self.capacity = seed, capacity
        self.held: list[int] = []
        self.pushed = 0

    def extend(self, tokens: Any) -> np.ndarray:
        """(LOGITS,) after the last of these tokens, which stand behind those held."""
        new = _tokens(tokens)
        if len(self.held) + len(new) > self.capacity:
            raise ValueError(f"{len(self.held)} of {self.capacity} tokens are held: {len(new)} more do not fit")
        self.held += new
        self.pushed += len(new)
        return self.right(self.held)

    def truncate(self, length: Any) -> None:
        """Only the first `length` tokens are held."""
        length = length.item() if isinstance(length, np.ndarray) and length.size == 1 else length
        if type(length) is not int or not 0 <= length <= len(self.held):
            raise ValueError(f"{len(self.held)} tokens are held: they cannot be cut to {str(length)[:30]}")
        del self.held[length:]

    def length(self) -> int:
        """How many tokens are held."""
        return len(self.held)

    def right(self, tokens: Sequence[int]) -> np.ndarray:
        """(LOGITS,) after these tokens and no others: any other text has others."""
        return np.random.default_rng([self.seed, len(tokens), *tokens]).normal(size=LOGITS) * 2

    def lent(self) -> Trusted:
        """What the learner's side reaches."""
        return Trusted(self, ("extend", "truncate", "length"), name="Model")


def _tokens(tokens: Any) -> list[int]:
    tokens = tokens.tolist() if isinstance(tokens, np.ndarray) else tokens
    if not isinstance(tokens, list) or not tokens:
        raise ValueError(f"extend takes a list of at least 1 token, got {str(tokens)[:30]}")
    if not all(type(token) is int and 0 <= token < VOCAB for token in tokens):
        raise ValueError(f"tokens are whole numbers, 0 to {VOCAB - 1}, got {str(tokens)[:60]}")
    return list(tokens)
