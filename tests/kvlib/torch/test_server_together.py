"""The whole server: requests come, share, give way and are aborted, and each gets the tokens that it gets alone."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from kvlib import smollm2  # noqa: E402
from kvlib.request_stream import Ask, ClockedEngine, Desk, arrivals, uniform  # noqa: E402
from kvlib.server import run_server  # noqa: E402
from kvlib.server_engine import ServerEngine, alone  # noqa: E402
from kvlib.service_report import report  # noqa: E402
from kvlib.stream import Stream  # noqa: E402


def sampled(i):
    return Stream(uniform, i, 0.9, 7)


def served(model, asks, num_blocks, max_tokens, sampler=None, reuse=True):
    desk = Desk(asks)
    engine = ClockedEngine(ServerEngine(model, num_blocks, 4, max_tokens, sampler, reuse), desk)
    run_server(engine, desk)
    return desk, engine


def as_alone(model, desk, asks, num_blocks, sampler=None):
    """Whoever is done has all its tokens, whoever was aborted the first of them, whoever can never fit none."""
    for ask in asks:
        sent = desk.sent[ask.id]
        if len(ask.prompt) + ask.new - 1 > 4 * num_blocks:
            assert (sent, desk.closed[ask.id]) == ([], "refused")
            continue
        assert sent == alone(model, ask.prompt, ask.new, sampler and sampler(ask.id))[: len(sent)]
        assert desk.closed[ask.id] == ("done" if len(sent) == ask.new else "aborted")


@pytest.mark.parametrize("reuse", [True, False])
@pytest.mark.parametrize("sampler", [None, sampled])
@pytest.mark.parametrize(("num_blocks", "max_tokens"), [(400, 64), (30, 16), (16, 5), (12, 200)])
def test_each_request_gets_what_it_gets_alone(make_model, reuse, sampler, num_blocks, max_tokens):
    model, preempted, aborted = make_model(2), 0, 0
    for seed in range(2):
        asks = arrivals(12, 300.0, seed, vocab_size=13, prompt=9, new=8, systems=(13, 6), aborts=0.4)
        desk, engine = served(model, asks, num_blocks, max_tokens, sampler, reuse)
        as_alone(model, desk, asks, num_blocks, sampler)
        assert engine.free_blocks() == num_blocks
        assert engine.most_blocks <= num_blocks
        assert (engine.reused > 0) == reuse
        preempted += engine.preemptions
        aborted += report(desk.log).aborted
    assert aborted > 0
    if num_blocks == 400:
        assert preempted == 0
    elif num_blocks <= 16:
        assert preempted > 0


def test_the_log_agrees_with_the_engine(make_model):
    asks = arrivals(12, 300.0, 1, vocab_size=13, prompt=9, new=8, systems=(13, 6), aborts=0.4)
    desk, engine = served(make_model(1), asks, 16, 7)
    told = report(desk.log)
    assert (told.computed, told.reused, told.preemptions) == (engine.computed, engine.reused, engine.preemptions)
    assert told.preemptions > 0
    assert told.tokens == sum(map(len, desk.sent.values()))
    assert told.done + told.aborted + told.refused == len(asks)
    steps = {(note.time, note.value[0]) for note in desk.log if note.what in ("prefill", "decode")}
    assert len(steps) == engine.steps
    ordered = sorted(steps)
    assert all(end <= begin for (_, end), (begin, _) in zip(ordered, ordered[1:], strict=False))  # one after the other


def test_a_prompt_of_others_does_not_hold_up_those_who_decode(make_model):
    """In pieces, a long prompt and the new tokens of others go through the model in the same steps."""
    asks = arrivals(8, 2000.0, 3, vocab_size=13, prompt=60, new=20)
    desk, _ = served(make_model(1), asks, 400, 16)
    kinds: dict[float, set[str]] = {}
    for note in desk.log:
        if note.what in ("prefill", "decode"):
            kinds.setdefault(note.time, set()).add(note.what)
    assert sum(each == {"prefill", "decode"} for each in kinds.values()) > 10


def test_blocks_of_a_shared_prompt_are_computed_once(make_model):
    asks = arrivals(10, 10.0, 2, vocab_size=13, prompt=5, new=3, systems=(40,))  # slowly: nobody computes it twice
    model = make_model(1)
    shared, engine = served(model, asks, 100, 64)
    apart, other = served(model, asks, 100, 64, reuse=False)
    assert shared.sent == apart.sent
    assert engine.reused >= 9 * 40
    assert engine.computed == other.computed - engine.reused


@pytest.mark.skipif(smollm2.find_model() is None, reason=f"the model is missing: {smollm2.INSTALL}")
def test_the_small_real_model_answers_each_as_alone():
    """In float32, where another batch rounds otherwise: no two tokens here are as close as that."""
    pytest.importorskip("tokenizers")
    ids = smollm2.load_tokenizer().encode(smollm2.sample_text()).ids
    model = smollm2.load_model()
    asks = [Ask(i, 0.001 * i, (*ids[:24], *ids[30 * i : 30 * i + 9 + i]), new=4) for i in (1, 2, 3)]
    desk, engine = served(model, asks, 30, 16)
    as_alone(model, desk, asks, 30)
    assert engine.reused >= 24
