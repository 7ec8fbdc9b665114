"""How long a generation takes on a device that works on while the program goes on."""

from __future__ import annotations

import statistics
from typing import Protocol


class Device(Protocol):
    """What is timed. Work is queued and done in order; only `synchronize` waits for it."""

    new_tokens: int  # tokens that one generation makes: prefill the first, each decode one more

    def clock(self) -> float:
        """Seconds, since whenever."""

    def prefill(self) -> None:
        """Queue the pass over the prompt."""

    def decode(self) -> None:
        """Queue one decode step."""

    def synchronize(self) -> None:
        """Wait until all that was queued is done."""


def time_generation(device: Device, warm_up: int, repeats: int) -> tuple[float, float | None]:
    """(time to first token, inter-token latency) in seconds: medians over `repeats` runs.

    Before them come `warm_up` runs of the same kind that do not count: first runs compile, allocate and fill caches. A
    run's inter-token latency is its mean over the new_tokens - 1 gaps between tokens; None where there is one token.
    Raises ValueError for repeats below 1 or warm_up below 0, before anything is queued.

    >>> from kvlib.simulated_device import SimulatedDevice
    >>> ttft, itl = time_generation(SimulatedDevice(prefill=0.12, decode=0.04), warm_up=2, repeats=5)
    >>> f"{ttft:.1f} s, then {itl:.2f} s for each token"
    '0.1 s, then 0.04 s for each token'
    """
    if repeats < 1 or warm_up < 0:
        raise ValueError(f"repeats must be at least 1 and warm_up at least 0, got {repeats} and {warm_up}")
    runs = [_one_run(device) for _ in range(warm_up + repeats)][warm_up:]
    ttft = statistics.median(first for first, _ in runs)
    gaps = device.new_tokens - 1
    return ttft, statistics.median(rest / gaps for _, rest in runs) if gaps else None


def _one_run(device: Device) -> tuple[float, float]:
    """Seconds to the first token, and from it to the last."""
    device.synchronize()  # work that somebody queued before is not ours
    began = device.clock()
    device.prefill()
    device.synchronize()  # the call returned long before the token was there
    first = device.clock()
    for _ in range(device.new_tokens - 1):
        device.decode()
    device.synchronize()
    return first - began, device.clock() - first
