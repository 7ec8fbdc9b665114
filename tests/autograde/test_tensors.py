"""Work in torch: what it is given, what it holds, what it makes on the way, and what it finds in new memory."""

from __future__ import annotations

import subprocess
import sys
from collections import deque
from types import SimpleNamespace

import numpy as np
import pytest

from autograde.lazy import Later, LazyModule
from autograde.poison import poisoned_memory
from autograde.subject import LearnerRaised, LocalSubject, Trusted

torch = pytest.importorskip("torch", reason="torch is missing: see `make torch`")

from autograde.tensors import named_dtype, storage_bytes, to_tensor  # noqa: E402


class Keeper:
    """Keeps what it is given."""

    def __init__(self, tensor, dtype=None):
        self.tensor, self.dtype = tensor, dtype

    def told(self):
        return [type(self.tensor).__name__, str(self.tensor.dtype), str(self.dtype)]

    def spoil(self):
        self.tensor[...] = -1


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "int32", "bool"])
def test_arrays_arrive_as_tensors_of_their_own(dtype) -> None:
    subject, sent = LocalSubject(Keeper, tensors=True), np.ones((2, 3), dtype=dtype)
    keeper = subject.new(sent, "torch.float32")
    assert subject.call(keeper, "told") == ["Tensor", f"torch.{dtype}", "torch.float32"]
    subject.call(keeper, "spoil")
    assert (sent == 1).all(), "the stage's own numbers are safe"


def test_without_the_word_arrays_stay_arrays() -> None:
    subject = LocalSubject(Keeper)
    assert subject.call(subject.new(np.ones(2), "torch.float32"), "told") == ["ndarray", "float64", "torch.float32"]


def test_a_kept_tensor_can_be_filled_and_read() -> None:
    subject = LocalSubject(Keeper, tensors=True)
    kept = subject.put(np.arange(3.0))
    keeper = subject.new(kept)
    subject.fill(kept, np.array([4.0, 5.0, 6.0]))
    assert subject.get(keeper, "tensor").tolist() == [4.0, 5.0, 6.0]
    subject.call(keeper, "spoil")
    assert subject.read(kept).tolist() == [-1.0, -1.0, -1.0]
    subject.fill(kept, float("nan"))
    assert np.isnan(subject.read(kept)).all()


def test_lent_objects_and_functions_speak_in_tensors() -> None:
    class Store:
        size = np.array([3.0])

        def double(self, x):
            assert type(x) is np.ndarray
            return [2 * x, x > 1]

    def work(store, function):
        double, above = store.double(torch.tensor([1.0, 2.0]))
        return [double.dtype == torch.float32, above.dtype == torch.bool, type(store.size).__name__, function(double)]

    got = LocalSubject(work, tensors=True).run(Trusted(Store(), ("double",), ("size",)), lambda x: x + 1)
    assert got[:3] == [True, True, "Tensor"]
    assert got[3].tolist() == [3.0, 5.0]


def test_names_of_dtypes() -> None:
    assert named_dtype("torch.bfloat16") is torch.bfloat16
    assert named_dtype("torch.nn") == "torch.nn", "a module is no dtype"
    assert named_dtype("float32") == "float32"
    assert to_tensor(np.zeros((0, 3))).shape == (0, 3)


def test_a_tensor_has_memory_of_its_own() -> None:
    sent = np.ones(2)
    to_tensor(sent)[0] = 5.0
    assert sent.tolist() == [1.0, 1.0]


class Slotted:
    __slots__ = ("rows", "unset")

    def __init__(self, rows):
        self.rows = rows


def closure(tensor):
    def give():
        return tensor

    return SimpleNamespace(give=give)


BUFFER = torch.zeros(4, 6)  # 96 bytes
ARRAY = np.zeros((4, 6))  # 192 bytes


@pytest.mark.parametrize(
    ("held", "size"),
    [
        (Keeper(BUFFER), 96),
        (Keeper(BUFFER[:, :2]), 96),
        (Keeper([BUFFER[0], BUFFER.T, BUFFER]), 96),
        (Keeper({"K": BUFFER, "V": [torch.zeros(3, dtype=torch.float16)]}), 102),
        (Keeper(deque([BUFFER])), 96),
        (Keeper((ARRAY[1:], ARRAY[:, ::2])), 192),
        (Slotted(BUFFER), 96),
        (closure(BUFFER), 96),
        (Keeper(closure(BUFFER)), 96),
        (Keeper(torch.zeros(1).expand(1000)), 4),
        (Keeper({"kept": [bytes(7), bytearray(5)]}), 12),
        (Keeper(None), 0),
    ],
)
def test_held_memory_is_counted_once(held, size) -> None:
    assert storage_bytes(held) == size


def test_an_object_that_holds_itself_comes_to_an_end() -> None:
    keeper = Keeper([])
    keeper.tensor.append(keeper)
    assert storage_bytes(keeper) == 0


def test_the_stage_asks_for_it() -> None:
    subject = LocalSubject(Keeper, tensors=True)
    assert subject.storage(subject.new(np.zeros((5, 7), dtype="float32"))) == 140


