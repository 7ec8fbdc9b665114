"""The judge's end of a connection to a worker that does everything but answer."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from autograde.sandbox import connection as module
from autograde.sandbox.connection import KEPT_OUTPUT, PROTOCOL, Connection
from autograde.sandbox.limits import MIB, Limits
from autograde.sandbox.wire import LENGTHS, decode, encode
from autograde.subject import WorkStopped

LONG = 100.0  # seconds: what is to be noticed is noticed long before
CALL = {"call": {"id": 0, "name": None, "args": [], "kwargs": {}}}


class Peer:
    """The other end, played by a thread: `script(peer)` runs once, and all its ends are closed after it."""

    def __init__(self, channel: socket.socket, output: int, script: Callable[[Peer], None]) -> None:
        self.channel, self.output = channel, output
        self.over = threading.Event()  # set when the test is at its end
        self.thread = threading.Thread(target=self._play, args=(script,), daemon=True)
        self.thread.start()

    def _play(self, script: Callable[[Peer], None]) -> None:
        with contextlib.suppress(OSError, EOFError):
            script(self)
        self.channel.close()
        with contextlib.suppress(OSError):
            os.close(self.output)

    def read(self) -> Any:
        """The next message."""
        header, payload = LENGTHS.unpack(self._exactly(LENGTHS.size))
        return decode(self._exactly(header), self._exactly(payload))

    def send(self, *trees: Any) -> None:
        """Messages, at once."""
        self.channel.sendall(b"".join(map(encode, trees)))

    def raw(self, data: bytes) -> None:
        """Bytes as they are."""
        self.channel.sendall(data)

    def print(self, data: bytes) -> None:
        """What a cell prints."""
        while data:
            data = data[os.write(self.output, data) :]

    def wait(self) -> None:
        """Do nothing, until the test ends."""
        self.over.wait()

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self.channel.recv(size - len(data))
            if not piece:
                raise EOFError
            data += piece
        return data


def descriptors() -> set[str]:
    """What this process has open, each with its number and what it leads to: "7 socket:[4711]"."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the one that listed them
            found.add(f"{name} {os.readlink(f'/proc/self/fd/{name}')}")
    return found


@pytest.fixture
def meet(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Connection]]:
    """`meet(script)` is a connection to a peer. After the test, no descriptor of either end may be left."""
    monkeypatch.setattr(module, "GRACE", 0.0)
    before, peers, connections = descriptors(), [], []

    def start(script: Callable[[Peer], None], too_much: Callable[[], str] = str, **limits: int) -> Connection:
        ours, theirs = socket.socketpair()
        printed, print_to = os.pipe()
        connections.append(Connection(ours, printed, Limits(**limits), too_much))
        peers.append(Peer(theirs, print_to, script))
        return connections[-1]

    yield start
    for connection in connections:
        if connection.lost is None:
            connection.close()  # a lost one has been closed already
    for peer in peers:
        peer.over.set()
        peer.thread.join(LONG)
        assert not peer.thread.is_alive()
    assert descriptors() <= before  # an earlier test's garbage may have closed some meanwhile


def stopped(connection: Connection, seconds: float = LONG, answer: Any = None, **message: Any) -> WorkStopped:
    """How an exchange ends that cannot end well, and that the worker is lost for good."""
    with pytest.raises(WorkStopped) as first:
        connection.exchange({"do": "it", **message}, seconds, answer)
    assert connection.lost is first.value
    with pytest.raises(WorkStopped) as again:
        connection.exchange({"do": "it"}, LONG)
    assert again.value is first.value
    return first.value


def after_reading(*trees: Any) -> Callable[[Peer], None]:
    """A script: read a message, send these, and wait."""

    def script(peer: Peer) -> None:
        peer.read()
        peer.send(*trees)
        peer.wait()

    return script


