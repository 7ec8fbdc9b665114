"""Exercise 4.2: grouped-query attention, without a copy of the keys and values for every query head."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from autograde.compare import as_array, first_difference, shown
from autograde.exercise import Exercise, stage
from autograde.exercises.gqa_attend.candidates import MISTAKES, VARIANTS
from autograde.exercises.gqa_attend.cases import Case, low_scores, marked, random_case, recompute, some_mask
from autograde.expect import agrees, half
from autograde.finding import Finding, held
from autograde.lazy import Later
from autograde.subject import LearnerRaised, Subject
from autograde.value import Handle


def _agree(subject: Subject, case: Case, key: str, got: object) -> Finding:
    """Whether one call gave what the loops give."""
    fact = "every query head attends over the keys that its row of the mask allows"
    finding = agrees(subject, got, recompute(case), key=key, fact=fact, exact=True)
    if finding.ok and case.q.dtype == np.float32:
        return held(key, fact)  # a remark on rounding would be out of place
    return finding if finding.ok else replace(finding, where=case.sizes + _place(got, recompute(case)))


def _place(got: object, want: np.ndarray) -> str:
    """The first sequence, head and query whose output is wrong."""
    array, _ = as_array(got, want.shape)
    difference = None if array is None else first_difference(array, want)
    return "" if difference is None else ": sequence {}, head {}, query {}".format(*difference.index[:3])


Judge = Callable[[Subject, Case, str, object], Finding]


def _ask(subject: Subject, cases: Iterable[tuple[str, Case]], judge: Judge = _agree) -> Iterable[Finding]:
    """Make all calls, then judge them in order: what follows a first wrong answer tells one mistake from another."""
    replies, error = [], None
    for key, case in cases:
        try:
            replies.append((key, case, subject.run(*case.args), len(subject.record)))
        except LearnerRaised as raised:
            error = raised
            break
    for key, case, got, events in replies:
        finding = judge(subject, case, key, got)
        yield finding if finding.ok else replace(finding, events=events)
    if error is not None:
        raise error


@stage("attention", why="With one KV head for each query head and every key visible, this is attention as you know it.")
def attention(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    sizes = ((3, 2, 11, 7), (5, 1, 11, 3), (3, 4, 4, 5))
    yield from _ask(subject, [(f"{H} heads, {T} of {S}", random_case(rng, H, H, T, S, D)) for H, T, S, D in sizes])


@stage("who reads whom", why="Which query heads share a KV head is fixed by training: any other map is another model.")
def who_reads_whom(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    cases = [random_case(rng, H, Hkv, 3, 11, 7) for H, Hkv in ((6, 2), (6, 3), (10, 2), (5, 1), (4, 4))]
    yield from _ask(subject, [(f"map {case.heads}", replace(case, v=marked(case.v.shape))) for case in cases], _map)
    cases = [random_case(rng, H, Hkv, T, 11, 13) for H, Hkv, T in ((6, 2, 3), (15, 5, 2), (6, 3, 1), (7, 1, 3))]
    yield from _ask(subject, [(f"numbers {case.heads}", case) for case in cases])


def _map(subject: Subject, case: Case, key: str, got: object) -> Finding:
    """Whatever the weights are, head h of the output is 1 at the place of the KV head that it has read."""
    H, Hkv = case.q.shape[1], case.k.shape[1]
    want = [h // (H // Hkv) for h in range(H)]
    array, _ = as_array(got, case.q.shape)
    read = [None] if array is None else [_read(array[:, h]) for h in range(H)]
    if None in read:
        return _agree(subject, case, key, got)
    fact = "the heads read the KV heads of their groups, and neighbours share one"
    if read == want:
        return held(key, fact)
    expected, given = (f"KV heads {heads}" for heads in (want, read))
    return Finding(False, key, f"does not hold: {fact}", case.heads, expected, given)


def _read(rows: np.ndarray) -> int | None:
    """The one place where all rows are 1, or None."""
    place = int(np.argmax(rows.reshape(-1, rows.shape[-1])[0]))
    whole = np.zeros(rows.shape)
    whole[..., place] = 1.0
    return place if np.abs(rows - whole).max() < 1e-5 else None


@stage("the mask", why="True means may be seen. The mask alone decides: it is not always a triangle.")
def the_mask(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    cases = []
    for H, Hkv, T, S, D in ((3, 3, 7, 7, 5), (6, 2, 3, 11, 7), (5, 1, 3, 11, 2), (10, 2, 2, 7, 3)):
        case = replace(random_case(rng, H, Hkv, T, S, D), mask=some_mask(rng, T, S))
        cases.append((f"{T} queries, {case.heads}", case))
    for H, Hkv in ((6, 2), (4, 4), (5, 1)):  # one new token
        for hidden in (10, 0):  # the newest key, the oldest key
            case = random_case(rng, H, Hkv, 1, 11, 7)
            case.mask[0, [hidden, int(rng.integers(2, 9))]] = False
            cases.append((f"one query, {case.heads}, key {hidden} hidden", case))
    for T in (3, 1):
        cases.append((f"{T} queries, all scores near -256", low_scores(rng, 6, 2, T, 11)))
    case = replace(random_case(rng, 6, 2, 3, 11, 7), mask=some_mask(rng, 3, 11))
    q, k, v = (array.astype(np.float32) for array in case.args[:3])
    cases.append(("float32 tensors", replace(case, q=q, k=k, v=v)))
    yield from _ask(subject, cases)


@stage("no copy", why="The cache is small because heads share. A copy for every query head gives all of it back.")
def no_copy(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    sizes = ((12, 2, 3, 2), (3, 3, 3, 2), (7, 1, 3, 1), (7, 1, 3, 2))  # H, Hkv, T, B
    cases = [random_case(rng, H, Hkv, T, 13, 29, B) for H, Hkv, T, B in sizes]
    for H, Hkv, T, B in ((10, 2, 3, 3), (12, 2, 1, 2)):  # a mask that hides; one new token
        cases.append(replace(random_case(rng, H, Hkv, T, 13, 29, B), mask=some_mask(rng, T, 13)))
    replies = [(subject.largest(*case.args), len(subject.record)) for case in cases]
    for case, (reply, events) in zip(cases, replies, strict=True):
        key = f"{case.heads}, T={case.q.shape[2]}, B={len(case.q)}"
        findings = [_agree(subject, case, f"numbers {key}", half(reply, 0))]
        if case.q.shape[1] > case.k.shape[1]:
            findings.append(_small(case, f"copy {key}", half(reply, 1)))
        for finding in findings:
            yield finding if finding.ok else replace(finding, events=events)


def _small(case: Case, key: str, largest: object) -> Finding:
    """Whether nothing was made that holds as many numbers as K repeated for all query heads; float32 counts too."""
    B, H, _, D = case.q.shape
    numbers = B * H * case.k.shape[2] * D
    fact = "no tensor on the way is as large as K repeated for all query heads"
    if type(largest) is int and largest < 4 * numbers:
        return held(key, fact)
    expected = f"less than {8 * numbers} bytes (K itself has {case.k.nbytes})"
    told = f"a tensor of {largest} bytes" if type(largest) is int else shown(largest)
    return Finding(False, key, f"does not hold: {fact}", case.sizes, expected, told)


@stage("the caller's tensors", why="K and V are the cache, and the mask serves all layers: none of them may change.")
def the_callers_tensors(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    case = replace(random_case(rng, 6, 2, 3, 11, 7), mask=some_mask(rng, 3, 11))
    yield from _unchanged(subject, case, [subject.put(array) for array in case.args])
    for H, Hkv, T in ((4, 4, 3), (5, 1, 1), (3, 3, 1)):
        case = replace(random_case(rng, H, Hkv, T, 11, 7), mask=some_mask(rng, T, 11))
        yield from _unchanged(subject, case, [subject.put(array) for array in case.args], f"{case.heads}, T={T}: ")
    for H, Hkv, T in ((6, 2, 3), (6, 2, 1)):
        case = replace(random_case(rng, H, Hkv, T, 11, 7), mask=some_mask(rng, T, 11))
        yield from _unchanged(subject, case, _as_views(subject, case, tokens_first=T == 1), f"views, T={T}: ")


def _unchanged(subject: Subject, case: Case, kept: list[Handle], when: str = "") -> Iterable[Finding]:
    """Two calls with the same tensors."""
    for run in (f"{when}first layer", f"{when}second layer"):
        yield _agree(subject, case, run, subject.run(*kept))
        for name, handle, array in zip(("q", "k", "v", "mask"), kept, case.args, strict=True):
            read = subject.read(handle)
            same = isinstance(read, np.ndarray) and read.dtype == array.dtype and np.array_equal(read, array)
            key, fact = f"{name}, {run}", f"{name} is as it was before the call"
            events = len(subject.record)
            yield held(key, fact) if same else Finding(False, key, f"does not hold: {fact}", run, events=events)


def _as_views(subject: Subject, case: Case, tokens_first: bool) -> list[Handle]:
    """As a decoder has them: q with its axes exchanged, K and V the first tokens of a buffer that has room for more."""
    q = subject.call(subject.put(case.q.transpose(0, 2, 1, 3)), "transpose", 1, 2, keep=True)
    views = []
    for rows in (case.k, case.v):
        room = np.full((*rows.shape[:2], 3, rows.shape[3]), np.nan)
        buffer = np.concatenate([rows, room], axis=2)
        if tokens_first:  # (B, max_len, Hkv, D) inside
            view = subject.call(subject.put(buffer.transpose(0, 2, 1, 3)), "transpose", 1, 2, keep=True)
        else:
            view = subject.put(buffer)
        views.append(subject.call(view, "narrow", 2, 0, rows.shape[2], keep=True))
    return [q, *views, subject.put(case.mask)]


EXERCISE = Exercise(
    id="4.2",
    name="gqa_attend",
    title="Attention with shared heads",
    goal="Let `H` query heads attend over `Hkv` shared heads of keys and values, without copying these.",
    points=5,
    minutes=25,
    difficulty=3,
    tensors=True,
    hints=(
        "Give the group an axis of its own: `q.reshape(B, Hkv, G, T, D)`. Now the first two axes of `q` and `k` agree. "
        "What would a loop over the `Hkv` heads do with the other three?",
        "The query heads of a group are just more queries of one head: `rows = q.reshape(B, Hkv, G * T, D)`. Then "
        "`rows @ k.transpose(-1, -2)` copies nothing. The rows are head by head, so the mask must be repeated as a "
        "whole, `G` times.",
        "`scores = rows @ k.transpose(-1, -2) / D**0.5`, hide with "
        "`scores.masked_fill(~torch.cat([mask] * G), float('-inf'))`, `softmax(dim=-1)`, times `v`, and "
        "`.reshape(B, H, T, D)` at the end.",
    ),
    stages=(attention, who_reads_whom, the_mask, no_copy, the_callers_tensors),
    reference=Later("kvlib.gqa", "gqa_attend"),
    mistakes=MISTAKES,
    variants=VARIANTS,
)
