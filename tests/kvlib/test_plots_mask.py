"""The picture of a mask: what it marks, and what it says in words."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from matplotlib.patches import Rectangle  # noqa: E402

from kvlib.plots_mask import describe_mask, right_mask, show_mask  # noqa: E402

TOP_LEFT = np.tril(np.ones((2, 5), dtype=bool))


def crossed(axes) -> list[tuple[int, int]]:
    """(row, column) of every cell that is marked as wrong."""
    boxes = [patch for patch in axes.patches if isinstance(patch, Rectangle) and patch.get_hatch()]
    return sorted((round(box.get_y() + 0.44), round(box.get_x() + 0.44)) for box in boxes)


def test_the_hand_example():
    assert right_mask([3, 4], range(5)).astype(int).tolist() == [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]
    assert right_mask([0, 1, -1], [1, -1, 0]).astype(int).tolist() == [[0, 0, 1], [1, 0, 1], [0, 0, 0]]
    assert right_mask([5], [2, 3, 4, 5, 6], window=3).astype(int).tolist() == [[0, 1, 1, 1, 0]]


def test_every_wrong_cell_is_marked_and_no_other():
    figure = show_mask(TOP_LEFT, [3, 4])
    yours, right = figure.axes
    assert crossed(yours) == [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (1, 4)]
    assert crossed(right) == []
    assert yours.get_title(loc="left") == "this mask: 6 wrong cells"
    words = [text.get_text() for text in yours.texts]
    assert words == ["1", "0!", "0!", "0!", "0", "1", "1", "0!", "0!", "0!"], "not by colour alone"
    assert [label.get_text() for label in yours.get_yticklabels()] == ["3", "4"]
    assert [label.get_text() for label in yours.get_xticklabels()] == ["0", "1", "2", "3", "4"]


def test_a_right_mask_says_so():
    mask = right_mask([3, 4], range(5))
    figure = show_mask(mask.tolist(), np.array([3, 4]), range(5))
    assert crossed(figure.axes[0]) == []
    assert figure.alt.startswith("A mask of 2 queries and 5 keys: every cell is right.")
    assert "The query at position 3 sees keys 0, 1, 2, 3." in figure.alt


def test_in_words():
    assert describe_mask([[False, True, True]], [1], [0, 1, -1]) == (
        "A mask of 1 queries and 3 keys: 2 wrong cells. "
        "The query at position 1 sees keys 1, -1, and should see keys 0, 1."
    )
    assert "sees no key." in describe_mask([[False]], [-1], [0])


def test_tensors_are_taken():
    torch = pytest.importorskip("torch")
    figure = show_mask(torch.ones(2, 3, dtype=torch.bool), torch.tensor([1, 2]))
    assert figure.alt.count("should see") == 1


@pytest.mark.parametrize("mask", [np.ones((2, 5)), np.ones((5, 2), dtype=bool), True, TOP_LEFT.T, TOP_LEFT[None]])
def test_what_is_no_mask_is_refused(mask):
    with pytest.raises(ValueError, match=r"must be bool of shape \(2, "):
        show_mask(mask, [3, 4])


def test_positions_must_be_whole_numbers():
    with pytest.raises(ValueError, match="q_positions must be whole numbers of shape"):
        show_mask(TOP_LEFT, [0.5, 1.0])
    with pytest.raises(ValueError, match="k_positions must be whole numbers of shape"):
        show_mask(TOP_LEFT, [0, 1], [[0, 1, 2, 3, 4]])
