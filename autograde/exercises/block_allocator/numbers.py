"""Lists of whole numbers that came back, however they were made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

MOST = 2000  # numbers of a list: no pool here is a tenth as large, and looking at millions would take the judge minutes
LONG = 14  # blocks in one line


def whole_numbers(value: Any) -> list[int] | None:
    """A list, a tuple or an array of whole numbers as a list of ints; None for anything else, and for far too many."""
    if too_many(value):
        return None
    if isinstance(value, np.ndarray):  # np.array([]) has lost the kind of its numbers
        return value.tolist() if value.ndim == 1 and (value.dtype.kind in "iu" or value.size == 0) else None
    if not isinstance(value, list):
        return None
    items = [item.item() if isinstance(item, np.ndarray) and item.ndim == 0 else item for item in value]
    return items if all(type(item) is int for item in items) else None


def too_many(value: Any) -> bool:
    """Whether a list or an array holds more than any answer does."""
    return (value.size if isinstance(value, np.ndarray) else len(value) if isinstance(value, list) else 0) > MOST


def listed(value: Any) -> str:
    """What came back instead, in a few words."""
    if value is None:
        return "None: is a `return` missing?"
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype}, shape {value.shape}"
    return " ".join(_text(value).split())[:60]


def _text(value: Any) -> str:
    if isinstance(value, list):  # what may not cross is named in it, not written as an object of the grader's
        return f"[{', '.join(map(_text, value[: LONG * 2]))}]"
    return repr(value) if isinstance(value, str) else str(value)


def shortened(blocks: Sequence[int]) -> str:
    """A list of blocks; of a long one its ends."""
    if len(blocks) <= LONG:
        return str(list(blocks))
    return f"[{', '.join(map(str, blocks[:4]))}, ..., {', '.join(map(str, blocks[-2:]))}]"
