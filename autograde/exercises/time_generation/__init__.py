"""Exercise 7.7: how long a generation takes on a device that works while the program goes on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from autograde.compare import ROUNDED, as_array
from autograde.exercise import Exercise, stage
from autograde.exercises.scalars import close, comes_as, exactly, parts
from autograde.exercises.time_generation.candidates import MISTAKES, VARIANTS
from autograde.exercises.time_generation.device import Device
from autograde.expect import counts
from autograde.finding import Finding, held
from autograde.lazy import Later
from autograde.subject import LearnerRaised, Subject

NAMES = ("ttft", "itl")


def middle(values: Sequence[float]) -> float:
    """The median: of an even number of values, half-way between the two in the middle."""
    low, high = sorted(values), sorted(values, reverse=True)
    half = len(values) // 2
    return low[half] if len(values) % 2 else (low[half] + high[half]) / 2


def want_of(device: Device, warm_up: int, repeats: int) -> tuple[float, float | None]:
    """What comes out when each run is timed by itself."""
    runs, gaps = range(warm_up, warm_up + repeats), device.new_tokens - 1
    steps = device.decodes[:, : max(gaps, 1)]
    ttft = middle([device.launch + float(device.prefills[run]) for run in runs])
    if not gaps:
        return ttft, None
    return ttft, middle([(device.launch + sum(float(took) for took in steps[run])) / gaps for run in runs])


def ask(subject: Subject, device: Device, warm_up: int, repeats: int) -> Iterable[Finding]:
    """One timing, its two numbers, and what the device was asked for."""
    where = f"new_tokens {device.new_tokens}, warm_up {warm_up}, repeats {repeats}"
    got = subject.run(device.lent(), warm_up, repeats)
    yield comes_as(subject, got, NAMES, key="pair", what=where)
    if not device.count("clock"):
        yield other_clock(subject, device, where)
    ttft, itl = parts(got, 2)
    want_ttft, want_itl = want_of(device, warm_up, repeats)
    fact = "the first number is the median time to the first token, in seconds"
    yield near(subject, device, ttft, want_ttft, key="ttft", fact=fact, where=where)
    if want_itl is None:
        fact = "with one token there is no time between tokens: None"
        yield exactly(subject, itl, None, key="no itl", fact=fact, what=where)
    else:
        fact = "the second number is the median over runs of (last - first token's time) / (new_tokens - 1)"
        yield near(subject, device, itl, want_itl, key="itl", fact=fact, where=where)
    runs = warm_up + repeats
    for kind, wanted in (("prefill", runs), ("decode", runs * (device.new_tokens - 1))):
        fact = f"{runs} run{'s' if runs > 1 else ''} of {device.new_tokens} token(s) take {wanted} x {kind}()"
        yield counts(subject, device.count(kind), wanted, key=kind, fact=fact, where=where, seen=done(device))
    fact = "each run is one prefill, and then its decodes"
    if device.queued() == ["prefill", *["decode"] * (device.new_tokens - 1)] * runs:
        yield held("order", fact)
    else:
        given, events = ", ".join(device.queued())[:60], len(subject.record)
        yield Finding(False, "order", f"does not hold: {fact}", where=where, got=given, events=events)


def other_clock(subject: Subject, device: Device, where: str) -> Finding:
    """What to say of times that cannot be this device's."""
    fact = "does not hold: times are what device.clock() shows; this device's seconds are invented"
    events, seen = len(subject.record), done(device)
    return Finding(False, "clock", fact, where, "device.clock() is read", "it never is", events=events, seen=seen)


def near(subject: Subject, device: Device, got: Any, want: float, *, key: str, fact: str, where: str) -> Finding:
    """Whether a time is right to float32's digits. How much was queued tells apart two ways to one wrong number."""
    number, _ = as_array(got, ())
    if number is not None and abs(float(number) - want) <= ROUNDED * want:
        return held(key, fact)
    finding = close(subject, got, want, key=key, fact=fact, what=where)
    return Finding(**{**finding.__dict__, "seen": done(device)})


def done(device: Device) -> tuple[int, int]:
    """How much was queued."""
    return device.count("prefill"), device.count("decode")


