"""Which keys a query may see, told from positions alone.

Letters: T queries, S keys. A chunk against a cache has T < S: the mask is a rectangle, and its triangle ends at the
bottom right. The first rows of a square triangle get that wrong, positions do not.
"""

from __future__ import annotations

import torch


def visible(q_positions: torch.Tensor, k_positions: torch.Tensor, window: int | None = None) -> torch.Tensor:
    """Bools (..., T, S), True = may be seen: a query at position p sees the keys at positions 0 to p.

    q_positions: (..., T) whole numbers. k_positions: (..., S), in any order; -1 = no token, which nobody sees.
    window: sees the last `window` positions only, p itself among them; None = all.
    Raises ValueError for a window below 1, which would let a query see nothing.

    >>> visible(torch.tensor([3, 4]), torch.arange(5)).int().tolist()  # two new tokens, three held before them
    [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]
    """
    if window is not None and window < 1:
        raise ValueError(f"window must be at least 1 token, got {window}")
    q, k = q_positions[..., :, None], k_positions[..., None, :]  # (..., T, 1), (..., 1, S)
    seen = (k >= 0) & (k <= q)  # (..., T, S)
    return seen if window is None else seen & (k > q - window)
