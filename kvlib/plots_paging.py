"""Pictures of paging: which block holds what, step by step, and how much of the memory taken holds tokens."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kvlib.figure import BLUE, GREY, ORANGE, PALE, RED, described, new_figure
from kvlib.utilisation import LAYOUTS, Step, shares

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STEPS: tuple[tuple, ...] = (("append", "A", 5), ("append", "B", 3), ("append", "A", 4), ("append", "A", 4))
STEPS += (("fork", "A", "C"), ("append", "C", 1), ("append", "A", 1), ("free", "B"), ("append", "C", 7))
STEPS += (("append", "A", 9),)
FACES = (PALE, "#FBE3C0", "#DDEFE3", "#EEDDEC", "#E6E6E6")  # one for each sequence; its letter says the same


@dataclass(frozen=True)
class Frame:
    """What the tables say after one step: by sequence its blocks, in order, and its length."""

    title: str
    tables: dict[Hashable, tuple[list[int], int]] = field(default_factory=dict)


def film_blocks(make: Callable[[], Any], steps: Sequence[tuple]) -> list[Frame]:
    """Drive block tables of the reader's own through these steps, and look at all tables after each.

    make() gives an object with append(seq, num_tokens), table(seq) and length(seq), and with fork(seq, new) and
    free(seq) where a step asks for them. A step is ("append", seq, n), ("fork", seq, new) or ("free", seq).
    A step that is refused, or not there yet, says so in its title.
    """
    tables, frames = make(), []
    known: list[Hashable] = []
    for name, seq, *rest in steps:
        title = {"append": "{0} gets {1} more", "fork": "{1} goes on from {0}", "free": "{0} is done"}[name]
        title = title.format(seq, *rest)
        try:
            getattr(tables, name)(seq, *rest)
        except (ValueError, AttributeError, NotImplementedError) as error:
            frames.append(Frame(f"{title}: refused ({error})", _tables_of(tables, known)))
            continue
        if name == "free":
            known.remove(seq)
        elif (one := rest[0] if name == "fork" else seq) not in known:
            known.append(one)
        frames.append(Frame(title, _tables_of(tables, known)))
    return frames


def _tables_of(tables: Any, known: Sequence[Hashable]) -> dict[Hashable, tuple[list[int], int]]:
    return {seq: ([int(block) for block in tables.table(seq)], int(tables.length(seq))) for seq in known}


def owners(frame: Frame, num_blocks: int, block_size: int) -> list[list[str]]:
    """For each block and offset the tokens that lie there, such as "A4", several in a shared block; "" = nothing.

    >>> owners(Frame("", {"A": ([1], 2), "B": ([1], 1)}), num_blocks=2, block_size=2)
    [['', ''], ['A0\\nB0', 'A1']]
    """
    cells = [["" for _ in range(block_size)] for _ in range(num_blocks)]
    for seq, (table, length) in frame.tables.items():
        for position in range(length):
            index, offset = divmod(position, block_size)
            if index < len(table) and 0 <= table[index] < num_blocks:
                cell = cells[table[index]][offset]
                cells[table[index]][offset] = f"{cell}\n{seq}{position}" if cell else f"{seq}{position}"
    return cells


def describe_blocks(frame: Frame, num_blocks: int, block_size: int) -> str:
    """`draw_blocks` in words."""
    held = {block for table, _ in frame.tables.values() for block in table}
    parts = [
        f"{seq} has {length} tokens in block{'s' * (len(table) != 1)} {', '.join(map(str, table)) or 'none'}"
        for seq, (table, length) in frame.tables.items()
    ]
    free = f"{num_blocks - len(held)} of {num_blocks} blocks are free"
    return f"{frame.title}. " + "; ".join([*parts, free]) + f"; a block has {block_size} slots."


def draw_blocks(frame: Frame, num_blocks: int, block_size: int) -> Figure:
    """The pool, one row for each block, one cell for each slot; beside it the tables. Free blocks are dotted.

    Returns the Figure; its `alt` describes it in words.
    """
    figure = new_figure(width=7.5, height=0.42 * num_blocks + 1.0)
    pool, tables = figure.subplots(1, 2, width_ratios=(block_size, 4))
    _draw_pool(pool, frame, num_blocks, block_size)
    _write_tables(tables, frame, num_blocks, block_size)
    figure.suptitle(frame.title, x=0.01, ha="left", fontsize=10)
    return described(figure, describe_blocks(frame, num_blocks, block_size))


def _draw_pool(axes: Axes, frame: Frame, num_blocks: int, block_size: int) -> None:
    from matplotlib.patches import Rectangle

    names = {str(seq): FACES[i % len(FACES)] for i, seq in enumerate(frame.tables)}
    held = {block for table, _ in frame.tables.values() for block in table}
    for block, row in enumerate(owners(frame, num_blocks, block_size)):
        for offset, text in enumerate(row):
            first = text.split("\n")[0].rstrip("0123456789")
            style: dict[str, Any] = {"facecolor": names.get(first, "white"), "edgecolor": GREY, "linewidth": 0.8}
            if block not in held:
                style["linestyle"] = ":"
            elif not text:
                style["hatch"] = "///"  # taken, and nobody's token: wasted
            if "\n" in text:
                style |= {"edgecolor": BLUE, "linewidth": 2.0}
            axes.add_patch(Rectangle((offset - 0.47, block - 0.44), 0.94, 0.88, **style))
            axes.text(offset, block, text.replace("\n", " "), ha="center", va="center", fontsize=8)
    axes.set_xlim(-0.6, block_size - 0.4)
    axes.set_ylim(num_blocks - 0.45, -0.55)
    axes.set_yticks(range(num_blocks), [f"block {block}" for block in range(num_blocks)])
    axes.set_xticks([])
    _bare(axes)


def _write_tables(axes: Axes, frame: Frame, num_blocks: int, block_size: int) -> None:
    held = {block for table, _ in frame.tables.values() for block in table}
    tokens = sum(length for _, length in frame.tables.values())
    lines = [f"{seq}: {length} tokens in {table}" for seq, (table, length) in frame.tables.items()]
    lines += ["", f"{tokens} tokens", f"{len(held) * block_size} slots taken", f"{num_blocks - len(held)} blocks free"]
    axes.text(0.0, 1.0, "\n".join(lines), va="top", family="monospace", fontsize=9, transform=axes.transAxes)
    axes.set_axis_off()


def describe_utilisation(steps: Sequence[Step]) -> str:
    """`draw_utilisation` in words."""
    held = shares(steps)
    most = {name: max(step.slots[name] for step in steps) for name in LAYOUTS}
    parts = [f"{name} takes up to {most[name]:,} slots, of which {held[name]:.0%} hold tokens" for name in LAYOUTS]
    return f"{len(steps)} steps, up to {max(step.tokens for step in steps):,} tokens. " + "; ".join(parts) + "."


def draw_utilisation(steps: Sequence[Step]) -> Figure:
    """The slots that each layout takes at every step, over the tokens held, and what share of them held a token.

    Returns the Figure; its `alt` describes it in words.
    """
    figure = new_figure(width=9.0, height=3.2)
    lines, bars = figure.subplots(1, 2, width_ratios=(3, 2))
    styles = {"reserved": (RED, ":"), "padded": (ORANGE, "--"), "paged": (BLUE, "-")}
    for name, (colour, dashes) in styles.items():
        lines.plot([step.slots[name] for step in steps], color=colour, linestyle=dashes, label=name)
    lines.fill_between(range(len(steps)), [step.tokens for step in steps], color=PALE, label="tokens held")
    lines.set_xlabel("step")
    lines.set_ylabel("slots taken")
    lines.yaxis.set_major_formatter("{x:,.0f}")
    lines.legend(frameon=False, fontsize=8)
    held = shares(steps)
    for row, name in enumerate(LAYOUTS):
        bars.barh(row, held[name], color=PALE, edgecolor=BLUE)
        bars.barh(row, 1 - held[name], left=held[name], color="white", edgecolor=GREY, hatch="///")
        bars.text(held[name] / 2, row, f"{held[name]:.0%}", ha="center", va="center", fontsize=9)
    bars.set_yticks(range(len(LAYOUTS)), LAYOUTS)
    bars.set_xticks([])
    bars.set_title("slots that hold tokens; hatched: wasted", loc="left", fontsize=9)
    _bare(bars)
    return described(figure, describe_utilisation(steps))


def _bare(axes: Axes) -> None:
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
