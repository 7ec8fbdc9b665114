"""Wrong and right ways to time a generation. Each mistake changes one piece of one right function."""

from __future__ import annotations

import statistics
from collections import namedtuple

import numpy as np

from autograde.exercise import Mistake, Variant


def _refuse(warm_up, repeats):
    if repeats < 1 or warm_up < 0:
        raise ValueError(f"warm_up {warm_up}, repeats {repeats}")


def _run(device):
    """(ttft, itl) of one run."""
    device.synchronize()
    began = device.clock()
    device.prefill()
    device.synchronize()
    first = device.clock()
    for _ in range(device.new_tokens - 1):
        device.decode()
    device.synchronize()
    return first - began, (device.clock() - first) / (device.new_tokens - 1) if device.new_tokens > 1 else None


def _median(values):
    return None if None in values else statistics.median(values)


def _warm(run, device, warm_up):
    for _ in range(warm_up):
        run(device)


def _repeat(run, device, repeats):
    return [run(device) for _ in range(repeats)]


def timed(run=_run, middle=_median, warm=_warm, repeat=_repeat, refuse=_refuse, give=lambda pair: pair):
    """A function with one of its pieces changed."""

    def time_generation(device, warm_up, repeats):
        refuse(warm_up, repeats)
        warm(run, device, warm_up)
        ttfts, itls = zip(*repeat(run, device, repeats))
        return give((middle(ttfts), middle(itls)))

    return time_generation


def run_of(
    start=lambda device: device.synchronize(),
    after_prefill=lambda device: device.synchronize(),
    end=lambda device: device.synchronize(),
    decodes=lambda n: n - 1,
    itl=lambda began, first, last, n: (last - first) / (n - 1),
    ttft=lambda began, first, last: first - began,
    alone=lambda began, first, last: None,
):
    """One run with one of its pieces changed."""

    def run(device):
        start(device)
        began = device.clock()
        device.prefill()
        after_prefill(device)
        first = device.clock()
        for _ in range(decodes(device.new_tokens)):
            device.decode()
        end(device)
        last, n = device.clock(), device.new_tokens
        return ttft(began, first, last), itl(began, first, last, n) if n > 1 else alone(began, first, last)

    return run


def nothing(device):
    """Does not wait."""


# Waiting.


def prefill_again(device):
    """The second part is timed with a prefill of its own in it."""
    device.synchronize()
    began = device.clock()
    device.prefill()
    device.synchronize()
    ttft = device.clock() - began
    began = device.clock()
    device.prefill()
    for _ in range(device.new_tokens - 1):
        device.decode()
    device.synchronize()
    return ttft, (device.clock() - began) / (device.new_tokens - 1) if device.new_tokens > 1 else None


def last_wait_left_out_of_the_loop(device):
    """Waits before each decode, not after it: the last one is not waited for."""
    device.synchronize()
    began = device.clock()
    device.prefill()
    device.synchronize()
    first = last = device.clock()
    for _ in range(device.new_tokens - 1):
        device.synchronize()
        last = device.clock()
        device.decode()
    return first - began, (last - first) / (device.new_tokens - 1) if device.new_tokens > 1 else None


def median_gap(device):
    """The median of the run's own gaps, each waited for, in place of their mean."""
    device.synchronize()
    times = [device.clock()]
    for call in [device.prefill] + [device.decode] * (device.new_tokens - 1):
        call()
        device.synchronize()
        times.append(device.clock())
    gaps = [b - a for a, b in zip(times[1:], times[2:])]
    return times[1] - times[0], statistics.median(gaps) if gaps else None


def last_gap(device):
    """The last step's time stands for all."""
    device.synchronize()
    times = [device.clock()]
    for call in [device.prefill] + [device.decode] * (device.new_tokens - 1):
        call()
        device.synchronize()
        times.append(device.clock())
    return times[1] - times[0], times[-1] - times[-2] if len(times) > 2 else None


def clock_after_prefill(device):
    """The clock is read once prefill() has come back."""
    device.synchronize()
    device.prefill()
    began = device.clock()
    device.synchronize()
    first = device.clock()
    for _ in range(device.new_tokens - 1):
        device.decode()
    device.synchronize()
    return first - began, (device.clock() - first) / (device.new_tokens - 1) if device.new_tokens > 1 else None


