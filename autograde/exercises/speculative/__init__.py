"""Exercise 5.8: one round of speculative decoding."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from autograde.compare import shown
from autograde.exercise import Exercise, stage
from autograde.exercises.positions import named_when
from autograde.exercises.speculative.candidates import MISTAKES, VARIANTS
from autograde.exercises.speculative.models import LentModel, Pair
from autograde.expect import counts
from autograde.finding import Finding, held
from autograde.lazy import Later
from autograde.subject import Subject
from autograde.value import holds_only_numbers


class Rounds:
    """Rounds with one pair of models, each judged by its tokens and by what the caches hold after it."""

    def __init__(
        self, subject: Subject, rng: np.random.Generator, prompt: int, wrong_at: Iterable[int], **kind: bool
    ) -> None:
        self.subject, self.pair = subject, Pair(rng, prompt, wrong_at, **kind)
        self.tokens, self.number = self.pair.prompt, 0
        self.target, self.draft = self.pair.target.lent("Target"), self.pair.draft.lent("Draft")

    def go(self, num_drafts: int) -> Iterable[Finding]:
        """One round."""
        before = len(self.tokens)
        self.number += 1
        new, accepted = self.pair.after(self.tokens, num_drafts)
        where = f"round {self.number}, {accepted} of {num_drafts} drafts accepted"
        with named_when(f"in {where}"):
            got = self.subject.run(self.target, self.draft, self.tokens, num_drafts)
        self.tokens = new
        yield self.returned(got, before, where)
        yield self.holds("target", self.pair.target, len(new) - 1, len(new) - 1, where)
        # At least the right rows that drafting has made; the last draft's own row is made by who likes to.
        least = before + min(accepted, num_drafts - 1)
        yield self.holds("draft", self.pair.draft, least, len(new) - 1, where)

    def returned(self, got: Any, before: int, where: str) -> Finding:
        """Whether the list is the tokens so far, the accepted drafts and the target's next token."""
        fact, tokens = (
            "the round returns all tokens so far, the accepted drafts, and one of the target's own",
            as_tokens(got),
        )
        if tokens == self.tokens:
            return held("tokens", fact)
        wanted = f"... and then {self.tokens[before:]}"
        given = shown(got) if tokens is None else f"{tokens}"
        if tokens is not None and tokens[:before] == self.tokens[:before]:
            given = f"... and then {tokens[before:]}"
        events = len(self.subject.record)
        return Finding(
            False, "tokens", fact, where=where, expected=wanted, got=given[:90], events=events, seen=self.state()
        )

    def holds(self, name: str, model: LentModel, least: int, most: int, where: str) -> Finding:
        """Whether a cache holds a beginning of the new tokens, neither too long nor too short."""
        rows = model.rows
        fact = f"afterwards the {name}'s cache holds the right rows, and no others"
        if least <= len(rows) <= most and rows == self.tokens[: len(rows)]:
            return held(name, fact)
        right = 0
        while right < min(len(rows), most) and rows[right] == self.tokens[right]:
            right += 1
        wanted = f"{least} rows" if least == most else f"{least} or {most} rows"
        given, events = f"{len(rows)} rows, of which the first {right} are right", len(self.subject.record)
        fact = f"does not hold: {fact}"
        return Finding(False, name, fact, where=where, expected=wanted, got=given, events=events, seen=self.state())

    def state(self) -> tuple[tuple[int, ...], ...]:
        """What both caches hold: no reply shows it."""
        return tuple(self.pair.target.rows), tuple(self.pair.draft.rows)


def as_tokens(value: Any) -> list[int] | None:
    """A list of whole numbers, however it came; None for anything else."""
    if isinstance(value, np.ndarray) and value.ndim == 1:
        value = value.tolist()
    if not isinstance(value, list) or not holds_only_numbers(value) or any(isinstance(item, list) for item in value):
        return None
    try:
        array = np.asarray([np.asarray(item).item() for item in value])
    except (ValueError, TypeError):
        return None
    return array.tolist() if array.dtype.kind in "iu" else None


