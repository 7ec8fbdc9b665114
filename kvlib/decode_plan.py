"""Where the rows of paged sequences lie, so that a decode step need not copy them.

A single new token sees all that its sequence holds, so the order of the keys does not matter: blocks that lie side by
side in the pool are one stretch of memory, in whatever order they were filled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

TILE = 512  # tokens that are copied at a time where nothing better is left: a tile stays in the processor's cache

Tile = tuple[torch.Tensor, int]  # blocks, and the tokens in them


@dataclass
class Pass:
    """A stretch of the pool that is read in place: N full blocks, each for one row. R rows take part."""

    low: int  # the first block
    owners: torch.Tensor  # (N,), the row that each block is read for; 0 for blocks of nobody's
    foreign: torch.Tensor  # (R, N) bools, True for a block that is not read for this row


@dataclass
class Plan:
    """How each sequence of a batch is read. Made once for a step, and used in every layer."""

    runs: dict[int, list[tuple[int, int]]] = field(default_factory=dict)  # by row: first slot, and how many
    tiles: dict[int, list[Tile]] = field(default_factory=dict)  # by row: what is copied
    scattered: list[int] = field(default_factory=list)  # R rows that are read together, in passes
    passes: list[Pass] = field(default_factory=list)
    last: torch.Tensor | None = None  # (R,), their last blocks
    unused: torch.Tensor | None = None  # (R, 1, block_size, 1) bools, slots of these that hold no token

    @property
    def most_copied(self) -> int:
        """Blocks of the largest tile."""
        return max(len(blocks) for tiles in self.tiles.values() for blocks, _ in tiles)


def make_plan(tables: Sequence[Sequence[int]], lengths: Sequence[int], block_size: int) -> Plan:
    """The plan of sequences with these tables and lengths, each at least 1 token. Blocks may be shared.

    A sequence in few runs of neighbouring blocks is read run by run. The others are read together: one pass over the
    stretch of the pool in which their full blocks lie, each block with its owner's query. Where more than a third of
    such a stretch is nobody's, copies are quicker. Last blocks are copied too, because they are partly filled.

    >>> make_plan([[1, 0], [3]], [6, 4], block_size=4).runs  # by row: the first slot, and how many
    {0: [(0, 2), (4, 4)], 1: [(12, 4)]}
    """
    plan = Plan()
    left: dict[int, list[int]] = {}  # rows of many runs, and the full blocks that no pass reads yet
    for row, (table, length) in enumerate(zip(tables, lengths, strict=True)):
        runs = _runs(table, length, block_size)
        if len(runs) <= 4 + len(table) // 16:  # a call for each run costs as much as some 16 blocks in a pass
            plan.runs[row] = runs
        else:
            left[row] = list(table[:-1])
    rows = list(left)
    while owners := {block: row for row in reversed(rows) for block in left[row]}:
        low, high = min(owners), max(owners) + 1
        if 2 * (high - low) > 3 * len(owners):
            break
        plan.scattered = rows
        plan.passes.append(_make_pass(low, [owners.get(block) for block in range(low, high)], rows))
        # A block that several rows share is read for one of them in each pass.
        left = {row: [block for block in blocks if owners[block] != row] for row, blocks in left.items()}
    for row in rows:
        tokens = len(left[row]) * block_size
        if not plan.passes:
            left[row], tokens = list(tables[row]), lengths[row]
        plan.tiles |= {row: _tiles(left[row], tokens, block_size)} if tokens else {}
    if plan.passes:
        plan.last = torch.tensor([tables[row][-1] for row in rows])
        used = torch.tensor([lengths[row] - (len(tables[row]) - 1) * block_size for row in rows])
        plan.unused = (torch.arange(block_size) >= used[:, None])[:, None, :, None]
    return plan


def _runs(table: Sequence[int], length: int, block_size: int) -> list[tuple[int, int]]:
    """The slots of a sequence as stretches: the first, and how many. Only the last block may be partly filled."""
    unused = len(table) * block_size - length  # slots at the end of the last block
    runs: list[tuple[int, int]] = []
    first = behind = -1  # blocks
    for block in sorted(table):
        if block != behind:
            runs.append((first * block_size, (behind - first) * block_size))
            first = block
        behind = block + 1
        if unused and block == table[-1]:  # a run ends within a block
            runs.append((first * block_size, (behind - first) * block_size - unused))
            first = behind
    runs.append((first * block_size, (behind - first) * block_size))
    return [run for run in runs if run[1]]


def _tiles(blocks: list[int], tokens: int, block_size: int) -> list[Tile]:
    """The blocks of one row, some at a time. Only the last one may be partly filled."""
    size = max(1, TILE // block_size)
    starts = range(0, len(blocks), size)
    return [(torch.tensor(blocks[i : i + size]), min(size * block_size, tokens - i * block_size)) for i in starts]


def _make_pass(low: int, owners: list[int | None], rows: list[int]) -> Pass:
    """A pass over the blocks from `low` on: the row of each, None for nobody's."""
    places: dict[int | None, int] = {row: r for r, row in enumerate(rows)}
    who = torch.tensor([places.get(row, -1) for row in owners])
    return Pass(low, who.clamp(min=0), who != torch.arange(len(rows))[:, None])
