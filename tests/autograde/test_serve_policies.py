"""Exercise 6.8 leaves the policy free: whoever goes first and whoever gives way, full marks for all of them."""

from __future__ import annotations

import random

import pytest

from autograde.exercises.serve import EXERCISE
from autograde.exercises.serve.candidates import Base, work
from autograde.judge import judge_here

VICTIMS = {
    "newest": lambda self: self.running[-1],
    "oldest": lambda self: self.running[0],
    "largest": lambda self: max(self.running, key=lambda i: len(self.tokens(i))),
    "least made": lambda self: min(self.running, key=lambda i: len(self.made[i])),
    "any": lambda self: random.Random(len(self.running)).choice(self.running),
}
ORDERS = {"first come": None, "shortest": lambda self: self.most, "last come": lambda self: lambda i: -i}
ROOM = {
    "now": lambda self, i: Base.has_room(self, i),
    "a block for each": lambda self, i: (
        not self.running or self.need(len(self.tokens(i)) + 1) + len(self.running) <= self.engine.free_blocks()
    ),
    "all": lambda self, i: sum(self.need(self.most(j)) for j in [*self.running, i]) <= self.engine.num_blocks,
}


@pytest.mark.parametrize("victim", VICTIMS)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("room", ROOM)
@pytest.mark.parametrize("at_the_end", [False, True])
@pytest.mark.parametrize("one_by_one", [False, True])
def test_any_policy_gets_full_marks(victim, order, room, at_the_end, one_by_one) -> None:

    class Policy(Base):
        def victim(self):
            return VICTIMS[victim](self)

        def has_room(self, i):
            return ROOM[room](self, i)

        def give_way(self):
            super().give_way()
            if at_the_end:
                self.waiting.append(self.waiting.pop(0))

        def admit(self):
            if ORDERS[order]:
                self.waiting.sort(key=ORDERS[order](self))
            if not one_by_one:
                super().admit()
            elif self.waiting and self.has_room(self.waiting[0]):
                self.begin(self.waiting.pop(0))
                self.leave()

    verdict = judge_here(EXERCISE, work(Policy))
    assert verdict.passed, verdict.failure
