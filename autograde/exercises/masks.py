"""Questions about masks: which query may see which key, and what a wrong mask looks like."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from autograde.compare import shown
from autograde.finding import Finding, held
from autograde.subject import Subject


def wanted_mask(q_positions: Sequence[int], k_positions: Sequence[int], window: int | None = None) -> np.ndarray:
    """(T, S) bools, position by position. A key at -1 is no token; a window counts the query's own position."""
    mask = np.zeros((len(q_positions), len(k_positions)), dtype=bool)
    for t, p in enumerate(q_positions):
        first = 0 if window is None else max(0, int(p) - window + 1)
        for s, j in enumerate(k_positions):
            mask[t, s] = int(j) in range(first, int(p) + 1)
    return mask


def sees_right(
    subject: Subject,
    got: Any,
    q_positions: Sequence[int],
    k_positions: Sequence[int],
    *,
    key: str,
    fact: str,
    window: int | None = None,
) -> Finding:
    """Whether a mask that came back is the right one for these positions: bools (T, S), or with more axes of one."""
    want = wanted_mask(q_positions, k_positions, window)
    array, complaint = _as_mask(got, want.shape)
    if array is None:
        return Finding(False, key, complaint, events=len(subject.record))
    if np.array_equal(array, want):
        return held(key, fact)
    t, s = (int(i) for i in np.argwhere(array != want)[0])
    p, j = int(q_positions[t]), int(k_positions[s])
    clue = _clue(array, q_positions, k_positions, want)
    return Finding(
        False,
        key,
        f"does not hold: {fact}" + (f"; {clue}" if clue else ""),
        where=f"query at position {p}, " + (f"key at position {j}" if j >= 0 else f"slot {s}, which holds no token"),
        expected=str(bool(want[t, s])),
        got=str(bool(array[t, s])),
        events=len(subject.record),
    )


def _as_mask(value: Any, shape: tuple[int, int]) -> tuple[np.ndarray | None, str]:
    """The value as bools of that shape, or None and a complaint."""
    wanted = f"wanted bools of shape {shape}, True = may be seen"
    if not isinstance(value, np.ndarray | list):
        return None, f"returned {shown(value)}, {wanted}"
    try:
        array = np.asarray(value)
    except ValueError:  # a ragged list
        return None, f"returned a list of uneven rows, {wanted}"
    if array.dtype != bool:
        kind = f"numbers of dtype {array.dtype}" if array.dtype.kind in "iufc" else "a list of other things"
        return None, f"returned {kind}, {wanted}"
    if array.shape != shape and [n for n in array.shape if n != 1] != [n for n in shape if n != 1]:
        return None, f"returned shape {array.shape}, {wanted}"
    return array.reshape(shape), ""


def _clue(got: np.ndarray, q_positions: Sequence[int], k_positions: Sequence[int], want: np.ndarray) -> str:
    """A plain fact about a wrong mask that points somewhere, or ""."""
    T, S = want.shape
    q, k = np.asarray(q_positions)[:, None], np.asarray(k_positions)[None, :]
    rows, columns = np.arange(T)[:, None], np.arange(S)[None, :]
    families = {
        "every key may be seen": np.ones((T, S), dtype=bool),
        "no key may be seen": np.zeros((T, S), dtype=bool),
        "True and False are the other way round": ~want,
        "a slot without a token is seen": k <= q,
        "a triangle from the top left: rows and columns are no positions": columns <= rows,
        "a triangle into the bottom right, whatever the positions are": columns <= rows + S - T,
        "a query does not see its own position": (k < q) & (k >= 0),
        "a query sees one position too many": (k <= q + 1) & (k >= 0),
    }
    return next((text for text, mask in families.items() if np.array_equal(got, mask)), "")
