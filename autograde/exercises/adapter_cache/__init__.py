"""Exercise 9.5: caches of a server with many adapters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from autograde.exercise import Exercise, stage
from autograde.exercises.adapter_cache.candidates import MISTAKES, VARIANTS
from autograde.exercises.adapter_cache.server import LentServer
from autograde.expect import agrees, counts
from autograde.finding import Finding
from autograde.subject import LearnerRaised, Subject
from autograde.value import Handle
from kvlib.adapter_cache import AdapterCache

ADAPTERS = ("poet", "judge", "poet-2", "tope", "stat", "v1")
SEPARATORS = ("", ":", "@", "/", " ", "-", "_", ",", ".", "|", "#", "\n", "\0")
# Names that are near each other, and versions of one name that are.
NAMES = ("poet", "Poet", "poet ", "zoo/poet", "poet/v1", "poet-2", "poet-20", "adapter-of-poet-1", "adapter-of-poet-2")
MANY = 66  # prompts: more than a cache of 64 keeps
VERSIONS = ("v1", "V1", "v1 ", "v1.0", "v1.1", "v10", "v2-b", "v2", "2", "02", "9f31c07", "9f31c08", "7f31c08", "1")


@dataclass(frozen=True)
class Answer:
    """What came back for one prompt, and what the server saw."""

    got: Any
    right: np.ndarray
    prompt: list[int]
    others: dict[str, int]  # the other adapters' states
    new: int  # tokens that had to be computed
    calls: tuple[tuple[str, int], ...]
    versions: tuple[str, ...]  # adapters whose version was asked for
    where: str


class Run:
    """One cache over one server, and all prompts that each set of weights has answered."""

    def __init__(self, subject: Subject, rng: np.random.Generator, adapters: tuple[str, ...] = ADAPTERS) -> None:
        self.subject, self.server = subject, LentServer(rng, adapters)
        self.cache = subject.new(self.server.lent())
        self.known: dict[int, list[list[int]]] = {}  # by state: prompts answered

    def ask(self, *events: tuple[str, Sequence[int] | str | None]) -> Iterable[Finding]:
        """Answer some prompts, judged together; None, or a version = this adapter's weights are uploaded anew."""
        with_uploads = any(tokens is None or isinstance(tokens, str) for _, tokens in events)
        answers: list[Answer] = []
        raised: LearnerRaised | None = None
        for adapter, tokens in events:
            if tokens is None or isinstance(tokens, str):
                self.server.upload(adapter, tokens or "")
                continue
            try:
                answers.append(self.answer(adapter, list(tokens)))
            except LearnerRaised as error:
                raised = error
                break
        # What the server saw tells one wrong way from another. Who asks for which version says nothing without uploads.
        seen = tuple((answer.calls, answer.versions if with_uploads else ()) for answer in answers)
        for answer in answers:
            yield from self.judge(answer, seen)
        if raised is not None:
            raise raised

    def answer(self, adapter: str, prompt: list[int], given: Handle | None = None) -> Answer:
        """One prompt, and what is right for it. `given`: the list to be passed, where it is kept."""
        server = self.server
        known = self.known.setdefault(server.states[adapter], [])
        longest = max([len(p) for p in known if p == prompt[: len(p)]], default=0)
        known.append(prompt)
        server.computed.clear()
        server.asked.clear()
        got = self.subject.call(self.cache, "answer", adapter, given or prompt)
        who = repr(adapter) if adapter else "no adapter"
        where = f"{who} {server.label(adapter)}, {listed(prompt)}, {longest} of {len(prompt)} tokens known"
        others = {name: state for name, state in server.states.items() if name != adapter}
        calls, versions = tuple(server.computed), tuple(sorted(server.asked))
        return Answer(got, server.right(adapter, prompt), prompt, others, len(prompt) - longest, calls, versions, where)

    def grow(self, adapter: str, *parts: list[int]) -> Iterable[Finding]:
        """A conversation in one list, to which its caller adds what comes next."""
        subject = self.subject
        prompt: list[int] = []
        given = subject.call(subject.put(np.zeros(0, dtype=np.int64)), "tolist", keep=True)
        for part in parts:
            subject.call(given, "extend", part)
            prompt = prompt + part
            answer = self.answer(adapter, prompt, given)
            yield from self.judge(answer, ((answer.calls, ()),))
            fact = "the caller's list of tokens is as it was before the call"
            yield agrees(subject, subject.read(given), prompt, key="tokens", fact=fact, columns="token")

    def judge(self, answer: Answer, seen: tuple) -> Iterable[Finding]:
        """Whether the logits are right, and no more was computed than had to be."""
        fact = "the logits are those of this adapter's weights of today, for all tokens"
        about: dict[str, Any] = {"key": "logits", "fact": fact, "columns": "logit"}
        finding = agrees(self.subject, answer.got, answer.right, **about)
        if not finding.ok:  # worked out only where they are needed: there are many names
            named, n = answer.others.items(), len(answer.prompt)
            others = {f"adapter {name!r}": self.server.mixed(of, answer.prompt, [of] * n) for name, of in named}
            finding = agrees(self.subject, answer.got, answer.right, **about, others=others)
        where = f"{answer.where}, {finding.where}".rstrip(", ")
        yield finding if finding.ok else replace(finding, where=where, seen=seen)
        new, want = sum(number for _, number in answer.calls), answer.new
        fact = f"{want} token{'s' * (want != 1)} had to be computed"
        yield counts(self.subject, new, want, key="computed", fact=fact, where=answer.where, seen=seen)
        fact, calls = "compute() is called once at most", max(len(answer.calls), 1)
        yield counts(self.subject, calls, 1, key="calls", fact=fact, where=answer.where, seen=seen)


