"""Fills new memory with NaN while work is checked, so that reading what nobody wrote is the same mistake every time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any

import numpy as np

MAKERS = ("empty", "empty_like", "empty_strided", "empty_permuted")  # of torch


@contextmanager
def poisoned_memory() -> Iterator[None]:
    """Make `np.empty`, `torch.empty` and their like give NaN where they would give whatever lay in memory."""
    with ExitStack() as stack:
        for name in ("empty", "empty_like"):
            _replace(stack, np, name, _fill_array)
        if "torch" in sys.modules:
            torch = sys.modules["torch"]
            for name in MAKERS:
                _replace(stack, torch, name, _fill_tensor)
            for name in ("new_empty", "new_empty_strided"):
                _replace(stack, torch.Tensor, name, _fill_tensor)
        yield


def _replace(stack: ExitStack, owner: Any, name: str, fill: Callable[[Any], None]) -> None:
    """Put the poisoned function in the place of the plain one, until the stack is left."""
    plain, is_own = getattr(owner, name), name in vars(owner)
    setattr(owner, name, _poisoned(plain, fill))
    # torch.Tensor inherits its methods: what it did not have must not stay on it.
    stack.callback(setattr, owner, name, plain) if is_own else stack.callback(delattr, owner, name)


def _poisoned(make: Callable[..., Any], fill: Callable[[Any], None]) -> Callable[..., Any]:
    @wraps(make)
    def empty(*args: Any, **kwargs: Any) -> Any:
        made = make(*args, **kwargs)
        fill(made)
        return made

    return empty


def _fill_array(array: np.ndarray) -> None:
    if array.dtype.kind == "f":
        array.fill(np.nan)


def _fill_tensor(tensor: Any) -> None:
    if tensor.is_floating_point():
        tensor.fill_(float("nan"))
