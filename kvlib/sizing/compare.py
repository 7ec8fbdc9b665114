"""Two plans side by side, with the ratio of their numbers."""

from __future__ import annotations

from kvlib.sizing.plan import Plan
from kvlib.sizing.report import Row, assumption_lines, rows


def ratio(first: float | None, second: float | None) -> str:
    """How many times the first the second is, to three digits; empty where that means nothing.

    >>> ratio(2, 5), ratio(0, 5), ratio(None, None)
    ('2.5 x', '', '')
    """
    if first is None or second is None or first <= 0 or second < 0:
        return ""
    return f"{second / first:.3g} x"


def as_table(first: Plan, second: Plan) -> str:
    """Both reports in columns. Settings that are the same are shown once; the last column is second over first."""
    pairs = list(zip(rows(first), rows(second), strict=True))
    in_columns = [(a, b) for a, b in pairs if not _once(a, b)]
    label = max(len(a.label) for a, _ in pairs)
    left, right = max(len(a.text) for a, _ in in_columns), max(len(b.text) for _, b in in_columns)
    lines: list[str] = []
    section = None
    for a, b in pairs:
        if a.section != section:
            lines += [""] * bool(lines) + [a.section]
            section = a.section
        if _once(a, b):
            lines.append(f"  {a.label:<{label}}  {a.text}")
        else:
            line = f"  {a.label:<{label}}  {a.text:<{left}}  {b.text:<{right}}  {ratio(a.number, b.number):>8}"
            lines.append(line.rstrip())
    return "\n".join([*lines, "", *assumption_lines(_both(first, second))])


def _once(a: Row, b: Row) -> bool:
    return a.number is None and a.text == b.text


def _both(first: Plan, second: Plan) -> tuple[str, ...]:
    """What both take for granted, then what only one of them does, with its name."""
    shared = [sentence for sentence in first.assumptions if sentence in second.assumptions]
    own = [
        f"{plan.model}: {sentence}"
        for plan in (first, second)
        for sentence in plan.assumptions
        if sentence not in shared
    ]
    return (*shared, *own)
