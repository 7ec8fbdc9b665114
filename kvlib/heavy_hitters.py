"""A KV cache that keeps what was looked at: rows with little attention so far go first.

Letters: H query heads, Hkv KV heads, G = H // Hkv, T new tokens, n rows held for each KV head, D head dim. One layer of
one sequence. After "heavy hitters" of Zhang et al. 2023 (H2O): a budget, and part of it for the newest tokens.
"""

from __future__ import annotations

import math

import torch

from kvlib.gqa import group_size


class HeavyHitters:
    """At most `budget` rows for each KV head: those of the `recent` newest tokens, and those that were looked at most.

    Each KV head adds up the attention that its rows get, and decides for itself. What it holds is in the order of time.

    The first key matches every query, the others match none. Of them only the newest is kept:

    >>> cache = HeavyHitters(num_kv_heads=1, head_dim=1, budget=2, recent=1)
    >>> for key in (5.0, 0.0, 0.0):
    ...     out = cache.step(torch.ones(1, 1, 1), torch.full((1, 1, 1), key), torch.ones(1, 1, 1))
    >>> cache.positions(0), len(cache)
    ([0, 2], 3)
    """

    def __init__(self, num_kv_heads: int, head_dim: int, budget: int, recent: int) -> None:
        """Raises ValueError for a size below 1, and for `recent` below 0 or above the budget."""
        if min(num_kv_heads, head_dim, budget) < 1 or not 0 <= recent <= budget:
            given = f"Hkv {num_kv_heads}, D {head_dim}, budget {budget}, recent {recent}"
            raise ValueError(f"Hkv, D and budget must be at least 1, recent from 0 to the budget, got {given}")
        self.shape = (num_kv_heads, head_dim)
        self.budget, self.recent, self.seen = budget, recent, 0
        self.rows: torch.Tensor | None = None  # (2, Hkv, n, D)
        self.totals = torch.zeros(num_kv_heads, 0, dtype=torch.float64)  # (Hkv, n)
        self.held = torch.zeros(num_kv_heads, 0, dtype=torch.int64)  # (Hkv, n), positions

    def __len__(self) -> int:
        """Tokens seen. The next token's position is this number."""
        return self.seen

    def positions(self, head: int) -> list[int]:
        """The positions that KV head `head` holds, increasing. Raises ValueError for another head."""
        if not 0 <= head < self.shape[0]:
            raise ValueError(f"KV head {head} asked of {self.shape[0]} heads, 0 to {self.shape[0] - 1}")
        return self.held[head].tolist()

    @property
    def nbytes(self) -> int:
        """Bytes of the rows held."""
        return 0 if self.rows is None else self.rows.nbytes

    def step(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """Attend over all that is held and the new tokens, causally; then forget what exceeds the budget.

        q: (H, T, D); k, v: (Hkv, T, D). Returns (H, T, D). A chunk longer than the budget is read in full before
        anything goes. What went is not seen by later queries. Raises ValueError for other shapes; nothing has changed
        then.
        """
        self._check(q, k, v)
        (H, T, D), Hkv = q.shape, k.shape[0]
        new = torch.stack((k.detach(), v.detach()))  # (2, Hkv, T, D)
        rows = new if self.rows is None else torch.cat((self.rows, new), dim=2)  # (2, Hkv, n, D)
        n = rows.shape[2]
        places = torch.arange(self.seen, self.seen + T)
        # What was held is older than all of the chunk. Within the chunk: a query sees itself and those before it.
        visible = torch.arange(n) <= torch.arange(n - T, n)[:, None]  # (T, n)
        grouped = q.reshape(Hkv, H // Hkv, T, D)  # (Hkv, G, T, D)
        scores = grouped @ rows[0].unsqueeze(1).transpose(2, 3) / math.sqrt(D)  # (Hkv, G, T, n)
        weights = scores.masked_fill(~visible, -torch.inf).softmax(dim=-1)
        out = weights @ rows[1].unsqueeze(1)  # (Hkv, G, T, D)
        totals = torch.cat((self.totals, torch.zeros(Hkv, T, dtype=torch.float64)), dim=1)  # (Hkv, n)
        totals += weights.detach().sum(dim=(1, 2)).double()  # in float64: it is added to for ever
        held = torch.cat((self.held, places.expand(Hkv, T)), dim=1)  # (Hkv, n)
        kept = self._kept(totals)  # (Hkv, m)
        self.rows = rows.gather(2, kept[None, :, :, None].expand(2, -1, -1, D))  # (2, Hkv, m, D)
        self.totals, self.held = totals.gather(1, kept), held.gather(1, kept)
        self.seen += T
        return out.reshape(H, T, D)

    def _kept(self, totals: torch.Tensor) -> torch.Tensor:
        """Columns that stay, increasing: (Hkv, m). The newest tokens are always held, so they are the last columns."""
        n = totals.shape[1]
        safe = totals.clone()
        safe[:, n - min(self.recent, n) :] = torch.inf
        return safe.topk(min(self.budget, n), dim=1).indices.sort(dim=1).values

    def _check(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
        Hkv, D = self.shape
        T = k.shape[1] if k.ndim == 3 else 0
        if T < 1 or k.shape != (Hkv, T, D) or v.shape != k.shape:
            wanted = f"({Hkv}, T, {D}), T at least 1"
            raise ValueError(f"k and v must be {wanted}, got {tuple(k.shape)} and {tuple(v.shape)}")
        if q.ndim != 3 or q.shape[1:] != (T, D):
            raise ValueError(f"q must be (H, {T}, {D}), got {tuple(q.shape)}")
        group_size(q.shape[0], Hkv)
