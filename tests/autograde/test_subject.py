"""What crosses between the trusted side and the learner's, and what does not."""

from __future__ import annotations

import subprocess
import sys
from collections import OrderedDict, namedtuple
from pathlib import Path

import numpy as np
import pytest

from autograde.subject import LearnerRaised, LocalSubject, Trusted
from autograde.value import MAX_BYTES, MAX_DEPTH, MAX_ITEMS, MAX_TEXT, Handle, Lent, Opaque, plain


class Keeper:
    """Keeps what it is given and gives back what it keeps, without a copy of its own."""

    def __init__(self, array):
        self.array = array

    def give(self):
        return self.array

    def spoil(self):
        self.array[:] = -1.0


def test_arrays_are_copied_both_ways() -> None:
    """A learner who writes into an argument must not change the grader's inputs, and the other way round."""
    subject, sent = LocalSubject(Keeper), np.arange(3.0)
    keeper = subject.new(sent)
    subject.call(keeper, "spoil")
    assert sent.tolist() == [0.0, 1.0, 2.0]
    got = subject.call(keeper, "give")
    got[:] = 7.0
    assert subject.call(keeper, "give").tolist() == [-1.0, -1.0, -1.0]
    assert [event.op for event in subject.record] == ["new", "call spoil", "call give", "call give"]


def test_a_kept_array_is_the_same_array_for_the_learner() -> None:
    """`put` and `fill` play the caller who reuses a buffer: who keeps a view sees the new numbers."""
    subject, sent = LocalSubject(Keeper), np.arange(3.0)
    kept = subject.put(sent)
    keeper = subject.new(kept)
    subject.fill(kept, [4.0, 5.0, 6.0])
    assert subject.call(keeper, "give").tolist() == [4.0, 5.0, 6.0]
    subject.call(keeper, "spoil")
    assert subject.read(kept).tolist() == [-1.0] * 3
    subject.fill(kept, float("nan"))
    assert np.isnan(subject.read(kept)).all()
    assert sent.tolist() == [0.0, 1.0, 2.0]


def test_a_result_can_stay_on_the_learners_side() -> None:
    """An object that cannot cross is passed on by its handle, and its attributes are read through it."""
    subject = LocalSubject(Keeper)
    inner = subject.new(np.zeros(2))
    outer = subject.new(inner)
    kept = subject.call(outer, "give", keep=True)
    assert isinstance(kept, Handle)
    assert subject.get(kept, "array").tolist() == [0.0, 0.0]
    with pytest.raises(LearnerRaised, match="Keeper has no lost"):
        subject.get(kept, "lost")
    assert subject.call(outer, "give") == Opaque("Keeper")


def test_functions_of_the_trusted_side_are_called_there() -> None:
    """A projection that is lent counts its rows here, whatever the learner does with the stand-in."""
    rows = []

    def project(x, *, twice=False):
        rows.append(x)
        return x * (2 if twice else 1)

    subject = LocalSubject(lambda f: [f.__name__, f(np.ones(2)), f([1, 2.5], twice=True), f(np.float32(3))])
    name, array, items, number = subject.run(project)
    assert (name, array.tolist(), items, number) == ("project", [1.0, 1.0], [1, 2.5, 1, 2.5], 3.0)
    assert [type(row) for row in rows] == [np.ndarray, list, float]
    assert rows[0] is not array


class Store:
    """An object that stays on the trusted side."""

    secret = "the right answer"

    def __init__(self):
        self.size, self.rows = 3, np.zeros(2)
        self.items = []
        self.parts = [Trusted(Keeper(np.ones(2)), ("give",), name="Part")]

    def __len__(self):
        return len(self.items)

    def add(self, item):
        if len(self.items) == self.size:
            raise OverflowingStore("full")
        self.items.append(item)
        return self

    def hidden(self):
        raise AssertionError("nobody may call this")


class OverflowingStore(ValueError):
    """A refusal of a class that the learner's side has never heard of."""


def lent(store: Store) -> Trusted:
    return Trusted(store, ("add", "__len__"), ("size", "rows", "parts"), name="Cache")


