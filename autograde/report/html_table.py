"""Tables and numbers in HTML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from autograde.report_html import escape


@dataclass(frozen=True)
class Html:
    """Text that is HTML already. A plain `str` in a table is escaped."""

    text: str


class Number(str):
    """A number as text: it stands to the right in a table."""


Cell = str | int | Html


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """A table whose numbers stand to the right. `head` and `caption` are escaped as well."""
    rows = list(rows)
    right = [bool(rows) and isinstance(rows[0][i], int | Number) for i in range(len(head))]
    lines = [f'<div class="scroll"><table><caption>{escape(caption)}</caption><thead><tr>']
    for name, is_number in zip(head, right, strict=True):
        lines.append(
            f'<th scope="col" class="n">{escape(name)}</th>' if is_number else f'<th scope="col">{escape(name)}</th>'
        )
    lines.append("</tr></thead><tbody>")
    for row in rows:
        cells = zip(row, right, strict=True)
        lines.append(
            "<tr>"
            + "".join(f'<td class="n">{_cell(c)}</td>' if n else f"<td>{_cell(c)}</td>" for c, n in cells)
            + "</tr>"
        )
    lines.append("</tbody></table></div>")
    return "".join(lines)


def percent(count: float, of: float) -> Number:
    """ "37 %"; nothing of nothing is a dash."""
    return Number(f"{100 * count / of:.0f} %" if of else "\u2013")


def decimals(value: float | None) -> Number:
    """At most two decimals; a dash where the number is not defined."""
    return Number("\u2013" if value is None else f"{round(value, 2) + 0.0:g}")


def plural(count: int, one: str) -> str:
    """ "1 student", "2 students"."""
    return f"{count} {one}{'' if count == 1 else 's'}"


def _cell(value: str | int | Html) -> str:
    return value.text if isinstance(value, Html) else escape(str(value))
