"""Drives a cache of heavy hitters through a text, and holds each step against loops over heads and positions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from autograde.compare import shown
from autograde.exercises.axes import named
from autograde.exercises.positions import as_numbers, named_when, unchanged, whole_positions
from autograde.expect import agrees
from autograde.finding import Finding, held
from autograde.subject import Subject
from autograde.value import Handle

SIZES = (6, 2, 5)  # H, Hkv, D
APART = 1e-3  # by how much two totals differ where it matters: far more than float32 rounds
LIKED = 3.0  # a score of up to LIKED**2 / sqrt(D) that a row has for all queries
Kept = tuple[tuple[int, ...], ...]  # positions of each KV head


class Run:
    """One cache of the learner's, a text for it, and what is right after each of its chunks."""

    def __init__(
        self,
        subject: Subject,
        rng: np.random.Generator,
        budget: int,
        recent: int,
        chunks: Sequence[int],
        sizes: tuple[int, int, int] = SIZES,
        telling: frozenset[str] = frozenset(),
    ) -> None:
        """telling: the rules of `other_totals`, and others, by which some other row would have to go in this text."""
        self.subject, self.budget, self.sizes, self.chunks = subject, budget, sizes, tuple(chunks)
        self.q, self.k, self.v, (self.outputs, self.kept) = draw(rng, self.chunks, budget, recent, sizes, telling)
        H, Hkv, D = sizes
        self.start = self.turn = 0
        self.cache: Handle = subject.new(Hkv, D, budget, recent)
        self.name = f"H {H}, Hkv {Hkv}, budget {budget}, recent {recent}"

    def all(self) -> Iterable[Finding]:
        """Every chunk."""
        for _ in self.chunks:
            yield from self.step()
            yield self.left()

    def empty(self) -> Finding:
        """Whether a new cache holds nothing."""
        return self.positions(((),) * self.sizes[1], f"{self.name}, new")

    def left(self) -> Finding:
        """Whether the right rows are left after the newest chunk."""
        return self.positions(self.kept[self.turn - 1], f"{self.name}, after token {self.start - 1}")

    def step(self) -> Iterable[Finding]:
        """The next chunk."""
        part = self.part()
        with named_when(f"with {self.name}, {self.where()}"):
            got = self.subject.call(self.cache, "step", self.q[:, part], self.k[:, part], self.v[:, part])
        yield self.judge(got)

    def part(self) -> slice:
        """Where the next chunk lies in the text."""
        return slice(self.start, self.start + self.chunks[self.turn])

    def where(self) -> str:
        """The next chunk in words."""
        T = self.chunks[self.turn]
        return f"token {self.start}" if T == 1 else f"tokens {self.start} to {self.start + T - 1}"

    def judge(self, got: Any) -> Finding:
        """Whether the outputs are right."""
        where, part = f"{self.name}, {self.where()}", self.part()
        fact = "every query sees what its KV head still holds, and its chunk up to itself"
        finding = agrees(self.subject, got, self.outputs[:, part], key="output", fact=fact)
        self.start, self.turn = part.stop, self.turn + 1
        return named(finding, ("head", "query", "feature"), where)

    def positions(self, kept: Kept, where: str) -> Finding:
        """Whether each KV head says that it holds just what it should."""
        fact = "positions(head) lists the rows held, increasing"
        for head, wanted in enumerate(kept):
            got = self.subject.call(self.cache, "positions", head)
            array = as_numbers(got)
            if array is not None and array.ndim == 1 and whole_positions(array) == list(wanted):
                continue
            if array is not None and array.size == 0 and not wanted:
                continue
            clue = _clue(array, wanted)
            text = f"does not hold: {fact}" + (f"; {clue}" if clue else "")
            place, events = f"{where}, KV head {head}", len(self.subject.record)
            given = str(array.tolist())[:60] if array is not None and array.size < 100 else shown(got)
            return Finding(
                False, "positions", text, where=place, expected=str([*wanted])[:60], got=given, events=events
            )
        return held("positions", fact)

    def memory(self) -> Finding:
        """Whether the cache holds no more than twice what `budget` rows take, totals and positions apart."""
        _, Hkv, D = self.sizes
        most = 2 * 2 * Hkv * self.budget * D * self.k.itemsize
        size = self.subject.storage(self.cache)
        fact = f"between steps it holds at most twice what {self.budget} rows of K and V take"
        if type(size) is int and 0 <= size <= most + 32 * Hkv * self.budget + 64:
            return held("memory", fact)
        given = f"{size} bytes" if type(size) is int else shown(size)
        text, where, events = (
            f"does not hold: {fact}",
            f"{self.name}, {self.start} tokens seen",
            len(self.subject.record),
        )
        return Finding(False, "memory", text, where=where, expected=f"{most} bytes at most", got=given, events=events)

    def reusing(self) -> Iterable[Finding]:
        """The next chunk in tensors that the caller overwrites as soon as it has the outputs."""
        subject, part = self.subject, self.part()
        rows = {name: value[:, part] for name, value in (("q", self.q), ("k", self.k), ("v", self.v))}
        kept = {name: subject.put(value) for name, value in rows.items()}
        yield self.judge(subject.call(self.cache, "step", *kept.values()))
        for name, value in rows.items():
            finding = unchanged(subject, kept[name], value, name)
            yield (
                finding
                if finding.ok
                else Finding(
                    False, finding.key, f"does not hold: step() leaves {name} as it was", events=finding.events
                )
            )
            subject.fill(kept[name], np.nan)


