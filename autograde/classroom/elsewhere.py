"""What commands say on systems where a class cannot be graded."""

from __future__ import annotations

import sys

from autograde.sandbox.tiers import NoSandbox, insist_on_linux


def is_elsewhere(command: str) -> bool:
    """Say so where this is not Linux, before anything is imported that exists only there."""
    try:
        insist_on_linux()
    except NoSandbox as error:
        print(f"{command}: {error}", file=sys.stderr)
        return True
    return False
