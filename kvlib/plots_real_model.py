"""Times a decode step of a model with and without a cache, and draws the two against the context.

The clock counts this thread's CPU time: run it on one thread, and other programs hardly disturb it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from kvlib.figure import BLUE, GREY, RED, described, new_figure

if TYPE_CHECKING:
    import torch
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Step:
    """Seconds of one decode step after so many tokens of context: with a cache, and with all worked out again."""

    context: int
    cached: float
    recomputed: float

    @property
    def ratio(self) -> float:
        """How many times longer it takes without a cache."""
        return self.recomputed / self.cached


@dataclass(frozen=True)
class Batch:
    """Seconds of one decode step of so many sequences at once."""

    size: int
    seconds: float

    @property
    def per_token(self) -> float:
        """Seconds for each token: a step makes one of each sequence."""
        return self.seconds / self.size


def fastest(action: Callable[[], object], repeats: int, clock: Callable[[], float] = time.thread_time) -> float:
    """Seconds of the fastest of so many runs. Raises ValueError for repeats below 1."""
    if repeats < 1:
        raise ValueError(f"repeats must be at least 1, got {repeats}")
    seconds = []
    for _ in range(repeats):
        began = clock()
        action()
        seconds.append(clock() - began)
    return min(seconds)


def time_steps(
    model: Any, make_cache: Callable[[int], Any], tokens: torch.Tensor, contexts: Sequence[int], repeats: int = 3
) -> list[Step]:
    """Time one decode step after each of these many tokens, ascending.

    model: a `kvlib.transformer.Transformer`. make_cache(max_len): a new cache for `kvlib.generate.forward` that can be
    truncated. tokens: (1, n) with more tokens than the longest context. repeats: runs, of which the fastest counts. The
    context goes through the cache once. The step without a cache, which is slow, runs once. Raises ValueError where
    tokens or contexts do not fit.
    """
    from kvlib.generate import forward  # here, since drawing needs no torch

    contexts = list(contexts)
    if contexts != sorted(set(contexts)) or not contexts or contexts[0] < 1 or contexts[-1] >= tokens.shape[1]:
        raise ValueError(f"contexts must rise from 1 to at most {tokens.shape[1] - 1}, got {contexts}")
    cache, steps = make_cache(contexts[-1] + 1), []
    for context in contexts:
        forward(model, cache, tokens[:, len(cache) : context])
        new = tokens[:, context : context + 1]

        def step(new: torch.Tensor = new, context: int = context) -> None:
            forward(model, cache, new)
            cache.truncate(context)

        step()  # not timed: the first run finds memory that nobody has touched
        cached = fastest(step, repeats)
        whole = tokens[:, : context + 1]
        steps.append(Step(context, cached, fastest(partial(model.logits, whole), 1)))
    return steps


def time_batches(model: Any, make_cache: Callable[[int], Any], tokens: torch.Tensor, repeats: int = 3) -> list[Batch]:
    """Time one cached decode step of 1, 2, 4, ... sequences, up to all B of tokens (B, T): T - 1 of context, 1 new.

    model, make_cache, repeats: as in `time_steps`; the caches must take any number of sequences.
    """
    from kvlib.generate import forward

    found, size, context = [], 1, tokens.shape[1] - 1
    while size <= len(tokens):
        cache, rows = make_cache(context + 1), tokens[:size]
        forward(model, cache, rows[:, :context])

        def step(cache: Any = cache, rows: torch.Tensor = rows) -> None:
            forward(model, cache, rows[:, context:])
            cache.truncate(context)

        step()
        found.append(Batch(size, fastest(step, repeats)))
        size *= 2
    return found


def describe_steps(steps: Sequence[Step], batches: Sequence[Batch] = ()) -> str:
    """`draw_steps` in words.

    >>> describe_steps([Step(context=64, cached=0.01, recomputed=0.08)])
    'One decode step, without a cache against with one: 8.0 times as long after 64 tokens.'
    """
    words = "One decode step, without a cache against with one: "
    words += ", ".join(f"{step.ratio:.1f} times as long after {step.context} tokens" for step in steps) + "."
    if batches:
        first = batches[0].per_token
        words += " Time for each token in a batch, against a batch of 1: "
        words += ", ".join(f"{batch.per_token / first:.2f} in a batch of {batch.size}" for batch in batches) + "."
    return words


def draw_steps(steps: Sequence[Step], batches: Sequence[Batch] = ()) -> Figure:
    """Step times against the context, both on logarithmic axes, with their ratios written in; beside it the batches.

    Times are parts of the first cached step's: what a machine's clock says does not matter. steps: at least one.
    Returns the Figure; its `alt` describes it in words. Raises ValueError for no steps.
    """
    if not steps:
        raise ValueError("wanted at least one step, got none")
    figure = new_figure(width=9.0 if batches else 5.5, height=3.4)
    left, *right = figure.subplots(1, 2 if batches else 1, squeeze=False)[0]
    unit, contexts = steps[0].cached, [step.context for step in steps]
    lines = (("without a cache", RED, "s", "--", "recomputed"), ("with a cache", BLUE, "o", "-", "cached"))
    for label, color, marker, dashes, name in lines:
        times = [getattr(step, name) / unit for step in steps]
        left.plot(contexts, times, color=color, marker=marker, linestyle=dashes, label=label)
    for step in steps:
        place = (step.context, step.recomputed / unit)
        left.annotate(f"{step.ratio:.0f}x", place, (0, 7), textcoords="offset points", ha="center", fontsize=9)
    left.set_xscale("log", base=2)
    left.set_yscale("log")
    left.set_xticks(contexts, [f"{context:,}" for context in contexts])
    left.set_ylim(top=3 * max(step.recomputed for step in steps) / unit)
    left.set_xlabel("tokens of context")
    left.set_ylabel(f"time of a step (cached, {contexts[0]:,} = 1)")
    left.yaxis.set_major_formatter("{x:,g}")
    left.legend(frameon=False, fontsize=9, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    _bare(left)
    for axes in right:
        _draw_batches(axes, batches)
    return described(figure, describe_steps(steps, batches))


def _draw_batches(axes: Axes, batches: Sequence[Batch]) -> None:
    first, places = batches[0].per_token, range(len(batches))
    heights = [batch.per_token / first for batch in batches]
    axes.bar(places, heights, color="white", edgecolor=BLUE, hatch="//")
    for place, height in zip(places, heights, strict=True):
        axes.text(place, height, f"{height:.2f}", ha="center", va="bottom", fontsize=9)
    axes.axhline(1, color=GREY, linewidth=0.8, linestyle=":")
    axes.set_xticks(places, [str(batch.size) for batch in batches])
    axes.set_xlabel("sequences in a step")
    axes.set_ylabel("time for each token (alone = 1)")
    _bare(axes)


def _bare(axes: Axes) -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
