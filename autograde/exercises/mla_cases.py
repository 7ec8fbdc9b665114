"""What the exercises on latent attention ask with: queries and latents, right answers in float64 loops, shared stages.

Letters: B sequences, T queries, S tokens, H heads, R width of a latent, Dn, Dr, Dv head dims without position, of the
rotary part, and of values.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from autograde.compare import as_array, first_difference
from autograde.exercise import stage
from autograde.exercises.positions import named_when
from autograde.expect import agrees, half
from autograde.finding import Finding, held
from autograde.subject import LearnerRaised, Subject
from autograde.value import Handle

NAMES = ("q_nope", "q_pe", "c_kv", "k_pe", "w_uk", "w_uv")


@dataclass(frozen=True)
class Dims:
    """Widths that are pairwise distinct, Dn + Dr among them: a wrong scale or a mixed-up axis cannot hide."""

    H: int = 3
    Dn: int = 5
    Dr: int = 4
    Dv: int = 7
    R: int = 13

    def __str__(self) -> str:
        return f"H={self.H}, Dn={self.Dn}, Dr={self.Dr}, Dv={self.Dv}, R={self.R}"


@dataclass(frozen=True)
class Case:
    """One call, in the order of the learner's function."""

    q_nope: np.ndarray  # (B, H, T, Dn)
    q_pe: np.ndarray  # (B, H, T, Dr)
    c_kv: np.ndarray  # (B, S, R)
    k_pe: np.ndarray  # (B, S, Dr)
    w_uk: np.ndarray  # (H, Dn, R)
    w_uv: np.ndarray  # (H, Dv, R)

    @property
    def args(self) -> tuple[np.ndarray, ...]:
        """All six."""
        return tuple(getattr(self, name) for name in NAMES)

    @property
    def tokens(self) -> tuple[int, int]:
        """T and S."""
        return self.q_nope.shape[2], self.c_kv.shape[1]

    @property
    def want(self) -> np.ndarray:
        """(B, H, T, Dv): the right answer."""
        return attend_latents(*self.args)

    def as_float32(self) -> Case:
        """The same in single precision."""
        return Case(*(part.astype(np.float32) for part in self.args))


def random_case(rng: np.random.Generator, T: int, S: int, dims: Dims | None = None, B: int = 2) -> Case:
    """Scores spread enough that every weight matters."""
    d = dims or Dims()
    q_nope, q_pe = (1.5 * rng.normal(size=(B, d.H, T, D)) for D in (d.Dn, d.Dr))
    c_kv, k_pe = rng.normal(size=(B, S, d.R)), rng.normal(size=(B, S, d.Dr))
    w_uk, w_uv = (rng.normal(size=(d.H, D, d.R)) / math.sqrt(d.R) for D in (d.Dn, d.Dv))
    return Case(q_nope, q_pe, c_kv, k_pe, w_uk, w_uv)


def low_scores(rng: np.random.Generator, T: int, S: int) -> Case:
    """All scores lie near -768: below what exp() can tell from 0, and below what some people hide keys with.

    Small whole numbers and Dn + Dr = 16, so that float32 is exact too up to the softmax.
    """
    case = random_case(rng, T, S, Dims(H=3, Dn=10, Dr=6, Dv=7, R=11))
    whole: list[np.ndarray] = [rng.integers(-1, 2, size=part.shape).astype(float) for part in case.args[:5]]
    whole[1][..., 0], whole[3][..., 0] = -64.0, 48.0
    return Case(*(*whole, case.w_uv))


def too_large(rng: np.random.Generator, T: int, S: int, part: str) -> Case:
    """float32, and one latent's keys ("key") or values ("value") would be infinite; the right way meets no such number.

    One number of one latent is near the largest that float32 has, and 16 in the heads' matrices meets it. In a key it
    is met twice, by two numbers of the query that cancel exactly. A value is met by a weight that is 0 in float32.
    """
    case, token = random_case(rng, T, S, Dims(H=4, Dn=9, Dr=5, Dv=6, R=11)), S // 2
    case.w_uk[..., -1], case.w_uv[..., -1] = 0.0, 0.0
    case.c_kv[:, token, -1] = 2e38
    case.q_nope[..., 0], case.q_nope[..., 1] = 2.0, -2.0
    case.q_pe[..., 0], case.k_pe[..., 0], case.k_pe[:, token, 0] = 16.0, 0.0, -64.0
    if part == "key":
        case.w_uk[:, :2, -1] = 16.0
    else:
        case.w_uv[..., -1] = 16.0
    return case.as_float32()


