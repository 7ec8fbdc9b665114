"""Drives a cache of sinks and a window through a text, and holds every layer against the whole of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from autograde.compare import shown
from autograde.exercises.positions import (
    NOT_WHOLE,
    at_position,
    named_when,
    shapes_of,
    three_parts,
    unchanged,
    whole_positions,
)
from autograde.expect import agrees, equals
from autograde.finding import Finding, held
from autograde.subject import Subject
from autograde.value import Handle

SIZES = (3, 2, 6)  # L, Hkv, D
LOOKED_AT = 4  # tokens


class Run:
    """One cache of the learner's, a text for all its layers, and how much of it has been appended."""

    def __init__(
        self,
        subject: Subject,
        rng: np.random.Generator,
        sinks: int,
        window: int,
        tokens: int,
        sizes: tuple[int, int, int] = SIZES,
    ) -> None:
        self.subject, self.sinks, self.window, self.start = subject, sinks, window, 0
        self.sizes = L, Hkv, D = sizes
        self.K, self.V = rng.normal(size=(2, L, Hkv, tokens, D))
        self.cache: Handle = subject.new(L, Hkv, D, sinks, window)
        self.name = f"{sinks} sinks, window {window}"

    def needed(self, end: int) -> list[int]:
        """The positions that stay once `end` tokens have been seen."""
        return [p for p in range(end) if p < self.sinks or p > end - 1 - self.window]

    def chunk(self, T: int) -> Iterable[Finding]:
        """The next T tokens in every layer, and the count of them."""
        for layer in range(self.sizes[0]):
            k, v = (rows[layer, :, self.start : self.start + T] for rows in (self.K, self.V))
            yield from self.append(layer, T, k, v)
        yield from self.advance(T)

    def append(self, layer: int, T: int, k: Any, v: Any) -> Iterable[Finding]:
        """The next T tokens in one layer; k and v hold them, as arrays or as handles."""
        end = self.start + T
        where = f"{self.name}, layer {layer}, token {self.start}"
        where += "" if T == 1 else f" to {end - 1}"
        with named_when(f"with {where}"):
            got = self.subject.call(self.cache, "append", layer, k, v)
        yield from self.judge(got, layer, end, where)

    def judge(self, got: Any, layer: int, end: int, where: str) -> Iterable[Finding]:
        """Whether the rows that stay came back, each once, with its position; and no other."""
        subject, (_, Hkv, D) = self.subject, self.sizes
        parts = three_parts(got, (1, Hkv, D), rows=())
        if parts is None:
            fact = f"append() returns K and V of shape ({Hkv}, n, {D}) and positions of (n,)"
            given, events = shapes_of(got), len(subject.record)
            yield Finding(False, "parts", fact, where=where, expected="three tensors", got=given, events=events)
            return
        needed, positions = self.needed(end), whole_positions(parts[2])
        yield kept_once(subject, positions, needed, end, where)
        columns = [positions.index(p) for p in needed]
        for name, part, rows in (("K", parts[0], self.K), ("V", parts[1], self.V)):
            fact = f"the {name} at each position is that of its token, as it came"
            # (n, Hkv, D): the first wrong number is told by the place in what came back, then by its position.
            came, want = part[0][:, columns].transpose(1, 0, 2), rows[layer][:, needed].transpose(1, 0, 2)
            finding = at_position(
                agrees(subject, came, want, key=name, fact=fact), where, ("row", "KV head", "feature")
            )
            yield finding if finding.ok else _by_position(finding, needed)

    def advance(self, T: int) -> Iterable[Finding]:
        """Counts the tokens of a pass, and looks at the count before, while there are few, and after."""
        if self.start < LOOKED_AT:
            fact = "length is the number of tokens that advance() has counted"
            where = f"{self.name}, {T} more appended to every layer, before advance({T})"
            yield equals(self.subject, self.length(), self.start, key="before", fact=fact, what=where)
        with named_when(f"with {self.name}, after token {self.start + T - 1}"):
            self.subject.call(self.cache, "advance", T)
        self.start += T
        where, fact = f"{self.name}, {self.start} tokens seen", "length is the number of tokens seen, gone or not"
        yield equals(self.subject, self.length(), self.start, key="length", fact=fact, what=where)

    def length(self) -> Any:
        """What the cache says that it has seen."""
        return self.subject.get(self.cache, "length")

    def memory(self) -> Finding:
        """Whether the cache holds no more than the rows that stay, positions and counters apart."""
        L, Hkv, D = self.sizes
        rows = self.sinks + self.window
        most = 2 * L * Hkv * rows * D * self.K.itemsize
        size = self.subject.storage(self.cache)
        fact = f"between passes it holds no more than {rows} rows of K and V in each layer and head"
        if type(size) is int and 0 <= size <= most + 16 * L * rows + 64:
            return held("memory", fact)
        given = f"{size} bytes" if type(size) is int else shown(size)
        where, events = f"{self.name}, {self.start} tokens seen", len(self.subject.record)
        text, wanted = f"does not hold: {fact}", f"{most} bytes at most"
        return Finding(False, "memory", text, where=where, expected=wanted, got=given, events=events)

    def reusing(self, T: int) -> Iterable[Finding]:
        """A chunk in tensors that the caller overwrites as soon as every layer has them."""
        subject, part = self.subject, slice(self.start, self.start + T)
        kept = []
        for layer in range(self.sizes[0]):
            k, v = (subject.put(rows[layer, :, part]) for rows in (self.K, self.V))
            yield from self.append(layer, T, k, v)
            kept += [(k, self.K[layer, :, part], "k"), (v, self.V[layer, :, part], "v")]
        for handle, rows, name in kept:
            yield unchanged(subject, handle, rows, name)
            subject.fill(handle, np.nan)
        yield from self.advance(T)


