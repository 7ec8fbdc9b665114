"""The engine that is lent: a pool of blocks without keys and values; a next token hangs on all tokens before it.

It refuses what a real one would, finds again what was computed, and counts the work that it is asked for.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from autograde.exercises.run_server.given import first_other, token_list
from autograde.exercises.run_server.rules import Held, look_at_the_gone, watch
from autograde.exercises.run_server.world import Client, World
from autograde.subject import Trusted


class LentEngine:
    """Admits, steps and releases requests, which it knows by the desk's ids."""

    def __init__(self, world: World, look: Any) -> None:
        """look() is called after each step."""
        self.world, self.look = world, look
        self.num_blocks, self.block_size, self.max_tokens = world.num_blocks, world.block_size, world.max_tokens
        self.held: dict[int, Held] = {}
        self.holders = [0] * self.num_blocks
        self.free = list(range(self.num_blocks))  # the longest free one first
        self.content: list[int] = [0] * self.num_blocks  # the state at the end of a full block; 0: nothing to be found
        self.known: dict[int, set[int]] = {}  # the blocks of a state

    def lent(self) -> Trusted:
        """This engine, as the learner's side sees it."""
        methods = ("free_blocks", "admit", "step", "release")
        return Trusted(self, methods, ("num_blocks", "block_size", "max_tokens"), "Engine")

    # What is lent.

    def free_blocks(self) -> int:
        """Blocks that nobody holds."""
        self.world.called("free_blocks()")
        return len(self.free)

    def admit(self, i: Any, tokens: Any) -> int:
        """Hold what is known of the start of these tokens. How many they are."""
        world = self.world
        world.called(f"admit({str(i)[:9]}, ..)")
        client, tokens = self._client(i), token_list(tokens, "admit")
        if i in self.held:
            raise ValueError(f"request {i} is admitted already")
        table, state = [], world.salt
        for end in range(self.block_size, len(tokens), self.block_size):  # one token is left at least
            after = world.state(tokens[end - self.block_size : end], state)
            if not self.known.get(after):
                break
            table.append(max(self.known[after], key=lambda block: (self.holders[block] > 0, block)))
            state = after
        for block in table:
            if self.holders[block] == 0:
                self.free.remove(block)
            self.holders[block] += 1
        found = len(table) * self.block_size
        world.found += found
        goal = len(client.prompt) + max(client.made - 1, 0)
        self.held[i] = Held(client, table, found, state, goal)
        world.log.append(["admit", i, len(tokens), found])
        if tokens[:found] != (client.prompt + client.want)[:found]:
            client.odd = client.odd or first_other(client, 0, tokens[:found])
        return found

    def step(self, work: Any) -> list[int]:
        """Compute the next tokens of each. The token that follows the last one of each; all of them or none."""
        world = self.world
        world.called("step(..)")
        entries = self._entries(work)
        total = sum(len(tokens) for _, tokens in entries)
        world.refusal = ""
        if total > self.max_tokens:
            world.refusal = f"this step has {total} tokens, max_tokens is {self.max_tokens}"
            fact = "does not hold: a step is given at most max_tokens tokens, all requests together"
            where, said = f"step {world.steps + 1}", f"{self.max_tokens} at most"
            world.fault("over budget", fact, where, said, f"{total} tokens", total, len(entries))
        need = sum(world.blocks(held.stored + len(tokens)) - len(held.table) for held, tokens in entries)
        if not world.refusal and need > len(self.free):
            free = f"{len(self.free)} of {self.num_blocks} are free"
            world.refusal = f"this step needs {need} more blocks, {free}"
        if world.refusal:
            raise ValueError(world.refusal)
        if not entries:
            return []
        world.clock, world.steps, world.computed = world.clock + 1, world.steps + 1, world.computed + total
        world.in_vain, world.no_gain = 0, world.no_gain + 1
        world.log.append(["step", *([held.client.id, len(tokens)] for held, tokens in entries)])
        watch(world, self.held, [held for held, _ in entries], total)
        made = [self._compute(held, tokens) for held, tokens in entries]
        world.arrive()
        self.look()
        look_at_the_gone(world, self.held)
        return made

    def release(self, i: Any) -> None:
        """Let go of the blocks of request i. What is in them can be found until they are given out."""
        world = self.world
        world.called(f"release({str(i)[:9]})")
        client = self._client(i)
        if i not in self.held:
            raise ValueError(f"request {i} is not admitted")
        for block in reversed(self.held.pop(i).table):
            self.holders[block] -= 1
            if self.holders[block] == 0:
                self.free.append(block)
        world.log.append(["release", i])
        if client.is_open and client.let_go < 0 and client.stored and len(client.sent) < client.ask.n:
            world.preempted += 1
            if client.ask.abort_released and client.made < client.ask.n:
                world.happen("abort", client)

    # How it is done.

    def _compute(self, held: Held, tokens: list[int]) -> int:
        """Store tokens, and make the next one."""
        world, client, size = self.world, held.client, self.block_size
        start, end = held.stored, held.stored + len(tokens)
        while len(held.table) < world.blocks(end):
            held.table.append(self._given_out())
        if tokens != (client.prompt + client.want)[start:end]:
            client.odd = client.odd or first_other(client, start, tokens)
        position = start
        while position < end:
            stop = min(end, (position // size + 1) * size)
            held.state = world.state(tokens[position - start : stop - start], held.state)
            if stop % size == 0:
                self._enter(held.table[stop // size - 1], held.state)
            position = stop
        held.stored = end
        if end > client.stored:
            client.stored, world.no_gain = end, 0
        token = world.token(held.state)
        count = end - len(client.prompt) + 1  # of its new tokens, this one included
        world.beyond += max(0, min(len(tokens), count - client.ask.n))
        if count < 1:
            client.middles.append(token)
        elif count > client.made:
            if client.made < client.ask.abort_made <= count:
                world.happen("abort", client)
            client.made_at += [world.clock] * (count - client.made)
            client.made = count
        return token

    def _given_out(self) -> int:
        block = self.free.pop(0)
        self.holders[block] = 1
        if self.content[block]:
            self.known[self.content[block]].discard(block)
            self.content[block] = 0
        return block

    def _enter(self, block: int, state: int) -> None:
        self.content[block] = state
        self.known.setdefault(state, set()).add(block)

    # What is given.

    def _client(self, i: Any) -> Client:
        client = self.world.by_id.get(i) if type(i) is int else None
        if client is None or client.order < 0:
            raise ValueError(f"nobody has asked as {str(i)[:30]}")
        return client

    def _entries(self, work: Any) -> list[tuple[Held, list[int]]]:
        if isinstance(work, np.ndarray) and work.dtype.kind in "iu":
            work = work.tolist()
        if not isinstance(work, list) or not all(isinstance(entry, list) and len(entry) == 2 for entry in work):
            raise ValueError(f"step takes a list of [i, tokens], got {str(work)[:40]}")
        entries, seen = [], set()
        for i, tokens in work:
            client = self._client(i)
            if i not in self.held:
                raise ValueError(f"request {i} is not admitted")
            if i in seen:
                raise ValueError(f"step takes each request once, and {i} is there twice")
            seen.add(i)
            tokens = token_list(tokens, f"step for request {i}")
            if client.let_go >= 0:
                fact = "does not hold: once its abort has come, a request takes part in no step"
                self.world.fault("stepped after its abort", fact, client.said, "no step", f"{len(tokens)} tokens")
            entries.append((self.held[i], tokens))
        return entries
