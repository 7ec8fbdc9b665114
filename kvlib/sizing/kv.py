"""The size of a plain cache: the keys and values of all tokens, in all layers."""

from __future__ import annotations

from collections.abc import Iterable

from kvlib.sizing.whole import whole


def kv_bytes(num_layers: int, num_kv_heads: int, head_dim: int, seq_lens: Iterable[int], bytes_per_element: int) -> int:
    """Bytes of K and V of a batch of sequences with these lengths, counted in tokens.

    Every layer keeps a key and a value of `head_dim` elements for each KV head and each token; query heads do not
    enter. For one token pass [1]. Fewer than 8 bits per element need scales as well: see
    `kvlib.sizing.quantised`. ValueError names what is not a whole number, or too small.

    >>> kv_bytes(2, 2, 4, [3], 2)  # each layer holds 24 elements of K and 24 of V
    192
    >>> kv_bytes(32, 8, 128, [1], 2)  # one token of Llama 3 8B: 128 KiB
    131072
    """
    if not isinstance(seq_lens, Iterable) or isinstance(seq_lens, str):
        raise ValueError(f"seq_lens must be a list of lengths, one for each sequence, got {seq_lens!r}")
    tokens = sum(whole(f"length {i} of seq_lens", length) for i, length in enumerate(seq_lens))
    elements = 2  # K and V
    elements *= whole("num_layers", num_layers, at_least=1)
    elements *= whole("num_kv_heads", num_kv_heads, at_least=1)
    elements *= whole("head_dim", head_dim, at_least=1)
    return elements * tokens * whole("bytes_per_element", bytes_per_element, at_least=1)