def clock_after_decodes(device):
    """The first token's time is read once the decodes are queued."""
    device.synchronize()
    began = device.clock()
    device.prefill()
    device.synchronize()
    for _ in range(device.new_tokens - 1):
        device.decode()
    first = device.clock()
    device.synchronize()
    return first - began, (device.clock() - first) / (device.new_tokens - 1) if device.new_tokens > 1 else None


# Warming up.


def no_warm_up(run, device, warm_up):
    pass


def one_warm_up(run, device, warm_up):
    if warm_up:
        run(device)


def one_more_warm_up(run, device, warm_up):
    for _ in range(warm_up + 1):
        run(device)


def prefill_only(run, device, warm_up):
    for _ in range(warm_up):
        device.prefill()


def decode_only(run, device, warm_up):
    for _ in range(warm_up):
        for _ in range(device.new_tokens - 1):
            device.decode()


def one_decode_each(run, device, warm_up):
    for _ in range(warm_up):
        device.prefill()
        if device.new_tokens > 1:
            device.decode()


def warm_up_by_kind(run, device, warm_up):
    for _ in range(warm_up):
        device.prefill()
    for _ in range(warm_up * (device.new_tokens - 1)):
        device.decode()


def all_prefills_first(device, warm_up, repeats):
    """Times all prefills, and then all decodes."""
    _refuse(warm_up, repeats)
    ttfts, itls, gaps = [], [], device.new_tokens - 1
    for calls, times in (((device.prefill,), ttfts), ((device.decode,) * gaps, itls)):
        for _ in range(warm_up + repeats):
            device.synchronize()
            began = device.clock()
            for call in calls:
                call()
            device.synchronize()
            times.append((device.clock() - began) / len(calls) if calls else None)
    return _median(ttfts[warm_up:]), _median(itls[warm_up:])


def warm_ups_counted(device, warm_up, repeats):
    """The medians are over all runs."""
    _refuse(warm_up, repeats)
    ttfts, itls = zip(*_repeat(_run, device, warm_up + repeats))
    return _median(ttfts), _median(itls)


def warm_ups_are_the_last(device, warm_up, repeats):
    """[:repeats] keeps the first runs."""
    _refuse(warm_up, repeats)
    ttfts, itls = zip(*_repeat(_run, device, warm_up + repeats)[:repeats])
    return _median(ttfts), _median(itls)


def warm_ups_among_the_repeats(device, warm_up, repeats):
    """`repeats` runs in all, the warm-up among them, when there are enough."""
    _refuse(warm_up, repeats)
    runs = _repeat(_run, device, max(repeats, warm_up + 1))
    ttfts, itls = zip(*runs[warm_up:])
    return _median(ttfts), _median(itls)


def warm_up_left_running(device, warm_up, repeats):
    """The warm-up is queued, and the first run that counts starts behind it."""
    _refuse(warm_up, repeats)
    device.synchronize()
    for _ in range(warm_up):
        device.prefill()
        for _ in range(device.new_tokens - 1):
            device.decode()
    ttfts, itls = zip(*_repeat(run_of(start=nothing), device, repeats))
    return _median(ttfts), _median(itls)


# Repeating.


def one_run_only(run, device, repeats):
    return [run(device)]


def last_run_only(run, device, repeats):
    return _repeat(run, device, repeats)[-1:]


def one_too_few(run, device, repeats):
    return _repeat(run, device, max(repeats - 1, 1))


def one_too_many(run, device, repeats):
    return _repeat(run, device, repeats + 1)


def fastest_run(run, device, repeats):
    return [min(_repeat(run, device, repeats), key=lambda pair: pair[0])]


def middle_run(run, device, repeats):
    """The run whose first token came in the middle lends both numbers."""
    runs = sorted(_repeat(run, device, repeats), key=lambda pair: pair[0])
    half = len(runs) // 2
    pairs = runs[half : half + 1] if len(runs) % 2 else runs[half - 1 : half + 1]
    return pairs


def without_the_first(run, device, repeats):
    """One of the runs that count is taken for a warm-up."""
    runs = _repeat(run, device, repeats)
    return runs[1:] or runs


