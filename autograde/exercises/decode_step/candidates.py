"""Wrong and right ways to bound one decode step. Each mistake changes one piece of one right function."""

from __future__ import annotations

import statistics
from functools import reduce

import numpy as np

from autograde.exercise import Mistake, Variant


def _read(weights, per_token, lens):
    return weights + per_token * sum(lens)


def _seconds(read, bandwidth):
    return read / bandwidth


def _rate(lens, seconds):
    return len(lens) / seconds


def step(read=_read, seconds=_seconds, rate=_rate, give=lambda *three: three):
    """A function with one of its pieces changed."""

    def decode_step(weights, per_token, lens, bandwidth):
        total = read(weights, per_token, lens)
        time = seconds(total, bandwidth)
        return give(total, time, rate(lens, time))

    return decode_step


def weights_and_cache_at_once(weights, per_token, lens, bandwidth):
    cache = per_token * sum(lens)
    seconds = max(weights, cache) / bandwidth
    return weights + cache, seconds, len(lens) / seconds


ALONE = "one sequence"
BATCH = "a batch"
EMPTY = "an empty cache"

MISTAKES = (
    Mistake(
        "no-weights",
        step(read=lambda weights, per_token, lens: per_token * sum(lens)),
        "You read the cache only. Every step also reads all weights.",
        killed_by=ALONE,
    ),
    Mistake(
        "no-cache",
        step(read=lambda weights, per_token, lens: weights),
        "You read the weights only. Attention also reads the keys and values of every token held.",
        killed_by=ALONE,
    ),
    Mistake(
        "one-token-of-cache",
        step(read=lambda weights, per_token, lens: weights + per_token * len(lens)),
        "You read one token of cache for each sequence. The new token looks at all tokens held.",
        killed_by=ALONE,
    ),
    Mistake(
        "two-tensors-again",
        step(read=lambda weights, per_token, lens: weights + 2 * per_token * sum(lens)),
        "You count the cache twice. kv_bytes_per_token is K and V together.",
        killed_by=ALONE,
    ),
    Mistake(
        "new-token-read-too",
        step(read=lambda weights, per_token, lens: weights + per_token * (sum(lens) + len(lens))),
        "You add a token to each sequence. seq_lens says what each holds, and that is what is read.",
        killed_by=ALONE,
    ),
    Mistake(
        "weights-for-every-token",
        step(read=lambda weights, per_token, lens: (weights + per_token) * sum(lens)),
        "You read the weights again for every token in the cache. One step reads them once.",
        killed_by=ALONE,
    ),
    Mistake(
        "seconds-upside-down",
        step(seconds=lambda read, bandwidth: bandwidth / read, rate=lambda lens, seconds: len(lens) * seconds),
        "Seconds are bytes over bytes per second. You divide the other way round.",
        killed_by=ALONE,
    ),
    Mistake(
        "whole-seconds",
        step(seconds=lambda read, bandwidth: read // bandwidth),
        "You round the seconds down with `//`. Divide with `/`: a step takes a few thousandths of one.",
        killed_by=ALONE,
    ),
    Mistake(
        "milliseconds",
        step(seconds=lambda read, bandwidth: 1000 * read / bandwidth, rate=lambda lens, ms: 1000 * len(lens) / ms),
        "Your time is a thousand times too large. It is wanted in seconds, not in milliseconds.",
        killed_by=ALONE,
    ),
    Mistake(
        "tokens-per-millisecond",
        step(rate=lambda lens, seconds: len(lens) / (1000 * seconds)),
        "Your tokens per second are a thousand times too small: tokens per millisecond.",
        killed_by=ALONE,
    ),
    Mistake(
        "seconds-rounded",
        step(seconds=lambda read, bandwidth: round(read / bandwidth, 2)),
        "You round the seconds. Round what you print, not what you return.",
        killed_by=ALONE,
    ),
    Mistake(
        "rate-rounded",
        step(rate=lambda lens, seconds: round(len(lens) / seconds, 2)),
        "You round the tokens per second. Round what you print, not what you return.",
        killed_by=ALONE,
    ),
    Mistake(
        "seconds-per-token",
        step(rate=lambda lens, seconds: seconds / len(lens)),
        "Your last number is seconds per token. Tokens per second is the other way round.",
        killed_by=ALONE,
    ),
    Mistake(
        "tokens-held-per-second",
        step(rate=lambda lens, seconds: sum(lens) / seconds),
        "You count the tokens held as tokens made. A step makes one new token for each sequence.",
        killed_by=ALONE,
    ),
    Mistake(
        "overlapped",
        weights_and_cache_at_once,
        "You take the longer of reading weights and reading cache. Both come through the same memory: add them.",
        killed_by=ALONE,
    ),
    Mistake(
        "seconds-and-rate-swapped",
        step(give=lambda read, seconds, rate: (read, rate, seconds)),
        "The last two numbers have changed places: (bytes_read, seconds, tokens_per_second).",
        killed_by=ALONE,
    ),
    Mistake(
        "bytes-left-out",
        step(give=lambda read, seconds, rate: (seconds, rate)),
        "Two numbers come back. Wanted are three: (bytes_read, seconds, tokens_per_second).",
        killed_by=ALONE,
    ),
    Mistake(
        "longest-for-all",
        step(read=lambda weights, per_token, lens: weights + per_token * len(lens) * max(lens)),
        "You pad every sequence to the longest. Read what each holds: the sum of the lengths.",
        killed_by=BATCH,
    ),
    Mistake(
        "longest-only",
        step(read=lambda weights, per_token, lens: weights + per_token * max(lens)),
        "You read the longest cache only. A step reads the caches of all sequences.",
        killed_by=BATCH,
    ),
    Mistake(
        "first-only",
        step(read=lambda weights, per_token, lens: weights + per_token * lens[0]),
        "You read the cache of the first sequence only. A step reads the caches of all of them.",
        killed_by=BATCH,
    ),
    Mistake(
        "mean-length",
        step(read=lambda weights, per_token, lens: weights + per_token * sum(lens) / len(lens)),
        "You read one cache of average length. A step reads the caches of all sequences: the sum of the lengths.",
        killed_by=BATCH,
    ),
    Mistake(
        "weights-for-every-sequence",
        step(read=lambda weights, per_token, lens: len(lens) * weights + per_token * sum(lens)),
        "You read the weights once for each sequence. The batch shares one reading: that is what batching is for.",
        killed_by=BATCH,
    ),
    Mistake(
        "cache-read-by-everyone",
        step(read=lambda weights, per_token, lens: weights + per_token * sum(lens) * len(lens)),
        "You read all caches once for each sequence. Each sequence reads its own only.",
        killed_by=BATCH,
    ),
    Mistake(
        "one-sequence-per-second",
        step(rate=lambda lens, seconds: 1 / seconds),
        "This is what one user sees. The step makes one token for each sequence: multiply by their number.",
        killed_by=BATCH,
    ),
    Mistake(
        "rate-shared-out",
        step(rate=lambda lens, seconds: 1 / seconds / len(lens)),
        "You divide by the number of sequences. Each of them gets a token in the same step: multiply.",
        killed_by=BATCH,
    ),
    Mistake(
        "seconds-shared-out",
        step(give=lambda read, seconds, rate: (read, 1 / rate, rate)),
        "You give seconds per token. Wanted are the seconds of the whole step, which every sequence waits for.",
        killed_by=BATCH,
    ),
    Mistake(
        "equal-lengths-once",
        step(read=lambda weights, per_token, lens: weights + per_token * sum(set(lens))),
        "Two sequences of the same length are two caches. You read one of them.",
        killed_by=BATCH,
    ),
    Mistake(
        "empty-sequences-not-counted",
        step(rate=lambda lens, seconds: sum(held > 0 for held in lens) / seconds),
        "A sequence that holds nothing yet also gets a new token. You count only those with a cache.",
        killed_by=EMPTY,
    ),
    Mistake(
        "empty-cache-is-one-token",
        step(read=lambda weights, per_token, lens: weights + per_token * sum(max(held, 1) for held in lens)),
        "You read a token from an empty cache. There is nothing in it.",
        killed_by=EMPTY,
    ),
)


def by_loop(weights, per_token, lens, bandwidth):
    read, made = weights, 0
    for held in lens:
        read += held * per_token
        made += 1
    seconds = read / bandwidth
    return [read, seconds, made / seconds]


def by_arrays(weights, per_token, lens, bandwidth):
    lens = np.asarray(lens, dtype=np.float64)
    caches = lens * per_token
    read = caches.sum() + weights
    return np.array([read, read / bandwidth, lens.size * bandwidth / read])


def by_times(weights, per_token, lens, bandwidth):
    """Times are added, not bytes."""
    per_user = weights / bandwidth + sum(per_token * held / bandwidth for held in lens)
    return per_user * bandwidth, per_user, (1 / per_user) * len(lens)


def by_mean(weights, per_token, lens, bandwidth):
    """The mean length times the number of sequences is the sum."""
    read = reduce(lambda total, held: total + held * per_token, lens, weights)
    seconds = (weights + len(lens) * statistics.mean(lens) * per_token) / bandwidth
    return read, seconds, len(lens) / seconds


VARIANTS = (
    Variant("a loop, returned as a list", by_loop),
    Variant("NumPy arrays", by_arrays),
    Variant("times instead of bytes", by_times),
    Variant("the mean length", by_mean),
)
