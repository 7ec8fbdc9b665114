"""The process that runs a student's code: executes cells and answers for the objects that they define.

Everything here can be changed by that code, so the judge believes nothing that it says: a frame is checked like any
other input, and a limit that is kept here only makes for a better message than the one outside, which always holds.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

from autograde.deadline import TimeUp, time_limit
from autograde.host import Host, describe, is_learners, running_line
from autograde.poison import poisoned_memory
from autograde.quiet import Counter, quiet
from autograde.sandbox.wire import LENGTHS, WireError, decode, encode
from autograde.tensors import prepare
from autograde.value import Opaque


class Pipe:
    """The worker's end of the connection. One question is answered at a time, whichever thread asks."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._turn = threading.RLock()

    def send(self, message: dict) -> None:
        """Send a message."""
        self._connection.sendall(encode(message))

    def receive(self) -> dict:
        """Wait for a message. Raises `EOFError` when the judge is gone."""
        header, payload = LENGTHS.unpack(self._exactly(LENGTHS.size))
        return decode(self._exactly(header), self._exactly(payload))

    def ask(self, request: dict) -> dict:
        """Call into the judge's process while a question of its own is being answered."""
        with self._turn:
            self.send({"call": request})
            return self.receive()["answer"]

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = self._connection.recv(min(size - len(data), 1 << 20))
            if not piece:
                raise EOFError("the judge is gone")
            data += piece
        return bytes(data)


class Worker:
    """A notebook's namespace, and the host of the object that is being checked."""

    def __init__(self, pipe: Pipe, shell: Any) -> None:
        self.pipe, self.shell = pipe, shell
        self.host: Host | None = None
        self.actions: dict[str, Callable[[dict], dict]] = {
            "exec": self.execute,
            "find": self.find,
            "open": self.open,
            "ask": self.ask,
        }

    def serve(self) -> None:
        """Answer until the judge hangs up."""
        with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
            while True:
                message = self.pipe.receive()
                reply = self.actions[message["do"]](message)
                for stream in (sys.stdout, sys.stderr):
                    with contextlib.suppress(Exception):
                        stream.flush()
                self._reply(message["n"], reply)

    def _reply(self, number: int, reply: dict) -> None:
        try:
            frame = {"n": number, **reply}
            self.pipe.send(frame)
        except WireError as error:
            raised = {"kind": "Misuse", "kinds": ["Misuse"], "message": f"the result is too large: {error}", "line": ""}
            self.pipe.send({"n": number, "raised": raised, "printed": 0})

    def execute(self, message: dict) -> dict:
        """Run the source of a cell."""
        try:
            with time_limit(message["seconds"], may_trace=is_learners):
                result = self.shell.run_cell(message["source"], store_history=True)
        except TimeUp as up:
            return {"status": "time", "error": running_line(up.frame, up.outermost)}
        except BaseException as other:  # IPython catches what cells raise; this is for what they do to IPython
            return {"status": "error", "error": _short(other)}
        error = result.error_before_exec or result.error_in_exec
        if isinstance(error, TimeUp):
            return {"status": "time", "error": running_line(error.frame, error.outermost)}
        return {"status": "error", "error": _short(error)} if error is not None else {"status": "ok", "error": ""}

    def find(self, message: dict) -> dict:
        """Say whether a name is defined, and what it is."""
        names = self.shell.user_ns
        if message["name"] not in names:
            return {"found": False, "callable": False, "type": ""}
        work = names[message["name"]]
        return {"found": True, "callable": callable(work), "type": Opaque(type(work).__name__).type_name}

    def open(self, message: dict) -> dict:
        """Begin anew with the object of this name: what was made before is let go."""
        self.host = Host(self.shell.user_ns[message["name"]], self.pipe.ask)
        return {}

    def ask(self, message: dict) -> dict:
        """Carry out one request of a stage."""
        assert self.host is not None  # "open" comes first
        printed = Counter()
        prepare(message["request"]["tensors"])
        try:
            with quiet(printed), poisoned_memory(), time_limit(message["seconds"], may_trace=is_learners):
                reply = self.host.handle(message["request"])
        except TimeUp as up:
            return {"stopped": running_line(up.frame, up.outermost), "printed": printed.lines}
        except KeyboardInterrupt as error:
            reply = {"raised": describe(error)}
        return {**reply, "printed": printed.lines}


def _short(error: BaseException) -> str:
    told = describe(error)
    place = f" ({told['line']})" if told["line"] else ""
    message = f": {told['message']}" if told["message"] else ""
    return f"{told['kind']}{message}{place}"


def make_shell() -> Any:
    """An IPython without a terminal: it knows magics and shell commands, and shows no tracebacks."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    settings = Config()
    settings.HistoryManager.enabled = False  # no database, and no thread, which a fork would lose
    shell: Any = InteractiveShell.instance(config=settings, colors="nocolor")  # its methods are replaced below
    shell.showtraceback = shell.showsyntaxerror = lambda *args, **kwargs: None
    shell.enable_gui = lambda gui=None: None
    shell.displayhook.write_output_prompt = lambda: None
    shell.display_formatter.active_types = ["text/plain"]  # nobody looks at pictures, which take time to draw
    warnings.filterwarnings("ignore", message=".*non-interactive.*")
    return shell


def work(connection: socket.socket) -> None:
    """Say that all is ready, then serve. Never returns."""
    pipe = Pipe(connection)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115
    worker = Worker(pipe, make_shell())
    pipe.send({"ready": True})
    worker.serve()
    os._exit(0)
