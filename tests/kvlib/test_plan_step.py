"""What one step computes."""

from __future__ import annotations

import pytest

from kvlib.plan_step import plan_step


@pytest.mark.parametrize(
    ("decoding", "prefilling", "max_tokens", "want"),
    [
        ([4, 9], [[7, 20], [2, 5]], 8, [[4, 1], [9, 1], [7, 6]]),
        ([4, 9], [[7, 3], [2, 5]], 8, [[4, 1], [9, 1], [7, 3], [2, 3]]),
        ([4, 9, 0], [[7, 3]], 2, [[4, 1], [9, 1]]),
        ([4, 9], [[7, 3]], 2, [[4, 1], [9, 1]]),
        ([], [[7, 0], [2, 5]], 3, [[2, 3]]),
        ([], [], 3, []),
        ([1], [[2, 4]], 1, [[1, 1]]),
    ],
)
def test_who_gets_how_many(decoding, prefilling, max_tokens, want) -> None:
    before = (list(decoding), [list(entry) for entry in prefilling])
    assert plan_step(decoding, prefilling, max_tokens) == want
    assert (decoding, prefilling) == before
