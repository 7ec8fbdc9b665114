"""What a notebook gets when it imports `autograde` while it is graded: the same names, and no checks.

The checks run in another process. This file takes the place of the package's `__init__.py` in the sandbox.
"""

from typing import Any


def check(exercise_id: str, work: Any = None, **options: Any) -> None:
    """Checks are run by the grader, outside."""
    print(f"check({exercise_id!r}) is run by the grader; a check in a cell of your own is not run again.")


def hint(*args: Any, **options: Any) -> None:
    """Hints are for learning."""


def progress(*args: Any, **options: Any) -> None:
    """A machine that grades keeps no progress."""


def passed(exercise_id: str) -> bool:
    """Nobody knows in here."""
    return False


def mine_or(exercise_id: str, fallback: Any) -> Any:
    """Experiments run on kvlib's own code while a notebook is graded."""
    return fallback


def reset(exercise_id: str) -> None:
    """Templates are for learning."""
