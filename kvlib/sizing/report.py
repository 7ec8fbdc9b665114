"""A plan as a text to read, and as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from textwrap import wrap

from kvlib.sizing.plan import Plan
from kvlib.sizing.units import show

WIDTH = 100


@dataclass(frozen=True)
class Row:
    """One line: what it is, the number, and the number in words. Settings have no number to compare."""

    section: str
    label: str
    text: str
    number: float | None = None


def rows(plan: Plan) -> list[Row]:
    """Everything that a report shows, but the assumptions."""
    p = plan
    shown = [
        Row("Setting", "model", f"{p.model} ({p.model_type}), {p.num_layers} layers"),
        Row("Setting", "GPUs", f"{p.tp} x {p.gpu}, {size(p.gpu_bytes)}, {p.bandwidth / 1e12:.3g} TB/s each"),
        Row("Setting", "sequences", f"{p.batch:,} of {p.context:,} tokens, in blocks of {p.block_size}"),
        Row("Setting", "weights in", p.weights_format),
        Row("Setting", "cache in", p.kv_format),
        Row("Setting", "usable", f"{p.utilisation:.0%} of each GPU, less a reserve of {size(p.reserve_bytes)}"),
        Row("Weights", "parameters", f"{p.parameters / 1e9:,.2f} billion", p.parameters),
        Row("Weights", "used by a token", f"{p.active_parameters / 1e9:,.2f} billion", p.active_parameters),
        _size("Weights", "in all", p.weight_bytes),
        _size("Weights", "on each GPU", p.weight_bytes_per_rank),
        _size("Cache", "a token", p.kv_bytes_per_token),
        _size("Cache", "a token, on each GPU", p.kv_bytes_per_token_per_rank),
        _size("Cache", "one more token at this context, on each GPU", p.kv_bytes_next_token_per_rank),
        _size("Cache", "a sequence, on each GPU", p.sequence_bytes_per_rank),
        _size("Capacity", "left for caches on each GPU", p.budget_per_rank),
        Row("Capacity", "sequences that fit", f"{p.sequences_that_fit:,}", p.sequences_that_fit),
        _size("A decode step", "read by each GPU", p.step_bytes_per_rank),
        Row(
            "A decode step",
            "calculated by each GPU",
            f"{p.step_flops_per_rank / 1e9:,.2f} GFLOP",
            p.step_flops_per_rank,
        ),
        Row("A decode step", "intensity", f"{p.intensity:.2f} FLOP/B; the ridge is at {p.ridge:.0f}", p.intensity),
        Row("A decode step", "takes at least", f"{p.step_seconds * 1e3:.2f} ms", p.step_seconds),
        Row("A decode step", "tokens/s at most", f"{p.tokens_per_second:,.0f}", p.tokens_per_second),
        Row(
            "A decode step",
            "for each sequence",
            f"{p.tokens_per_second_per_sequence:,.1f}",
            p.tokens_per_second_per_sequence,
        ),
        Row("A decode step", "what binds", _binds(p)),
    ]
    return shown


def as_text(plan: Plan) -> str:
    """The report, aligned, with its assumptions. Decimal and binary units are both given, and labelled."""
    shown = rows(plan)
    width = max(len(row.label) for row in shown)
    lines: list[str] = []
    section = None
    for row in shown:
        if row.section != section:
            lines += [""] * bool(lines) + [row.section]
            section = row.section
        lines.append(f"  {row.label:<{width}}  {row.text}")
    return "\n".join([*lines, "", *assumption_lines(plan.assumptions)])


def assumption_lines(assumptions: tuple[str, ...]) -> list[str]:
    """The sentences as a list that fits on a screen."""
    lines = ["Assumptions"]
    for sentence in assumptions:
        lines += wrap(sentence, WIDTH, initial_indent="  - ", subsequent_indent="    ")
    return lines


def as_json(*plans: Plan) -> str:
    """One plan as an object, several as a list."""
    values = [plan.to_dict() for plan in plans]
    return json.dumps(values[0] if len(values) == 1 else values, indent=2)


def size(num_bytes: int) -> str:
    """A size in decimal and binary units; below 0 where there is too little.

    >>> size(131_072), size(-192)
    ('131.07 KB (128.00 KiB)', 'minus 192 B')
    """
    return show(num_bytes) if num_bytes >= 0 else f"minus {show(-num_bytes)}"


def _size(section: str, label: str, num_bytes: int) -> Row:
    return Row(section, label, size(num_bytes), num_bytes)


def _binds(plan: Plan) -> str:
    if plan.binds != "memory capacity":
        return plan.binds
    if plan.budget_per_rank < 0:
        return "memory capacity: the weights alone do not fit"
    return f"memory capacity: {plan.batch:,} sequences do not fit"
