"""Wrong and right ways to say how long a user waits. Each mistake changes one piece of one right function."""

from __future__ import annotations

import math
import statistics

import numpy as np

from autograde.exercise import Mistake, Variant


def _ttft(start, times):
    return times[0] - start


def _itl(start, times):
    return (times[-1] - times[0]) / (len(times) - 1)


def _none(start, times):
    raise ValueError("no token came")


def wait(ttft=_ttft, itl=_itl, single=lambda start, times: None, empty=_none, give=lambda *pair: pair):
    """A function with one of its pieces changed."""

    def latencies(start, times):
        if not times:
            return empty(start, times)
        return give(ttft(start, times), single(start, times) if len(times) == 1 else itl(start, times))

    return latencies


def _gaps(times):
    return [b - a for a, b in zip(times, times[1:], strict=False)]


FIRST = "the first token"
NEXT = "the tokens after it"
ONE = "one token, or none"

MISTAKES = (
    Mistake(
        "absolute",
        wait(ttft=lambda start, times: times[0]),
        "You give the moment at which the first token came. The user waits since `start`: subtract it.",
        killed_by=FIRST,
    ),
    Mistake(
        "to-the-second-token",
        wait(ttft=lambda start, times: times[1] - start if len(times) > 1 else times[0] - start),
        "You stop the clock at the second token. TTFT ends with the first.",
        killed_by=FIRST,
    ),
    Mistake(
        "to-the-last-token",
        wait(ttft=lambda start, times: times[-1] - start),
        "You give the time until the last token. TTFT ends with the first.",
        killed_by=FIRST,
    ),
    Mistake(
        "negative-time",
        wait(ttft=lambda start, times: start - times[0]),
        "Your TTFT is negative: `times[0] - start`, not the other way round.",
        killed_by=FIRST,
    ),
    Mistake(
        "start-in-milliseconds",
        wait(ttft=lambda start, times: 1000 * (times[0] - start)),
        "Your TTFT is a thousand times too large. Keep the unit of the time stamps.",
        killed_by=FIRST,
    ),
    Mistake(
        "ttft-rounded",
        wait(ttft=lambda start, times: round(times[0] - start, 2)),
        "You round the time to the first token. Round what you print, not what you return.",
        killed_by=FIRST,
    ),
    Mistake(
        "swapped",
        wait(give=lambda ttft, itl: (itl, ttft)),
        "The two numbers have changed places: (ttft, itl).",
        killed_by=FIRST,
    ),
    Mistake(
        "itl-alone",
        wait(give=lambda ttft, itl: itl),
        "One number comes back. Wanted are two: (ttft, itl).",
        killed_by=FIRST,
    ),
    Mistake(
        "time-between-first-and-start-of-decoding",
        wait(ttft=lambda start, times: 0.0),
        "Your TTFT is 0: you start the clock with the first token. It starts when the request is sent.",
        killed_by=FIRST,
    ),
    Mistake(
        "divided-by-tokens",
        wait(itl=lambda start, times: (times[-1] - times[0]) / len(times)),
        "You divide by the number of tokens. Between n tokens there are n - 1 gaps.",
        killed_by=NEXT,
    ),
    Mistake(
        "ttft-counted-in",
        wait(itl=lambda start, times: (times[-1] - start) / len(times)),
        "You count the wait for the first token as a gap. Gaps lie between tokens: start at times[0].",
        killed_by=NEXT,
    ),
    Mistake(
        "ttft-in-the-sum-only",
        wait(itl=lambda start, times: (times[-1] - start) / (len(times) - 1)),
        "Your gaps add up from `start`. The wait for the first token is no gap between tokens: start at times[0].",
        killed_by=NEXT,
    ),
    Mistake(
        "median",
        wait(itl=lambda start, times: statistics.median(_gaps(times))),
        "You give the median gap. The mean is wanted, and a few long gaps move it.",
        killed_by=NEXT,
    ),
    Mistake(
        "largest-gap",
        wait(itl=lambda start, times: max(_gaps(times))),
        "You give the longest gap. The mean of all gaps is wanted.",
        killed_by=NEXT,
    ),
    Mistake(
        "smallest-gap",
        wait(itl=lambda start, times: min(_gaps(times))),
        "You give the shortest gap. The mean of all gaps is wanted.",
        killed_by=NEXT,
    ),
    Mistake(
        "first-gap",
        wait(itl=lambda start, times: times[1] - times[0]),
        "You give the first gap. The mean of all gaps is wanted.",
        killed_by=NEXT,
    ),
    Mistake(
        "last-gap",
        wait(itl=lambda start, times: times[-1] - times[-2]),
        "You give the last gap. The mean of all gaps is wanted.",
        killed_by=NEXT,
    ),
    Mistake(
        "mean-of-the-stamps",
        wait(itl=lambda start, times: sum(times) / len(times) - start),
        "You average the time stamps. Average the gaps between them.",
        killed_by=NEXT,
    ),
    Mistake(
        "all-gaps-added",
        wait(itl=lambda start, times: times[-1] - times[0]),
        "You give the sum of the gaps. Divide by their number, n - 1.",
        killed_by=NEXT,
    ),
    Mistake(
        "tokens-per-second",
        wait(itl=lambda start, times: (len(times) - 1) / (times[-1] - times[0])),
        "You give tokens per second. ITL is the time for one: the other way round.",
        killed_by=NEXT,
    ),
    Mistake(
        "first-gap-left-out",
        wait(itl=lambda start, times: sum(_gaps(times)[1:]) / max(1, len(times) - 2)),
        "You leave out the first gap. It lies between the first and the second token, and counts like the others.",
        killed_by=NEXT,
    ),
    Mistake(
        "last-token-left-out",
        wait(itl=lambda start, times: (times[-2] - times[0]) / max(1, len(times) - 2)),
        "You leave out the gap before the last token. Average all n - 1 gaps.",
        killed_by=NEXT,
    ),
    Mistake(
        "itl-rounded",
        wait(itl=lambda start, times: round((times[-1] - times[0]) / (len(times) - 1), 3)),
        "You round the mean gap. Round what you print, not what you return.",
        killed_by=NEXT,
    ),
    Mistake(
        "zero-for-a-single-token",
        wait(single=lambda start, times: 0.0),
        "With one token you say that the gap is 0, as if the next came at once. There is none: None.",
        killed_by=ONE,
    ),
    Mistake(
        "nan-for-a-single-token",
        wait(single=lambda start, times: math.nan),
        "With one token you give NaN. There is no gap, so the answer is None.",
        killed_by=ONE,
    ),
    Mistake(
        "ttft-for-a-single-token",
        wait(single=lambda start, times: times[0] - start),
        "With one token you give its own wait as a gap. There is no second token, so ITL is None.",
        killed_by=ONE,
    ),
    Mistake(
        "single-token-divides-by-zero",
        wait(single=_itl),
        "With one token you divide by n - 1, which is 0. There is no gap, so ITL is None.",
        killed_by=ONE,
    ),
    Mistake(
        "single-token-refused",
        wait(single=_none),
        "You refuse a request of one token. It has a TTFT; only its ITL is None.",
        killed_by=ONE,
    ),
    Mistake(
        "nothing-at-all-for-a-single-token",
        wait(give=lambda ttft, itl: (ttft, itl) if itl is not None else None),
        "With one token you return None for both numbers. Its TTFT is known; only ITL is None.",
        killed_by=ONE,
    ),
    Mistake(
        "nothing-came-is-zero",
        wait(empty=lambda start, times: (0.0, None)),
        "No token came, and you say that the first took 0 s. That is the best TTFT there is: refuse with ValueError.",
        killed_by=ONE,
    ),
    Mistake(
        "nothing-came-is-none",
        wait(empty=lambda start, times: (None, None)),
        "No token came, and you answer (None, None). Refuse with ValueError, so that nobody averages it in.",
        killed_by=ONE,
    ),
    Mistake(
        "nothing-came-is-an-index-error",
        wait(empty=lambda start, times: times[0]),
        "No token came, and `times[0]` raises IndexError. Look first, and raise ValueError.",
        killed_by=ONE,
    ),
)


