"""Bounds of time: what one decode step must read, and whether memory or arithmetic is the limit.

Source: Williams, Waterman and Patterson 2009 (Roofline).
"""

from __future__ import annotations

import math
from collections.abc import Sequence


def decode_step(
    weight_bytes: float, kv_bytes_per_token: float, seq_lens: Sequence[int], bandwidth: float
) -> tuple[float, float, float]:
    """One decode step for a batch of sequences: (bytes read, seconds, tokens per second).

    weight_bytes: read once, whatever the batch. kv_bytes_per_token: of the whole model, for one token of one sequence.
    seq_lens: tokens held by each sequence. bandwidth: bytes per second.

    Every sequence gets one new token. The seconds are a lower bound: bytes over bandwidth and nothing else. Bytes read
    are an int when both byte counts are. ValueError for an empty batch, a negative number, or no bandwidth.

    >>> decode_step(16_000, 10, [100, 300], 2_000)
    (20000, 10.0, 0.2)
    """
    lengths = list(seq_lens)
    _positive(bandwidth=bandwidth)
    _not_negative(weight_bytes=weight_bytes, kv_bytes_per_token=kv_bytes_per_token)
    if not lengths or min(lengths) < 0:
        raise ValueError(f"seq_lens must hold a length of at least 0 for each of 1 or more sequences, got {lengths}")
    bytes_read = weight_bytes + kv_bytes_per_token * sum(lengths)
    if bytes_read == 0:
        raise ValueError("nothing to read: no weights, and no bytes of cache")
    seconds = bytes_read / bandwidth
    return bytes_read, seconds, len(lengths) / seconds


def crossover(weight_bytes: float, kv_bytes_per_token: float) -> int:
    """Cached tokens, of all sequences together, at which a decode step reads as many bytes of cache as of weights.

    Rounded to the nearest token. ValueError for a negative size of weights, or no bytes per token.

    >>> crossover(15_000_000_000, 131_072)  # 15 GB of weights, tokens of Llama 3 8B
    114441
    """
    _not_negative(weight_bytes=weight_bytes)
    _positive(kv_bytes_per_token=kv_bytes_per_token)
    return round(weight_bytes / kv_bytes_per_token)


def roofline(flops: float, bytes_moved: float, peak_flops: float, bandwidth: float) -> tuple[float, float, float, str]:
    """A piece of work on a device: (intensity, ridge, seconds, binds).

    intensity: FLOP done for each byte moved. ridge: the intensity from which arithmetic is the limit, peak over
    bandwidth. seconds: the lower bound of the time, which is the larger of moving and computing, as they overlap.
    binds: "memory" below the ridge, else "compute". Units: FLOP, bytes, FLOP/s, bytes/s. ValueError unless all are
    above 0 (flops may be 0).

    >>> roofline(1_000, 500, 8_000, 1_000)
    (2.0, 8.0, 0.5, 'memory')
    """
    _not_negative(flops=flops)
    _positive(bytes_moved=bytes_moved, peak_flops=peak_flops, bandwidth=bandwidth)
    intensity, ridge = flops / bytes_moved, peak_flops / bandwidth
    seconds = max(flops / peak_flops, bytes_moved / bandwidth)
    return intensity, ridge, seconds, "memory" if intensity < ridge else "compute"


def _positive(**values: float) -> None:
    for name, value in values.items():
        if not (value > 0 and math.isfinite(value)):
            raise ValueError(f"{name} must be a finite number above 0, got {value!r}")


def _not_negative(**values: float) -> None:
    for name, value in values.items():
        if not (value >= 0 and math.isfinite(value)):
            raise ValueError(f"{name} must be a finite number of at least 0, got {value!r}")
