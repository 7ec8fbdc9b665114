"""Masks that come back: which are right, where a wrong one differs first, and what it is taken for."""

from __future__ import annotations

import numpy as np
import pytest

from autograde.exercises.axes import named
from autograde.exercises.masks import sees_right, wanted_mask
from autograde.finding import Finding
from autograde.subject import LocalSubject

Q, K = [3, 4], [0, 1, 2, 3, 4]
RIGHT = [[True, True, True, True, False], [True] * 5]


def ask(mask, q=Q, k=K, **options) -> Finding:
    return sees_right(LocalSubject(None), mask, q, k, key="mask", fact="it is right", **options)


def test_what_is_wanted():
    assert wanted_mask(Q, K).tolist() == RIGHT
    assert wanted_mask([5, 0], [4, -1, 0, 6]).tolist() == [[True, False, True, False], [False, False, True, False]]
    assert wanted_mask([3, 4], range(6), window=2).tolist() == [
        [False, False, True, True, False, False],
        [False, False, False, True, True, False],
    ]
    assert wanted_mask([1], [-1, 0, 1], window=5).tolist() == [[False, True, True]]


@pytest.mark.parametrize("mask", [np.array(RIGHT), RIGHT, np.array(RIGHT)[None, None]])
def test_right_masks(mask):
    assert ask(mask).ok


def test_one_wrong_place_is_named_by_its_positions():
    mask = np.array(RIGHT)
    mask[0, 4] = True
    finding = ask(mask[:, ::-1], k=K[::-1])
    assert not finding.ok
    assert finding.where == "query at position 3, key at position 4"
    assert (finding.expected, finding.got) == ("False", "True")


def test_a_slot_without_a_token_is_named_by_its_number():
    finding = ask(np.ones((1, 3), dtype=bool), q=[2], k=[0, -1, 1])
    assert finding.where == "query at position 2, slot 1, which holds no token"
    assert "every key may be seen" in finding.fact


@pytest.mark.parametrize(
    ("mask", "clue"),
    [
        (np.tri(2, 5, dtype=bool), "from the top left"),
        (~np.array(RIGHT), "the other way round"),
        (np.ones((2, 5), dtype=bool), "every key"),
        (np.zeros((2, 5), dtype=bool), "no key"),
        (np.tri(2, 5, 2, dtype=bool), "its own position"),
    ],
)
def test_well_known_masks_are_recognised(mask, clue):
    assert clue in ask(mask).fact


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (None, "return"),
        (True, "returned True, wanted bools of shape (2, 5)"),
        (np.array(RIGHT, dtype=int), "returned numbers of dtype int64, wanted bools"),
        (np.where(RIGHT, 0.0, -np.inf), "returned numbers of dtype float64"),
        (np.array(RIGHT).T, "returned shape (5, 2), wanted bools of shape (2, 5)"),
        ([[True], [True, False]], "uneven rows"),
        ([["a"] * 5] * 2, "a list of other things"),
    ],
)
def test_what_is_no_mask(value, complaint):
    finding = ask(value)
    assert not finding.ok
    assert complaint in finding.fact
    assert finding.where == ""


def test_axes_get_their_names():
    wrong = Finding(False, "key", "a fact", where="0, 2, 1")
    assert named(wrong, ("sequence", "row", "feature")).where == "sequence 0, row 2, feature 1"
    assert named(wrong, ("sequence", "row"), before="chunk 2").where == "chunk 2, 0, 2, 1"
    assert named(Finding(False, "key", "returned None"), ("row",), before="chunk 2").where == "chunk 2"
    right = Finding(True, "key", "a fact")
    assert named(right, ("row",), before="chunk 2") is right