@stage(
    "one run",
    weight=2,
    why="A call returns before its work is done: wait before each look at the clock.",
)
def one_run(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for new_tokens in (5, 2, 8):
        yield from ask(subject, Device(rng, new_tokens, 1), 0, 1)


@stage("queued work", why="The device may still be at somebody else's work. That is not your run's time.")
def queued_work(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for new_tokens, queued in ((5, 7.3), (3, 0.8)):
        yield from ask(subject, Device(rng, new_tokens, 1, queued=queued), 0, 1)


@stage("many runs", weight=2, why="One run in a hundred is slow for reasons of its own. A median does not look at it.")
def many_runs(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    device = Device(rng, 4, 7, queued=0.5)
    device.rank([2, 6, 1, 5, 0, 3, 4], [3, 6, 5, 1, 4, 0, 2])  # the first, the last, the fastest, the middle all differ
    device.outlier(1, 11.0)
    yield from ask(subject, device, 0, 7)
    for new_tokens, repeats, slow in ((6, 5, 0), (3, 4, 2), (5, 2, 1)):
        device = Device(rng, new_tokens, repeats, queued=0.5)
        device.outlier(slow, 11.0)
        yield from ask(subject, device, 0, repeats)


@stage("warm-up", weight=2, why="First runs compile, prefill and decode each by itself. They must run, and not count.")
def warm_up(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for new_tokens, cold, repeats in ((4, 2, 3), (6, 3, 2), (3, 4, 1), (5, 1, 5)):
        device = Device(rng, new_tokens, cold + repeats, cold, queued=0.5)
        yield from ask(subject, device, cold, repeats)


@stage("one token", why="With one token there are no gaps, and 0 / 0 is no time.")
def one_token(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for warm, repeats in ((0, 1), (1, 3), (2, 4)):
        yield from ask(subject, Device(rng, 1, warm + repeats, warm, queued=0.5), warm, repeats)


@stage("refusals", why="No median of nothing, and no number of runs below 0. Refuse before the device has work.")
def refusals(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for warm, repeats in ((1, -1), (2, 0), (-1, 3), (-4, 2), (0, 0)):
        device = Device(rng, 3, 4)
        yield refused(subject, device, warm, repeats)
        where = f"warm_up {warm}, repeats {repeats}"
        queued = device.count("prefill") + device.count("decode")
        fact = "nothing is queued when the numbers are refused"
        yield counts(subject, queued, 0, key="untouched", fact=fact, where=where, seen=done(device))
        yield from ask(subject, Device(rng, 3, 3, 1), 1, 2)


def refused(subject: Subject, device: Device, warm_up: int, repeats: int) -> Finding:
    """Whether the numbers are refused with `ValueError`."""
    key = what = f"warm_up {warm_up}, repeats {repeats}"
    try:
        subject.run(device.lent(), warm_up, repeats)
    except LearnerRaised as error:
        if error.is_a("NotImplementedError"):
            raise
        if error.is_a("ValueError"):
            return held(key, f"{what} is refused")
        fact, given = f"{what} must be refused with ValueError; your code raised something else", str(error)[:80]
    else:
        fact, given = f"{what} must be refused; your code accepted it", "a result is returned"
    events, seen = len(subject.record), done(device)
    return Finding(False, key, fact, expected="ValueError is raised", got=given, events=events, seen=seen)


EXERCISE = Exercise(
    id="7.7",
    name="time_generation",
    title="A clock that tells the truth",
    goal="Time prefill and decode apart on a device that queues its work: wait, warm up, repeat, take medians.",
    points=4,
    minutes=20,
    difficulty=3,
    hints=(
        "`prefill()` comes back at once. What the clock shows then is the time to queue the work, not to do it. A look "
        "at the clock means something only right after `synchronize()`.",
        "Write one run as a function that returns `(ttft, itl)`: synchronise, clock, prefill, synchronise, clock, all "
        "decodes, synchronise, clock. Call it `warm_up + repeats` times, and drop the first `warm_up` pairs.",
        "`statistics.median` of each of the two lists, the first of `first - began`, the second of `(last - first) / "
        "(new_tokens - 1)`. With `new_tokens == 1` the second is None. Refuse first: `if repeats < 1 or warm_up < 0`.",
    ),
    stages=(one_run, queued_work, many_runs, warm_up, one_token, refusals),
    reference=Later("kvlib.time_generation", "time_generation"),
    mistakes=MISTAKES,
    variants=VARIANTS,
)
