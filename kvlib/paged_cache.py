"""The KV cache of one layer in blocks: sequences of any length share one pool.

Letters: T new tokens, S tokens held, Hkv KV heads, D head dim. Pools are (num_blocks, block_size, Hkv, D).
Source: Kwon et al. 2023 (PagedAttention).
"""

from __future__ import annotations

from collections.abc import Hashable

import torch

from kvlib.block_allocator import BlockAllocator
from kvlib.block_tables import BlockTables


class PagedCache:
    """The keys and values of many sequences, in two pools which the caller made.

    Token p of a sequence stands at [table[p // block_size], p % block_size] in both pools. All rows are there and
    nowhere else: what `read` gives is gathered anew.

    >>> cache = PagedCache(torch.zeros(4, 2, 1, 1), torch.zeros(4, 2, 1, 1))  # 4 blocks of 2 slots
    >>> rows = torch.tensor([1.0, 2.0, 3.0]).view(3, 1, 1)  # (T, Hkv, D)
    >>> cache.append("a", rows, -rows)
    >>> cache.table("a"), cache.num_free
    ([0, 1], 2)
    >>> K, V = cache.read("a")
    >>> K.flatten().tolist(), V.flatten().tolist()
    ([1.0, 2.0, 3.0], [-1.0, -2.0, -3.0])
    """

    def __init__(self, K: torch.Tensor, V: torch.Tensor) -> None:
        """K, V: the pools, which may hold anything. Raises ValueError when they are not alike, or not 4-dimensional."""
        if K.ndim != 4 or K.shape != V.shape or K.dtype != V.dtype:
            given = f"K {tuple(K.shape)} of {K.dtype} and V {tuple(V.shape)} of {V.dtype}"
            raise ValueError(f"two pools (num_blocks, block_size, Hkv, D) of one dtype are wanted, got {given}")
        self.K, self.V, self.block_size = K, V, K.shape[1]
        self.allocator = BlockAllocator(K.shape[0])
        self.tables = BlockTables(self.allocator, self.block_size)

    @property
    def num_free(self) -> int:
        """Blocks that no sequence holds."""
        return self.allocator.num_free

    def append(self, seq: Hashable, k: torch.Tensor, v: torch.Tensor) -> None:
        """Write the rows of T more tokens of seq; a sequence not seen before starts empty.

        k, v: (T, Hkv, D), T at least 1. They are copied into the pools. Raises ValueError for other shapes or dtypes,
        and when there is no room for all T tokens. Nothing has changed then.
        """
        self._check(k, v)
        blocks, offsets = self._places(self.tables.append(seq, len(k)))
        self.K[blocks, offsets] = k.detach()
        self.V[blocks, offsets] = v.detach()

    def read(self, seq: Hashable) -> tuple[torch.Tensor, torch.Tensor]:
        """K and V of all tokens of seq, in order: two new tensors (S, Hkv, D). ValueError for an unknown sequence."""
        table, size = self.tables.table(seq), self.block_size
        slots = [table[p // size] * size + p % size for p in range(self.tables.length(seq))]
        blocks, offsets = self._places(slots)
        return self.K[blocks, offsets], self.V[blocks, offsets]

    def table(self, seq: Hashable) -> list[int]:
        """The blocks of a sequence, in order: ceil(length / block_size) of them. Raises ValueError if it is unknown."""
        return self.tables.table(seq)

    def length(self, seq: Hashable) -> int:
        """Tokens of a sequence. Raises ValueError if it is unknown."""
        return self.tables.length(seq)

    def truncate(self, seq: Hashable, length: int) -> None:
        """Keep the first `length` tokens. Blocks no longer needed are free again; the sequence stays known, if empty.

        Raises ValueError if it is unknown, and for a length below 0 or above the one it has.
        """
        self.tables.truncate(seq, length)

    def free(self, seq: Hashable) -> None:
        """Forget a sequence: all its blocks are free again. Raises ValueError if it is unknown."""
        self.tables.free(seq)

    def _places(self, slots: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """The block and the offset of each slot: two (N,), which index a pool."""
        index = torch.tensor(slots, dtype=torch.int64, device=self.K.device)
        return index // self.block_size, index % self.block_size

    def _check(self, k: torch.Tensor, v: torch.Tensor) -> None:
        wanted = (k.shape[0] if k.ndim else 0, *self.K.shape[2:])  # (T, Hkv, D)
        for name, rows in (("k", k), ("v", v)):
            if rows.shape != wanted or rows.dtype != self.K.dtype or not len(rows):
                Hkv, D = self.K.shape[2:]
                like = f"{self.K.dtype} of (T, {Hkv}, {D}), T alike and at least 1"
                raise ValueError(f"k and v must be {like}, got {name} of {rows.dtype}, {tuple(rows.shape)}")
