"""For all tests: those of exercises and lessons in PyTorch are skipped where it is missing, and say so."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest

from autograde.exercise import Exercise
from autograde.exercises import load
from autograde.lazy import Later
from autograde.lessons import Lesson

HAS_TORCH = find_spec("torch") is not None


def needs_torch(value: Any) -> bool:
    """Whether a test's parameter is an exercise or a lesson that cannot do without torch, or the name of one."""
    if isinstance(value, str) and value in load():
        value = load()[value]
    if isinstance(value, Lesson):
        return any(needs_torch(exercise) for exercise in value.exercises)
    return isinstance(value, Exercise) and (value.tensors not in (False, "tiles") or isinstance(value.reference, Later))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what cannot run."""
    if HAS_TORCH:
        return
    for item in items:
        given = getattr(item, "callspec", None)
        if given and any(map(needs_torch, given.params.values())):
            item.add_marker(pytest.mark.skip(reason="torch is missing: see `make torch`"))


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Tests run beside each other; torch's threads of one would wait for those of another, five times as long."""
    if not HAS_TORCH:
        yield
        return
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
