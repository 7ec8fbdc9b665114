"""Arrivals, the desk and its clock: what comes when, what a step costs, and what is refused."""

from __future__ import annotations

from statistics import mean

import pytest

from kvlib.request_stream import Ask, ClockedEngine, Desk, Note, StepCost, arrivals, uniform
from kvlib.sizing.architecture import architecture
from kvlib.sizing.formats import find_format
from kvlib.sizing.gpus import find_gpu
from kvlib.sizing.kv import kv_bytes
from kvlib.sizing.models import load_config
from kvlib.sizing.split import attention_flops, read_weights


def test_the_same_seed_gives_the_same_requests():
    sizes = {"prompt": 20, "new": 8, "systems": (7, 5), "aborts": 0.5}
    assert arrivals(30, 2.0, 5, **sizes) == arrivals(30, 2.0, 5, **sizes)
    assert arrivals(30, 2.0, 5, **sizes) != arrivals(30, 2.0, 6, **sizes)


def test_another_rate_brings_the_same_requests_closer():
    slow, fast = (arrivals(30, rate, 5, aborts=0.5) for rate in (2.0, 8.0))
    for one, other in zip(slow, fast, strict=True):
        assert (one.id, one.prompt, one.new) == (other.id, other.prompt, other.new)
        assert one.at == pytest.approx(4 * other.at)
        assert (one.abort_at is None) == (other.abort_at is None)


def test_gaps_are_exponential():
    """Of such gaps the mean is one over the rate, and as large as their deviation."""
    times = [0.0, *(ask.at for ask in arrivals(4000, 5.0, 1))]
    gaps = [after - before for before, after in zip(times, times[1:], strict=False)]
    assert mean(gaps) == pytest.approx(0.2, rel=0.05)
    assert mean((gap - 0.2) ** 2 for gap in gaps) ** 0.5 == pytest.approx(0.2, rel=0.1)


def test_lengths_go_from_a_quarter_to_four_times():
    asks = arrivals(400, 1.0, 2, vocab_size=11, prompt=40, new=8, systems=(50,), aborts=0.25)
    own = [len(ask.prompt) - 50 for ask in asks]
    assert (min(own), max(own)) == (10, 159)
    assert {min(ask.new for ask in asks), max(ask.new for ask in asks)} == {2, 32}
    assert len({ask.prompt[:50] for ask in asks}) == 1
    assert {token for ask in asks for token in ask.prompt} == set(range(11))
    assert sum(ask.abort_at is not None for ask in asks) == pytest.approx(100, abs=30)
    assert all(ask.abort_at is None or ask.abort_at >= ask.at for ask in asks)


@pytest.mark.parametrize(
    "wrong", [{"count": 0}, {"rate": 0.0}, {"prompt": 0}, {"new": -1}, {"aborts": 1.1}, {"aborts": -0.1}]
)
def test_sizes_that_are_none_are_refused(wrong):
    with pytest.raises(ValueError, match="must be above 0"):
        arrivals(**{"count": 3, "rate": 1.0, **wrong})


def test_numbers_of_a_seed():
    numbers = [uniform(3, n) for n in range(2000)]
    assert numbers == [uniform(3, n) for n in range(2000)]
    assert all(0 <= u < 1 for u in numbers) and len(set(numbers)) == 2000
    assert mean(numbers) == pytest.approx(0.5, abs=0.03)
    assert uniform(3, 11) != uniform(31, 1) != uniform(1, 31)


def test_the_cost_is_of_the_model_and_the_gpu_that_it_names():
    model, gpu, cost = architecture(load_config("llama-3-8b")), find_gpu("H100"), StepCost()
    assert cost.weight_bytes == read_weights(model, find_format("bf16"), 1)
    assert cost.flops_per_token == 2 * model.active_parameters
    assert cost.flops_per_pair == attention_flops(model, 1)
    assert cost.kv_bytes_per_token == kv_bytes(32, 8, 128, [1], 2)
    assert (cost.bandwidth, cost.peak_flops) == (gpu.bandwidth, gpu.flops)


def test_a_step_takes_the_longer_of_reading_and_calculating():
    cost = StepCost(100, 3, 10, 2, bandwidth=50, peak_flops=40)
    assert cost.seconds([]) == 0
    assert cost.seconds([(1, 5), (1, 2)]) == (100 + 3 * 9) / 50  # 20 + 2 * 9 FLOP take less
    pairs = sum(5 + t + 1 for t in range(4)) + 2 + 1
    assert cost.seconds([(4, 5), (1, 2)]) == max((100 + 3 * 12) / 50, (50 + 2 * pairs) / 40) == 116 / 40
    assert cost.seconds([(9, 0)]) == (90 + 2 * 45) / 40
    assert StepCost().seconds([(1, 0)]) == pytest.approx(4.48e-3, rel=1e-3)


