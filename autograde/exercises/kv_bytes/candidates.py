"""Wrong and right ways to count the bytes of a cache."""

from __future__ import annotations

import math

import numpy as np

from autograde.exercise import Mistake, Variant


def keys_only(layers, heads, dim, lengths, width):
    return layers * heads * dim * sum(lengths) * width


def no_layers(layers, heads, dim, lengths, width):
    return 2 * heads * dim * sum(lengths) * width


def no_heads(layers, heads, dim, lengths, width):
    return 2 * layers * dim * sum(lengths) * width


def no_head_dim(layers, heads, dim, lengths, width):
    return 2 * layers * heads * sum(lengths) * width


def elements(layers, heads, dim, lengths, width):
    return 2 * layers * heads * dim * sum(lengths)


def two_bytes(layers, heads, dim, lengths, width):
    return 2 * layers * heads * dim * sum(lengths) * 2


def bits(layers, heads, dim, lengths, width):
    return 2 * layers * heads * dim * sum(lengths) * width * 8


def width_in_bits(layers, heads, dim, lengths, width):
    return 2 * layers * heads * dim * sum(lengths) * width // 8


def queries_too(layers, heads, dim, lengths, width):
    return 3 * layers * heads * dim * sum(lengths) * width


def head_dim_is_the_width(layers, heads, dim, lengths, width):
    return 2 * layers * heads * (dim // heads) * sum(lengths) * width


def newest_not_counted(layers, heads, dim, lengths, width):
    return 2 * layers * heads * dim * sum(n - 1 for n in lengths) * width


def one_more(layers, heads, dim, lengths, width):
    return 2 * layers * heads * dim * sum(n + 1 for n in lengths) * width


def kilobytes(layers, heads, dim, lengths, width):
    return 2 * layers * heads * dim * sum(lengths) * width / 1024


def gibibytes(layers, heads, dim, lengths, width):
    return 2 * layers * heads * dim * sum(lengths) * width / 2**30


def no_tokens(layers, heads, dim, lengths, width):
    return 2 * layers * heads * dim * len(lengths) * width


def squares(layers, heads, dim, lengths, width):
    return 2 * layers * heads * dim * sum(n * n for n in lengths) * width


def every_step_added(layers, heads, dim, lengths, width):
    return 2 * layers * heads * dim * sum(n * (n + 1) // 2 for n in lengths) * width


def padded(layers, heads, dim, lengths, width):
    return 2 * layers * heads * dim * len(lengths) * max(lengths, default=0) * width


def longest_only(layers, heads, dim, lengths, width):
    return 2 * layers * heads * dim * max(lengths, default=0) * width


def like_the_first(layers, heads, dim, lengths, width):
    return 2 * layers * heads * dim * len(lengths) * (lengths[0] if lengths else 0) * width


def first_only(layers, heads, dim, lengths, width):
    return 2 * layers * heads * dim * sum(lengths[:1]) * width


def last_only(layers, heads, dim, lengths, width):
    return 2 * layers * heads * dim * sum(lengths[-1:]) * width


def mean_length(layers, heads, dim, lengths, width):
    mean = sum(lengths) // max(len(lengths), 1)
    return 2 * layers * heads * dim * len(lengths) * mean * width


def alike_counted_once(layers, heads, dim, lengths, width):
    return 2 * layers * heads * dim * sum(set(lengths)) * width


def batch_twice(layers, heads, dim, lengths, width):
    return 2 * layers * heads * dim * sum(lengths) * len(lengths) * width


def at_least_two_bytes(layers, heads, dim, lengths, width):
    return 2 * layers * heads * dim * sum(lengths) * max(width, 2)


def at_least_one_token(layers, heads, dim, lengths, width):
    return 2 * layers * heads * dim * sum(max(n, 1) for n in lengths) * width


def refuses_an_empty_batch(layers, heads, dim, lengths, width):
    if not lengths:
        raise ValueError("no sequence")
    return 2 * layers * heads * dim * sum(lengths) * width


def one_when_empty(layers, heads, dim, lengths, width):
    return 2 * layers * heads * dim * (sum(lengths) if lengths else 1) * width


def stops_at_an_empty_sequence(layers, heads, dim, lengths, width):
    total = 0
    for n in lengths:
        if n == 0:
            break
        total += 2 * layers * heads * dim * n * width
    return total


def in_32_bits(layers, heads, dim, lengths, width):
    return np.prod([2, layers, heads, dim, sum(lengths), width]).astype(np.int32)


def in_floats(layers, heads, dim, lengths, width):
    return int(2.0 * layers * heads * dim * sum(lengths) * width)


MISTAKES = (
    Mistake(
        "keys-only",
        keys_only,
        "You count the keys alone. Every token leaves a key and a value in each layer: twice as much.",
        killed_by="one token",
    ),
    Mistake(
        "layers-forgotten",
        no_layers,
        "This is one layer. Every layer has a cache of its own: times num_layers.",
        killed_by="one token",
    ),
    Mistake(
        "heads-forgotten",
        no_heads,
        "This is one KV head. A layer keeps a key and a value for each of its KV heads: times num_kv_heads.",
        killed_by="one token",
    ),
    Mistake(
        "head-dim-forgotten",
        no_head_dim,
        "You count vectors. A key or a value of one head has head_dim elements.",
        killed_by="one token",
    ),
    Mistake(
        "elements-not-bytes",
        elements,
        "This is the number of elements. Each takes bytes_per_element bytes.",
        killed_by="one token",
    ),
    Mistake(
        "always-two-bytes",
        two_bytes,
        "You count two bytes for each element, as in 16 bit. The last argument says how many there are.",
        killed_by="one token",
    ),
    Mistake("bits-not-bytes", bits, "This is in bits. Bytes are asked: do not multiply by 8.", killed_by="one token"),
    Mistake(
        "width-read-as-bits",
        width_in_bits,
        "You divide by 8, as if the last argument were bits. It is bytes already.",
        killed_by="one token",
    ),
    Mistake(
        "queries-kept-too",
        queries_too,
        "You count three arrays. A query is used at one step and never again: only K and V are kept.",
        killed_by="one token",
    ),
    Mistake(
        "head-dim-divided-by-heads",
        head_dim_is_the_width,
        "You divide head_dim by the number of heads. It is the size of one head already, not the width of the model.",
        killed_by="one token",
    ),
    Mistake(
        "newest-token-left-out",
        newest_not_counted,
        "You count one token less for each sequence. The lengths say how many tokens are held.",
        killed_by="one token",
    ),
    Mistake(
        "one-token-more",
        one_more,
        "You count one token more for each sequence. The next token is not there yet.",
        killed_by="one token",
    ),
    Mistake("kilobytes", kilobytes, "This is in KiB. The answer is in bytes, a whole number.", killed_by="one token"),
    Mistake("gibibytes", gibibytes, "This is in GiB. The answer is in bytes, a whole number.", killed_by="one token"),
    Mistake(
        "sequences-not-tokens",
        no_tokens,
        "You count the sequences: len(seq_lens). What takes room are their tokens.",
        killed_by="one sequence",
    ),
    Mistake(
        "scores-not-rows",
        squares,
        "You square the length, as for attention scores. The cache holds one row per token and grows in a line.",
        killed_by="one sequence",
    ),
    Mistake(
        "every-step-added-up",
        every_step_added,
        "You add up the cache of every step, 1 + 2 + ... + n. It is one cache: at the end it holds n tokens.",
        killed_by="one sequence",
    ),
    Mistake(
        "padded-to-the-longest",
        padded,
        "You take the longest length for every sequence. No padding is kept here: add up the lengths.",
        killed_by="unequal lengths",
    ),
    Mistake(
        "longest-only",
        longest_only,
        "You count the longest sequence only. The batch keeps the tokens of all of them.",
        killed_by="unequal lengths",
    ),
    Mistake(
        "all-as-long-as-the-first",
        like_the_first,
        "You take the first length for every sequence. Add up the lengths, each as it is.",
        killed_by="unequal lengths",
    ),
    Mistake(
        "first-sequence-only",
        first_only,
        "You count the first sequence only. The batch keeps the tokens of all of them.",
        killed_by="unequal lengths",
    ),
    Mistake(
        "last-sequence-only",
        last_only,
        "You count the last sequence only. Is a total overwritten in a loop, where it should be added to?",
        killed_by="unequal lengths",
    ),
    Mistake(
        "mean-rounded-down",
        mean_length,
        "You multiply by a mean length that was rounded down. Add up the lengths instead.",
        killed_by="unequal lengths",
    ),
    Mistake(
        "equal-lengths-counted-once",
        alike_counted_once,
        "Two sequences of the same length are counted once, as in a set or a dict. Each has a cache of its own.",
        killed_by="unequal lengths",
    ),
    Mistake(
        "batch-counted-twice",
        batch_twice,
        "The sum of the lengths holds every sequence already. Do not multiply by their number again.",
        killed_by="unequal lengths",
    ),
    Mistake(
        "at-least-two-bytes",
        at_least_two_bytes,
        "You count two bytes where an element takes one. FP8 and INT8 have one byte for each.",
        killed_by="eight bits",
    ),
    Mistake(
        "at-least-one-token",
        at_least_one_token,
        "A sequence that holds no token counts as one here. It takes 0 bytes.",
        killed_by="nothing to hold",
    ),
    Mistake(
        "empty-batch-refused",
        refuses_an_empty_batch,
        "You refuse a batch without sequences. It is a fair question, and the answer is 0.",
        killed_by="nothing to hold",
    ),
    Mistake(
        "empty-batch-as-one-token",
        one_when_empty,
        "A batch without sequences counts as one token here. It takes 0 bytes.",
        killed_by="nothing to hold",
    ),
    Mistake(
        "stops-at-an-empty-sequence",
        stops_at_an_empty_sequence,
        "Your loop ends at the first sequence that holds no token. Those after it count as well.",
        killed_by="nothing to hold",
    ),
    Mistake(
        "wraps-at-32-bits",
        in_32_bits,
        "The number wrapped around: it was counted in 32 bits. Use Python's whole numbers, or int64.",
        killed_by="large",
    ),
    Mistake(
        "rounded-as-a-float",
        in_floats,
        "A float holds about 16 digits, so the last ones are lost. Multiply whole numbers only.",
        killed_by="large",
    ),
)


def by_product(num_layers, num_kv_heads, head_dim, seq_lens, bytes_per_element):
    return math.prod([bytes_per_element, sum(seq_lens), head_dim, num_kv_heads, num_layers, 2])


def by_loop(num_layers, num_kv_heads, head_dim, seq_lens, bytes_per_element):
    total = 0
    for _layer in range(num_layers):
        for length in seq_lens:
            for _head in range(num_kv_heads):
                for _array in ("K", "V"):
                    total += length * head_dim * bytes_per_element
    return total


def by_sequence(L, Hkv, D, lengths, s):
    def one(length):
        return L * (Hkv * length * D + Hkv * length * D) * s

    return sum(map(one, lengths))


def in_int64(L, Hkv, D, lengths, s):
    return np.array(lengths, dtype=np.int64).sum() * np.int64(2) * L * Hkv * D * s


def in_bits(L, Hkv, D, lengths, s):
    bits_of_a_token = 16 * s * L * Hkv * D
    return [bits_of_a_token // 8 * sum(lengths)][0]


def float_when_small(L, Hkv, D, lengths, s):
    total = 2 * L * Hkv * D * sum(lengths) * s
    return float(total) if total < 2**53 else total


def by_shape(L, Hkv, D, lengths, s):
    shapes = [(2, L, Hkv, length, D) for length in lengths]
    return s * sum(math.prod(shape) for shape in shapes)


VARIANTS = (
    Variant("a product, factors reversed", by_product),
    Variant("loops over layers, sequences and heads", by_loop),
    Variant("sequence by sequence", by_sequence),
    Variant("NumPy's int64", in_int64),
    Variant("bits, divided by 8 at the end", in_bits),
    Variant("a whole float where it is exact", float_when_small),
    Variant("shapes of the buffers", by_shape),
)
