"""Checks for learners' caches: what is wrong, at which position, and which mistake it looks like.

`check("1.3")` checks an exercise, `hint("1.3")` gives a hint, `progress()` tells what passes, `passed("1.3")` whether
one does, `mine_or` picks the learner's own work for an experiment once it passes, and `reset("1.3")` brings the
exercise's template back.
"""

from autograde.check import check, mine_or, passed
from autograde.hints import hint
from autograde.progress import progress
from autograde.reset import reset

__all__ = ["check", "hint", "mine_or", "passed", "progress", "reset"]
