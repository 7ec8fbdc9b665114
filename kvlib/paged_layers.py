"""A paged KV cache for all layers of a model: one table of blocks for each sequence, one pool for each layer.

Letters: B sequences, T new tokens, S tokens held, L layers, H query heads, Hkv KV heads, D head dim.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

import torch

from kvlib.attend_in_place import Pools, attend_in_place
from kvlib.decode_plan import Plan, make_plan
from kvlib.paged_attend import paged_attend, write_slots
from kvlib.shared_tables import SharedTables


class PagedLayers:
    """The keys and values of many sequences, in L layers, in blocks that are taken as they are needed.

    A block number means the same block in every layer, so one table is enough for all of them. A forward pass makes
    room once, then writes and attends in each layer:

        slots = cache.append(seqs, T)           # once, before the first layer
        cache.write(layer, slots, k, v)         # in each layer
        attended = cache.attend(layer, q, seqs)

    >>> cache = PagedLayers(num_layers=1, num_blocks=4, block_size=2, num_kv_heads=1, head_dim=1)
    >>> slots = cache.append(["a", "b"], 1)  # one token of each, in a block of its own
    >>> v = torch.tensor([3.0, 5.0]).view(2, 1, 1, 1)  # (B, Hkv, T, D)
    >>> cache.write(0, slots, torch.zeros_like(v), v)
    >>> cache.attend(0, torch.ones(2, 1, 1, 1), ["a", "b"]).flatten().tolist()  # each sees its own token only
    [3.0, 5.0]
    >>> cache.num_free
    2
    """

    def __init__(
        self,
        num_layers: int,
        num_blocks: int,
        block_size: int,
        num_kv_heads: int,
        head_dim: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> None:
        """Takes all its memory now: 2 * L * num_blocks * block_size * Hkv * D elements.

        Raises ValueError for a size below 1.
        """
        self.shape = (num_layers, num_blocks, block_size, num_kv_heads, head_dim)
        if min(self.shape) < 1:
            raise ValueError(f"L, num_blocks, block_size, Hkv and D must be at least 1, got {self.shape}")
        self.num_blocks, self.block_size = num_blocks, block_size
        self.tables = SharedTables(num_blocks, block_size)
        # A head's rows lie one behind the other: attention reads them head by head.
        heads_first = (2, num_layers, num_kv_heads, num_blocks, block_size, head_dim)
        pools = torch.empty(heads_first, dtype=dtype, device=device)
        self.pools = pools.permute(0, 1, 3, 4, 2, 5)  # (2, L, num_blocks, block_size, Hkv, D)
        self.layers = [Pools.of(K, V) for K, V in zip(*self.pools, strict=True)]
        self._slots: torch.Tensor | None = None  # what `append` gave last: known to lie in the pool
        self._plan: tuple[tuple[Hashable, ...], Plan] | None = None  # of the newest step, until a table changes

    @property
    def nbytes(self) -> int:
        """Bytes of all pools, which are there from the start, whether in use or not."""
        return self.pools.nbytes

    @property
    def num_free(self) -> int:
        """Blocks that no sequence holds."""
        return self.tables.num_free

    def length(self, seq: Hashable) -> int:
        """Tokens of a sequence; the next one's position. Raises ValueError if it is unknown."""
        return self.tables.length(seq)

    def can_append(self, seqs: Sequence[Hashable], num_tokens: int) -> bool:
        """Whether there is room for num_tokens more of each sequence. A sequence may be new; each once."""
        return (
            num_tokens >= 1
            and len(set(seqs)) == len(seqs)
            and self._blocks_to_append(seqs, num_tokens) <= self.num_free
        )

    def append(self, seqs: Sequence[Hashable], num_tokens: int) -> torch.Tensor:
        """Make room for T = num_tokens more of each sequence, in all layers; one not seen before starts empty.

        Returns the slots of the new tokens, int64 (B * T,): those of seqs[0] in order, then those of seqs[1], and on.
        A partly filled block that somebody else holds too is copied here, in every layer, before anything is written.
        Raises ValueError without room for all of them, for num_tokens below 1, and for a sequence named twice; nothing
        has changed then.
        """
        if num_tokens < 1 or len(set(seqs)) != len(seqs):
            raise ValueError(f"1 token or more of different sequences must be asked, got {num_tokens} of {list(seqs)}")
        if (needed := self._blocks_to_append(seqs, num_tokens)) > self.num_free:
            asked = f"{num_tokens} more tokens of {len(seqs)} sequences take {needed} blocks"
            raise ValueError(f"{asked}, {self.num_free} of {self.num_blocks} are free")
        self._plan = None
        slots, copies = [], []
        for seq in seqs:
            more, pairs = self.tables.append(seq, num_tokens)
            slots += more
            copies += pairs
        if copies:
            sources, targets = torch.tensor(copies, device=self.pools.device).unbind(1)
            self.pools[:, :, targets] = self.pools[:, :, sources]
        self._slots = torch.tensor(slots, dtype=torch.int64, device=self.pools.device)
        return self._slots

    def write(self, layer: int, slot_mapping: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
        """Write the new rows of one layer: k, v (B, Hkv, T, D), slot_mapping as `append` gave it, or -1 for padding.

        Raises ValueError for another layer, shape or dtype, and for a slot outside the pool; nothing is written then.
        """
        pools = self._layer(layer)
        (_, _, Hkv, D), N = pools.K.shape, len(slot_mapping)
        B, T = k.shape[::2] if k.ndim == 4 else (0, 0)
        for name, rows in (("k", k), ("v", v)):
            if rows.shape != (B, Hkv, T, D) or B * T != N or rows.dtype != pools.K.dtype:
                wanted = f"{pools.K.dtype} of (B, {Hkv}, T, {D}), B * T = {N}"
                raise ValueError(f"{name} must be {wanted}, got {rows.dtype} of {tuple(rows.shape)}")
        if slot_mapping is self._slots:
            for held, rows in ((pools.k, k), (pools.v, v)):
                held[0].index_copy_(1, slot_mapping, rows.detach().transpose(0, 1).flatten(1, 2))  # (Hkv, B * T, D)
        else:
            for pool, rows in ((pools.K, k), (pools.V, v)):
                write_slots(pool, rows.transpose(1, 2).flatten(0, 1), slot_mapping)  # (B * T, Hkv, D)

    def attend(self, layer: int, q: torch.Tensor, seqs: Sequence[Hashable]) -> torch.Tensor:
        """Attention of the T newest tokens of each sequence over all that it holds: q (B, H, T, D) -> (B, H, T, D).

        seqs: B of them. All rows must be written already. Other sequences are not seen, nor are slots that nobody
        wrote. One new token on a CPU leaves the keys and values where they are; a chunk copies them together first.
        Raises ValueError for another layer, for an unknown sequence, and for a sequence of fewer than T tokens.
        """
        pools = self._layer(layer)
        if self._plan is not None and self._plan[0] == tuple(seqs) and q.shape[2:3] == (1,) and len(q) == len(seqs):
            return attend_in_place(self._plan[1], q, pools)  # the plan is the same in every layer
        lengths = [self.length(seq) for seq in seqs]
        if q.ndim != 4 or len(q) != len(seqs) or not 1 <= q.shape[2] <= min(lengths, default=0):
            raise ValueError(f"q of {tuple(q.shape)} is not (B, H, T, D) of {len(seqs)} sequences that hold {lengths}")
        tables = [self.tables.table(seq) for seq in seqs]
        if q.shape[2] == 1 and q.device.type == "cpu":
            self._plan = tuple(seqs), make_plan(tables, lengths, self.block_size)
            return attend_in_place(self._plan[1], q, pools)
        longest = max(map(len, tables))
        block_tables = torch.tensor([table + [-1] * (longest - len(table)) for table in tables], device=q.device)
        return paged_attend(q, pools.K, pools.V, block_tables, torch.tensor(lengths))

    def fork(self, seq: Hashable, new: Hashable) -> None:
        """Let `new` go on from all tokens of `seq`, without a copy. ValueError if seq is unknown or new is known."""
        self.tables.fork(seq, new)

    def truncate(self, seq: Hashable, length: int) -> None:
        """Keep the first `length` tokens. ValueError if seq is unknown, and for a length it does not have."""
        self._plan = None
        self.tables.truncate(seq, length)

    def free(self, seq: Hashable) -> None:
        """Forget a sequence and give its blocks back. Raises ValueError if it is unknown."""
        self._plan = None
        self.tables.free(seq)

    def _layer(self, layer: int) -> Pools:
        if not 0 <= layer < len(self.layers):
            raise ValueError(f"layer {layer} asked of a cache of {self.shape[0]} layers, 0 to {self.shape[0] - 1}")
        return self.layers[layer]

    def _blocks_to_append(self, seqs: Sequence[Hashable], num_tokens: int) -> int:
        """Free blocks that `append` takes. Where all holders of a last block write at once, the last needs no copy."""
        needed = sum(self.tables.blocks_to_append(seq, num_tokens) for seq in seqs)
        known = set(self.tables.sequences).intersection(seqs)
        partly = [seq for seq in known if self.length(seq) % self.block_size]
        writers = Counter(self.tables.table(seq)[-1] for seq in partly)
        return needed - sum(count == self.tables.ref_count(block) > 1 for block, count in writers.items())
