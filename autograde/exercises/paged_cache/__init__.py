"""Exercise 6.5: the KV cache of one layer, in blocks."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from autograde.exercise import Exercise, stage
from autograde.exercises.paged_cache.candidates import MISTAKES, VARIANTS
from autograde.exercises.paged_cache.driven import HKV, D, Run
from autograde.exercises.positions import unchanged
from autograde.finding import Finding
from autograde.lazy import Later
from autograde.subject import Subject


def some_size(rng: np.random.Generator) -> int:
    """A block size: the right work does not depend on it."""
    return int(rng.choice((3, 4)))


@stage("append and read", why="Sequences grow in turn, so their blocks lie scattered. Each must read its own rows.")
def append_and_read(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    size = some_size(rng)
    run = Run(subject, rng, 13, size)
    steps = (("A", size + 1), ("B", 2), ("A", size), ("B", size), (0, 2 * size + 2), ("B", size), ("A", 1))
    for seq, num_tokens in (*steps, ("0", 1), ("", 1)):
        yield from run.append(seq, num_tokens)


@stage("edges of blocks", why="At an exact multiple the last block is full, and the next one is not taken yet.")
def edges(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    size = some_size(rng)
    run = Run(subject, rng, 8, size)
    for seq, num_tokens in (("A", size), ("B", size - 1), ("A", 1), ("B", 1), ("A", size - 1), ("B", 2 * size)):
        yield from run.append(seq, num_tokens)
    yield from run.append("A", 1)
    yield from run.append("A", size)
    run = Run(subject, rng, 5, 1)  # a block for each token
    for seq, num_tokens in (("A", 2), ("B", 1), ("A", 1)):
        yield from run.append(seq, num_tokens)
    run = Run(subject, rng, 17, 7, (3, 2))  # other sizes, and a long chunk
    for seq, num_tokens in (("A", 1), ("B", 11 * 7 + 2), ("A", 6)):
        yield from run.append(seq, num_tokens)


@stage("free and reuse", why="Blocks go round: whoever takes one must not see what was in it, and nobody else may.")
def free_and_reuse(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    size = some_size(rng)
    run = Run(subject, rng, 7, size)
    for seq, num_tokens in (("A", size + 1), ("B", 2), ("A", size), ("C", size + 2)):
        yield from run.append(seq, num_tokens)
    yield from run.free("A")
    for seq, num_tokens in (("B", 2 * size), ("A", 2), ("C", size), ("A", size - 2)):
        yield from run.append(seq, num_tokens)
    for seq in ("B", "C", "A"):
        yield from run.free(seq)
    yield from run.append("D", 7 * size)


@stage("truncate", why="Rejected tokens are taken back: their blocks must go on to others, and the rest stay.")
def truncate(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    size = some_size(rng)
    run = Run(subject, rng, 7, size)
    yield from run.append("A", 2 * size + 1)
    yield from run.append("B", size + 2)
    yield from run.truncate("A", 2 * size + 1)  # all of it stays
    yield from run.truncate("A", size + 1)  # into a block
    yield from run.append("A", size)
    yield from run.truncate("B", size)  # to the edge of a block
    yield from run.append("C", size + 1)
    yield from run.append("B", 1)
    yield from run.truncate("A", 2)
    yield from run.truncate("C", 0)
    yield from run.append("B", size)
    yield from run.append("C", 2)
    yield from run.truncate("A", 1)
    yield from run.append("A", 2)
    for seq in ("A", "B", "C"):
        yield from run.truncate(seq, 0)
    yield from run.free("B")
    for _ in range(9):
        yield from any_step(run, rng)
    run = Run(subject, rng, 7, size)
    for seq, num_tokens in (("A", size), ("B", size), ("A", 5 * size)):
        yield from run.append(seq, num_tokens)
    yield from run.free("B")
    yield from run.append("A", size)  # into the only free block: A's are in no order now
    yield from run.truncate("A", 5 * size)
    yield from run.append("B", size + 1)
    yield from run.truncate("A", size + 1)
    yield from run.append("A", 3 * size)


def any_step(run: Run, rng: np.random.Generator) -> Iterable[Finding]:
    """A step of a random history, of a kind that the pool has room for."""
    known, draw = list(run.rows), rng.random()
    free = run.num_blocks - sum(len(table) for table in run.tables.values())
    seq = ("A", "B", "C")[int(rng.integers(3))]
    if seq in known and (draw < 0.4 or free < 2):
        yield from run.truncate(seq, int(rng.integers(run.rows[seq].shape[1] + 1)))
    elif seq in known and draw < 0.5:
        yield from run.free(seq)
    elif free >= 2:
        yield from run.append(seq, int(rng.integers(1, run.block_size + 1)))


@stage("full pool", why="All or nothing: a chunk that is written by half leaves a sequence that cannot go on.")
def full_pool(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    size = some_size(rng)
    run = Run(subject, rng, 3, size)
    yield from run.append("A", 2 * size)
    yield from run.append("B", size)
    for seq, tokens in (("A", 1), ("A", 2), ("B", 1), ("M", 1), ("M", 2)):
        yield from no_room(run, seq, tokens, "to a full pool")
    run = Run(subject, rng, 5, size)
    yield from run.append("A", 2 * size)
    yield from run.append("B", size + 1)
    yield from no_room(run, "B", 2 * size, "with room for one less")
    yield from no_room(run, "B", 3 * size, "with room for two less")
    for seq in ("A", "N"):
        yield from no_room(run, seq, size + 1, "with room for one less")
    yield from run.append("N", size)  # not there before, so it starts empty
    yield from run.append("B", size - 1)  # the pool is exactly full
    yield from no_room(run, "B", 1, "to a full pool")
    yield from run.truncate("B", size + 2)
    yield from run.append("B", size - 2)
    yield from run.free("A")
    yield from run.append("B", 2 * size)


def no_room(run: Run, seq: str, tokens: int, why: str) -> Iterable[Finding]:
    """A chunk that must be refused."""
    yield from run.refused(f"append({seq!r}, T = {tokens}) {why}", "append", seq, *run.draw(tokens), after="length")


@stage("refusals", why="Torch spreads a wrong shape over whole rows without a word, and a wrong name hides a bug.")
def refusals(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    size = some_size(rng)
    run = Run(subject, rng, 7, size)
    yield from run.append("A", size + 1)
    yield from run.append("B", 2)
    for method in ("read", "table", "length", "free"):
        yield from run.refused(f"{method}('N'), which nobody knows,", method, "N")
    yield from run.refused("truncate('N', 0), which nobody knows,", "truncate", "N", 0, after="length")
    for length in (size + 2, 2 * size + 1, -1, -2):
        what = f"truncate('A', {length}) of {size + 1} tokens"
        yield from run.refused(what, "truncate", "A", length, after="length")
    k, v = run.draw(2)
    for given_k, given_v in (
        (k[:, :1], v[:1]),
        (k, v[:1]),
        (k[:1], v),
        (k[:, :1], v),
        (k, v[:, :1]),
        (k[:, :1], v[:, :1]),
        (k[..., :1], v[..., :1]),
        (k[0], v[0]),
        (k[None], v[None]),
        (k.transpose(0, 2, 1), v.transpose(0, 2, 1)),
    ):
        what = f"append('A', k {given_k.shape}, v {given_v.shape}) for {HKV} KV heads of {D}"
        yield from run.refused(what, "append", "A", given_k, given_v, after="length")
    for what, rows in (
        ("with two keys and one value", (k, v[:1])),
        ("with one KV head", (k[:, :1], v[:, :1])),
        ("with one feature", (k[..., :1], v[..., :1])),
        ("with more than fits", run.draw(7 * size)),
    ):
        yield from run.refused(f"append('N', ...) {what}", "append", "N", *rows)
        yield from run.refused("length('N'), which is still unknown,", "length", "N")
    yield from run.free("B")
    yield from run.refused("free('B'), which is free already,", "free", "B")
    for method in ("read", "table", "length"):
        yield from run.refused(f"{method}('B'), which is free,", method, "B")
    yield from run.refused("truncate('B', 0), which is free,", "truncate", "B", 0, after="length")
    yield from run.append("B", 1)
    yield from run.truncate("B", 0)
    for length in (1, -1):
        yield from run.refused(f"truncate('B', {length}) of no tokens", "truncate", "B", length, after="length")
    yield from run.free("B")
    yield from run.refused("length('B'), which was empty, and is free,", "length", "B")
    yield from run.append("A", size)


@stage("whose memory", why="The rows live in the pools alone: the caller goes on to use its tensors, and its pools.")
def whose_memory(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    size = some_size(rng)
    run, other = Run(subject, rng, 7, size), Run(subject, rng, 5, size + 1)
    yield from other.append("A", 2)
    kept = [subject.put(rows) for rows in run.draw(size)]
    for seq in ("A", "B", "A"):
        kv = run.draw(size)
        yield from run.append_kept(seq, kv, kept)
        for name, handle, rows in zip("kv", kept, kv, strict=True):
            yield unchanged(subject, handle, rows, name)
            subject.fill(handle, np.nan)
    yield from run.append("B", 2)
    yield from run.change_pools()
    yield from run.append("A", 1)
    yield from other.append("A", size)
    yield from other.free("A")
    yield run.memory()


EXERCISE = Exercise(
    id="6.5",
    name="PagedCache",
    title="A cache in blocks",
    goal="Keep the keys and values of many sequences in one pool of blocks, and let them grow, shrink and go.",
    points=7,
    minutes=30,
    difficulty=4,
    hints=(
        "Keep a list of free blocks, and for each sequence its table and its length. Token `p` goes to block "
        "`table[p // block_size]`, offset `p % block_size`, in `K` and in `V`.",
        "`append`: first compare shapes, then count: `ceil((length + T) / block_size) - len(table)` more blocks. Too "
        "few free: `ValueError`, and nothing is noted yet, not even a new name. Then take blocks, write, and count.",
        "Two lists of places serve `append` and `read`: `blocks = [table[p // size] for p in positions]` and `offsets "
        "= [p % size for p in positions]`. Then `K[blocks, offsets] = k`, and `read` gives `K[blocks, offsets]`. "
        "`truncate` keeps `ceil(length / size)` blocks, gives `table[keep:]` back and cuts the table there.",
    ),
    stages=(append_and_read, edges, free_and_reuse, truncate, full_pool, refusals, whose_memory),
    reference=Later("kvlib.paged_cache", "PagedCache"),
    mistakes=MISTAKES,
    variants=VARIANTS,
    tensors=True,
)
