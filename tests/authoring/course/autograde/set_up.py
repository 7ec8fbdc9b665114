"""A stand-in for what the set-up cell calls."""

from __future__ import annotations


def set_up(*packages: str) -> None:
    """Say what a lesson needs."""
    print("needs", *packages)
