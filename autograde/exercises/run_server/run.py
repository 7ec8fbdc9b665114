"""One run of the learner's server, judged by what its clients got and by the rules that it broke."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from autograde.exercises.run_server.desk import LentDesk
from autograde.exercises.run_server.engine import LentEngine
from autograde.exercises.run_server.world import Ask, Client, Fault, World
from autograde.finding import Finding, held
from autograde.subject import Event, LearnerRaised, Subject

MOST_WORK = 5  # times what has to be computed once, in pools that are far too small
MOST_STEPS = 3  # times the steps that sensible work takes where all fit
BOUNDS = {"news", "starved", "idle", "overtaken"}  # rules that only some stages look at


class Run:
    """One scenario, and what came of it."""

    def __init__(
        self,
        subject: Subject,
        rng: np.random.Generator,
        pool: tuple[int, int, int],
        asks: Sequence[Ask],
        with_zero: bool = False,
    ) -> None:
        self.subject, self.world = subject, World(rng, pool, asks, with_zero)
        self.desk = LentDesk(self.world)
        self.engine = LentEngine(self.world, self.desk.look)
        self.pool = f"{pool[0]} blocks of {pool[1]}, budget {pool[2]}"
        self.events = len(subject.record)  # what is compared in a diagnosis: all before this run

    def judged(self, *bounds: str) -> Iterable[Finding]:
        """Run it. Every client gets what it gets alone, no rule is broken, and nothing is left.

        bounds: those of the bounds that this stage is about.
        """
        world = self.world
        try:
            self.subject.run(self.engine.lent(), self.desk.lent())
        except LearnerRaised as error:
            if error.kind not in ("Misuse", "NotImplementedError"):
                yield from self.why_it_raised(error)
            sizes = " ".join(f"{client.ask.p}+{client.ask.n}" for client in world.clients[:5])
            self.subject.asked = f"{self.pool}, requests {sizes}{' ..' if len(world.clients) > 5 else ''}"
            raise
        for client in world.clients:
            yield self.served(client)
        yield from self.ended()
        for fault in world.faults.values():
            if fault.key in bounds or fault.key not in BOUNDS:
                yield self.broken(fault)

    def why_it_raised(self, error: LearnerRaised) -> Iterable[Finding]:
        """What was wrong before the learner's code raised, where that is known."""
        world, line = self.world, f" ({error.line})" if error.line else ""
        for fault in world.faults.values():
            if fault.key not in BOUNDS:
                yield self.broken(fault, line)
        for client in world.clients:
            if client.order >= 0 and not world.fits(client) and not client.closed:
                yield self.served(client)

    def broken(self, fault: Fault, line: str = "") -> Finding:
        """A rule that was broken."""
        return self.wrong(fault.key, fault.fact + line, fault.where, fault.expected, fault.got, *fault.seen)

    def wrong(self, key: str, fact: str, where: str, expected: str, got: str, *seen: object) -> Finding:
        """A finding that does not hold. The log tells apart what is alike up to here."""
        self.subject.record.extend(Event("log", entry) for entry in self.world.log)
        where = f"{where}; {self.pool}"
        return Finding(False, key, fact, where, expected, got[:90], events=self.events, seen=seen)

    # What the clients got.

    def served(self, client: Client) -> Finding:
        """Whether one client got its tokens and its end."""
        key, sent, want, n = "served", client.sent, client.want, client.ask.n
        if client.order < 0:
            fact = "does not hold: run_server goes on until wait() returns [], and no request is open"
            return self.wrong("left early", fact, client.said, "it is served", "run_server has returned before it came")
        right = next((k for k, (a, b) in enumerate(zip(sent, want, strict=False)) if a != b), None)
        if right is not None:
            clue = self.clue(client, right)
            fact = "does not hold: a request gets the tokens that it gets alone" + (f"; {clue}" if clue else "")
            where = f"{client.said}, new token {right}"
            return self.wrong("tokens", fact, where, str(want[right]), str(sent[right]), client.id, right, *sent)
        if not self.world.fits(client):
            fact = f"a request that would store {client.most} tokens can never fit: it is closed as 'refused'"
            if client.closed == ("aborted" if client.let_go >= 0 else "refused") and not sent:
                return held(key, fact)
            got = f"closed as {client.closed!r}, {len(sent)} sent" if client.closed else f"{len(sent)} sent, not closed"
            fact = f"does not hold: {fact}"
            return self.wrong("never fits", fact, client.said, "refused", got, client.id, client.closed, len(sent))
        if client.let_go >= 0:
            if client.closed == "aborted":
                return held(key, "an aborted request is closed as 'aborted'")
            fact = "does not hold: a request whose abort came while it was open is closed as 'aborted'"
            got = f"closed as {client.closed!r}" if client.closed else "not closed"
            return self.wrong("aborted", fact, client.said, "aborted", got, client.id, client.closed, len(sent))
        if len(sent) < n:
            fact = "does not hold: as many tokens are sent as were asked for"
            end = f", closed as {client.closed!r}" if client.closed else ", not closed"
            got = f"{len(sent)}{end}"
            return self.wrong("count", fact, client.said, f"{n} tokens", got, client.id, client.closed, len(sent))
        if client.closed != "done":
            fact = "does not hold: a request that has its tokens is closed as 'done'"
            got = f"closed as {client.closed!r}" if client.closed else "not closed"
            return self.wrong("end", fact, client.said, "done", got, client.id, client.closed)
        return held(key, "a request gets the tokens that it gets alone, and its end")

    def clue(self, client: Client, k: int) -> str:
        """What the wrong token is instead, where that can be said."""
        token, p = client.sent[k], len(client.prompt)
        if k and token == client.want[k - 1] and token > 2:
            return "this token was sent already"
        if token in client.middles and token > 2:
            return "it follows a chunk in the middle of the prompt"
        if client.odd and client.odd[0] < p + k:
            position, given = client.odd
            right = (client.prompt + client.want)[position]
            return f"as its token {position} you gave {given}, which is {right}"
        for other in self.world.clients:
            if other is not client and token > 2 and token in other.want:
                return f"this is a token of request {other.id}"
        return "it is its next but one" if client.want[k + 1 : k + 2] == [token] else ""

    def ended(self) -> Iterable[Finding]:
        """Whether nobody holds blocks at the end."""
        fact, left = "all blocks are released at the end", self.engine.held.values()
        number = sum(len(holding.table) for holding in left)
        if left:
            said = f"{number}, by request {', '.join(str(holding.client.id) for holding in list(left)[:4])}"
            ends = sorted(holding.client.closed for holding in left)
            yield self.wrong("back", f"does not hold: {fact}", "at the end", "0 blocks held", said, len(left), *ends)
        yield held("back", fact)

    # The work that it took.

    def at_most(self, key: str, got: int, most: int, fact: str, where: str, *seen: object) -> Finding:
        """Whether a count is within a bound."""
        if got <= most:
            return held(key, fact)
        return self.wrong(key, f"does not hold: {fact}", where, f"{most} at most", str(got), got, *seen)

    def lean(self) -> Iterable[Finding]:
        """Where all fit: nothing is computed twice, and steps are shared."""
        world, served = self.world, [client for client in self.world.clients if self.world.fits(client)]
        where = f"{len(served)} requests that fit together"
        fact = "the last new token of a request is never computed"
        yield self.at_most("beyond", world.beyond, 0, fact, where, world.computed)
        least = sum(client.most for client in served) - world.found
        fact = "where all fit, the KV of each token is computed once"
        yield self.at_most("computed", world.computed, least, fact, where, world.steps)
        most = max(client.ask.n for client in served)
        most = MOST_STEPS * (most + sum(-(-len(client.prompt) // world.max_tokens) for client in served))
        fact = f"where all fit, {MOST_STEPS} x (the longest n + the chunks of all prompts) steps are enough"
        yield self.at_most("steps", world.steps, most, fact, where, world.computed)

    def found(self, least: int) -> Finding:
        """Whether as much was found again as any order of work can find."""
        got, where = self.world.found, f"{len(self.world.clients)} requests, one after the other"
        if got >= least:
            return held("found", "what was computed for an earlier request is found again")
        fact = "does not hold: what was computed for an earlier request is found again by admit"
        computed = self.world.computed
        return self.wrong("found", fact, where, f"{least} tokens at least", str(got), got, computed)

    def bounded(self) -> Finding:
        """Whether a pool that is too small did not make too much work."""
        least = sum(client.most for client in self.world.clients if self.world.fits(client))
        fact = f"no more than {MOST_WORK} times as many tokens are computed as without any preemption ({least})"
        where = f"{len(self.world.clients)} requests"
        return self.at_most("computed", self.world.computed, MOST_WORK * least, fact, where, self.world.steps)
