"""Exercise 3.9: the wait for the first token, and the wait for each next one."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from autograde.exercise import Exercise, stage
from autograde.exercises.latencies.candidates import MISTAKES, VARIANTS
from autograde.exercises.scalars import close, comes_as, exactly, parts, refused
from autograde.finding import Finding
from autograde.subject import Subject
from kvlib.sizing.latency import latencies

NAMES = ("ttft", "itl")


def _stamps(rng: np.random.Generator, tokens: int, start: float) -> list[float]:
    """A slow first token, then gaps that are all different, the shortest and the longest in the middle."""
    gaps = 0.031 * 1.37 ** np.arange(tokens - 1)
    if tokens > 4:
        middle = rng.permutation([gaps[0], *gaps[2:-2], gaps[-1]])
        gaps = np.array([gaps[1], *middle, gaps[-2]])
    first = start + 0.2 + float(rng.uniform(0.1, 0.4))
    return [first, *(first + np.cumsum(gaps)).tolist()]


def _by_waiting(times: list[float]) -> float:
    """The mean of the gaps, one by one."""
    total, gaps = 0.0, 0
    for before, after in zip(times, times[1:], strict=False):
        total, gaps = total + (after - before), gaps + 1
    return total / gaps


def _ask(subject: Subject, start: float, times: list[float], *, itl: bool) -> Iterable[Finding]:
    got = subject.run(start, times)
    call = f"latencies({start:g}, [{', '.join(f'{stamp:.4g}' for stamp in times)}])"
    yield comes_as(subject, got, NAMES, key="pair", what=call)
    ttft, gap = parts(got, 2)
    fact = "the wait for the first token is counted from the start"
    yield close(subject, ttft, times[0] - start, key="ttft", fact=fact, what=call)
    if itl:
        fact = "the mean of the gaps between tokens is right"
        yield close(subject, gap, _by_waiting(times), key="itl", fact=fact, what=call)


@stage("the first token", why="The clock starts when the request is sent, not when the program did.")
def first_token(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for start, tokens in ((0.0, 5), (10.0, 4), (3.5, 7)):
        yield from _ask(subject, start, _stamps(rng, tokens, start), itl=False)


@stage("the tokens after it", why="Between n tokens lie n - 1 gaps; the first token's wait is not one of them.")
def tokens_after(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for start, tokens in ((10.0, 7), (0.0, 5), (2.25, 2)):
        yield from _ask(subject, start, _stamps(rng, tokens, start), itl=True)
    yield from _ask(subject, 0.0, [0.12, 0.16, 0.21, 0.25], itl=True)
    yield from _ask(subject, 1.5, [1.75, 1.75, 2.25], itl=True)  # two tokens in one message
    yield from _ask(subject, 1.5, [1.5, 1.5], itl=True)  # no wait at all is a number too


@stage("one token, or none", why="With one token there is no gap. With none there is nothing to report.")
def one_or_none(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    start = float(rng.integers(2, 9))
    stamps = _stamps(rng, 3, start)
    yield from _ask(subject, start, stamps, itl=True)
    got = subject.run(start, stamps[:1])
    call = f"latencies({start:g}, [{stamps[0]:.4g}])"
    yield comes_as(subject, got, NAMES, key="one token", what=call)
    ttft, gap = parts(got, 2)
    yield close(subject, ttft, stamps[0] - start, key="one token, ttft", fact="one token has a wait", what=call)
    yield exactly(subject, gap, None, key="one token, itl", fact="one token has no gap", what=call)
    yield refused(subject, start, [], key="no token", what="a request without a token")


EXERCISE = Exercise(
    id="3.9",
    name="latencies",
    title="What the user waits for",
    goal="Work out the time to the first token and the mean time between tokens of one request.",
    points=2,
    minutes=8,
    difficulty=1,
    hints=(
        "Draw the tokens on a line: |start ... 1 . 2 . 3 . 4. How many gaps lie between four tokens?",
        "TTFT is prefill and queue, ITL is decoding. Keep them apart: a long prompt moves the first only.",
        "`times[0] - start`, and `(times[-1] - times[0]) / (len(times) - 1)`. Look at `len(times)` first: none is a "
        "ValueError, one gives None for the second number.",
    ),
    stages=(first_token, tokens_after, one_or_none),
    reference=latencies,
    mistakes=MISTAKES,
    variants=VARIANTS,
)