def after_reading_raw(data: bytes, hang_up: bool = False) -> Callable[[Peer], None]:
    """A script: read a message, send these bytes, and wait or hang up."""

    def script(peer: Peer) -> None:
        peer.read()
        peer.raw(data)
        if not hang_up:
            peer.wait()

    return script


def test_an_answer_and_what_was_printed(meet) -> None:
    """What an honest worker does: replies that fit, with calls into lent objects between, and output apart."""

    def script(peer: Peer) -> None:
        for number in (1, 2):
            message = peer.read()
            peer.print(b"hello \xff\n")
            peer.send(CALL)
            assert peer.read() == {"answer": {"value": number}}
            peer.send({"n": message["n"], "value": message["x"]})

    connection, asked = meet(script), []

    def answer(request: dict) -> dict:
        asked.append(request)
        return {"value": len(asked)}

    for x in (np.arange(3.0), "x" * 1000):
        reply = connection.exchange({"do": "it", "x": x}, LONG, answer)
        assert reply.keys() == {"value"} and np.array_equal(reply["value"], x)
        assert connection.printed() == "hello \ufffd\n"
    assert asked == [CALL["call"]] * 2
    assert connection.lost is None


def test_silence(meet) -> None:
    """Nothing comes: the deadline ends it, and says how long was allowed."""
    assert stopped(meet(Peer.wait), 0.2).status == "time"
    stop = stopped(meet(after_reading_raw(b"")), 0.2)
    assert (stop.status, stop.fact) == ("time", "stopped after 0.2 s: a loop that never ends?")


def test_a_slow_drip(meet) -> None:
    """One byte after the other, each in time: the whole has a deadline all the same."""

    def script(peer: Peer) -> None:
        frame = encode({"n": 1, "value": "x" * 100_000})
        for i in range(len(frame)):
            peer.raw(frame[i : i + 1])
            if peer.over.wait(0.01):
                return

    assert stopped(meet(script), 0.3).status == "time"


PROTOCOL_SCRIPTS = {
    "garbage": after_reading_raw(b"\xff" * 100),
    "text": after_reading_raw(b"Traceback (most recent call last):\n" * 10),
    "10 MB of garbage": after_reading_raw(np.random.default_rng(0).bytes(10 << 20)),
    "a header of 4 GB": after_reading_raw(LENGTHS.pack(2**32 - 1, 0)),
    "a payload of 4 GB": after_reading_raw(LENGTHS.pack(2, 2**32 - 1) + b"{}"),
    "no header": after_reading_raw(LENGTHS.pack(0, 0)),
    "a payload without arrays": after_reading_raw(LENGTHS.pack(4, 4) + b"nullnull"),
    "NaN for the number": after_reading({"n": float("nan"), "value": 1}),
    "NaN as no JSON has it": after_reading_raw(LENGTHS.pack(17, 0) + b'{"d":[["n",NaN]]}'),
    "a list": after_reading([1]),
    "nothing": after_reading(None),
    "an array": after_reading(np.ones(1)),
    "no number": after_reading({"value": 1}),
    "another number": after_reading({"n": 2, "value": 1}),
    "number 0": after_reading({"n": 0, "value": 1}),
    "a bool for the number": after_reading({"n": True, "value": 1}),
    "a float for the number": after_reading({"n": 1.0, "value": 1}),
    "an array for the number": after_reading({"n": np.array(1), "value": 1}),
    "text for the number": after_reading({"n": "1", "value": 1}),
    "a call with more than a call": after_reading({**CALL, "n": 2}),
    "a call that nobody takes": after_reading(CALL),
    "the question itself": lambda peer: (peer.send(peer.read() | {"n": 5}), peer.wait()),
}


@pytest.mark.parametrize("name", PROTOCOL_SCRIPTS)
def test_no_answer(meet, name) -> None:
    """What comes is no frame, or no reply to what was asked."""
    stop = stopped(meet(PROTOCOL_SCRIPTS[name]))
    assert (stop.status, stop.fact) == ("protocol", PROTOCOL)


