"""A film of a cache: what it holds after each chunk of tokens. It drives the reader's own class."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kvlib.figure import BLUE, GREY, PALE, RED, described, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NOTHING = -1  # what was read back belongs to no token


@dataclass(frozen=True)
class Frame:
    """One chunk and what the cache gave back: layer by layer, the token in each place, and whether it belongs there."""

    title: str
    slots: tuple[tuple[int, ...], ...]
    right: tuple[tuple[bool, ...], ...]
    missing: tuple[int, ...]  # tokens that should be there, layer by layer, and are not: how many
    new: tuple[int, ...]  # the tokens of this chunk


def film_cache(
    make: Callable[..., Any], num_layers: int = 2, max_len: int = 8, chunks: Sequence[int] = (3, 1, 1, 1, 2, 1)
) -> list[Frame]:
    """Drive a cache with the methods of lesson 04 through these chunks, and read back what each append gives.

    make(num_layers, batch_size, num_kv_heads, max_len, head_dim, dtype) makes it. Token n is written as rows full of
    n + 1, so every row that comes back tells whose it is. A chunk that is refused by a ValueError becomes a frame.
    """
    import torch

    cache = make(num_layers, 1, 1, max_len, 2, torch.float32)
    frames, held = [], 0
    slots: tuple[tuple[int, ...], ...] = ((),) * num_layers
    for size in chunks:
        tokens = range(held, held + size)
        rows = torch.tensor([float(token + 1) for token in tokens]).view(1, 1, size, 1).expand(1, 1, size, 2)
        try:
            given = [cache.append(layer, rows.clone(), -rows) for layer in range(num_layers)]
            cache.advance(size)
        except ValueError as error:
            title = f"{_tokens(size)} more: refused ({error})"
            frames.append(_in_order(title, slots, held, ()))
            continue
        slots = tuple(_tokens_in(K, V) for K, V in given)
        held += size
        frames.append(_in_order(f"{_tokens(size)} more: len is {len(cache)}", slots, held, tuple(tokens)))
    return frames


def _in_order(title: str, slots: tuple[tuple[int, ...], ...], held: int, new: tuple[int, ...]) -> Frame:
    """Token n belongs in place n of every layer."""
    right = tuple(tuple(place == token < held for place, token in enumerate(found)) for found in slots)
    return Frame(title, slots, right, tuple(held - sum(layer) for layer in right), new)


def film_ring(make: Callable[..., Any], window: int = 4, chunks: Sequence[int] = (3, 1, 1, 4, 1)) -> list[Frame]:
    """The same for the ring buffer of lesson 05: make(window, batch_size, num_kv_heads, head_dim) makes it.

    Every place that comes back is shown in the order given. A token belongs there when its position is told right; the
    last window - 1 tokens before the chunk and the chunk itself must all be there.
    """
    import torch

    ring, frames, held = make(window, 1, 1, 2), [], 0
    for size in chunks:
        tokens = range(held, held + size)
        numbers = torch.tensor([float(token + 1) for token in tokens], dtype=torch.float64)
        rows = numbers.view(1, 1, size, 1).expand(1, 1, size, 2)
        K, V, positions = ring.append(rows.clone(), -rows)
        places = torch.as_tensor(positions).tolist()
        told = [(token, place) for token, place in zip(_tokens_in(K, V), places, strict=True) if place >= 0]
        found, right = tuple(token for token, _ in told), tuple(token == place for token, place in told)
        missing = len(set(range(max(0, held - window + 1), held + size)) - set(found))
        title = f"{_tokens(size)} more: what they may see, in the order given"
        frames.append(Frame(title, (found,), (right,), (missing,), tuple(tokens)))
        held += size
    return frames


def _tokens_in(K: Any, V: Any) -> tuple[int, ...]:
    """The token of each row; `NOTHING` where K and V tell of different ones or of none."""
    pairs = zip(K[0, 0, :, 0].tolist(), V[0, 0, :, 0].tolist(), strict=True)
    return tuple(int(k) - 1 if k == -v and k == k and k >= 1 else NOTHING for k, v in pairs)


def _tokens(size: int) -> str:
    return f"{size} token{'s' * (size != 1)}"


def describe_film(frames: Sequence[Frame], upto: int | None = None) -> str:
    """`draw_film` in words.

    >>> wrong = Frame("2 tokens more", slots=((0, NOTHING),), right=((True, False),), missing=(1,), new=(0, 1))
    >>> describe_film([wrong])
    'Step 1, 2 tokens more. Layer 0 holds 0, ?, which is not right.'
    """
    sentences = []
    for number, frame in enumerate(frames[:upto], start=1):
        sentences.append(f"Step {number}, {frame.title}.")
        for layer, found in enumerate(frame.slots):
            names = ", ".join("?" if token == NOTHING else str(token) for token in found) or "nothing"
            right = all(frame.right[layer]) and not frame.missing[layer]
            sentences.append(f"Layer {layer} holds {names}{'' if right else ', which is not right'}.")
    return " ".join(sentences)


def draw_film(frames: Sequence[Frame], upto: int | None = None) -> Figure:
    """One strip for each chunk, one line in it for each layer: whose rows lie where. Wrong ones are crossed.

    upto: draw this many strips and leave the rest empty; None = all.
    Returns the Figure; its `alt` describes it in words.
    """
    places = max([1, *(len(found) for frame in frames for found in frame.slots)])
    lines = max(len(frame.slots) for frame in frames)
    figure = new_figure(width=max(6.5, 0.62 * places + 2.0), height=len(frames) * (0.42 * lines + 0.62) + 0.2)
    strips = figure.subplots(len(frames), 1, squeeze=False)[:, 0]
    for number, (axes, frame) in enumerate(zip(strips, frames, strict=True)):
        drawn = upto is None or number < upto
        _draw_strip(axes, frame if drawn else None, number + 1, places, lines)
    return described(figure, describe_film(frames, upto))


def _draw_strip(axes: Axes, frame: Frame | None, number: int, places: int, lines: int) -> None:
    from matplotlib.patches import Rectangle

    for layer in range(lines):
        found = () if frame is None else frame.slots[layer]
        for place in range(places):
            style: dict[str, Any] = {"facecolor": "white", "edgecolor": GREY, "linestyle": ":"}
            label, ink = "", "black"
            if frame is not None and place < len(found):
                token = found[place]
                label = "?" if token == NOTHING else str(token)
                style = {"facecolor": PALE, "edgecolor": BLUE}
                if token in frame.new:
                    style, ink, label = {"facecolor": BLUE, "edgecolor": BLUE}, "white", f"+{label}"
                if not frame.right[layer][place]:
                    style, ink = {"facecolor": "white", "edgecolor": RED, "hatch": "xx", "linewidth": 2.0}, "black"
            axes.add_patch(Rectangle((place - 0.45, layer - 0.42), 0.9, 0.84, **style))
            paper = (
                {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none"} if "hatch" in style else None
            )
            axes.text(place, layer, label, ha="center", va="center", color=ink, bbox=paper)
    axes.set_title(f"{number}. {frame.title}" if frame is not None else f"{number}.", loc="left", fontsize=10)
    axes.set_xlim(-0.6, places - 0.4)
    axes.set_ylim(lines - 0.45, -0.55)
    axes.set_yticks(range(lines), [f"layer {layer}" for layer in range(lines)] if lines > 1 else [""])
    axes.set_xticks([])
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
