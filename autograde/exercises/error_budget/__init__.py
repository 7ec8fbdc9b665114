"""Exercise 7.5: a bound on the error of attention over rounded keys and values."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from autograde.compare import as_array
from autograde.exercise import Exercise, stage
from autograde.exercises.error_budget.candidates import MISTAKES, VARIANTS
from autograde.expect import agrees
from autograde.finding import Finding
from autograde.lazy import Later
from autograde.subject import Subject

D = 5


def _budget(q: np.ndarray, k: np.ndarray, v: np.ndarray, relative: float) -> np.ndarray:
    """(D,): the four steps, in loops."""
    root = math.sqrt(len(q))
    deltas, scores = [], []
    for key in k:
        products = [a * b for a, b in zip(q, key, strict=True)]
        scores.append(math.fsum(products) / root)
        deltas.append(relative * math.fsum(map(abs, products)) / root)
    shares = [math.exp(score - max(scores)) for score in scores]
    growth = math.exp(2 * max(deltas)) * (1 + relative) - 1
    columns = zip(*np.abs(v), strict=True)
    means = [math.fsum(s * x for s, x in zip(shares, column, strict=True)) / math.fsum(shares) for column in columns]
    return np.array(means) * growth


def _ask(
    subject: Subject, q: np.ndarray, k: np.ndarray, v: np.ndarray, relative: float, fact: str, key: str
) -> Iterable[Finding]:
    want = _budget(q, k, v, relative)
    # Relative, since a small bound must be right too.
    got = subject.run(q, k, v, relative)
    array, _ = as_array(got, want.shape)
    got = got if array is None else array / want.max()
    finding = agrees(subject, got, want / want.max(), key=key, fact=fact)
    where = f"{len(k)} tokens, D {len(q)}, relative {relative:.4g}"
    if finding.ok:
        yield replace(finding, note="")
        return
    place = finding.where.replace("feature", "output")
    expected, given = _times(finding.expected, want.max()), _times(finding.got, want.max())
    yield replace(finding, where=f"{where}, {place}".removesuffix(", "), expected=expected, got=given)


def _times(text: str, largest: float) -> str:
    try:
        return f"{float(text) * largest:.6g}"
    except ValueError:
        return text


def _normal(rng: np.random.Generator, tokens: int, dim: int = D) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Keys that differ in length as well as in direction, and values of both signs."""
    for _ in range(1000):
        q = rng.normal(size=dim)
        k = rng.normal(size=(tokens, dim)) * rng.permutation(np.linspace(0.5, 1.5, tokens))[:, None]
        if tokens < 4 or _told_apart(np.abs(k * q).sum(axis=1), k @ q):
            break
    return q, k, rng.normal(size=(tokens, dim)) + 0.3


def _told_apart(moves: np.ndarray, scores: np.ndarray) -> bool:
    """Whether neither the first, nor the last, nor the best token moves most; and the first and the last not least."""
    order = np.argsort(moves)
    ends = {0, len(moves) - 1}
    clear = moves[order[0]] < 0.95 * moves[order[1]] and moves[order[-2]] < 0.95 * moves[order[-1]]
    return clear and not ends & {int(order[0]), int(order[-1])} and int(np.argmax(scores)) != order[-1]


def _far(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores that move by several."""
    q, k, v = _normal(rng, 7)
    k[2] = q * (20 / (q @ q))
    return q, k, v


@stage("values alone", why="A query of zeros gives scores that cannot move: only the values' own rounding is left.")
def values_alone(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for tokens, relative in ((7, 0.25), (3, 2.0**-4)):
        _, k, v = _normal(rng, tokens)
        fact = "with a query of zeros the budget is relative times the mean of |v|"
        yield from _ask(subject, np.zeros(D), k, v, relative, fact, f"zeros {tokens}")


@stage("one token", why="One token has all the weight. Its score may move by delta, and the bound allows twice that.")
def one_token(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for dim, relative in ((5, 0.125), (2, 0.25)):
        fact = "with one token the budget is |v| * (exp(2 * delta) * (1 + relative) - 1)"
        yield from _ask(subject, *_normal(rng, 1, dim), relative, fact, f"one {dim}")


@stage("many tokens", why="The weights are those of the exact scores; the largest delta counts for all.", weight=2)
def many_tokens(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for tokens, dim, relative in ((7, 5, 2.0**-4), (11, 3, 0.125), (5, 7, 2.0**-6), (5, 5, 2.0**-3)):
        fact = "each output has the bound of the four steps"
        yield from _ask(subject, *_normal(rng, tokens, dim), relative, fact, f"{tokens} by {dim}")
    for name, at in (("first", 0), ("last", -1)):
        q, k, v = _normal(rng, 7)
        k[at] = -3 * q  # moves furthest, and weighs least
        yield from _ask(subject, q, k, v, 2.0**-4, "the largest delta counts, wherever it is", f"{name} moves furthest")


@stage(
    "sizes of all kinds",
    why="Scores reach hundreds in real models, and exp(800) is infinite. A small error gives a small bound.",
)
def all_sizes(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    q, k, v = _normal(rng, 7)
    q *= math.sqrt(D / (q @ q))
    k[3] = q * 2  # a score that is large for certain
    # Large values, so that what is wrong by a part of a tiny bound shows.
    for name, scale, size, relative in (("large scores", 500.0, 1.0, 2.0**-16), ("tiny errors", 1.0, 1e6, 2.0**-24)):
        fact = f"the bound is right for {name}"
        yield from _ask(subject, q * scale, k, v * size, relative, fact, name)
    yield from _ask(subject, *_far(rng), 0.25, "the bound is right for scores that may move far", "large delta")


@stage("the tensors stay", why="The same query, keys and values go on to the real attention.")
def tensors_stay(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    arrays = _normal(rng, 7)
    kept = [subject.put(array) for array in arrays]
    want = _budget(*arrays, 0.125)
    for turn in ("first", "second"):
        yield agrees(subject, subject.run(*kept, 0.125), want, key=turn, fact=f"the bound is right the {turn} time")
        for name, handle, array in zip("qkv", kept, arrays, strict=True):
            yield agrees(subject, subject.read(handle), array, key=f"{name} stays", fact=f"{name} is as it was")


EXERCISE = Exercise(
    id="7.5",
    name="error_budget",
    title="An error that you may count on",
    goal="Bound how far attention's output can move when keys and values are rounded.",
    points=4,
    minutes=20,
    difficulty=4,
    tensors=True,
    hints=(
        "Write the four steps down one by one, each in a line of its own, and print their shapes: delta_j (S,), delta "
        "a single number, the weights (S,), the bound (D,).",
        "Absolute values twice: in delta_j around each product `q_d * k_jd`, before the sum; in the last step around "
        "each value. The scores that make the weights have none.",
        "`delta = (relative * (k * q).abs().sum(1) / D ** 0.5).max()`, then `w = torch.softmax(k @ q / D ** 0.5, 0)`, "
        "then `w @ v.abs() * (torch.exp(2 * delta) * (1 + relative) - 1)`.",
    ),
    stages=(values_alone, one_token, many_tokens, all_sizes, tensors_stay),
    reference=Later("kvlib.error_budget", "error_budget"),
    mistakes=MISTAKES,
    variants=VARIANTS,
)
