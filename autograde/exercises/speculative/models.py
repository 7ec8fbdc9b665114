"""A target and a draft model that stay in the trusted process. Their logits follow from what their caches hold."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from autograde.subject import Trusted

VOCAB = 499  # large, so that a choice out of a wrong past is hardly ever the right one by luck
MOST_ROWS = 400

Choice = Callable[[Sequence[int]], np.ndarray]


class LentModel:
    """A model with a cache, for one sequence. Every row held counts: a stale one gives other logits."""

    def __init__(self, held: Iterable[int], logits: Choice) -> None:
        self.rows, self._logits = list(held), logits
        self.sizes: list[int] = []  # tokens of each forward pass
        self.again = 0  # rows that were held before, cut off, and pushed once more
        self._known = {tuple(self.rows[: n + 1]) for n in range(len(self.rows))}

    def __len__(self) -> int:
        return len(self.rows)

    def forward(self, tokens: Any) -> np.ndarray:
        """Logits (t, VOCAB), row i for the token that follows tokens[i]. The tokens are held from now on."""
        asked = np.asarray(tokens)
        if asked.ndim != 1 or asked.size == 0 or asked.dtype.kind not in "iu":
            raise ValueError(f"forward takes a list of tokens, at least one; got {asked.dtype} of shape {asked.shape}")
        if asked.min() < 0 or asked.max() >= VOCAB:
            raise ValueError(f"tokens must be 0 to {VOCAB - 1}, got {asked.min()} to {asked.max()}")
        if len(self.rows) + asked.size > MOST_ROWS:
            raise ValueError(f"holds {len(self.rows)} of {MOST_ROWS} tokens, {asked.size} more asked")
        self.sizes.append(int(asked.size))
        out = []
        for token in asked.tolist():
            self.rows.append(token)
            self.again += tuple(self.rows) in self._known
            self._known.add(tuple(self.rows))
            out.append(self._logits(self.rows))
        return np.array(out)

    def truncate(self, length: Any) -> None:
        """Hold only the first `length` tokens."""
        length = int(length)
        if not 0 <= length <= len(self.rows):
            raise ValueError(f"holds {len(self.rows)} tokens, cannot be cut to {length}")
        del self.rows[length:]

    def lent(self, name: str) -> Trusted:
        """This model, as the learner's side sees it."""
        return Trusted(self, ("forward", "truncate", "__len__"), name=name)


class Pair:
    """The two models of one stage, and what the target alone would write."""

    def __init__(self, rng: np.random.Generator, prompt: int, wrong_at: Iterable[int], repeats: bool = False) -> None:
        """wrong_at: the lengths after which the draft model chooses another token than the target.

        repeats: it then repeats the newest token, which the target has chosen too, in another place.
        """
        self.repeats = repeats
        self.seed, self.wrong_at = int(rng.integers(1 << 40)), frozenset(wrong_at)
        self.prompt = [int(token) for token in rng.integers(0, VOCAB, size=prompt)]
        self.target = LentModel(self.prompt[:-1], lambda rows: self._noise("target", rows))
        self.draft = LentModel(self.prompt[:-1], self._draft_logits)

    def best(self, tokens: Sequence[int]) -> int:
        """The target's own next token after these."""
        return int(np.argmax(self._noise("target", tokens)))

    def after(self, tokens: Sequence[int], num_drafts: int) -> tuple[list[int], int]:
        """All tokens after a right round, and how many drafts it accepts."""
        new, accepted = list(tokens), 0
        while accepted < num_drafts and len(new) not in self.wrong_at:
            new.append(self.best(new))
            accepted += 1
        return [*new, self.best(new)], accepted

    def _noise(self, name: str, rows: Sequence[int]) -> np.ndarray:
        """Logits (VOCAB,) that follow from the seed and from every row, in order."""
        digest = hashlib.sha256(f"{self.seed} {name} {list(rows)}".encode()).digest()
        return np.random.default_rng(int.from_bytes(digest[:8], "little")).normal(size=VOCAB)

    def _draft_logits(self, rows: Sequence[int]) -> np.ndarray:
        """The target's choice on top, or its second one where the draft model is to be wrong."""
        order = np.argsort(self._noise("target", rows))
        logits = self._noise("draft", rows)
        best = order[-2 if len(rows) in self.wrong_at else -1]
        if self.repeats and len(rows) in self.wrong_at and rows[-1] != order[-1]:
            best = rows[-1]
        logits[best] = logits.max() + 1
        return logits
