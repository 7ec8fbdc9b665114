"""Keys and values in blocks: rows are written to slots, and attention finds them through a block table.

Letters: B sequences, T new tokens (queries), S tokens held, H query heads, Hkv KV heads, D head dim.
Source: Kwon et al. 2023 (PagedAttention).
A pool is (num_blocks, block_size, Hkv, D), one for K and one for V. Slot = block * block_size + offset.
"""

from __future__ import annotations

import torch

from kvlib.gqa import gqa_attend
from kvlib.masks import visible


def write_slots(pool: torch.Tensor, rows: torch.Tensor, slot_mapping: torch.Tensor) -> None:
    """Write rows[i] to slot slot_mapping[i] of the pool, in place; slot -1 is padding, and is written nowhere.

    pool: (num_blocks, block_size, Hkv, D). rows: (N, Hkv, D), of the pool's dtype. slot_mapping: int64 (N,), its slots
    distinct. Raises ValueError for a slot outside the pool, and for other shapes or dtypes; nothing is written then.

    >>> pool = torch.zeros(2, 2, 1, 1)  # 2 blocks of 2 slots
    >>> write_slots(pool, torch.tensor([5.0, 6.0, 7.0]).view(3, 1, 1), torch.tensor([3, 0, -1]))
    >>> pool.flatten().tolist()
    [6.0, 0.0, 0.0, 5.0]
    """
    num_blocks, block_size = pool.shape[:2]
    if rows.shape != (len(slot_mapping), *pool.shape[2:]) or rows.dtype != pool.dtype:
        wanted = f"{pool.dtype} of {(len(slot_mapping), *pool.shape[2:])}"
        raise ValueError(f"rows must be {wanted}, got {rows.dtype} of {tuple(rows.shape)}")
    real = slot_mapping != -1  # torch would take -1 for the last slot
    slots = slot_mapping[real]
    outside = (slots < 0) | (slots >= num_blocks * block_size)
    if outside.any():
        raise ValueError(f"slot {int(slots[outside][0])} asked of {num_blocks * block_size} slots")
    pool[slots // block_size, slots % block_size] = rows.detach()[real]


def paged_attend(
    q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_tables: torch.Tensor, seq_lens: torch.Tensor
) -> torch.Tensor:
    """Attention of the T newest tokens of each sequence over all that it holds in the pools, themselves included.

    q: (B, H, T, D). K, V: pools (num_blocks, block_size, Hkv, D), the new rows written already. block_tables: int64
    (B, M), a sequence's blocks in order, then -1. seq_lens: int64 (B,), tokens held, at least T each.
    Returns (B, H, T, D). Other blocks, and what is left of the last one, are not read: they may hold anything.
    Raises ValueError where a sequence holds fewer than T tokens or its table has too few blocks.

    Gathers a copy of each sequence's rows, so it moves S rows a step. `PagedLayers.attend` moves as few as it can.
    """
    T, block_size = q.shape[2], K.shape[1]
    outputs = []
    for row, table, S in zip(q, block_tables, seq_lens.tolist(), strict=True):
        blocks = table[: -(-S // block_size)]
        if S < T or len(blocks) * block_size < S or (blocks < 0).any():
            raise ValueError(f"{T} new tokens of {S} held do not fit a table of {int((table >= 0).sum())} blocks")
        k, v = (pool[blocks].flatten(0, 1)[:S].transpose(0, 1) for pool in (K, V))  # (Hkv, S, D)
        mask = visible(torch.arange(S - T, S, device=q.device), torch.arange(S, device=q.device))  # (T, S)
        outputs.append(gqa_attend(row[None], k[None], v[None], None if T == 1 else mask))  # (1, H, T, D)
    return torch.cat(outputs)
