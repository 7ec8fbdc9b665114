"""Counts of slots, by hand."""

from __future__ import annotations

import pytest

from kvlib.utilisation import Request, layouts, sample_requests, shares


def test_a_request_holds_its_prompt_and_what_it_has_made():
    request = Request(arrival=2, prompt=5, new=3)
    assert [request.tokens(step) for step in range(6)] == [0, 0, 5, 6, 7, 0]


def test_three_layouts_by_hand():
    """A with 5 tokens and B with 3, in blocks of 4, of 16 tokens at most: A grows by one, B is done after a step."""
    steps = layouts([Request(0, 5, 2), Request(0, 3, 1)], max_len=16, block_size=4)
    assert [step.tokens for step in steps] == [8, 6]
    assert steps[0].slots == {"reserved": 32, "padded": 10, "paged": 12}
    assert steps[1].slots == {"reserved": 16, "padded": 6, "paged": 8}
    assert shares(steps) == {"reserved": 14 / 48, "padded": 14 / 16, "paged": 14 / 20}


def test_seventeen_tokens_in_blocks_of_sixteen():
    [step] = layouts([Request(0, 17, 1)], max_len=2048, block_size=16)
    assert step.slots["paged"] == 32 and step.slots["paged"] - step.tokens == 15


def test_on_a_stream_of_mixed_lengths_pages_waste_least_and_reservations_most():
    requests = sample_requests(40)
    assert requests == sample_requests(40) and requests != sample_requests(40, seed=1)
    steps = layouts(requests, 1024, 16)
    held = shares(steps)
    assert held["reserved"] < held["padded"] < held["paged"] < 1
    for step in steps:
        running = step.slots["reserved"] // 1024
        assert 0 <= step.slots["paged"] - step.tokens <= 15 * running  # less than a block for each


def test_what_does_not_fit_is_refused_with_its_numbers():
    with pytest.raises(ValueError, match="grows to 18 tokens, max_len is 17"):
        layouts([Request(0, 17, 2)], 17, 4)
    with pytest.raises(ValueError, match="block_size must be at least 1, got 0"):
        layouts([], 17, 0)
    assert layouts([], 17, 4) == [] and shares([]) == {}
