"""Exercise 11.4: the inner loop of a paged decode kernel, in Triton's language."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from autograde.compare import as_array, first_difference, number_pair, observation, shown
from autograde.exercise import Exercise, stage
from autograde.exercises.attend_tiles.candidates import MISTAKES, VARIANTS
from autograde.exercises.attend_tiles.cases import Case, expected, poisoned, random_case
from autograde.expect import half
from autograde.finding import Finding, held
from autograde.subject import LearnerRaised, Subject
from kvlib.attend_tiles import attend_tiles

NEAR = 1e-4  # float32, with powers of two or of e; m is a plain sum of products, and may be large
FACTS = {
    "m": "m is the largest score of each query",
    "l": "l is the sum of exp(score - m)",
    "acc": "acc is the sum of exp(score - m) times the values",
}


def _judge(got: Any, case: Case, key: str, events: int) -> Iterable[Finding]:
    """Whether the three tiles of one call are right."""
    if type(got) is not list or len(got) != 3:
        told = f"shape {got.shape}" if isinstance(got, np.ndarray) else shown(got)
        text = f"returned {told}, wanted three tiles, (m, l, acc)"
        yield Finding(False, f"{key}: three", text, case.said, events=events)
        return
    for name, value, want in zip(FACTS, got, expected(case), strict=True):
        array, complaint = as_array(value, want.shape)
        if array is None or not isinstance(value, np.ndarray | list) or np.ndim(value) != want.ndim:
            complaint = complaint or f"returned shape {np.shape(value)}, wanted {want.shape}"
            yield Finding(False, f"{key}: {name}", f"{name}: {complaint}", case.said, events=events)
            return
        if isinstance(value, np.ndarray) and value.dtype != np.float32:
            text = f"{name} is a tile of float32"
            said = str(value.dtype)
            yield Finding(False, f"{key}: {name} type", text, case.said, "float32", said, events=events, seen=(said,))
            return
        finding = _numbers(name, array, want, case)
        yield replace(finding, key=f"{key}: {name}", events=None if finding.ok else events)


def _numbers(name: str, array: np.ndarray, want: np.ndarray, case: Case) -> Finding:
    empty = np.isneginf(want)  # -inf minus -inf is no number
    found = np.where(empty, np.where(np.isneginf(array), 0.0, np.nan), array)
    difference = first_difference(found, np.where(empty, 0.0, want), NEAR / 10 if name == "m" else NEAR)
    if difference is None:
        return held("", FACTS[name])
    clue = "" if empty.any() else observation(array, want)
    expect, given = number_pair(float(want[difference.index]), float(array[difference.index]))
    places = zip(("query", "feature"), difference.index, strict=False)
    where = case.said + "".join(f", {axis} {i}" for axis, i in places)
    fact = f"does not hold: {FACTS[name]}" + (f"; {clue}" if clue else "")
    return Finding(False, "", fact, where, expect, given)


def _ask(subject: Subject, cases: Iterable[tuple[str, Case]]) -> Iterable[Finding]:
    """Make all calls, then judge them in order: what follows a first wrong answer tells one mistake from another."""
    replies, error = [], None
    for key, case in cases:
        try:
            replies.append((key, case, subject.run(*case.args), len(subject.record)))
        except LearnerRaised as raised:
            error = raised
            break
    for key, case, got, events in replies:
        yield from _judge(got, case, key, events)
    if error is not None:
        raise error


@stage("one block", why="A single tile of tokens: scores, their largest, and sums relative to it.")
def one_block(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    cases = []
    for sizes in ({}, {"GP": 4, "D": 2, "block_size": 8}, {"GP": 1, "D": 16, "block_size": 4}):
        case = random_case(rng, 0, sizes.get("block_size", 4), HKV=1, kv_head=0, spare=0, **sizes)
        case.q[:] = -np.abs(case.q)  # all scores are below 0: a largest score that starts there is too large
        case.k[:] = np.abs(case.k)
        cases.append((f"{case.q.shape}", case))
    yield from _ask(subject, cases)


@stage("block after block", why="Each larger score makes all that was summed before it smaller: it must be shrunk.")
def block_after_block(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    cases = []
    for order in ("as it comes", "rising", "falling"):
        case = random_case(rng, 0, 12, HKV=1, kv_head=0, spare=0)
        case = replace(case, table=np.arange(3, dtype=np.int32))
        if order != "as it comes":
            case.q[:], steps = np.abs(case.q), np.arange(3)[:, None, None, None]
            case.k[:] = np.abs(case.k) / 4 + (steps if order == "rising" else 2 - steps)
        cases.append((order, case))
    yield from _ask(subject, cases)


@stage("the table and the heads", why="A token's row lies where the table says, among the rows of all KV heads.")
def table_and_heads(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    cases = [("3 heads", random_case(rng, 0, 8, kv_head=head)) for head in (2, 1, 0)]
    cases.append(("5 heads", random_case(rng, 0, 6, GP=4, D=16, block_size=2, HKV=5, kv_head=3)))
    yield from _ask(subject, cases)


@stage("first to last", why="A part starts and ends anywhere. What lies around it may be NaN.", weight=2)
def first_to_last(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    parts = ((0, 7), (4, 11), (5, 12), (3, 14), (6, 7), (1, 3))
    cases = [(f"{first} to {last}", random_case(rng, first, last)) for first, last in parts]
    longer = random_case(rng, 0, 19)  # the table goes on
    cases.append(("of a longer table", replace(longer, first=5, last=10)))
    for first, last in ((3, 9), (8, 11)):
        cases.append((f"{first} to {last}, NaN around", poisoned(random_case(rng, first, last, kv_head=2))))
    yield from _ask(subject, cases)


@stage("large scores", why="exp(89) is too large for float32. Relative to the largest score nothing is.")
def large_scores(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    cases = []
    for name, low, high in (("from -600 to 600", -75, 75), ("around 500", 62, 64), ("around -500", -64, -62)):
        case = random_case(rng, 2, 13)
        case.q[:] = 1.0
        rows = rng.integers(low, high + 1, case.k.shape[:3]) + rng.integers(0, 3, case.k.shape[:3]) / 16
        case.k[:] = rows[..., None]  # a score is 8 times this, exactly
        cases.append((name, replace(case, scale=1.0)))
    lowest = random_case(rng, 4, 5)  # lower than any number that stands for -inf
    lowest.q[:], lowest.k[:] = 1.0, -5000.0 - rng.integers(1, 9)
    cases.append(("one token of -40000", replace(lowest, scale=1.0)))
    yield from _ask(subject, cases)


@stage("nothing there", why="With more parts than blocks some parts are empty. They must not disturb the others.")
def nothing_there(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    cases = [("one token", random_case(rng, 4, 5))]
    for first, last in ((0, 0), (5, 5), (8, 7), (12, 3)):
        cases.append((f"{first} to {last}", poisoned(random_case(rng, first, last))))
    cases.append(("one token more", random_case(rng, 2, 3)))
    yield from _ask(subject, cases)


@stage("the whole pool", why="A real pool passes 2**31 numbers, and what is read twice takes twice as long.", weight=2)
def whole_pool(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    cases = []
    for first, last in ((3, 14), (2, 9)):  # the table ends, or goes on with -1
        case = random_case(rng, first, last)
        rest = np.full(2, -1, np.int32)
        cases.append((f"{first} to {last}", case))
        cases.append((f"{first} to {last}, -1 behind", replace(case, table=np.concatenate([case.table, rest]))))
    near = random_case(rng, 1, 10)
    for bits in (31, 33):  # past int32, and past uint32
        far = 2**bits // near.k[0].size + int(rng.integers(5, 500))
        cases.append((f"beyond 2**{bits}", replace(near, table=(near.table + far).astype(np.int32), far=far)))
    yield from _ask(subject, cases)
    for first, last in ((0, 20), (13, 20)):
        case = random_case(rng, first, last)
        reply, events = subject.largest(*case.args), len(subject.record)
        yield from _judge(half(reply, 0), case, f"reading {first} to {last}", events)
        yield _few(half(reply, 1), case, events)


def _few(read: Any, case: Case, events: int) -> Finding:
    """Whether every row was read once, or every block of rows."""
    slots = case.blocks() * case.k.shape[1]
    most = 2 * slots * case.q.shape[1] + slots + len(case.table)  # keys, values, and the table for each token
    fewest = 2 * (case.last - case.first) * case.q.shape[1] + case.blocks()  # all of it through tl.load
    fact = "each key and each value is read once"
    if type(read) is int and fewest <= read <= most:
        return held("reads", fact)
    got = f"{read} numbers read" if type(read) is int else shown(read)
    expect = f"{fewest} to {most} numbers for {case.last - case.first} tokens"
    return Finding(False, "reads", f"does not hold: {fact}", case.said, expect, got, events=events)


EXERCISE = Exercise(
    id="11.4",
    name="attend_tiles",
    title="The loop of a real kernel",
    goal="Write the inner loop of a paged decode kernel in Triton's language.",
    points=8,
    minutes=50,
    difficulty=5,
    tensors="tiles",
    hints=(
        "It is 11.1 with tiles in place of numbers: m and l are (GP,), acc is (GP, D), and a step takes BLOCK_SIZE "
        "tokens. Write it for one full block first: `tl.load` of (BLOCK_SIZE, D) keys, then "
        "`tl.sum(q[:, None, :] * keys[None, :, :], 2)` are the scores (GP, BLOCK_SIZE).",
        "Loop `for start in range(first, last, BLOCK_SIZE)` with `positions = start + tl.arange(0, BLOCK_SIZE)` and "
        "`held = positions < last`. The block of each position is `tl.load(table + positions // BLOCK_SIZE, mask=held, "
        "other=0)`, its row `(block * BLOCK_SIZE + positions % BLOCK_SIZE) * HKV + kv_head`. Load keys and values with "
        "`mask=held[:, None], other=0.0`, and put -inf where `held` is false.",
        "After the scores: `new_m = tl.maximum(m, tl.max(scores, 1))`, `shrink = tl.exp(m - new_m)`, `powers = "
        "tl.exp(scores - new_m[:, None])`, `l = l * shrink + tl.sum(powers, 1)`, `acc = acc * shrink[:, None] + "
        "tl.sum(powers[:, :, None] * values[None, :, :], 1)`. Block numbers are int32: `.to(tl.int64)` before you "
        "multiply them.",
    ),
    stages=(one_block, block_after_block, table_and_heads, first_to_last, large_scores, nothing_there, whole_pool),
    reference=attend_tiles,
    mistakes=MISTAKES,
    variants=VARIANTS,
)
