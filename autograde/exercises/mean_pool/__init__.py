"""Exercise 4.5: the K or V weights of a multi-head model, pooled into those of a grouped-query one."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from autograde.exercise import Exercise, stage
from autograde.exercises.mean_pool.candidates import MISTAKES, VARIANTS
from autograde.exercises.scalars import refused
from autograde.expect import agrees
from autograde.finding import Finding
from autograde.lazy import Later
from autograde.subject import Subject


def _pooled(weight: np.ndarray, num_heads: int, num_kv_heads: int) -> np.ndarray:
    """(H*D, width) -> (Hkv*D, width), in loops: row d of KV head j is the mean of the rows d of its query heads."""
    D, group = len(weight) // num_heads, num_heads // num_kv_heads
    out = np.empty((num_kv_heads * D, weight.shape[1]))
    for j in range(num_kv_heads):
        for d in range(D):
            rows = [weight[h * D + d] for h in range(j * group, (j + 1) * group)]
            out[j * D + d] = [math.fsum(column) / group for column in zip(*rows, strict=True)]
    return out


def _ask(subject: Subject, rng: np.random.Generator, H: int, Hkv: int, D: int, width: int) -> Iterable[Finding]:
    """One weight, with a clue for what people mix up."""
    weight = rng.normal(size=(H * D, width)) + 1.0
    fact = "row d of a KV head is the mean of the rows d of the heads in its group"
    where = f"H={H}, Hkv={Hkv}, D={D}, width={width}"
    got = subject.run(weight, H, Hkv)
    finding = agrees(
        subject,
        got,
        _pooled(weight, H, Hkv),
        key=f"{H} to {Hkv}",
        fact=fact,
        columns="column",
        others={
            "heads that lie Hkv apart, not next to each other": _tiled(weight, H, Hkv),
            "the first head of each group": _pooled(_firsts(weight, H, Hkv), H, Hkv),
        },
        exact=True,
    )
    yield finding if finding.ok else replace(finding, where=f"{where}, {finding.where}".removesuffix(", "))


def _tiled(weight: np.ndarray, num_heads: int, num_kv_heads: int) -> np.ndarray:
    """What comes of heads j, j + Hkv, j + 2 * Hkv, ... taken for one group."""
    D = len(weight) // num_heads
    order = [h for j in range(num_kv_heads) for h in range(j, num_heads, num_kv_heads)]
    return _pooled(np.concatenate([weight[h * D : (h + 1) * D] for h in order]), num_heads, num_kv_heads)


def _firsts(weight: np.ndarray, num_heads: int, num_kv_heads: int) -> np.ndarray:
    """The same weight with each head replaced by the first of its group."""
    D, group = len(weight) // num_heads, num_heads // num_kv_heads
    heads = [weight[h // group * group * D :][:D] for h in range(num_heads)]
    return np.concatenate(heads)


@stage("the groups", why="The heads that will share a KV head are neighbours: 0, 1, 2 and 3, 4, 5.", weight=2)
def the_groups(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    yield from _ask(subject, rng, 10, 2, 3, 7)
    yield from _ask(subject, rng, 6, 3, 5, 7)
    for i in rng.permutation(3)[:2]:
        yield from _ask(subject, rng, *((6, 2, 5, 11), (15, 5, 2, 13), (14, 7, 3, 5))[i])


@stage("both ends", why="As many KV heads as heads: nothing changes. One KV head: the mean of all.")
def both_ends(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    some = int(rng.choice([5, 7]))
    for H, Hkv in ((3, 3), (3, 1), (some, some), (some, 1)):
        yield from _ask(subject, rng, H, Hkv, 2, 11)
    yield from _ask(subject, rng, 6, 2, 1, 5)
    weight = rng.normal(size=(30, 7)).astype(np.float32)
    finding = agrees(
        subject,
        subject.run(weight, 6, 2),
        _pooled(weight, 6, 2),
        key="float32",
        fact="a float32 weight is pooled like any other",
        exact=True,
    )
    yield replace(finding, note="")


@stage("refusals", why="A mean over unequal groups, or over pieces of heads, has the right shape and means nothing.")
def refusals(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    yield from _ask(subject, rng, 6, 2, 5, 7)
    calls = [(f"{H} heads into {Hkv}", 4 * H, H, Hkv) for H, Hkv in ((6, 4), (9, 2), (2, 4), (3, 6))]
    calls += [(f"{rows} rows of 6 heads", rows, 6, 2) for rows in (31, 32)]
    weights = [rng.normal(size=(rows, 3)) for _, rows, _, _ in calls]
    asked = zip(weights, calls, strict=True)
    for finding in [refused(subject, weight, H, Hkv, key=what, what=what) for weight, (what, _, H, Hkv) in asked]:
        yield finding if finding.ok else replace(finding, events=len(subject.record))
    yield from _ask(subject, rng, 10, 5, 3, 2)


@stage("the weight stays", why="The multi-head model is still in use: pooling must not write into its weights.")
def the_weight_stays(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for H, Hkv, D, width in ((6, 2, 3, 5), (10, 2, 2, 3), (3, 3, 2, 5), (5, 1, 3, 2)):
        weight = rng.normal(size=(H * D, width))
        kept = subject.put(weight)
        for run in ("first", "second"):
            got = subject.run(kept, H, Hkv)
            fact = "the weights are pooled, also when the same ones are pooled again"
            yield agrees(subject, got, _pooled(weight, H, Hkv), key=f"{run} time", fact=fact, exact=True)
            fact = "the weight that was passed in is as it was"
            yield agrees(subject, subject.read(kept), weight, key=f"caller's weight, {run} time", fact=fact, exact=True)
    weight = rng.normal(size=(30, 7))
    across = subject.call(subject.put(weight.T), "t", keep=True)  # kept the other way round, as some models do
    fact = "a weight that is a view is pooled like any other"
    yield agrees(subject, subject.run(across, 6, 2), _pooled(weight, 6, 2), key="a view", fact=fact, exact=True)


EXERCISE = Exercise(
    id="4.5",
    name="mean_pool_kv",
    title="Turn many heads into few",
    goal="Make the K or V weights of a grouped-query model from those of a multi-head one: the mean of each group.",
    points=3,
    minutes=12,
    difficulty=2,
    tensors=True,
    hints=(
        "`nn.Linear` keeps one row for each output. So the first D rows belong to head 0, the next D to head 1. Which "
        "rows make row 0 of the first KV head, for 6 heads on 2?",
        "Give each thing an axis of its own: `weight.reshape(Hkv, G, D, width)`. Over which axis is the mean taken?",
        "Refuse a remainder first: `num_heads % num_kv_heads` and `weight.shape[0] % num_heads`. Then "
        "`weight.reshape(Hkv, G, D, -1).mean(dim=1).reshape(Hkv * D, -1)`.",
    ),
    stages=(the_groups, both_ends, refusals, the_weight_stays),
    reference=Later("kvlib.gqa", "mean_pool_kv"),
    mistakes=MISTAKES,
    variants=VARIANTS,
)
