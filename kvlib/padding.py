"""Attention over a padded batch: positions say what is a token and what may be seen.

Letters: B sequences (rows), T queries, S keys, H query heads, Hkv KV heads, D head dim. Position -1 is padding.
"""

from __future__ import annotations

import torch

from kvlib.gqa import gqa_attend
from kvlib.masks import visible


def padded_positions(real: torch.Tensor, lengths: torch.Tensor | None = None) -> torch.Tensor:
    """The position of each token in its own row, and -1 for padding: int64 (B, T).

    real: bools (B, T), True = a token. lengths: the tokens that each row holds already, (B,); None = none yet.
    The column of a token is not its position: with two columns of padding on the left they differ by two.

    >>> padded_positions(torch.tensor([[False, False, True], [True, True, True]])).tolist()
    [[-1, -1, 0], [0, 1, 2]]
    """
    start = 0 if lengths is None else lengths[:, None]
    return torch.where(real, start + real.cumsum(dim=1) - 1, torch.tensor(-1))


def ragged_attend(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, q_positions: torch.Tensor, k_positions: torch.Tensor
) -> torch.Tensor:
    """Attention in which each row of the batch sees its own tokens only: each as it would be alone, without padding.

    q: (B, H, T, D). k, v: (B, Hkv, S, D). q_positions: (B, T), k_positions: (B, S), in any order; -1 = padding, which
    may hold anything, NaN too. Returns (B, H, T, D), with zeros for padded queries.
    Raises ValueError where Hkv does not divide H.

    >>> q, k = torch.ones(1, 1, 2, 1), torch.zeros(1, 1, 2, 1)
    >>> v = torch.tensor([float("nan"), 5.0]).view(1, 1, 2, 1)  # the first column is padding
    >>> positions = torch.tensor([[-1, 0]])
    >>> ragged_attend(q, k, v, positions, positions).flatten().tolist()
    [0.0, 5.0]
    """
    mask = visible(q_positions, k_positions)  # (B, T, S)
    blind = ~mask.any(dim=-1)  # (B, T): queries that see no key; softmax over nothing is 0/0
    absent = (k_positions < 0)[:, None, :, None]  # (B, 1, S, 1)
    # A mask takes weight away, but 0 * NaN is NaN: what must not count has to be a number.
    k, v = k.masked_fill(absent, 0.0), v.masked_fill(absent, 0.0)
    out = gqa_attend(q, k, v, mask | blind[..., None])  # blind queries see all, so that nothing depends on a kernel
    return out.masked_fill(blind[:, None, :, None], 0.0)
