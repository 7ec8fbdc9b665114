"""Exercise 12.3 leaves the policy free: full marks for whoever keeps the rules that its text states."""

from __future__ import annotations

import itertools
import random

import pytest

from autograde.exercises.run_server import EXERCISE
from autograde.exercises.run_server.candidates import Base, work
from autograde.judge import judge_here

VICTIMS = {
    "newest": lambda self: self.running[-1],
    "oldest": lambda self: self.running[0],
    "largest": lambda self: max(self.running, key=lambda request: request.stored),
    "least made": lambda self: min(self.running, key=lambda request: len(request.made)),
    "any": lambda self: random.Random(len(self.running)).choice(self.running),
}
ROOM = {
    "now": lambda self, request: Base.has_room(self, request),
    "a block for each": lambda self, request: (
        self.promised() + len(self.running) + self.need(len(request.tokens)) <= self.engine.free_blocks()
    ),
    "all": lambda self, request: (
        sum(self.need(self.most(other)) for other in [*self.running, request]) <= self.engine.num_blocks
    ),
    "always": lambda self, request: True,
    "a block": lambda self, request: self.engine.free_blocks() > 0,
}
CHUNKS = {
    "what is left": lambda self, request, left: request.pending[:left],
    "two blocks": lambda self, request, left: request.pending[: min(left, 2 * self.engine.block_size)],
    "half a budget": lambda self, request, left: request.pending[: min(left, max(1, self.engine.max_tokens // 2))],
}


def in_turns(prompt_steps, decode_steps):
    """Never mixes: so many steps of prompts, so many of decoding."""

    def order(self):
        decoding = [request for request in self.running if request.decodes]
        prompts = [request for request in self.running if not request.decodes]
        self.turn = (getattr(self, "turn", -1) + 1) % (prompt_steps + decode_steps)
        if prompts and decoding:
            return prompts if self.turn < prompt_steps else decoding
        return prompts or decoding

    return order


ORDERS = {
    "decoding first": Base.order,
    "by age": lambda self: self.running,
    "the newest first": lambda self: sorted(self.running[::-1], key=lambda request: not request.decodes),
    "1 and 1": in_turns(1, 1),
    "3 and 1": in_turns(3, 1),
    "1 and 2": in_turns(1, 2),
}


def policy(victims, orders, rooms, chunks, further_back):
    """A server that decides like this."""

    class Policy(Base):
        def victim(self):
            return victims(self)

        def order(self):
            return orders(self)

        def chunk(self, request, left):
            return chunks(self, request, left)

        def has_room(self, request):
            return rooms(self, request)

        def pause(self, request):
            super().pause(request)
            if further_back:  # behind four others, not behind all: eight later ones may be done before its next token
                self.waiting.insert(4, self.waiting.pop(0))

    return work(Policy)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("victim", VICTIMS)
def test_any_policy_gets_full_marks(victim, order) -> None:
    # Whoever admits on hope has to spare somebody: with other victims two may throw each other out for ever.
    rooms = ROOM if victim == "newest" else ("now", "a block for each", "all")
    every = list(itertools.product(rooms, CHUNKS, (False, True)))
    # Nor may it be put back each time: it is thrown out again and again, and others pass.
    every = [(room, chunk, back) for room, chunk, back in every if not back or room not in ("always", "a block")]
    for room, chunk, further_back in random.Random(f"{victim} {order}").sample(every, 4):
        server = policy(VICTIMS[victim], ORDERS[order], ROOM[room], CHUNKS[chunk], further_back)
        verdict = judge_here(EXERCISE, server)
        assert verdict.passed, (room, chunk, further_back, verdict.failure)


def test_whoever_gives_way_must_not_wait_behind_all() -> None:
    """With sixteen that wait, the back is too far: the text allows eight."""

    class ToTheBack(Base):
        def pause(self, request):
            super().pause(request)
            self.waiting.append(self.waiting.pop(0))

    verdict = judge_here(EXERCISE, work(ToTheBack))
    assert (verdict.failure.stage.name, verdict.failure.finding.key) == ("small pool", "overtaken")


def test_news_at_every_fourth_step() -> None:
    """The bound itself is allowed."""

    class Seldom(Base):
        turn = 0

        def listen(self):
            self.turn += 1
            return super().listen() if self.is_idle() or self.turn % 4 == 0 else []

    assert judge_here(EXERCISE, work(Seldom)).passed


def test_the_fourth_step_is_the_last_one() -> None:
    """In a row of five steps of prompts somebody is left out for too long."""

    class TooLong(Base):
        def order(self):
            return ORDER(self)

    ORDER = in_turns(4, 1)
    assert judge_here(EXERCISE, work(TooLong)).passed
    ORDER = in_turns(5, 1)
    verdict = judge_here(EXERCISE, work(TooLong))
    assert verdict.failure.stage.name == "mixed"
    assert verdict.failure.finding.key == "starved"


def test_whoever_closes_and_releases_a_little_later() -> None:
    """Blocks may go back and ends be told in the round after the last token."""

    class Later(Base):
        def leave(self):
            pass

        def admit(self):
            Base.leave(self)
            super().admit()

        def plan(self):
            return [(request, tokens) for request, tokens in super().plan() if not self.done(request)]

        def listen(self):
            if not self.waiting and all(self.done(request) for request in self.running):
                Base.leave(self)
            return super().listen()

    assert judge_here(EXERCISE, work(Later)).passed


def test_resuming_with_the_prompt_looked_up_alone() -> None:
    """Less may be found; it is right all the same."""

    class PromptOnly(Base):
        def begin(self, request):
            request.stored = self.engine.admit(request.id, request.prompt)
            self.running.append(request)

    assert judge_here(EXERCISE, work(PromptOnly)).passed


def test_what_is_returned_is_not_looked_at() -> None:
    def run_server(engine, desk):
        Base(engine, desk).run()
        return {"anything": [1, 2]}

    assert judge_here(EXERCISE, run_server).passed
