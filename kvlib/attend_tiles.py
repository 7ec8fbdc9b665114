"""The inner loop of a paged decode kernel, in Triton's language: what a few query heads see of a part of one sequence.

`kvlib.tiles` runs it anywhere; `kvlib.gpu.own_kernel` makes a GPU kernel of its source.
"""

from __future__ import annotations

from typing import Any

from kvlib.tiles import tl


def attend_tiles(
    q: Any,
    k: Any,
    v: Any,
    table: Any,
    first: Any,
    last: Any,
    kv_head: Any,
    scale: Any,
    HKV: tl.constexpr,
    GP: tl.constexpr,
    D: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
) -> Any:
    """Attention of GP queries over tokens first to last - 1, not divided: (m, l, acc).

    q: a tile (GP, D). k, v: pointers to pools (num_blocks, BLOCK_SIZE, HKV, D). table: a pointer to the block numbers
    of one sequence. Returns the largest score m (GP,), the sum l (GP,) of exp(score - m), and the sum acc (GP, D) of
    exp(score - m) times the values. GP, D and BLOCK_SIZE are powers of two.
    """
    tokens, dims = tl.arange(0, BLOCK_SIZE), tl.arange(0, D)
    m = tl.full([GP], -float("inf"), tl.float32)
    l = tl.zeros([GP], tl.float32)  # noqa: E741 - the usual name
    acc = tl.zeros([GP, D], tl.float32)
    for start in range(first, last, BLOCK_SIZE):
        positions = start + tokens
        held = positions < last
        block = tl.load(table + positions // BLOCK_SIZE, mask=held, other=0).to(tl.int64)  # a pool can pass 2**31
        slots = (block * BLOCK_SIZE + positions % BLOCK_SIZE) * HKV + kv_head
        places = slots[:, None] * D + dims[None, :]
        keys = tl.load(k + places, mask=held[:, None], other=0.0)
        values = tl.load(v + places, mask=held[:, None], other=0.0)  # 0 times what lies there may be NaN
        scores = tl.sum(q[:, None, :] * keys[None, :, :], 2) * scale
        scores = tl.where(held[None, :], scores, -float("inf"))
        new_m = tl.maximum(m, tl.max(scores, 1))
        shrink = tl.exp(m - new_m)
        powers = tl.exp(scores - new_m[:, None])
        l = l * shrink + tl.sum(powers, 1)  # noqa: E741
        acc = acc * shrink[:, None] + tl.sum(powers[:, :, None] * values[None, :, :], 1)
        m = new_m
    return m, l, acc
