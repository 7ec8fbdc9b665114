"""When work is due: from what an instructor types to what nbgrader keeps."""

from __future__ import annotations

from datetime import UTC, datetime, time


def parse_due(text: str) -> datetime:
    """The moment in UTC, without a zone, as nbgrader keeps it.

    Takes "2027-01-31" (the end of that day), "2027-01-31 18:00", both by this machine's time zone, and
    "2027-01-31 18:00+01:00". Raises `ValueError` for anything else.
    """
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(f"wanted a date such as 2027-01-31 or '2027-01-31 18:00+01:00', got {text!r}") from None
    if len(text.strip()) <= len("2027-01-31"):
        moment = datetime.combine(moment.date(), time(23, 59, 59))
    try:
        return moment.astimezone(UTC).replace(tzinfo=None)
    except (OverflowError, OSError, ValueError):
        raise ValueError(f"wanted a date of this era, got {text!r}") from None
