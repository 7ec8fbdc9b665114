"""Wrong and right ways to place work under a roofline. Each mistake changes one piece of one right function."""

from __future__ import annotations

import numpy as np

from autograde.exercise import Mistake, Variant


def _intensity(flops, moved):
    return flops / moved


def _ridge(peak, bandwidth):
    return peak / bandwidth


def _seconds(flops, moved, peak, bandwidth):
    return max(flops / peak, moved / bandwidth)


def _binds(flops, moved, peak, bandwidth):
    return "memory" if flops / moved < peak / bandwidth else "compute"


def roof(intensity=_intensity, ridge=_ridge, seconds=_seconds, binds=_binds, give=lambda *four: four):
    """A function with one of its pieces changed."""

    def roofline(flops, moved, peak, bandwidth):
        work = (flops, moved, peak, bandwidth)
        return give(intensity(flops, moved), ridge(peak, bandwidth), seconds(*work), binds(*work))

    return roofline


MEMORY = "more to move than to compute"
COMPUTE = "more to compute than to move"

MISTAKES = (
    Mistake(
        "intensity-upside-down",
        roof(intensity=lambda flops, moved: moved / flops),
        "Your intensity is bytes per FLOP. It is FLOP per byte: how much is done with what was fetched.",
        killed_by=MEMORY,
    ),
    Mistake(
        "ridge-upside-down",
        roof(ridge=lambda peak, bandwidth: bandwidth / peak),
        "Your ridge is bandwidth over peak. It is peak over bandwidth: FLOP that can be done while a byte comes.",
        killed_by=MEMORY,
    ),
    Mistake(
        "ridge-multiplied",
        roof(ridge=lambda peak, bandwidth: peak * bandwidth),
        "Your ridge is peak times bandwidth. It is a quotient: FLOP/s over bytes/s leaves FLOP per byte.",
        killed_by=MEMORY,
    ),
    Mistake(
        "intensity-whole",
        roof(intensity=lambda flops, moved: flops // moved),
        "You round the intensity down with `//`. Below 1 that leaves 0, and decode attention lies below 1.",
        killed_by=MEMORY,
    ),
    Mistake(
        "intensity-of-the-rates",
        roof(intensity=lambda flops, moved: flops / (flops + moved)),
        "You divide by FLOP and bytes together. Intensity is FLOP over bytes.",
        killed_by=MEMORY,
    ),
    Mistake(
        "intensity-and-ridge-swapped",
        roof(give=lambda intensity, ridge, seconds, binds: (ridge, intensity, seconds, binds)),
        "The first two numbers have changed places: (intensity, ridge, seconds, binds).",
        killed_by=MEMORY,
    ),
    Mistake(
        "binds-before-seconds",
        roof(give=lambda intensity, ridge, seconds, binds: (intensity, ridge, binds, seconds)),
        "The last two have changed places: (intensity, ridge, seconds, binds).",
        killed_by=MEMORY,
    ),
    Mistake(
        "ridge-left-out",
        roof(give=lambda intensity, ridge, seconds, binds: (intensity, seconds, binds)),
        "Three values come back. Wanted are four: (intensity, ridge, seconds, binds).",
        killed_by=MEMORY,
    ),
    Mistake(
        "times-added",
        roof(seconds=lambda flops, moved, peak, bandwidth: flops / peak + moved / bandwidth),
        "You add the two times. A GPU computes while it fetches, so the bound is the longer of the two.",
        killed_by=MEMORY,
    ),
    Mistake(
        "shorter-time",
        roof(seconds=lambda flops, moved, peak, bandwidth: min(flops / peak, moved / bandwidth)),
        "You take the shorter of the two times. Both must be over, so the longer one counts.",
        killed_by=MEMORY,
    ),
    Mistake(
        "computing-only",
        roof(seconds=lambda flops, moved, peak, bandwidth: flops / peak),
        "Your seconds are those of the arithmetic. When bytes take longer to come, they decide.",
        killed_by=MEMORY,
    ),
    Mistake(
        "mean-of-the-times",
        roof(seconds=lambda flops, moved, peak, bandwidth: (flops / peak + moved / bandwidth) / 2),
        "You take the mean of the two times. Both must be over, so the longer one counts.",
        killed_by=MEMORY,
    ),
    Mistake(
        "peaks-crossed",
        roof(seconds=lambda flops, moved, peak, bandwidth: max(flops / bandwidth, moved / peak)),
        "You divide FLOP by bytes per second, and bytes by FLOP per second. Each belongs to its own rate.",
        killed_by=MEMORY,
    ),
    Mistake(
        "speed-not-time",
        roof(seconds=lambda flops, moved, peak, bandwidth: min(peak, flops / moved * bandwidth)),
        "You give the speed that can be reached, in FLOP/s. Wanted is the time: FLOP over that speed.",
        killed_by=MEMORY,
    ),
    Mistake(
        "milliseconds",
        roof(seconds=lambda flops, moved, peak, bandwidth: 1000 * max(flops / peak, moved / bandwidth)),
        "Your time is a thousand times too large. It is wanted in seconds, not in milliseconds.",
        killed_by=MEMORY,
    ),
    Mistake(
        "seconds-rounded",
        roof(seconds=lambda flops, moved, peak, bandwidth: round(max(flops / peak, moved / bandwidth), 2)),
        "You round the seconds. Round what you print, not what you return.",
        killed_by=MEMORY,
    ),
    Mistake(
        "binds-swapped",
        roof(binds=lambda *work: "compute" if _binds(*work) == "memory" else "memory"),
        "You have memory and compute the wrong way round. Below the ridge, bytes come too slowly: memory binds.",
        killed_by=MEMORY,
    ),
    Mistake(
        "always-compute",
        roof(binds=lambda *work: "compute"),
        'You always say "compute". Below the ridge, bytes come too slowly: memory binds.',
        killed_by=MEMORY,
    ),
    Mistake(
        "binds-by-the-rates",
        roof(binds=lambda flops, moved, peak, bandwidth: "memory" if peak < bandwidth else "compute"),
        "You compare the two rates of the GPU, so the work does not matter. Compare its intensity with the ridge.",
        killed_by=MEMORY,
    ),
    Mistake(
        "binds-as-bool",
        roof(binds=lambda *work: _binds(*work) == "memory"),
        'You return True or False. Wanted is the text "memory" or "compute".',
        killed_by=MEMORY,
    ),
    Mistake(
        "binds-the-bandwidth",
        roof(binds=lambda *work: "bandwidth" if _binds(*work) == "memory" else "compute"),
        'You call it "bandwidth". The two answers are "memory" and "compute".',
        killed_by=MEMORY,
    ),
    Mistake(
        "moving-only",
        roof(seconds=lambda flops, moved, peak, bandwidth: moved / bandwidth),
        "Your seconds are those of the bytes. Above the ridge the arithmetic takes longer, and decides.",
        killed_by=COMPUTE,
    ),
    Mistake(
        "always-memory",
        roof(binds=lambda *work: "memory"),
        'You always say "memory". Above the ridge the arithmetic takes longer: compute binds.',
        killed_by=COMPUTE,
    ),
    Mistake(
        "binds-by-more-bytes",
        roof(binds=lambda flops, moved, peak, bandwidth: "memory" if moved > flops else "compute"),
        "You compare FLOP with bytes, as if the ridge were 1. Compare the intensity with the ridge of this GPU.",
        killed_by=MEMORY,
    ),
)


def by_times(flops, moved, peak, bandwidth):
    computing, moving = flops / peak, moved / bandwidth
    if moving > computing:
        return [flops / moved, peak / bandwidth, moving, "memory"]
    return [flops / moved, peak / bandwidth, computing, "compute"]


def by_attainable_speed(flops, moved, peak, bandwidth):
    """The roof itself: the speed that can be reached, and the work over it."""
    intensity = flops / moved
    speed = min(float(peak), intensity * bandwidth)
    return intensity, peak / bandwidth, flops / speed, "compute" if speed == peak else "memory"


def by_numpy(flops, moved, peak, bandwidth):
    times = np.array([moved / bandwidth, flops / peak])
    ridge = np.float64(peak) / np.float64(bandwidth)
    return np.float64(flops) / moved, ridge, times.max(), ("memory", "compute")[int(times.argmax())]


def by_sorting(flops, moved, peak, bandwidth):
    seconds, binds = sorted([(flops / peak, "compute"), (moved / bandwidth, "memory")])[-1]
    return flops * (1 / moved), peak * (1 / bandwidth), seconds, binds


VARIANTS = (
    Variant("the two times compared", by_times),
    Variant("the speed that can be reached", by_attainable_speed),
    Variant("NumPy scalars", by_numpy),
    Variant("times sorted", by_sorting),
)
