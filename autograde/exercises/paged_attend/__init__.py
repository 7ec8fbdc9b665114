"""Exercise 6.4: attention over keys and values that lie in blocks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from autograde.compare import as_array
from autograde.exercise import Exercise, stage
from autograde.exercises.oracle_gqa import attend_batch
from autograde.exercises.paged_attend.candidates import MISTAKES, VARIANTS
from autograde.exercises.positions import as_numbers
from autograde.expect import agrees
from autograde.finding import Finding, held
from autograde.lazy import Later
from autograde.subject import Subject

HEADS = H, HKV, D = 6, 2, 5
NUM_BLOCKS, BLOCK_SIZE = 11, 4

Tables = Sequence[Sequence[int]]


class Case:
    """Pools of noise, queries, and what each sequence gives alone, token by token."""

    def __init__(
        self,
        rng: np.random.Generator,
        tables: Tables,
        lengths: Sequence[int],
        T: int = 1,
        heads: tuple[int, int, int] = HEADS,
        sizes: tuple[int, int] = (NUM_BLOCKS, BLOCK_SIZE),
        low: bool = False,
        spare: int = 0,
        **elsewhere: float,
    ) -> None:
        """elsewhere: what "K" and "V" hold in all slots that no sequence uses. low: all scores are far below 0.

        spare: columns that no table needs.
        """
        H, HKV, D = heads
        q = rng.normal(size=(len(tables), H, T, D)) * 2
        K, V = rng.normal(size=(2, *sizes, HKV, D))
        if low:
            q, K = 20 + 20 * np.abs(q), -20 - 20 * np.abs(K)
        used = np.zeros(sizes, dtype=bool)
        keys, values = np.zeros((2, len(tables), HKV, max(lengths), D))
        for b, (table, length) in enumerate(zip(tables, lengths, strict=True)):
            for p in range(length):
                place = table[p // sizes[1]], p % sizes[1]
                used[place], keys[b, :, p], values[b, :, p] = True, K[place], V[place]
        for name, pool in (("K", K), ("V", V)):
            if name in elsewhere:
                pool[~used] = elsewhere[name]
        longest = max(map(len, tables)) + spare
        padded = [[*table, *[-1] * (longest - len(table))] for table in tables]
        self.args = q, K, V, np.array(padded), np.array(lengths)
        seen = np.zeros((len(tables), T, max(lengths)), dtype=bool)
        for b, t, p in np.ndindex(seen.shape):
            seen[b, t, p] = p <= lengths[b] - T + t
        self.want = attend_batch(q, keys, values, seen)
        self.lengths = lengths

    def judge(self, subject: Subject, what: str) -> Iterable[Finding]:
        """One call, against the sequences alone."""
        yield self.agrees(subject, subject.run(*self.args), what)

    def agrees(self, subject: Subject, got: object, what: str) -> Finding:
        """Whether the outputs are right; a wrong one is told by sequence, query and head."""
        fact = f"each sequence sees its own tokens, and those only ({what})"
        array, complaint = as_array(got, self.want.shape)
        if isinstance(got, np.ndarray) and got.ndim != self.want.ndim and array is not None:
            array, complaint = None, f"returned shape {got.shape}, wanted {self.want.shape}"
        if array is None:
            return Finding(False, f"shape, {what}", complaint, where=what, events=len(subject.record))
        finding = agrees(subject, array, self.want, key=what, fact=fact)
        if finding.ok or not finding.where:
            return finding
        b, h, t, _ = (int(i) for i in finding.where.split(","))
        position = self.lengths[b] - self.want.shape[2] + t
        return replace(finding, where=f"sequence {b}, query {t} (position {position}), head {h}")


@stage("one new token", why="First one sequence in full blocks: grouped-query attention, through a table.")
def one_new_token(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    yield from Case(rng, [[0, 1]], [8]).judge(subject, "blocks 0 and 1")
    for heads in ((4, 4, 3), (5, 1, 2), (8, 4, 7)):
        text = "{} heads, {} KV heads, head dim {}".format(*heads)
        yield from Case(rng, [[0, 1]], [8], heads=heads).judge(subject, text)
    yield from Case(rng, [[0, 1]], [6], sizes=(5, 3)).judge(subject, "blocks of 3")


@stage("blocks anywhere", why="Sequences take blocks as they grow, so each one's lie scattered among the others'.")
def blocks_anywhere(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    yield from Case(rng, [[7, 2]], [8]).judge(subject, "blocks 7 and 2")
    yield from Case(rng, [[5, 0, 8], [1, 9, 3]], [12, 12]).judge(subject, "two sequences")
    many = [[3, 10, 1, 8, 0, 6]]
    yield from Case(rng, many, [24]).judge(subject, "six blocks")
    long = [[3, 15, 1, 8, 0, 6, 12, 4, 16, 10, 2, 14, 7]]
    yield from Case(rng, long, [39], sizes=(17, 3)).judge(subject, "13 blocks of 3")
    yield from Case(rng, [[300, 9, 128]], [6], sizes=(307, 2)).judge(subject, "a pool of 307 blocks of 2")


@stage("different lengths", why="The last block is partly filled, and short tables end in -1.", weight=2)
def different_lengths(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    yield from Case(rng, [[9, 4]], [7]).judge(subject, "7 tokens in blocks of 4")
    yield from Case(rng, [[6, 2, 8], [0, 5, 3]], [11, 9]).judge(subject, "11 and 9 tokens")
    mixed = [[4, 7], [9, 1, 3, 5], [6]]
    yield from Case(rng, mixed, [5, 14, 3]).judge(subject, "5, 14 and 3 tokens")
    yield from Case(rng, mixed, [8, 13, 1]).judge(subject, "8, 13 and 1 tokens")
    yield from Case(rng, [[4, 7], [9, 1, 3]], [7, 10], spare=2).judge(subject, "tables with spare columns")
    yield from Case(rng, [[5, 2, 8], [11, 0]], [3, 2], sizes=(13, 1)).judge(subject, "blocks of 1")
    yield from Case(rng, [[4], [9]], [7, 3], sizes=(11, 16)).judge(subject, "blocks of 16")
    shared = [[4, 7], [4, 9, 2]]
    yield from Case(rng, shared, [7, 10]).judge(subject, "a full block that stands in two tables")
    yield from Case(rng, [[8, 2], [5]], [6, 4], low=True).judge(subject, "scores far below 0")


@stage("several new tokens", why="A chunk's queries see each other too, and none sees a later one.", weight=2)
def several_new_tokens(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    yield from Case(rng, [[7, 2]], [8], T=3).judge(subject, "3 new of 8 tokens")
    yield from Case(rng, [[8, 0]], [7], T=7).judge(subject, "a prompt of 7 tokens")
    chunks = [[4, 7], [9, 1, 3, 5], [6]]
    yield from Case(rng, chunks, [5, 14, 3], T=3).judge(subject, "3 new of 5, 14 and 3 tokens")
    yield from Case(rng, [[6, 2, 8], [0, 5, 3]], [10, 9], T=6).judge(subject, "6 new of 10 and 9 tokens")
    yield from Case(rng, [[6, 2], [0, 5, 3]], [8, 12], T=5, spare=1).judge(subject, "5 new of 8 and 12 tokens")
    yield from Case(rng, [[3, 8, 1, 5]], [13], T=11).judge(subject, "11 new of 13 tokens")
    other = [[6, 2, 10], [0, 5]]
    case = Case(rng, other, [8, 6], T=4, heads=(8, 2, 7), sizes=(13, 3))
    yield from case.judge(subject, "4 new of 8 and 6 tokens, blocks of 3, 8 heads, 2 KV heads")


@stage("rubbish elsewhere", why="Blocks that nobody wrote may hold anything, and 0 times NaN is NaN.", weight=2)
def rubbish_elsewhere(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    tables, lengths = [[4, 7], [9, 1, 3, 5], [6]], [5, 14, 3]
    yield from Case(rng, tables, lengths, K=1e30, V=1e30).judge(subject, "large numbers elsewhere")
    yield from Case(rng, tables, lengths, V=np.nan).judge(subject, "NaN in unused values")
    yield from Case(rng, tables, lengths, K=np.nan).judge(subject, "NaN in unused keys")
    yield from Case(rng, tables, lengths, T=3, K=np.nan, V=-np.inf).judge(
        subject, "3 new tokens, NaN and infinities elsewhere"
    )
    yield from Case(rng, [[8, 2]], [8], K=np.nan, V=np.nan).judge(subject, "NaN in all other blocks")


@stage("the caller's tensors", why="The pools belong to all sequences: what you change there, others read.")
def callers_tensors(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    tables, lengths = [[9, 1, 3], [6, 10]], [9, 6]
    case, later = Case(rng, tables, lengths, T=2), Case(rng, tables, lengths, T=2, K=np.nan, V=np.nan)
    names = ("q", "K", "V", "block_tables", "seq_lens")
    kept = [subject.put(part) for part in case.args]
    yield case.agrees(subject, subject.run(*kept), "2 new of 9 and 6 tokens")
    for name, handle, value in zip(names, kept, case.args, strict=True):
        yield unchanged(subject, as_numbers(subject.read(handle)), value, name)
    for handle, value in zip(kept, later.args, strict=True):
        subject.fill(handle, value)
    yield later.agrees(subject, subject.run(*kept), "the same tensors, with other numbers in them")
    for name, handle, value in zip(names, kept, later.args, strict=True):
        yield unchanged(subject, as_numbers(subject.read(handle)), value, name)
    case = Case(rng, [[2, 7], [5, 0, 8]], [5, 11], K=np.nan, V=np.nan)
    kept = [subject.put(part) for part in case.args]
    yield case.agrees(subject, subject.run(*kept), "5 and 11 tokens, NaN elsewhere")
    for name, handle, value in zip(names, kept, case.args, strict=True):
        yield unchanged(subject, as_numbers(subject.read(handle)), value, name, "NaN included")


def unchanged(subject: Subject, got: np.ndarray | None, value: np.ndarray, name: str, note: str = "") -> Finding:
    """Whether a tensor of the caller's is as it was; NaN equals NaN."""
    fact, key = f"{name} is left as it was" + (f", {note}" if note else ""), f"{name} {note}".strip()
    if got is not None and got.shape == value.shape and np.allclose(got, value, rtol=0, atol=1e-5, equal_nan=True):
        return held(key, fact)
    events = len(subject.record)
    return Finding(False, key, f"does not hold: {fact}", expected="as it was", got="changed", events=events)


