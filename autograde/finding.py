"""One thing that a stage found out about the learner's work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Finding:
    """A fact that holds, or the first one that does not.

    `key` names the question within its stage, whatever the numbers are. `events` is the length of the subject's record
    up to and including the reply that showed the failure: what came later is not compared in a diagnosis. `seen` are
    facts that no reply holds, such as a count of rows taken by a metered projection.
    """

    ok: bool
    key: str
    fact: str  # one sentence for the learner
    where: str = ""  # "step 3, feature 0"
    expected: str = ""
    got: str = ""
    note: str = ""  # a remark on something that holds
    events: int | None = None
    seen: Any = None
    marks: tuple[bool, ...] = ()  # position by position, whether it was right
    axis: str = ""  # what the positions are: "step"
    first: int = 0  # the number of the first position


def held(key: str, fact: str, note: str = "") -> Finding:
    """A finding that holds."""
    return Finding(True, key, fact, note=note)