def test_a_lent_object_shows_only_what_is_lent() -> None:
    """The proxy has the methods and attributes that were named, and copies of the latter."""
    store = Store()

    def look(cache):
        cache.rows[:] = 9.0
        names = sorted(name for name in dir(cache) if not name.startswith("_"))
        found = [getattr(cache, name, "none") for name in ("secret", "hidden", "items", "target")]
        part = cache.parts[0]
        return [type(cache).__name__, names, len(cache), cache.size, found, type(part).__name__, sum(part.give())]

    got = LocalSubject(look).run(lent(store))
    assert got == ["Cache", ["add", "parts", "rows", "size"], 0, 3, ["none"] * 4, "Part", 2.0]
    assert store.rows.tolist() == [0.0, 0.0]


def test_what_is_not_lent_cannot_be_called_by_name_either() -> None:
    """A forged request for another method, or for an object that was never lent, is refused by the trusted side."""
    subject = LocalSubject(lambda cache: None)
    subject.run(lent(Store()))
    for request in ({"id": 0, "name": "hidden"}, {"id": 99, "name": None}, {"id": 0, "name": "__class__"}):
        reply = subject.answer({"args": [], "kwargs": {}} | request)
        assert reply["raised"]["kind"] in ("AttributeError", "IndexError")


def test_a_refusal_arrives_as_the_nearest_built_in_class() -> None:
    """The learner's `except ValueError` must work, though the class that was raised lives on the other side."""

    def fill(cache):
        for item in range(4):
            try:
                cache.add(item)
            except ValueError as error:
                return [type(error).__name__, str(error), len(cache)]

    assert LocalSubject(fill).run(lent(Store())) == ["ValueError", "full", 3]

    def overfill(cache):
        for item in range(4):
            cache.add(item)

    with pytest.raises(LearnerRaised) as raised:
        LocalSubject(overfill).run(lent(Store()))
    assert raised.value.is_a("ValueError")
    assert raised.value.message == "full"
    assert "cache.add(item)" in raised.value.line


def test_proxies_passed_back_are_the_objects_themselves() -> None:
    """Also inside a list or a dict: `write the test` hands whole decoders to and fro."""
    store, seen = Store(), []

    def collect(*items):
        seen.extend(items)

    def work(cache, function):
        function(cache, [cache, 1], {"c": [cache]})
        return cache

    subject = LocalSubject(work)
    assert isinstance(subject.run(lent(store), collect), Lent)
    assert seen[0] is store
    assert seen[1] == [store, 1]
    assert seen[2] == {"c": [store]}


def test_exceptions_come_with_kind_bases_message_and_line() -> None:
    """A stage asks for classes by name, because the learner's own class cannot cross."""

    class Full(IndexError, ValueError):
        pass

    def work():
        raise Full("holds 8 of 8\n  tokens")

    subject = LocalSubject(work)
    with pytest.raises(LearnerRaised) as raised:
        subject.run()
    error = raised.value
    assert (error.kind, error.message) == ("Full", "holds 8 of 8 tokens")
    assert error.is_a("ValueError")
    assert error.is_a("KeyError", "LookupError")
    assert not error.is_a("KeyError")
    assert error.line.endswith('raise Full("holds 8 of 8\\n  tokens")`')
    assert subject.record[-1].raised == "Full"


def test_a_type_error_inside_is_not_a_wrong_call() -> None:
    """Only what the call itself raises is about the signature; the rest is an exception of the learner's."""

    def inner(x):
        return len(x)

    def wrong(a, b):
        return inner()

    with pytest.raises(LearnerRaised) as raised:
        LocalSubject(wrong).run(1, 2)
    assert raised.value.kind == "TypeError"
    with pytest.raises(LearnerRaised) as raised:
        LocalSubject(wrong).run(1)
    assert raised.value.kind == "Misuse"
    assert raised.value.message == "wrong(a, b) is called with 1 argument: missing a required argument: 'b'"


def test_a_property_that_fails_is_not_a_missing_attribute() -> None:
    """An AttributeError inside a property was reported as "has no size", though the property is there."""

    class Cache:
        @property
        def size(self):
            return self.lost

    subject = LocalSubject(Cache)
    with pytest.raises(LearnerRaised, match="no attribute 'lost'"):
        subject.get(subject.new(), "size")


Pair = namedtuple("Pair", "K V")


class Word(str):
    """A string of a class of its own."""


class Matrix(np.ndarray):
    """An array that does not tell the truth about itself."""

    def copy(self, order="C"):
        return "not an array"


