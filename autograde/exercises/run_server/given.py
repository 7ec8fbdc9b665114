"""What the learner's side gives to the engine, looked at."""

from __future__ import annotations

from typing import Any

import numpy as np

from autograde.exercises.run_server.world import VOCAB, Client


def first_other(client: Client, start: int, tokens: list[int]) -> tuple[int, int] | None:
    """Where these tokens are not those of the request from `start` on: the position, and the token given."""
    right = (client.prompt + client.want)[start:]
    for k, (a, b) in enumerate(zip(tokens, right, strict=False)):
        if a != b:
            return start + k, a
    return None


def token_list(tokens: Any, what: str) -> list[int]:
    """Tokens, or a refusal that says what was called."""
    if isinstance(tokens, np.ndarray):
        tokens = tokens.tolist()
    if not isinstance(tokens, list) or not tokens:
        raise ValueError(f"{what} takes a list of tokens, at least one; got {str(tokens)[:30]}")
    if not all(type(token) is int and 0 <= token < VOCAB for token in tokens):
        raise ValueError(f"{what}: tokens are whole numbers, 0 to {VOCAB - 1}")
    return list(tokens)