@pytest.mark.parametrize(
    "request_",
    [
        None, 1, [], {}, {"id": 0}, {"n": 1, "value": 1}, {**CALL["call"], "more": 1},
        *({**CALL["call"], "id": id} for id in (-1, True, 0.0, "0", None, [])),
        *({**CALL["call"], "name": name} for name in (1, True, ["x"], {})),
        *({**CALL["call"], "args": args} for args in (None, {}, "x", np.ones(2))),
        *({**CALL["call"], "kwargs": kwargs} for kwargs in (None, [], "x", np.ones(2))),
    ],
)  # fmt: skip
def test_no_call(meet, request_) -> None:
    """A call into a lent object without the parts of one does not get as far as the object."""
    stop = stopped(meet(after_reading({"call": request_})), answer=lambda request: pytest.fail("was called"))
    assert stop.status == "protocol"


@pytest.mark.parametrize("data", [b"", b"\1", LENGTHS.pack(100, 0), LENGTHS.pack(9, 80) + b'{"a":["<f'])
def test_hanging_up(meet, data) -> None:
    """The other end goes away before, in or after the header."""
    stop = stopped(meet(after_reading_raw(data, hang_up=True)))
    assert (stop.status, stop.fact) == ("crashed", module.CRASHED)


def test_hanging_up_for_want_of_memory(meet) -> None:
    """A worker that the kernel killed is gone as one that crashed; the watch knows better."""
    reasons = iter(["", "more than 5 MiB", "more than 5 MiB"])
    stop = stopped(meet(after_reading_raw(b"", hang_up=True), too_much=lambda: next(reasons, "more than 5 MiB")))
    assert stop.fact == "more than 5 MiB"
    assert stopped(meet(lambda peer: None)).status == "crashed", "gone before it was asked"


def test_too_much_memory(meet) -> None:
    """The watch speaks up while the worker is silent."""
    reasons = iter(["", "", "uses more than 5 MiB"])
    stop = stopped(meet(Peer.wait, too_much=lambda: next(reasons, "")))
    assert (stop.status, stop.fact) == ("memory", "uses more than 5 MiB")


def test_two_replies(meet) -> None:
    """The first is taken; the second is in the way of the next question."""
    connection = meet(after_reading({"n": 1, "value": "a"}, {"n": 1, "value": "b"}))
    assert connection.exchange({"do": "it"}, LONG) == {"value": "a"}
    assert stopped(connection).status == "protocol"


def test_a_reply_before_the_question(meet) -> None:
    """Guessing the number is answering without having listened: legal, and of no use. A wrong one is no answer."""
    connection = meet(lambda peer: (peer.send({"n": 1, "value": 1}), peer.read(), peer.send({"n": 3}), peer.wait()))
    assert connection.exchange({"do": "it"}, LONG) == {"value": 1}
    assert stopped(connection).status == "protocol"


def test_endless_calls(meet) -> None:
    """Each is answered, until they were too many bytes."""

    def script(peer: Peer) -> None:
        peer.read()
        while True:
            peer.send(CALL)
            peer.read()

    asked = []
    connection = meet(script, traffic=20_000)
    stop = stopped(connection, answer=lambda request: asked.append(request) or {"value": None})
    assert stop.status == "protocol"
    assert 20_000 / 200 < len(asked) < 20_000 / 20


def test_calls_by_one_who_never_reads_the_answers(meet) -> None:
    """The judge does not wait for ever to get rid of an answer."""

    def script(peer: Peer) -> None:
        peer.read()
        while True:
            peer.send(CALL)

    assert stopped(meet(script), 0.3, answer=lambda request: {"value": "x" * 100_000}).status == "time"


def test_replies_of_many_bytes(meet) -> None:
    """Traffic adds up over the replies of an exercise."""

    def script(peer: Peer) -> None:
        while True:
            peer.send({"n": peer.read()["n"], "value": np.zeros(1000)})

    connection = meet(script, traffic=20_000)
    for _ in range(2):
        connection.exchange({"do": "it"}, LONG)
    assert stopped(connection).status == "protocol"