ASKS = [Ask(7, 1.0, (1, 2), 2), Ask(5, 0.5, (3,), 2, abort_at=2.0), Ask(9, 3.0, (4,), 1, abort_at=3.0)]


def test_events_come_when_their_time_has_come():
    desk = Desk(ASKS)
    assert desk.news() == []
    assert desk.wait() == [{"kind": "ask", "id": 5, "prompt": [3], "new": 2}]
    assert desk.now == 0.5
    assert desk.news() == []
    desk.now = 2.0
    assert [(event["kind"], event["id"]) for event in desk.wait()] == [("ask", 7), ("abort", 5)]
    assert desk.now == 2.0
    assert [(event["kind"], event["id"]) for event in desk.wait()] == [("ask", 9), ("abort", 9)]
    assert desk.now == 3.0
    assert desk.wait() == [] == desk.news()
    assert desk.now == 3.0


def test_nobody_lets_go_of_what_is_closed():
    desk = Desk(ASKS[:2])
    desk.wait()
    desk.close(5, "refused")
    desk.wait()
    assert desk.wait() == []
    assert desk.now == 1.0


def test_a_client_may_let_go_at_any_moment():
    desk = Desk(ASKS)
    desk.wait()
    desk.let_go(5)
    desk.let_go(5)
    assert desk.wait() == [{"kind": "abort", "id": 5}]
    desk.let_go(5)  # it has already
    assert desk.now == 0.5
    assert [event["id"] for event in desk.wait()] == [7]
    desk.now = 3.0
    desk.let_go(7)
    assert [(event["kind"], event["id"]) for event in desk.news()] == [("ask", 9), ("abort", 9), ("abort", 7)]
    with pytest.raises(ValueError, match="request 8 has not asked"):
        desk.let_go(8)


def test_tokens_go_out_and_into_the_log():
    shown = []
    desk = Desk(ASKS, show=lambda i, token: shown.append((i, token)))
    desk.wait()
    desk.now = 0.75
    desk.send(5, 11)
    desk.close(5, "aborted")
    assert shown == [(5, 11)]
    assert (desk.sent, desk.closed) == ({5: [11]}, {5: "aborted"})
    assert desk.log == [Note(0.5, "ask", 5, 1), Note(0.75, "token", 5, 11), Note(0.75, "close", 5, "aborted")]


def test_the_desk_refuses_what_makes_no_sense():
    desk = Desk(ASKS)
    desk.now = 1.5
    desk.news()
    desk.send(7, 0)
    desk.send(7, 0)
    for refused, words in (
        (lambda: desk.send(7, 0), "it has its 2 tokens"),
        (lambda: desk.send(9, 0), "request 9 has not asked"),
        (lambda: desk.close(8, "done"), "request 8 has not asked"),
        (lambda: desk.close(7, "finished"), "got 'finished'"),
    ):
        before = list(desk.log)
        with pytest.raises(ValueError, match=words):
            refused()
        assert desk.log == before and desk.closed == {}
    desk.close(7, "done")
    with pytest.raises(ValueError, match="request 7 is closed"):
        desk.close(7, "done")
    desk.now = 2.0
    desk.news()
    with pytest.raises(ValueError, match="its client let go"):
        desk.send(5, 0)
    with pytest.raises(ValueError, match="once only"):
        Desk([ASKS[0], ASKS[0]])


class Fake:
    """An engine of no model: finds 2 tokens, and refuses more than 4 in a step."""

    block_size = 2

    def admit(self, i, tokens):
        return 2

    def step(self, work):
        if sum(len(tokens) for _, tokens in work) > 4:
            raise ValueError("too many")
        return [0 for _ in work]

    def release(self, i):
        pass


def test_steps_take_their_time_on_the_desks_clock():
    desk, cost = Desk(ASKS), StepCost(100, 3, 10, 2, bandwidth=50, peak_flops=40)
    engine = ClockedEngine(Fake(), desk, cost)
    assert engine.block_size == 2
    desk.wait()
    assert engine.admit(5, [1, 2, 3, 4, 5, 6]) == 2
    with pytest.raises(ValueError, match="too many"):
        engine.step([(5, [3, 4, 5, 6, 7])])
    assert desk.now == 0.5
    engine.step([(5, [3, 4, 5])])
    first = 0.5 + cost.seconds([(3, 2)])
    engine.step([(5, [6])])
    second = first + cost.seconds([(1, 5)])
    engine.step([(5, [7])])
    third = second + cost.seconds([(1, 6)])
    engine.release(5)
    assert desk.now == third
    assert desk.log[1:] == [
        Note(0.5, "admit", 5, 2),
        Note(0.5, "prefill", 5, (first, 3)),
        Note(first, "prefill", 5, (second, 1)),
        Note(second, "decode", 5, (third, 1)),
        Note(third, "release", 5),
    ]
