"""How one stage ended."""

from __future__ import annotations

from dataclasses import dataclass

from autograde.exercise import Stage
from autograde.finding import Finding
from autograde.subject import Event


@dataclass(frozen=True)
class Outcome:
    """A stage, the finding that failed it (None when it held or was not reached), and the record of replies."""

    stage: Stage
    finding: Finding | None = None
    record: tuple[Event, ...] = ()
    notes: tuple[str, ...] = ()
    held: bool = False

    @property
    def reached(self) -> bool:
        """Whether the stage ran at all: after a time-out the later ones do not."""
        return self.held or self.finding is not None
