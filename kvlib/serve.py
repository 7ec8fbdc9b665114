"""Continuous batching over a pool of blocks: who runs, who waits, and who has to give way when the pool is full.

Requests are admitted on what they hold now, not on what they may grow to, so the pool is well filled. The price: one
day a step does not fit. Then the newest request is stopped. It starts again later with its prompt and all tokens that
it has made so far, so nothing is lost but the work of computing their KV once more.

Sources: Yu et al. 2022 (Orca), who batch anew at each step; Kwon et al. 2023 (vLLM), for blocks and for giving way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol

from kvlib.block_allocator import blocks_needed


class ServingEngine(Protocol):
    """What a scheduler asks of a model with a pool of blocks. Refusals are `ValueError`s, and change nothing."""

    num_blocks: int
    block_size: int

    def free_blocks(self) -> int:
        """Blocks that nobody holds."""

    def start(self, i: int, tokens: Sequence[int]) -> int:
        """Compute the KV of all these tokens for request i, in ceil(len / block_size) blocks; the next token."""

    def step(self, ids: Sequence[int]) -> list[int]:
        """Store the newest token of each; the next token of each, in the order of ids. All of them or none."""

    def stop(self, i: int) -> None:
        """Give the blocks of request i back, and forget it."""


def serve(engine: ServingEngine, requests: Sequence[dict[str, Any]]) -> list[list[int] | None]:
    """The `new` tokens of each request, in the order of requests; None for one that can never fit.

    requests: {"prompt": list of at least one token, "new": n of at least 1} each. A request of p prompt tokens stores
    p + n - 1 of them at most: its last new token is never pushed through. The oldest request that is not finished is
    never stopped, so it gets on with every step, and all come to an end.
    Raises ValueError for an empty prompt or a `new` below 1, before anything is started. What an engine refuses when
    nobody else runs, as one does whose blocks somebody else holds, is raised as it is.

    >>> class Counting:  # no model: the next token is how many tokens it holds
    ...     num_blocks, block_size, held = 4, 2, {}
    ...     def free_blocks(self): return 4 - sum(-(-n // 2) for n in self.held.values())
    ...     def start(self, i, tokens): return self.held.setdefault(i, len(tokens))
    ...     def step(self, ids): return [self.held.update({i: self.held[i] + 1}) or self.held[i] for i in ids]
    ...     def stop(self, i): del self.held[i]
    >>> serve(Counting(), [{"prompt": [7, 7, 7], "new": 2}, {"prompt": [7] * 9, "new": 1}])
    [[3, 4], None]
    """
    made: list[list[int]] = [[] for _ in requests]
    fits = [blocks_needed(_most(request), engine.block_size) <= engine.num_blocks for request in requests]
    waiting = deque(i for i, fit in enumerate(fits) if fit)
    running: list[int] = []  # from the oldest to the newest, all of them older than those that wait

    def take(i: int, token: int) -> bool:
        """Keep a token; whether the request goes on."""
        made[i].append(token)
        goes_on = len(made[i]) < requests[i]["new"]
        if not goes_on:
            engine.stop(i)
        return goes_on

    while waiting or running:
        while waiting:
            tokens = [*requests[waiting[0]]["prompt"], *made[waiting[0]]]
            # One block more for each that runs: who starts now is not to be stopped at the next step already.
            wanted = blocks_needed(len(tokens), engine.block_size) + len(running)
            if running and wanted > engine.free_blocks():
                break
            i = waiting.popleft()
            if take(i, engine.start(i, tokens)):
                running.append(i)
        while running:
            try:
                new_tokens = engine.step(running)
            except ValueError:
                if len(running) == 1:  # it fits alone, as was worked out above: something else is wrong
                    raise
                waiting.appendleft(running.pop())
                engine.stop(waiting[0])
            else:
                running = [i for i, token in zip(running, new_tokens, strict=True) if take(i, token)]
                break
    return [made[i] if fit else None for i, fit in enumerate(fits)]


def _most(request: dict[str, Any]) -> int:
    """The most tokens that a request ever stores."""
    p, n = len(request["prompt"]), request["new"]
    if p < 1 or n < 1:
        raise ValueError(f"a request needs a prompt token and a new one at least, got {p} and {n}")
    return p + n - 1
