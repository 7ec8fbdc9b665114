"""Pictures of blocks and of slots: every number in them, and their words."""

from __future__ import annotations

import pytest

pytest.importorskip("matplotlib")

from kvlib.plots_paging import (  # noqa: E402
    STEPS,
    Frame,
    describe_blocks,
    describe_utilisation,
    draw_blocks,
    draw_utilisation,
    film_blocks,
    owners,
)
from kvlib.shared_tables import SharedTables  # noqa: E402
from kvlib.utilisation import Request, layouts  # noqa: E402

EXAMPLE = Frame("so far", {"A": ([2, 0], 5), "B": ([1], 3)})


def texts(figure):
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def test_every_token_is_where_its_table_says():
    assert owners(EXAMPLE, 3, 4) == [["A4", "", "", ""], ["B0", "B1", "B2", ""], ["A0", "A1", "A2", "A3"]]


def test_a_shared_block_names_all_its_holders():
    cells = owners(Frame("", {"A": ([0], 2), "C": ([0], 1)}), 1, 4)
    assert cells == [["A0\nC0", "A1", "", ""]]


def test_a_table_that_is_wrong_is_drawn_as_far_as_it_goes():
    """A reader's own tables may be too short, or name a block that is not there."""
    frame = Frame("", {"A": ([7, 0], 9)})
    assert owners(frame, 2, 4)[0] == ["A4", "A5", "A6", "A7"]
    draw_blocks(frame, 2, 4)


def test_the_picture_has_every_token_and_the_counts():
    figure = draw_blocks(EXAMPLE, 4, 4)
    found = texts(figure)
    assert [text for text in found if text in ("A0", "A4", "B2")] == ["A4", "B2", "A0"]
    assert "8 tokens\n12 slots taken\n1 blocks free" in found[-1]
    assert figure.alt == describe_blocks(EXAMPLE, 4, 4)
    assert figure.alt == (
        "so far. A has 5 tokens in blocks 2, 0; B has 3 tokens in block 1; 1 of 4 blocks are free; a block has 4 slots."
    )


def test_a_film_drives_the_readers_own_tables():
    frames = film_blocks(lambda: SharedTables(8, 4), STEPS)
    assert len(frames) == len(STEPS)
    assert {seq: length for seq, (_, length) in frames[3].tables.items()} == {"A": 13, "B": 3}
    assert frames[-1].tables.keys() == {"A", "C"} and "refused" in frames[-1].title
    last_a, last_c = (frames[-1].tables[seq][0] for seq in "AC")
    assert last_a[:3] == last_c[:3] and last_a[3] != last_c[3]


def test_a_refusal_is_told_and_changes_nothing():
    frames = film_blocks(lambda: SharedTables(2, 4), [("append", "A", 5), ("append", "A", 4), ("free", "B")])
    assert "refused" in frames[1].title and frames[1].tables == frames[0].tables
    assert "refused" in frames[2].title

    class NotYet:
        def append(self, seq, num_tokens):
            raise NotImplementedError("not yet")

    [frame] = film_blocks(NotYet, [("append", "A", 5)])
    assert "not yet" in frame.title and frame.tables == {}


def test_utilisation_has_each_layouts_share_in_words_and_numbers():
    steps = layouts([Request(0, 5, 2), Request(0, 3, 1)], 16, 4)
    figure = draw_utilisation(steps)
    assert texts(figure) == ["29%", "88%", "70%"]
    assert figure.alt == describe_utilisation(steps)
    assert "2 steps, up to 8 tokens. reserved takes up to 32 slots, of which 29% hold tokens" in figure.alt
    lines = figure.axes[0].lines
    assert [list(line.get_ydata()) for line in lines] == [[32, 16], [10, 6], [12, 8]]
    assert len({line.get_linestyle() for line in lines}) == 3  # told apart without colour


def test_slots_are_written_as_in_the_text():
    figure = draw_utilisation(layouts([Request(0, 900, 9)] * 40, 1024, 16))
    figure.draw_without_rendering()
    assert "10,000" in [label.get_text() for label in figure.axes[0].get_yticklabels()]


def test_the_explorer_steps_through_the_readers_own_tables():
    pytest.importorskip("ipywidgets")
    from kvlib.widgets import explore_blocks

    box = explore_blocks(lambda: SharedTables(8, 4))
    slider, picture = box.children
    assert (slider.min, slider.max) == (1, len(STEPS))
    assert "A gets 5 more" in picture.value and "block 7" not in picture.value
    slider.value = len(STEPS)
    assert "refused" in picture.value