def attend_latents(*parts: np.ndarray) -> np.ndarray:
    """(B, H, T, Dv) in loops. The newest answers are kept: all catalogued mistakes are asked the same."""
    return _attend(*((part.shape, part.dtype.str, part.tobytes()) for part in parts)).copy()


@lru_cache(maxsize=300)
def _attend(*kept: tuple[tuple[int, ...], str, bytes]) -> np.ndarray:
    parts = [np.frombuffer(data, dtype).reshape(shape) for shape, dtype, data in kept]
    q_nope, q_pe, c_kv, k_pe, w_uk, w_uv = (part.astype(np.float64) for part in parts)
    B, H, T, Dn = q_nope.shape
    S, width = c_kv.shape[1], Dn + q_pe.shape[3]
    out = np.zeros((B, H, T, w_uv.shape[1]))
    for b, h in np.ndindex(B, H):
        keys = np.array([np.concatenate([w_uk[h] @ c_kv[b, s], k_pe[b, s]]) for s in range(S)])
        values = np.array([w_uv[h] @ c_kv[b, s] for s in range(S)])
        for t in range(T):
            seen = S - T + t + 1
            query = np.concatenate([q_nope[b, h, t], q_pe[b, h, t]])
            scores = [float(key @ query) / math.sqrt(width) for key in keys[:seen]]
            top = max(scores)
            shares = [math.exp(score - top) for score in scores]
            out[b, h, t] = sum(share * value for share, value in zip(shares, values[:seen], strict=True))
            out[b, h, t] /= math.fsum(shares)
    return out


def judge(subject: Subject, case: Case, got: object, key: str, what: str) -> Finding:
    """Whether one call gave what the loops give; a wrong number is told by sequence, head and query."""
    want, (T, S) = case.want, case.tokens
    fact = "each query attends with its head's keys and values over what it may see"
    if isinstance(got, np.ndarray) and got.size and got.shape != want.shape:  # T = 1 would hide axes in another order
        complaint = f"returned shape {got.shape}, wanted {want.shape}"
        return Finding(False, key, complaint, where=f"{what}, T={T}, S={S}", events=len(subject.record))
    finding = agrees(subject, got, want, key=key, fact=fact)
    if finding.ok:
        return held(key, fact) if case.c_kv.dtype == np.float32 else finding  # no remark on rounding then
    array, _ = as_array(got, want.shape)
    difference = None if array is None or not finding.where else first_difference(array, want)
    place = f"{what}, T={T}, S={S}"
    if difference is not None:
        b, h, t, _ = difference.index
        place += f": sequence {b}, head {h}, query {t} (position {S - T + t})"
    return replace(finding, where=place)


def ask(subject: Subject, cases: Iterable[tuple[str, Case]]) -> Iterable[Finding]:
    """Make all calls, then judge them in order: what follows a first wrong answer tells one mistake from another."""
    replies, error = [], None
    for what, case in cases:
        try:
            with named_when(f"with {what}"):
                replies.append((what, case, subject.run(*case.args), len(subject.record)))
        except LearnerRaised as raised:
            error = raised
            break
    for number, (what, case, got, events) in enumerate(replies):
        finding = judge(subject, case, got, f"{number} {what}", what)
        yield finding if finding.ok else replace(finding, events=events)
    if error is not None:
        raise error


def never_made(subject: Subject, rng: np.random.Generator, T: int, S: int) -> Iterable[Finding]:
    """Whether no key and no value is made in pieces, head by head or block by block: some would be infinite."""
    cases = [(f"a latent whose {part} would overflow float32", too_large(rng, T, S, part)) for part in ("key", "value")]
    for finding in ask(subject, cases):
        fact = "no key and no value of any head is made, not even in pieces"
        yield finding if finding.ok else replace(finding, fact=f"does not hold: {fact}")


