"""A picture of an attention mask, cell by cell, beside the right one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kvlib.figure import BLUE, GREY, RED, described, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def right_mask(q_positions: Sequence[int], k_positions: Sequence[int], window: int | None = None) -> np.ndarray:
    """(T, S), True where the query at one position may see the key at another. Position -1 is no token.

    q_positions: (T,). k_positions: (S,). window: the newest tokens that a query sees, itself counted; None for all.

    >>> right_mask([1, 2], [0, 1, 2], window=2).astype(int).tolist()
    [[1, 1, 0], [0, 1, 1]]
    """
    reach = window if window is not None else max([*q_positions, 0]) + 1
    return np.array([[0 <= k <= q and q - k < reach for k in k_positions] for q in q_positions], dtype=bool)


def show_mask(mask: Any, q_positions: Any, k_positions: Any = None, window: int | None = None) -> Figure:
    """Draw a mask beside the right one for these positions, and mark every cell where they differ.

    mask: bool (T, S), True = the query (row) may see the key (column); a tensor, an array or lists.
    q_positions: (T,) the position of each query. k_positions: (S,); None for 0 to S - 1. -1 stands for no token.
    window: the newest tokens that a query sees, itself counted; None for all. ValueError when the shapes do not fit.
    Returns the Figure; its `alt` describes it in words.
    """
    cells = np.asarray(mask)
    queries = _whole("q_positions", q_positions)
    keys = _whole("k_positions", np.arange(max([0, *cells.shape[-1:]])) if k_positions is None else k_positions)
    if cells.dtype != bool or cells.shape != (len(queries), len(keys)):
        wanted = f"bool of shape ({len(queries)}, {len(keys)}), one row for each query, one column for each key"
        raise ValueError(f"the mask must be {wanted}; got {cells.dtype} of shape {cells.shape}")
    right = right_mask(queries, keys, window)
    figure = new_figure(width=max(7.0, 0.8 * len(keys) + 3.0), height=0.55 * len(queries) + 1.4)
    yours, wanted = figure.subplots(1, 2)
    _draw(yours, f"this mask: {_wrong(cells, right)}", cells, cells != right, queries, keys)
    _draw(wanted, "the right one", right, np.zeros_like(right), queries, keys)
    return described(figure, describe_mask(cells, queries, keys, window))


def describe_mask(mask: Any, q_positions: Sequence[int], k_positions: Sequence[int], window: int | None = None) -> str:
    """`show_mask` in words: what each query sees, and where that is wrong."""
    cells, right = np.asarray(mask), right_mask(q_positions, k_positions, window)
    sentences = [f"A mask of {len(q_positions)} queries and {len(k_positions)} keys: {_wrong(cells, right)}."]
    for q, row, want in zip(q_positions, cells, right, strict=True):
        sees = [k for k, seen in zip(k_positions, row, strict=True) if seen]
        sentences.append(f"The query at position {q} sees {_listed(sees)}")
        sentences[-1] += "." if (row == want).all() else f", and should see {_listed(_seen(k_positions, want))}."
    return " ".join(sentences)


def _seen(positions: Sequence[int], row: np.ndarray) -> list[int]:
    return [k for k, seen in zip(positions, row, strict=True) if seen]


def _listed(positions: list[int]) -> str:
    return f"keys {', '.join(map(str, positions))}" if positions else "no key"


def _wrong(cells: np.ndarray, right: np.ndarray) -> str:
    count = int((cells != right).sum())
    return "every cell is right" if count == 0 else f"{count} wrong cell{'s' * (count > 1)}"


def _whole(name: str, positions: Any) -> list[int]:
    array = np.asarray(positions)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ValueError(f"{name} must be whole numbers of shape (n,), got {array.dtype} of shape {array.shape}")
    return [int(position) for position in array]


def _draw(axes: Axes, title: str, cells: np.ndarray, wrong: np.ndarray, q: list[int], k: list[int]) -> None:
    from matplotlib.patches import Rectangle

    for i, j in np.ndindex(cells.shape):
        face, text = (BLUE, "white") if cells[i, j] else ("white", GREY)
        box: dict[str, Any] = {"facecolor": face, "edgecolor": GREY, "linewidth": 0.8}
        if wrong[i, j]:
            box |= {"edgecolor": RED, "linewidth": 3.0, "hatch": "xx"}
        axes.add_patch(Rectangle((j - 0.44, i - 0.44), 0.88, 0.88, **box))
        label = f"{int(cells[i, j])}!" if wrong[i, j] else str(int(cells[i, j]))
        paper = {"boxstyle": "round,pad=0.15", "facecolor": face, "edgecolor": "none"} if wrong[i, j] else None
        ink = "black" if wrong[i, j] and not cells[i, j] else text
        axes.text(j, i, label, ha="center", va="center", color=ink, bbox=paper)
    axes.set_title(title, loc="left")
    axes.set_xlim(-0.6, len(k) - 0.4)
    axes.set_ylim(len(q) - 0.4, -0.6)
    axes.set_aspect("equal")
    axes.set_xticks(range(len(k)), ["none" if position < 0 else str(position) for position in k])
    axes.set_yticks(range(len(q)), ["none" if position < 0 else str(position) for position in q])
    axes.set_xlabel("position of the key")
    axes.set_ylabel("position of the query")
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
