"""What fits: how many sequences a group of GPUs can hold at once."""

from __future__ import annotations

from kvlib.sizing.whole import whole


def kv_heads_on_one(num_kv_heads: int, tp: int) -> int:
    """KV heads that each of `tp` GPUs holds when a model is split by tensor parallelism.

    While `tp` divides the heads, each GPU holds its share. Past one head for each GPU a head cannot be split, so it is
    held twice or more often, and the cache of one GPU stops shrinking. ValueError when neither divides the other.

    >>> [kv_heads_on_one(8, tp) for tp in (1, 2, 4, 8, 16)]
    [8, 4, 2, 1, 1]
    """
    num_kv_heads, tp = whole("num_kv_heads", num_kv_heads, 1), whole("tp", tp, 1)
    if num_kv_heads % tp and tp % num_kv_heads:
        raise ValueError(f"{num_kv_heads} KV heads and {tp} GPUs: one number must divide the other")
    return max(1, num_kv_heads // tp)


def sequences_that_fit(
    gpu_bytes: int,
    weight_bytes: int,
    reserve_bytes: int,
    num_layers: int,
    num_kv_heads: int,
    head_dim: int,
    bytes_per_element: int,
    tokens: int,
    block_size: int,
    tp: int,
) -> int:
    """Whole sequences of `tokens` tokens that `tp` GPUs of `gpu_bytes` each can hold at once. Never below 0.

    weight_bytes: of the whole model; each GPU holds 1/tp of it, rounded up to a whole byte.
    reserve_bytes: kept free on each GPU for all that is neither weights nor cache.
    bytes_per_element: of one number in the cache; a whole number or a fraction such as 0.5.
    block_size: tokens in one block of cache; a sequence takes whole blocks, and blocks are not shared.

    Every GPU holds its KV heads of every sequence, so the answer is what fits on one. ValueError for a size below 1
    (below 0 for bytes of weights and reserve) and for KV heads that cannot be shared out.

    A pool of 24 GiB, 7e9 weights of two bytes, 2 GiB reserve, and sequences of 4,096 tokens of the Llama 2 7B shape:

    >>> sequences_that_fit(24 * 2**30, 14 * 10**9, 2 * 2**30, 32, 32, 128, 2, 4096, 16, 1)
    4
    """
    left = whole("gpu_bytes", gpu_bytes, 1)
    heads = kv_heads_on_one(num_kv_heads, tp)
    left -= -(-whole("weight_bytes", weight_bytes) // tp)
    left -= whole("reserve_bytes", reserve_bytes)  # what is left on one GPU
    block_size = whole("block_size", block_size, 1)
    slots = -(-whole("tokens", tokens, 1) // block_size) * block_size  # tokens that whole blocks have room for
    if not bytes_per_element > 0:
        raise ValueError(f"bytes_per_element must be above 0, got {bytes_per_element!r}")
    elements = 2 * whole("num_layers", num_layers, 1) * heads * whole("head_dim", head_dim, 1) * slots
    return max(0, int(left // (elements * bytes_per_element)))
