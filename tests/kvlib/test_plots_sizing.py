"""The pictures of sizing: what they draw is what was given, in words too."""

from __future__ import annotations

import pytest

pytest.importorskip("matplotlib")

from kvlib.plots_sizing import draw_budget, draw_latency_throughput, draw_plan, draw_roofline  # noqa: E402
from kvlib.sizing.models import load_config, names  # noqa: E402
from kvlib.sizing.plan import make_plan  # noqa: E402
from kvlib.widgets import explore_sizing  # noqa: E402

GB = 10**9


def test_a_budget_is_a_bar_of_whole_sequences():
    figure = draw_budget(80 * GB, 16 * GB, 4 * GB, 4_294_967_296)
    (axes,) = figure.axes
    widths = [round(bar.get_width(), 6) for bar in axes.patches]
    assert widths == [16.0, 4.0, *[4.294967] * 13], "13.97 sequences would fit, so 13 do"
    assert axes.get_title(loc="left") == "13 sequences of 4.29 GB fit"
    assert "then 13 whole sequences of 4.295 GB" in figure.alt
    assert max(bar.get_x() + bar.get_width() for bar in axes.patches) <= 80


def test_a_budget_in_which_nothing_fits_says_so():
    figure = draw_budget(24 * GB, 26 * GB, 2 * GB, GB)
    assert figure.axes[0].get_title(loc="left") == "0 sequences of 1 GB fit"
    assert figure.alt.endswith("The weights and the reserve alone do not fit.")


@pytest.mark.parametrize("numbers", [(-1, 0, 0, 1), (10, -1, 0, 1), (10, 0, -1, 1), (10, 0, 0, 0)])
def test_senseless_budgets_are_refused(numbers):
    with pytest.raises(ValueError, match="four numbers of bytes"):
        draw_budget(*numbers)


def test_points_lie_on_the_roof():
    figure = draw_roofline(1000.0, 10.0, {"decode": 1.0, "prefill": 500.0})
    roof, _, decode, prefill = figure.axes[0].lines
    assert roof.get_xydata()[1].tolist() == [100.0, 1000.0], "the ridge: 1,000 FLOP/s over 10 bytes/s"
    assert decode.get_xydata().tolist() == [[1.0, 10.0]]
    assert prefill.get_xydata().tolist() == [[500.0, 1000.0]]
    assert "decode: 1 FLOP per byte, bound by memory, at most 1.0% of the peak." in figure.alt
    assert "prefill: 500 FLOP per byte, bound by compute, at most 100.0% of the peak." in figure.alt


def test_throughput_is_batch_over_time():
    figure = draw_latency_throughput([1, 64], [0.008, 0.02], [True, False])
    _, one, many = figure.axes[0].lines
    assert one.get_xydata().tolist() == [[8.0, 125.0]]
    assert many.get_xydata().tolist() == [[20.0, 3200.0]]
    assert (one.get_marker(), many.get_marker()) == ("o", "s"), "not by colour alone"
    assert "Batch 64, which does not fit: 20.0 ms a step, 3,200 tokens per second in all." in figure.alt
    with pytest.raises(ValueError, match="got 2, 1 and 2"):
        draw_latency_throughput([1, 2], [0.1], [True, True])


def test_many_sequences_are_one_box():
    figure = draw_budget(80 * GB, 16 * GB, 0, GB // 10)
    assert len(figure.axes[0].patches) == 3
    assert figure.axes[0].get_title(loc="left") == "640 sequences of 0.1 GB fit"


def test_a_plan_shows_its_four_numbers():
    plan = make_plan(load_config("llama-3-8b"), "H100", name="llama-3-8b", context=32768, batch=8)
    figure = draw_plan(plan)
    words = [text.get_text() for text in figure.axes[1].texts]
    assert words[::2] == ["cache per token", "sequences that fit", "one decode step", "what binds"]
    assert words[1::2] == ["128 KiB", str(plan.sequences_that_fit), words[5], "memory bandwidth"]
    assert words[5] == f"{1000 * plan.step_seconds:.3g} ms at least"
    assert figure.alt.startswith("llama-3-8b on 1 x H100, 8 x 32,768 tokens. cache per token: 128 KiB,")
    used = [bar.get_width() for bar in figure.axes[0].patches]
    assert len(used) == 2 + plan.sequences_that_fit


@pytest.mark.parametrize("settings", [{"context": 131072, "batch": 1024}, {"context": 131072, "batch": 64}])
def test_large_numbers_stay_readable_and_apart(settings):
    """The explorer's sliders reach steps of minutes: 1.64e+05 ms ran into the words beside it."""
    figure = draw_plan(make_plan(load_config("deepseek-67b"), "T4", name="deepseek-67b", **settings))
    assert "e+" not in figure.alt and " s at least" in figure.alt
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in figure.axes[1].texts]
    assert all(left.x1 < right.x0 for left, right in zip(boxes[1::2], boxes[3::2], strict=False))


def test_the_explorer_redraws_and_says_what_cannot_be():
    pytest.importorskip("ipywidgets")
    box = explore_sizing()
    model, gpu, context, batch, cache_in, tp, picture = box.children
    before = picture.value
    assert "llama-3-8b on 1 x H100, 8 x 8,192 tokens. cache per token: 128 KiB" in before
    cache_in.value = "fp8"
    assert "cache per token: 64 KiB" in picture.value
    context.value, batch.value, gpu.value = 131072, 64, "T4"
    assert "64 x 131,072 tokens" in picture.value
    assert "what binds: memory capacity" in picture.value
    model.value, tp.value = "qwen2.5-7b", 8
    assert "8 GPUs do not divide the 28 query heads of this model" in picture.value
    tp.value = 4
    assert "qwen2.5-7b on 4 x T4" in picture.value
    assert "image/png" in box._repr_mimebundle_(include=None, exclude=None)


@pytest.mark.parametrize("model", names())
def test_every_model_of_the_explorer_can_be_drawn(model):
    pytest.importorskip("ipywidgets")
    assert f"{model} on 1 x H100" in explore_sizing(model).children[-1].value
