"""What has to be known to grade one submission, anywhere: no path, no secret, nothing of any other student.

This and what grades it import nothing of nbgrader's, which takes seconds and is not needed where only jobs are run.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib import metadata
from pathlib import Path

from autograde.sandbox.limits import Limits

PACKAGE = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class JobCell:
    """A code cell: what the worker executes, or an exercise that the judge checks in its place."""

    id: str
    name: str  # what notes call it
    source: str = ""
    exercise: str = ""
    grade_id: str = ""
    points: float = 0.0
    students: bool = False
    left_out: str = ""  # why it is not run


@dataclass(frozen=True)
class Job:
    """One submission: its code cells up to the last check, and how they are to be run."""

    student: str
    lesson: str
    cells: tuple[JobCell, ...]
    seeds: dict[str, str]  # by exercise: they follow from the course's secret, the student and the exercise
    tier: str
    limits: Limits = field(default_factory=Limits)
    refused: str = ""  # why nothing of it is run
    preload: tuple[str, ...] = ()  # what the lesson imports that takes long to

    @property
    def key(self) -> str:
        """Stands for everything that the result depends on: the same key, the same result."""
        content = asdict(self) | {"grader": grader_version()}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


@cache
def grader_version() -> str:
    """A digest of the checks, the reference and what runs them, with the versions of what they stand on."""
    digest = hashlib.sha256()
    for name in ("numpy", "ipython"):
        digest.update(f"{name} {metadata.version(name)}\n".encode())
    for package in (PACKAGE, PACKAGE.parent / "kvlib"):
        for path in sorted(package.rglob("*.py")):
            digest.update(path.relative_to(package.parent).as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()
