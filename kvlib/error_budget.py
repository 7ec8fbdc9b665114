"""How far attention's output can move when every stored number is off by a known share of itself: a bound, derived.

Letters: S tokens held, D head dim.
"""

from __future__ import annotations

import torch

E4M3_RELATIVE = 2.0**-4  # half a step of three mantissa bits, for numbers that are not subnormal


def error_budget(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, relative: float) -> torch.Tensor:
    """A bound (D,) on how far each output of one query moves.

    q: (D,), exact. k, v: (S, D); each number of what is stored is off by at most `relative` times itself.

    1. Score j moves by at most delta_j = relative * sum_d |q_d k_jd| / sqrt(D): all errors on one side.
    2. No score moves further than delta, the largest of them.
    3. So no weight grows by more than a factor exp(2 * delta), or shrinks by more: its own exp moves by exp(delta), and
       so does the sum under it, the other way.
    4. A weight times a value grows by at most exp(2 * delta) * (1 + relative). What it grows by, over all tokens:
       sum_j w_j |v_j| * (exp(2 * delta) * (1 + relative) - 1), with the weights w of the exact scores.

    With a query of zeros no score moves, and what is left is the error of the values, here half of a mean of 3:

    >>> error_budget(torch.zeros(1), torch.ones(2, 1), torch.tensor([[2.0], [4.0]]), relative=0.5).tolist()
    [1.5]
    """
    root = q.shape[0] ** 0.5
    delta = (relative * (k * q).abs().sum(dim=1) / root).max()
    weights = torch.softmax(k @ q / root, dim=0)  # (S,)
    return weights @ v.abs() * (torch.exp(2 * delta) * (1 + relative) - 1)  # (D,)
