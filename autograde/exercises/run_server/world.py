"""What the lent engine and the lent desk share: the requests, a clock that counts steps, and what was broken.

Time goes on when a step runs, and when `wait` waits. Nothing hangs on seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

VOCAB = 997  # large, so that a wrong past hardly ever gives the right token by luck
PRIME = 2147483647
SOON = 4  # steps: of news, tokens, ends; of one who decodes while others' prompts are computed, and the other way round
OVERTAKEN = 8  # later requests that may come to their end while an earlier one waits for a token
IN_VAIN = 120  # calls in a row that change nothing
NO_GAIN = 150  # steps in a row that compute nothing but what had been computed before
TOO_MANY = 6000  # calls of one run; some hundreds are plenty


@dataclass(frozen=True)
class Ask:
    """One request of a scenario, and when its client lets go."""

    p: int  # prompt tokens
    n: int  # new tokens
    at: int = 0  # the step before which it comes
    like: tuple[int, int] = (0, 0)  # (j, k): its first k tokens are those of request j
    abort_at: int = -1  # before this step
    abort_made: int = -1  # as soon as the engine has made so many of its tokens
    abort_released: bool = False  # as soon as it was preempted


@dataclass
class Client:
    """A request, as the trusted side knows it."""

    id: int
    ask: Ask
    prompt: list[int]
    want: list[int]  # the new tokens that it gets alone
    order: int = -1  # of being handed out
    sent: list[int] = field(default_factory=list)
    made: int = 0  # new tokens that the engine has made for it
    made_at: list[int] = field(default_factory=list)  # the clock, for each of them
    stored: int = 0  # tokens that were computed for it at most
    closed: str = ""  # the reason
    let_go: int = -1  # the clock when its abort was handed out
    over: int = -1  # the clock when its last token was sent
    passed: int = 0  # later requests that were done since its newest token
    left_out: int = 0  # steps in a row that computed others' prompts without it, or no prompt although it had room
    odd: tuple[int, int] | None = None  # where something else was computed for it than its tokens: position, token
    middles: list[int] = field(default_factory=list)  # what steps returned for chunks from the middle of its prompt

    @property
    def is_open(self) -> bool:
        """Handed out, and not closed."""
        return self.order >= 0 and not self.closed

    @property
    def most(self) -> int:
        """Tokens that it stores at most: the last new one never is."""
        return len(self.prompt) + self.ask.n - 1

    @property
    def said(self) -> str:
        """It, in words."""
        return f"request {self.id} (prompt of {len(self.prompt)}, {self.ask.n} new)"


@dataclass(frozen=True)
class Fault:
    """A rule that was broken."""

    key: str
    fact: str
    where: str
    expected: str
    got: str
    seen: tuple = ()


class World:
    """One scenario."""

    def __init__(
        self, rng: np.random.Generator, pool: tuple[int, int, int], asks: Sequence[Ask], with_zero: bool = False
    ) -> None:
        """pool: num_blocks, block_size, max_tokens. with_zero: the first request makes a token 0, not as its last."""
        self.num_blocks, self.block_size, self.max_tokens = pool
        self._ask(rng, asks)
        while with_zero and 0 not in self.clients[0].want[1:-1]:
            self._ask(rng, asks)
        self.by_id = {client.id: client for client in self.clients}
        self.coming: list[tuple[int, str, Client]] = []  # (clock, kind, client), in the order of time
        for client in self.clients:
            self.coming.append((client.ask.at, "ask", client))
            if client.ask.abort_at >= 0:
                self.coming.append((client.ask.abort_at, "abort", client))
        self.coming.sort(key=lambda event: event[0])
        self.there: list[tuple[int, str, Client]] = []  # have happened, and are not handed out
        self.clock = self.steps = self.computed = self.found = self.beyond = self.preempted = 0
        self.refusal = ""  # the last one of a step, in words
        self.faults: dict[str, Fault] = {}  # the first of each kind
        self.log: list[list] = []  # what was asked for, in order: for telling one mistake from another
        self.calls = self.in_vain = self.no_gain = self.handed_out = 0

    def _ask(self, rng: np.random.Generator, asks: Sequence[Ask]) -> None:
        """A model, and prompts for it."""
        self.salt = int(rng.integers(1, PRIME))
        self.clients: list[Client] = []
        for k, ask in enumerate(asks):
            prompt = [int(token) for token in rng.integers(0, VOCAB, size=ask.p)]
            if ask.like[1]:
                prompt[: ask.like[1]] = self.clients[ask.like[0]].prompt[: ask.like[1]]
            # Scattered, not in the order of coming, and the fourth of them is 0.
            self.clients.append(Client((91 + 37 * k) % 101, ask, prompt, self.alone(prompt, ask.n)))

    # Tokens.

    def state(self, tokens: Sequence[int], state: int = 0) -> int:
        """What a model remembers of these tokens, after those of an earlier state."""
        state = state or self.salt
        for token in tokens:
            state = (state * 1000003 + token + 1) % PRIME
        return state

    def token(self, state: int) -> int:
        """The next token: 0, 1 and 2 come often, since none of them is the end."""
        token = state * 48271 % PRIME % VOCAB
        return token if token % 5 else token // 5 % 3

    def alone(self, prompt: Sequence[int], new: int) -> list[int]:
        """The new tokens of a request that has the machine to itself."""
        tokens, state = [], self.state(prompt)
        for _ in range(new):
            tokens.append(self.token(state))
            state = self.state(tokens[-1:], state)
        return tokens

    # Time.

    def happen(self, kind: str, client: Client) -> None:
        """Something that hangs on what the server did."""
        self.there.append((self.clock, kind, client))

    def arrive(self) -> None:
        """What is due by now."""
        while self.coming and self.coming[0][0] <= self.clock:
            _, kind, client = self.coming.pop(0)
            self.there.append((self.clock, kind, client))

    # Rules.

    def called(self, what: str) -> None:
        """Another call. Ends what has no end."""
        self.calls, self.in_vain = self.calls + 1, self.in_vain + 1
        said = ""
        if self.in_vain > IN_VAIN:
            said = f"{IN_VAIN} calls in a row changed nothing"
        elif self.no_gain > NO_GAIN:
            said = f"{NO_GAIN} steps in a row computed only what had been computed before"
        elif self.calls > TOO_MANY:
            said = f"{TOO_MANY} calls"
        if said:
            who = " ".join(str(client.id) for client in self.clients if client.is_open)
            why = f"; the last step: {self.refusal}" if self.refusal else ""
            raise RuntimeError(f"no end: {said}; open: {who or 'none'}; last call: {what}{why}")

    def fault(self, key: str, fact: str, where: str, expected: str, got: str, *seen: object) -> None:
        """Note that a rule was broken, if it is the first time."""
        self.faults.setdefault(key, Fault(key, fact, where, expected, got, seen))

    def fits(self, client: Client) -> bool:
        """Whether a request can ever come to its end in this pool."""
        return client.most <= self.num_blocks * self.block_size

    def blocks(self, tokens: int) -> int:
        """Blocks that so many tokens take."""
        return (tokens + self.block_size - 1) // self.block_size

    def all_fit(self) -> bool:
        """Whether all that are open would fit at the same time, to their very ends."""
        return sum(self.blocks(client.most) for client in self.clients if client.is_open) <= self.num_blocks
