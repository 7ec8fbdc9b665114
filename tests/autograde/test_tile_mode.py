"""Work in tiles: what arrives, what comes back, and what is counted on the way. Needs no torch."""

from __future__ import annotations

import numpy as np
import pytest

from autograde.subject import LearnerRaised, LocalSubject, Trusted
from autograde.tensors import pointer
from kvlib.tiles import tl

ROWS = np.arange(24, dtype=np.float32).reshape(6, 4)


def subject(work):
    return LocalSubject(work, "tiles")


def test_arrays_arrive_as_tiles_and_come_back_as_arrays() -> None:
    def work(x, n, size):
        assert x.dtype == tl.float32 and n.shape == () and type(size) is int
        return x * n, [x.max(1), n], {"size": size}

    sent = ROWS[:2].copy()
    got = subject(work).run(sent, np.array(3, np.int32), 5)
    assert np.array_equal(got[0], 3 * sent) and got[0].dtype == np.float32
    assert got[1][0].tolist() == [3.0, 7.0] and int(got[1][1]) == 3 and got[2] == {"size": 5}


def test_pointers_have_names_and_bounds() -> None:
    def work(k, at):
        return tl.load(k + at + tl.arange(0, 4))

    asked = subject(work)
    assert asked.run(pointer(ROWS, "k"), np.array(8, np.int32)).tolist() == [8, 9, 10, 11]
    assert asked.asked == "(k, 8)"
    with pytest.raises(LearnerRaised, match="outside of k: offset 24, and it has 24 numbers") as raised:
        asked.run(pointer(ROWS, "k"), np.array(21, np.int32))
    assert raised.value.kind == "IndexError" and "tl.load(k + at" in raised.value.line
    far = asked.run(pointer(ROWS, "k", start=2**40), np.array(2**40 + 4, np.int64))
    assert far.tolist() == [4, 5, 6, 7]


def test_the_pool_that_was_sent_is_safe() -> None:
    sent = ROWS.copy()
    subject(lambda k: tl.store(k + tl.arange(0, 4), 7.0)).run(pointer(sent, "k"))
    assert np.array_equal(sent, ROWS)


def test_reads_are_counted() -> None:
    def work(k, v):
        lanes = tl.arange(0, 8)
        return tl.load(k + lanes, mask=lanes < 5, other=0.0) + tl.load(k + lanes), tl.load(v + 1)

    [[first, second], read] = subject(work).largest(pointer(ROWS, "k"), pointer(ROWS, "v"))
    assert first[:5].tolist() == [0, 2, 4, 6, 8] and second == 1.0 and read == 5 + 8 + 1


def test_an_array_does_not_come_back() -> None:
    for work in (lambda k: ROWS, lambda k: (tl.load(k), ROWS[0]), lambda k: [np.float32(1.0)]):
        for ask in (subject(work).run, subject(work).largest):
            with pytest.raises(LearnerRaised, match="a NumPy array came back"):
                ask(pointer(ROWS, "k"))


def test_lent_objects_speak_in_tiles() -> None:
    class Store:
        def double(self, x):
            assert type(x) is np.ndarray
            return 2 * x

    def work(store, x):
        return store.double(x) + 1

    assert subject(work).run(Trusted(Store(), ("double",)), ROWS[0]).tolist() == [1, 3, 5, 7]


def test_a_text_is_no_dtype_and_a_dict_is_a_dict() -> None:
    def work(text, settings):
        return [text, sorted(settings), type(settings["x"]).__name__]

    got = subject(work).run("torch.float32", {"x": ROWS[:2], "pointer": 1})
    assert got == ["torch.float32", ["pointer", "x"], "Tile"]


def test_a_pointer_does_not_come_back() -> None:
    assert str(subject(lambda k: k).run(pointer(ROWS, "k"))) == "a Pointer"


def test_elsewhere_arrays_stay_arrays() -> None:
    assert LocalSubject(lambda x: type(x).__name__).run(ROWS) == "ndarray"
    assert LocalSubject(lambda x: type(x).__name__).run(pointer(ROWS, "k")) == "dict"
