"""The stages' view of a learner's object that lives in a worker."""

from __future__ import annotations

import time
from typing import Any

from autograde.host import KNOWN
from autograde.judge import time_fact
from autograde.sandbox.connection import PROTOCOL, Connection
from autograde.subject import Subject, WorkStopped
from autograde.value import Handle, Lent

KINDS = {item.__name__ for item in KNOWN}


class Budget:
    """The seconds and the traffic that one exercise has, shared by the subjects of all its stages."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._until = time.monotonic() + seconds
        self.printed = 0

    def left(self) -> float:
        """Seconds left. Raises `WorkStopped` when there are none."""
        left = self._until - time.monotonic()
        if left <= 0:
            raise WorkStopped("time", time_fact(self.seconds))
        return left


class RemoteSubject(Subject):
    """Asks a worker. Replies are checked here for what stages and diagnosis rely on."""

    def __init__(self, connection: Connection, name: str, budget: Budget) -> None:
        super().__init__()
        self._connection, self._budget = connection, budget
        self._handles: set[int] = set()
        reply = connection.exchange({"do": "open", "name": name}, budget.left())
        if reply:
            raise connection.fail("protocol", PROTOCOL)

    def _send(self, request: dict) -> dict:
        seconds = self._budget.left()
        reply = self._connection.exchange({"do": "ask", "request": request, "seconds": seconds}, seconds, self.answer)
        printed = reply.pop("printed", None)
        if type(printed) is not int or printed < 0 or len(reply) != 1:
            raise self._connection.fail("protocol", PROTOCOL)
        self._budget.printed += min(printed, 1_000_000)
        ((kind, body),) = reply.items()
        if kind == "stopped" and type(body) is str:
            raise WorkStopped("time", time_fact(self._budget.seconds), body[:200])
        if kind == "raised" and _is_raised(body):
            return reply
        if kind == "value" and self._is_value(body, request["keep"]):
            return reply
        raise self._connection.fail("protocol", PROTOCOL)

    def _is_value(self, tree: Any, keep: bool) -> bool:
        if not keep:
            return self._is_free_of_handles(tree)
        if type(tree) is not Handle or tree.id in self._handles:
            return False
        self._handles.add(tree.id)
        return True

    def _is_free_of_handles(self, tree: Any) -> bool:
        """Objects come back only where they are asked for, and lent ones only as they were lent."""
        kind = type(tree)
        if kind is list:
            return all(map(self._is_free_of_handles, tree))
        if kind is dict:
            return all(map(self._is_free_of_handles, tree.values()))
        if kind is Lent:
            return tree.id < len(self._lent) and not tree.attributes and not tree.methods
        return kind is not Handle


def _is_raised(body: Any) -> bool:
    return (
        type(body) is dict
        and body.keys() == {"kind", "kinds", "message", "line"}
        and all(type(body[key]) is str and len(body[key]) < 1000 for key in ("kind", "message", "line"))
        and type(body["kinds"]) is list
        and len(body["kinds"]) < 100
        and all(type(kind) is str and kind in KINDS for kind in body["kinds"])
    )
