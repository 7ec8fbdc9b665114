"""Names for the axes of what came back, so that a place in four dimensions can be read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autograde.finding import Finding


def named(finding: Finding, axes: Sequence[str], before: str = "") -> Finding:
    """The same finding with "sequence 0, token 2" in place of "0, 2"; `before` comes first."""
    numbers = finding.where.split(", ")
    where = finding.where
    if len(numbers) == len(axes) and all(number.isdigit() for number in numbers):
        where = ", ".join(f"{axis} {number}" for axis, number in zip(axes, numbers, strict=True))
    return finding if finding.ok else replace(finding, where=", ".join(part for part in (before, where) if part))
