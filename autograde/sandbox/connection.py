"""The judge's end of the connection to a worker: nothing that comes out is trusted, and nothing can make it wait."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import time
from collections.abc import Callable

from autograde.judge import time_fact
from autograde.sandbox.limits import MIB, Limits
from autograde.sandbox.wire import LENGTHS, WireError, check_lengths, decode, encode
from autograde.subject import WorkStopped

GRACE = 2.0  # seconds that a worker has to stop by itself, which makes for a better message
EVERY = 0.1  # seconds between two looks at the memory
KEPT_OUTPUT = 20_000  # bytes of what was printed that a person gets to see
CRASHED = "the Python process ended: a crash, or an exit"
PROTOCOL = "what came back is not an answer"


class Connection:
    """Sends one message at a time and waits for the reply, within time, memory, traffic and output.

    When anything goes wrong, `stop` is called and `WorkStopped` raised: the worker is lost then.
    """

    def __init__(self, channel: socket.socket, output: int, limits: Limits, too_much: Callable[[], str]) -> None:
        self._channel, self._output, self._limits = channel, output, limits
        self._too_much = too_much  # what the worker has too much of, or nothing
        self._number = 0
        self._printed = bytearray()
        self._printed_size = 0
        self._inbox = bytearray()
        self._looked = 0.0
        self.traffic = 0
        self.seconds = 0.0  # of the request being carried out, for the message
        self.lost: WorkStopped | None = None
        channel.setblocking(False)
        os.set_blocking(output, False)

    def exchange(self, message: dict, seconds: float, answer: Callable[[dict], dict] | None = None) -> dict:
        """Send a message and return the reply. Calls into lent objects are passed to `answer` meanwhile."""
        if self.lost is not None:
            raise self.lost
        self._number += 1
        self.seconds = seconds
        deadline = time.monotonic() + seconds + GRACE
        self._printed_size = 0
        try:
            self._send(encode({"n": self._number, **message}), deadline)
            while True:
                reply = self._receive(deadline)
                if type(reply) is not dict:
                    raise WireError("not a message")
                if reply.keys() == {"call"} and answer is not None:
                    self._send(encode({"answer": answer(_call(reply["call"]))}), deadline)
                elif type(reply.get("n")) is int and reply.pop("n") == self._number:
                    break
                else:
                    raise WireError("not the reply to what was asked")
        except WireError:
            raise self._stopped("protocol", PROTOCOL) from None
        except OSError:  # the other end is gone
            reason = self._too_much()
            raise self._stopped("memory" if reason else "crashed", reason or CRASHED) from None
        self._drain()
        return reply

    def hello(self, seconds: float) -> str:
        """Wait for the first message, sent before the student's code runs; return why the worker failed, or nothing."""
        try:
            first = self._receive(time.monotonic() + seconds)
        except (WireError, OSError, WorkStopped) as error:
            return str(error) or type(error).__name__
        if type(first) is not dict:
            return PROTOCOL
        return "" if first.get("ready") is True else str(first.get("failed"))

    def printed(self) -> str:
        """What was printed since the last call, cut."""
        data, self._printed = bytes(self._printed), bytearray()
        return data.decode("utf-8", "replace")

    def close(self) -> None:
        """Hang up."""
        self._channel.close()
        with contextlib.suppress(OSError):
            os.close(self._output)
        self._output = -1

    def fail(self, status: str, fact: str) -> WorkStopped:
        """Give the worker up for a reason that somebody else has found."""
        return self._stopped(status, fact)

    def _stopped(self, status: str, fact: str) -> WorkStopped:
        if self._output >= 0:
            self._read_output()
        self.lost = WorkStopped(status, fact)
        self.close()
        return self.lost

    def _send(self, frame: bytes, deadline: float) -> None:
        view = memoryview(frame)
        while view:
            self._wait(select.POLLOUT, deadline)
            with contextlib.suppress(BlockingIOError):
                view = view[self._channel.send(view) :]

    def _receive(self, deadline: float) -> object:
        header, payload = LENGTHS.unpack(self._exactly(LENGTHS.size, deadline))
        check_lengths(header, payload)
        self.traffic += header + payload
        if self.traffic > self._limits.traffic:
            raise WireError("too much traffic")
        return decode(self._exactly(header, deadline), self._exactly(payload, deadline))

    def _exactly(self, size: int, deadline: float) -> bytes:
        while len(self._inbox) < size:
            self._wait(select.POLLIN, deadline)
            with contextlib.suppress(BlockingIOError):
                piece = self._channel.recv(min(max(size - len(self._inbox), 1 << 16), 1 << 20))
                if not piece:
                    raise ConnectionResetError
                self._inbox += piece
        data = bytes(self._inbox[:size])
        del self._inbox[:size]
        return data

    def _wait(self, event: int, deadline: float) -> None:
        """Wait until the channel is ready; meanwhile, read what is printed and look at the clock and the memory."""
        poll = select.poll()
        poll.register(self._channel, event)
        poll.register(self._output, select.POLLIN)
        while True:
            now = time.monotonic()
            if now > deadline:
                raise self._stopped("time", time_fact(self.seconds))
            if now - self._looked > EVERY:
                self._looked = now
                if reason := self._too_much():
                    raise self._stopped("memory", reason)
            ready = dict(poll.poll(EVERY * 1000))
            if self._output in ready and not self._drain():
                poll.unregister(self._output)  # closed by everybody inside
            if self._channel.fileno() in ready:
                return

    def _drain(self) -> bool:
        """Read what was printed, and stop the worker when it is too much. False when nobody can print any more."""
        more = self._read_output()
        if self._printed_size > self._limits.output:
            raise self._stopped("output", f"printed more than {self._limits.output // MIB} MiB")
        return more

    def _read_output(self) -> bool:
        for _ in range(64):
            try:
                piece = os.read(self._output, 1 << 16)
            except BlockingIOError:
                return True
            if not piece:
                return False
            self._printed_size += len(piece)
            self._printed += piece[: max(0, KEPT_OUTPUT - len(self._printed))]
        return True


def _call(request: object) -> dict:
    """A call into a lent object, with the parts that it has to have."""
    if type(request) is not dict or request.keys() != {"id", "name", "args", "kwargs"}:
        raise WireError("not a call")
    name, args, kwargs = request["name"], request["args"], request["kwargs"]
    if type(request["id"]) is not int or request["id"] < 0 or not (name is None or type(name) is str):
        raise WireError("not a call")
    if type(args) is not list or type(kwargs) is not dict:
        raise WireError("not a call")
    return request
