"""Bars as inline SVG. Colours come from the page, so that one picture serves light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autograde.report_html import escape

WIDTH, LABEL, ROW, BAR = 560, 190, 28, 18  # pixels: the picture, its labels, a row, a bar in it
LONGEST = 26  # characters of a label; the table beside the picture has it whole
NARROWEST = 22  # a part this wide holds its number


@dataclass(frozen=True)
class Bar:
    """One row: a label, its parts as (style, size), and what stands behind it."""

    label: str
    parts: tuple[tuple[str, float], ...]
    after: str = ""


def bars(rows: Sequence[Bar], whole: float, alt: str) -> str:
    """Rows of stacked parts; `whole` is the size that fills the width. `alt` says the same in words."""
    room = WIDTH - LABEL - 60  # 60 for what stands behind
    height = ROW * len(rows) + 4
    lines = [f'<svg class="plot" role="img" viewBox="0 0 {WIDTH} {height}" aria-label="{escape(alt)}">']
    for i, row in enumerate(rows):
        top, x = i * ROW + (ROW - BAR) // 2, float(LABEL)
        base = top + BAR - 5
        label = row.label if len(row.label) <= LONGEST else row.label[: LONGEST - 1] + "\u2026"
        lines.append(f'<text x="{LABEL - 8}" y="{base}" text-anchor="end">{escape(label)}</text>')
        for style, size in row.parts:
            width = room * size / whole if whole else 0.0
            if width > 0:
                lines.append(f'<rect class="{style}" x="{x:.1f}" y="{top}" width="{width:.1f}" height="{BAR}"/>')
            if width >= NARROWEST and not row.after:
                middle = x + width / 2
                lines.append(
                    f'<text class="on-{style}" x="{middle:.1f}" y="{base}" text-anchor="middle">{size:g}</text>'
                )
            x += width
        if row.after:
            lines.append(f'<text x="{x + 6:.1f}" y="{base}">{escape(row.after)}</text>')
    lines.append("</svg>")
    return "".join(lines)
