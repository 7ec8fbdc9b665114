"""Pictures of what fits and what binds: a memory budget, a roofline, latency against throughput."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kvlib.figure import BLUE, GREY, ORANGE, RED, described, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from kvlib.sizing.plan import Plan

GB = 10**9
MOST_BOXES = 200
MARKS = "osD^vP*X"


def draw_budget(gpu_bytes: int, weight_bytes: int, reserve_bytes: int, sequence_bytes: int) -> Figure:
    """One GPU's memory as a bar: weights, reserve, the caches of as many whole sequences as fit, and what is left over.

    All in bytes, on one GPU; sequence_bytes is one sequence's cache. ValueError when one of them is negative or the
    sequence takes nothing. Returns the Figure; its `alt` describes it in words.
    """
    if min(gpu_bytes, weight_bytes, reserve_bytes) < 0 or sequence_bytes <= 0:
        given = f"{gpu_bytes}, {weight_bytes}, {reserve_bytes}, {sequence_bytes}"
        raise ValueError(f"a budget needs four numbers of bytes, the last above 0, got {given}")
    figure = new_figure(width=9.0, height=2.3)
    count = _draw_bar(figure, figure.subplots(), gpu_bytes, weight_bytes, reserve_bytes, sequence_bytes)
    over = " The weights and the reserve alone do not fit." if weight_bytes + reserve_bytes > gpu_bytes else ""
    alt = (
        f"Memory of one GPU, {_short(gpu_bytes / GB, 4)} GB: weights {_short(weight_bytes / GB, 4)} GB, reserve "
        f"{_short(reserve_bytes / GB, 4)} GB, then {count} whole sequences of {_short(sequence_bytes / GB, 4)} GB of "
        f"cache.{over}"
    )
    return described(figure, alt)


def draw_plan(plan: Plan) -> Figure:
    """A plan of `kvlib.sizing.plan` in one picture: the memory of one GPU as a bar, and the four numbers that matter.

    Returns the Figure; its `alt` describes it in words.
    """
    figure = new_figure(width=9.0, height=3.6)
    bar, words = figure.subplots(2, 1, height_ratios=(2, 1.3))
    held_back = plan.gpu_bytes - plan.weight_bytes_per_rank - plan.budget_per_rank  # reserve, and what may not be used
    _draw_bar(figure, bar, plan.gpu_bytes, plan.weight_bytes_per_rank, held_back, plan.sequence_bytes_per_rank)
    facts = plan_facts(plan)
    words.axis("off")
    for number, (name, value) in enumerate(facts.items()):
        words.text(number / len(facts), 0.75, name, transform=words.transAxes, color="#444444")
        words.text(number / len(facts), 0.25, value, transform=words.transAxes, fontsize=13, weight="bold")
    told = ", ".join(f"{name}: {value}" for name, value in facts.items())
    return described(figure, f"{plan.model} on {plan.tp} x {plan.gpu}, {plan.batch} x {plan.context:,} tokens. {told}.")


def plan_facts(plan: Plan) -> dict[str, str]:
    """The four numbers that matter, with their units.

    >>> from kvlib.sizing.models import load_config
    >>> from kvlib.sizing.plan import make_plan
    >>> plan_facts(make_plan(load_config("llama-3-8b"), "H100", context=8192, batch=8))["cache per token"]
    '128 KiB'
    """
    seconds = plan.step_seconds
    step = f"{_short(1000 * seconds)} ms" if seconds < 1 else f"{_short(seconds)} s"
    return {
        "cache per token": f"{_short(plan.kv_bytes_per_token / 1024, 4)} KiB",
        "sequences that fit": f"{plan.sequences_that_fit:,}",
        "one decode step": f"{step} at least",
        "what binds": plan.binds,
    }


def _draw_bar(figure: Figure, axes: Axes, gpu: int, weights: int, reserve: int, sequence: int) -> int:
    """Draw the bar, and return how many whole sequences are in it."""
    count = max(0, (gpu - weights - reserve) // sequence)
    parts: list[tuple[str, int, dict[str, Any]]] = [
        ("weights", weights, {"facecolor": GREY, "edgecolor": "black"}),
        ("kept free", reserve, {"facecolor": "white", "edgecolor": "black", "hatch": "..."}),
    ]
    if count > MOST_BOXES:  # too narrow to be told apart
        parts.append((f"{count:,} sequences", count * sequence, {"facecolor": BLUE, "edgecolor": "white"}))
    else:
        box = {"facecolor": BLUE, "edgecolor": "white"}
        parts += [("one sequence" if i == 0 else "", sequence, box) for i in range(count)]
    start = 0
    for name, size, style in parts:
        axes.barh(0, size / GB, left=start / GB, height=0.8, label=name or None, **style)
        start += size
    axes.axvline(gpu / GB, color=RED, linewidth=2.5, linestyle="--", label="all of the GPU")
    axes.set_yticks([])
    axes.set_xlabel("GB on one GPU")
    axes.set_title(f"{count:,} sequence{'s' * (count != 1)} of {_short(sequence / GB)} GB fit", loc="left")
    figure.legend(loc="outside lower center", ncols=4, frameon=False)
    _clean(axes, "top", "right", "left")
    return count


def draw_roofline(peak_flops: float, bandwidth: float, intensities: Mapping[str, float]) -> Figure:
    """The most FLOP/s that a device can reach at each arithmetic intensity, with named pieces of work on the roof.

    peak_flops in FLOP/s, bandwidth in bytes/s, intensities in FLOP per byte. Both scales are logarithmic.
    Returns the Figure; its `alt` describes it in words.
    """
    ridge = peak_flops / bandwidth
    low, high = min([*intensities.values(), ridge]) / 4, max([*intensities.values(), ridge]) * 8
    figure = new_figure(width=8.5, height=4.4 + 0.25 * len(intensities))
    axes = figure.subplots()
    axes.loglog([low, ridge, high], [low * bandwidth, peak_flops, peak_flops], color="black", linewidth=2.5)
    axes.axvline(ridge, color=GREY, linestyle=":")
    axes.annotate(f"ridge: {ridge:.0f} FLOP per byte", (ridge, low * bandwidth), (6, 6), textcoords="offset points")
    sentences = [
        f"Roofline of a device with {peak_flops:.3g} FLOP/s and {bandwidth:.3g} bytes/s; its ridge is {ridge:.0f}."
    ]
    # Work of equal intensity lies on one point, so the marks shrink and change their filling: all of them can be seen.
    for number, (name, intensity) in enumerate(intensities.items()):
        reached = min(peak_flops, intensity * bandwidth)
        side = "memory" if intensity < ridge else "compute"
        share = f"at most {reached / peak_flops:.1%} of the peak"
        size, face = max(7.0, 16.0 - 2.5 * number), (BLUE, "white", ORANGE)[number % 3]
        style: dict[str, Any] = {"markersize": size, "markerfacecolor": face}
        style |= {"markeredgecolor": "black", "linestyle": "none"}
        label = f"{name}: {_short(intensity)} FLOP/byte, {share}"
        axes.plot(intensity, reached, MARKS[number % len(MARKS)], label=label, **style)
        sentences.append(f"{name}: {_short(intensity)} FLOP per byte, bound by {side}, {share}.")
    figure.legend(loc="outside lower left", frameon=False)
    axes.set_title("What the device can reach", loc="left")
    axes.set_xlabel("arithmetic intensity, FLOP per byte moved")
    axes.set_ylabel("FLOP/s at most")
    axes.set_ylim(low * bandwidth, peak_flops * 3)
    axes.grid(which="major", color="#E0E0E0")
    _clean(axes, "top", "right")
    return described(figure, " ".join(sentences))


def draw_latency_throughput(batches: Sequence[int], seconds: Sequence[float], fits: Sequence[bool]) -> Figure:
    """Tokens per second of all sequences together against the time of one decode step, as the batch grows.

    seconds: of one step for each batch. fits: whether that batch fits into memory; those that do not are drawn hollow.
    ValueError when the three are not of one length. Returns the Figure; its `alt` describes it in words.
    """
    if not len(batches) == len(seconds) == len(fits):
        raise ValueError(f"one time and one `fits` for each batch: got {len(batches)}, {len(seconds)} and {len(fits)}")
    figure = new_figure(width=8.5, height=4.8)
    axes = figure.subplots()
    latency, throughput = [1000 * s for s in seconds], [b / s for b, s in zip(batches, seconds, strict=True)]
    axes.plot(latency, throughput, color=GREY, linewidth=1.5, zorder=1)
    sentences = ["Throughput against the time of one step, as the batch grows."]
    for batch, x, y, ok in zip(batches, latency, throughput, fits, strict=True):
        face, edge = (BLUE, "black") if ok else ("white", RED)
        axes.plot(x, y, "o" if ok else "s", markersize=10, markerfacecolor=face, markeredgecolor=edge, zorder=2)
        axes.annotate(f"{batch}" if ok else f"{batch}: does not fit", (x, y), (9, 5), textcoords="offset points")
        note = "" if ok else ", which does not fit"
        sentences.append(f"Batch {batch}{note}: {x:.1f} ms a step, {y:,.0f} tokens per second in all.")
    axes.set_title("Each point is a batch size", loc="left")
    axes.set_xlabel("time of one decode step, ms (what one user waits for a token)")
    axes.set_ylabel("tokens per second, all users together")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.margins(x=0.12, y=0.12)
    axes.grid(color="#E0E0E0")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    _clean(axes, "top", "right")
    return described(figure, " ".join(sentences))


def _short(number: float, digits: int = 3) -> str:
    """So many digits, but all of a whole number: 1.64e+05 is no number that people read."""
    return f"{number:,.0f}" if number >= 10 ** (digits - 1) else f"{number:.{digits}g}"


def _clean(axes: Axes, *sides: str) -> None:
    for side in sides:
        axes.spines[side].set_visible(False)
