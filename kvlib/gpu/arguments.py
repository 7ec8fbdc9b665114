"""What `paged_decode` and `torch_decode` take, looked at before anything is read."""

from __future__ import annotations

import torch

QUERY_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
TABLE_DTYPES = (torch.int32, torch.int64)


def check_arguments(
    q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    block_tables: torch.Tensor,
    seq_lens: torch.Tensor,
    k_scale: torch.Tensor | None,
    v_scale: torch.Tensor | None,
) -> bool:
    """Whether the pools are FP8. Raises ValueError for shapes, formats and devices that do not go together.

    q: (B, H, D). K, V: (num_blocks, block_size, Hkv, D). block_tables: (B, M). seq_lens: (B,). k_scale, v_scale:
    (num_blocks, block_size, Hkv), or None.
    Looks at no number in a tensor: on a GPU that would wait for all work queued. `check_blocks` does.

    >>> q, pool = torch.zeros(1, 2, 4), torch.zeros(3, 2, 1, 4)
    >>> check_arguments(q, pool, pool, torch.tensor([[0, 2]]), torch.tensor([3]), None, None)
    False
    """
    if q.ndim != 3 or K.ndim != 4:
        raise ValueError(f"q is (B, H, D) and a pool (num_blocks, block_size, Hkv, D), not {_size(q)} and {_size(K)}")
    B, H, D = q.shape
    num_blocks, block_size, Hkv, width = K.shape
    if V.shape != K.shape or V.dtype != K.dtype:
        raise ValueError(f"K is {_size(K)} {K.dtype} and V {_size(V)} {V.dtype}: they must be alike")
    if width != D:
        raise ValueError(f"queries have {D} numbers, keys {width}")
    if min(num_blocks, block_size, Hkv, D, H) < 1:
        raise ValueError(f"nothing to attend to: q {_size(q)}, pools {_size(K)}")
    if H % Hkv:
        raise ValueError(f"{H} query heads cannot share {Hkv} KV heads evenly")
    if block_tables.ndim != 2 or block_tables.shape[0] != B or block_tables.shape[1] < 1:
        raise ValueError(f"block_tables is ({B}, blocks), not {_size(block_tables)}")
    if seq_lens.shape != (B,):
        raise ValueError(f"seq_lens is ({B},), not {_size(seq_lens)}")
    for name, rows in (("block_tables", block_tables), ("seq_lens", seq_lens)):
        if rows.dtype not in TABLE_DTYPES:
            raise ValueError(f"{name} holds int32 or int64, not {rows.dtype}")
    if q.dtype not in QUERY_DTYPES:
        raise ValueError(f"q is float32, float16 or bfloat16, not {q.dtype}")
    fp8 = K.dtype == torch.float8_e4m3fn
    if not fp8 and K.dtype != q.dtype:
        raise ValueError(f"pools are {K.dtype}: they must be float8_e4m3fn, or {q.dtype} as the queries are")
    for name, scale in (("k_scale", k_scale), ("v_scale", v_scale)):
        if (scale is not None) != fp8:
            raise ValueError(f"{name} is given with FP8 pools and only with them; these are {K.dtype}")
        if scale is not None and (scale.shape != K.shape[:3] or scale.dtype != torch.float32):
            raise ValueError(f"{name} is {tuple(K.shape[:3])} float32, not {_size(scale)} {scale.dtype}")
    devices = {str(t.device) for t in (q, K, V, block_tables, seq_lens, k_scale, v_scale) if t is not None}
    if len(devices) > 1:
        raise ValueError(f"all tensors must be on one device, not on {sorted(devices)}")
    return fp8


def check_blocks(block_tables: torch.Tensor, seq_lens: torch.Tensor, num_blocks: int, block_size: int) -> None:
    """Raise ValueError where a sequence is longer than its table, or a table names no block of the pool.

    block_tables: (B, M), seq_lens: (B,). The pool has num_blocks blocks of block_size tokens. This reads numbers: on a
    GPU it waits for all work queued.

    >>> check_blocks(torch.tensor([[0, 2]]), torch.tensor([5]), num_blocks=3, block_size=2)
    Traceback (most recent call last):
    ValueError: sequence 0 has 5 tokens; its table has room for 0 to 4
    """
    room = block_tables.shape[1] * block_size
    for b, (table, length) in enumerate(zip(block_tables.tolist(), seq_lens.tolist(), strict=True)):
        if not 0 <= length <= room:
            raise ValueError(f"sequence {b} has {length} tokens; its table has room for 0 to {room}")
        for place, block in enumerate(table[: -(-length // block_size)]):
            if not 0 <= block < num_blocks:
                raise ValueError(f"block {block} at place {place} of sequence {b} is not one of 0 to {num_blocks - 1}")


def _size(t: torch.Tensor) -> tuple[int, ...]:
    return tuple(t.shape)
