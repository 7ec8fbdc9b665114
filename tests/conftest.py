"""For all tests: exercises in PyTorch are skipped where it is missing, and say so."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from autograde.exercise import Exercise

HAS_TORCH = find_spec("torch") is not None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that is given an exercise whose work gets tensors needs torch."""
    if HAS_TORCH:
        return
    for item in items:
        given = getattr(item, "callspec", None)
        if given and any(isinstance(value, Exercise) and value.tensors for value in given.params.values()):
            item.add_marker(pytest.mark.skip(reason="torch is missing: see `make torch`"))
