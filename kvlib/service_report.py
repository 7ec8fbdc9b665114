"""What users waited for, from a desk's log: the first token, each next one, and how much was made in all.

A percentile is taken by nearest rank: the smallest value that so many percent of all values do not exceed. It is
always one of the values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kvlib.request_stream import Note


@dataclass(frozen=True)
class Report:
    """Times in seconds, sorted.

    ttft: from asking to the first token, of each request that got one. itl: all gaps between neighbouring tokens of a
    request, those of all requests together. queueing: from asking to the first admission, of each that was admitted.
    """

    ttft: list[float]
    itl: list[float]
    queueing: list[float]
    done: int
    aborted: int
    refused: int
    tokens: int  # sent
    computed: int  # pushed through the model, prompts and all that was done again
    reused: int  # found at admission
    preemptions: int
    seconds: float  # from the first ask to the last close

    @property
    def throughput(self) -> float:
        """Tokens sent a second; 0 where no time went by."""
        return self.tokens / self.seconds if self.seconds else 0.0


def percentile(values: Sequence[float], percent: int) -> float | None:
    """By nearest rank: of n values the ceil(percent * n / 100)-th, sorted. None where there are no values.

    Raises ValueError for a percent that is not a whole number of 1 to 100.

    >>> percentile(range(1, 21), 95), percentile([4.0, 1.0], 50)
    (19, 1.0)
    """
    if not isinstance(percent, int) or not 1 <= percent <= 100:
        raise ValueError(f"percent must be a whole number of 1 to 100, got {percent!r}")
    ordered = sorted(values)
    return ordered[-(-percent * len(ordered) // 100) - 1] if ordered else None


def report(log: Sequence[Note]) -> Report:
    """The report of a desk's log."""
    of = lambda *kinds: [note for note in log if note.what in kinds]  # noqa: E731
    asked = {note.id: note.time for note in of("ask")}
    stamps: dict[int, list[float]] = {}
    for note in of("token"):
        stamps.setdefault(note.id, []).append(note.time)
    admitted: dict[int, float] = {}
    for note in of("admit"):
        admitted.setdefault(note.id, note.time)
    ends = [note.value for note in of("close")]
    gaps = [after - before for times in stamps.values() for before, after in zip(times, times[1:], strict=False)]
    return Report(
        ttft=sorted(times[0] - asked[i] for i, times in stamps.items()),
        itl=sorted(gaps),
        queueing=sorted(time - asked[i] for i, time in admitted.items()),
        done=ends.count("done"),
        aborted=ends.count("aborted"),
        refused=ends.count("refused"),
        tokens=len(of("token")),
        computed=sum(note.value[1] for note in of("prefill", "decode")),
        reused=sum(note.value for note in of("admit")),
        preemptions=len(of("admit")) - len(admitted),
        seconds=max((note.time for note in of("close")), default=0.0) - min(asked.values(), default=0.0),
    )


def table(reports: Mapping[str, Report]) -> str:
    """A row for each report: middles, 95th percentiles and the longest of times, tokens a second, work done."""
    width = max(map(len, reports), default=0)
    heads = ("TTFT 50%", "95%", "ITL 50%", "95%", "longest", "tokens/s", "computed", "preemptions")
    rows: dict[str, tuple[str, ...]] = {"": heads}
    for name, one in reports.items():
        times = [percentile(one.ttft, p) for p in (50, 95)] + [percentile(one.itl, p) for p in (50, 95, 100)]
        counts = (f"{one.throughput:,.0f}", f"{one.computed:,}", f"{one.preemptions}")
        rows[name] = (*map(_ms, times), *counts)
    lines = [
        f"{name:{width}}" + "".join(f"{cell:>{max(len(head), 5) + 2}}" for cell, head in zip(row, heads, strict=True))
        for name, row in rows.items()
    ]
    return "\n".join([*lines, "Times in ms, percentiles by nearest rank; ITL: the gaps of all requests together."])


def _ms(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{1000 * seconds:,.0f}" if seconds >= 0.01 else f"{1000 * seconds:.1f}"
