"""How much of the memory that three layouts take holds tokens, for one stream of requests. Counts only."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

LAYOUTS = ("reserved", "padded", "paged")


@dataclass(frozen=True)
class Request:
    """A prompt of so many tokens, and so many new ones, made one a step from the step in which it arrives."""

    arrival: int
    prompt: int
    new: int

    def tokens(self, step: int) -> int:
        """Tokens held after that step: none before it arrives, and none once its last token is made."""
        made = step - self.arrival
        return self.prompt + made if 0 <= made < self.new else 0


@dataclass(frozen=True)
class Step:
    """One step: the tokens held, and the slots that each layout takes for them."""

    tokens: int
    slots: dict[str, int]


def sample_requests(count: int, seed: int = 0) -> list[Request]:
    """A made-up stream: most prompts and answers are short, some are long; one request arrives every other step."""
    rng = random.Random(seed)
    length = lambda middle: max(1, round(middle * 2 ** (4 * rng.random() - 2)))  # noqa: E731
    return [Request(2 * i, length(120), length(80)) for i in range(count)]


def layouts(requests: Sequence[Request], max_len: int, block_size: int) -> list[Step]:
    """The slots that three layouts take at every step, from the first arrival to the last token.

    reserved: max_len for each request that runs, from its start. padded: a rectangle, every row as long as the longest
    that runs. paged: whole blocks of block_size, taken when they are needed.
    Raises ValueError for a request that gets longer than max_len, and for a block_size below 1.
    """
    if block_size < 1:
        raise ValueError(f"block_size must be at least 1, got {block_size}")
    for request in requests:
        if request.prompt + request.new - 1 > max_len:
            raise ValueError(f"a request grows to {request.prompt + request.new - 1} tokens, max_len is {max_len}")
    end = max((request.arrival + request.new for request in requests), default=0)
    steps = []
    for step in range(end):
        running = [held for request in requests if (held := request.tokens(step))]
        slots = {
            "reserved": max_len * len(running),
            "padded": max(running, default=0) * len(running),
            "paged": sum(-(-held // block_size) * block_size for held in running),
        }
        steps.append(Step(sum(running), slots))
    return steps


def shares(steps: Sequence[Step]) -> dict[str, float]:
    """For each layout, the share of its slots that held a token, over all steps: 1 = nothing wasted.

    >>> steps = layouts([Request(arrival=0, prompt=3, new=2)], max_len=8, block_size=4)
    >>> [(step.tokens, step.slots["paged"]) for step in steps]
    [(3, 4), (4, 4)]
    >>> shares(steps)
    {'reserved': 0.4375, 'padded': 1.0, 'paged': 0.875}
    """
    held = sum(step.tokens for step in steps)
    return {name: held / sum(step.slots[name] for step in steps) for name in LAYOUTS} if held else {}
