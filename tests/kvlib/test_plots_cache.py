"""The film of a cache: it shows what the reader's own class really holds."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch is missing: see `make torch`")
pytest.importorskip("matplotlib")

from matplotlib.patches import Rectangle  # noqa: E402

from kvlib.gqa_cache import GQACache  # noqa: E402
from kvlib.plots_cache import NOTHING, describe_film, draw_film, film_cache, film_ring  # noqa: E402
from kvlib.rolling_cache import RingCache  # noqa: E402
from kvlib.widgets import explore, explore_ring  # noqa: E402


class WholeBuffer(GQACache):
    """Gives back the rows that nobody wrote, too."""

    def append(self, layer, k, v):
        super().append(layer, k, v)
        return self.buffer[0, layer], self.buffer[1, layer]


class WritesAtZero(GQACache):
    """Every chunk lies at the start of the second layer."""

    def append(self, layer, k, v):
        K, V = super().append(layer, k, v)
        if layer == 1:
            K[:, :, : k.shape[2]], V[:, :, : k.shape[2]] = k, v
        return K, V


class Drops(GQACache):
    """Takes what does not fit, and loses it."""

    def append(self, layer, k, v):
        room = self.max_len - self.used
        return super().append(layer, k[:, :, :room], v[:, :, :room])

    def advance(self, num_tokens):
        self.used = min(self.max_len, self.used + num_tokens)


def crossed(axes) -> int:
    return sum(1 for patch in axes.patches if isinstance(patch, Rectangle) and patch.get_hatch())


def test_a_right_cache_fills_in_order():
    frames = film_cache(GQACache, chunks=(3, 1, 5, 2))
    assert [frame.slots for frame in frames[:2]] == [((0, 1, 2),) * 2, ((0, 1, 2, 3),) * 2]
    assert "refused (holds 4 of 8 tokens, 5 more asked)" in frames[2].title
    assert frames[2].slots == frames[1].slots, "a refused chunk changes nothing"
    assert frames[3].slots == (tuple(range(6)),) * 2
    assert [frame.new for frame in frames] == [(0, 1, 2), (3,), (), (4, 5)]
    figure = draw_film(frames)
    assert [crossed(axes) for axes in figure.axes] == [0, 0, 0, 0]
    assert "not right" not in figure.alt
    assert "Step 2, 1 token more: len is 4." in figure.alt


def test_wrong_ones_are_crossed_where_they_are_wrong():
    frames = film_cache(WritesAtZero, chunks=(3, 1))
    assert frames[1].slots[0] == (0, 1, 2, 3)
    assert frames[1].slots[1] == (3, 1, 2, 3)
    figure = draw_film(frames)
    assert [crossed(axes) for axes in figure.axes] == [0, 1]
    assert describe_film(frames).count("which is not right") == 1
    whole = film_cache(WholeBuffer, chunks=(3,))
    assert len(whole[0].slots[0]) == 8
    assert crossed(draw_film(whole).axes[0]) == 10


def test_a_dropped_token_shows():
    frames = film_cache(Drops, chunks=(8, 1), max_len=8)
    assert frames[1].slots[0] == tuple(range(8))
    assert "which is not right" in describe_film(frames), "token 8 is missing"


def test_rows_that_nobody_wrote_are_nobodys():
    class Apart(GQACache):
        def append(self, layer, k, v):
            K, V = super().append(layer, k, v)
            return K, V.flip(2)

    assert film_cache(Apart, chunks=(3,))[0].slots[0] == (NOTHING, 1, NOTHING)


def test_upto_leaves_the_later_strips_empty():
    figure = draw_film(film_cache(GQACache, chunks=(2, 1, 1)), upto=1)
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["1. 2 tokens more: len is 2", "2.", "3."]
    assert figure.alt.count("Step") == 1


def test_a_ring_shows_the_window():
    frames = film_ring(RingCache, window=4, chunks=(3, 1, 1, 4, 1))
    assert set(frames[3].slots[0]) >= set(range(2, 9)), "four new tokens, and the three before them"
    assert set(frames[4].slots[0]) >= {6, 7, 8, 9}
    assert frames[4].new == (9,)
    assert "not right" not in describe_film(frames)


def test_a_ring_that_tells_wrong_positions_or_forgets_is_crossed():
    class Slots(RingCache):
        def append(self, k, v):
            K, V, positions = super().append(k, v)
            return K, V, torch.arange(len(positions))

    class NewOnly(RingCache):
        def append(self, k, v):
            K, V, positions = super().append(k, v)
            return K[:, :, -1:], V[:, :, -1:], positions[-1:]

    for build in (Slots, NewOnly):
        frames = film_ring(build, window=4)
        assert "not right" in describe_film(frames), build
    assert film_ring(NewOnly, window=4)[1].missing == (3,)


def test_the_widgets_step_through_it():
    pytest.importorskip("ipywidgets")
    for make, build in ((explore, GQACache), (explore_ring, RingCache)):
        slider, picture = make(build).children
        seen = set()
        for step in range(slider.min, slider.max + 1):
            slider.value = step
            assert f"Step {step}," in picture.value
            assert f"Step {step + 1}," not in picture.value
            seen.add(picture.value)
        assert len(seen) == slider.max
        assert "image/png" in make(build)._repr_mimebundle_(include=None, exclude=None)
