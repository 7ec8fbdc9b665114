"""Exercise 2.4: the learner writes the test, and the catalogue of mistakes grades it.

The decoders under test stay in the trusted process: the learner's test sees proxies of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from autograde.exercise import Exercise, stage
from autograde.exercises.cached_decoder import candidates as decoders
from autograde.exercises.models import CONTEXT, VOCAB, MeteredModel, small_model
from autograde.exercises.write_the_test.candidates import MISTAKES, VARIANTS, reference
from autograde.exercises.write_the_test.tricky import (
    CountsBadTokens,
    DropsZero,
    EqualTokens,
    LoweredLogits,
    NaNLogits,
    NoLimitAfterReset,
    RaisedLogit,
    RolledLogits,
    TypeErrorWhenFull,
    WrongAfterRefusal,
    WrongAtTheEnd,
    WrongLogit,
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


class Watched:
    """A decoder under test: gives logits as arrays of shape (vocab_size,), and counts what the test tries."""

    def __init__(self, decoder: Any, calls: Counter[str]) -> None:
        self.decoder, self.calls = decoder, calls

    def __len__(self) -> int:
        return len(self.decoder)

    def step(self, token: int) -> np.ndarray:
        """The logits, whatever the decoder's own layout is."""
        self.calls["step"] += 1
        self.calls["full"] += len(self.decoder) >= CONTEXT
        self.calls["bad"] += not 0 <= token < VOCAB
        self.calls["-1"] += token < 0
        self.calls["V"] += token == VOCAB
        return np.asarray(self.decoder.step(token), dtype=np.float64).reshape(-1)

    def reset(self) -> None:
        """Start again."""
        self.calls["reset"] += 1
        self.decoder.reset()


class Tried:
    """Runs the learner's test on decoders, and words the findings."""

    def __init__(self, subject: Subject, model: Decoder) -> None:
        self.subject, self.model = subject, model
        self.bare = MeteredModel(model, metered=False)
        self.calls: Counter[str] = Counter()  # what one run of the learner's test does
        self.known: dict[tuple[int, ...], np.ndarray] = {}  # tests ask for the same tokens again and again

    def verdict_on(self, build: Callable[[Any, int], Any]) -> Any:
        """What the learner's test says of decoders made by `build`."""

        self.calls = Counter()

        def make_decoder() -> Trusted:
            self.calls["made"] += 1
            decoder = Watched(build(self.bare, CONTEXT), self.calls)
            return Trusted(decoder, ("step", "reset", "__len__"), name="Decoder")

        def recompute(tokens: Sequence[int]) -> np.ndarray:
            self.calls["recomputed"] += 1
            asked = tuple(int(token) for token in _listed(tokens))
            if not all(0 <= token < VOCAB for token in asked):
                raise ValueError(f"recompute takes tokens from 0 to {VOCAB - 1}, got {list(asked)}")
            if not 1 <= len(asked) <= CONTEXT:
                raise ValueError(f"recompute takes 1 to {CONTEXT} tokens, got {len(asked)}")
            if asked not in self.known:
                self.known[asked] = recompute_logits(self.model.weights, asked)
            return self.known[asked]

        return self.subject.run(make_decoder, recompute, VOCAB, CONTEXT)

    def told_apart(self, rng: np.random.Generator, *wrong: tuple[str, Callable[[Any, int], Any]]) -> Iterable[Finding]:
        """Right decoders must be accepted and wrong ones rejected. They come shuffled: no fixed list fits."""
        right = [(how, build, True) for how, build in RIGHT]
        candidates = [*right, *((fault, build, False) for fault, build in wrong)]
        for i in rng.permutation(len(candidates)):
            what, build, want = candidates[i]
            if want:
                fact = f"a right decoder ({what}) is accepted"
                yield self._said(self.verdict_on(build), True, f"accepted {what}", fact)
            else:
                fact = f"a decoder {what} is rejected"
                yield self._said(self._verdict_or_raised(build), False, f"rejected {what}", fact)

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
        events = len(self.subject.record)
        used = tuple(self.calls[what] > 0 for what in ("made", "recomputed", "step", "reset", "bad", "-1", "V", "full"))
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
        return Finding(False, key, f"does not hold: {fact}", "", str(want), str(got), events=events, seen=used)


def _listed(tokens: Any) -> list:
    if not isinstance(tokens, list | np.ndarray):
        raise TypeError("recompute takes a list of tokens")
    return list(tokens)


def tried(subject: Subject, rng: np.random.Generator) -> Tried:
    """The learner's test and a fresh model of two blocks."""
    return Tried(subject, small_model(rng, num_layers=2))


@stage(
    "right ones accepted",
    why="A test that rejects float32 rounding or another design sends people after bugs that are not there.",
)
def right_ones(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    yield from tried(subject, rng).told_apart(rng, ("that always answers zeros", _zeros))


@stage(
    "logits", why="A decoder can choose the right token for a while with wrong logits. Compare the logits, all of them."
)
def logits(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    yield from tried(subject, rng).told_apart(
        rng,
        ("with one logit too large but the best token right", RaisedLogit),
        ("with logits too small but the best token right", LoweredLogits),
        ("whose logits are in the wrong order", RolledLogits),
        ("that answers probabilities", decoders.Probabilities),
        ("that answers NaN", NaNLogits),
        ("with one wrong logit, the first", WrongLogit.of(0)),
        ("with one wrong logit, the last", WrongLogit.of(VOCAB - 1)),
        ("with one wrong logit, in the middle", WrongLogit.of(VOCAB // 2)),
    )


@stage(
    "every position",
    why="A cache can be right for a while: every position must be compared, on tokens that give it away.",
)
def every_position(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    yield from tried(subject, rng).told_apart(
        rng,
        ("whose position is always 0", decoders.PositionZero),
        ("whose second block remembers nothing", decoders.CacheInFirstBlockOnly),
        ("whose position is the token", decoders.PositionIsToken),
        ("that is wrong at the second position only", WrongOnce),
        ("that goes wrong only when a token comes twice", EqualTokens),
        ("that goes wrong at the last position only", WrongAtTheEnd),
        ("that drops token 0", DropsZero),
    )


@stage("refusals", why="A cache that takes one token too many is the bug that no comparison of right runs can show.")
def refusals(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    yield from tried(subject, rng).told_apart(
        rng,
        ("that drops its oldest token when it is full", decoders.SlidesWhenFull),
        ("that repeats its last answer when it is full", decoders.SilentWhenFull),
        ("that raises IndexError when it is full", decoders.NeverFull),
        ("that counts a refused token", decoders.CountsBeforeRefusing),
        ("that takes token -1", decoders.NegativeTokens),
        ("that raises IndexError past the vocabulary", decoders.LargeTokens),
        ("that moves a bad token into the vocabulary", decoders.ClampsTokens),
        ("that counts a refused bad token", CountsBadTokens),
        ("that raises TypeError when it is full", TypeErrorWhenFull),
        ("whose logits are wrong after a refused token", WrongAfterRefusal),
    )


@stage(
    "second run", why="Caches that are right once and wrong after reset() are common, and seen only by running twice."
)
def second_run(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    yield from tried(subject, rng).told_apart(
        rng,
        ("whose reset() keeps the old rows", decoders.ResetLengthOnly),
        ("whose reset() empties the first block only", decoders.ResetFirstBlockOnly),
        ("whose reset() does nothing", decoders.ResetDoesNothing),
        ("that has no limit after reset()", NoLimitAfterReset),
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
