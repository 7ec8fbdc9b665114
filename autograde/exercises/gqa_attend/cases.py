"""What exercise 4.2 asks with: queries, keys, values and masks, and the right answers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autograde.exercises.oracle_gqa import attend_batch


@dataclass(frozen=True)
class Case:
    """One call: q (B, H, T, D), k and v (B, Hkv, S, D), mask (T, S)."""

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    mask: np.ndarray

    @property
    def args(self) -> tuple[np.ndarray, ...]:
        """In the order of the learner's function."""
        return self.q, self.k, self.v, self.mask

    @property
    def heads(self) -> str:
        """The numbers of heads, for a message."""
        return f"H={self.q.shape[1]}, Hkv={self.k.shape[1]}"

    @property
    def sizes(self) -> str:
        """The numbers of heads and tokens, for a message."""
        return f"{self.heads}, T={self.q.shape[2]}, S={self.k.shape[2]}"


def random_case(rng: np.random.Generator, H: int, Hkv: int, T: int, S: int, D: int, B: int = 2) -> Case:
    """Every key is visible."""
    q, (k, v) = rng.normal(size=(B, H, T, D)), rng.normal(size=(2, B, Hkv, S, D))
    return Case(1.5 * q, 1.5 * k, v, np.ones((T, S), dtype=bool))


def recompute(case: Case) -> np.ndarray:
    """(B, H, T, D): the right answer, in loops."""
    return attend_batch(*case.args)


def some_mask(rng: np.random.Generator, T: int, S: int) -> np.ndarray:
    """A mask whose rows hide the newest or the oldest key in turn, one key that all hide, and more from row to row."""
    mask = np.ones((T, S), dtype=bool)
    common, *inside = 1 + rng.permutation(S - 2)
    mask[:, common] = False
    for t in range(T):
        mask[t, 0 if t % 2 else S - 1] = False
        mask[t, inside[: t * (S - 4) // T]] = False
    return mask


def low_scores(rng: np.random.Generator, H: int, Hkv: int, T: int, S: int) -> Case:
    """All scores lie near -256, where a hidden key's must lie lower still, and the first query sees one key only.

    Small whole numbers and D = 4, so that float32 is exact too up to the softmax.
    """
    q, k = rng.integers(-2, 3, size=(2, H, T, 4)).astype(float), rng.integers(-2, 3, size=(2, Hkv, S, 4)).astype(float)
    q[..., 0], k[..., 0] = -64.0, 8.0
    mask = some_mask(rng, T, S)
    mask[0] = np.arange(S) == rng.integers(1, S - 1)
    return Case(q, k, rng.normal(size=k.shape), mask)


def marked(shape: tuple[int, ...]) -> np.ndarray:
    """Values (B, Hkv, S, D) that give their head away: all those of KV head j are 1 at place j and 0 elsewhere."""
    v = np.zeros(shape)
    for j in range(shape[1]):
        v[:, j, :, j] = 1.0
    return v
