"""Exercise 6.3: rows into the slots of a pool."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from autograde.exercise import Exercise, stage
from autograde.exercises.positions import as_numbers
from autograde.exercises.write_slots.candidates import MISTAKES, VARIANTS
from autograde.expect import agrees
from autograde.finding import Finding, held
from autograde.lazy import Later
from autograde.subject import LearnerRaised, Subject

NUM_BLOCKS, BLOCK_SIZE, HKV, D = SIZES = (7, 3, 2, 5)
NUM_SLOTS = NUM_BLOCKS * BLOCK_SIZE
PAD = -1


class Run:
    """One pool of the learner's, which holds something everywhere, and what it should hold."""

    def __init__(
        self, subject: Subject, rng: np.random.Generator, sizes: Sequence[int] = SIZES, empty: bool = False
    ) -> None:
        self.subject, self.rng, self.sizes = subject, rng, tuple(sizes)
        self.want = np.full(sizes, np.nan) if empty else rng.normal(size=sizes)
        self.pool = subject.put(self.want)

    def rows(self, slots: Sequence[int], padding: float = 3.0) -> np.ndarray:
        """New rows, one for each slot; those of the padding are all one number."""
        rows = self.rng.normal(size=(len(slots), *self.sizes[2:])) + 10
        rows[np.array(slots) == PAD] = padding
        return rows

    def write(
        self, slots: Sequence[int], what: str, padding: float = 3.0, first: Sequence[float] = ()
    ) -> Iterable[Finding]:
        """Rows to these slots; then the whole pool is compared. first: what the first row begins with."""
        rows = self.rows(slots, padding)
        rows[0].flat[: len(first)] = first
        try:
            self.subject.run(self.pool, rows, np.array(slots, dtype=np.int64))
        except LearnerRaised:
            self.subject.asked = f"slots {list(slots)}"  # which says more than shapes
            raise
        for slot, row in zip(slots, rows, strict=True):
            if slot != PAD:
                self.want[slot // self.sizes[1], slot % self.sizes[1]] = row
        yield self.holds(what, f"each row is in its slot and nothing else has changed ({what})")

    def holds(self, key: str, fact: str) -> Finding:
        """Whether the pool holds what it should."""
        return self.agree(self.subject.read(self.pool), key, fact)

    def agree(self, got: object, key: str, fact: str) -> Finding:
        """The same, for what was read."""
        finding = agrees(self.subject, *alike(got, self.want), key=key, fact=fact, exact=True)
        if finding.ok or not finding.where:
            return finding
        block, offset, head, _ = (int(i) for i in finding.where.split(","))
        slot = block * self.sizes[1] + offset
        return replace(finding, where=f"slot {slot} (block {block}, offset {offset}), KV head {head}")

    def refuses(self, slots: Sequence[int], what: str) -> Iterable[Finding]:
        """Whether a mapping is refused with ValueError, and the pool is as it was."""
        key, subject = f"refuses {what}", self.subject
        try:
            subject.run(self.pool, self.rows(slots), np.array(slots, dtype=np.int64))
        except LearnerRaised as error:
            if error.is_a("NotImplementedError"):
                raise
            if not error.is_a("ValueError"):
                fact = f"{what} must be refused with ValueError; your code raised something else"
                given, events = str(error)[:80], len(subject.record)
                yield Finding(False, key, fact, where=f"slots {slots}", expected="ValueError", got=given, events=events)
                return
            yield held(key, f"{what} is refused")
            yield self.holds(f"pool after {what}", f"a call that is refused writes nothing ({what})")
            return
        subject.read(self.pool)  # what it did tells one wrong way from another
        fact = f"{what} must be refused; your code accepted it"
        expected, events = "ValueError is raised", len(subject.record)
        yield Finding(False, key, fact, where=f"slots {slots}", expected=expected, got="a return", events=events)


def alike(got: object, want: np.ndarray) -> tuple[object, np.ndarray]:
    """Both, with 0 for a NaN or an infinity that is where it should be."""
    array = as_numbers(got)
    if array is None or array.shape != want.shape or array.dtype.kind != "f":
        return got, want
    same = ~np.isfinite(want) & ((array == want) | (np.isnan(array) & np.isnan(want)))
    return np.where(same, 0.0, array), np.where(same, 0.0, want)


@stage("one block", why="Rows land in the pool that was given, each in its own place, and nothing else moves.")
def one_block(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    yield from Run(subject, rng).write([0, 1, 2], "slots 0 to 2")
    yield from Run(subject, rng).write([1], "slot 1 alone")


@stage("any block", why="A sequence's blocks lie anywhere: only the mapping says where a row goes.", weight=2)
def any_block(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    run = Run(subject, rng)
    yield from run.write([12, 13, 14, 15, 16], "slots 12 to 16, across a block's edge")
    yield from run.write([11, 3, 4, 20], "slots of three blocks")
    yield from run.write([17, 6, 18, 0, 9], "slots in no order, and slot 0")
    for sizes in ((3, 8, 1, 4), (4, 4, 3, 2)):
        text = "{} blocks of {} slots".format(*sizes)
        yield from Run(subject, rng, sizes).write([9, 10, 1, 5, 4], text)
    yield from run.write([8, 3, 10], "as many rows as a block has slots, in three blocks")
    large = Run(subject, rng, (11, 31, 1, 2))
    yield from large.write([300, 340, 17, 255, 256, 129], "11 blocks of 31 slots")
    unwritten = Run(subject, rng, empty=True)
    yield from unwritten.write([14, 2, 20, 7], "a pool that nobody has written to, full of NaN")
    yield from unwritten.write([7, 15], "slot 7 once more")
    yield from Run(subject, rng, (2, 5, 2, 3)).write([6, 1, 8], "a row with 0 and 999", first=[0, 0, 0, 999, 0, 0])


@stage("padding", why="Batches are padded, and -1 is the last slot for whoever does not look.", weight=2)
def padding(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    run = Run(subject, rng)
    yield from run.write([7, 8, PAD, PAD], "padding at the end")
    yield from run.write([PAD, PAD, 10, 4], "padding in front")
    yield from run.write([5, PAD, 20, PAD, 6], "padding between, and the last slot")
    yield from run.write([0, PAD, 12], "padding behind slot 0")
    yield from run.write([PAD, PAD], "nothing but padding")
    yield from run.write([2, PAD, 13], "NaN in the padding", padding=np.nan)
    yield from run.write([9, 3, PAD], "NaN and an infinity in a row", padding=np.inf, first=[np.nan, np.inf])
    yield from run.write([0, PAD, PAD], "a row of zeros", padding=0.0, first=[0.0] * HKV * D)
    small = Run(subject, rng, (2, 3, 1, 2))
    yield from small.write(
        [PAD, 4, *[PAD] * 5, 1, PAD, PAD, 0, *[PAD] * 9, 5, PAD], "more rows than the pool has slots"
    )


@stage("the caller's tensors", why="The mapping is used again, in every layer.")
def callers_tensors(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    run = Run(subject, rng)
    slots = [14, PAD, 3, 10]
    rows, mapping = run.rows(slots, padding=np.nan), np.array(slots)
    view = subject.call(run.pool, "view", NUM_SLOTS, HKV, D, keep=True)
    kept = {"rows": (subject.put(rows), rows), "slot_mapping": (subject.put(mapping), mapping)}
    subject.run(run.pool, *(handle for handle, _ in kept.values()))
    for slot, row in zip(slots, rows, strict=True):
        if slot != PAD:
            run.want[slot // BLOCK_SIZE, slot % BLOCK_SIZE] = row
    yield run.holds("pool", "each row is in its slot")
    for name, (handle, value) in kept.items():
        got, value = alike(as_numbers(subject.read(handle)), value)
        yield agrees(subject, got, value, key=name, fact=f"{name} is left as it was", columns="number", exact=True)
    subject.fill(kept["rows"][0], np.full(rows.shape, np.nan))
    yield run.holds("rows again", "the pool has rows of its own when the caller reuses its tensor")
    got = as_numbers(subject.read(view))
    got = got.reshape(SIZES) if got is not None and got.size == run.want.size else got
    yield run.agree(
        got, "view", "a view of the pool that the caller made before shows the rows: they are in its memory"
    )


@stage("slots outside", why="A slot that is not there means a broken table: say so, before anything is written.")
def slots_outside(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    run = Run(subject, rng)
    yield from run.write([4, NUM_SLOTS - 1], "the last slot")
    yield from run.refuses([6, NUM_SLOTS + 4], "a slot far behind the last")
    yield from run.refuses([6, NUM_SLOTS], "the slot behind the last")
    yield from run.refuses([5, PAD, -2], "slot -2")
    yield from run.refuses([5, NUM_SLOTS + 2, 8, 2], "a slot behind the last, amid others")
    yield from run.refuses([2**32 + 4, 6], "slot 2**32 + 4")
    yield from run.refuses([-NUM_SLOTS - 3, 8], "a slot far below 0")
    yield from run.write([PAD, 5, 4], "after the refusals")


EXERCISE = Exercise(
    id="6.3",
    name="write_slots",
    title="Write rows to their slots",
    goal="Write new rows to the slots that a mapping names, and padding nowhere.",
    points=2,
    minutes=8,
    difficulty=2,
    hints=(
        "A slot is one number for two axes: `slot // block_size` is the block, `slot % block_size` the place in it. An "
        "indexed assignment writes many rows at once, in place.",
        "Python takes -1 for the last one. Drop the padding first, from the mapping *and* from the rows, with one "
        "mask; then look whether a slot is left that the pool does not have.",
        "`real = slot_mapping != -1`, `slots = slot_mapping[real]`; raise ValueError if any is below 0 or at least "
        "`num_blocks * block_size`; then `pool[slots // block_size, slots % block_size] = rows[real]`.",
    ),
    stages=(one_block, any_block, padding, callers_tensors, slots_outside),
    reference=Later("kvlib.paged_attend", "write_slots"),
    mistakes=MISTAKES,
    variants=VARIANTS,
    tensors=True,
)