def _clue(array: np.ndarray | None, wanted: Sequence[int]) -> str:
    if array is None or array.ndim != 1:
        return ""
    got = whole_positions(array)
    missing, more = (sorted(set(a) - set(b)) for a, b in ((wanted, got), (got, wanted)))
    words = [f"{missing[0]} is missing"] if missing else []
    return " and ".join(words + ([f"{more[0]} should not be there"] if more else []))


def draw(
    rng: np.random.Generator,
    chunks: tuple[int, ...],
    budget: int,
    recent: int,
    sizes: tuple[int, int, int],
    telling: frozenset[str],
) -> tuple[np.ndarray, np.ndarray, np.ndarray, tuple[np.ndarray, list[Kept]]]:
    """q, k, v of a text, and what is right for it.

    It is drawn again until no two totals are near each other, and each rule of `telling` would keep other rows.
    """
    (H, Hkv, D), n = sizes, sum(chunks)
    for _ in range(200):
        q, k, v = 1.2 * rng.normal(size=(H, n, D)), 1.2 * rng.normal(size=(Hkv, n, D)), rng.normal(size=(Hkv, n, D))
        # Some rows are looked at more than others by all queries; the first one, which has most time, less than most.
        q[..., 0], k[..., 0] = LIKED, LIKED * rng.uniform(-1, 1, (Hkv, n))
        k[:, 0, 0] = -LIKED
        data = (part.tobytes() for part in (q, k, v))
        outputs, kept, apart, told = _history(*data, chunks, budget, recent, sizes, bool(telling))
        if apart > APART and telling <= told:
            return q, k, v, (outputs, kept)
    raise ValueError(f"no telling text in 200: {chunks}, budget {budget}, recent {recent}, {sorted(telling)}")


Share = tuple[int, int, int, float]  # query head, position of the query, position of the row, weight


