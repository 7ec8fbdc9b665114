"""Decode attention over a paged KV cache, in Triton. Started through `kvlib.gpu.paged_decode`, which checks everything.

One program attends for one sequence, one KV head and one part ("split") of the context. It holds the G query heads that
share this KV head, so keys and values are read once for all of them. It walks through its part in tiles of TILE tokens:
asks the block table where each token lies, loads the rows, and folds them into a running softmax of which only the
largest score m, the sum l of the powers and the weighted sum of the values are kept. With more than one split these
three are written out for each, and `merge_splits` puts them together.

All softmax arithmetic is float32. Scores are exponents of two (2**x is what the hardware has), so the scale that is
passed in contains log2(e).
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def e4m3_from_bits(codes):
    """FP8 E4M3 codes (uint8) as float16, exactly, for machines that have no instruction for it.

    E4M3 and float16 put sign, exponent and mantissa in the same order. Moved into place, the seven bits below the sign
    are a float16 that is 2**8 too small, because float16 counts its exponents from 15 and E4M3 from 7. That holds for
    the smallest numbers too, which have no leading one in either format. Only the code of "not a number" needs care.
    """
    codes = codes.to(tl.uint16)
    size = codes & 0x7F
    half = tl.where(size == 0x7F, 0x7E00, size << 7) | ((codes & 0x80) << 8)
    return half.to(tl.uint16).to(tl.float16, bitcast=True) * 256.0


@triton.jit
def load_rows(pool, slots, held, D: tl.constexpr, DP: tl.constexpr, FP8: tl.constexpr, COMPUTE: tl.constexpr):
    """Rows (TILE, DP) of a pool in the format that is calculated with; zeros where nothing is held."""
    dims = tl.arange(0, DP)
    # other=0: what is not held may be anything, and nothing times NaN is NaN.
    rows = tl.load(pool + slots[:, None] * D + dims[None, :], mask=held[:, None] & (dims < D)[None, :], other=0.0)
    if FP8 == "bits":
        rows = e4m3_from_bits(rows)
    return rows.to(COMPUTE)


@triton.jit
def attend_split(
    q,  # (B, H, D)
    k,  # (num_blocks, BLOCK_SIZE, HKV, D): float, or FP8, or the bytes of FP8
    v,
    k_scale,  # (num_blocks, BLOCK_SIZE, HKV) float32; None without FP8
    v_scale,
    tables,  # (B, table_width) whole numbers, -1 where there is no block
    lens,  # (B,)
    out,  # (B, H, D), or (B, H, num_splits, D) float32 when there is something to merge
    largest,  # (B, H, num_splits) float32; None when there is nothing to merge
    total,
    score_scale,  # log2(e) / sqrt(D)
    table_width,
    num_blocks,
    H: tl.constexpr,
    HKV: tl.constexpr,
    D: tl.constexpr,
    GP: tl.constexpr,  # query heads of a KV head, padded
    DP: tl.constexpr,  # D, padded
    BLOCK_SIZE: tl.constexpr,
    TILE: tl.constexpr,
    FP8: tl.constexpr,  # "none", "native" or "bits"
    COMPUTE: tl.constexpr,  # the format of the products
    MERGE: tl.constexpr,  # whether the parts are to be merged
):
    """Grid: (B, HKV, num_splits). A split without tokens has m = -inf, l = 0 and a sum of zeros."""
    sequence, kv_head, split = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.program_id(2)
    num_splits = tl.num_programs(2)
    G: tl.constexpr = H // HKV
    group, dims, tokens = tl.arange(0, GP), tl.arange(0, DP), tl.arange(0, TILE)
    heads = sequence * H + kv_head * G + group  # (GP,)
    shape_mask = (group < G)[:, None] & (dims < D)[None, :]
    queries = tl.load(q + heads[:, None] * D + dims[None, :], mask=shape_mask, other=0.0).to(COMPUTE)

    length = tl.minimum(tl.load(lens + sequence).to(tl.int32), table_width * BLOCK_SIZE)
    part = tl.cdiv(tl.cdiv(length, TILE), num_splits) * TILE  # tokens of a split, in whole tiles
    first = split * part
    last = tl.minimum(first + part, length)

    m = tl.full([GP], -float("inf"), tl.float32)
    l = tl.zeros([GP], tl.float32)  # noqa: E741 - the usual name
    acc = tl.zeros([GP, DP], tl.float32)
    for start in range(first, last, TILE):
        positions = start + tokens
        block = tl.load(tables + sequence * table_width + positions // BLOCK_SIZE, mask=positions < last, other=-1)
        block = block.to(tl.int64)  # a pool may have more than 2**31 numbers
        held = (block >= 0) & (block < num_blocks)  # a wrong number is never followed
        slots = (block * BLOCK_SIZE + positions % BLOCK_SIZE) * HKV + kv_head
        keys = load_rows(k, slots, held, D, DP, FP8, COMPUTE)
        values = load_rows(v, slots, held, D, DP, FP8, COMPUTE)

        # "ieee": without it, float32 is rounded to the ten mantissa bits of tf32 first.
        scores = tl.dot(queries, tl.trans(keys), input_precision="ieee") * score_scale
        if FP8 != "none":  # a key's scale multiplies its score: no need to multiply all its numbers
            scores *= tl.load(k_scale + slots, mask=held, other=0.0)[None, :]
        scores = tl.where(held[None, :], scores, -float("inf"))
        new_m = tl.maximum(m, tl.max(scores, 1))
        base = tl.where(new_m == -float("inf"), 0.0, new_m)  # -inf minus -inf would be NaN
        shrink = tl.exp2(m - base)
        powers = tl.exp2(scores - base[:, None])
        l = l * shrink + tl.sum(powers, 1)  # noqa: E741
        acc = acc * shrink[:, None]
        if FP8 == "none":
            acc += tl.dot(powers.to(COMPUTE), values, input_precision="ieee")
        else:  # a value's scale multiplies its weight; relative to the tile's largest, or float16 could not hold it
            scale = tl.load(v_scale + slots, mask=held, other=0.0)
            most = tl.max(scale, 0)
            weights = powers * (scale / tl.where(most == 0.0, 1.0, most))[None, :]
            acc += tl.dot(weights.to(COMPUTE), values, input_precision="ieee") * most
        m = new_m

    if MERGE:
        rows = heads * num_splits + split
        tl.store(largest + rows, m, mask=group < G)
        tl.store(total + rows, l, mask=group < G)
        tl.store(out + rows[:, None] * D + dims[None, :], acc, mask=shape_mask)
    else:
        acc = acc / tl.where(l == 0.0, 1.0, l)[:, None]  # an empty sequence gets zeros
        tl.store(out + heads[:, None] * D + dims[None, :], acc.to(out.dtype.element_ty), mask=shape_mask)


@triton.jit
def merge_splits(
    parts,  # (B * H, num_splits, D) float32: sums of powers times values
    largest,  # (B * H, num_splits) float32
    total,
    out,  # (B * H, D)
    num_splits,
    D: tl.constexpr,
    DP: tl.constexpr,
    SP: tl.constexpr,  # num_splits, padded
):
    """Grid: (B * H,). Each split's sums are brought to the largest score of all of them, and added."""
    row = tl.program_id(0).to(tl.int64)
    splits, dims = tl.arange(0, SP), tl.arange(0, DP)
    rows, there = row * num_splits + splits, splits < num_splits
    m = tl.load(largest + rows, mask=there, other=-float("inf"))
    top = tl.max(m, 0)
    weight = tl.exp2(m - tl.where(top == -float("inf"), 0.0, top))  # 0 for a split without tokens
    l = tl.sum(weight * tl.load(total + rows, mask=there, other=0.0), 0)  # noqa: E741
    sums = tl.load(parts + rows[:, None] * D + dims[None, :], mask=there[:, None] & (dims < D)[None, :], other=0.0)
    result = tl.sum(weight[:, None] * sums, 0) / tl.where(l == 0.0, 1.0, l)
    tl.store(out + row * D + dims, result.to(out.dtype.element_ty), mask=dims < D)


@triton.jit
def decode_codes(codes, out, N: tl.constexpr):
    """N codes (uint8) through `e4m3_from_bits`, alone: all 256 can be looked at."""
    at = tl.arange(0, N)
    tl.store(out + at, e4m3_from_bits(tl.load(codes + at)))
