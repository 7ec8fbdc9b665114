"""Exercise 6.2: block tables and slots."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from autograde.exercise import Exercise, stage
from autograde.exercises.block_tables.candidates import MISTAKES, VARIANTS
from autograde.exercises.block_tables.lender import Lender
from autograde.exercises.block_tables.run import Name, Run
from autograde.finding import Finding
from autograde.subject import Subject
from kvlib.block_tables import BlockTables


@stage("one sequence", weight=2, why="A token's place hangs on its position only: which block, and where in it.")
def one_sequence(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for block_size, asked in ((4, (3, 2, 1, 7)), (3, (2, 3, 5)), (5, (13, 1))):
        run = Run(subject, Lender(rng, 23), block_size)
        for n in asked:
            yield from run.append("A", n)


@stage("full blocks", why="A block is taken when the last one is full and a token comes: not before, and not after.")
def full_blocks(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for block_size, asked in ((4, (4, 1, 3, 8, 4, 1)), (3, (1, 1, 1, 1, 1, 1, 1)), (1, (1, 2)), (5, (10, 5, 1))):
        run = Run(subject, Lender(rng, 23), block_size)
        for n in asked:
            yield from run.append("A", n)


@stage("several sequences", why="Sequences grow side by side, so their blocks lie between each other's.")
def several_sequences(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    seq: Name
    run = Run(subject, Lender(rng, 31), 4)
    for seq, n in (("A", 5), ("B", 3), ("A", 4), ("C", 9), ("B", 6), ("A", 1), ("C", 1), ("B", 1), ("A", 3)):
        yield from run.append(seq, n)
    names = Run(subject, Lender(rng, 31), 3)  # texts and numbers that look alike, and those that count as nothing
    for seq, n in ((7, 2), ("7", 4), (0, 1), ("", 2), (-1, 5), ("a", 2), ("A", 1), (10**9, 2), (7, 3), (0, 3), ("", 2)):
        yield from names.append(seq, n, look=False)
    yield from names.all_as_they_were("all of them were appended to")
    alike = Run(subject, Lender(rng, 31), 3)
    alike_names: list[Name]
    alike_names = ["a", " a", 97, -1, -2, 1, 7, 2**32 + 7, "request 1", "request 10", "request 1 ", 2**53, 2**53 + 1]
    for i, seq in enumerate(alike_names):
        yield from alike.append(seq, 1 + i % 5, look=False)
    yield from alike.all_as_they_were("all of them were appended to")


@stage("no room", weight=2, why="Half of a chunk is of no use, and blocks taken for it would be missing elsewhere.")
def no_room(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    lender = Lender(rng, 11)
    run = Run(subject, lender, 4)
    elsewhere = lender.allocate(3)  # the pool is not the tables' alone
    yield from run.append("A", 6)
    yield from run.append("B", 9)
    yield from run.refused("A", 15)
    yield from run.refused("C", 13)
    yield from run.refused("B", 16)
    yield from run.append("A", 6)
    yield from run.append("B", 7)
    yield from run.refused("C", 5)
    yield from run.append("C", 2)
    for seq in ("A", "B", "D"):
        yield from run.refused(seq, 1)
    yield from run.append("C", 2)  # the pool is empty; the last block is not full
    yield from run.refused("C", 1)
    lender.free(elsewhere[:2])
    yield from run.refused("B", 9)
    yield from run.append("D", 5)
    yield from run.refused("D", 4)
    yield from run.append("D", 3)
    lender = Lender(rng, 11)
    again, elsewhere = Run(subject, lender, 4), lender.allocate(8)
    yield from again.append("A", 3)
    yield from again.refused("A", 13)
    lender.free(elsewhere)
    yield from again.append("A", 13)  # now there is room for it


@stage(
    "nothing, and nobody", why="A number below 1 and an unknown name are somebody's slip. Say so, and change nothing."
)
def nothing_and_nobody(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    run = Run(subject, Lender(rng, 7), 4)
    yield from run.append("A", 5)
    yield from run.append(0, 3)
    for seq, n in (("A", 0), ("A", -1), ("A", -4), ("B", 0), ("B", -2), (0, -3)):
        yield from run.refused(seq, n)
    for seq in ("C", "0", 1, ""):
        yield from run.unknown(seq, "never heard of")
    yield from run.unknown("B", "whose tokens were refused")
    yield from run.refused("D", 17)
    yield from run.unknown("D", "whose tokens found no room")
    for seq in ("A", 0, "B"):
        yield from run.append(seq, 4)
    yield from run.append("B", 4)
    yield from run.refused("E", 1)
    yield from run.unknown("E", "whose token found no room")


@stage("large and many", why="Pools have thousands of blocks, and serve more sequences than anybody counted on.")
def large_and_many(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    large = Run(subject, Lender(rng, 1201), 61)
    first = yield from large.append_kept("A", 40)
    for seq, n in (("B", 17), ("A", 500), ("B", 1)):
        yield from large.append(seq, n)
    yield large.still(first, "after three more calls")
    many = Run(subject, Lender(rng, 41), 2)
    for number in range(19):
        yield from many.append(number, 1 + number % 3, look=False)
    yield from many.all_as_they_were("19 sequences were appended to")


@stage(
    "one pool, two tables", why="After many calls every token still has a place of its own, whoever else takes blocks."
)
def two_tables(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    lender = Lender(rng, 29)
    runs = (
        Run(subject, lender, 4, "first tables, blocks of 4"),
        Run(subject, lender, 3, "second tables, blocks of 3"),
        Run(subject, Lender(rng, 17), 4, "third tables, with a pool of their own"),
    )
    elsewhere: list[int] = []
    for _ in range(23):
        run, seq, n = runs[int(rng.integers(3))], ("A", 1, "B")[int(rng.integers(3))], int(rng.integers(1, 9))
        if rng.random() < 0.25:
            lender.free(elsewhere)
            elsewhere = lender.allocate(min(2, lender.num_free))
        yield from run.append(seq, n) if run.more_for(seq, n) <= run.lender.num_free else run.refused(seq, n)
    for run in runs:
        yield from run.all_as_they_were("after all")


EXERCISE = Exercise(
    id="6.2",
    name="BlockTables",
    title="Block tables",
    goal="Give each sequence the blocks it needs, one when the last is full, and each token its slot.",
    points=5,
    minutes=20,
    difficulty=3,
    hints=(
        "Two dicts are enough: the blocks of each sequence, and its number of tokens. How many blocks must it have "
        "after this call, and how many has it? Only the difference is asked of the allocator.",
        "Order makes it all or nothing: check num_tokens, work out the difference with `-(-tokens // block_size)`, ask "
        "`can_allocate`, raise if it says no. Only then allocate, and only after that write into your dicts.",
        "Position p lies in block `table[p // block_size]`, at place `p % block_size`, so its slot is "
        "`table[p // block_size] * block_size + p % block_size`, for p from the old length to the new one. "
        "`self.tables.get(seq, [])` looks without making a new entry.",
    ),
    stages=(one_sequence, full_blocks, several_sequences, no_room, nothing_and_nobody, large_and_many, two_tables),
    reference=BlockTables,
    mistakes=MISTAKES,
    variants=VARIANTS,
)
