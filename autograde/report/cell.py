"""What may stand in a cell of a CSV that somebody opens in a spreadsheet."""

from __future__ import annotations

from autograde.report_text import printable

FORMULA = "=+-@\uff1d\uff0b\uff0d\uff20"  # the wide forms count in spreadsheets set to Japanese or Chinese


def is_formula(text: str) -> bool:
    """Whether a spreadsheet would run the text instead of showing it."""
    return text[:1] in ("\t", "\r", "\n") or text.strip()[:1] in tuple(FORMULA)


def safe(text: str) -> str:
    """The text on one line. What begins like a formula gets an apostrophe in front, and so is shown."""
    return f"'{printable(text)}" if is_formula(text) else printable(text)


def number(value: float | None) -> str:
    """A number with up to four decimals; nothing where there is none."""
    return "" if value is None else f"{round(value, 4) + 0.0:g}"  # + 0.0: no "-0"
