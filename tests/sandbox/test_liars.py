"""Workers that lie: whatever comes back in place of an answer, the judge neither breaks nor gives it full marks."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autograde.exercise import Exercise
from autograde.exercises import load
from autograde.expect import half
from autograde.host import Host
from autograde.judge import Verdict, judge
from autograde.report_text import verdict_text
from autograde.sandbox.remote import Budget, RemoteSubject
from autograde.sandbox.wire import LENGTHS, WireError, decode, encode
from autograde.subject import WorkStopped
from autograde.value import Handle, Lent, Opaque
from tests.sandbox.trees import FUZZ, trees

SEED = "lies"
pytestmark = pytest.mark.usefixtures("one_thread")
# A server gives nothing back: what it does is seen in the calls that it makes, and these are tested in test_callbacks.
TOLD = [exercise for exercise in load().values() if exercise.name != "run_server"]
each_exercise = pytest.mark.parametrize("exercise", TOLD, ids=lambda exercise: exercise.id)
Change = Callable[[dict, dict], Any]


class Worker:
    """In place of a connection to a worker: serves honestly, and `change(request, reply)` is what it says then."""

    def __init__(self, work: Any, change: Change) -> None:
        self.work, self.change = work, change
        self.host: Host | None = None
        self.lost: WorkStopped | None = None

    def exchange(self, message: dict, seconds: float, answer: Any = None) -> dict:
        if message["do"] == "open":
            self.host = None
            return {}
        if self.host is None:
            self.host = Host(self.work, answer)
        reply = self.change(message["request"], {**self.host.handle(message["request"]), "printed": 0})
        try:
            frame = encode(reply)
            header = LENGTHS.unpack_from(frame)[0] + LENGTHS.size
            return decode(frame[LENGTHS.size : header], frame[header:])
        except WireError:
            raise self.fail("protocol", "no frame") from None

    def fail(self, status: str, fact: str) -> WorkStopped:
        self.lost = WorkStopped(status, fact)
        return self.lost


def judged(exercise: Exercise, change: Change) -> Verdict:
    """The verdict on the reference as a lying worker reports it, and that it is one that can be shown."""
    worker, budget = Worker(exercise.reference, change), Budget(1000.0)
    verdict = judge(exercise, lambda: RemoteSubject(worker, exercise.name, budget), SEED)
    assert type(verdict.points) is float and 0.0 <= verdict.points <= exercise.points
    assert verdict.passed == (verdict.points == exercise.points)
    lines = verdict_text(verdict).split("\n")
    assert len(lines) <= 8
    assert all(line.isprintable() and len(line) <= 120 for line in lines), lines
    return verdict


def matters(request: dict, reply: dict) -> bool:
    """Whether the text of the exercise says what this must give back: not so where right work gives back nothing."""
    if request["op"] in ("len", "get", "read", "largest", "storage"):
        return True
    if request["name"] == "append" and not request["tensors"] and isinstance(request["args"][-1], np.ndarray):
        return False  # of lesson 02: nobody looks at what it gives back
    return request["op"] in ("run", "call") and not request["keep"] and reply.get("value", 0) is not None


def is_unasked(request: dict, reply: dict) -> bool:
    """Whether no right piece of work has to give back anything in particular here."""
    return not matters(request, reply) and not request["keep"] and "raised" not in reply


def honest(exercise: Exercise) -> list[dict]:
    """All replies that matter, in order."""
    replies: list[dict] = []

    def note(request: dict, reply: dict) -> dict:
        if matters(request, reply):
            replies.append({**reply, "request": request})
        return reply

    assert judged(exercise, note).passed
    return replies


def from_the(index: int, lies: list[Any], once: bool = False) -> Change:
    """Tell these lies in turn, or the first one once, from the reply of this number on."""
    count = -1

    def change(request: dict, reply: dict) -> Any:
        nonlocal count
        if not matters(request, reply):
            return reply
        count += 1
        if count < index or (once and count > index):
            return reply
        return lies[(count - index) % len(lies)]

    return change


def raised(*kinds: str, kind: str = "Odd", message: str = "", line: str = "") -> dict:
    """A reply of code that raises."""
    return {"raised": {"kind": kind, "kinds": list(kinds), "message": message, "line": line}, "printed": 0}


def says(tree: Any) -> dict:
    """A reply with a value."""
    return {"value": tree, "printed": 0}


texts = st.text(st.characters(), max_size=40)
kinds = st.lists(st.sampled_from(["ValueError", "TypeError", "Exception", "Misuse", "NotImplementedError"]), max_size=3)
replies = st.one_of(
    trees.map(says),
    st.builds(lambda names, **told: raised(*names, **told), kinds, kind=texts, message=texts, line=texts),
)


@each_exercise
@settings(FUZZ, max_examples=40)
@given(data=st.data())
def test_any_tree_for_an_answer(exercise, data) -> None:
    """Well-formed replies of every kind, from a random place on. A lie that is the truth may pass; none may break."""
    index = data.draw(st.integers(0, len(honest_of(exercise)) - 1))
    judged(exercise, from_the(index, data.draw(st.lists(replies, min_size=1, max_size=3)), data.draw(st.booleans())))


_honest: dict[str, list[dict]] = {}


def honest_of(exercise: Exercise) -> list[dict]:
    """The same every time, so it is looked up once."""
    if exercise.id not in _honest:
        _honest[exercise.id] = honest(exercise)
    return _honest[exercise.id]


BIG = 2**64 - 1
NEVER = [
    None, Opaque("generator"), Opaque(""), Opaque("x" * 10_000), "", "0", "text", "\x1b[2J\ud800\u202e\n" * 99, {},
    {"0": 1.0}, [None], [None, None], ["a", "b"], [Opaque("set")] * 7, [[1.0], [2.0, 3.0]], [{"a": 1}, {"a": 1}],
    float("nan"), [float("nan")] * 2, float("inf"), BIG, -BIG, [BIG, -1], [2**63, -(2**63), 0.5], [[BIG], [-BIG]], [[]],
    np.array(BIG, "u8"), np.full((2, 3, 4, 5), 1e308), np.zeros((0, 7, 2)), np.ones(11, "c16"), np.array([[True]]),
    np.array(1e300), np.array(-5, "i1"), np.full(7, np.nan, "f2"), np.zeros((1,) * 16) - 3, [np.array([BIG], "u8"), -1],
    [np.ones((2, 2)), np.ones(3)], [[[[[[[[[[1.0]]]]]]]]], 2], [1, []], [np.array(200, "u1"), BIG], [1e308, "x", {}],
    [np.array(1, "i1"), -(2**63)], np.zeros(4 << 20, "i1"), np.full((2, 1 << 20), 7, "i1"), [0] * 9_000, ["x" * 10_000],
    Lent(10**6, "nobody", True), Lent(0, "Cache", False), Lent(0, "step", True, ("step",)), Handle(0), [Handle(7)],
]  # fmt: skip


def near(value: Any) -> list[Any]:
    """Almost the value: wrong in one number, one row, the type."""
    if isinstance(value, bool):
        return [not value, int(value), float(value), np.array(value), [value], str(value)]
    if isinstance(value, int):
        wrong = [
            value + 1 + abs(value) // 1000,  # beyond the rounding of float64
            -value - 1,
            value + 0.5 + abs(value) / 1000,
            (value or 1) * 1e18,
            [value, value, value],
            np.array(value + 1),
            str(value),
        ]
        return [*wrong, True, [[value]], np.array([value, value])]
    if isinstance(value, float):
        off = value + 1e-3 * max(1.0, abs(value))
        return [off, -value - 1, value + 1e3, float("nan"), float("inf"), [value] * 3, [value, "x"], str(value)]
    if isinstance(value, str):
        return [f"{value}s", value.upper(), "", 0, [value, value], {value: 1}]
    if value is None:
        return [0, 0.0, False, "None", [None, None], float("nan")]
    if isinstance(value, list) and not value:
        return [[0], [[]], "", 0]
    if isinstance(value, list):
        wrong = [value * 2, value[:-1], [*value, value[-1]], [*value[:-1], [value]], [*value[:-1], "x"]]
        for place, item in enumerate(value):
            wrong += [[*value[:place], lie, *value[place + 1 :]] for lie in near(item)]
        return wrong
    if isinstance(value, dict):
        name = next((name for name, item in value.items() if type(item) is int), next(iter(value)))
        without = {key: item for key, item in value.items() if key != name}
        return [without, list(value.values()), *({**value, name: lie} for lie in near(value[name]))]
    if value.dtype == bool:
        one = value.copy()
        one.reshape(-1)[-1] ^= True
        return [one, ~value, value.astype(int), value.astype(float), value[:-1], np.stack([value, value]), value.all()]
    last = value.astype(value.dtype if value.dtype.kind == "f" else "f8")
    last.reshape(-1)[-1] += 1e-3 * max(1.0, float(np.abs(value).max()))
    hole = value.astype("f8")
    hole.reshape(-1)[0] = np.nan
    wrong = [
        last,
        hole,
        value + 1,
        -value - 1,
        value + np.inf,
        np.stack([value, value]),
        value[..., None].repeat(2, -1),
    ]
    wrong += [
        value[:-1],
        value.astype("c16"),
        value != 0,
        value.astype("i4") + 9,
        value.tolist() + [None],
        [*value, "x"],
    ]
    return wrong + [np.concatenate([value, value]), {"value": value}, Opaque(f"array of shape {value.shape}")]


# Their answers hold what nobody looks at (rows without a token), or are right in many ways (an input that shows a bug).
FREE = (
    "BlockAllocator",
    "PagedCache",
    "SharedTables",
    "PrefixIndex",
    "RaggedCache",
    "RingCache",
    "breaking_chunks",
    "IntQuantiser",
    "QuantisedCache",
)


def lies_about(exercise: Exercise, reply: dict) -> list[dict]:
    """Replies that are not what this one says, however kindly it is read."""
    if "raised" in reply:
        others = (
            [],
            ["Exception"],
            ["Misuse"],
            ["NotImplementedError"],
            ["KeyError", "LookupError"],
            ["ValueError"] * 99,
        )
        wrong = [raised(*kinds, kind="ValueError", message="\x1b]0;\a" * 9) for kinds in others[:-1]]
        return wrong + [says(tree) for tree in (None, "ValueError", 0, True, np.zeros(7), {"raised": "ValueError"})]
    value = reply["value"]
    lies = [says(tree) for tree in (*NEVER, *(() if exercise.name in FREE else near(value)))]
    if value is False:
        return lies  # a test that raises has rejected, and that is right
    return lies + [
        raised(kind="x" * 900),
        raised("ValueError", message="all passed\n6.0 of 6 points"),
        raised("Misuse"),
    ]


def is_empty(reply: dict) -> bool:
    """Arrays without rows: every other empty array is as good."""
    return "value" in reply and holds_nothing(reply["value"])


def holds_nothing(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(holds_nothing, value))
    return isinstance(value, np.ndarray) and value.size == 0


@each_exercise
@settings(FUZZ, max_examples=40)
@given(data=st.data())
def test_no_full_marks_for_a_lie(exercise, data) -> None:
    """One reply that matters is changed into what it cannot mean: once, or from then on."""
    told = [index for index, reply in enumerate(honest_of(exercise)) if not is_empty(reply)]
    index = data.draw(st.sampled_from(told))
    lies = lies_about(exercise, honest_of(exercise)[index])
    lie = lies[data.draw(st.integers(0, len(lies) - 1))]
    verdict = judged(exercise, from_the(index, [lie], data.draw(st.booleans())))
    assert verdict.points < exercise.points, lie


@each_exercise
def test_every_lie_about_the_first_answer(exercise) -> None:
    """All of them, not only those that were drawn: from the first question on, no stage holds."""
    first = honest_of(exercise)[0]
    start = 1 if is_empty(first) else 0
    for lie in lies_about(exercise, honest_of(exercise)[start]):
        assert judged(exercise, from_the(start, [lie])).points < exercise.points, lie


@each_exercise
def test_the_truth_in_other_words(exercise) -> None:
    """Lists for arrays, rounding to float32, floats for counts: what a right piece of work may give back."""
    # Their texts name every axis, and what comes back is stacked in a lesson.
    exact = exercise.name in ("KVCache", "partial_attend", "merge_parts") or exercise.tensors

    def other(change: Callable[[np.ndarray], Any]) -> Change:
        def of(value: Any) -> Any:
            if isinstance(value, list):
                return [of(item) for item in value]
            return change(value) if isinstance(value, np.ndarray) and value.dtype.kind == "f" else value

        # What is read back are the caller's own arrays: they are as they were, or they are not.
        is_told = lambda request, reply: "value" in reply and request["op"] != "read"  # noqa: E731
        return lambda request, reply: {**reply, "value": of(reply["value"])} if is_told(request, reply) else reply

    tiny = exercise.name in ("scales", "QuantisedCache", "IntQuantiser")  # a scale of 1e-30 must be right too
    changes = [np.asfortranarray, (lambda x: x * (1 + 1e-13)) if tiny else (lambda x: x + 1e-13)]
    changes += [] if exercise.tensors else [np.ndarray.tolist]
    keeps_dtype = exercise.name in ("GQACache", "CacheLayer")
    changes += [] if keeps_dtype else [lambda x: x.astype("f4")]
    for change in changes + ([] if exact else [lambda x: x[None], lambda x: x[..., None]]):
        assert judged(exercise, other(change)).passed
    unasked = lambda request, reply: says("whatever") if is_unasked(request, reply) else reply  # noqa: E731
    assert judged(exercise, unasked).passed


@pytest.mark.parametrize(
    "reply",
    [
        {}, {"value": 1}, {"printed": 0}, {"values": 1, "printed": 0}, {"value": 1, "printed": 0, "more": 1},
        *({"value": 1, "printed": printed} for printed in (True, -1, -BIG, 0.0, None, "0", [0], BIG + 1, np.array(0))),
        {"value": 1, "raised": raised()["raised"], "printed": 0}, {"stopped": 1, "printed": 0},
        *({"stopped": stop, "printed": 0} for stop in (None, True, ["x"], {})),
        *({"raised": body, "printed": 0} for body in (None, {}, "ValueError", [], {**raised()["raised"], "more": ""})),
        *({"raised": {**raised()["raised"], "kinds": names}, "printed": 0} for names in ("int", [1], [[]], {}, None)),
        raised("SystemExit2"), raised("int", "Learner"), raised("autograde"), raised(*["ValueError"] * 100),
        raised(kind=1), raised(message=None), raised(line=[]),
        raised(kind="x" * 1000), raised(message="x" * 1000), raised(line="x" * 1000),
        says(Handle(0)), says([1, [Handle(3)]]), says({"a": {"b": Handle(0)}}), says([Lent(10**18, "f", True)]),
        says(Lent(0, "f", True, ("step",))), says(Lent(0, "f", True, (), {"a": 1})), says(Lent(10**18, "f", True)),
    ],
    ids=lambda reply: ascii(reply)[:60],
)  # fmt: skip
def test_replies_that_are_none(reply) -> None:
    """Well-formed trees that no worker of ours sends: the worker is lost, whatever was asked."""
    worker = Worker(lambda *args: None, lambda request, honest: reply)
    subject = RemoteSubject(worker, "work", Budget(1000.0))
    with pytest.raises(WorkStopped) as stop:
        subject.run(len, abs)
    assert stop.value.status == "protocol" and worker.lost is stop.value
    for exercise in load().values():
        if exercise.tensors and not find_spec("torch"):
            continue  # the others show the same
        verdict = judged(exercise, lambda request, honest: honest if request["keep"] else reply)
        assert verdict.points < exercise.points and verdict.failure.finding.key == "protocol"


@pytest.mark.parametrize("reply", [says(None), says(1), says([Handle(5)]), says(Lent(0, "f", True)), says(Handle(0))])
def test_an_object_that_is_to_stay_there(reply) -> None:
    """Only a new handle will do: an old one would be another object."""
    subject = RemoteSubject(Worker(list, lambda request, honest: honest), "work", Budget(1000.0))
    assert subject.new() == Handle(0)
    subject._connection.change = lambda request, honest: reply
    with pytest.raises(WorkStopped) as stop:
        subject.new(len)
    assert stop.value.status == "protocol"


def test_lent_objects_come_back_as_they_were_lent() -> None:
    """Those that there are, and no more of them."""
    subject = RemoteSubject(
        Worker(lambda *args: None, lambda request, honest: says(Lent(1, "f", True))), "f", Budget(9.0)
    )
    assert subject.run(len, abs) == Lent(1, "f", True)
    subject = RemoteSubject(
        Worker(lambda *args: None, lambda request, honest: says(Lent(2, "f", True))), "f", Budget(9.0)
    )
    with pytest.raises(WorkStopped, match="not an answer"):
        subject.run(len, abs)


def test_much_printed_and_long_places_are_cut() -> None:
    """Numbers and texts of the worker's own making end somewhere."""
    budget = Budget(1000.0)
    worker = Worker(lambda: None, lambda request, honest: {**honest, "printed": BIG})
    RemoteSubject(worker, "f", budget).run()
    assert budget.printed == 1_000_000
    worker.change = lambda request, honest: {"stopped": "line 3" * 99, "printed": 0}
    with pytest.raises(WorkStopped) as stop:
        RemoteSubject(worker, "f", budget).run()
    assert (stop.value.status, len(stop.value.where)) == ("time", 200)


def test_a_large_array_is_not_taken_apart() -> None:
    """Looking for a pair in millions of numbers makes no object of each."""
    large = np.zeros(4 << 20, "i1")
    tracemalloc.start()
    try:
        assert half(large, 0) is large
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
