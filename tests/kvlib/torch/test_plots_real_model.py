"""Step times and their picture: what is timed, and what is drawn. No clock decides anything here."""

from __future__ import annotations

import pytest

pytest.importorskip("matplotlib")
torch = pytest.importorskip("torch")

from kvlib import generate  # noqa: E402
from kvlib.cache_layer import CacheLayer  # noqa: E402
from kvlib.layer_caches import LayerCaches  # noqa: E402
from kvlib.plots_real_model import (  # noqa: E402
    Batch,
    Step,
    describe_steps,
    draw_steps,
    fastest,
    time_batches,
    time_steps,
)

STEPS = [Step(256, 0.5, 7.0), Step(512, 0.5, 11.0), Step(1024, 0.625, 35.0)]
BATCHES = [Batch(1, 0.5), Batch(2, 0.6), Batch(4, 0.8)]


def make_cache(max_len):
    return LayerCaches([CacheLayer(max_len) for _ in range(3)])


def test_the_fastest_run_counts():
    times = iter([0.0, 5.0, 10.0, 12.0, 20.0, 29.0])
    assert fastest(lambda: None, 3, lambda: next(times)) == 2.0
    with pytest.raises(ValueError, match="at least 1, got 0"):
        fastest(lambda: None, 0)


def test_each_step_is_one_token_after_its_context(make_model, make_tokens, monkeypatch):
    model, pushed, whole, forward = make_model(), [], [], generate.forward

    def noted(model, cache, tokens):
        pushed.append((len(cache), tokens.shape[1]))
        return forward(model, cache, tokens)

    monkeypatch.setattr(generate, "forward", noted)
    logits = model.logits
    monkeypatch.setattr(model, "logits", lambda tokens: whole.append(tokens.shape[1]) or logits(tokens))
    steps = time_steps(model, make_cache, make_tokens(1, 12), (4, 9), repeats=2)
    assert pushed == [(0, 4), (4, 1), (4, 1), (4, 1), (4, 5), (9, 1), (9, 1), (9, 1)]
    assert whole == [5, 10]
    assert [step.context for step in steps] == [4, 9]


def test_batches_double_up_to_all_sequences(make_model, make_tokens, monkeypatch):
    pushed, forward = [], generate.forward

    def noted(model, cache, tokens):
        pushed.append((len(cache), *tokens.shape))
        return forward(model, cache, tokens)

    monkeypatch.setattr(generate, "forward", noted)
    batches = time_batches(make_model(), make_cache, make_tokens(4, 6), repeats=1)
    assert [batch.size for batch in batches] == [1, 2, 4]
    assert pushed == [(0, 1, 5), (5, 1, 1), (5, 1, 1), (0, 2, 5), (5, 2, 1), (5, 2, 1), (0, 4, 5), (5, 4, 1), (5, 4, 1)]


@pytest.mark.parametrize("contexts", [(), (0, 2), (3, 2), (2, 2), (2, 6)], ids=str)
def test_contexts_that_do_not_fit_are_refused(make_model, make_tokens, contexts):
    with pytest.raises(ValueError, match="must rise from 1 to at most 5"):
        time_steps(make_model(), make_cache, make_tokens(1, 6), contexts)


def test_the_picture_shows_parts_of_the_first_cached_step():
    figure = draw_steps(STEPS, BATCHES)
    left, right = figure.axes
    slow, fast = left.lines
    assert list(slow.get_ydata()) == [14.0, 22.0, 70.0] and list(fast.get_ydata()) == [1.0, 1.0, 1.25]
    assert [text.get_text() for text in left.texts] == ["14x", "22x", "56x"]
    assert [bar.get_height() for bar in right.patches] == pytest.approx([1.0, 0.6, 0.4])
    assert slow.get_linestyle() != fast.get_linestyle() and slow.get_marker() != fast.get_marker()


def test_the_picture_in_words():
    words = describe_steps(STEPS, BATCHES)
    assert "14.0 times as long after 256 tokens, 22.0 times as long after 512 tokens" in words
    assert "1.00 in a batch of 1, 0.60 in a batch of 2, 0.40 in a batch of 4" in words
    assert draw_steps(STEPS, BATCHES).alt == words
    assert draw_steps(STEPS).alt == describe_steps(STEPS) and len(draw_steps(STEPS).axes) == 1
    with pytest.raises(ValueError, match="got none"):
        draw_steps([])
