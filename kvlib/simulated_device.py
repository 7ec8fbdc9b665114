"""A device to practise timing on: it behaves as a GPU does, and its seconds are invented.

Work is queued, and the call returns at once. First runs are slow. Now and then a run takes far longer than the others.
"""

from __future__ import annotations

import random


class SimulatedDevice:
    """Queues passes of a model on a clock of its own, so that the same calls always take the same time.

    >>> device = SimulatedDevice(prefill=0.1, cold_runs=0, outliers=0.0, queued=0.0)
    >>> device.prefill()  # returns after `launch` seconds, however long the pass takes
    >>> device.clock()
    1e-05
    >>> device.synchronize()  # waits for it
    >>> 0.09 < device.clock() < 0.11
    True
    """

    def __init__(
        self,
        new_tokens: int = 8,
        prefill: float = 0.12,
        decode: float = 0.04,
        launch: float = 1e-5,
        cold_runs: int = 2,
        cold_factor: float = 20.0,
        outliers: float = 0.2,
        queued: float = 0.5,
        seed: int = 2,
    ) -> None:
        """prefill, decode: seconds of one pass, a few percent of noise apart. launch: seconds that queueing takes.

        cold_runs: generations at the start that are `cold_factor` times as slow. outliers: the share of the others that
        take 10 times as long. queued: seconds of somebody else's work that the device still has to do. Raises
        ValueError for new_tokens below 1.
        """
        if new_tokens < 1:
            raise ValueError(f"new_tokens must be at least 1, got {new_tokens}")
        self.new_tokens = new_tokens
        self._seconds, self._launch, self._outliers = {"prefill": prefill, "decode": decode}, launch, outliers
        # Passes of each kind that will be slow: a kind compiles when it first runs, whatever ran before.
        self._cold = {"prefill": cold_runs, "decode": cold_runs * (new_tokens - 1)}
        self._cold_factor, self._disturbed = cold_factor, 1.0
        self._random = random.Random(seed)
        self._now, self._done = 0.0, queued  # what the clock shows; when the last piece of work will be done

    def clock(self) -> float:
        """Seconds since the device was made."""
        return self._now

    def prefill(self) -> None:
        """Queue the pass over the prompt, which makes the first token."""
        self._disturbed = 10.0 if self._random.random() < self._outliers else 1.0
        self._queue("prefill")

    def decode(self) -> None:
        """Queue one decode step, which makes one more token."""
        self._queue("decode")

    def synchronize(self) -> None:
        """Wait until all that was queued is done."""
        self._now = max(self._now, self._done)

    def _queue(self, kind: str) -> None:
        self._now += self._launch
        self._cold[kind] -= 1
        factor = self._cold_factor if self._cold[kind] >= 0 else self._disturbed
        seconds = self._seconds[kind] * self._random.uniform(0.97, 1.03) * factor
        self._done = max(self._done, self._now) + seconds  # one after the other
