"""Which programs run when, and the picture of it."""

from __future__ import annotations

import pytest

from kvlib.plots_kernel import Run, describe_parts, draw_parts, schedule


def test_one_part_keeps_one_processor_for_each_head():
    assert schedule(2, 5, 1, 8) == [Run(0, 0, 5, 0, 0), Run(1, 0, 5, 1, 0)]


def test_more_programs_than_processors_wait():
    runs = schedule(2, 12, 3, 4)
    assert len(runs) == 6 and [run.start for run in runs] == [0, 0, 0, 0, 4, 4]
    assert len({(run.kv_head, run.part) for run in runs}) == 6
    for a in runs:  # no processor does two things at once
        assert not [b for b in runs if b != a and b.processor == a.processor and b.start < a.end and a.start < b.end]


@pytest.mark.parametrize(("tiles", "parts"), [(7, 3), (7, 7), (7, 8), (1, 16), (64, 16), (5, 4)])
def test_every_tile_is_read_once(tiles, parts):
    runs = schedule(3, tiles, parts, 4)
    for head in range(3):
        assert sum(run.end - run.start for run in runs if run.kv_head == head) == tiles
    assert all(run.end > run.start for run in runs)


@pytest.mark.parametrize("sizes", [(0, 1, 1, 1), (1, 0, 1, 1), (1, 1, 0, 1), (1, 1, 1, 0)])
def test_sizes_below_one_are_refused(sizes):
    with pytest.raises(ValueError, match="1 or more"):
        schedule(*sizes)


def test_the_picture_and_its_words():
    pytest.importorskip("matplotlib")
    figure = draw_parts(2, 32, (1, 4), 8)
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        "1 part: 2 programs, 2 at once, done after 32",
        "4 parts: 8 programs, 8 at once, done after 8",
    ]
    assert [len(axes.patches) for axes in figure.axes] == [2, 8]
    assert figure.alt == describe_parts(2, 32, (1, 4), 8) and "8 processors, 2 KV heads" in figure.alt
