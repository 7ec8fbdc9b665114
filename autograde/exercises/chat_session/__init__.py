"""Exercise 10.4: a conversation of which no token is computed twice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from autograde.exercise import Exercise, stage
from autograde.exercises.chat_session.candidates import MISTAKES, VARIANTS
from autograde.exercises.chat_session.model import ChatModel
from autograde.expect import agrees, counts, refuses
from autograde.finding import Finding, held
from autograde.subject import LearnerRaised, Subject
from kvlib.chat_session import ChatSession


@dataclass(frozen=True)
class Turn:
    """What came back for one conversation, and what the model saw."""

    got: Any
    right: np.ndarray
    others: dict[str, np.ndarray]
    pushed: int  # tokens that were computed
    needed: int  # tokens that had to be
    where: str


class Talk:
    """One session on one model."""

    def __init__(self, subject: Subject, rng: np.random.Generator, capacity: int = 200) -> None:
        self.subject, self.model = subject, ChatModel(int(rng.integers(1 << 30)), capacity)
        self.session = subject.new(self.model.lent())
        self.number = 0

    def turns(self, *conversations: Sequence[int]) -> Iterable[Finding]:
        """Several turns, judged together: one answer alone does not tell two mistakes apart."""
        turns: list[Turn] = []
        raised: LearnerRaised | None = None
        for tokens in conversations:
            try:
                turns.append(self.turn(tokens))
            except LearnerRaised as error:
                raised = error
                break
        seen = tuple(turn.pushed for turn in turns)
        for turn in turns:
            yield from self.judge(turn, seen)
        if raised is not None:
            raised.args = (f"in turn {self.number}: {raised}",)
            raise raised

    def turn(self, tokens: Sequence[int]) -> Turn:
        model, tokens = self.model, fresh(tokens)
        self.number += 1
        kept = common(model.held, tokens)
        before, others = model.pushed, {"the tokens without the last one": model.right(tokens[:-1])}
        if model.held != tokens:
            others["the conversation that was held before"] = model.right(model.held)
        where = f"turn {self.number}: {len(tokens)} tokens, the first {kept} of them held"
        if kept in (0, len(tokens)):
            where = f"turn {self.number}: {len(tokens)} tokens, {'all' if kept else 'none'} of them held"
        got = self.subject.call(self.session, "logits", tokens)
        needed = len(tokens) - min(kept, len(tokens) - 1)
        return Turn(got, model.right(tokens), others, model.pushed - before, needed, where)

    def judge(self, turn: Turn, seen: tuple[int, ...]) -> Iterable[Finding]:
        """Whether the logits are right, and no more was computed than had to be. Whoever remembers computes less."""
        fact = "the logits are those after the last token, with exactly these tokens before it"
        finding = agrees(
            self.subject, turn.got, turn.right, key="logits", fact=fact, columns="logit", others=turn.others
        )
        where = f"{turn.where}, {finding.where}".rstrip(", ")
        yield finding if finding.ok else replace(finding, where=where, seen=seen)
        if turn.pushed <= turn.needed:
            yield held("computed", "only what is new is computed")
            return
        fact = f"{turn.needed} token{'s' * (turn.needed != 1)} had to be computed"
        yield counts(self.subject, turn.pushed, turn.needed, key="computed", fact=fact, where=turn.where, seen=seen)

    def empty(self) -> Iterable[Finding]:
        """A conversation without a token."""
        before, what = len(self.model.held), "a conversation without a token"
        yield refuses(self.subject, self.session, "logits", [], key="empty", what=what)
        fact = "the model is left as it is when nothing is asked"
        yield counts(self.subject, len(self.model.held), before, key="empty, held", fact=fact, where=f"after {what}")

    def full(self, tokens: Sequence[int]) -> Iterable[Finding]:
        """A conversation that does not fit."""
        model, tokens = self.model, fresh(tokens)
        kept = common(model.held, tokens)
        what = f"a conversation of {len(tokens)} tokens, where the model has room for {model.capacity},"

        def after() -> object:  # what would be right now tells who has entered the tokens from who has not
            return self.subject.call(self.session, "logits", tokens[: model.capacity - 1])

        yield refuses(self.subject, self.session, "logits", tokens, key="full", what=what, after=after)
        fact = f"after a refusal the common beginning of {kept} tokens is still held"
        left = min(common(model.held, tokens), kept)  # whoever goes token by token may hold more
        yield counts(self.subject, left, kept, key="full, held", fact=fact, where=what.rstrip(","))


def common(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens both begin with."""
    n = 0
    while n < len(one) and n < len(other) and one[n] == other[n]:
        n += 1
    return n


def fresh(tokens: Sequence[int]) -> list[int]:
    """The same numbers as other objects, as if they came from somewhere else. `is` sees the difference."""
    return [int(str(token)) for token in tokens]


def drawn(rng: np.random.Generator, stage_number: int) -> list[int]:
    """A hundred different tokens. Those of two stages have none in common."""
    return (300 + 100 * stage_number + rng.permutation(100)).tolist()


