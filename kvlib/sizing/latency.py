"""What a user waits for: the first token, and then each next one."""

from __future__ import annotations

from collections.abc import Sequence


def latencies(start: float, times: Sequence[float]) -> tuple[float, float | None]:
    """(time to first token, mean inter-token latency) of one request, in the unit of the time stamps.

    start: when the request was sent. times: when each token came, earliest first.

    The mean inter-token latency is over the n - 1 gaps between tokens; it is None when there is no second token.
    ValueError when no token came, or when the stamps go back in time.

    >>> ttft, itl = latencies(0.0, [0.12, 0.16, 0.21, 0.25])
    >>> print(f"{ttft:.2f} s, then {itl:.5f} s")
    0.12 s, then 0.04333 s
    """
    stamps = list(times)
    if not stamps:
        raise ValueError("times is empty: no token came, so there is no time to the first one")
    for before, after in zip([start, *stamps], stamps, strict=False):
        if after < before:
            raise ValueError(f"time goes back, from {before} to {after}")
    ttft = stamps[0] - start
    if len(stamps) == 1:
        return ttft, None
    return ttft, (stamps[-1] - stamps[0]) / (len(stamps) - 1)
