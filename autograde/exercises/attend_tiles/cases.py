"""Pools, tables and parts of a context, and what a kernel's inner loop must make of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import exp, inf
from typing import Any

import numpy as np

from autograde.tensors import pointer


@dataclass(frozen=True)
class Case:
    """One call."""

    q: np.ndarray  # (GP, D)
    k: np.ndarray  # (num_blocks, block_size, HKV, D)
    v: np.ndarray
    table: np.ndarray  # block numbers
    first: int
    last: int
    kv_head: int
    scale: float
    far: int = 0  # blocks that lie before those of k and v

    @property
    def args(self) -> list[Any]:
        GP, D = self.q.shape
        _, block_size, HKV, _ = self.k.shape
        start = self.far * self.k[0].size
        pools = [pointer(self.k, "k", start), pointer(self.v, "v", start), pointer(self.table, "table")]
        numbers = [np.array(n, np.int32) for n in (self.first, self.last, self.kv_head)]
        return [self.q, *pools, *numbers, np.array(self.scale, np.float32), HKV, GP, D, block_size]

    @property
    def said(self) -> str:
        """The call in a few words."""
        _, block_size, HKV, _ = self.k.shape
        return f"first {self.first}, last {self.last}, BLOCK_SIZE {block_size}, kv_head {self.kv_head} of {HKV}"

    def slots(self) -> list[tuple[int, int]]:
        """Block of the arrays, and place in it, of each token of the part."""
        block_size = self.k.shape[1]
        places = [divmod(position, block_size) for position in range(self.first, self.last)]
        return [(int(self.table[i]) - self.far, offset) for i, offset in places]

    def blocks(self) -> int:
        """How many blocks hold tokens of the part."""
        return len({block for block, _ in self.slots()})


def random_case(
    rng: np.random.Generator,
    first: int,
    last: int,
    *,
    GP: int = 2,
    D: int = 8,
    block_size: int = 4,
    HKV: int = 3,
    kv_head: int = 1,
    spare: int = 3,
) -> Case:
    """Blocks of a sequence that lie scattered in a pool, the table exactly as long as `last` asks for, at least 1."""
    needed = max(-(-last // block_size), -(-first // block_size), 1)
    shape = (needed + spare, block_size, HKV, D)
    k, v = (rng.normal(size=shape).astype(np.float32) for _ in range(2))
    table = rng.permutation(len(k))[:needed].astype(np.int32)
    q = (2 * rng.normal(size=(GP, D))).astype(np.float32)
    return Case(q, k, v, table, first, last, kv_head, 0.3)


def poisoned(case: Case) -> Case:
    """The same with NaN in all rows that the part does not hold, of the other heads too."""
    keep = np.zeros(case.k.shape[:3], bool)
    for block, offset in case.slots():
        keep[block, offset, case.kv_head] = True
    k, v = (np.where(keep[..., None], rows, np.float32(np.nan)) for rows in (case.k, case.v))
    return replace(case, k=k, v=v)


def expected(case: Case) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """m (GP,), l (GP,) and acc (GP, D), in float64: one query and one token after the other."""
    GP, D = case.q.shape
    m, l, acc = np.full(GP, -inf), np.zeros(GP), np.zeros((GP, D))  # noqa: E741 - the names of the text
    rows = [(block, offset, case.kv_head) for block, offset in case.slots()]
    for g in range(GP):
        query = case.q[g].astype(np.float64)
        scores = [float(query @ case.k[row].astype(np.float64)) * float(np.float32(case.scale)) for row in rows]
        if not scores:
            continue
        m[g] = max(scores)
        for score, row in zip(scores, rows, strict=True):
            power = exp(score - m[g])
            l[g] += power
            acc[g] += power * case.v[row].astype(np.float64)
    return m, l, acc