def by_gaps(start, times):
    if len(times) < 1:
        raise ValueError("there must be a token")
    gaps = [later - earlier for earlier, later in zip(times, times[1:], strict=False)]
    return [times[0] - start, statistics.fmean(gaps) if gaps else None]


def by_numpy(start, times):
    stamps = np.asarray(times, dtype=float)
    if stamps.size == 0:
        raise ValueError("there must be a token")
    waits = np.diff(stamps, prepend=start)
    return waits[0], waits[1:].mean() if waits.size > 1 else None


def by_unpacking(start, times):
    first, *rest = times  # ValueError when there is none
    ttft, held, total = first - start, first, 0.0
    for stamp in rest:
        total, held = total + (stamp - held), stamp
    if rest:
        return ttft, total / len(rest)
    return ttft, None


def from_the_start(start, times):
    """Everything counted from the start of the request."""
    waits = [stamp - start for stamp in times]
    ttft = min(waits)  # ValueError when there is none
    return (ttft, (max(waits) - ttft) / (len(waits) - 1)) if len(waits) >= 2 else (ttft, None)


VARIANTS = (
    Variant("a list of gaps", by_gaps),
    Variant("NumPy differences", by_numpy),
    Variant("first and rest", by_unpacking),
    Variant("waits from the start", from_the_start),
)


def no_gap_for_zero(start, times):
    ttft, itl = wait()(start, times)
    return ttft, itl or None


MISTAKES += (
    Mistake(
        "no-gap-for-zero",
        no_gap_for_zero,
        "`or None` turns a mean of 0 into None. Only a missing second token gives None.",
        "the tokens after it",
    ),
)
