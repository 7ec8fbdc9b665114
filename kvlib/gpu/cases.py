"""Paged caches full of noise, to check and to time with. Everything that no sequence holds is NaN."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from kvlib.recompute_gqa import recompute_gqa

Rows = torch.Tensor
Arguments = tuple[Rows, Rows, Rows, Rows, Rows, Rows | None, Rows | None]


@dataclass
class Case:
    """What `paged_decode` takes, by its names."""

    q: torch.Tensor  # (B, H, D)
    K: torch.Tensor  # (num_blocks, block_size, Hkv, D)
    V: torch.Tensor
    block_tables: torch.Tensor  # (B, M)
    seq_lens: torch.Tensor  # (B,)
    k_scale: torch.Tensor | None = None  # (num_blocks, block_size, Hkv)
    v_scale: torch.Tensor | None = None

    def arguments(self) -> Arguments:
        """All of them in the order of `paged_decode`, in the shapes that stand above."""
        return self.q, self.K, self.V, self.block_tables, self.seq_lens, self.k_scale, self.v_scale

    def nbytes(self) -> int:
        """Bytes of keys, values and scales that one decode step must read."""
        slot = self.K[0, 0].nbytes + self.V[0, 0].nbytes
        if self.k_scale is not None and self.v_scale is not None:
            slot += self.k_scale[0, 0].nbytes + self.v_scale[0, 0].nbytes
        return int(self.seq_lens.sum()) * slot


def make_case(
    lens: list[int],
    num_heads: int,
    num_kv_heads: int,
    head_dim: int,
    block_size: int,
    dtype: torch.dtype = torch.float32,
    fp8: bool = False,
    seed: int = 0,
    device: str | torch.device = "cpu",
) -> Case:
    """Sequences of these lengths in scattered blocks. dtype: of the queries, and of the pools unless fp8.

    An FP8 pool holds codes drawn evenly from all 254 numbers, so all of them are met, with a scale for each row.

    num_heads H, num_kv_heads Hkv, head_dim D; the pools have two blocks more than the sequences need.

    >>> case = make_case([3, 0], num_heads=2, num_kv_heads=1, head_dim=4, block_size=2)
    >>> case.K.shape, case.nbytes()  # 3 tokens * K and V * 4 numbers * 4 bytes
    (torch.Size([4, 2, 1, 4]), 96)
    """
    generator = torch.Generator(device).manual_seed(seed)
    needed = [-(-n // block_size) for n in lens]
    num_blocks = sum(needed) + 2
    order = torch.randperm(num_blocks, generator=torch.Generator().manual_seed(seed)).to(device)
    block_tables = torch.full((len(lens), max([1, *needed])), -1, dtype=torch.int32, device=device)
    held = torch.zeros(num_blocks, block_size, dtype=torch.bool, device=device)
    first = 0
    for row, (n, count) in enumerate(zip(lens, needed, strict=True)):
        blocks = order[first : first + count]
        block_tables[row, :count] = blocks
        held[blocks] = (torch.arange(count * block_size, device=device) < n).view(count, block_size)
        first += count

    shape = (num_blocks, block_size, num_kv_heads, head_dim)
    pools, scales = [], []
    for _ in range(2):
        if fp8:
            codes = torch.randint(254, shape, generator=generator, device=device, dtype=torch.int16)
            codes += codes >= 127  # 127 and 255 are NaN: 0..126, 128..254 are numbers
            codes.masked_fill_(~held[..., None, None], 127)
            pools.append(codes.to(torch.uint8).view(torch.float8_e4m3fn))
            scale = torch.rand(shape[:3], generator=generator, device=device) / 100 + 1 / 1000
            scales.append(scale.masked_fill_(~held[..., None], float("nan")))
        else:
            rows = torch.randn(shape, generator=generator, device=device, dtype=dtype)
            pools.append(rows.masked_fill_(~held[..., None, None], float("nan")))
    q = torch.randn((len(lens), num_heads, head_dim), generator=generator, device=device, dtype=dtype)
    seq_lens = torch.tensor(lens, dtype=torch.int32, device=device)
    return Case(q, pools[0], pools[1], block_tables, seq_lens, *scales)


def expected(case: Case) -> np.ndarray:
    """The right answer (B, H, D) to a case: float64 loops over each sequence's rows. Slow."""
    q = case.q.double().cpu().numpy()  # (B, H, D)
    out = np.zeros(q.shape)
    for b, length in enumerate(case.seq_lens.tolist()):
        if length:
            k, v = (rows.transpose(1, 0, 2)[None] for rows in dense(case, b, length))  # (1, Hkv, S, D)
            out[b] = recompute_gqa(q[b][None, :, None], k, v)[0, :, 0]
    return out


def dense(case: Case, b: int, length: int) -> list[np.ndarray]:
    """Keys and values (S, Hkv, D) of a case's sequence b, S = length, in order, in float64, FP8 times its scales."""
    block_size = case.K.shape[1]
    table = case.block_tables[b].tolist()
    places = [(table[p // block_size], p % block_size) for p in range(length)]
    blocks, offsets = (torch.tensor(row, device=case.K.device) for row in zip(*places, strict=True))
    both = []
    for pool, scale in ((case.K, case.k_scale), (case.V, case.v_scale)):
        if scale is None:
            rows = pool[blocks, offsets].double()
        else:
            codes = pool.view(torch.uint8)[blocks, offsets].view(torch.float8_e4m3fn)
            rows = codes.double() * scale[blocks, offsets].double()[..., None]
        both.append(rows.cpu().numpy())
    return both


def beyond_rounding(result: torch.Tensor, right: np.ndarray) -> float:
    """The largest error of a result, beside the half unit in the last place that its format cannot avoid.

    result, right: of one shape. A result that is no number has an infinite error.
    """
    if not right.size:
        return 0.0
    rounding = np.abs(right) * torch.finfo(result.dtype).eps / 2
    error = np.abs(result.double().cpu().numpy() - right) - rounding
    return float(np.nan_to_num(error, nan=np.inf).max().clip(0))


def tolerance(case: Case, exact_products: bool = True) -> float:
    """How far a right result may be from `expected`.

    Each weight and each output is rounded once to the format of q, by at most half of its eps, and no output is larger
    than the largest value. exact_products: products are summed in float32, as in the kernel; some of PyTorch's ways
    round the scores too. In float32 the order of sums and the hardware's exp2 matter more than rounding.
    """
    values = [dense(case, b, n)[1] for b, n in enumerate(case.seq_lens.tolist()) if n]
    largest = max((np.abs(rows).max() for rows in values), default=0.0)
    times = 100 if case.q.dtype == torch.float32 else 1 if exact_products else 4
    return float(times * torch.finfo(case.q.dtype).eps * largest)