def totals(device, warm_up, repeats):
    """Median of the whole minus median of the first token's."""
    _refuse(warm_up, repeats)
    run = run_of(itl=lambda began, first, last, n: last - began)
    _warm(run, device, warm_up)
    ttfts, wholes = zip(*_repeat(run, device, repeats))
    if device.new_tokens == 1:
        return _median(ttfts), None
    return _median(ttfts), (_median(wholes) - _median(ttfts)) / (device.new_tokens - 1)


def pooled(device, warm_up, repeats):
    """The median over the single gaps of all runs."""
    _refuse(warm_up, repeats)
    ttfts, gaps = [], []
    for run in range(-warm_up, repeats):
        device.synchronize()
        times = [device.clock()]
        for call in [device.prefill] + [device.decode] * (device.new_tokens - 1):
            call()
            device.synchronize()
            times.append(device.clock())
        if run >= 0:
            ttfts.append(times[1] - times[0])
            gaps += [b - a for a, b in zip(times[1:], times[2:])]
    return statistics.median(ttfts), statistics.median(gaps) if gaps else None


def mean_of_gaps(device, warm_up, repeats):
    """The mean over all gaps of all runs."""
    _refuse(warm_up, repeats)
    _warm(_run, device, warm_up)
    ttfts, itls = zip(*_repeat(_run, device, repeats))
    return _median(ttfts), _mean(itls)


def _mean(values):
    return None if None in values else statistics.mean(values)


def _each(values, function):
    return None if None in values else function(values)


def trimmed(values):
    """The mean without the largest."""
    return _each(values, lambda some: statistics.mean(sorted(some)[: max(len(some) - 1, 1)]))


