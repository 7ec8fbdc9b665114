"""The allocator that is lent to the learner's tables: it hands out scattered blocks, and knows who holds what."""

from __future__ import annotations

from typing import Any

import numpy as np

from autograde.exercises.block_allocator.numbers import whole_numbers
from autograde.subject import Trusted

METHODS = ("can_allocate", "allocate", "free")


class Lender:
    """Blocks 0 to num_blocks - 1 in a fixed random order, whether they are taken one by one or many at once."""

    def __init__(self, rng: np.random.Generator, num_blocks: int) -> None:
        self.num_blocks = num_blocks
        self.queue: list[int] = []
        self.held: set[int] = set()
        while not _scattered(self.queue):
            self.queue = rng.permutation(num_blocks).tolist()

    @property
    def num_free(self) -> int:
        """Blocks that can still be had."""
        return len(self.queue)

    def can_allocate(self, n: Any) -> bool:
        """Whether n blocks are free."""
        return 0 <= _count(n) <= len(self.queue)

    def allocate(self, n: Any) -> list[int]:
        """Take n blocks, all or none."""
        if not self.can_allocate(n):
            raise ValueError(f"{n} blocks asked, {len(self.queue)} are free")
        blocks, self.queue = self.queue[: _count(n)], self.queue[_count(n) :]
        self.held.update(blocks)
        return blocks

    def free(self, blocks: Any) -> None:
        """Give blocks back; all of them must be held."""
        numbers = whole_numbers(blocks)
        if numbers is None or len(set(numbers)) < len(numbers) or not self.held.issuperset(numbers):
            raise ValueError("free takes a list of different blocks that are held")
        self.held.difference_update(numbers)
        self.queue += numbers

    def lent(self) -> Trusted:
        """What the learner's tables see of it."""
        return Trusted(self, METHODS, name="BlockAllocator")


def _scattered(queue: list[int]) -> bool:
    """No two neighbours that follow each other, and neither sorted nor counted from 0 at its beginning."""
    if len(queue) < 3 or min(queue[:2]) < 2 or queue[0] < queue[1] or queue[2] < queue[1] + 3:
        return False
    return all(b - a != 1 for a, b in zip(queue, queue[1:], strict=False))


def _count(n: Any) -> int:
    number = n.item() if isinstance(n, np.ndarray) and n.size == 1 else n
    if type(number) is not int:
        raise TypeError(f"the number of blocks must be a whole number, got {str(n)[:40]}")
    return number
