"""Exercise 2.4: the learner writes the test, and the catalogue of mistakes grades it.

The decoders under test stay in the trusted process: the learner's test sees proxies of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from autograde.exercise import Exercise, stage
from autograde.exercises.cached_decoder import candidates as decoders
from autograde.exercises.models import CONTEXT, VOCAB, MeteredModel, small_model
from autograde.exercises.write_the_test.candidates import MISTAKES, VARIANTS, reference
from autograde.exercises.write_the_test.tricky import (
    EqualTokens,
    LoweredLogits,
    NaNLogits,
    RaisedLogit,
    RolledLogits,
    WrongAfterRefusal,
    WrongAtTheEnd,
    WrongOnce,
)
from autograde.finding import Finding, held
from autograde.subject import LearnerRaised, Subject, Trusted
from kvlib.decoder import Decoder
from kvlib.recompute import recompute_logits

RIGHT = (
    ("kept in lists", decoders.Base),
    ("kept in one array", decoders.Arrays),
    ("rounded to float32", decoders.Float32Rows),
    ("built as a generator", decoders.Closure),
)


class Tried:
    """Runs the learner's test on decoders, and words the findings."""

    def __init__(self, subject: Subject, model: Decoder) -> None:
        self.subject, self.model = subject, model
        self.bare = MeteredModel(model, metered=False)
        self.made = self.asked = 0  # decoders made, and recomputations asked for, by one run of the test
        self.known: dict[tuple[int, ...], np.ndarray] = {}  # tests ask for the same tokens again and again

    def verdict_on(self, build: Callable[[Any, int], Any]) -> Any:
        """What the learner's test says of decoders made by `build`."""

        self.made = self.asked = 0

        def make_decoder() -> Trusted:
            self.made += 1
            return Trusted(build(self.bare, CONTEXT), ("step", "reset", "__len__"), name="Decoder")

        def recompute(tokens: Sequence[int]) -> np.ndarray:
            self.asked += 1
            asked = tuple(int(token) for token in tokens)
            if not all(0 <= token < VOCAB for token in asked):
                raise ValueError(f"recompute takes tokens from 0 to {VOCAB - 1}, got {list(asked)}")
            if not 1 <= len(asked) <= CONTEXT:
                raise ValueError(f"recompute takes 1 to {CONTEXT} tokens, got {len(asked)}")
            if asked not in self.known:
                self.known[asked] = recompute_logits(self.model.weights, asked)
            return self.known[asked]

        return self.subject.run(make_decoder, recompute, VOCAB, CONTEXT)

    def accepted(self) -> Iterable[Finding]:
        """Right decoders, however they are built, must be accepted."""
        for how, build in RIGHT:
            yield self._said(self.verdict_on(build), True, f"accepted {how}", f"a right decoder, {how}, is accepted")

    def rejected(self, *wrong: tuple[str, Callable[[Any, int], Any]]) -> Iterable[Finding]:
        """Wrong decoders must be rejected; so that rejecting everything earns nothing, right ones come first."""
        yield from self.accepted()
        for fault, build in wrong:
            yield self._said(
                self._verdict_or_raised(build), False, f"rejected {fault}", f"a decoder is rejected {fault}"
            )

    def _verdict_or_raised(self, build: Callable[[Any, int], Any]) -> Any:
        """A test that raises on a wrong decoder, as an assertion does, has rejected it."""
        try:
            return self.verdict_on(build)
        except LearnerRaised as error:
            if error.is_a("NotImplementedError", "Misuse"):
                raise
            return False

    def _said(self, got: Any, want: bool, key: str, fact: str) -> Finding:
        if isinstance(got, bool) and got == want:
            return held(key, fact)
        events, used = len(self.subject.record), (self.made > 0, self.asked > 0)
        if not isinstance(got, bool):
            shown = "None: is a `return` missing?" if got is None else str(got)[:40]
            return Finding(
                False,
                "not a bool",
                "your test must return True or False",
                "",
                "a bool",
                shown,
                events=events,
                seen=used,
            )
        return Finding(False, key, f"not so: {fact}", "", str(want), str(got), events=events, seen=used)