def unsorted_middle(values):
    return values[len(values) // 2] if len(values) % 2 else _mean(values[len(values) // 2 - 1 : len(values) // 2 + 1])


# Refusals.


def repeats_only(warm_up, repeats):
    if repeats < 1:
        raise ValueError(repeats)


def warm_up_only(warm_up, repeats):
    if warm_up < 0:
        raise ValueError(warm_up)


def repeats_of_zero(warm_up, repeats):
    if repeats < 0 or warm_up < 0:
        raise ValueError(repeats)


def no_warm_up_refused(warm_up, repeats):
    if repeats < 1 or warm_up < 1:
        raise ValueError(warm_up)


def asserted(warm_up, repeats):
    assert repeats >= 1 and warm_up >= 0


def at_least_once(device, warm_up, repeats):
    """Repeats below 1 are taken for 1."""
    _refuse(warm_up, max(repeats, 1))
    return timed()(device, warm_up, max(repeats, 1))


def warm_up_eats_repeats(device, warm_up, repeats):
    if repeats < 1:
        raise ValueError(f"repeats {repeats}")
    ttfts, itls = zip(*[_run(device) for _ in range(warm_up + repeats)][max(warm_up, 0) :])
    return _median(ttfts), _median(itls)


def without_its_sign(device, warm_up, repeats):
    _refuse(0, repeats)
    return timed()(device, abs(warm_up), repeats)


def none_for_none(device, warm_up, repeats):
    _refuse(warm_up, max(repeats, 1))
    return timed()(device, warm_up, repeats) if repeats > 0 else (None, None)


ONE, QUEUED, MANY = "one run", "queued work", "many runs"
WARM, ALONE, NO = "warm-up", "one token", "refusals"

MISTAKES = (
    Mistake("no-wait-for-the-first-token", timed(run_of(after_prefill=nothing)),
            "You do not wait after prefill(), so the first token costs nothing and the others pay for it. Synchronise, then look at the clock.", ONE),
    Mistake("no-wait-for-the-last-token", timed(run_of(end=nothing)),
            "You do not wait after the decodes: the clock has not moved. Synchronise, then look at the clock.", ONE),
    Mistake("last-decode-not-waited-for", timed(last_wait_left_out_of_the_loop),
            "You wait before each decode, so the last one is not waited for. Synchronise after it, too.", ONE),
    Mistake("never-waits", timed(run_of(nothing, nothing, nothing)), "You never wait: what you time is queueing. Synchronise before each look at the clock.", ONE,
            "benchmarks that time launches"),
    Mistake("divided-by-tokens", timed(run_of(itl=lambda began, first, last, n: (last - first) / n)),
            "You divide by new_tokens. Between n tokens lie n - 1 gaps.", ONE),
    Mistake("ttft-in-itl", timed(run_of(itl=lambda began, first, last, n: (last - began) / (n - 1))),
            "The wait for the first token is in your ITL. Count from the first token on.", ONE),
    Mistake("whole-over-tokens", timed(run_of(itl=lambda began, first, last, n: (last - began) / n)),
            "You divide the whole run by its tokens. ITL leaves the first token's wait out, and has new_tokens - 1 gaps.", ONE),
    Mistake("itl-not-divided", timed(run_of(itl=lambda began, first, last, n: last - first)),
            "Your second number is the time of all decodes. Divide it by new_tokens - 1.", ONE),
    Mistake("one-gap-too-few", timed(run_of(itl=lambda began, first, last, n: (last - first) / max(n - 2, 1))),
            "You divide by new_tokens - 2. Between n tokens lie n - 1 gaps.", ONE),
    Mistake("tokens-per-second", timed(run_of(itl=lambda began, first, last, n: (n - 1) / (last - first) if last > first else 0.0)),
            "Your second number is tokens per second. ITL is seconds per token.", ONE),
    Mistake("one-decode-too-many", timed(run_of(decodes=lambda n: n)), "You decode new_tokens times. prefill() makes the first token: new_tokens - 1 are left.", ONE),
    Mistake("one-decode-too-few", timed(run_of(decodes=lambda n: n - 2)), "You decode new_tokens - 2 times. prefill() makes one token; all others need a decode.", ONE),
    Mistake("one-decode", timed(run_of(decodes=lambda n: min(n - 1, 1))), "You decode once. A run has new_tokens - 1 decodes.", ONE),
    Mistake("prefill-again", timed(prefill_again), "You prefill a second time before you decode, and its time is in your ITL. One run has one prefill.", ONE),
    Mistake("median-gap", timed(median_gap), "A run's ITL is the median of its gaps. It is their mean: (last - first) / (new_tokens - 1).", ONE),
    Mistake("last-gap", timed(last_gap), "The last decode stands for all of them. Take the mean: (last - first) / (new_tokens - 1).", ONE),
    Mistake("swapped", timed(give=lambda pair: pair[::-1]), "You give the ITL first. Return (ttft, itl).", ONE),
    Mistake("milliseconds", timed(give=lambda pair: tuple(None if x is None else 1000 * x for x in pair)), "Your numbers are milliseconds. Return seconds, as clock() gives them.", ONE),
    Mistake("ttft-of-the-whole", timed(run_of(ttft=lambda began, first, last: last - began)), "Your first number is the whole run. TTFT ends with the first token.", ONE),
    Mistake("absolute-time", timed(run_of(ttft=lambda began, first, last: first)), "Your first number is what the clock showed. Subtract when the run began.", ONE),
    Mistake("ttft-only", timed(give=lambda pair: pair[0]), "You give one number. Return (ttft, itl).", ONE),
    Mistake("all-prefills-first", all_prefills_first, "You time all prefills, and then all decodes. A run is a prefill and the decodes that follow it.", MANY),
    Mistake("clock-after-prefill", timed(clock_after_prefill), "You start the clock after prefill(). Calling it takes time too: read the clock before.", ONE),
    Mistake("clock-after-decodes", timed(clock_after_decodes), "You read the first token's time after the decodes are queued. Read it before the first decode().", ONE),
    Mistake("no-wait-before", timed(run_of(start=nothing)), "The clock starts while the device is still at other work. Synchronise first, then read it.", QUEUED,
            "benchmarks whose first run waits for the data to be copied"),
    Mistake("warm-up-left-running", warm_up_left_running, "The warm-up is still running when you start the clock. Synchronise before each run.", WARM),
    Mistake("mean", timed(middle=_mean), "You give means, and one slow run moves them. Take medians.", MANY),
    Mistake("minimum", timed(middle=lambda values: _each(values, min)), "You give the fastest. Take the median.", MANY),
    Mistake("maximum", timed(middle=lambda values: _each(values, max)), "You give the slowest. Take the median.", MANY),
    Mistake("lower-median", timed(middle=lambda values: _each(values, statistics.median_low)),
            "Of an even number of runs you take the lower one of the two in the middle. The median lies half-way.", MANY, "torch.median"),
    Mistake("upper-median", timed(middle=lambda values: _each(values, statistics.median_high)),
            "Of an even number of runs you take the upper one of the two in the middle. The median lies half-way.", MANY, "sorted(x)[len(x) // 2]"),
    Mistake("trimmed-mean", timed(middle=trimmed), "You leave the slowest run out and average the rest. Take the median.", MANY),
    Mistake("not-sorted", timed(middle=unsorted_middle), "You take what stands in the middle of the list. Sort it first: a median is the middle by size.", MANY),
    Mistake("first-run-only", timed(repeat=one_run_only), "One run counts. Make `repeats` of them.", MANY),
    Mistake("last-run-only", timed(repeat=last_run_only), "Only the last run counts. Take medians over all `repeats`.", MANY),
    Mistake("fastest-run", timed(repeat=fastest_run), "The run with the fastest first token gives both numbers. Take the two medians, each by itself.", MANY),
    Mistake("middle-run", timed(repeat=middle_run), "The run with the middle TTFT gives the ITL too. Take the two medians, each by itself.", MANY),
    Mistake("one-repeat-too-few", timed(repeat=one_too_few), "You make one run too few. `repeats` runs count.", MANY),
    Mistake("first-repeat-dropped", timed(repeat=without_the_first), "You drop the first of the runs that count. Only the `warm_up` runs before it do not.", MANY),
    Mistake("medians-of-sums", totals, "You subtract medians: those of whole runs and of first tokens. Work out each run's ITL, then their median.", MANY),
    Mistake("pooled-gaps", pooled, "Your ITL is the median over the gaps of all runs. Take each run's mean first, then the median over runs.", ONE),
    Mistake("mean-of-all-gaps", mean_of_gaps, "Your ITL is the mean over the gaps of all runs, and one slow run moves it. Take the median over runs.", MANY),
    Mistake("one-repeat-too-many", timed(repeat=one_too_many), "You make one run too many. `repeats` runs count.", ONE),
    Mistake("no-warm-up", timed(warm=no_warm_up), "There is no warm-up, so slow first runs count. Make `warm_up` runs before.", WARM),
    Mistake("one-warm-up", timed(warm=one_warm_up), "You warm up once. Make `warm_up` runs.", WARM),
    Mistake("one-warm-up-more", timed(warm=one_more_warm_up), "You warm up once more than asked. Make `warm_up` runs.", ONE),
    Mistake("warm-up-without-decodes", timed(warm=prefill_only), "Your warm-up only prefills, so the first decodes are still slow. Warm up with whole runs.", WARM),
    Mistake("warm-up-without-prefill", timed(warm=decode_only), "Your warm-up only decodes, so the first prefill is still slow. Warm up with whole runs.", WARM),
    Mistake("warm-up-by-kind", timed(warm=warm_up_by_kind), "Your warm-up queues all prefills, and then all decodes. Warm up with whole runs.", WARM),
    Mistake("warm-up-of-one-decode", timed(warm=one_decode_each), "Your warm-up decodes once for each run. Warm up with whole runs.", WARM),
    Mistake("warm-ups-counted", warm_ups_counted, "The warm-up runs are in your medians. Leave them out.", WARM),
    Mistake("first-runs-kept", warm_ups_are_the_last, "You keep the first `repeats` runs, which are the slow ones. Drop the first `warm_up`.", WARM),
    Mistake("warm-ups-among-the-repeats", warm_ups_among_the_repeats, "You take the warm-up from the `repeats` runs. It comes before them.", WARM),
    Mistake("zero-gaps-as-zero", timed(run_of(alone=lambda *times: 0.0)), "With one token your ITL is 0. There is no gap: return None.", ALONE),
    Mistake("zero-gaps-as-nan", timed(run_of(alone=lambda *times: float("nan"))), "With one token your ITL is NaN. There is no gap: return None.", ALONE),
    Mistake("ttft-for-itl", timed(run_of(alone=lambda began, first, last: first - began)), "With one token your ITL is the TTFT. There is no gap: return None.", ALONE),
    Mistake("divided-by-zero", timed(run_of(alone=lambda *times: (times[2] - times[1]) / 0)), "With one token you divide by 0. There is no gap: return None.", ALONE),
    Mistake("warm-up-not-refused", timed(refuse=repeats_only), "A warm_up below 0 is taken for none. Raise ValueError.", NO),
    Mistake("warm-up-eats-repeats", warm_up_eats_repeats, "A warm_up below 0 is let through, and takes runs away from your repeats. Raise ValueError.", NO),
    Mistake("repeats-not-refused", timed(refuse=warm_up_only), "repeats are not looked at first: the warm-up runs, and then there is no run to take a median of. Raise ValueError.", NO),
    Mistake("no-repeat-let-through", timed(refuse=repeats_of_zero), "repeats of 0 are let through. Raise ValueError: there is no median of nothing.", NO),
    Mistake("no-warm-up-refused", timed(refuse=no_warm_up_refused), "warm_up 0 is refused. It means that every run counts.", ONE),
    Mistake("asserted", timed(refuse=asserted), "You assert. Raise ValueError: an assert can be switched off.", NO),
    Mistake("at-least-once", at_least_once, "repeats below 1 are taken for 1. Raise ValueError.", NO),
    Mistake("without-its-sign", without_its_sign, "A negative warm_up loses its sign. Raise ValueError.", NO),
    Mistake("nothing-for-nothing", none_for_none, "repeats below 1 give (None, None). Raise ValueError.", NO),
)  # fmt: skip


def with_arrays(device, warm_up, repeats):
    _refuse(warm_up, repeats)
    times = np.zeros((warm_up + repeats, 3))
    device.synchronize()
    for row in times:
        row[0] = device.clock()
        device.prefill()
        device.synchronize()
        row[1] = device.clock()
        for _ in range(1, device.new_tokens):
            device.decode()
        device.synchronize()
        row[2] = device.clock()
    first, rest = np.diff(times[warm_up:]).T
    return np.median(first), np.median(rest / (device.new_tokens - 1)) if device.new_tokens > 1 else None


def waits_for_each(device, warm_up, repeats):
    """A look at the clock after every token."""
    _refuse(warm_up, repeats)
    ttfts, itls = [], []
    for run in range(-warm_up, repeats):
        device.synchronize()
        stamps = [device.clock()]
        for i in range(device.new_tokens):
            device.decode() if i else device.prefill()
            device.synchronize()
            stamps.append(device.clock())
        if run >= 0:
            ttfts += [stamps[1] - stamps[0]]
            itls += [sum(b - a for a, b in zip(stamps[1:], stamps[2:])) / (device.new_tokens - 1)] if stamps[2:] else []
    return [statistics.median(ttfts), statistics.median(itls) if itls else None]


def own_median(values):
    values = sorted(values)
    while len(values) > 2:
        values = values[1:-1]
    return sum(values) / len(values)


def divides_at_the_end(device, warm_up, repeats):
    """The median of the rests, divided once: the number of gaps is the same in all runs."""
    if not (repeats >= 1 and warm_up >= 0):
        raise ValueError("at least one run")
    runs = [whole_run(device) for _ in range(warm_up + repeats)]
    counted = runs[-repeats:]
    rest = own_median([run.rest for run in counted])
    gaps = device.new_tokens - 1
    return own_median([run.first for run in counted]), rest / gaps if gaps else None


Run = namedtuple("Run", "first rest")


def whole_run(device):
    device.synchronize()
    zero = device.clock()
    device.prefill()
    device.synchronize()
    first = device.clock() - zero
    if device.new_tokens > 1:
        for _ in range(device.new_tokens - 1):
            device.decode()
        device.synchronize()
    device.synchronize()
    return Run(first, device.clock() - zero - first)


def warm_up_in_one_go(device, warm_up, repeats):
    """Warm-up runs are queued without a look at the clock; each counted run waits first."""
    _refuse(warm_up, repeats)
    for _ in range(warm_up):
        device.prefill()
        for _ in range(device.new_tokens - 1):
            device.decode()
    ttfts, itls = zip(*_repeat(_run, device, repeats))
    return _median(ttfts), _median(itls)


VARIANTS = (
    Variant("two lists of numbers", timed()),
    Variant("arrays, one wait before all runs", with_arrays),
    Variant("waits for each token", waits_for_each),
    Variant("divides at the end", divides_at_the_end),
    Variant("warm-up in one go", warm_up_in_one_go),
)