def listed(tokens: list[int]) -> str:
    """A prompt in a few letters."""
    return f"[{', '.join(map(str, tokens[:7]))}{', ..' * (len(tokens) > 7)}]"


def drawn(rng: np.random.Generator, *numbers: int) -> list[list[int]]:
    """Lists of so many tokens, all of them different, from 10 on: two digits each."""
    tokens = iter(rng.permutation(np.arange(10, 100)).tolist())
    return [[next(tokens) for _ in range(number)] for number in numbers]


@stage("prefixes", weight=2, why="A conversation grows: each of its prompts begins with the one before.")
def prefixes(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    t, u, w, x = drawn(rng, 13, 9, 11, 37)
    run = Run(subject, rng)
    yield from run.ask(("", t[:4]), ("", t[:7]), ("", t[:12]), ("", u[:5]), ("", t[:13]), ("", t[4:9]), ("", u[:8]))
    yield from run.ask(("judge", x[:2]), ("judge", x), ("judge", x[:36]))
    yield from run.ask(("poet", w[:3]), ("poet", w[:8]), ("poet", w[:8] + u[:3]), ("poet", w), ("poet", w[:5]))


@stage("whose rows", weight=2, why="The same tokens under another adapter have other rows. The server says nothing.")
def whose_rows(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    t, u, w = drawn(rng, 13, 7, 5)
    run = Run(subject, rng)
    yield from run.ask(("", t[:5]), ("poet", t[:6]), ("judge", t[:8]), ("poet", t[:9]), ("", t[:9]), ("judge", t[:9]))
    yield from run.ask(("poet", u[:3]), ("", u[:4]), ("poet-2", u[:4]), ("poet", u[:5]), ("poet-2", u), ("", u))
    yield from run.ask(("tope", t[:7]), ("stat", t[:8]), ("poet", t[:10]), ("tope", t[:9]), ("stat", t[:9]))
    yield from run.ask(("v1", w[:3]), ("judge", w[:3]), ("v1", w), ("judge", w[:4]), ("", w), ("judge", w))


@stage("uploaded anew", weight=2, why="A name says which adapter, a version which weights. Rows belong to weights.")
def uploaded_anew(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    t, u = drawn(rng, 13, 9)
    run = Run(subject, rng)
    yield from run.ask(
        ("poet", t[:5]),
        ("judge", t[:5]),
        ("", u[:3]),
        ("poet", None),
        ("poet", t[:7]),
        ("judge", t[:7]),
        ("", u[:5]),
        ("poet", t[:9]),
        ("judge", None),
        ("judge", t[:7]),
        ("poet", t[:10]),
        ("judge", t[:8]),
        ("", u[:6]),
        ("poet", None),
        ("poet", None),
        ("poet", u[:4]),
        ("poet", t[:10]),
        ("poet", u[:6]),
        ("", None),
        ("", u[:6]),
        ("poet", t[:11]),
        ("", u[:7]),
        ("judge", t[:9]),
    )


@stage("near names", why="Names and versions are texts of any kind. Only the very same two mean the same weights.")
def near_names(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    t, u = drawn(rng, 5, 5)
    run = Run(subject, rng, (*NAMES, "a", "b", *(f"a{separator}b" for separator in SEPARATORS)))
    yield from run.ask(*((name, t) for name in NAMES))
    versions = [(("poet", version), ("poet", u)) for version in VERSIONS]
    yield from run.ask(*(event for pair in versions for event in pair))
    events: list[tuple[str, Sequence[int] | str]] = []
    for separator in SEPARATORS:  # a at version b:c, and a:b at version c
        both = f"a{separator}b"
        events += [("a", f"b{separator}c"), ("a", t[:4]), (both, "c"), (both, t)]
    yield from run.ask(*events, ("a", "b"), ("a", u[:4]), ("b", "a"), ("b", u))


@stage("known already", why="A prompt that was answered before needs no token computed: its KV gives the logits again.")
def known_already(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    t, u = drawn(rng, 11, 5)
    run = Run(subject, rng)
    yield from run.ask(
        ("", t[:6]), ("", t[:6]), ("", t[:9]), ("", t[:9]), ("", t[:6]), ("poet", t[:6]), ("poet", t[:6])
    )
    yield from run.ask(("judge", u[:1]), ("judge", u[:1]), ("judge", u[:2]), ("poet", t[:9]), ("judge", u[:1]))
    many = [("stat", [int(token), int(token) + 1000]) for token in rng.permutation(np.arange(100, 900))[:MANY]]
    yield from run.ask(*many, many[0], many[1])


@stage("near misses", why="A KV fits where a prompt begins with all of its tokens, in their order, and nowhere else.")
def near_misses(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    (t,) = drawn(rng, 12)
    run = Run(subject, rng)
    swapped = [t[1], t[0], *t[2:]]
    yield from run.ask(
        ("", t[:7]),
        ("", t[:3]),
        ("", swapped[:8]),
        ("", [*t[:4], t[8], *t[5:7]]),
        ("", t[:5]),
        ("", [t[9], *t[:6]]),
        ("", [t[9], *t[1:7]]),
        ("", t[:8]),
        ("", [*t[:6], t[10], t[11]]),
        ("poet", [1, 23]),
        ("poet", [12, 3, 4]),
        ("poet", [1, 2, 3, 4]),
        ("poet", [1, 23, 4, 5]),
        ("judge", [5, 6]),
        ("judge", [6, 5, 7]),
        ("judge", [3, 8, 9]),
        ("judge", [2, 6, 1]),
        ("v1", [0, 12, 3]),
        ("v1", [0]),
        ("v1", [0, 0]),
        ("v1", [0, 0, 7]),
        ("v1", [12, 3]),
        ("v1", [7, 300]),
        ("v1", [7, 44, 5]),
        ("v1", [7, 70005]),
        ("v1", [7, 4469, 5]),
    )
    yield from run.grow("stat", t[:3], t[3:5], t[5:9])


@stage("two servers", why="Numbers of KVs are a server's own: another server's KV 0 holds something else.")
def two_servers(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    (t,) = drawn(rng, 9)
    one, other = Run(subject, rng), Run(subject, rng)
    yield from one.ask(("", t[:4]), ("poet", t[:3]))
    yield from other.ask(("", t[4:]), ("", t[:6]), ("poet", t[:4]))
    yield from one.ask(("", t[:6]), ("poet", t[:5]), ("", t[:8]))
    yield from other.ask(("poet", None), ("poet", t[:6]), ("", t[:7]))
    yield from one.ask(("poet", t[:7]))


EXERCISE = Exercise(
    id="9.5",
    name="AdapterCache",
    title="One server, many adapters",
    goal="Answer prompts for many adapters, and compute no token twice that may be reused.",
    points=5,
    minutes=20,
    difficulty=3,
    hints=(
        'Two dicts, one inside the other: first whose weights, then which tokens. What belongs to "whose weights", so '
        "that nothing wrong is ever found?",
        "The outer key is the pair `(adapter, server.version(adapter))`, asked anew for each prompt; the inner one all "
        "tokens, as a tuple. Look for the longest beginning: all tokens, then one fewer, and so on. KV 0 is a KV: ask "
        "`is None`.",
        "`made = self.kvs.setdefault((adapter, self.server.version(adapter)), {})`. `n` is the largest number with "
        "`tuple(tokens[:n]) in made`, or 0. If `n < len(tokens)`: `made[tuple(tokens)] = self.server.compute(adapter, "
        "tokens[n:], made.get(tuple(tokens[:n])))`. Then `self.server.logits(adapter, made[tuple(tokens)])`.",
    ),
    stages=(prefixes, whose_rows, uploaded_anew, near_names, known_already, near_misses, two_servers),
    reference=AdapterCache,
    mistakes=MISTAKES,
    variants=VARIANTS,
)