def tried(subject: Subject, rng: np.random.Generator) -> Tried:
    """The learner's test and a fresh model of two blocks."""
    return Tried(subject, small_model(rng, num_layers=2))


@stage(
    "right ones accepted",
    why="A test that rejects float32 rounding or another design sends people after bugs that are not there.",
)
def right_ones(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    yield from tried(subject, rng).rejected(("that always answers zeros", _zeros))


@stage(
    "logits", why="A decoder can choose the right token for a while with wrong logits. Compare the logits, all of them."
)
def logits(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    yield from tried(subject, rng).rejected(
        ("with one logit too large but the best token right", RaisedLogit),
        ("with logits too small but the best token right", LoweredLogits),
        ("whose logits are in the wrong order", RolledLogits),
        ("that answers probabilities", decoders.Probabilities),
        ("that answers NaN", NaNLogits),
    )


@stage(
    "every position",
    why="A cache can be right for a while: every position must be compared, on tokens that give it away.",
)
def every_position(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    yield from tried(subject, rng).rejected(
        ("whose position is always 0", decoders.PositionZero),
        ("whose second block remembers nothing", decoders.CacheInFirstBlockOnly),
        ("whose position is the token", decoders.PositionIsToken),
        ("that is wrong at the second position only", WrongOnce),
        ("that goes wrong only when a token comes twice", EqualTokens),
        ("that goes wrong at the last position only", WrongAtTheEnd),
    )


@stage("refusals", why="A cache that takes one token too many is the bug that no comparison of right runs can show.")
def refusals(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    yield from tried(subject, rng).rejected(
        ("that drops its oldest token when it is full", decoders.SlidesWhenFull),
        ("that repeats its last answer when it is full", decoders.SilentWhenFull),
        ("that raises IndexError when it is full", decoders.NeverFull),
        ("that counts a refused token", decoders.CountsBeforeRefusing),
        ("that takes token -1", decoders.NegativeTokens),
        ("that raises IndexError past the vocabulary", decoders.LargeTokens),
        ("that moves a bad token into the vocabulary", decoders.ClampsTokens),
        ("whose logits are wrong after a refused token", WrongAfterRefusal),
    )


@stage(
    "second run", why="Caches that are right once and wrong after reset() are common, and seen only by running twice."
)
def second_run(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    yield from tried(subject, rng).rejected(
        ("whose reset() keeps the old rows", decoders.ResetLengthOnly),
        ("whose reset() empties the first block only", decoders.ResetFirstBlockOnly),
        ("whose reset() does nothing", decoders.ResetDoesNothing),
    )


def _zeros(model: Any, max_len: int) -> Any:
    class Zeros(decoders.Base):
        def step(self, token):
            return 0.0 * super().step(token)

    return Zeros(model, max_len)


EXERCISE = Exercise(
    id="2.4",
    name="accepts",
    title="Write the test",
    goal="Write the comparison that accepts every right decoder and rejects every wrong one.",
    points=5,
    minutes=25,
    difficulty=4,
    hints=(
        "Make a decoder, choose some tokens, and compare every `decoder.step(token)` with the matching row of "
        "`recompute(tokens)`. Which difference do you allow? Float32 rounding is about 1e-6; a mistake is 0.01 or "
        "more.",
        "Choose tokens that give mistakes away: fill all `max_len` positions, use a token twice in a row, "
        "and start with a token that is not 0. Then try what must be refused: one token more, -1, and `vocab_size`. "
        "After each refusal `len(decoder)` must be what it was.",
        "Write two helpers: `same(decoder, tokens)` compares a whole run, and `refused(decoder, token)` is True "
        "if `step` raises `ValueError` and the length has not changed. Then: a few tokens, bad tokens, the "
        "remaining tokens still right; one too many refused; `reset()`; a second, shorter run with other tokens.",
    ),
    stages=(right_ones, logits, every_position, refusals, second_run),
    reference=reference,
    mistakes=MISTAKES,
    variants=VARIANTS,
)
