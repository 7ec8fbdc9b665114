"""Requests that come as they like, the desk that takes them in, and a clock of its own. No real time is in here.

What a step takes is worked out from its tokens and its cached context, as a lower bound of lesson 03: reading and
calculating go on at the same time, so the longer of the two counts. The numbers are those of Llama 3 8B in 16 bits on
one H100, whatever model the engine runs: a small model on the clock of a large one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kvlib.sizing.roofline import roofline


@dataclass(frozen=True)
class Ask:
    """A request: a prompt, and `new` tokens wanted. Times are seconds."""

    id: int
    at: float  # when it comes
    prompt: tuple[int, ...]
    new: int
    abort_at: float | None = None  # when its client lets go, if nothing is closed by then


def arrivals(
    count: int,
    rate: float,
    seed: int = 0,
    vocab_size: int = 50,
    prompt: int = 200,
    new: int = 30,
    systems: Sequence[int] = (),
    aborts: float = 0.0,
) -> list[Ask]:
    """A stream of requests, the same for the same seed, whatever the rate.

    rate: requests a second; gaps are exponential, so arrivals are Poisson. prompt, new: middles of the lengths, which
    go from a quarter to four times of that. systems: lengths of system prompts; each request's prompt has one of them
    in front, and some own tokens behind. aborts: the share of clients that let go some time after asking.
    Raises ValueError for a count, a rate or a length that is not above 0, and for a share outside 0 to 1.
    """
    if min(count, rate, prompt, new) <= 0 or not 0 <= aborts <= 1:
        given = f"count {count}, rate {rate}, prompt {prompt}, new {new}, aborts {aborts}"
        raise ValueError(f"sizes must be above 0, and aborts a share of 0 to 1, got {given}")
    rng = random.Random(seed)
    length = lambda middle: max(1, round(middle * 2 ** (4 * rng.random() - 2)))  # noqa: E731
    words = lambda n: tuple(rng.randrange(vocab_size) for _ in range(n))  # noqa: E731
    shared = [words(n) for n in systems]
    asks, at = [], 0.0
    for i in range(1, count + 1):
        at += rng.expovariate(1.0) / rate
        text = (rng.choice(shared) if shared else ()) + words(length(prompt))
        patience = rng.expovariate(1.0) if rng.random() < aborts else None
        asks.append(Ask(i, at, text, length(new), None if patience is None else at + patience * 10 / rate))
    return asks


def uniform(seed: int, n: int) -> float:
    """The n-th number of a seed, at least 0 and below 1. Nothing is kept: whoever asks again gets it again.

    >>> uniform(3, 0) == uniform(3, 0) != uniform(3, 1)
    True
    """
    return random.Random(f"{seed} {n}").random()


@dataclass(frozen=True)
class StepCost:
    """What a step takes at least, in seconds. As it is, of Llama 3 8B in 16 bits on an H100 (`kvlib.sizing`)."""

    weight_bytes: int = 15_009_849_344  # read once a step: all but the table of embeddings
    kv_bytes_per_token: int = 131_072
    flops_per_token: int = 15_009_849_344  # a multiply and an add for each weight
    flops_per_pair: int = (
        524_288  # of a query and a key, in all layers and heads: the score, and its share of the value
    )
    bandwidth: int = 3_350 * 10**9  # bytes/s
    peak_flops: int = 989 * 10**12  # FLOP/s

    def seconds(self, work: Sequence[tuple[int, int]]) -> float:
        """Of a step that computes T tokens behind S held ones, for each (T, S) of work; 0 for no work.

        >>> f"{StepCost().seconds([(1, 0)]):.4f}"  # one token: 15 GB of weights at 3,350 GB/s
        '0.0045'
        """
        if not work:
            return 0.0
        tokens, rows = sum(T for T, _ in work), sum(S + T for T, S in work)
        pairs = sum(T * S + T * (T + 1) // 2 for T, S in work)  # each token sees itself and all before it
        flops = self.flops_per_token * tokens + self.flops_per_pair * pairs
        moved = self.weight_bytes + self.kv_bytes_per_token * rows
        return roofline(flops, moved, self.peak_flops, self.bandwidth)[2]


class Note(NamedTuple):
    """A line of the desk's log.

    what and value: "ask" (tokens of the prompt), "abort", "admit" (tokens found), "prefill" and "decode" (the end of
    the step that began at `time`, and the request's tokens in it), "token", "release", "close" (the reason).
    """

    time: float
    what: str
    id: int
    value: Any = None


class Desk:
    """Hands events out when their time has come, takes tokens in, and writes all of it down with its time.

    Time goes on in `wait`, and in the steps of a `ClockedEngine`.

    >>> desk = Desk([Ask(id=1, at=0.5, prompt=(7, 8), new=1)])
    >>> desk.news(), desk.wait()[0]["prompt"], desk.now  # nobody is there yet; the clock goes on to the first
    ([], [7, 8], 0.5)
    >>> desk.send(1, 9)
    >>> desk.close(1, "done")
    >>> desk.sent, [note.what for note in desk.log]
    ({1: [9]}, ['ask', 'token', 'close'])
    """

    def __init__(self, asks: Sequence[Ask], show: Callable[[int, int], None] | None = None) -> None:
        """show(id, token): called for each token that is sent. Raises ValueError for an id that comes twice."""
        if len({ask.id for ask in asks}) < len(asks):
            raise ValueError("an id may come once only")
        self.now = 0.0
        self.log: list[Note] = []
        self.sent: dict[int, list[int]] = {}  # of each request that has asked
        self.closed: dict[int, str] = {}
        self._asks, self._show = {ask.id: ask for ask in asks}, show
        self._let_go: set[int] = set()
        coming = [(ask.at, "ask", ask.id) for ask in asks]
        coming += [(max(ask.at, ask.abort_at), "abort", ask.id) for ask in asks if ask.abort_at is not None]
        self._coming = sorted(coming, key=lambda event: (event[0], event[1] == "abort"))

    def news(self) -> list[dict[str, Any]]:
        """The events whose time has come since the last call. Nobody lets go of what is closed."""
        events = []
        while self._coming and self._coming[0][0] <= self.now:
            time, what, i = self._coming.pop(0)
            if what == "ask":
                self.sent[i] = []
                self.log.append(Note(time, "ask", i, len(self._asks[i].prompt)))
                events.append({"kind": "ask", "id": i, "prompt": list(self._asks[i].prompt), "new": self._asks[i].new})
            else:
                self._let_go.add(i)
                self.log.append(Note(time, "abort", i))
                events.append({"kind": "abort", "id": i})
        return events

    def wait(self) -> list[dict[str, Any]]:
        """The same, but where there are none the clock goes on to the next one; [] when no more will ever come."""
        if self._coming:
            self.now = max(self.now, self._coming[0][0])
        return self.news()

    def send(self, i: int, token: int) -> None:
        """A new token of request i. Raises ValueError when it is not open, was aborted, or has all its tokens."""
        self._insist_on(i)
        if i in self._let_go or len(self.sent[i]) == self._asks[i].new:
            why = "its client let go" if i in self._let_go else f"it has its {self._asks[i].new} tokens"
            raise ValueError(f"no token for request {i}: {why}")
        self.sent[i].append(token)
        self.log.append(Note(self.now, "token", i, token))
        if self._show:
            self._show(i, token)

    def close(self, i: int, reason: str) -> None:
        """The end of request i: "done", "aborted" or "refused". Raises ValueError for others, and when not open."""
        self._insist_on(i)
        if reason not in ("done", "aborted", "refused"):
            raise ValueError(f'a request ends "done", "aborted" or "refused", got {reason!r}')
        self.closed[i] = reason
        self._coming = [event for event in self._coming if event[2] != i]
        self.log.append(Note(self.now, "close", i, reason))

    def let_go(self, i: int) -> None:
        """The client of request i has had enough: an abort is among the next news. ValueError when it is not open."""
        self._insist_on(i)
        if i not in self._let_go:
            self._coming = [event for event in self._coming if event[2] != i]
            self._coming.insert(sum(time <= self.now for time, _, _ in self._coming), (self.now, "abort", i))

    def _insist_on(self, i: int) -> None:
        if i not in self.sent or i in self.closed:
            raise ValueError(f"request {i!r} " + ("is closed" if i in self.closed else "has not asked"))


class ClockedEngine:
    """An engine whose steps take their time on a desk's clock, and are written into its log."""

    def __init__(self, engine: Any, desk: Desk, cost: StepCost | None = None) -> None:
        self.engine, self.desk, self.cost = engine, desk, cost or StepCost()
        self._known: dict[Hashable, list[int]] = {}  # tokens held, and tokens known at admission

    def __getattr__(self, name: str) -> Any:
        """All else is the engine's: sizes, free_blocks(), counters."""
        return getattr(self.engine, name)

    def admit(self, i: int, tokens: Sequence[int]) -> int:
        """As the engine's; takes no time."""
        found = self.engine.admit(i, tokens)
        self._known[i] = [found, len(tokens)]
        self.desk.log.append(Note(self.desk.now, "admit", i, found))
        return found

    def step(self, work: Sequence[tuple[int, Sequence[int]]]) -> list[int]:
        """As the engine's; the clock goes on by what the step costs."""
        made = self.engine.step(work)  # what is refused takes no time
        began = self.desk.now
        self.desk.now += self.cost.seconds([(len(tokens), self._known[i][0]) for i, tokens in work])
        for i, tokens in work:
            held, known = self._known[i]
            what = "prefill" if held < known else "decode"
            self.desk.log.append(Note(began, what, i, (self.desk.now, len(tokens))))
            self._known[i][0] += len(tokens)
        return made

    def release(self, i: int) -> None:
        """As the engine's; takes no time."""
        self.engine.release(i)
        self.desk.log.append(Note(self.desk.now, "release", i))
