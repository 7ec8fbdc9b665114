"""The inner loop of a paged decode kernel, in Triton's language: what a few query heads see of a part of one sequence.

`kvlib.tiles` runs it anywhere; `kvlib.gpu.own_kernel` makes a GPU kernel of its source.
Sources: Milakov and Gimelshein 2018 for the softmax in one pass; Dao et al. 2022 (FlashAttention) for tiles.

Two tokens whose scores are both 0, and whose values are 2 and 4: the largest score, the sum of shares, and the values.

>>> import numpy as np
>>> from kvlib.tiles import numbers, pointer_to, tile
>>> k, v = np.zeros((1, 2, 1, 1), np.float32), np.array([2, 4], np.float32).reshape(1, 2, 1, 1)
>>> pointers = [pointer_to(rows) for rows in (k, v, np.array([0], np.int32))]
>>> found = attend_tiles(tile(np.ones((1, 1), np.float32)), *pointers, tile(0), tile(2), tile(0), tile(1.0), 1, 1, 1, 2)
>>> [numbers(part).tolist() for part in found]
[[0.0], [2.0], [[6.0]]]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the words are Triton's, and a type checker takes `tl.constexpr` for a type only there
    from triton import language as tl
else:
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
