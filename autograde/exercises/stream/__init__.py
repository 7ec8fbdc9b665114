"""Exercise 12.1: one request's sampling, which nobody else has a say in."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import numpy as np

from autograde.exercise import Exercise, stage
from autograde.exercises.stream.candidates import MISTAKES, VARIANTS
from autograde.exercises.stream.numbers import Numbers, right_token
from autograde.expect import counts, equals
from autograde.finding import Finding
from autograde.subject import Subject
from kvlib.stream import Stream

VOCAB = 11
Logits = Callable[[np.random.Generator], list[float]]


def logits(rng: np.random.Generator, size: int = VOCAB, spread: float = 2.0, level: float = 0.0) -> list[float]:
    """Some logits, no two of them alike."""
    return [level + float(value) for value in rng.normal(0.0, spread, size)]


def with_ties(rng: np.random.Generator) -> list[float]:
    """Logits of a few sizes, so that many are alike."""
    return [float(value) for value in rng.permutation([2.0, 2.0, 2.0, 1.0, 1.0, 1.0, 0.0, 0.0, -1.0, -1.0, -3.0])]


class Drawn:
    """One stream of the learner's, and what it has to draw."""

    def __init__(self, subject: Subject, numbers: Numbers, seed: int, temperature: float, top_k: int) -> None:
        self.subject, self.numbers, self.drawn = subject, numbers, 0
        self.seed, self.temperature, self.top_k = seed, temperature, top_k
        self.stream = subject.new(numbers.uniform, seed, temperature, top_k)

    def draw(self, rng: np.random.Generator, made: Logits = logits, told: str = "") -> Callable[[], Finding]:
        """Draws from logits for which the next number is far from all edges. What comes back is judged later."""
        u = self.numbers.at(self.seed, self.drawn)
        while (want := right_token(values := made(rng), self.temperature, self.top_k, u)) is None:
            pass
        got = self.subject.call(self.stream, "draw", list(values))
        where = f"seed {self.seed}, temperature {self.temperature:g}, top_k {self.top_k}, draw {self.drawn}{told}"
        fact = "draw() returns the first token at which the cumulated probability exceeds the request's next number"
        if self.temperature == 0:
            fact = "at temperature 0 draw() returns the best token, the lowest number of those that tie"
        else:
            self.drawn += 1
            where += f", number {u:.3f}"
        return lambda: equals(self.subject, got, want, key="token", fact=fact, what=where)

    def draws(self, rng: np.random.Generator, times: int, made: Logits = logits, told: str = "") -> Iterable[Finding]:
        """Several, all of them drawn before the first is judged: they tell more together."""
        for judged in [self.draw(rng, made, told) for _ in range(times)]:
            yield judged()


@stage("the best", why="At temperature 0 there is no luck: the best token, and of those that tie the lowest number.")
def the_best(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    numbers = Numbers(rng)
    for seed, top_k in ((5, 0), (8, 3), (0, 1)):
        stream = Drawn(subject, numbers, seed, 0, top_k)
        kinds = (
            logits,
            with_ties,
            lambda rng: logits(rng, 7, 1.0, -30.0),
            lambda rng: logits(rng, 9, 1.0, 30.0),
            logits,
        )
        for judged in [stream.draw(rng, made) for made in kinds]:
            yield judged()
    fact = "at temperature 0 no random number is asked for"
    yield counts(subject, len(numbers.calls), 0, key="unused", fact=fact)


@stage("by luck", why="Its number decides, by the probabilities in the order of token numbers.")
def by_luck(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    numbers = Numbers(rng)
    for seed, temperature in ((3, 1.0), (14, 1.5), (2, 0.5), (9, 2.5), (6, 0.125)):
        yield from Drawn(subject, numbers, seed, temperature, 0).draws(rng, 37 if seed == 14 else 11)
    yield from Drawn(subject, numbers, 21, 1.0, 0).draws(rng, 2, lambda rng: logits(rng, 29, 0.5))


@stage("of the best", why="With top_k only the best may be drawn, and their probabilities add up to 1.")
def of_the_best(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    numbers = Numbers(rng)
    kinds = ((4, 1.0, 3), (7, 2.0, 5), (11, 0.5, 2), (1, 1.5, 1), (13, 1.0, VOCAB), (5, 2.0, 97))
    for seed, temperature, top_k in kinds:
        stream = Drawn(subject, numbers, seed, temperature, top_k)
        yield from stream.draws(rng, 9, lambda rng: logits(rng, spread=1.0))
    for seed, top_k in ((17, 2), (19, 4), (23, 5), (29, 7)):
        stream = Drawn(subject, numbers, seed, 2.0, top_k)
        yield from stream.draws(rng, 13, with_ties, ", some logits alike")


@stage("nobody else", weight=2, why="Who else is served, and in which order, must not change a request's tokens.")
def nobody_else(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    numbers = Numbers(rng)
    kinds = ((3, 1.0), (31, 2.0), (8, 0), (3, 1.0))
    streams = [Drawn(subject, numbers, seed, temperature, 0) for seed, temperature in kinds]
    for judged in [streams[k].draw(rng) for k in (0, 1, 1, 2, 0, 3, 1, 3, 0, 2, 3, 3, 1, 0)]:
        yield judged()
    late = Drawn(subject, numbers, 31, 1.0, 4)
    for judged in [stream.draw(rng) for stream in (late, streams[1], late)]:
        yield judged()


@stage("large", why="Logits of some hundreds are common, and exp of 1,000 is no number.")
def large(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    numbers = Numbers(rng)
    stream, cold = Drawn(subject, numbers, 6, 1.0, 0), Drawn(subject, numbers, 7, 0.002, 3)
    for level in (2000.0, -2000.0, 90000.0, 0.0):
        kind = f", logits around {level:g}"
        yield from stream.draws(rng, 2, partial(logits, size=7, spread=1.5, level=level), kind)
    yield from stream.draws(rng, 4, lambda rng: logits(rng, 7, 900.0), ", logits far apart")
    yield from cold.draws(rng, 13, lambda rng: logits(rng, 7, 0.003, 4.0))


EXERCISE = Exercise(
    id="12.1",
    name="Stream",
    title="Luck of one's own",
    goal="Draw one request's tokens so that nobody else in the batch changes them.",
    points=4,
    minutes=20,
    difficulty=3,
    hints=(
        "Count the draws in the object: the first one uses `uniform(seed, 0)`, the next one `uniform(seed, 1)`. At "
        "temperature 0 there is nothing to draw.",
        "Find the tokens that may be drawn first: sort the numbers by `(-logit, token)` and keep the first top_k. Then "
        "go through them in the order of token numbers and add their probabilities up.",
        "`best = max(logits)`; `weights = [exp((logits[i] - best) / temperature) for i in kept]` with `kept` sorted; "
        "`u = uniform(seed, n) * sum(weights)`; go on until the sum of weights so far exceeds u.",
    ),
    stages=(the_best, by_luck, of_the_best, nobody_else, large),
    reference=Stream,
    mistakes=MISTAKES,
    variants=VARIANTS,
)