def kept_once(subject: Subject, positions: list[int], needed: list[int], end: int, where: str) -> Finding:
    """Whether each position that stays is there once, and no other."""
    fact = "the sinks and the last `window` tokens come back, each once, and nothing else"
    clue = ""
    for p in needed:
        if positions.count(p) != 1:
            clue = f"position {p} {'is missing' if p not in positions else 'is there more than once'}"
            break
    more = sorted(set(positions) - set(needed))
    if not clue and more:
        p = more[0]
        clue = "there is a position that is none" if p < 0 else f"position {p} should have gone"
        clue = f"position {p} has not been yet" if p >= end else clue
    if not clue:
        return held("positions", fact)
    given = str([p if p > NOT_WHOLE else "?" for p in positions])[:60]
    text, events = f"does not hold: {fact}; {clue}", len(subject.record)
    return Finding(False, "positions", text, where=where, expected=spans(needed), got=given, events=events)


def spans(positions: Sequence[int]) -> str:
    """Increasing positions in a few words: "0 to 2, 9"."""
    runs: list[list[int]] = []
    for p in positions:
        if runs and p == runs[-1][-1] + 1:
            runs[-1].append(p)
        else:
            runs.append([p])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs)


def _by_position(finding: Finding, needed: Sequence[int]) -> Finding:
    """The same, "row 3" told by the position that stands there."""
    before, _, rest = finding.where.rpartition("row ")
    row, _, after = rest.partition(",")
    place = f"position {needed[int(row)]}" if row.isdigit() and int(row) < len(needed) else f"row {row}"
    return replace(finding, where=f"{before}{place}{',' if after else ''}{after}")


def every(
    subject: Subject,
    rng: np.random.Generator,
    sinks: int,
    window: int,
    chunks: Sequence[int],
    sizes: tuple[int, int, int] = SIZES,
) -> Iterable[Finding]:
    """A text in these chunks, from an empty cache on."""
    run = Run(subject, rng, sinks, window, sum(chunks), sizes)
    fact = "length is 0 before the first token"
    yield equals(subject, run.length(), 0, key="length", fact=fact, what=run.name)
    for T in chunks:
        yield from run.chunk(T)
