"""The pictures of the first lessons. Each comes with a description in words, for those who do not see it.

matplotlib is imported only when a picture is drawn, and so is `kvlib.counts`, which answers an exercise. A picture
belongs to no pyplot state: it is shown where it is the last line of a cell, and nowhere else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvlib.figure import BLUE, GREY, ORANGE, PALE, described, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# What one step does about one token's row of K and V.
NEW, AGAIN, KEPT, ABSENT = "new", "again", "kept", ""
COMPUTED = (NEW, AGAIN)
MEANING = {
    NEW: "computed for the first time",
    AGAIN: "computed again",
    KEPT: "kept from an earlier step",
    ABSENT: "not there yet",
}
# Told apart by word, hatch and lightness too, not by colour alone.
STYLE: dict[str, dict[str, Any]] = {
    NEW: {"facecolor": BLUE, "edgecolor": BLUE},
    AGAIN: {"facecolor": ORANGE, "edgecolor": "black", "hatch": "///"},
    KEPT: {"facecolor": PALE, "edgecolor": BLUE},
    ABSENT: {"facecolor": "white", "edgecolor": GREY, "linestyle": ":"},
}


def rows_by_step(num_tokens: int, cached: bool) -> list[list[str]]:
    """What each step does about each token's row: one list for each step, of NEW, AGAIN, KEPT or ABSENT for each token.

    Raises ValueError for less than one token.

    >>> rows_by_step(2, cached=False)
    [['new', ''], ['again', 'new']]
    """
    if num_tokens < 1:
        raise ValueError(f"a picture of rows needs at least 1 token, got {num_tokens}")
    earlier = KEPT if cached else AGAIN
    return [
        [earlier if token < step else NEW if token == step else ABSENT for token in range(num_tokens)]
        for step in range(num_tokens)
    ]


def computed_by_step(steps: list[list[str]]) -> list[int]:
    """Rows that each step computes, counted in what is drawn.

    >>> computed_by_step(rows_by_step(3, cached=False)), computed_by_step(rows_by_step(3, cached=True))
    ([1, 2, 3], [1, 1, 1])
    """
    return [sum(row in COMPUTED for row in step) for step in steps]


def describe_rows(num_tokens: int = 4, upto: int | None = None) -> str:
    """`draw_rows` in words."""
    sentences = []
    for title, cached in (("Without a cache", False), ("With a cache", True)):
        counts = computed_by_step(rows_by_step(num_tokens, cached)[:upto])
        sentences.append(f"{title}, rows of K and V computed by step {len(counts)}: {_sum(counts)}.")
    return " ".join([*sentences, "With a cache, each step computes the newest token's row and keeps all earlier rows."])


def draw_rows(num_tokens: int = 4, upto: int | None = None) -> Figure:
    """Which rows of K and V each step of decoding computes, without a cache and with one.

    One column for each step, one line for each token. upto: draw this many steps and leave the rest empty; None = all.
    Returns the Figure; its `alt` describes it in words.
    """
    figure = new_figure(width=max(9.0, min(13.0, num_tokens + 5.5)), height=0.45 * num_tokens + 2.6)
    left, right = figure.subplots(1, 2, sharey=True)
    _draw_steps(left, "Without a cache", rows_by_step(num_tokens, cached=False), upto)
    _draw_steps(right, "With a cache", rows_by_step(num_tokens, cached=True), upto)
    left.set_yticks(range(num_tokens), [f"token {token + 1}" for token in range(num_tokens)])
    left.set_ylabel("row of K and V")
    _add_legend(figure)
    return described(figure, describe_rows(num_tokens, upto))


def describe_growth(prompt: int = 64, new: int = 1024) -> str:
    """`draw_growth` in words."""
    from kvlib.counts import count_positions

    uncached, cached = count_positions(prompt, new)
    return (
        f"Positions pushed through the model, by the number of new tokens, after a prompt of {prompt}; both scales are "
        f"logarithmic. For {new:,} new tokens: {uncached:,} without a cache, {cached:,} with one, "
        f"{uncached / cached:,.0f} times fewer."
    )


def draw_growth(prompt: int = 64, new: int = 1024) -> Figure:
    """Positions pushed through the model to make 1 to `new` tokens after a prompt, without a cache and with one.

    Both scales are logarithmic. Returns the Figure; its `alt` describes it in words.
    """
    made = range(1, new + 1)
    from kvlib.counts import count_positions

    uncached, cached = zip(*(count_positions(prompt, n) for n in made), strict=True)
    figure = new_figure(width=8.0, height=4.6)
    axes = figure.subplots()
    for counts, name, style in (
        (uncached, "without a cache", {"color": "black", "linestyle": "-"}),
        (cached, "with a cache", {"color": BLUE, "linestyle": "--"}),
    ):
        axes.loglog(made, counts, linewidth=2.5, **style)
        label = f"{name}\n{counts[-1]:,}"
        axes.annotate(label, (new, counts[-1]), (8, 0), textcoords="offset points", va="center", color=style["color"])
    axes.annotate("", (new, cached[-1]), (new, uncached[-1]), arrowprops={"arrowstyle": "<->", "color": GREY})
    middle = (uncached[-1] * cached[-1]) ** 0.5
    ratio = f"{uncached[-1] / cached[-1]:,.0f} times"
    axes.annotate(ratio, (new, middle), (-6, 0), textcoords="offset points", va="center", ha="right")
    axes.set_title(f"Work to make new tokens after a prompt of {prompt}", loc="left")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlabel("new tokens")
    axes.set_ylabel("positions through the model")
    axes.grid(which="major", color="#E0E0E0")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return described(figure, describe_growth(prompt, new))


def _draw_steps(axes: Axes, title: str, steps: list[list[str]], upto: int | None) -> None:
    from matplotlib.patches import Rectangle

    num_tokens = len(steps)
    counts = computed_by_step(steps)
    for step, rows in enumerate(steps[:upto]):
        for token, row in enumerate(rows):
            axes.add_patch(Rectangle((step - 0.44, token - 0.42), 0.88, 0.84, **STYLE[row]))
            if num_tokens <= 12:
                pad = {"boxstyle": "round,pad=0.15", "facecolor": ORANGE, "edgecolor": "none"} if row == AGAIN else None
                axes.text(
                    step, token, row, ha="center", va="center", color="white" if row == NEW else "black", bbox=pad
                )
    axes.set_title(f"{title}: {_sum(counts[:upto])} {'row' if sum(counts[:upto]) == 1 else 'rows'}", loc="left")
    axes.set_xlim(-0.6, num_tokens - 0.4)
    axes.set_ylim(num_tokens - 0.4, -0.6)  # token 1 on top, as in the matrix K
    labels = [f"{n + 1}\n({count})" for n, count in enumerate(counts[:upto])]
    axes.set_xticks(range(num_tokens), labels + ["\n"] * (num_tokens - len(labels)))
    axes.set_xlabel("step (rows computed)")
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _add_legend(figure: Figure) -> None:
    from matplotlib.patches import Patch

    patches = [Patch(**STYLE[row], label=MEANING[row]) for row in STYLE]
    figure.legend(handles=patches, loc="outside lower center", ncols=len(patches), frameon=False, handlelength=1.6)


def _sum(counts: list[int]) -> str:
    terms = [str(count) for count in counts]
    if len(terms) > 8:
        terms[2:-1] = ["..."]
    return f"{' + '.join(terms)} = {sum(counts)}" if len(terms) > 1 else terms[0]
