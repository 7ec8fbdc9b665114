"""A subject whose learner lives in another process, for tests: pickled messages over two pipes.

Run as a script, this file is that other process. It uses `autograde.host.Host` as it is. Pickle would be a hole in a
real sandbox, since the learner could send anything; here both ends are ours.
"""

from __future__ import annotations

import importlib.util
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any, BinaryIO

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from autograde.exercises import MODULES, load  # noqa: E402
from autograde.host import Host  # noqa: E402
from autograde.subject import Subject  # noqa: E402


class Wire:
    """One end of the connection."""

    def __init__(self, reader: BinaryIO, writer: BinaryIO) -> None:
        self.reader, self.writer = reader, writer

    def send(self, message: Any) -> None:
        pickle.dump(message, self.writer)
        self.writer.flush()

    def receive(self) -> Any:
        return pickle.load(self.reader)


class WireSubject(Subject):
    """Asks the other process. Only the way that requests take differs from `LocalSubject`."""

    def __init__(self, wire: Wire) -> None:
        super().__init__()
        self.wire = wire
        wire.send(("host", None))

    def _send(self, request: dict) -> dict:
        self.wire.send(("request", request))
        while True:
            kind, message = self.wire.receive()
            if kind == "reply":
                return message
            self.wire.send(self.answer(message))  # the learner's code calls into something that was lent


def start() -> tuple[subprocess.Popen, Wire]:
    """Start the other process."""
    process = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    return process, Wire(process.stdout, process.stdin)


def work_of(exercise_id: str, kind: str, name: str) -> Any:
    """The reference, a mistake or a variant of an exercise; the latter two from a module that nobody has used yet.

    State that a mistake keeps in its module or on its class is then fresh wherever it runs.
    """
    if kind == "reference":
        return load()[exercise_id].reference
    path = ROOT / "autograde" / "exercises" / MODULES[exercise_id] / "candidates.py"
    spec = importlib.util.spec_from_file_location(f"fresh_{MODULES[exercise_id]}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    entries = module.MISTAKES if kind == "mistake" else module.VARIANTS
    return next(entry.candidate for entry in entries if entry.name == name)


def serve(wire: Wire) -> None:
    """Carry out what comes over the wire, until it ends."""

    def call_back(request: dict) -> dict:
        wire.send(("call back", request))
        return wire.receive()

    work = host = None
    while True:
        try:
            kind, message = wire.receive()
        except EOFError:
            return
        if kind == "work":
            work = os.getpid if message is None else work_of(*message)
        elif kind == "host":
            host = Host(work, call_back)
        else:
            wire.send(("reply", host.handle(message)))


if __name__ == "__main__":
    # What the work prints must not get between the messages.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    serve(Wire(sys.stdin.buffer, out))
