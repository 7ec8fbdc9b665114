"""A model with two arms whose logits are a function of all tokens before, and lies that the cached arm tells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autograde.subject import Trusted

VOCAB = 11
LONGEST = 64  # more tokens than any text here
SWAPS = {"swap": (-1, -2), "second": (-2, -3), "low": (0, 1)}  # places in the order from the worst to the best


@dataclass(frozen=True)
class Lie:
    """What the cached arm says at one step, 0 being the one that the prompt ends with.

    "add": all logits are off by `by`; "worst", "best": that one alone; "swap": the best and the second best change
    places; "second": the second and the third best do; "low": the two worst do; "nan", "nan best": all are off, and the
    worst or the best one is no number. "nan full" is a lie of the other arm, at the last step only: its best one is no
    number.
    """

    step: int
    kind: str
    by: float = 0.0


class TwoArms:
    """Full recomputation, and a cache that holds tokens. Starts with somebody else's tokens in the cache."""

    def __init__(self, seed: int, prompt: Sequence[int], lies: Sequence[Lie]) -> None:
        self.seed, self.prompt, self.lies = seed, list(prompt), {lie.step: lie for lie in lies}
        self.held = [1, 2, 3]
        self.pushed = 0  # tokens into the cached arm
        self.recomputed = 0  # and into the other one

    def full(self, tokens: Any) -> np.ndarray:
        """Logits (n, VOCAB)."""
        tokens = _tokens(tokens)
        self.recomputed += len(tokens)
        return np.array([self._full(tokens[: i + 1]) for i in range(len(tokens))])

    def start(self) -> None:
        """Nothing is held."""
        self.held = []

    def cached(self, tokens: Any) -> np.ndarray:
        """Logits (T, VOCAB) of the next tokens."""
        tokens = _tokens(tokens)
        if len(self.held) + len(tokens) > LONGEST:
            raise ValueError(f"{len(self.held)} tokens are held, {len(tokens)} more do not fit")
        self.pushed += len(tokens)
        rows = []
        for token in tokens:
            self.held.append(token)
            rows.append(self._told(self._row(self.held), len(self.held) - len(self.prompt)))
        return np.array(rows)

    def lent(self) -> Trusted:
        """What the learner's side reaches."""
        return Trusted(self, ("full", "start", "cached"), name="Model")

    def fed_alike(self, steps: int) -> int:
        """How many of the tokens that the cache holds, from the first on, are those of the full run."""
        text = list(self.prompt)
        for _ in range(steps - 1):
            row = self._row(text)
            text.append(max(range(VOCAB), key=row.__getitem__))
        unlike = (i for i, (a, b) in enumerate(zip(self.held, text, strict=False)) if a != b)
        return next(unlike, len(self.held))

    def expected(self, steps: int) -> tuple[list[int], float]:
        """The steps at which the best token differs, or one is no number, and the largest difference."""
        text, differing, largest = list(self.prompt), [], 0.0
        for step in range(steps):
            right = self._row(text)
            told = self._told(right, step)
            nan = bool(np.isnan(told + self._full(text)).any())
            if nan:
                largest = math.inf
            else:
                largest = max(largest, *(abs(a - b) for a, b in zip(right.tolist(), told.tolist(), strict=True)))
            best = max(range(VOCAB), key=right.__getitem__)
            if nan or max(range(VOCAB), key=told.__getitem__) != best:
                differing.append(step)
            text.append(best)
        return differing, largest

    def _row(self, tokens: Sequence[int]) -> np.ndarray:
        """Logits after these tokens: any other text has others. Neighbours in rank are at least 0.4 apart."""
        rng = np.random.default_rng([self.seed, *tokens])
        ranks = rng.permutation(VOCAB) * 0.75 - 4
        return ranks + rng.uniform(0, 0.35, size=VOCAB)

    def _full(self, tokens: Sequence[int]) -> np.ndarray:
        row, lie = self._row(tokens), self.lies.get(len(tokens) - len(self.prompt))
        if lie is not None and lie.kind == "nan full":
            row[np.argmax(row)] = math.nan
        return row

    def _told(self, row: np.ndarray, step: int) -> np.ndarray:
        lie, row = self.lies.get(step), row.copy()
        if lie is None or lie.kind == "nan full":
            return row
        order = np.argsort(row)
        if lie.kind in SWAPS:
            one, other = (order[place] for place in SWAPS[lie.kind])
            row[one], row[other] = row[other], row[one]
        else:
            row[{"worst": order[0], "best": order[-1]}.get(lie.kind, slice(None))] += lie.by
            if lie.kind.startswith("nan"):
                row[order[-1 if lie.kind == "nan best" else 0]] = math.nan
        return row


def _tokens(tokens: Any) -> list[int]:
    found = np.asarray(tokens)
    if found.ndim != 1 or not found.size or found.dtype.kind not in "iu" or found.size > LONGEST:
        raise ValueError(f"tokens must be a list of 1 to {LONGEST} whole numbers, got shape {found.shape}")
    if found.min() < 0 or found.max() >= VOCAB:
        raise ValueError(f"tokens must be 0 to {VOCAB - 1}, got {found.min()} to {found.max()}")
    return [int(token) for token in found]
