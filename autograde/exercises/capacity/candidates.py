"""Wrong and right ways to count what fits. Each mistake changes one piece of one right function."""

from __future__ import annotations

import math
from fractions import Fraction

from autograde.exercise import Mistake, Variant


def _heads(H, tp):
    if H % tp and tp % H:
        raise ValueError(f"{H} KV heads on {tp} GPUs")
    return max(1, H // tp)


def _share(weights, s, tp):
    return -(-weights // tp)


def _left(gpu, share, reserve, tp):
    return gpu - share - reserve


def _slots(tokens, block):
    return -(-tokens // block) * block


def _one(L, heads, D, s, slots, tp):
    return 2 * L * heads * D * s * slots


def _count(left, one, tokens, tp):
    return max(0, left // one)


def fit(heads=_heads, share=_share, left=_left, slots=_slots, one=_one, count=_count):
    """A function with one of its pieces changed."""

    def sequences_that_fit(gpu, weights, reserve, L, H, D, s, tokens, block, tp):
        each = one(L, heads(H, tp), D, s, slots(tokens, block), tp)
        return count(left(gpu, share(weights, s, tp), reserve, tp), each, tokens, tp)

    return sequences_that_fit


def _refusing(rule):
    """Heads on one GPU when refusals follow another rule."""

    def heads(H, tp):
        if rule(H, tp):
            raise ValueError(f"{H} KV heads on {tp} GPUs")
        return max(1, H // tp)

    return heads


def _checked(number):
    """Heads on one GPU by another formula, after the right refusals."""

    def heads(H, tp):
        if H % tp and tp % H:
            raise ValueError(f"{H} KV heads on {tp} GPUs")
        return number(H, tp)

    return heads


def blocks_of_the_batch(gpu, weights, reserve, L, H, D, s, tokens, block, tp):
    each = 2 * L * _heads(H, tp) * D * s
    blocks = max(0, _left(gpu, _share(weights, s, tp), reserve, tp)) // (each * block)
    return blocks * block // tokens


ONE = "one GPU"
EDGES = "just so, or not at all"
BLOCKS = "whole blocks"
SEVERAL = "several GPUs"
REPLICATED = "more GPUs than KV heads"
REFUSALS = "heads that do not share out"

MISTAKES = (
    Mistake(
        "keys-only",
        fit(one=lambda L, heads, D, s, slots, tp: L * heads * D * s * slots),
        "A sequence takes twice what you count: keys, and values too.",
        killed_by=ONE,
    ),
    Mistake(
        "one-layer",
        fit(one=lambda L, heads, D, s, slots, tp: 2 * heads * D * s * slots),
        "You count the cache of one layer. Every layer has its own.",
        killed_by=ONE,
    ),
    Mistake(
        "one-head",
        fit(one=lambda L, heads, D, s, slots, tp: 2 * L * D * s * slots),
        "You count the cache of one KV head. A layer has num_kv_heads of them.",
        killed_by=ONE,
    ),
    Mistake(
        "elements-not-bytes",
        fit(one=lambda L, heads, D, s, slots, tp: 2 * L * heads * D * slots),
        "You count numbers, and the memory is in bytes: bytes_per_element does not enter.",
        killed_by=ONE,
    ),
    Mistake(
        "one-token",
        fit(one=lambda L, heads, D, s, slots, tp: 2 * L * heads * D * s),
        "This is how many tokens fit. A sequence has `tokens` of them.",
        killed_by=ONE,
    ),
    Mistake(
        "tokens-in-all",
        fit(count=lambda left, one, tokens, tp: max(0, left // one) * tokens),
        "You give the tokens of the sequences that fit. Wanted is the number of sequences.",
        killed_by=ONE,
    ),
    Mistake(
        "rounded",
        fit(count=lambda left, one, tokens, tp: max(0, round(left / one))),
        "You round to the nearest number. 97.7 sequences is 97: the last one does not fit.",
        killed_by=ONE,
    ),
    Mistake(
        "rounded-up",
        fit(count=lambda left, one, tokens, tp: max(0, -(-left // one))),
        "You round up. The last sequence fits only in part, and that is no use to anyone: round down.",
        killed_by=ONE,
    ),
    Mistake(
        "not-rounded",
        fit(count=lambda left, one, tokens, tp: max(0, left / one)),
        "You give a fraction of a sequence. Only whole ones fit: round down.",
        killed_by=ONE,
    ),
    Mistake(
        "weights-forgotten",
        fit(left=lambda gpu, share, reserve, tp: gpu - reserve),
        "The weights take no room in your count. They stay on the GPU all the time.",
        killed_by=ONE,
    ),
    Mistake(
        "reserve-forgotten",
        fit(left=lambda gpu, share, reserve, tp: gpu - share),
        "The reserve does not enter. It is kept free, so no cache may use it.",
        killed_by=ONE,
    ),
    Mistake(
        "reserve-added",
        fit(left=lambda gpu, share, reserve, tp: gpu - share + reserve),
        "You add the reserve to the room for the cache. It is to be taken off.",
        killed_by=ONE,
    ),
    Mistake(
        "reserve-for-each-sequence",
        fit(
            left=lambda gpu, share, reserve, tp: (gpu - share, reserve),
            count=lambda left, one, tokens, tp: max(0, left[0] // (one + left[1])),
        ),
        "You keep the reserve free for each sequence. It is kept free once on each GPU.",
        killed_by=ONE,
    ),
    Mistake(
        "weights-times-element-bytes",
        fit(share=lambda weights, s, tp: -(-weights * s // tp)),
        "You multiply weight_bytes by bytes_per_element. They are bytes already, and that size is the cache's.",
        killed_by=ONE,
    ),
    Mistake(
        "gb-over-gib",
        fit(count=lambda left, one, tokens, tp: max(0, int((left / 1e9) // (one / 2**30)))),
        "You have GB (1e9 bytes) above the line and GiB (2**30) below it: 7% too many. Stay in bytes.",
        killed_by=ONE,
    ),
    Mistake(
        "gib-over-gb",
        fit(count=lambda left, one, tokens, tp: max(0, int((left / 2**30) // (one / 1e9)))),
        "You have GiB (2**30 bytes) above the line and GB (1e9) below it: 7% too few. Stay in bytes.",
        killed_by=ONE,
    ),
    Mistake(
        "blocks-rounded-and-one-more",
        fit(slots=lambda tokens, block: (tokens // block + 1) * block),
        "26 tokens fill two blocks of 13; you take a third. `tokens // block_size + 1` is one too many when it divides.",
        killed_by=ONE,
    ),
    Mistake(
        "slots-as-blocks",
        fit(slots=lambda tokens, block: -(-tokens // block)),
        "You count the blocks of a sequence as if each held one token. A block has room for block_size of them.",
        killed_by=ONE,
    ),
    Mistake(
        "block-for-each-token",
        fit(slots=lambda tokens, block: tokens * block),
        "You give a whole block to each token. A block has room for block_size of them.",
        killed_by=ONE,
    ),
    Mistake(
        "last-byte-never-used",
        fit(count=lambda left, one, tokens, tp: max(0, (left - 1) // one)),
        "Six sequences that fill the GPU to the last byte do fit. You leave one out.",
        killed_by=EDGES,
    ),
    Mistake(
        "always-one-less",
        fit(count=lambda left, one, tokens, tp: max(0, left // one - 1)),
        "Your answer is one too small. Rounding down is all that is needed.",
        killed_by=ONE,
    ),
    Mistake(
        "at-least-one",
        fit(count=lambda left, one, tokens, tp: max(1, left // one)),
        "You say 1 where nothing fits. Then the answer is 0.",
        killed_by=EDGES,
    ),
    Mistake(
        "negative",
        fit(count=lambda left, one, tokens, tp: left // one),
        "Weights that do not fit give you a negative number of sequences. None fit: the answer is 0.",
        killed_by=EDGES,
    ),
    Mistake(
        "negative-made-positive",
        fit(count=lambda left, one, tokens, tp: abs(left) // one),
        "You drop the sign of what is left: the further below nothing, the more seems to fit. The answer is 0 there.",
        killed_by=EDGES,
    ),
    Mistake(
        "no-blocks",
        fit(slots=lambda tokens, block: tokens),
        "You count tokens exactly. A sequence takes whole blocks: 17 tokens in blocks of 16 take room for 32.",
        killed_by=BLOCKS,
    ),
    Mistake(
        "blocks-rounded-down",
        fit(slots=lambda tokens, block: max(1, tokens // block) * block),
        "You round the blocks down, so the last tokens of a sequence have no room. Round up.",
        killed_by=BLOCKS,
    ),
    Mistake(
        "blocks-rounded-to-the-nearest",
        fit(slots=lambda tokens, block: max(1, round(tokens / block)) * block),
        "You round the blocks to the nearest number. 17 tokens in blocks of 16 need two: round up.",
        killed_by=BLOCKS,
    ),
    Mistake(
        "blocks-of-the-whole-batch",
        blocks_of_the_batch,
        "You round over the batch, as if sequences could share a block. Each one takes whole blocks of its own.",
        killed_by=BLOCKS,
    ),
    Mistake(
        "one-block-at-most",
        fit(slots=lambda tokens, block: max(tokens, block)),
        "A sequence shorter than a block takes one, but a longer one takes whole blocks as well: round up.",
        killed_by=BLOCKS,
    ),
    Mistake(
        "weights-not-split",
        fit(share=lambda weights, s, tp: weights),
        "Every GPU holds all weights in your count. With tensor parallelism each holds 1/tp of them.",
        killed_by=SEVERAL,
    ),
    Mistake(
        "reserve-once",
        fit(left=lambda gpu, share, reserve, tp: gpu - share - reserve / tp),
        "You share the reserve out among the GPUs. Each GPU keeps all of it free.",
        killed_by=SEVERAL,
    ),
    Mistake(
        "reserve-for-all-on-each",
        fit(left=lambda gpu, share, reserve, tp: gpu - share - reserve * tp),
        "You take the reserve of all GPUs off one of them. Each keeps reserve_bytes free.",
        killed_by=SEVERAL,
    ),
    Mistake(
        "kv-not-split",
        fit(heads=_checked(lambda H, tp: H)),
        "Every GPU holds all KV heads in your count. It holds num_kv_heads // tp of them.",
        killed_by=SEVERAL,
    ),
    Mistake(
        "times-the-gpus",
        fit(count=lambda left, one, tokens, tp: max(0, left // one) * tp),
        "You multiply by the number of GPUs. Every GPU holds a part of every sequence, so what fits on one is the answer.",
        killed_by=SEVERAL,
    ),
    Mistake(
        "divided-by-the-gpus",
        fit(count=lambda left, one, tokens, tp: max(0, left // one // tp)),
        "You divide what fits by the number of GPUs. What fits on one GPU is the answer.",
        killed_by=SEVERAL,
    ),
    Mistake(
        "one-gpu-for-all",
        fit(share=lambda weights, s, tp: weights, heads=_checked(lambda H, tp: H)),
        "The number of GPUs does not enter. Each one holds 1/tp of the weights, and its own part of the KV heads.",
        killed_by=SEVERAL,
    ),
    Mistake(
        "weights-share-rounded-down",
        fit(share=lambda weights, s, tp: weights // tp),
        "You round a GPU's share of the weights down. A byte is missing somewhere then: round up.",
        killed_by=SEVERAL,
    ),
    Mistake(
        "layers-split-too",
        fit(one=lambda L, heads, D, s, slots, tp: 2 * L * heads * D * s * slots / tp),
        "You divide the cache by the number of GPUs twice. Only the KV heads are shared out, not layers or tokens.",
        killed_by=SEVERAL,
    ),
    Mistake(
        "kv-split-without-end",
        fit(heads=_checked(lambda H, tp: H / tp)),
        "You divide the KV heads however many GPUs there are. A head cannot be cut: a GPU holds at least one.",
        killed_by=REPLICATED,
    ),
    Mistake(
        "no-heads-left",
        fit(heads=_checked(lambda H, tp: H // tp)),
        "With more GPUs than KV heads you are left with 0 heads on each. A GPU holds at least one.",
        killed_by=REPLICATED,
    ),
    Mistake(
        "mqa-divided",
        fit(heads=_checked(lambda H, tp: 1 / tp if H == 1 else max(1, H // tp))),
        "You divide a single KV head among the GPUs. It cannot be cut: every GPU holds it.",
        killed_by=REPLICATED,
    ),
    Mistake(
        "all-heads-when-they-run-out",
        fit(heads=_checked(lambda H, tp: H if tp > H else H // tp)),
        "With more GPUs than KV heads, each GPU holds one head. In your count it holds all of them.",
        killed_by=REPLICATED,
    ),
    Mistake(
        "replicas-refused",
        fit(heads=_refusing(lambda H, tp: H % tp)),
        "You refuse more GPUs than KV heads. 8 heads on 16 GPUs work: each head is held twice.",
        killed_by=REPLICATED,
    ),
    Mistake(
        "never-refused",
        fit(heads=lambda H, tp: max(1, H // tp)),
        "8 KV heads on 3 GPUs give you 2 each, so two heads are nowhere. Refuse with ValueError.",
        killed_by=REFUSALS,
    ),
    Mistake(
        "rest-rounded-up",
        fit(heads=lambda H, tp: -(-H // tp)),
        "8 KV heads on 3 GPUs give you 3 each. The heads cannot be shared out evenly: refuse with ValueError.",
        killed_by=REFUSALS,
    ),
    Mistake(
        "fractions-of-heads",
        fit(heads=lambda H, tp: max(1, H / tp)),
        "8 KV heads on 3 GPUs give you 2.67 each. A head cannot be cut: refuse with ValueError.",
        killed_by=REFUSALS,
    ),
    Mistake(
        "refused-only-while-heads-last",
        fit(heads=_refusing(lambda H, tp: tp < H and H % tp)),
        "8 KV heads on 12 GPUs: four heads would be held twice, four once. Neither number divides the other: refuse.",
        killed_by=REFUSALS,
    ),
    Mistake(
        "refused-only-when-heads-run-out",
        fit(heads=_refusing(lambda H, tp: tp > H and tp % H)),
        "8 KV heads on 3 GPUs give you 2 each, so two heads are nowhere. Neither number divides the other: refuse.",
        killed_by=REFUSALS,
    ),
    Mistake(
        "refused-by-answering-none",
        fit(
            heads=lambda H, tp: 0 if H % tp and tp % H else max(1, H // tp),
            count=lambda left, one, tokens, tp: max(0, left // one) if one else None,
        ),
        "You return None for heads that cannot be shared out. Whoever calls goes on with it: raise ValueError.",
        killed_by=REFUSALS,
    ),
    Mistake(
        "refused-by-answering-zero",
        fit(
            heads=lambda H, tp: 0 if H % tp and tp % H else max(1, H // tp),
            count=lambda left, one, tokens, tp: max(0, left // one) if one else 0,
        ),
        "You say that 0 sequences fit when the heads cannot be shared out. That is no answer: raise ValueError.",
        killed_by=REFUSALS,
    ),
)


def by_pools_of_blocks(gpu, weights, reserve, layers, kv_heads, dim, size, tokens, block, tp):
    """Blocks are counted first, as an engine does that makes its pool when it starts."""
    if kv_heads >= tp:
        heads, rest = divmod(kv_heads, tp)
    else:
        heads, rest = 1, tp % kv_heads
    if rest:
        raise ValueError("KV heads do not share out")
    room = gpu - reserve - (weights + tp - 1) // tp
    if room < 0:
        return 0
    pool = room // (2 * layers * heads * dim * size * block)
    return pool // math.ceil(tokens / block)


def by_floats(gpu, weights, reserve, layers, kv_heads, dim, size, tokens, block, tp):
    """The share of the weights is a float. Rounded up or not, the same number of sequences fits."""
    heads = kv_heads / tp if kv_heads > tp else 1.0
    if (heads != int(heads)) or (tp > kv_heads and tp % kv_heads):
        raise ValueError
    left = gpu - reserve - weights / tp
    each = 2.0 * layers * heads * dim * size * math.ceil(tokens / block) * block
    return float(max(0.0, math.floor(left / each)))


def by_filling(gpu, weights, reserve, layers, kv_heads, dim, size, tokens, block, tp):
    """A loop that puts one sequence after the other on a GPU."""
    if max(kv_heads, tp) % min(kv_heads, tp):
        raise ValueError(f"cannot share {kv_heads} heads among {tp}")
    per_token = layers * max(kv_heads // tp, 1) * dim * size * 2
    used, number = reserve + math.ceil(Fraction(weights, tp)), 0
    while True:
        for _ in range(0, tokens, block):
            used += block * per_token
        if used > gpu:
            return number
        number += 1


def over_all_gpus(gpu, weights, reserve, layers, kv_heads, dim, size, tokens, block, tp):
    """Everything summed over the GPUs, each of which holds what the largest holds."""
    held = {gpu_id * kv_heads // tp for gpu_id in range(tp)} if tp >= kv_heads else set(range(kv_heads))
    copies = tp // kv_heads if tp > kv_heads else 1
    if len(held) * copies != max(kv_heads, tp) or (tp < kv_heads and kv_heads % tp):
        raise ValueError("the KV heads cannot be shared out")
    padded = weights + (-weights) % tp
    total = tp * (gpu - reserve) - padded
    blocks = len(range(0, tokens, block))
    each = 2 * layers * kv_heads * copies * dim * size * blocks * block
    return total // each if total > 0 else 0


VARIANTS = (
    Variant("a pool of blocks", by_pools_of_blocks),
    Variant("floats, with a share that is not rounded", by_floats),
    Variant("filled one by one", by_filling),
    Variant("summed over all GPUs", over_all_gpus),
)


def no_room_before_refusing(gpu, weights, reserve, *rest):
    return 0 if gpu <= reserve else fit()(gpu, weights, reserve, *rest)


MISTAKES += (
    Mistake(
        "no-room-before-refusing",
        no_room_before_refusing,
        "Without room you answer 0 before you look at the heads. What does not share out is refused all the same.",
        "heads that do not share out",
    ),
    Mistake(
        "negative-on-several",
        fit(count=lambda left, one, tokens, tp: max(0, left // one) if tp == 1 else left // one),
        "On several GPUs the answer can fall below 0. Less than no room is no room.",
        "several GPUs",
    ),
    Mistake(
        "half-as-many-pairs-accepted",
        fit(heads=_refusing(lambda H, tp: H % tp and tp % H and math.gcd(H, tp) != 2)),
        "You refuse some pairs only: 6 KV heads do not share out on 4 GPUs either.",
        "heads that do not share out",
    ),
    Mistake(
        "two-bytes-at-least",
        fit(one=lambda L, heads, D, s, slots, tp: _one(L, heads, D, max(2, s), slots, tp)),
        "An 8-bit cache is counted with two bytes for each number.",
        "real cards",
    ),
)