@stage("first turn", why="Nothing is held yet: all tokens are new, and the logits after the last one are wanted.")
def first_turn(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    t = drawn(rng, 0)
    for tokens in (t[:5], t[5:6], t[6:18]):
        yield from Talk(subject, rng).turns(tokens)


@stage("next turns", weight=2, why="The conversation grows: only the tokens behind those held are computed.")
def next_turns(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    t = drawn(rng, 1)
    t[13] = 0
    yield from Talk(subject, rng).turns(*(t[:n] for n in (3, 4, 5, 10, 11, 18, 20, 21, 27)))


@stage("edits", weight=2, why="A row depends on all tokens before it: from the first difference on nothing is of use.")
def edits(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    t = drawn(rng, 2)
    a = t[:9]
    b = [*a[:5], t[20], *a[6:]]  # one token changed in the middle
    c = [*b[:7], *t[21:25]]  # another answer
    d = [*a[:3], *t[25:27]]  # shorter
    e = [*d, *t[27:31]]
    f = [e[1], e[0], *e[2:]]  # the same tokens in another order
    g = [*f[:-1], t[31]]  # only the last token
    yield from Talk(subject, rng).turns(
        a,
        b,
        c,
        a,
        d,
        e,
        f,
        g,
        [t[32], *g[:-1]],  # one token in front, the last one gone
        [1, 23, 4],
        [12, 3, 4, 5],
        [12, 3, 4, 0, 0, 7, 40],
        [12, 3, 4, 0, 0, 8, 40],
        [12, 259, 4, 0, 0, 8, 40],
        [12, 259, 5, 0, 0, 8, 40, 9],
        [12, 771, 5, 0, 0, 8, 40, 9],  # equal modulo 512, and then modulo 100
        [12, 871, 5, 0, 0, 8, 40, 9],
    )


@stage("all held already", weight=2, why="Rows that are held give no logits. One token must be computed, the last one.")
def all_held_already(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    t = drawn(rng, 3)
    numbers = (7, 7, 4, 4, 6, 8, 8, 9, 3, 5, 5, 1, 1, 2)
    yield from Talk(subject, rng).turns(*(t[:n] for n in numbers), t[50:51], t[50:51], t[50:53])


@stage("refusals", weight=2, why="A refusal is no end: the user makes the message shorter and goes on.")
def refusals(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    t = drawn(rng, 4)
    talk = Talk(subject, rng, capacity=13)
    yield from talk.turns(t[:5], t[:7])
    yield from talk.empty()
    yield from talk.turns(t[:8])
    yield from talk.full(t[:14])
    yield from talk.turns(t[:8] + t[30:32], t[:10], t[:13])
    yield from talk.full(t[:6] + t[20:31])  # cut to 6, and then there is no room
    yield from talk.turns(t[:9], t[:6] + t[20:25])
    talk = Talk(subject, rng, capacity=3)
    yield from talk.empty()
    yield from talk.full(t[40:44])
    yield from talk.turns(t[40:43], t[40:42], t[41:43])


@stage("two sessions", why="Two conversations, two models: what one of them holds the other does not.")
def two_sessions(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    t = drawn(rng, 5)
    one, other = Talk(subject, rng), Talk(subject, rng)
    yield from one.turns(t[:4])
    yield from other.turns(t[:6])
    yield from one.turns(t[:7], t[:2] + t[8:10])
    yield from other.turns(t[:6] + t[9:12], t[:7])
    yield from one.turns(t[:9])


@stage("the work", why="A long talk with edits, near and far: no turn may cost more than its new tokens.")
def the_work(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    t = drawn(rng, 6)
    tokens, turns = t[:70], [t[:70]]
    for cut, new in ((0, 3), (0, 1), (2, 5), (45, 40), (0, 30), *rng.integers([0, 1], [9, 7], size=(19, 2)).tolist()):
        tokens = tokens[: len(tokens) - cut] + [int(token) for token in rng.choice(t, size=new)]
        turns.append(tokens)
    tokens = [*tokens[:11], 1, *tokens[12:]]  # one token near the start, and all behind it is as it was
    turns += [tokens, [*tokens, 2, 3]]
    yield from Talk(subject, rng).turns(*turns)


EXERCISE = Exercise(
    id="10.4",
    name="ChatSession",
    title="No token twice",
    goal="Take the whole conversation at every turn, and compute only what the model does not hold.",
    points=5,
    minutes=20,
    difficulty=3,
    hints=(
        "The session has to know which tokens the model holds: the model tells only how many. Then there are three "
        "parts: what both begin with, what has to go, what has to come.",
        "Count `n` up while both lists have a token `n` and it is the same, but stop before the last token asked for. "
        "Cut to `n`, both the model and your own list, before you extend: `extend` may refuse.",
        "`tokens = list(tokens)`; no tokens: `raise ValueError`. `n = 0`, and `n += 1` while `n < len(self.held)` and "
        "`n < len(tokens) - 1` and `self.held[n] == tokens[n]`. `self.model.truncate(n)`; `del self.held[n:]`; "
        "`logits = self.model.extend(tokens[n:])`; only now `self.held = tokens`.",
    ),
    stages=(first_turn, next_turns, edits, all_held_already, refusals, two_sessions, the_work),
    reference=ChatSession,
    mistakes=MISTAKES,
    variants=VARIANTS,
)