CROSSES = [
    (None, None),
    (True, True),
    (2**63, 2**63),
    (1.5, 1.5),
    ("x", "x"),
    (Word("x"), "x"),
    ("x" * (MAX_TEXT + 1), "x" * MAX_TEXT),
    (np.bool_(True), True),
    (np.int8(3), 3),
    (np.float16(0.5), 0.5),
    (np.longdouble(0.5), 0.5),
    (Pair(1, 2), [1, 2]),
    (OrderedDict(a=1), {"a": 1}),
    ({1: (2, {3: [4]})}, {"1": [2, {"3": [4]}]}),
    (np.str_("x"), "x"),
    (1 + 2j, Opaque("complex")),
    (2**64, Opaque("int of 65 bits")),
    (b"x", Opaque("bytes")),
    ({1}, Opaque("set")),
    (range(3), [0, 1, 2]),
    (len, Opaque("builtin_function_or_method")),
    (int, Opaque("type")),
    (Keeper(1), Opaque("Keeper")),
    (np.array(["x"]), Opaque("array of dtype <U1")),
    (np.array([None]), Opaque("array of dtype object")),
    (np.datetime64("2020-01-01"), Opaque("array of dtype datetime64[D]")),
    (np.zeros(MAX_BYTES // 8 + 1), Opaque(f"array too large to compare, of shape ({MAX_BYTES // 8 + 1},)")),
    ([0] * (MAX_ITEMS + 1), Opaque("list of too many items")),
    ([[0] * MAX_ITEMS], [Opaque("list of too many items")]),
]


@pytest.mark.parametrize(("value", "tree"), CROSSES, ids=lambda value: type(value).__name__)
def test_what_becomes_of_a_value(value, tree) -> None:
    """Plain values cross as they are, everything else by the name of its type."""
    got = plain(value)
    assert got == tree
    assert type(got) is type(tree)


@pytest.mark.parametrize(
    "value",
    [
        np.arange(6.0).reshape(2, 3).T,
        np.arange(3)[::-1],
        np.float32([1, 2]),
        np.array(1.0),
        np.zeros((0, 3)),
        np.array([1 + 2j]),
        np.complex128(1 + 2j),
        np.arange(3.0).astype(">f8"),
        np.arange(4.0).view(Matrix),
        np.ma.masked_array([1.0, 2.0], [True, False]),
    ],
    ids=str,
)
def test_arrays_cross_as_copies_of_their_numbers(value) -> None:
    """Views, subclasses and odd layouts arrive as plain arrays; an imaginary part is not dropped on the way."""
    got = plain(value)
    assert type(got) is np.ndarray
    assert got.flags.c_contiguous
    assert not np.shares_memory(got, value)
    assert (got.shape, got.dtype) == (np.shape(value), np.asarray(value).dtype.newbyteorder("="))
    np.testing.assert_array_equal(got, np.asarray(value))


def test_endless_and_deep_lists_come_to_an_end() -> None:
    """A list that holds itself a thousand times filled the memory: a thousand to the power of the depth."""
    endless: list = []
    endless.extend([endless] * 1000)
    deep: list = []
    for _ in range(100_000):
        deep = [deep]

    def size(tree) -> int:
        return 1 + sum(map(size, tree)) if isinstance(tree, list) else 1

    assert size(plain(endless)) <= MAX_ITEMS + 1
    assert size(plain(deep)) == MAX_DEPTH + 1


def test_tensors_cross_as_arrays() -> None:
    """A learner may answer in torch, with a gradient or in bfloat16. What holds no numbers is named instead."""
    torch = pytest.importorskip("torch")
    for tensor in (
        torch.ones(2, requires_grad=True),
        torch.ones(2, dtype=torch.bfloat16),
        torch.ones(2, dtype=torch.float8_e4m3fn),
        torch.ones(2, 2)[:, 0],
    ):
        got = plain(tensor)
        assert type(got) is np.ndarray
        assert got.tolist() == [1.0, 1.0]
    assert plain(torch.ones(2, device="meta")) == Opaque(
        "tensor of dtype torch.float32 and layout torch.strided on meta"
    )
    assert "too large" in plain(torch.zeros(1).expand(10**9)).type_name
    assert LocalSubject(lambda: torch.ones(2, device="meta")).run() == plain(torch.ones(2, device="meta"))


def test_without_torch_nothing_imports_it() -> None:
    """The first lessons must start fast: a check of NumPy work does not pay for torch."""
    code = "import sys, autograde; autograde.check('1.1', lambda *a: object()); sys.exit('torch' in sys.modules)"
    root = Path(__file__).resolve().parents[2]
    assert subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, check=False).returncode == 0
