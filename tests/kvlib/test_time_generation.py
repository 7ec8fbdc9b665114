"""Timing on devices whose seconds are known. No real clock is read."""

from __future__ import annotations

import pytest

from kvlib.simulated_device import SimulatedDevice
from kvlib.sizing.latency import latencies
from kvlib.time_generation import time_generation


class Scripted:
    """Each run's prefill and decodes take what the script says."""

    def __init__(self, runs, queued=0.0):
        self.new_tokens = len(runs[0])
        self.work = [seconds for run in runs for seconds in run]
        self.now, self.done, self.calls = 50.0, 50.0 + queued, []

    def clock(self):
        return self.now

    def prefill(self):
        self.calls.append("prefill")
        self.done = max(self.now, self.done) + self.work.pop(0)

    def decode(self):
        self.prefill()
        self.calls[-1] = "decode"

    def synchronize(self):
        self.now = max(self.now, self.done)


def test_the_same_run_as_by_its_time_stamps():
    """Tokens at 0.12, 0.16, 0.21 and 0.25 s."""
    ttft, itl = time_generation(Scripted([[0.12, 0.04, 0.05, 0.04]]), 0, 1)
    assert (ttft, itl) == pytest.approx(latencies(0.0, [0.12, 0.16, 0.21, 0.25]))


def test_medians_of_each_by_itself_and_warm_up_that_does_not_count():
    device = Scripted([[9, 9, 9], [8, 8, 8], [3, 1, 1], [1, 2, 4], [50, 60, 70], [2, 5, 5]], queued=4.0)
    assert time_generation(device, 2, 4) == pytest.approx((2.5, 4.0))  # of 3 1 50 2, and of 1 3 65 5
    assert device.calls == ["prefill", "decode", "decode"] * 6


def test_other_peoples_work_is_not_counted():
    assert time_generation(Scripted([[1, 2]], queued=7.0), 0, 1) == pytest.approx((1.0, 2.0))


def test_one_token_has_no_time_between_tokens():
    assert time_generation(Scripted([[4], [2], [3]]), 0, 3) == (pytest.approx(3.0), None)


@pytest.mark.parametrize(("warm_up", "repeats"), [(0, 0), (3, 0), (1, -1), (-1, 2)])
def test_refused_before_anything_is_queued(warm_up, repeats):
    device = Scripted([[1, 1]] * 5)
    with pytest.raises(ValueError, match=f"got {repeats} and {warm_up}"):
        time_generation(device, warm_up, repeats)
    assert device.calls == []


def test_the_simulated_device_queues():
    device = SimulatedDevice(launch=0.001, queued=0.0, cold_runs=0, outliers=0.0)
    began = device.clock()
    device.prefill()
    assert device.clock() - began == pytest.approx(0.001)
    device.synchronize()
    assert device.clock() - began == pytest.approx(0.121, rel=0.04)
    after = device.clock()
    device.synchronize()
    assert device.clock() == after


def test_the_simulated_device_has_all_that_makes_timing_hard():
    naive = SimulatedDevice()
    began = naive.clock()
    naive.prefill()
    assert naive.clock() - began < 0.001, "without waiting nothing seems to take time"
    busy = SimulatedDevice(queued=30.0, cold_runs=0)
    busy.synchronize()
    assert busy.clock() == 30.0, "somebody else's work"
    assert time_generation(SimulatedDevice(queued=30.0, cold_runs=0), 0, 1)[0] < 1.0
    cold, warm = time_generation(SimulatedDevice(), 0, 1), time_generation(SimulatedDevice(), 2, 5)
    assert cold[0] > 10 * warm[0] and cold[1] > 10 * warm[1]
    assert warm == pytest.approx((0.12, 0.04), rel=0.05)
    device = SimulatedDevice()
    runs = [time_generation(device, 0, 1)[0] for _ in range(12)]
    assert 0 < sum(ttft > 0.5 for ttft in runs[2:]) <= 4, "some runs are outliers, most are not"


def test_the_simulated_device_is_the_same_every_time():
    assert time_generation(SimulatedDevice(), 1, 4) == time_generation(SimulatedDevice(), 1, 4)
    assert time_generation(SimulatedDevice(seed=5), 1, 4) != time_generation(SimulatedDevice(), 1, 4)
    assert time_generation(SimulatedDevice(new_tokens=1), 2, 3)[1] is None
    with pytest.raises(ValueError, match="at least 1, got 0"):
        SimulatedDevice(new_tokens=0)
