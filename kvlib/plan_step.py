"""What one step computes: a token for everybody who decodes, and prompts with what is left of the budget."""

from __future__ import annotations

from collections.abc import Sequence


def plan_step(decoding: Sequence[int], prefilling: Sequence[Sequence[int]], max_tokens: int) -> list[list[int]]:
    """Share a budget of max_tokens tokens out: a list of [id, num_tokens], each with one token at least.

    decoding: ids that need one token each, served first and in order, as far as the budget goes.
    prefilling: [id, remaining] each, served in order from what is left, as many tokens as remain of each.
    Nothing passed in changes.

    >>> plan_step(decoding=[1, 2], prefilling=[[3, 4], [5, 9]], max_tokens=8)
    [[1, 1], [2, 1], [3, 4], [5, 2]]
    """
    plan = [[i, 1] for i in decoding[:max_tokens]]
    left = max_tokens - len(plan)
    for i, remaining in prefilling:
        chunk = min(remaining, left)
        if chunk > 0:
            plan.append([i, chunk])
            left -= chunk
    return plan
