"""What commands say on systems where a class cannot be graded."""

from __future__ import annotations

import sys
from importlib.util import find_spec

from autograde.sandbox.tiers import NoSandbox, insist_on_linux


def is_elsewhere(command: str) -> bool:
    """Say so where this is not Linux or lacks nbgrader, before anything is imported that exists only there."""
    try:
        insist_on_linux()
    except NoSandbox as error:
        print(f"{command}: {error}", file=sys.stderr)
        return True
    return lacks_nbgrader(command)


def lacks_nbgrader(command: str) -> bool:
    """Say so where nbgrader is not installed, and how it is."""
    if find_spec("nbgrader") is None:
        print(f"{command}: needs nbgrader: pip install 'kvcache-course[grading]'", file=sys.stderr)
        return True
    return False
