"""One worker with everything around it: the room, the limits, the connection."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograde.sandbox import landlock, seccomp
from autograde.sandbox.bubblewrap import Room
from autograde.sandbox.connection import Connection
from autograde.sandbox.limits import Limits
from autograde.sandbox.memory import Memory
from autograde.sandbox.paths import masks, prefixes, readable
from autograde.sandbox.remote import Budget, RemoteSubject
from autograde.sandbox.scratch import Scratch
from autograde.sandbox.spawner import Spawner, SpawnError
from autograde.sandbox.tiers import BUBBLEWRAP, LANDLOCK
from autograde.subject import WorkStopped

FIRST_UID = 60_000  # of the users that root lends to workers: nobody's, and no two at a time the same
UIDS = 5_000
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
START_SECONDS = 60


@dataclass(frozen=True)
class CellResult:
    """How a cell ended: "ok", "error", or what the worker was stopped for; what it printed, and its error in a line."""

    status: str
    text: str
    error: str
    lost: bool = False  # the worker is gone


@dataclass(frozen=True)
class Named:
    """What a name stands for in the notebook."""

    found: bool
    callable: bool
    type_name: str


class Sandbox:
    """A worker, from its start to its end. Use it as a context manager: nothing of it is left behind."""

    def __init__(self, spawner: Spawner, view: Path, tier: str, limits: Limits) -> None:
        self.limits = limits
        self._spawner, self._tier = spawner, tier
        self._room: Room | None = None
        self._scratch: Scratch | None = None
        self._opened: Connection | None = None
        try:
            self._start(view)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *args: object) -> None:
        self.close()

    @property
    def _connection(self) -> Connection:
        assert self._opened is not None  # a sandbox that could not start is not handed out
        return self._opened

    @property
    def lost(self) -> WorkStopped | None:
        """Why the worker is gone, if it is."""
        return self._connection.lost

    def execute(self, source: str, seconds: float | None = None) -> CellResult:
        """Run a cell of the notebook."""
        allowed = self.limits.cell_seconds if seconds is None else seconds
        try:
            reply = self._exchange({"do": "exec", "source": source, "seconds": allowed}, allowed, status=str, error=str)
        except WorkStopped as stop:
            text = f"stopped after {allowed:g} s" if stop.status == "time" else stop.fact
            return CellResult(stop.status, self._connection.printed(), text, lost=True)
        status = reply["status"] if reply["status"] in ("ok", "time") else "error"
        error = reply["error"][:1000]
        if status == "time":
            error = f"stopped after {allowed:g} s" + (f" at {error}" if error else "")
        return CellResult(status, self._connection.printed(), error)

    def find(self, name: str) -> Named:
        """Look a name up in the notebook's namespace. Raises `WorkStopped`."""
        reply = self._exchange({"do": "find", "name": name}, 5.0, found=bool, callable=bool, type=str)
        return Named(reply["found"], reply["callable"], reply["type"][:100])

    def budget(self, seconds: float) -> Budget:
        """Time and traffic for one exercise."""
        self._connection.traffic = 0
        return Budget(seconds)

    def subject(self, name: str, budget: Budget) -> RemoteSubject:
        """A subject for the object of this name. Raises `WorkStopped`, as everything that is asked of it does."""
        return RemoteSubject(self._connection, name, budget)

    def forget_output(self) -> None:
        """Drop what was printed during a check: it may tell hidden inputs."""
        self._connection.printed()

    def close(self) -> None:
        """Kill everything inside and remove what it wrote."""
        if self._opened is not None and self._opened.lost is None:
            self._opened.close()
        if self._room is not None:
            self._room.close()
        self._spawner.end_workers()
        if self._scratch:
            self._scratch.close()

    def _exchange(self, message: dict, seconds: float, **fields: type) -> dict:
        """Send, and insist on a reply with exactly these fields."""
        reply = self._connection.exchange(message, seconds)
        if reply.keys() != fields.keys() or any(type(reply[name]) is not kind for name, kind in fields.items()):
            raise self._connection.fail("protocol", "what came back is not an answer")
        return reply

    def _start(self, view: Path) -> None:
        ours, theirs = socket.socketpair()
        printed, print_to = os.pipe()
        namespaces: dict[str, int] = {}
        try:
            request: dict[str, Any] = {"limits": self.limits.kept_by_the_kernel(), "files": self.limits.files}
            request |= {"uid": None, "landlock": None, "home": "/tmp"}
            request["seccomp"] = {} if self._tier in (BUBBLEWRAP, LANDLOCK) else None
            if request["seccomp"] is not None and not seccomp.available():
                raise SpawnError("libseccomp (Debian: libseccomp2) or the package pyseccomp is missing")
            if self._tier == BUBBLEWRAP:
                self._room = Room([*prefixes(), str(view)], masks(), self.limits)
                namespaces = self._room.descriptors()
            else:
                self._scratch = Scratch("worker")
                request["home"] = self._scratch.path
            # The worker is the template's child. In a room, what it leaves behind goes to the room's first process.
            roots = (self._spawner.pid,) if self._room is None else (self._spawner.pid, self._room.init)
            if os.geteuid() == 0 and self._tier in (BUBBLEWRAP, LANDLOCK):
                request["uid"] = FIRST_UID + roots[-1] % UIDS
                if self._scratch:
                    os.chown(self._scratch.path, request["uid"], request["uid"])
            if self._tier == LANDLOCK:
                _insist_on_landlock()
                assert self._scratch is not None  # there is no room
                request["landlock"] = {"read": readable(view), "write": [self._scratch.path], "devices": DEVICES}
                request["seccomp"] |= {"own_signals_only": landlock.abi() < 6, "shared_user": True}
            request["namespaces"] = list(namespaces)
            memory = Memory(roots, self.limits, self._scratch.path if self._scratch else "")
            self._opened = Connection(ours, printed, self.limits, memory.too_much)
            self._spawner.fork(request, [theirs.fileno(), print_to, *namespaces.values()])
        finally:
            theirs.close()
            os.close(print_to)
            for descriptor in namespaces.values():
                os.close(descriptor)
        if problem := self._connection.hello(START_SECONDS):
            raise SpawnError(problem)


def _insist_on_landlock() -> None:
    if landlock.abi() < 1:
        raise SpawnError("this kernel has no Landlock (Linux 5.13 or newer has it, unless it is switched off)")
