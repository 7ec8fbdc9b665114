"""A server: requests come and go while it runs, and share a pool of blocks and the tokens of each step.

The policy, which others may choose otherwise:
- First come, first served. Nobody passes a request that waits for room.
- Whoever decodes gets its token in every step; prompts are computed in chunks, with what is left of the budget.
- A request is admitted for what it holds now, not for what it may grow to. When a step finds no blocks, the newest
  gives way, and goes on later with its prompt and all it has made. The oldest never does, so all come to an end.

Sources: Yu et al. 2022 (Orca) batch anew at each step; Agrawal et al. 2023 (SARATHI) put chunks of prompts beside
tokens that are decoded; Kwon et al. 2023 (vLLM) take memory in blocks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from kvlib.plan_step import plan_step


class Engine(Protocol):
    """A model with a pool of blocks. Refusals are `ValueError`s, and change nothing."""

    num_blocks: int
    block_size: int
    max_tokens: int

    def free_blocks(self) -> int:
        """Blocks that nobody holds, those that may be found again included."""

    def admit(self, i: int, tokens: Sequence[int]) -> int:
        """How many tokens from the start were found computed; i holds their blocks from now on."""

    def step(self, work: Sequence[Sequence[Any]]) -> list[int]:
        """Compute the next tokens of each [i, tokens]. The token that follows the last one of each."""

    def release(self, i: int) -> None:
        """Let go of all blocks of i."""


class Desk(Protocol):
    """Where requests come in, and where tokens go out."""

    def wait(self) -> list[dict[str, Any]]:
        """Events since the last call, at least one; [] when no more will ever come."""

    def news(self) -> list[dict[str, Any]]:
        """Events since the last call, perhaps none."""

    def send(self, i: int, token: int) -> None:
        """The next new token of request i."""

    def close(self, i: int, reason: str) -> None:
        """The end of request i: "done", "aborted" or "refused"."""


@dataclass(eq=False)
class Request:
    """A request that is open."""

    id: int
    tokens: list[int]  # its prompt and all that it has made
    left: int  # new tokens that are yet to be made
    stored: int = 0  # of its tokens, those whose keys and values are in the pool

    @property
    def pending(self) -> list[int]:
        """Tokens that are yet to be computed: one when it decodes, more while its prompt is not done."""
        return self.tokens[self.stored :]


def run_server(engine: Engine, desk: Desk) -> None:
    """Serve all requests that come in at the desk, until no more will come and none is open.

    engine: sizes in tokens and blocks. What it refuses when one request runs alone, a ValueError, is raised as it is.

    >>> from kvlib import request_stream
    >>> class Counting:  # no model: the next token is how many tokens it was given
    ...     num_blocks, block_size, max_tokens = 4, 2, 3
    ...     def free_blocks(self): return 4
    ...     def admit(self, i, tokens): return 0
    ...     def step(self, work): return [len(tokens) for _, tokens in work]
    ...     def release(self, i): pass
    >>> desk = request_stream.Desk([request_stream.Ask(id=1, at=0.0, prompt=(7, 8, 9, 7, 7), new=2)])
    >>> run_server(Counting(), desk)  # the prompt in chunks of 3 and 2, then one token
    >>> desk.sent, desk.closed
    ({1: [2, 1]}, {1: 'done'})
    """
    waiting: deque[Request] = deque()  # in the order of asking, but whoever gave way stands first
    running: list[Request] = []  # hold blocks; from the oldest to the newest

    def blocks(num_tokens: int) -> int:
        return -(-num_tokens // engine.block_size)

    def handle(event: dict[str, Any]) -> None:
        i = event["id"]
        if event["kind"] == "ask":
            request = Request(i, list(event["prompt"]), event["new"])
            if blocks(len(request.tokens) + request.left - 1) > engine.num_blocks:  # the last one is never stored
                desk.close(i, "refused")
            else:
                waiting.append(request)
            return
        leaving = next((request for request in [*waiting, *running] if request.id == i), None)
        if leaving is not None:  # else it was closed before its client let go
            leave(leaving, "aborted")

    def leave(request: Request, reason: str) -> None:
        if request in running:
            running.remove(request)
            engine.release(request.id)
        else:
            waiting.remove(request)
        desk.close(request.id, reason)

    def admit() -> None:
        while waiting:
            # What those who run need for the tokens they have, and for one more each: nobody starts only to give way.
            promised = sum(blocks(len(other.tokens) + 1) - blocks(other.stored) for other in running)
            if running and promised + blocks(len(waiting[0].tokens)) > engine.free_blocks():
                return
            request = waiting.popleft()
            request.stored = engine.admit(request.id, request.tokens)
            running.append(request)

    def step() -> None:
        known = {request.id: request for request in running}
        while True:
            decoding = [request.id for request in running if len(request.pending) == 1]
            prefilling = [[request.id, len(request.pending)] for request in running if len(request.pending) > 1]
            plan = plan_step(decoding, prefilling, engine.max_tokens)
            try:
                tokens = engine.step([[i, known[i].pending[:count]] for i, count in plan])
                break
            except ValueError:
                if len(running) == 1:  # it fits alone, as was worked out when it came: something else is wrong
                    raise
                request = running.pop()
                engine.release(request.id)
                request.stored = 0
                waiting.appendleft(request)
        for (i, count), token in zip(plan, tokens, strict=True):
            request = known[i]
            request.stored += count
            if not request.pending:  # else it was a chunk from the middle: what follows is known
                request.tokens.append(token)
                request.left -= 1
                desk.send(i, token)
                if request.left == 0:
                    leave(request, "done")

    while True:
        is_open = bool(waiting or running)
        events = desk.news() if is_open else desk.wait()
        if not events and not is_open:
            return
        for event in events:
            handle(event)
        admit()
        if running:
            step()
