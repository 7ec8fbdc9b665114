"""Grouped-query attention: G = H // Hkv query heads read one KV head.

Letters: B sequences, T new tokens (queries), S tokens held (keys and values), H query heads, Hkv KV heads, D head dim.
Hkv = H is multi-head attention, Hkv = 1 multi-query attention.
Sources: Shazeer 2019 for one KV head; Ainslie et al. 2023 for what lies between.
"""

from __future__ import annotations

import torch


def group_size(num_heads: int, num_kv_heads: int) -> int:
    """G, the query heads of one KV head. Raises ValueError where the KV heads do not divide the query heads."""
    if num_kv_heads < 1 or num_heads < 1 or num_heads % num_kv_heads:
        raise ValueError(f"{num_kv_heads} KV heads do not divide {num_heads} query heads")
    return num_heads // num_kv_heads


def kv_head(h: int, num_heads: int, num_kv_heads: int) -> int:
    """The KV head that query head h reads: neighbours share one.

    Raises ValueError for a head that is not there, and where the KV heads do not divide the query heads.

    >>> [kv_head(h, 6, 2) for h in range(6)]
    [0, 0, 0, 1, 1, 1]
    """
    group = group_size(num_heads, num_kv_heads)
    if not 0 <= h < num_heads:
        raise ValueError(f"query head {h} asked of {num_heads} heads, 0 to {num_heads - 1}")
    return h // group


def gqa_attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
    """Attention of H query heads over Hkv KV heads, none of which is copied.

    q: (B, H, T, D). k, v: (B, Hkv, S, D). mask: bools (T, S) or (B, T, S), True = may be seen; None = all may be, as
    for one new token, which is the last. Every query must be allowed at least one key. Returns (B, H, T, D).
    Raises ValueError where Hkv does not divide H, and for a mask that is not of bools.

    The query heads of a group become more rows of one head's queries. So a KV head is read once, not once for each of
    its G query heads, and nothing as large as G copies of it is ever made.

    >>> v = torch.tensor([[[[2.0], [4.0]], [[10.0], [20.0]]]])  # (B, Hkv, S, D); all scores are 0
    >>> gqa_attend(torch.zeros(1, 4, 1, 1), torch.zeros(1, 2, 2, 1), v).flatten().tolist()  # 4 query heads
    [3.0, 3.0, 15.0, 15.0]
    """
    B, H, T, D = q.shape
    G = group_size(H, k.shape[1])
    if mask is not None:
        if mask.dtype != torch.bool:
            raise ValueError(f"mask must hold bools, True = may be seen; got {mask.dtype}")
        mask = torch.cat([mask] * G, dim=-2)  # (G*T, S) or (B, G*T, S): the same rows for each head of a group
        mask = mask[:, None] if mask.ndim == 3 else mask  # (B, 1, G*T, S)
    rows = q.reshape(B, H // G, G * T, D)  # (B, Hkv, G*T, D)
    out = torch.nn.functional.scaled_dot_product_attention(rows, k, v, attn_mask=mask)  # (B, Hkv, G*T, D)
    return out.reshape(B, H, T, D)


def mean_pool_kv(weight: torch.Tensor, num_heads: int, num_kv_heads: int) -> torch.Tensor:
    """The K or V projection of a GQA model from that of a multi-head model: the mean over the heads of each group.

    weight: (H*D, width) as nn.Linear keeps it, or a bias (H*D,). Returns (Hkv*D, width) or (Hkv*D,).
    A model changed so has to be trained further before it is any good: the published recipe takes about 5% of the
    original training steps (Ainslie et al. 2023, GQA).
    Raises ValueError where the heads do not divide the rows, or the KV heads the heads.
    """
    G = group_size(num_heads, num_kv_heads)
    if weight.shape[0] % num_heads:
        raise ValueError(f"{num_heads} heads do not divide {weight.shape[0]} rows of weights")
    D = weight.shape[0] // num_heads
    heads = weight.reshape(num_kv_heads, G, D, *weight.shape[1:])  # (Hkv, G, D, width)
    return heads.mean(dim=1).reshape(num_kv_heads * D, *weight.shape[1:])  # (Hkv*D, width)
