"""One decode step over paged keys and values that leaves them where they are.

Letters: B sequences, H query heads, Hkv KV heads, G = H // Hkv, D head dim. A part is what a query sees of some of its
keys. Parts are put together by the logarithms of their sums of exp(score) (Dao et al. 2023, Flash-Decoding).
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from kvlib.decode_plan import Pass, Plan, Tile

Part = tuple[torch.Tensor, torch.Tensor]  # outputs (..., D), and the logarithms (...)

LOWEST = -1e30  # stands for the largest of no scores: -inf - -inf would be NaN
TINY = 1e-30  # stands for the sum of no shares


class Pools(NamedTuple):
    """The pools of one layer, as blocks and as rows: four views of the same memory."""

    K: torch.Tensor  # (num_blocks, block_size, Hkv, D)
    V: torch.Tensor
    k: torch.Tensor  # (1, Hkv, slots, D)
    v: torch.Tensor

    @classmethod
    def of(cls, K: torch.Tensor, V: torch.Tensor) -> Pools:
        """Both views of the pools K and V, (num_blocks, block_size, Hkv, D) each."""
        return cls(K, V, _in_a_row(K), _in_a_row(V))


def attend_in_place(plan: Plan, q: torch.Tensor, pools: Pools) -> torch.Tensor:
    """Attention of the newest token of each sequence: q (B, H, 1, D), pools on a CPU. Returns (B, H, 1, D).

    plan: of these sequences, by `kvlib.decode_plan.make_plan`. Where scores are alike, it is the mean of values:

    >>> from kvlib.decode_plan import make_plan
    >>> K = torch.zeros(2, 4, 1, 2)  # 2 blocks of 4 tokens
    >>> V = torch.tensor([1.0, 4.0]).reshape(2, 1, 1, 1).expand(K.shape).contiguous()
    >>> plan = make_plan([[1, 0]], [6], block_size=4)  # 4 tokens in block 1, then 2 in block 0
    >>> attend_in_place(plan, torch.ones(1, 1, 1, 2), Pools.of(K, V)).round(decimals=4).tolist()
    [[[[3.0, 3.0]]]]
    """
    B, H, _, D = q.shape
    rows = q.reshape(B, pools.k.shape[1], -1, D)  # (B, Hkv, G, D): the heads of a group are rows of one head's queries
    parts: list[list[Part]] = [[] for _ in range(B)]
    for row, runs in plan.runs.items():
        query = rows.narrow(0, row, 1)
        parts[row] = [_attend(query, pools.k.narrow(2, *run), pools.v.narrow(2, *run)) for run in runs]
    if plan.scattered:
        if len(plan.scattered) == B and not plan.tiles:
            return _scattered(plan, rows, pools)[0].reshape(B, H, 1, D)
        queries = rows if len(plan.scattered) == B else rows[plan.scattered]
        found = zip(*(each.split(1) for each in _scattered(plan, queries, pools)), strict=True)
        for row, part in zip(plan.scattered, found, strict=True):
            parts[row].append(part)
    if plan.tiles:
        room = torch.empty(2, plan.most_copied, *pools.K.shape[1:], dtype=q.dtype)
        for row, tiles in plan.tiles.items():
            parts[row] += [_one_tile(tile, room, rows[row : row + 1], pools) for tile in tiles]
    outputs = [_joined(each)[0] for each in parts]
    return (outputs[0] if B == 1 else torch.cat(outputs)).reshape(B, H, 1, D)


def _in_a_row(blocks: torch.Tensor) -> torch.Tensor:
    """(N, block_size, Hkv, D) -> (1, Hkv, N * block_size, D), a view."""
    return blocks.flatten(0, 1).transpose(0, 1)[None]


def _attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None = None) -> Part:
    """What scaled_dot_product_attention calls on a CPU: it also gives the logarithms, which that drops.

    q: (N, Hkv, G, D). k, v: (N, Hkv, S, D), views of any strides whose last axis is dense: nothing is copied.
    """
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default(q, k, v, attn_mask=mask)


def _joined(parts: list[Part]) -> Part:
    """The part over all keys: each weighs as much as its sum of exp(score)."""
    if len(parts) == 1:
        return parts[0]
    outputs, logs = (torch.stack(each) for each in zip(*parts, strict=True))
    top = logs.amax(dim=0)
    shares = (logs - top).exp()
    total = shares.sum(dim=0)
    return ((outputs * shares[..., None]).sum(dim=0) / total[..., None]).to(outputs.dtype), top + total.log()


def _scattered(plan: Plan, q: torch.Tensor, pools: Pools) -> Part:
    """What R rows see of their last blocks and in all passes: q (R, Hkv, G, D) -> a part of the same shape."""
    assert plan.unused is not None  # rows that are scattered have last blocks
    k, v = (pool[plan.last].transpose(1, 2).masked_fill_(plan.unused, 0.0) for pool in pools[:2])  # (R, Hkv, bs, D)
    hidden = torch.where(plan.unused.mT, -torch.inf, q.new_zeros(())).expand(-1, *q.shape[1:3], -1)  # (R, Hkv, G, bs)
    return _joined([_attend(q, k, v, hidden), *(_one_pass(each, q, pools) for each in plan.passes)])


def _one_pass(each: Pass, q: torch.Tensor, pools: Pools) -> Part:
    """What R rows see of one stretch: q (R, Hkv, G, D) -> a part of the same shape. Each block is a part of its own."""
    N, (R, Hkv, G, D) = len(each.owners), q.shape
    queries = q.expand(N, -1, -1, -1) if R == 1 else q.index_select(0, each.owners)  # (N, Hkv, G, D)
    k, v = (pool.narrow(0, each.low, N).transpose(1, 2) for pool in pools[:2])  # (N, Hkv, block_size, D), views
    outputs, logs = _attend(queries, k, v)  # (N, Hkv, G, D), (N, Hkv, G)
    logs = logs.reshape(N, Hkv * G).T[:, None].masked_fill(each.foreign, -torch.inf)  # (H, R, N)
    top = logs.amax(dim=-1, keepdim=True).clamp(min=LOWEST)  # (H, R, 1)
    shares = (logs - top).exp()
    total = shares.sum(dim=-1, keepdim=True)
    part = _summed(shares.to(q.dtype), outputs.reshape(N, Hkv * G, D).transpose(0, 1), each.foreign)  # (H, R, D)
    part = (part / total.clamp(min=TINY)).to(q.dtype)
    sums = (top + total.log()).squeeze(-1).T  # (R, H); -inf for a row that has nothing here
    return part.transpose(0, 1).reshape(R, Hkv, G, D), sums.reshape(R, Hkv, G)


def _summed(shares: torch.Tensor, outputs: torch.Tensor, foreign: torch.Tensor) -> torch.Tensor:
    """shares (H, R, N) times outputs (H, N, D) -> (H, R, D), in which a row has nothing of foreign blocks."""
    sums = shares @ outputs
    if sums.isfinite().all():
        return sums
    # Somewhere lies a NaN. Foreign blocks have a share of 0, and 0 * NaN is NaN: each row by itself.
    own = enumerate(~foreign)
    return torch.cat([shares[:, r : r + 1, blocks] @ outputs[:, blocks] for r, blocks in own], dim=1)


def _one_tile(tile: Tile, room: torch.Tensor, q: torch.Tensor, pools: Pools) -> Part:
    """What one row sees of some blocks, which are copied together: q (1, Hkv, G, D) -> a part of the same shape."""
    blocks, tokens = tile
    copies = [
        torch.index_select(pool, 0, blocks, out=to[: len(blocks)]) for pool, to in zip(pools[:2], room, strict=True)
    ]
    return _attend(q, *(_in_a_row(copy).narrow(2, 0, tokens) for copy in copies))