def test_a_flood_of_output(meet) -> None:
    """Text without end, faster than it can be read: stopped, and a bit of it kept."""

    def script(peer: Peer) -> None:
        peer.read()
        while True:
            peer.print(b"x" * 65536)

    connection = meet(script, output=3 * MIB)
    stop = stopped(connection)
    assert (stop.status, stop.fact) == ("output", "printed more than 3 MiB")
    assert connection.printed() == "x" * KEPT_OUTPUT


@pytest.mark.parametrize("size, fine", [(3 * MIB, True), (3 * MIB + 1, False)])
def test_output_before_the_reply_counts(meet, size, fine) -> None:
    """All that was printed before the reply is seen with it, to the byte; each exchange begins at nothing."""

    def script(peer: Peer) -> None:
        for _ in range(2):
            number = peer.read()["n"]
            peer.print(b"y" * size)
            peer.send({"n": number})

    connection = meet(script, output=3 * MIB)
    if not fine:
        assert stopped(connection).status == "output"
        return
    for _ in range(2):
        assert connection.exchange({"do": "it"}, LONG) == {}
        assert connection.printed() == "y" * KEPT_OUTPUT


def test_output_that_ends_before_the_worker(meet) -> None:
    """Whoever closes standard output can still answer, or be silent until the deadline."""

    def script(peer: Peer) -> None:
        peer.print(b"last words")
        os.close(peer.output)
        peer.output = -1
        peer.send({"n": peer.read()["n"]})
        peer.wait()

    connection = meet(script)
    assert connection.exchange({"do": "it"}, LONG) == {}
    assert connection.printed() == "last words"
    assert stopped(connection, 0.2).status == "time"


def test_a_peer_that_does_not_listen(meet) -> None:
    """15 MB to somebody who reads nothing, or hangs up in the middle."""
    big = np.zeros(15 << 20, np.uint8)
    assert stopped(meet(Peer.wait), 0.3, big=big).status == "time"
    assert stopped(meet(lambda peer: peer.channel.recv(1000)), big=big).status == "crashed"


def test_what_is_too_large_is_not_sent(meet) -> None:
    """An answer that fits no frame ends the exchange: half a frame would be worse."""
    stop = stopped(meet(after_reading(CALL)), answer=lambda request: {"value": [np.zeros(15 << 20, np.uint8)] * 3})
    assert stop.status == "protocol"


HELLOS = {
    "ready": ({"ready": True}, ""),
    "failed": ({"failed": "no numpy"}, "no numpy"),
    "neither": ({"n": 1}, "None"),
    "nearly ready": ({"ready": 1}, "None"),
    "an array of it": ({"ready": np.ones(2)}, "None"),
    "a list": ([1, 2], PROTOCOL),
    "an array": (np.ones(2), PROTOCOL),
    "text": ("ready", PROTOCOL),
}


@pytest.mark.parametrize("name", HELLOS)
def test_hello(meet, name) -> None:
    """The first message says that the worker is ready, or why not."""
    tree, problem = HELLOS[name]
    assert meet(lambda peer: (peer.send(tree), peer.wait())).hello(LONG) == problem


@pytest.mark.parametrize("script", [Peer.wait, lambda peer: None, lambda peer: peer.raw(b"\xff" * 8)])
def test_no_hello(meet, script) -> None:
    """Silence, hanging up and garbage are reasons too."""
    assert meet(script).hello(0.2) != ""


def test_giving_up_twice_closes_once(meet) -> None:
    """Whoever finds another fault with a lost worker does not close somebody else's descriptor."""
    connection = meet(after_reading_raw(b"\xff" * 8))
    stopped(connection)
    with socket.socket():  # takes the number that has become free
        connection.fail("protocol", "again")
        connection.close()
