"""The desk that is lent: hands requests and aborts out, takes tokens, and notes what must not be."""

from __future__ import annotations

from typing import Any

from autograde.exercises.run_server.world import OVERTAKEN, SOON, VOCAB, Client, World
from autograde.subject import Trusted

REASONS = ("done", "aborted", "refused")


class LentDesk:
    """Where requests come in and tokens go out."""

    def __init__(self, world: World) -> None:
        self.world = world

    def lent(self) -> Trusted:
        """This desk, as the learner's side sees it."""
        return Trusted(self, ("wait", "news", "send", "close"), (), "Desk")

    def wait(self) -> list[dict[str, Any]]:
        """Events since the last call, at least one; [] when no more will ever come."""
        world = self.world
        world.called("wait()")
        world.arrive()
        if not world.there and world.coming:
            self._is_nobody_open()
            world.clock = world.coming[0][0]
            world.arrive()
        return self._hand_out()

    def news(self) -> list[dict[str, Any]]:
        """Events since the last call, perhaps none."""
        self.world.called("news()")
        self.world.arrive()
        return self._hand_out()

    def send(self, i: Any, token: Any) -> None:
        """The next new token of request i."""
        world = self.world
        world.called(f"send({str(i)[:9]}, ..)")
        client = self._known(i, "send")
        if isinstance(token, bool) or not isinstance(token, int) or not 0 <= token < VOCAB:
            raise ValueError(f"a token is a whole number, 0 to {VOCAB - 1}; got {str(token)[:30]}")
        k, sent = client.ask.n, len(client.sent)
        if client.closed:
            self._refuse("sent after its end", "no token is sent after close", client, "nothing", "a token", sent)
        if client.let_go >= 0:
            self._refuse("sent after its abort", "no token is sent after its abort came", client, "none", "one", sent)
        if sent >= k:
            self._refuse("too many sent", "as many tokens are sent as were asked for", client, f"{k}", f"{k + 1}", sent)
        client.sent.append(token)
        client.passed, world.in_vain = 0, 0
        if len(client.sent) == k:
            client.over = world.clock
        world.log.append(["send", i, token])

    def close(self, i: Any, reason: Any) -> None:
        """The end of request i."""
        world = self.world
        world.called(f"close({str(i)[:9]}, {str(reason)[:9]!r})")
        client = self._known(i, "close")
        if not isinstance(reason, str) or reason not in REASONS:
            raise ValueError(f"a request is closed as {', '.join(REASONS)}; got {str(reason)[:30]!r}")
        if client.closed:
            was = f"closed as {client.closed}, and now as {reason}"
            self._refuse("closed twice", "a request is closed once", client, "one close", was, reason, client.closed)
        client.closed, world.in_vain = reason, 0
        world.log.append(["close", i, reason])
        if reason == "done":
            self._overtakes(client)

    def _hand_out(self) -> list[dict[str, Any]]:
        world, events = self.world, []
        for _, kind, client in world.there:
            event: dict[str, Any] = {"kind": kind, "id": client.id}
            if kind == "ask":
                event.update(prompt=list(client.prompt), new=client.ask.n)
                client.order, world.handed_out = world.handed_out, world.handed_out + 1
            elif client.is_open:
                client.let_go = world.clock
            events.append(event)
        world.there.clear()
        if events:
            world.in_vain = 0
        return events

    def _known(self, i: Any, what: str) -> Client:
        client = self.world.by_id.get(i) if type(i) is int else None
        if client is None or client.order < 0:
            raise ValueError(f"{what}: nobody has asked as {str(i)[:30]}")
        return client

    def _refuse(self, key: str, fact: str, client: Client, expected: str, got: str, *seen: object) -> None:
        """Note it, and say it."""
        self.world.fault(key, f"does not hold: {fact}", client.said, expected, got, *seen)
        raise ValueError(f"{fact}: request {client.id}")

    def _is_nobody_open(self) -> None:
        waiting = [client for client in self.world.clients if client.is_open]
        if waiting:
            fact = "does not hold: wait() is for when no request is open, else those that are wait for nothing"
            where, one = f"at step {self.world.steps}", waiting[0]
            got = f"request {one.id} is open, and has {len(one.sent)} of {one.ask.n}"
            self.world.fault("waits", fact, where, "no open request", got, len(waiting), len(one.sent))

    def _overtakes(self, done: Client) -> None:
        for client in self.world.clients:
            if client.is_open and client.order < done.order and client.let_go < 0 and self.world.fits(client):
                client.passed += 1
                if client.passed > OVERTAKEN:
                    fact = f"does not hold: at most {OVERTAKEN} that asked later are done while one waits for a token"
                    where = f"{client.said}, {len(client.sent)} of them sent"
                    got = f"{client.passed} were done"
                    self.world.fault("overtaken", fact, where, f"{OVERTAKEN} at most", got, len(client.sent))

    def look(self) -> None:
        """After a step: who waits for what for too long."""
        world = self.world
        for clock, kind, client in world.there:
            if world.clock - clock > SOON:
                fact = f"does not hold: news is asked for every {SOON} steps"
                where = f"the {kind} of request {client.id}, step {world.steps}"
                world.fault("news", fact, where, f"seen within {SOON} steps", f"not in {world.clock - clock}", kind)
        for client in world.clients:
            due = client.made_at[len(client.sent) : client.ask.n] if client.is_open and client.let_go < 0 else []
            if due and world.clock - due[0] > SOON:
                fact = f"does not hold: a token is sent within {SOON} steps of being made"
                where, got = f"{client.said}, new token {len(client.sent)}", f"not in {world.clock - due[0]}"
                world.fault("sent late", fact, where, f"sent within {SOON} steps", got, len(client.sent))
            if client.is_open and client.over >= 0 and world.clock - client.over > SOON:
                fact = f"does not hold: a request that has its tokens is closed within {SOON} steps"
                world.fault("closed late", fact, client.said, "close(i, 'done')", "still open")
            if client.is_open and client.let_go >= 0 and world.clock - client.let_go > SOON:
                fact = f"does not hold: an aborted request is closed within {SOON} steps"
                world.fault("aborted late", fact, client.said, "close(i, 'aborted')", "still open", len(client.sent))
