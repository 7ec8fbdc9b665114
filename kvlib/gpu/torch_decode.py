"""One decode step over a paged cache in plain PyTorch: gathers the pages, then attends. Runs wherever PyTorch does.

It makes a dense copy of every sequence's rows at each step: that is what the Triton kernel saves.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from kvlib.gpu.arguments import check_arguments, check_blocks


def torch_decode(
    q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    block_tables: torch.Tensor,
    seq_lens: torch.Tensor,
    k_scale: torch.Tensor | None = None,
    v_scale: torch.Tensor | None = None,
    *,
    splits: int | None = None,
    fp8: str | None = None,
    check: bool | None = None,
) -> torch.Tensor:
    """The same as `kvlib.gpu.paged_decode.paged_decode`, with `check` too; splits and fp8 change nothing.

    q (B, H, D), pools K, V (num_blocks, block_size, Hkv, D), k_scale, v_scale (num_blocks, block_size, Hkv),
    block_tables (B, M), seq_lens (B,) -> (B, H, D). Raises ValueError for what does not go together.

    >>> q, K, V = torch.ones(1, 2, 1), torch.zeros(2, 2, 1, 1), torch.tensor([7.0, 7.0, 2.0, 4.0]).view(2, 2, 1, 1)
    >>> torch_decode(q, K, V, block_tables=torch.tensor([[1]]), seq_lens=torch.tensor([2])).flatten().tolist()
    [3.0, 3.0]
    """
    check_arguments(q, K, V, block_tables, seq_lens, k_scale, v_scale)
    if check or (check is None and q.device.type == "cpu"):
        check_blocks(block_tables, seq_lens, K.shape[0], K.shape[1])
    (B, H, D), (num_blocks, block_size, Hkv, _) = q.shape, K.shape
    if B == 0:
        return torch.empty_like(q)
    tables = block_tables.long()
    positions = torch.arange(tables.shape[1] * block_size, device=q.device)
    there = (tables >= 0) & (tables < num_blocks)  # (B, M): a wrong number is never followed
    held = (positions < seq_lens[:, None]) & there.repeat_interleave(block_size, 1)  # (B, S)
    tables = tables.where(there, 0)
    k = _gather(K, k_scale, tables, held, q.dtype)
    v = _gather(V, v_scale, tables, held, q.dtype)
    queries = q.reshape(B, Hkv, H // Hkv, D)  # the heads that share a KV head become rows: its keys are read once
    out = F.scaled_dot_product_attention(queries, k, v, attn_mask=held[:, None, None, :])
    out = out.masked_fill(~held.any(1)[:, None, None, None], 0)  # an empty sequence gets zeros, not NaN
    return out.reshape(B, H, D)


def _gather(
    pool: torch.Tensor, scale: torch.Tensor | None, tables: torch.Tensor, held: torch.Tensor, dtype: torch.dtype
) -> torch.Tensor:
    """The rows of all tables, (B, Hkv, S, D); zeros where nothing is held: even a weight of 0 times NaN is NaN."""
    if scale is None:
        rows = pool[tables]  # (B, M, block_size, Hkv, D)
    else:
        codes = pool.view(torch.uint8)[tables].view(pool.dtype)  # moved as bytes: not every build indexes FP8
        rows = (codes.float() * scale[tables][..., None]).to(dtype)
    rows = rows.flatten(1, 2)  # (B, S, Hkv, D)
    return rows.masked_fill_(~held[:, :, None, None], 0).transpose(1, 2)