def measure(subject: Subject, cases: Iterable[tuple[str, Case]]) -> Iterable[Finding]:
    """The same, and whether nothing was made that holds a row of keys or values for each token and head."""
    replies = [(what, case, subject.largest(*case.args), len(subject.record)) for what, case in cases]
    for what, case, reply, events in replies:
        findings = [judge(subject, case, half(reply, 0), f"numbers, {what}", what)]
        findings.append(small(subject, half(reply, 1), case, what))
        for finding in findings:
            yield finding if finding.ok else replace(finding, events=events)


def small(subject: Subject, largest: object, case: Case, what: str) -> Finding:
    """Whether the largest tensor is smaller than S rows of keys or values for each head would be, in float32 too."""
    (B, H, _, Dn), S, Dv = case.q_nope.shape, case.tokens[1], case.w_uv.shape[1]
    numbers = B * H * S * min(Dn, Dv)
    fact = "no tensor on the way holds a row for each token and each head"
    if type(largest) is int and 0 < largest < 4 * numbers:
        return held(f"largest, {what}", fact)
    told = f"a tensor of {largest} bytes" if type(largest) is int else "no number of bytes"
    expected = f"less than {4 * numbers} bytes (the latents have {case.c_kv.nbytes})"
    events = len(subject.record)
    return Finding(False, f"largest, {what}", f"does not hold: {fact}", what, expected, told, events=events)


def unchanged(
    subject: Subject, case: Case, kept: Sequence[Handle], what: str, others: Sequence[Case] = ()
) -> Iterable[Finding]:
    """Two calls with the caller's own tensors, which must stay as they were; then with new numbers in them."""
    for run in (f"{what}, first call", f"{what}, second call"):
        with named_when(f"with {run}"):
            got = subject.run(*kept)
        yield judge(subject, case, got, run, run)
        for name, handle, part in zip(NAMES, kept, case.args, strict=True):
            read = subject.read(handle)
            same = isinstance(read, np.ndarray) and read.dtype == part.dtype and np.array_equal(read, part)
            key, fact = f"{name}, {run}", f"{name} is as it was before the call"
            events = len(subject.record)
            yield held(key, fact) if same else Finding(False, key, f"does not hold: {fact}", run, events=events)
    for number, other in enumerate(others):
        for handle, part in zip(kept, other.args, strict=True):
            subject.fill(handle, part)
        run = f"{what}, other numbers in the same tensors"
        yield judge(subject, other, subject.run(*kept), f"{run} {number}", run)


def as_views(subject: Subject, case: Case) -> list[Handle]:
    """As a decoder has them: queries with their axes exchanged, latents as parts of one buffer that has more room."""
    B, S, R = case.c_kv.shape
    kept = [
        subject.call(subject.put(part.transpose(0, 2, 1, 3)), "transpose", 1, 2, keep=True)
        for part in (case.q_nope, case.q_pe)
    ]
    rows = np.concatenate([case.c_kv, case.k_pe], axis=2)
    buffer = subject.put(np.concatenate([rows, np.full((B, 3, rows.shape[2]), np.nan)], axis=1))
    rows = subject.call(buffer, "narrow", 1, 0, S, keep=True)
    kept += [subject.call(rows, "narrow", 2, *part, keep=True) for part in ((0, R), (R, case.k_pe.shape[2]))]
    return [*kept, *(subject.put(part) for part in (case.w_uk, case.w_uv))]


@stage("other sizes", why="One sequence, one head, narrow latents, small scores, float32: the same lines serve all.")
def other_sizes(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    cases = [("scores near -768, one query", low_scores(rng, 1, 11)), ("scores near -768", low_scores(rng, 3, 11))]
    narrow = Dims(H=1, Dn=9, Dr=2, Dv=6, R=4)
    cases += [("one sequence, one head", random_case(rng, 2, 5, narrow, B=1))]
    cases += [("float32 tensors", random_case(rng, 3, 11).as_float32())]
    yield from ask(subject, cases)


@stage("the caller's tensors", why="The latents are the cache and the matrices are the model: none of them may change.")
def callers_tensors(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    case, other, decoding = random_case(rng, 3, 11), random_case(rng, 3, 11), random_case(rng, 1, 11)
    yield from unchanged(subject, case, [subject.put(part) for part in case.args], "a chunk", [other])
    yield from unchanged(subject, decoding, [subject.put(part) for part in decoding.args], "one new token")
    yield from unchanged(subject, other, as_views(subject, other), "views")
