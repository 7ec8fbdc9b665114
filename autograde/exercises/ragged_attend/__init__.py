"""Exercise 5.6: attention over a padded batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from autograde.compare import as_array
from autograde.exercise import Exercise, stage
from autograde.exercises.oracle_gqa import attend_batch
from autograde.exercises.ragged_attend.candidates import MISTAKES, VARIANTS
from autograde.expect import agrees
from autograde.finding import Finding
from autograde.lazy import Later
from autograde.subject import Subject

H, HKV, D = 6, 2, 5

Positions = Sequence[Sequence[int]]


def ask(
    subject: Subject,
    rng: np.random.Generator,
    q_positions: Positions,
    k_positions: Positions,
    what: str,
    heads: tuple[int, int, int] = (H, HKV, D),
    low: bool = False,
    **padding: float,
) -> Iterable[Finding]:
    """One call, against each row alone in loops. `padding`: what padded q, k and v hold, else random numbers.

    heads: (H, Hkv, D). low: all scores are far below 0, further than small stand-ins for minus infinity.
    """
    qp, kp = np.array(q_positions), np.array(k_positions)
    H, HKV, D = heads
    q = rng.normal(size=(len(qp), H, qp.shape[1], D)) * 2
    k, v = rng.normal(size=(2, len(kp), HKV, kp.shape[1], D))
    if low:
        q, k = 20 + 20 * np.abs(q), -20 - 20 * np.abs(k)
    for name, rows, positions in (("q", q, qp), ("k", k, kp), ("v", v, kp)):
        rows.transpose(0, 2, 1, 3)[positions < 0] = padding.get(name, rng.normal() * 3)
    want = attend_batch(q, k, v, seen(qp, kp))
    got, complaint = as_array(subject.run(q, k, v, qp, kp), want.shape)
    if got is None:
        yield Finding(False, f"shape, {what}", complaint, where=what, events=len(subject.record))
        return
    for part in ("padded queries", "tokens"):
        rows = (qp < 0) if part == "padded queries" else (qp >= 0)
        fact = "padded queries give zeros" if part == "padded queries" else "each row is as it would be alone"
        ours, right = (outputs.transpose(0, 2, 1, 3)[rows] for outputs in (got, want))  # (N, H, D)
        if right.size:
            finding = agrees(subject, ours, right, key=f"{part}, {what}", fact=f"{fact} ({what})")
            yield replace(finding, where=place(finding.where, rows))


def seen(q_positions: np.ndarray, k_positions: np.ndarray) -> np.ndarray:
    """(B, T, S): a token sees the tokens of its row that are not later than it is."""
    mask = np.zeros((*q_positions.shape, k_positions.shape[1]), dtype=bool)
    for b, t, s in np.ndindex(mask.shape):
        mask[b, t, s] = int(k_positions[b, s]) in range(int(q_positions[b, t]) + 1)
    return mask


def place(where: str, rows: np.ndarray) -> str:
    """The index (n, h, d) of a wrong number as row, query and head."""
    if not where:
        return where
    n, h, _ = (int(i) for i in where.split(","))
    b, t = np.argwhere(rows)[n]
    return f"row {b}, query {t}, head {h}"


@stage("no padding", why="With equal rows it is the grouped-query attention that you know, by positions.")
def no_padding(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    yield from ask(subject, rng, [[6]] * 2, [[*range(7)]] * 2, "one new token")
    yield from ask(subject, rng, [[4, 5, 6]] * 2, [[*range(7)]] * 2, "3 new tokens after 4")
    yield from ask(subject, rng, [[*range(4)]] * 2, [[*range(4)]] * 2, "a prompt of 4")
    for heads in ((4, 4, 3), (5, 1, 2), (8, 4, 7)):
        text = "{} heads, {} KV heads, head dim {}".format(*heads)
        yield from ask(subject, rng, [[2, 3, 4]], [[*range(5)]], text, heads)
    yield from ask(subject, rng, [[38, 39]], [[*range(40)]], "40 keys")


@stage("rows of different lengths", why="A short row must not see its own padding, nor the length of its neighbour.")
def rows_of_different_lengths(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    chunk = [[1, 2], [3, 4], [0, 1]], [[0, 1, 2, -1, -1], [0, 1, 2, 3, 4], [0, 1, -1, -1, -1]]
    yield from ask(subject, rng, *chunk, "2 new tokens each")
    step = [[2], [4], [0]], [[0, 1, 2, -1, -1], [0, 1, 2, 3, 4], [0, -1, -1, -1, -1]]
    yield from ask(subject, rng, *step, "one new token each")


@stage("any column", why="Padding may stand on the left, and a ring gives its keys in any order: only positions tell.")
def any_column(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    mixed = [[3, 1], [1, 0]], [[4, 2, 0, 1, 3], [-1, 2, -1, 0, 1]]  # and not all of them are in the past
    yield from ask(subject, rng, *mixed, "positions out of order")
    left = [[3, 4], [0, 1], [1, 2]], [[0, 1, 2, 3, 4], [-1, -1, -1, 0, 1], [-1, -1, 0, 1, 2]]
    yield from ask(subject, rng, *left, "keys padded on the left")
    yield from ask(subject, rng, [[0, 1]], [[-1, -1, 0, 1]], "a batch of one row, padded on the left")
    yield from ask(subject, rng, [[0]] * 2, [[0, 1, 2]] * 2, "scores far below 0", low=True)


@stage("padded queries", why="A row that may see nothing is 0/0, and one NaN spoils everything in the next layer.")
def padded_queries(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    finished = [[-1], [2], [3]], [[0, 1, -1, -1], [0, 1, 2, -1], [0, 1, 2, 3]]
    yield from ask(subject, rng, *finished, "rows that have finished")
    left = [[-1, -1, 0, 1], [0, 1, 2, 3]], [[-1, -1, 0, 1], [0, 1, 2, 3]]
    yield from ask(subject, rng, *left, "a prompt padded on the left")
    empty = [[-1, -1], [1, 2], [0, -1]], [[-1, -1, -1], [0, 1, 2], [0, -1, -1]]
    yield from ask(subject, rng, *empty, "a row without any token")


@stage("rubbish under the padding", why="Memory that nobody wrote may hold anything, and 0 times NaN is NaN.")
def rubbish(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    case = [[2, -1], [3, 4], [-1, 0]], [[0, 1, 2, -1, -1], [0, 1, 2, 3, 4], [-1, 0, -1, -1, -1]]
    yield from ask(subject, rng, *case, "large numbers in padded keys and values", k=1e30, v=1e30)
    yield from ask(subject, rng, *case, "NaN in padded queries", q=np.nan)
    yield from ask(subject, rng, *case, "NaN in padded values", v=np.nan)
    yield from ask(subject, rng, *case, "NaN in padded keys", k=np.nan)
    step = [[-1], [4], [0]], [[0, -1, -1, -1, -1], [0, 1, 2, 3, 4], [-1, 0, -1, -1, -1]]
    yield from ask(subject, rng, *step, "NaN and infinities everywhere", q=np.inf, k=np.nan, v=-np.inf)
    yield from ask(subject, rng, *case, "infinities in padded keys and values", k=np.inf, v=np.inf)


@stage(
    "the caller's tensors", why="The keys and values are the cache's own: whoever clears them there changes the cache."
)
def callers_tensors(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    qp, kp = np.array([[-1, 1], [3, 4]]), np.array([[0, 1, -1, -1, -1], [0, 1, 2, 3, 4]])
    q, k, v = (rng.normal(size=(2, heads, rows, D)) for heads, rows in ((H, 2), (HKV, 5), (HKV, 5)))
    given = {"q": q, "k": k, "v": v, "q_positions": qp, "k_positions": kp}
    kept = {name: subject.put(part) for name, part in given.items()}
    want = attend_batch(q, k, v, seen(qp, kp))
    yield agrees(subject, subject.run(*kept.values()), want, key="attention", fact="each row is as it would be alone")
    for name, handle in kept.items():
        fact = f"{name} is left as it was"
        yield agrees(subject, subject.read(handle), given[name], key=name, fact=fact)


EXERCISE = Exercise(
    id="5.6",
    name="ragged_attend",
    title="Attention over a padded batch",
    goal="Let each row of a padded batch see its own tokens only, as if it were alone.",
    points=4,
    minutes=15,
    difficulty=3,
    hints=(
        "The mask follows from positions alone, row by row: the key's is at least 0, and not beyond the query's. It "
        "has shape (B, T, S); heads share it. Columns say nothing.",
        "Two things are left: a query that sees no key (find it with `~mask.any(-1)`) gives 0/0, and padded keys and "
        "values may hold NaN, which no mask takes away: 0 * NaN is NaN.",
        "`mask = (k_pos[:, None, :] >= 0) & (k_pos[:, None, :] <= q_pos[:, :, None])`. Put 0 into padded rows of k and "
        "v with `masked_fill(k_pos[:, None, :, None] < 0, 0.0)`, attend, and put 0 into the output with `masked_fill` "
        "where `~mask.any(-1)[:, None, :, None]`.",
    ),
    stages=(no_padding, rows_of_different_lengths, any_column, padded_queries, rubbish, callers_tensors),
    reference=Later("kvlib.padding", "ragged_attend"),
    mistakes=MISTAKES,
    variants=VARIANTS,
    tensors=True,
)
