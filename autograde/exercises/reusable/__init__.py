"""Exercise 9.4: how much of a held cache another request may use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from autograde.compare import shown
from autograde.exercise import Exercise, stage
from autograde.exercises.reusable.candidates import MISTAKES, VARIANTS
from autograde.expect import agrees
from autograde.finding import Finding, held
from autograde.subject import LearnerRaised, Subject
from autograde.value import Handle
from kvlib.reusable import reusable

# Of each field a value, and others that are near: versions, capitals, None against a name.
OTHERS: dict[str, tuple[Any, ...]] = {
    "weights": ("llama@3.1", "llama@3", "llama@2", "Llama@3.1", "qwen@3.1"),
    "adapter": ("poet", "poet-2", None, "None", "", "poet "),
    "tokenizer": ("bpe-128k", "bpe-32k", "bpe-128K"),
    "template": ("chat-1", "chat-2"),
    "tenant": ("acme", "zeta"),
    "positions": ("rope 10000", "rope 500000", "rope 10000, scaled by 8"),
}


def anew(value: Any) -> Any:
    """An equal value that is another object, as requests bring it: `is` says nothing about it."""
    if isinstance(value, list):
        return [anew(item) for item in value]
    return type(value)(str(value)) if type(value) in (int, float) else "".join(value) if type(value) is str else value


def request(tokens: list[int] | Handle, **fields: Any) -> dict[str, Any]:
    """A request of the usual identity; fields of another value, or left out where they are `...`."""
    usual = {name: values[0] for name, values in OTHERS.items()}
    found = {**usual, "temperature": 0.7, "seed": 3, "stop": ["\n"], **fields, "tokens": tokens}
    return {name: anew(value) for name, value in found.items() if value is not ...}


def prefix(rng: np.random.Generator, number: int) -> list[int]:
    """Different tokens, none of them 0."""
    return [int(token) for token in rng.permutation(np.arange(1, 90))[:number]]


def judge(subject: Subject, wanted: list[tuple[str, dict, dict, int]]) -> Iterable[Finding]:
    """Several questions, judged together: one answer alone does not tell two mistakes apart."""
    answers: list[Any] = []
    raised: LearnerRaised | None = None
    for _, mine, theirs, _ in wanted:
        try:
            answers.append(subject.run(mine, theirs))
        except LearnerRaised as error:
            raised = error
            break
    for got, (what, _, _, want) in zip(answers, wanted, strict=False):
        yield right(subject, got, want, what)
    if raised is not None:
        raised.args = (f"with {wanted[len(answers)][0]}: {raised}",)
        raise raised


def right(subject: Subject, got: Any, want: int, what: str) -> Finding:
    """Whether a count of tokens is right."""
    value = got.reshape(()).item() if isinstance(got, np.ndarray) and got.size == 1 else got
    fact = "so many leading tokens need not be computed"
    if type(value) in (int, float) and value == want:
        return held("tokens", fact)
    fact, events = f"does not hold: {fact}", len(subject.record)
    return Finding(False, "tokens", fact, where=what, expected=str(want), got=shown(got), events=events)


@stage("the same in front", weight=2, why="Rows depend on all tokens before them: only what both begin with counts.")
def the_same_in_front(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    t = prefix(rng, 19)
    a, b = t[:7], t[7:]
    cases = [
        ("the first 5 tokens alike, of 9 and 11", a[:5] + b[:4], a[:5] + b[4:10], 5),
        ("alike, and 4 more are wanted", a, a + b[:4], 7),
        ("alike at places 0 to 2 and 4 on", a[:3] + [b[0]] + a[4:], a[:3] + [b[1]] + a[4:], 3),
        ("nothing alike in front, all else is", [b[0], *a], [b[1], *a], 0),
        ("the held one begins with another token", [b[0], *a], a, 0),
        ("the same tokens in another order", a, [a[1], a[0], *a[2:]], 0),
        ("alike up to a 0", [*a[:2], 0, *a[2:]], [*a[:2], 0, *a[2:5], *b[:3]], 6),
        ("a token twice in a row", [a[0], a[0], a[1]], [a[0], a[0], a[2], a[3]], 2),
        ("[1, 23, 4] and [12, 3, 4, 5]", [1, 23, 4], [12, 3, 4, 5], 0),
        ("one held token, and it is there", a[:1], a[:3], 1),
        ("nothing is held", [], a, 0),
        ("6 is not the beginning of 61", [5, 6], [5, 61, 7], 1),
        ("large numbers, alike", [300, 70005, 4469], [300, 70005, 4469, 1, 2], 3),
        ("300 is not 44", [5, 300], [5, 44, 7], 1),
        ("70005 is not 4469", [5, 70005], [5, 4469, 7], 1),
    ]
    yield from judge(subject, [(what, request(x), request(y), want) for what, x, y, want in cases])


@stage("the last token", why="Logits are not in the cache. To get them, one token has to be computed at least.")
def the_last_token(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    a = prefix(rng, 11)
    cases = [
        ("the same 7 tokens", a[:7], a[:7], 6),
        ("7 held, the first 4 of them wanted", a[:7], a[:4], 3),
        ("11 held, 10 of them wanted", a, a[:10], 9),
        ("one token, the same", a[:1], a[:1], 0),
        ("7 held, the first of them wanted", a[:7], a[:1], 0),
        ("all but the last token alike", a[:7], a[:6] + a[8:9], 6),
        ("two tokens, the first alike", a[:2], [a[0], a[3]], 1),
    ]
    yield from judge(subject, [(what, request(x), request(y), want) for what, x, y, want in cases])
    lists = [subject.call(subject.put(np.array(tokens)), "tolist", keep=True) for tokens in (a[:5], a[:7])]
    yield right(subject, subject.run(*map(request, lists)), 5, "5 held, 7 wanted")
    for name, kept, tokens in zip(("held", "wanted"), lists, (a[:5], a[:7]), strict=True):
        fact = f"the tokens of `{name}` are as they were before the call"
        yield agrees(subject, subject.read(kept), tokens, key=name, fact=fact, columns="token")


@stage("the same identity", weight=2, why="Other weights, adapter, template or positions: other rows, and no error.")
def the_same_identity(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    a = prefix(rng, 9)
    cases = [("the same identity", request(a[:5]), request(a), 5)]
    for name, values in OTHERS.items():
        for other in values[1:]:
            what = f"{name} {values[0]!r} and {other!r}"
            cases.append((what, request(a[:5]), request(a, **{name: other}), 0))
            cases.append((f"{name} {other!r} and {values[0]!r}", request(a[:5], **{name: other}), request(a), 0))
            both = {name: other}
            cases.append((f"{name} {other!r} in both", request(a[:5], **both), request(a, **both), 5))
    for other in ("None", ""):
        what = f"adapter None and {other!r}"
        cases.append((what, request(a[:5], adapter=None), request(a, adapter=other), 0))
    swapped = {"tenant": "chat-1", "template": "acme"}
    cases.append(("tenant and template in each other's place", request(a[:5]), request(a, **swapped), 0))
    joined = {"tokenizer": "bpe-128kc", "template": "hat-1"}
    cases.append(("tokenizer 'bpe-128kc' and template 'hat-1'", request(a[:5]), request(a, **joined), 0))
    yield from judge(subject, cases)


@stage("what does not matter", why="Temperature, seed and stop words choose the next token. They enter no row.")
def what_does_not_matter(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    a = prefix(rng, 8)
    cases = []
    changes = {"temperature": 0.0, "seed": 4, "stop": [], "user": "ann", "top_p": 0.9, "max_tokens": 9}
    for name, other in changes.items():
        cases.append((f"another {name}", request(a[:5], **{name: other}), request(a), 5))
        cases.append((f"another {name}", request(a[:5]), request(a, **{name: other}), 5))
    cases.append(("no temperature in one of them", request(a[:5], temperature=...), request(a), 5))
    cases.append(("no seed in the other", request(a[:5]), request(a, seed=...), 5))
    backwards = dict(reversed(list(request(a).items())))
    cases.append(("the same fields in another order", request(a[:5]), backwards, 5))
    cases.append(("another temperature, another tenant", request(a[:5], temperature=0.1), request(a, tenant="zeta"), 0))
    yield from judge(subject, cases)


@stage("missing fields", why="A request that does not say which adapter it means is not one that says it means none.")
def missing_fields(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    a = prefix(rng, 7)
    cases = [("all fields in both", request(a[:4]), request(a), 4)]
    for name in OTHERS:
        gone, none = {name: ...}, {name: None}
        cases += [
            (f"no {name} in the held one", request(a[:4], **gone), request(a), 0),
            (f"no {name} in the wanted one", request(a[:4]), request(a, **gone), 0),
            (f"no {name} in either", request(a[:4], **gone), request(a, **gone), 4),
        ]
        if name == "adapter":
            cases += [
                ("no adapter field, and adapter None", request(a[:4], **gone), request(a, **none), 0),
                ("adapter None, and no adapter field", request(a[:4], **none), request(a, **gone), 0),
            ]
    for value in ("", 0, -1, "missing"):  # what a default may be
        what = f"no adapter field, and adapter {value!r}"
        cases.append((what, request(a[:4], adapter=...), request(a, adapter=value), 0))
    yield from judge(subject, cases)


EXERCISE = Exercise(
    id="9.4",
    name="reusable",
    title="Whose cache is it?",
    goal="Say how many tokens of a request need not be computed, because a held cache has them.",
    points=3,
    minutes=12,
    difficulty=2,
    hints=(
        "Two questions. Is everything the same that rows depend on? If not, 0. And how far are the tokens the same, "
        "counted from the first?",
        "Go through the six names of the identity. `held.get(name)` makes None of a field that is missing; a default "
        "that nothing else equals, such as `object()`, does not. At the end, mind the last wanted token.",
        "`if any((name in held) != (name in wanted) or held.get(name) != wanted.get(name) for name in names): return "
        "0`. Then `n = 0`, and while `n < len(held) and n < len(wanted) - 1` (of the two token lists) and token n is "
        "the same, `n += 1`.",
    ),
    stages=(the_same_in_front, the_last_token, the_same_identity, what_does_not_matter, missing_fields),
    reference=reusable,
    mistakes=MISTAKES,
    variants=VARIANTS,
)
