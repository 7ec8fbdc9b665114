"""The engine that is lent: a pool of blocks without keys and values; a next token hangs on all tokens before it.

It stays in the trusted process, refuses what a real one would, and counts the work that it is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autograde.subject import Trusted

VOCAB = 997  # large, so that a wrong past hardly ever gives the right token by luck
IN_VAIN = 200  # calls in a row that make no token: nobody is waiting for anything that could still come
TOO_MANY = 2000  # calls of one run; a few hundred are plenty
PRIME = 2147483647


@dataclass(frozen=True)
class Request:
    """What is asked for, and what it takes."""

    prompt: tuple[int, ...]
    new: int

    @property
    def most(self) -> int:
        """Tokens that it stores at most: the last new one never is."""
        return len(self.prompt) + self.new - 1

    def plain(self) -> dict[str, Any]:
        """As the learner's function gets it."""
        return {"prompt": list(self.prompt), "new": self.new}


@dataclass
class Running:
    """A request that holds blocks."""

    tokens: list[int]  # all but the newest are in the pool
    state: int  # follows from those in the pool

    @property
    def stored(self) -> int:
        """Tokens in the pool."""
        return len(self.tokens) - 1


class LentEngine:
    """Runs requests; knows them by their number in the list."""

    def __init__(
        self,
        rng: np.random.Generator,
        num_blocks: int,
        block_size: int,
        sizes: Sequence[tuple],
        requests: Sequence[Request] = (),
    ) -> None:
        """sizes: prompt tokens p and new tokens n of each request. (p, n, j) has the very prompt of request j.

        requests: those of another engine, in place of sizes.
        """
        self.num_blocks, self.block_size, self.salt = num_blocks, block_size, int(rng.integers(1, PRIME))
        self.requests: list[Request] = list(requests)
        for p, n, *twin in sizes:
            prompt = tuple(int(token) for token in rng.integers(0, VOCAB, size=p))
            self.requests.append(Request(self.requests[twin[0]].prompt if twin else prompt, n))
        self.running: dict[int, Running] = {}
        self.finished: set[int] = set()  # have made all their tokens
        self.history: dict[int, list[int]] = {}  # of each that was started: its tokens, also after a stop
        self.odd: dict[int, tuple[int, int]] = {}  # started again with other tokens than it had: how many, of how many
        self.calls = self.in_vain = 0
        self.restarts = self.steps = self.refused = self.computed = self.made = self.beyond = self.idle = 0
        self.most_at_once = 0  # requests that ran beside each other
        self.news = False  # whether a request was started since the last step

    # What is lent.

    def free_blocks(self) -> int:
        """Blocks that nobody holds."""
        self._called("free_blocks()")
        return self.num_blocks - sum(self.blocks(run.stored) for run in self.running.values())

    def start(self, i: Any, tokens: Any) -> int:
        """Compute the KV of all these tokens for request i. Returns the next token."""
        self._called("start(...)")
        i, tokens = self._number(i), _token_list(tokens)
        if i in self.running:
            raise ValueError(f"request {i} is running already")
        need, free = self.blocks(len(tokens)), self._free()
        if need > free:
            raise ValueError(f"{len(tokens)} tokens need {need} blocks, {free} of {self.num_blocks} are free")
        self.restarts += i in self.history
        if i in self.history and tokens not in (self.history[i], self.history[i][:-1]):
            self.odd.setdefault(i, (len(tokens), len(self.history[i])))
        self.computed, self.news = self.computed + len(tokens), True
        self.running[i] = Running(tokens, self._state(tokens))
        self.most_at_once = max(self.most_at_once, len(self.running))
        return self._next(i)

    def step(self, ids: Any) -> list[int]:
        """Store the newest token of each. Returns the next token of each; all of them or none."""
        self._called("step(...)")
        ids = [self._number(i) for i in np.asarray(ids).tolist()] if _is_flat(ids) else _refuse_ids(ids)
        if len(set(ids)) < len(ids):
            raise ValueError(f"step takes each request once, got {ids}")
        for i in ids:
            if i not in self.running:
                raise ValueError(f"request {i} is not running")
        need, free = sum(self.running[i].stored % self.block_size == 0 for i in ids), self._free()
        if need > free:
            self.refused += 1
            raise ValueError(f"this step needs {need} more blocks, {free} of {self.num_blocks} are free")
        if not ids:
            return []
        self.steps, self.computed = self.steps + 1, self.computed + len(ids)
        self.idle += self._somebody_waits_for_nothing()
        self.news = False
        for i in ids:
            run = self.running[i]
            run.state = _mixed(run.state, run.tokens[-1])
        return [self._next(i) for i in ids]

    def stop(self, i: Any) -> None:
        """Give the blocks of request i back, and forget it."""
        self._called("stop(...)")
        i = self._number(i)
        if i not in self.running:
            raise ValueError(f"request {i} is not running")
        del self.running[i]

    def lent(self) -> Trusted:
        """This engine, as the learner's side sees it."""
        return Trusted(self, ("free_blocks", "start", "step", "stop"), ("num_blocks", "block_size"), "Engine")

    # What stages ask.

    def blocks(self, tokens: int) -> int:
        """Blocks that so many tokens take."""
        return (tokens + self.block_size - 1) // self.block_size

    def fits(self, request: Request) -> bool:
        """Whether a request can ever come to its end in this pool."""
        return request.most <= self.num_blocks * self.block_size

    def alone(self, request: Request) -> list[int]:
        """The tokens of a request that runs alone, in a pool that is large enough."""
        tokens = list(request.prompt)
        for _ in range(request.new):
            tokens.append(self._token(self._state(tokens)))
        return tokens[len(request.prompt) :]

    # How it is done.

    def _called(self, what: str) -> None:
        self.calls, self.in_vain = self.calls + 1, self.in_vain + 1
        if self.in_vain > IN_VAIN or self.calls > TOO_MANY:
            said = f"{IN_VAIN} calls in a row made no token" if self.in_vain > IN_VAIN else f"{TOO_MANY} calls"
            who = f"running: {', '.join(map(str, sorted(self.running))) or 'nobody'}"
            raise RuntimeError(f"no end in sight: {said}, the last is {what}; {who}; {self._free()} blocks are free")

    def _next(self, i: int) -> int:
        """A token is made."""
        run, request = self.running[i], self.requests[i]
        run.tokens.append(self._token(run.state))
        self.history[i] = run.tokens
        count = len(run.tokens) - len(request.prompt)  # of its new tokens, this one included
        self.beyond += count > request.new
        if count >= request.new:
            self.finished.add(i)
        self.made, self.in_vain = self.made + 1, 0
        return run.tokens[-1]

    def _somebody_waits_for_nothing(self) -> bool:
        """Whether all who wait would fit even if everybody grew as far as can be, and yet nobody was started.

        All of them: whoever is next in the learner's own order is one of them.
        """
        waiting = [r for i, r in enumerate(self.requests) if i not in self.running and i not in self.finished]
        needed = [self.blocks(request.most) for request in waiting if self.fits(request)]
        held = sum(self.blocks(self.requests[i].most) for i in self.running if i not in self.finished)
        return bool(needed) and not self.news and held + max(needed) <= self.num_blocks

    def _free(self) -> int:
        return self.num_blocks - sum(self.blocks(run.stored) for run in self.running.values())

    def _number(self, i: Any) -> int:
        if isinstance(i, bool) or not isinstance(i, int) or not 0 <= i < len(self.requests):
            raise ValueError(f"a request is known by its number, 0 to {len(self.requests) - 1}; got {str(i)[:30]}")
        return i

    def _state(self, tokens: Sequence[int]) -> int:
        state = self.salt
        for token in tokens:
            state = _mixed(state, token)
        return state

    def _token(self, state: int) -> int:
        token = state * 48271 % PRIME % VOCAB
        return token if token % 5 else token // 5 % 3  # 0, 1 and 2 come often: no token is the end, and 0 is one too


def _mixed(state: int, token: int) -> int:
    return (state * 1000003 + token + 1) % PRIME


def _is_flat(value: Any) -> bool:
    return (isinstance(value, np.ndarray) and value.ndim == 1) or isinstance(value, list)


def _refuse_ids(ids: Any) -> list[int]:
    raise ValueError(f"step takes a list of requests' numbers, got {str(ids)[:30]}")


def _token_list(tokens: Any) -> list[int]:
    if isinstance(tokens, np.ndarray):
        tokens = tokens.tolist()
    if not isinstance(tokens, list) or not tokens:
        raise ValueError(f"start takes a list of tokens, at least one; got {str(tokens)[:30]}")
    if not all(type(token) is int and 0 <= token < VOCAB for token in tokens):
        raise ValueError(f"tokens are whole numbers, 0 to {VOCAB - 1}")
    return list(tokens)