EXERCISE = Exercise(
    id="6.4",
    name="paged_attend",
    title="Attention through a block table",
    goal="Let the newest tokens of each sequence see all that it holds, wherever its blocks lie.",
    points=5,
    minutes=25,
    difficulty=4,
    hints=(
        "Take one sequence at a time. Its table, as an index into the pool, gathers its blocks in order; joined, they "
        "are rows in the order of their positions. Which of them are tokens, and which is the first new one?",
        "Keep `ceil(S / block_size)` entries of the table and, of the rows, the first S: what is beyond may be NaN, "
        "and no mask takes that away. The queries stand at S - T to S - 1: the mask of lesson 05, T rows, S columns.",
        "For each row: `k = K[table[:n]].flatten(0, 1)[:S].transpose(0, 1)`, (Hkv, S, D), `v` the same from V; `mask = "
        "torch.arange(S) <= torch.arange(S - T, S)[:, None]`; `gqa_attend(q[b][None], k[None], v[None], mask)`. "
        "`torch.cat` the rows.",
    ),
    stages=(
        one_new_token,
        blocks_anywhere,
        different_lengths,
        several_new_tokens,
        rubbish_elsewhere,
        callers_tensors,
    ),
    reference=Later("kvlib.paged_attend", "paged_attend"),
    mistakes=MISTAKES,
    variants=VARIANTS,
    tensors=True,
)
