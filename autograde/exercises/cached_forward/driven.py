"""The learner's forward on a lent decoder and a lent cache, chunk by chunk, beside full recomputation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from autograde.exercises.axes import named
from autograde.exercises.oracle_gqa import recompute_decoder
from autograde.exercises.torch_models import LentGQACache, LentTransformer, Shape, Weights, random_weights
from autograde.expect import agrees, equals
from autograde.finding import Finding
from autograde.subject import Subject

NAMES = ("sequence", "token of the chunk", "logit")  # the axes of logits
BATCH = 2


class Driven:
    """One decoder with one cache for two sequences. All calls go through the learner's function."""

    def __init__(
        self, subject: Subject, rng: np.random.Generator, shape: Shape, max_len: int, weights: Weights | None = None
    ) -> None:
        self.subject, self.rng, self.shape = subject, rng, shape
        self.weights = random_weights(shape, rng) if weights is None else weights
        self.model = LentTransformer(shape, self.weights)
        self.lent_model = self.model.lent()
        self.right: dict[bytes, np.ndarray] = {}
        self.new_cache(max_len)

    def new_cache(self, max_len: int) -> None:
        """Go on with an empty cache."""
        shape = self.shape
        self.cache = LentGQACache(shape.num_layers, BATCH, shape.num_kv_heads, max_len, shape.head_dim)
        self.lent_cache = self.cache.lent()

    def beside(self, max_len: int) -> Driven:
        """The same decoder with another cache."""
        return Driven(self.subject, self.rng, self.shape, max_len, self.weights)

    def logits(self, tokens: np.ndarray) -> np.ndarray:
        """Full recomputation, (B, T, vocab_size), worked out once for the same tokens."""
        key = tokens.tobytes()
        if key not in self.right:
            rows = [recompute_decoder(self.shape, self.weights, [int(token) for token in row]) for row in tokens]
            self.right[key] = np.stack(rows)
        return self.right[key]

    def chunks(self, tokens: np.ndarray, partition: Sequence[int], when: str = "") -> Iterable[Finding]:
        """All tokens (B, T), in these portions."""
        start = 0
        for num_tokens in partition:
            yield from self.chunk(tokens, start, start + num_tokens, when)
            start += num_tokens

    def chunk(self, tokens: np.ndarray, start: int, end: int, when: str = "") -> Iterable[Finding]:
        """One call of the learner's function with the tokens of these positions."""
        want = self.logits(tokens)[:, start:end]
        got = self.subject.run(self.lent_model, self.lent_cache, tokens[:, start:end])
        at = f"position {start}" if end == start + 1 else f"positions {start} to {end - 1}"
        where = f"{when}{at}, num_layers {self.shape.num_layers}"
        fact = "the logits of every position equal full recomputation"
        yield named(agrees(self.subject, got, want, key="logits", fact=fact), NAMES, where)
        fact = "after the call len(cache) counts the new tokens, once"
        length = len(self.cache)
        counted = equals(self.subject, length, end, key="length", fact=fact, what=where)
        yield replace(counted, seen=(length,))  # no reply of the learner's holds it


def random_tokens(rng: np.random.Generator, num_tokens: int) -> np.ndarray:
    """(B, T) int64: two rows that differ everywhere, the first with one token twice in a row."""
    vocab = Shape().vocab_size
    first = rng.integers(0, vocab, size=num_tokens)
    first[3] = first[2]
    return np.stack([first, (first + 1 + rng.integers(0, 2)) % vocab])
