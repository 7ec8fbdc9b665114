"""What may be reused of a held cache: the identity, the common beginning, and one token to compute."""

from __future__ import annotations

import pytest

from kvlib.reusable import IDENTITY, reusable


def request(tokens: list[int], **fields) -> dict:
    return {**dict.fromkeys(IDENTITY, "x"), "temperature": 1.0, "tokens": tokens, **fields}


@pytest.mark.parametrize(
    ("held", "wanted", "number"),
    [
        ([1, 2, 3], [1, 2, 3, 4, 5], 3),
        ([1, 2, 3], [1, 2, 4, 3], 2),
        ([1, 2, 3], [1, 2, 3], 2),  # the last one has to be computed
        ([1, 2, 3], [1, 2], 1),
        ([1, 2, 3], [1], 0),
        ([2, 1], [1, 2], 0),
        ([0, 0, 1], [0, 0, 2], 2),
        ([], [1], 0),
    ],
)
def test_the_common_beginning(held, wanted, number):
    assert reusable(request(held), request(wanted)) == number


@pytest.mark.parametrize("name", IDENTITY)
def test_each_field_of_the_identity_counts(name):
    assert reusable(request([1, 2]), request([1, 2, 3], **{name: "y"})) == 0
    assert reusable(request([1, 2], **{name: None}), request([1, 2, 3], **{name: None})) == 2


@pytest.mark.parametrize("name", IDENTITY)
def test_a_missing_field_is_no_none(name):
    lacks = request([1, 2])
    del lacks[name]
    assert reusable(lacks, request([1, 2, 3], **{name: None})) == 0
    assert reusable(request([1, 2], **{name: None}), {**lacks, "tokens": [1, 2, 3]}) == 0
    assert reusable(lacks, {**lacks, "tokens": [1, 2, 3]}) == 2


def test_other_fields_do_not_count():
    assert reusable(request([1, 2], temperature=0.0, user="ann"), request([1, 2, 3], seed=4)) == 2


def test_a_request_without_tokens_is_refused():
    with pytest.raises(ValueError, match="at least 1 token, got 0"):
        reusable(request([1]), request([]))