def one_round(
    subject: Subject, rng: np.random.Generator, prompt: int, num_drafts: int, wrong: Sequence[int], **kind: bool
) -> Iterable[Finding]:
    """A fresh pair and one round; `wrong`: the drafts that the target does not choose, 0 for the first."""
    yield from Rounds(subject, rng, prompt, [prompt + i for i in wrong], **kind).go(num_drafts)


@stage("none accepted", why="The first draft is wrong: what remains is the target's own token, and rows to throw away.")
def none_accepted(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    yield from one_round(subject, rng, 5, 3, (0, 1, 2, 3))
    yield from one_round(subject, rng, 2, 4, (0, 1, 2, 3, 4))


@stage("some accepted", why="Drafts behind a wrong one were checked against a wrong past, so agreeing means nothing.")
def some_accepted(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for wrong in ((1,), (2, 3), (3,), (0,)):
        yield from one_round(subject, rng, 5, 4, wrong)
    for wrong in ((2,), (1,), (3,), (2,)):
        yield from one_round(subject, rng, 5, 4, wrong, repeats=True)
    yield from one_round(subject, rng, 1, 2, (1,))
    yield from one_round(subject, rng, 4, 9, (7,))


@stage("all accepted", why="The target has then chosen one token more than there were drafts, for nothing.")
def all_accepted(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    yield from one_round(subject, rng, 5, 3, (3,))
    yield from one_round(subject, rng, 3, 1, ())


@stage("round after round", weight=2, why="A stale or a missing row shows in the next round, in logits that are wrong.")
def round_after_round(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    rounds = Rounds(subject, rng, 5, (9, 12, 13, 23, 24, 30))
    for num_drafts in (3, 3, 2, 4, 1, 5, 2, 3, 4):
        yield from rounds.go(num_drafts)


@stage("work", why="One pass of the target for the whole round is what makes speculation pay.")
def work(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    rounds = Rounds(subject, rng, 11, (13, 20, 21))
    for num_drafts in (4, 3, 3, 2, 1, 3):
        rounds.pair.target.sizes.clear()
        rounds.pair.draft.sizes.clear()
        lag = len(rounds.tokens) - len(rounds.pair.draft)
        yield from rounds.go(num_drafts)
        target, draft, where = rounds.pair.target.sizes, rounds.pair.draft.sizes, f"round {rounds.number}"
        fact = f"the target makes one pass, over the last token and {num_drafts} drafts"
        seen = (*target, -1, *draft)
        yield counts(subject, len(target), 1, key="passes", fact=fact, where=where, seen=seen)
        yield counts(subject, sum(target), num_drafts + 1, key="positions", fact=fact, where=where, seen=seen)
        most = lag + num_drafts  # all that it lacks, and each of its drafts once
        fact = f"no more than {most} tokens go through the draft model: what it lacks, and its own drafts"
        yield counts(subject, max(sum(draft), most), most, key="drafting", fact=fact, where=where, seen=seen)
        fact = "no right row is pushed a second time through the draft model"
        yield counts(subject, rounds.pair.draft.again, 0, key="again", fact=fact, where=where, seen=seen)


EXERCISE = Exercise(
    id="5.8",
    name="speculative_round",
    title="Draft, verify, roll back",
    goal="Write several tokens with one pass of the target, and leave no row of a rejected draft behind.",
    points=6,
    minutes=25,
    difficulty=4,
    hints=(
        "With n tokens so far, both caches hold n - 1 rows: the last token gets its row when it is pushed. So the "
        "draft model is pushed `tokens[len(draft):]` first, then each of its own drafts but the last.",
        "The target is pushed `[tokens[-1], *drafts]` in one pass; row i of its logits chooses the token that draft i "
        "must be. Count from the front, stop at the first that differs. Row `accepted` gives the target's own token.",
        "`new = tokens + drafts[:accepted] + [chosen[accepted]]`. The last of `new` has no row yet: "
        "`target.truncate(len(new) - 1)`. The draft model may hold one fewer, when all were accepted: "
        "`draft.truncate(min(len(draft), len(new) - 1))`.",
    ),
    stages=(none_accepted, some_accepted, all_accepted, round_after_round, work),
    reference=Later("kvlib.speculative", "speculative_round"),
    mistakes=MISTAKES,
    variants=VARIANTS,
    tensors=True,
)