def other_totals(
    before: dict[str, dict[int, float]], shares: list[Share], start: int, end: int
) -> dict[str, dict[int, float]]:
    """Totals of one KV head by wrong rules, after one more chunk: by rule, then by position."""
    first = min(h for h, _, _, _ in shares)
    largest: dict[tuple[int, int], float] = {}
    for _, t, p, share in shares:
        largest[t, p] = max(share, largest.get((t, p), 0.0))
    added = {
        "own": [(p, share) for _, t, p, share in shares if t != p],
        "fresh": [(p, share) for _, t, p, share in shares if p < start],
        "first head": [(p, share) for h, _, p, share in shares if h == first],
        "last query": [(p, share) for _, t, p, share in shares if t == end - 1],
        "step mean": [(p, share / (end - start)) for _, _, p, share in shares],
        "group": [(p, share) for (_, p), share in largest.items()],
    }
    after = {}
    for rule, pairs in added.items():
        totals = dict(before.get(rule, {}))
        for p in range(start, end):
            totals[p] = 0.0
        for p, share in pairs:
            totals[p] += share
        after[rule] = totals
    ever = dict(before.get("ever", {}))
    for _, _, p, share in shares:
        ever[p] = max(share, ever.get(p, 0.0))
    return after | {"ever": ever}


@lru_cache(maxsize=1000)
def _history(
    q_data: bytes,
    k_data: bytes,
    v_data: bytes,
    chunks: tuple[int, ...],
    budget: int,
    recent: int,
    sizes: tuple[int, int, int],
    compared: bool,
) -> tuple[np.ndarray, list[Kept], float, frozenset[str]]:
    """Outputs (H, n, D), what each KV head holds after each chunk, how near two totals came, and which rules differ.

    Up to where a wrong rule first lets another row go, it has seen what the right one has: so all run side by side.
    """
    (H, Hkv, D), n = sizes, sum(chunks)
    q = np.frombuffer(q_data).reshape(H, n, D).tolist()
    k, v = (np.frombuffer(data).reshape(Hkv, n, D).tolist() for data in (k_data, v_data))
    outputs, told, apart, differ = np.zeros((H, n, D)), [], math.inf, set()
    totals: list[dict[int, float]] = [{} for _ in range(Hkv)]
    others: list[dict[str, dict[int, float]]] = [{} for _ in range(Hkv)]
    start = 0
    for T in chunks:
        end = start + T
        for j in range(Hkv):
            for p in range(start, end):
                totals[j][p] = 0.0
            chunk: list[Share] = []
            for h in range(j * (H // Hkv), (j + 1) * (H // Hkv)):
                for t in range(start, end):
                    seen = [p for p in totals[j] if p <= t]
                    scores = [sum(a * b for a, b in zip(q[h][t], k[j][p], strict=True)) / math.sqrt(D) for p in seen]
                    top = max(scores)
                    exps = [math.exp(score - top) for score in scores]
                    whole = math.fsum(exps)
                    chunk += [(h, t, p, exp / whole) for p, exp in zip(seen, exps, strict=True)]
            for h, t, p, share in chunk:
                totals[j][p] += share
                outputs[h, t] += [share * number for number in v[j][p]]
            if compared:
                others[j] = other_totals(others[j], chunk, start, end)
            ranked = _ranked(totals[j], end - recent)
            gone = max(0, len(totals[j]) - budget)
            if 0 < gone < len(ranked):
                apart = min(apart, totals[j][ranked[gone]] - totals[j][ranked[gone - 1]])
            rules = {rule: _ranked(other, end - recent) for rule, other in others[j].items()}
            rules["less recent"] = _ranked(totals[j], end - recent + 1)
            rules["more recent"] = _ranked(totals[j], end - recent - 1)
            differ |= {rule for rule, order in rules.items() if set(order[:gone]) != set(ranked[:gone])}
            differ |= {"row 0"} if 0 in ranked[:gone] else set()
            for rows in (totals[j], *others[j].values()):
                for p in ranked[:gone]:
                    del rows[p]
        told.append(tuple(tuple(sorted(totals[j])) for j in range(Hkv)))
        start = end
    return outputs, told, apart, frozenset(differ)


def _ranked(totals: dict[int, float], end: int) -> list[int]:
    """The positions below `end`, the smallest total first."""
    return sorted((p for p in totals if p < end), key=totals.__getitem__)
