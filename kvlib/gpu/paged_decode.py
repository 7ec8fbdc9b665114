"""One decode step over a paged cache by the Triton kernel: checks what it is given, cuts the context, launches."""

from __future__ import annotations

import math
import os
from contextlib import nullcontext
from dataclasses import replace
from importlib.util import find_spec

import torch

from kvlib.gpu.arguments import check_arguments, check_blocks
from kvlib.gpu.capability import MATRIX_FROM, NATIVE_FP8_FROM, TRITON_FROM
from kvlib.gpu.plan import MAX_SPLITS, choose_splits, padded, plan
from kvlib.gpu.triton_cache import writable_cache


def paged_decode(
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
    """Each sequence's newest query over all that its blocks hold: (B, H, D), in the format of q.

    q (B, H, D) float32, float16 or bfloat16. Pools K, V (num_blocks, block_size, Hkv, D) in the format of q, or
    float8_e4m3fn with k_scale, v_scale (num_blocks, block_size, Hkv) float32. block_tables (B, M) int32 or int64, -1
    after a sequence's last block. seq_lens (B,): tokens held, 0 to M * block_size; a sequence of none gets zeros.
    splits: parts of the context, None = as many as keep the GPU busy. fp8: "native" or "bits", how FP8 is read; None =
    native where the GPU can. check: whether to look at every block number first; None = on the CPU only, because on a
    GPU that waits for all queued work. Unchecked, a token whose block number is wrong counts as not held.

    Raises ValueError for what does not go together, and where the kernel cannot run: `torch_decode` runs everywhere.

    >>> q, pool = torch.zeros(1, 2, 4), torch.zeros(3, 2, 1, 4)
    >>> paged_decode(q, pool, pool, torch.tensor([[0, 2]]), torch.tensor([3]), splits=99)
    Traceback (most recent call last):
    ValueError: splits is 1 to 64, not 99
    """
    is_fp8 = check_arguments(q, K, V, block_tables, seq_lens, k_scale, v_scale)
    for name, pool in (("K", K), ("V", V), ("k_scale", k_scale), ("v_scale", v_scale)):
        if pool is not None and not pool.is_contiguous():
            raise ValueError(f"{name} must be contiguous: a pool is too large to be copied for each step")
    if splits is not None and not 1 <= splits <= MAX_SPLITS:
        raise ValueError(f"splits is 1 to {MAX_SPLITS}, not {splits}")
    if fp8 not in (None, "native", "bits"):
        raise ValueError(f"fp8 is 'native' or 'bits', not {fp8!r}")
    on_gpu = q.device.type == "cuda"
    capability = _capability(q.device) if on_gpu else _interpreter()
    if is_fp8 and fp8 == "native" and capability < NATIVE_FP8_FROM:
        raise ValueError(f"native FP8 needs compute capability 8.9, this GPU has {capability[0]}.{capability[1]}")
    if check or (check is None and not on_gpu):
        check_blocks(block_tables, seq_lens, K.shape[0], K.shape[1])
    mode = (fp8 or ("native" if capability >= NATIVE_FP8_FROM else "bits")) if is_fp8 else "none"
    if q.shape[0] == 0:
        return torch.empty_like(q)
    arguments = q.contiguous(), K, V, block_tables.contiguous(), seq_lens.contiguous(), k_scale, v_scale
    with torch.cuda.device(q.device) if on_gpu else nullcontext():  # Triton launches on the current device
        return _launch(*arguments, splits, mode, capability)


def _launch(
    q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    block_tables: torch.Tensor,
    seq_lens: torch.Tensor,
    k_scale: torch.Tensor | None,
    v_scale: torch.Tensor | None,
    splits: int | None,
    mode: str,
    capability: tuple[int, int],
) -> torch.Tensor:
    writable_cache()
    import triton.language as tl

    from kvlib.gpu.kernel import attend_split, merge_splits

    (B, H, D), (num_blocks, block_size, Hkv, _) = q.shape, K.shape
    on_gpu = q.device.type == "cuda"
    built = plan(H, Hkv, D, str(q.dtype).removeprefix("torch."), matrix_units=capability >= MATRIX_FROM)
    if not on_gpu:  # the interpreter can load and convert 16-bit numbers, but not calculate with all of them
        built = replace(built, compute="float32")
    if splits is None:
        processors = torch.cuda.get_device_properties(q.device).multi_processor_count if on_gpu else 1
        splits = choose_splits(block_tables.shape[1] * block_size, B * Hkv, processors, built.tile)
    if mode == "bits":
        K, V = K.view(torch.uint8), V.view(torch.uint8)

    # The interpreter cuts digits off where a GPU rounds; so it stores float32, and torch rounds.
    out = torch.empty_like(q, dtype=q.dtype if on_gpu else torch.float32)
    parts, largest, total = out, None, None
    if splits > 1:
        parts = torch.empty(B, H, splits, D, dtype=torch.float32, device=q.device)
        largest, total = (torch.empty(B, H, splits, dtype=torch.float32, device=q.device) for _ in range(2))
    attend_split[(B, Hkv, splits)](
        q, K, V, k_scale, v_scale, block_tables, seq_lens, parts, largest, total,
        math.log2(math.e) / math.sqrt(D), block_tables.shape[1], num_blocks,
        H=H, HKV=Hkv, D=D, GP=built.group, DP=built.dim, BLOCK_SIZE=block_size, TILE=built.tile,
        FP8=mode, COMPUTE=getattr(tl, built.compute), MERGE=splits > 1, **built.options(),
    )  # fmt: skip
    if splits > 1:
        merge_splits[(B * H,)](parts, largest, total, out, splits, D=D, DP=built.dim, SP=padded(splits, 2))
    return out.to(q.dtype)


def _capability(device: torch.device) -> tuple[int, int]:
    capability = torch.cuda.get_device_capability(device)
    if find_spec("triton") is None:
        raise ValueError("the kernel needs triton, which is not installed; torch_decode does without")
    if capability < TRITON_FROM:
        needs, has = (".".join(map(str, pair)) for pair in (TRITON_FROM, capability))
        raise ValueError(f"the kernel needs compute capability {needs}, this GPU has {has}; torch_decode runs on it")
    return capability


def _interpreter() -> tuple[int, int]:
    """What the interpreter can do, in a process that was started for it."""
    if os.environ.get("TRITON_INTERPRET") != "1" or find_spec("triton") is None:
        raise ValueError("the kernel runs on a GPU; on a CPU use torch_decode, or python -m kvlib.gpu.interpret")
    return NATIVE_FP8_FROM
