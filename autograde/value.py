"""What may cross between the trusted side and the learner's side: plain values, arrays, and references.

A *tree* is None, a bool, an int, a float, a string, a NumPy array, one of the three references below, or a list or a
string-keyed dict of trees. Nothing else crosses, so that a later host can send trees through a pipe as they are.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any

import numpy as np

MAX_DEPTH = 8  # of nested lists and dicts
MAX_ITEMS = 100_000  # of one list or dict
MAX_TEXT = 10_000  # characters of one string


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
        return f"a {self.type_name}"


def plain(value: Any, reference: Any = None, depth: int = 0) -> Any:
    """Copy a value into a tree. `reference(value)` may answer a reference for objects that it knows, else None."""
    if reference is not None and (known := reference(value)) is not None:
        return known
    if value is None or type(value) in (bool, int, float, Handle, Lent, Opaque):
        return value
    if isinstance(value, str):
        return str(value)[:MAX_TEXT]
    if isinstance(value, np.generic | np.ndarray):
        return _plain_array(value)
    if "torch" in sys.modules and isinstance(value, sys.modules["torch"].Tensor):
        return _plain_tensor(value)
    if depth < MAX_DEPTH and isinstance(value, list | tuple | dict) and len(value) <= MAX_ITEMS:
        if isinstance(value, dict):
            return {str(key)[:MAX_TEXT]: plain(item, reference, depth + 1) for key, item in value.items()}
        return [plain(item, reference, depth + 1) for item in value]
    return Opaque(type(value).__name__)


def _plain_array(value: np.generic | np.ndarray) -> Any:
    array = np.asarray(value)
    if array.dtype.kind not in "biufc":
        return Opaque(f"array of dtype {array.dtype}")
    if isinstance(value, np.generic):
        return value.item() if array.dtype.itemsize <= 8 else float(value)
    return np.array(array, order="C", copy=True)


def _plain_tensor(value: Any) -> Any:
    torch = sys.modules["torch"]
    tensor = value.detach().cpu()
    if tensor.dtype in (torch.bfloat16, torch.float16) or "float8" in str(tensor.dtype):
        tensor = tensor.float()  # NumPy has no such type; every value of it is a float32 exactly
    return np.array(tensor.resolve_conj().resolve_neg().numpy(), order="C", copy=True)