@pytest.mark.parametrize(
    ("work", "largest"),
    [
        (lambda x: x, 0),
        (lambda x: x[:, :1].expand(4, 99).T, 0),
        (lambda x: x.mul_(2), 0),
        (lambda x: x.sum(), 8),
        (lambda x: x.repeat_interleave(3, 0).sum(), 3 * 4 * 6 * 8),
        (lambda x: x[None].expand(3, 4, 6).reshape(12, 6)[0], 3 * 4 * 6 * 8),
        (lambda x: torch.cat([x, x])[:1], 2 * 4 * 6 * 8),
    ],
)
def test_the_largest_tensor_made_on_the_way(work, largest) -> None:
    """Views and writing in place make nothing new."""
    x = np.ones((4, 6))
    got, size = LocalSubject(work, tensors=True).largest(x)
    assert size == largest
    np.testing.assert_array_equal(got, work(torch.tensor(x)).numpy())


class Store:
    """Holds a buffer, in whatever way, and gives pieces of it."""

    def __init__(self, rows):
        self.held = {"rows": [rows.clone()]}

    def view(self, start, stop):
        return self.held["rows"][0][start:stop]

    def copied(self, start, stop):
        return self.view(start, stop).clone()

    def all_doubled(self, start, stop):
        return (self.held["rows"][0] * 2)[start:stop] / 2

    def grown(self, start, stop):
        self.held["rows"].append(torch.zeros(9))
        return self.view(start, stop)

    def given(self, rows):
        return rows[1:]


@pytest.mark.parametrize(("method", "largest"), [("view", 0), ("copied", 96), ("all_doubled", 240), ("grown", 36)])
def test_the_largest_tensor_made_by_a_method(method, largest) -> None:
    """What the object held before the call is not made by it."""
    x = np.arange(30.0).reshape(5, 6)
    subject = LocalSubject(Store, tensors=True)
    store = subject.new(x)
    got, size = subject.largest_of(store, method, 1, 3)
    assert size == largest
    np.testing.assert_array_equal(got, x[1:3])
    assert subject.asked == f"{method}(1, 3)"
    assert subject.largest_of(store, "given", np.ones(3))[1] == 0


def test_the_largest_tensor_of_a_method_that_is_missing_or_fails() -> None:
    subject = LocalSubject(Store, tensors=True)
    store = subject.new(np.ones((2, 3)))
    with pytest.raises(LearnerRaised, match="Store has no read"):
        subject.largest_of(store, "read", 0, 1)
    with pytest.raises(LearnerRaised, match=r"Store.view\(start, stop\) is called with 1 argument"):
        subject.largest_of(store, "view", 0)


def test_a_function_that_keeps_a_tensor_is_measured_as_ever() -> None:
    """For a function alone, only what it is given counts as made before: its own memory is part of what it takes."""
    kept = torch.zeros(7)
    assert LocalSubject(lambda x: kept[1:], tensors=True).largest(np.ones(2))[1] == 28


def test_an_error_on_the_way_is_the_learners() -> None:
    with pytest.raises(LearnerRaised, match="ValueError: invalid literal"):
        LocalSubject(lambda x: int("no"), True).largest(np.ones(2))
    with pytest.raises(LearnerRaised, match="is called with 1 argument"):
        LocalSubject(lambda: 1, True).largest(np.ones(2))


def test_new_memory_is_poisoned_and_nothing_stays_so() -> None:
    before = [torch.empty, torch.empty_like, torch.Tensor.new_empty, np.empty, np.empty_like]
    with poisoned_memory():
        x = torch.ones(2, dtype=torch.float16)
        made = [torch.empty(3), torch.empty_like(x), x.new_empty(2, 2), torch.empty_strided((2,), (1,))]
        made += [torch.empty(2, dtype=torch.bfloat16)]
        assert all(tensor.isnan().all() for tensor in made)
        assert np.isnan(np.empty(2)).all()
        assert np.isnan(np.empty_like(np.ones(2, dtype=np.float32))).all()
        assert torch.empty(2, dtype=torch.int64).shape == (2,)
        assert np.empty(2, dtype=int).shape == (2,)
        assert torch.zeros(2).tolist() == [0.0, 0.0]
    assert [torch.empty, torch.empty_like, torch.Tensor.new_empty, np.empty, np.empty_like] == before


def test_lazy_names_are_the_real_ones() -> None:
    lazy = LazyModule("torch")
    assert lazy.nn.functional.softmax is torch.nn.functional.softmax
    assert Later("math", "hypot")(3, 4) == 5.0
    assert Later("math", "hypot").__name__ == "hypot"


def test_declaring_all_exercises_imports_no_torch() -> None:
    """`progress()` in the first lesson knows every exercise; it must not pay seconds for it, or need torch at all."""
    code = "import sys; from autograde.exercises import load; load(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_measuring_does_not_import_the_compiler() -> None:
    """torch would import some 800 modules, a second and more, at the first tensor that is watched."""
    code = (
        "import sys, torch; from autograde.tensors import largest_made; before = set(sys.modules); "
        "assert largest_made(lambda x: x.repeat(2), [torch.zeros(3)], {})[1] == 24; "
        "sys.exit(len(set(sys.modules) - before) > 20)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
