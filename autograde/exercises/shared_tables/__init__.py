"""Exercise 6.6: tables that share blocks, and copy on write."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from autograde.exercise import Exercise, stage
from autograde.exercises.shared_tables.candidates import MISTAKES, VARIANTS
from autograde.exercises.shared_tables.driven import Run, Seq
from autograde.finding import Finding
from autograde.lazy import Later
from autograde.subject import Subject


def some_size(rng: np.random.Generator) -> int:
    """A block size: the right work does not depend on it."""
    return int(rng.choice((3, 4, 5)))


@stage("append", why="Without forks it is the table you know: a block when the last is full, and nothing to copy.")
def append(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    size = some_size(rng)
    seq: Seq
    run = Run(subject, 7, size)
    for seq, num_tokens in (("A", size + 2), ("B", 1), ("A", size - 2), ("B", size - 1), ("A", 1), ("B", 1)):
        yield from run.append(seq, num_tokens)
    yield from run.free("A")
    yield from run.append(0, 2 * size + 1)
    yield from run.append("A", 2)
    yield from run.append("A", 1)
    yield from run.free("B")
    yield from run.append("B", 3 * size)  # the pool is exactly full
    for seq in ("A", 0, "B"):
        yield from run.free(seq)
    run = Run(subject, 23, 2 * size + 1)  # another size, and a long chunk
    for seq, num_tokens in ((0, 1), ("0", 2), ("", 1), (0, 9 * (2 * size + 1))):
        yield from run.append(seq, num_tokens)


@stage("fork", why="A fork holds its blocks too: whoever is freed first, they stay until the last one lets go.")
def fork(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    size = some_size(rng)
    run = Run(subject, 2, size)
    yield from run.append("A", size - 1)
    yield from run.fork("A", "B")
    yield from run.free("A")
    yield from run.append("C", size)
    yield from run.refused("while 'B' and 'C' hold one block each", "append", "D", 1)
    yield from run.free("C")
    yield from run.free("B")
    run = Run(subject, 4, size)
    yield from run.append("A", size + 2)
    yield from run.fork("A", "B")
    yield from run.fork("B", "C")
    yield from run.free("B")
    yield from run.free("A")
    yield from run.append("D", 2 * size)
    yield from run.refused("while 'C' and 'D' hold two blocks each", "append", "E", 1)
    yield from run.append("C", 1)  # nobody else holds its last block any more
    yield from run.fork("C", "A")
    for seq in ("A", "C", "D"):
        yield from run.free(seq)


@stage("copy on write", why="Both go on from one partly filled block: the first to write copies it, the last need not.")
def copy_on_write(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    size = some_size(rng)
    for order in (("B", "A", "B", "A"), ("A", "B")):  # the fork writes first, or the one it comes from
        run = Run(subject, 7, size)
        yield from run.append("A", size + 2)
        yield from run.fork("A", "B")
        for seq in order:
            yield from run.append(seq, 1)
        yield from run.free(order[0])
        yield from run.append(order[1], 1)
        yield from run.free(order[1])
    run = Run(subject, 11, size)
    yield from run.append("A", size + 2)
    yield from run.fork("A", "B")
    yield from run.fork("B", "C")
    yield from run.append("C", size)  # past the end of the block that it copies
    yield from run.append("A", 1)
    yield from run.append("B", size)
    yield from run.fork("C", "D")
    yield from run.free("C")
    yield from run.append("D", 1)  # the last holder
    for seq in ("B", "D", "A"):
        yield from run.free(seq)
    for size in (7, 2):  # whoever they come from is gone, and with it the first block of two sequences
        run = Run(subject, 13, size)
        yield from run.append("A", 1)
        for seq, new in (("A", "B"), ("A", "C"), ("B", "D")):
            yield from run.fork(seq, new)
        yield from run.free("A")
        for seq, num_tokens in (("B", 1), ("C", size), ("D", 1), ("D", 2 * size + 1), ("C", 1)):
            yield from run.append(seq, num_tokens)
        yield from run.fork("D", "A")
        yield from run.append("D", 1)
        yield from run.append("A", 1)


@stage("aligned forks", why="At the edge of a block nothing has to be copied: the next token starts a new block.")
def aligned_forks(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    size = some_size(rng)
    run = Run(subject, 11, size)
    yield from run.append("A", 2 * size)
    yield from run.fork("A", "B")
    for seq, num_tokens in (("B", 1), ("A", 1), ("B", 1), ("A", size + 1)):
        yield from run.append(seq, num_tokens)
    yield from run.fork("B", "C")
    for seq in ("B", "C"):
        yield from run.append(seq, 1)
    yield from run.free("A")
    yield from run.append("C", 2 * size)
    for seq in ("B", "C"):
        yield from run.free(seq)


@stage("full pool", why="A copy needs a block as well. Without room for all of it nothing may have changed.")
def full_pool(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    size = some_size(rng)
    run = Run(subject, 3, size)
    yield from run.append("A", size + 2)
    yield from run.refused("one block free", "append", "A", 2 * size)
    yield from run.refused("one block free", "append", "N", size + 1)
    yield from run.fork("A", "N")  # the name is still unknown
    yield from run.free("N")
    yield from run.fork("A", "B")
    yield from run.refused("one block free, and two needed with the copy", "append", "B", size)
    yield from run.append("B", 1)  # the copy takes the last block
    yield from run.append("A", 1)  # in place
    yield from run.free("B")
    run = Run(subject, 2, size)
    yield from run.append("A", size + 2)
    yield from run.fork("A", "B")
    yield from run.refused("no block free for the copy", "append", "B", 1)
    yield from run.refused("no block free for the copy", "append", "A", 1)
    yield from run.free("A")
    yield from run.append("B", 1)  # the last holder needs none
    run = Run(subject, 3, size)
    yield from run.append("A", size)
    yield from run.fork("A", "B")
    yield from run.append("B", 1)
    yield from run.append("A", 1)  # an edge: the last block, and no copy
    yield from run.free("B")
    yield from run.append("A", size)
    run = Run(subject, 4, size)
    yield from run.append("A", size + 2)
    yield from run.fork("A", "B")
    yield from run.refused("two blocks free, and three needed with the copy", "append", "B", 2 * size)
    yield from run.append("A", size)  # the copy and one more: exactly the two
    for seq in ("A", "B"):
        yield from run.free(seq)


@stage("refusals", why="A name that nobody knows, or that is taken, is a bug of the caller's: say so, change nothing.")
def refusals(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    size = some_size(rng)
    run = Run(subject, 5, size)
    yield from run.append("A", size + 1)
    yield from run.append("B", 2)
    yield from run.fork("B", "C")
    for method in ("table", "length", "free"):
        yield from run.refused("of whom nobody knows", method, "N")
    yield from run.refused("where nobody knows 'N'", "fork", "N", "D")
    yield from run.refused("which does not make it known", "length", "D")
    yield from run.refused("where 'B' is there already", "fork", "A", "B")
    yield from run.refused("where 'A' is there already", "fork", "A", "A")
    yield from run.refused("where nobody knows 'N'", "fork", "N", "A")
    for num_tokens in (-1, 0):
        yield from run.refused("which is no number of new tokens", "append", "A", num_tokens)
        yield from run.refused("which is no number of new tokens", "append", "N", num_tokens)
    yield from run.free("B")
    yield from run.refused("which is freed already", "free", "B")
    yield from run.refused("which is freed", "length", "B")
    yield from run.fork("C", "B")  # a name may come again
    yield from run.append("B", 1)
    for seq in ("A", "C", "B"):  # no refusal has left a holder behind
        yield from run.free(seq)
    yield from run.refused("where nobody is left", "free", "B")


@stage("holders", why="ref_count is what all of it hangs on. It must be the number of tables, after any history.")
def holders(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    size = some_size(rng)
    run = Run(subject, 5, size, count_holders=True)
    yield from run.append("A", size + 2, count=False)
    for new in ("B", "C", "D"):
        yield from run.fork("A", new, count=new == "D")
    for seq in ("C", "A"):
        yield from run.append(seq, 1)
    for seq in ("A", "C", "D", "B"):
        yield from run.free(seq)
    run = Run(subject, 5, size, count_holders=True)
    yield from run.append("A", size + 1, count=False)
    for new in "BCDEFG":
        yield from run.fork("A", new, count=new == "G")
    yield from run.refused("where 'B' is there already", "fork", "A", "B")
    for seq in "CAG":
        yield from run.free(seq)
    for seq in "BD":
        yield from run.append(seq, 1)
    yield from run.free("E")
    yield from run.append("F", 1)
    for num_blocks, block_size, steps in ((13, size, 24), (17, 2, 12), (11, 1, 8)):
        run = Run(subject, num_blocks, block_size, count_holders=True)
        for _ in range(steps):
            yield from any_step(run, rng)


def any_step(run: Run, rng: np.random.Generator) -> Iterable[Finding]:
    """A step of a random history, of a kind that the pool has room for."""
    known, free = list(run.rows), run.num_blocks - len({block for table in run.tables.values() for block in table})
    unknown = [name for name in ("A", "B", "C", "D") if name not in known]
    draw = rng.random()
    if known and (draw < 0.2 or free < 3):
        yield from run.free(known[int(rng.integers(len(known)))])
    elif known and unknown and draw < 0.5:
        yield from run.fork(known[int(rng.integers(len(known)))], unknown[0])
    else:
        names = known + unknown[:1]
        yield from run.append(names[int(rng.integers(len(names)))], int(rng.integers(1, run.block_size + 1)))


EXERCISE = Exercise(
    id="6.6",
    name="SharedTables",
    title="Forks without copies",
    goal="Let sequences share their blocks, and copy one only when somebody is about to write into it.",
    points=7,
    minutes=30,
    difficulty=5,
    hints=(
        "Keep one number for each block: how many tables it is in. `fork` adds 1 for each block of the table, `free` "
        "takes 1 away, and a block is free when the number is 0. Give the fork a list of its own: `list(table)`.",
        "`append` writes into an old block only when the length is no multiple of `block_size`: into the last. "
        "If that block has other holders, it must be copied: one block more. Count first: blocks for the new tokens, "
        "plus 1 for the copy. Too few free: `ValueError`, before anything has changed.",
        "The copy: take a block, put it in place of `table[-1]`, take 1 away from the old block (the others keep it), "
        "and note `(old, new)` in `copies`. Then take the blocks for the new tokens, and only then work out the slots: "
        "`table[p // block_size] * block_size + p % block_size`.",
    ),
    stages=(append, fork, copy_on_write, aligned_forks, full_pool, refusals, holders),
    reference=Later("kvlib.shared_tables", "SharedTables"),
    mistakes=MISTAKES,
    variants=VARIANTS,
)
