"""A device whose seconds are known: it queues work, and each run has a time of its own."""

from __future__ import annotations

import numpy as np

from autograde.subject import Trusted

MANY = 2000  # calls: more than any way of timing needs; a loop that never ends is stopped here


class Device:
    """Runs of one prefill and `new_tokens - 1` decodes, whose seconds are drawn before.

    cold: runs at the start that are slow, prefill and decode each by itself. Decodes of one run differ. queued: seconds
    of somebody else's work that is still to be done when the first call comes. launch: seconds that the program itself
    spends in each prefill(), and in the first decode() after it; the clock shows them even before synchronize().
    """

    def __init__(
        self, rng: np.random.Generator, new_tokens: int, runs: int, cold: int = 0, queued: float = 0.0
    ) -> None:
        self.new_tokens = new_tokens
        self.prefills = (0.3 + 0.2 * rng.permutation(runs + 3) / (runs + 3)) * (1 + rng.uniform(0, 0.02, runs + 3))
        self.decodes = 0.03 * 1.17 ** rng.permutation(runs + 3)[:, None] * rng.uniform(0.7, 1.4, (runs + 3, new_tokens))
        self.prefills[:cold] *= rng.uniform(15, 25, cold)
        self.decodes[:cold] *= rng.uniform(15, 25, (cold, 1))
        self.launch = float(rng.uniform(0.002, 0.009))
        self._now = float(np.round(rng.uniform(100, 900), 3))
        self._done = self._now + queued
        self.calls: list[str] = []  # in order: "prefill", "decode", "synchronize", "clock"

    def rank(self, prefills: list[int], decodes: list[int]) -> None:
        """Put the first runs in an order: 0 for the fastest."""
        for times, ranks, whole in ((self.prefills, prefills, self.prefills), (self.decodes, decodes, self.sums())):
            fastest_first = np.argsort(whole[: len(ranks)])
            times[: len(ranks)] = times[fastest_first[ranks]]

    def sums(self) -> np.ndarray:
        """What the decodes of each run take."""
        return self.decodes[:, : self.new_tokens - 1].sum(axis=1)

    def outlier(self, run: int, factor: float) -> None:
        """Something else got in the way of this run."""
        self.prefills[run] *= factor
        self.decodes[run] *= factor

    def clock(self) -> float:
        """Seconds, since whenever."""
        self._note("clock")
        return self._now

    def prefill(self) -> None:
        """Queue the prompt's pass."""
        self._queue("prefill", self.prefills)

    def decode(self) -> None:
        """Queue one decode step. The kind counts by itself: the first decodes are slow whatever ran before."""
        self._queue("decode", self.decodes[:, : max(self.new_tokens - 1, 1)].ravel())

    def synchronize(self) -> None:
        """Wait until all that was queued is done."""
        self._note("synchronize")
        self._now = max(self._now, self._done)

    def count(self, kind: str) -> int:
        """How often something was called."""
        return self.calls.count(kind)

    def queued(self) -> list[str]:
        """What was queued, in order."""
        return [call for call in self.calls if call in ("prefill", "decode")]

    def lent(self) -> Trusted:
        """This device, as the learner's side sees it."""
        return Trusted(self, ("clock", "prefill", "decode", "synchronize"), ("new_tokens",), name="Device")

    def _queue(self, kind: str, seconds: np.ndarray) -> None:
        took = float(seconds[min(self.count(kind), len(seconds) - 1)])
        before = next((call for call in reversed(self.calls) if call in ("prefill", "decode")), "")
        self._note(kind)
        if kind == "prefill" or before == "prefill":
            self._now += self.launch
        self._done = max(self._now, self._done) + took

    def _note(self, kind: str) -> None:
        if len(self.calls) >= MANY:
            raise RuntimeError(f"the device was called {MANY} times: a loop that never ends?")
        self.calls.append(kind)
