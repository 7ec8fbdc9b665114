"""What may cross between the trusted side and the learner's side: plain values, arrays, and references.

A *tree* is None, a bool, an int, a float, a string, a NumPy array, one of the three references below, or a list or a
string-keyed dict of trees. Nothing else crosses, so that a later host can send trees through a pipe as they are.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

MAX_DEPTH = 8  # of nested lists and dicts
MAX_ITEMS = 100_000  # of one tree, all its lists and dicts together
MAX_TEXT = 10_000  # characters of one string
MAX_BYTES = 8 << 20  # of one array
MAX_BITS = 64  # of one int


@dataclass(frozen=True)
class Handle:
    """An object that stays on the learner's side; the trusted side only names it."""

    id: int


@dataclass(frozen=True)
class Lent:
    """An object or function that stays on the trusted side; the learner's side gets a proxy of it."""

    id: int
    name: str
    is_function: bool
    methods: tuple[str, ...] = ()
    attributes: dict[str, Any] = field(default_factory=dict)  # copied once, as trees


@dataclass(frozen=True)
class Opaque:
    """Stands for a value that may not cross, such as a generator: only the name of its type is told."""

    type_name: str

    def __str__(self) -> str:
        article = "an" if self.type_name.lower().startswith(("a", "e", "i", "o", "u")) else "a"
        return f"{article} {self.type_name}"


def holds_only_numbers(tree: Any) -> bool:
    """Whether a tree is a number, an array, or a list of such: only then may NumPy look at it.

    Of a list with one long text in it, NumPy makes an array in which every item is as long.
    """
    kind = type(tree)
    if kind is list:
        return all(map(holds_only_numbers, tree))
    return kind in (bool, int, float, np.ndarray)


Reference = Callable[[Any], Any]
_WHOLE = {type(None), bool, float, Handle, Lent, Opaque}  # they cross as they are


def plain(value: Any, reference: Reference | None = None) -> Any:
    """Copy a value into a tree. `reference(value)` may answer a reference for objects that it knows, else None.

    What may not cross, or is too large to, becomes an `Opaque` that says so.
    """
    kind = type(value)
    if kind in _WHOLE:
        return value
    if kind is np.ndarray:
        return _plain_array(value)
    return _Copy(reference).tree(value, 0)


class _Copy:
    """One copy of one value, with a count of what it holds: a list that holds itself is endless."""

    def __init__(self, reference: Reference | None) -> None:
        self.reference = reference
        self.left = MAX_ITEMS

    def tree(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind in _WHOLE:
            return value
        if kind is int:
            return value if value.bit_length() <= MAX_BITS else Opaque(f"int of {value.bit_length()} bits")
        if kind is np.ndarray:
            return _plain_array(value)
        if self.reference is not None and (known := self.reference(value)) is not None:
            return known
        if isinstance(value, str):
            return str(value)[:MAX_TEXT]
        if isinstance(value, (list, tuple, dict, range)):
            return self._items(value, depth)
        if isinstance(value, np.generic):
            return _plain_scalar(value)
        if isinstance(value, np.ndarray):
            return _plain_array(np.asarray(value))
        if "torch" in sys.modules and isinstance(value, sys.modules["torch"].Tensor):
            return _plain_tensor(value)
        return Opaque(kind.__name__[:MAX_TEXT])

    def _items(self, value: list | tuple | dict | range, depth: int) -> Any:
        self.left -= len(value)
        if self.left < 0:
            return Opaque(f"{type(value).__name__} of too many items")
        if depth >= MAX_DEPTH:
            return Opaque(f"{type(value).__name__} inside {depth} others")
        if isinstance(value, dict):
            return {str(key)[:MAX_TEXT]: self.tree(item, depth + 1) for key, item in value.items()}
        return [self.tree(item, depth + 1) for item in value]


def _plain_array(array: np.ndarray) -> Any:
    if array.dtype.kind not in "biufc" or array.dtype.name in ("float128", "complex256", "longdouble", "clongdouble"):
        return Opaque(f"array of dtype {array.dtype}")
    if array.nbytes > MAX_BYTES:
        return Opaque(f"array too large to compare, of shape {array.shape}")
    return np.array(array, dtype=array.dtype.newbyteorder("="), order="C", copy=True)


def _plain_scalar(value: np.generic) -> Any:
    if value.dtype.kind not in "biuf":  # a complex one stays an array, so that nothing of it is lost
        return _plain_array(np.asarray(value))
    return value.item() if value.dtype.itemsize <= 8 else float(value)


def _plain_tensor(tensor: Any) -> Any:
    torch = sys.modules["torch"]
    if tensor.numel() * tensor.element_size() > MAX_BYTES:
        return Opaque(f"tensor too large to compare, of shape {tuple(tensor.shape)}")
    try:
        tensor = tensor.detach().cpu()
        if tensor.dtype in (torch.bfloat16, torch.float16) or "float8" in str(tensor.dtype):
            tensor = tensor.float()  # NumPy has no such type; every value of it is a float32 exactly
        return np.array(tensor.resolve_conj().resolve_neg().numpy(), order="C", copy=True)
    except Exception:  # sparse, quantised, without storage: torch's error would look like the learner's own
        return Opaque(f"tensor of dtype {tensor.dtype} and layout {tensor.layout} on {tensor.device}")
